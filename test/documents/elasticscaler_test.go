package documents

import (
	"context"
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
)

const (
	hpaExample   = "../elasticscaler/testdata/document/hpa.yaml"
	stateExample = "../elasticscaler/testdata/document/state.yaml"
)

// inference is the Deployment of the document's examples: each pod uses as much of its CPU as the HPA aims at.
func inference(namespace string) *appsv1.Deployment {
	d := testkit.MakeDeployment(namespace, "vllm-inference").Replicas(2).Obj()
	d.Spec.Template.Annotations = map[string]string{"lab.pd-orchestrator.io/cpu": "700m"}
	d.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	return d
}

// A scaler by CPU, and one that takes the count of a Tidal, from the first look to switching both off and on again.
func TestElasticScaler(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	names := strings.NewReplacer("ai-inference", w.Namespace,
		// One rule in force at all hours, so that the count is the same whenever the test runs.
		"replicas: 5", "replicas: 3")
	w.Create(inference(w.Namespace), testkit.MakeDeployment(w.Namespace, "elastic-scaler-state-test").Replicas(1).Obj())
	apply(w, names, hpaExample, stateExample)
	enabled := func() {
		t.Helper()
		getShows(w, "/apis/elasticscaler.io/v1alpha1/namespaces/"+w.Namespace+"/elasticscalers",
			"Name|Target|Trigger|Min|Max|Current|Desired|Ready",
			"hpa-scaling-example|vllm-inference|MetricsTrigger|2|10|2|2|True",
			"state-scaling-example|tidal-frequent-test|StateTrigger|||3|3|True")
	}

	t.Log("view the scaling policies")
	enabled()

	t.Log("view one in detail")
	w.Name = "hpa-scaling-example"
	w.Condition(v1alpha1.ConditionMetricsCollected, metav1.ConditionTrue, "ValidMetricFound", "HorizontalPodAutoscaler: ", "cpu")
	w.Name = "state-scaling-example"
	decision := w.Live().Status.LastDecision
	if decision == nil || *decision.DesiredReplicas != 3 || len(decision.Inputs) != 1 ||
		decision.Inputs[0].Name != "Tidal "+w.Namespace+"/tidal-frequent-test" || decision.Inputs[0].ProposedReplicas == nil || *decision.Inputs[0].ProposedReplicas != 3 {
		t.Errorf("the decision is %+v, want 3 replicas from the Tidal", decision)
	}

	t.Log("view the events of scaling")
	const scaled = "elastic-scaler-state-test scaled from 1 to 3 replicas: Tidal "
	eventsHold(w, "ElasticScaler", "state-scaling-example", "Scaled", scaled)
	eventsHold(w, "ElasticScaler", "hpa-scaling-example", "Reconciled", "HorizontalPodAutoscaler hpa-scaling-example is created")

	t.Log("view the controller's log: where the count came from, and why")
	logHolds(w, "elasticscaler", `"msg":"Scaled"`, `"name":"state-scaling-example"`, w.Namespace+"/elastic-scaler-state-test", `"from":1,"to":3`, "tidal-frequent-test wants 3 replicas")

	t.Log("disable by deleting: what was created goes, and the counts stay")
	for _, name := range []string{"hpa-scaling-example", "state-scaling-example"} {
		if err := w.Client.Delete(t.Context(), &v1alpha1.ElasticScaler{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, estest.Patience, "the HPA to be gone", func(ctx context.Context) error {
		err := w.Client.Get(ctx, types.NamespacedName{Namespace: w.Namespace, Name: "hpa-scaling-example"}, &autoscalingv2.HorizontalPodAutoscaler{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is there"), err)
	})
	getShows(w, "/apis/elasticscaler.io/v1alpha1/namespaces/"+w.Namespace+"/elasticscalers", "Name|Target|Trigger|Min|Max|Current|Desired|Ready")
	w.Name = "elastic-scaler-state-test"
	w.ScaleTo(1)
	w.KeepsReplicas(1)
	w.Name = "vllm-inference"
	w.WaitReplicas(2)

	t.Log("enable by creating")
	apply(w, names, hpaExample, stateExample)
	enabled()
	w.Name = "elastic-scaler-state-test"
	w.WaitReplicas(3)
}
