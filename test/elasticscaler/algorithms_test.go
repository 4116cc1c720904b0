package elasticscaler

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/lab/faulty"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
)

// with makes a scaler use an algorithm with settings.
func with(algorithm string, settings map[string]v1alpha1.ConfigValue) func(*v1alpha1.ElasticScaler) {
	return func(s *v1alpha1.ElasticScaler) {
		s.Spec.Trigger.MetricsTrigger.ScalingAlgorithm, s.Spec.Trigger.MetricsTrigger.AlgorithmConfig = algorithm, settings
	}
}

// Algorithms and their settings may change while a scaler runs. Names are matched without regard to case, and the status
// has the name as it is registered.
func TestAlgorithmsAndTheirSettings(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server := w.Server(faulty.Options{})
	tell(server, "queue", "80")
	tell(server, "tokens", "30")
	w.CreateTarget(2)
	counts := w.Record()
	scaler := estest.Instant(w.Scaler(estest.Metrics("", metric(server, "queue"), metric(server, "tokens"))))
	with("apa", map[string]v1alpha1.ConfigValue{"maxScaleUpRate": "1.5"})(scaler)
	w.Create(scaler)
	counts.Wait(2, 3, 5, 8)
	w.Edit(with("cel", map[string]v1alpha1.ConfigValue{"expression": `(metrics["queue"].value + metrics["tokens"].value) * double(replicas) / 22.0`}))
	// 110 in all.
	counts.Wait(2, 3, 5, 8, 5)
	w.Until("the status to name the algorithm as it is registered", func(s *v1alpha1.ElasticScaler) error {
		if d := s.Status.LastDecision; d.Algorithm != "CEL" {
			return fmt.Errorf("it names %q", d.Algorithm)
		}
		return nil
	})
	// An expression that fails at run time leaves the count as it is.
	w.Edit(with("CEL", map[string]v1alpha1.ConfigValue{"expression": `metrics["queue"].value / (metrics["tokens"].target - 10.0)`}))
	w.Condition(v1alpha1.ConditionScalingCalculated, metav1.ConditionFalse, v1alpha1.ReasonAlgorithmFailed)
	w.Event("Warning", v1alpha1.ReasonAlgorithmFailed)
	w.Evaluated(server, 2)
	counts.Wait(2, 3, 5, 8, 5)
	// Without admission a setting that cannot be used is found by the controller.
	w.Edit(with("APA", map[string]v1alpha1.ConfigValue{"maxScaleUpRate": "0.5"}))
	w.Condition(v1alpha1.ConditionValidated, metav1.ConditionFalse, v1alpha1.ReasonInvalidSpec, "maxScaleUpRate")
	w.Event("Warning", v1alpha1.ReasonInvalidSpec, "maxScaleUpRate")
	counts.Wait(2, 3, 5, 8, 5)
	w.Edit(with("", nil))
	counts.Wait(2, 3, 5, 8, 5, 8)
}

// KPA answers a burst by its panic window, and comes back only when that is over.
func TestKPAPanics(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server := w.Server(faulty.Options{})
	tell(server, "concurrency", "10")
	w.CreateTarget(1)
	counts := w.Record()
	scaler := w.Scaler(estest.Metrics("KPA", metric(server, "concurrency")))
	with("KPA", map[string]v1alpha1.ConfigValue{"stableWindowSeconds": "10"})(scaler)
	estest.Instant(scaler)
	delete(scaler.Annotations, "elasticscaler.io/metrics.windowSeconds")
	w.Create(scaler)
	w.Evaluated(server, 3)
	counts.Wait(1)
	began := time.Now()
	tell(server, "concurrency", "80")
	w.WaitReplicas(8)
	w.Event("Normal", v1alpha1.ReasonScaled, "to 8")
	tell(server, "concurrency", "10")
	w.WaitReplicas(1)
	if after := time.Since(began); after < 10*time.Second {
		t.Errorf("the target shrank %s after the burst, want a stable window of 10 s at least", after)
	}
}

// A sample that is older than usual is good where the metric says so.
func TestAMetricMayBeOld(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server := w.Server(faulty.Options{})
	server.AnswerQuery(sumOf("batches"), faulty.Vector(faulty.Series{Value: "40", Age: 6 * time.Minute}))
	w.CreateTarget(2)
	m := metric(server, "batches")
	m.MaxAgeSeconds = new(int32(3600))
	w.Create(estest.Instant(w.Scaler(estest.Metrics("", m))))
	w.WaitReplicas(4)
	scaler := w.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
	if in := input(t, scaler, "batches"); in.Time == nil || time.Since(in.Time.Time) < 5*time.Minute {
		t.Errorf("the time of the sample is shown as %v, want that of the source", in.Time)
	}
}
