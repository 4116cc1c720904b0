package elasticscaler

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/lab/faulty"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
)

// A metric above its target raises the count, one below lowers it, each with its reason in the status and an event.
func TestTheCountFollowsAMetric(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server := w.Server(faulty.Options{})
	server.Answer(faulty.Scalar("40"))
	w.CreateTarget(2)
	w.Create(estest.Instant(w.Scaler(estest.Metrics("", estest.Query(server.URL(), "queue", "scalar(queue)", "10")))))
	w.WaitReplicas(4)
	w.Event("Normal", v1alpha1.ReasonScaled, "from 2 to 4")
	scaler := w.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
	if d := scaler.Status.LastDecision; d == nil || d.Algorithm != "APA" || len(d.Inputs) != 1 || d.Inputs[0].Name != "queue" {
		t.Errorf("lastDecision is %+v, want that of APA on metric queue", d)
	}
	server.Answer(faulty.Scalar("10"))
	// APA lowers the count to half at a time.
	w.WaitReplicas(1)
}
