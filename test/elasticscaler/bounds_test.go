package elasticscaler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/lab/faulty"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
)

// between is an instant scaler of one metric between bounds.
func between(w *estest.World, s *faulty.Server, least, most int32) *v1alpha1.ElasticScaler {
	scaler := estest.Instant(w.Scaler(estest.Metrics("", metric(s, "queue"))))
	scaler.Spec.MinReplicas, scaler.Spec.MaxReplicas = &least, &most
	return scaler
}

// A count is clamped to the bounds, also to new ones, and says so.
func TestTheBoundsHold(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server := w.Server(faulty.Options{})
	tell(server, "queue", "900")
	w.CreateTarget(3)
	counts := w.Record()
	w.Create(between(w, server, 2, 5))
	counts.Wait(3, 5)
	w.Event("Normal", v1alpha1.ReasonScaled, "from 3 to 5", "6 is above maxReplicas, which is 5")
	w.Condition(v1alpha1.ConditionScalingCalculated, metav1.ConditionTrue, v1alpha1.ReasonMaxReplicas)
	w.Edit(func(s *v1alpha1.ElasticScaler) { s.Spec.MaxReplicas = new(int32(4)) })
	counts.Wait(3, 5, 4)
	w.Event("Normal", v1alpha1.ReasonScaled, "from 5 to 4", "5 is above maxReplicas, which is 4")
	tell(server, "queue", "0")
	counts.Wait(3, 5, 4, 2)
	scaler := w.Condition(v1alpha1.ConditionScalingCalculated, metav1.ConditionTrue, v1alpha1.ReasonMinReplicas)
	if steps := scaler.Status.LastDecision.Steps; !slices.ContainsFunc(steps, func(s v1alpha1.DecisionStep) bool {
		return s.Name == "Bounds" && s.Reason == v1alpha1.ReasonMinReplicas && *s.To == 2
	}) {
		t.Errorf("the steps are %+v, want one of the bounds to 2", steps)
	}
	w.Edit(func(s *v1alpha1.ElasticScaler) { s.Spec.MinReplicas = new(int32(3)) })
	counts.Wait(3, 5, 4, 2, 3)
	w.Until("the bounds in the status", func(s *v1alpha1.ElasticScaler) error {
		if *s.Status.MinReplicas != 3 || *s.Status.MaxReplicas != 4 {
			return fmt.Errorf("they are %d and %d", *s.Status.MinReplicas, *s.Status.MaxReplicas)
		}
		return nil
	})
}

// New bounds hold although the metric is missing.
func TestNewBoundsHoldWithoutData(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server := w.Server(faulty.Options{})
	lose(server, "queue")
	w.CreateTarget(3)
	w.Create(between(w, server, 1, 10))
	w.Condition(v1alpha1.ConditionMetricsCollected, metav1.ConditionFalse, v1alpha1.ReasonNoData)
	w.Edit(func(s *v1alpha1.ElasticScaler) { s.Spec.MinReplicas = new(int32(5)) })
	w.WaitReplicas(5)
	w.Edit(func(s *v1alpha1.ElasticScaler) { s.Spec.MinReplicas, s.Spec.MaxReplicas = nil, new(int32(2)) })
	w.WaitReplicas(2)
}

// Left out, the bounds are 1 and 10, and the status shows them.
func TestTheBoundsHaveDefaults(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server := w.Server(faulty.Options{})
	tell(server, "queue", "900")
	w.CreateTarget(6)
	scaler := between(w, server, 0, 0)
	scaler.Spec.MinReplicas, scaler.Spec.MaxReplicas = nil, nil
	w.Create(scaler)
	w.WaitReplicas(10)
	tell(server, "queue", "0")
	w.WaitReplicas(1)
	live := w.Live()
	if s := live.Status; *s.MinReplicas != 1 || *s.MaxReplicas != 10 || live.Spec.MinReplicas != nil || live.Spec.MaxReplicas != nil {
		t.Errorf("the bounds are %v and %v in the status and %v and %v in the spec, want 1 and 10, and none", s.MinReplicas, s.MaxReplicas, live.Spec.MinReplicas, live.Spec.MaxReplicas)
	}
}

// With a minimum of 0 the target goes to 0 with the load, and comes back with it. At 0 the value is the total.
func TestToZeroAndBack(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server := w.Server(faulty.Options{})
	tell(server, "queue", "40")
	w.CreateTarget(0)
	counts := w.Record()
	w.Create(between(w, server, 0, 10))
	counts.Wait(0, 4)
	tell(server, "queue", "0")
	counts.Wait(0, 4, 2, 1, 0)
	scaler := w.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
	if meta.IsStatusConditionTrue(scaler.Status.Conditions, v1alpha1.ConditionActivationSourceMissing) {
		t.Error("the metric exists without pods, and is said not to")
	}
	lose(server, "queue")
	w.Condition(v1alpha1.ConditionMetricsCollected, metav1.ConditionFalse, v1alpha1.ReasonNoData)
	w.Evaluated(server, 1)
	counts.Wait(0, 4, 2, 1, 0)
	tell(server, "queue", "30")
	counts.Wait(0, 4, 2, 1, 0, 3)
	w.Event("Normal", v1alpha1.ReasonScaled, "from 0 to 3")
}

// At 0 there is no average: what is on record is the total, and no figure comes from a division by 0.
func TestTheValueAtZeroIsTheTotal(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server := w.Server(faulty.Options{})
	tell(server, "queue", "30")
	w.CreateTarget(0)
	scaler := between(w, server, 0, 10)
	scaler.Spec.Paused = new(true)
	w.Create(scaler)
	w.Condition(v1alpha1.ConditionScalingCalculated, metav1.ConditionTrue, v1alpha1.ReasonMetricAboveTarget)
	if in := input(t, w.Live(), "queue"); in.Value != "30" || *in.ProposedReplicas != 3 {
		t.Errorf("the input is %+v, want the total of 30 and a proposal of 3", in)
	}
}

// A target that somebody has set to 0 is switched off, and is left at that; one that the scaler has set to 0 follows a
// new minimum.
func TestWhoSetTheTargetToZero(t *testing.T) {
	t.Parallel()
	t.Run("by hand", func(t *testing.T) {
		t.Parallel()
		w := env.World(t)
		server := w.Server(faulty.Options{})
		tell(server, "queue", "30")
		w.CreateTarget(3)
		counts := w.Record()
		w.Create(between(w, server, 1, 10))
		w.Settled()
		w.ScaleTo(0)
		counts.Wait(3, 0)
		w.Condition(v1alpha1.ConditionScalingCalculated, metav1.ConditionFalse, v1alpha1.ReasonManualZero, "set to 0 by somebody else", "set it to 1 or more")
		tell(server, "queue", "90")
		w.Evaluated(server, 3)
		w.Edit(func(s *v1alpha1.ElasticScaler) { s.Spec.MinReplicas = new(int32(2)) })
		w.Condition(v1alpha1.ConditionScalingCalculated, metav1.ConditionFalse, v1alpha1.ReasonManualZero)
		w.Evaluated(server, 2)
		counts.Wait(3, 0)
		w.ScaleTo(1)
		counts.Wait(3, 0, 1, 2, 4, 8, 9)
	})
	t.Run("by the scaler", func(t *testing.T) {
		t.Parallel()
		w := env.World(t)
		server := w.Server(faulty.Options{})
		tell(server, "queue", "0")
		w.CreateTarget(1)
		counts := w.Record()
		w.Create(between(w, server, 0, 10))
		counts.Wait(1, 0)
		w.Edit(func(s *v1alpha1.ElasticScaler) { s.Spec.MinReplicas = new(int32(2)) })
		counts.Wait(1, 0, 2)
	})
}

// Where every metric vanishes with the last pod nothing starts the target again, which is said at once.
func TestAMetricOfPodsDoesNotStartATarget(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	w.CreateTarget(1)
	utilization := int32(70)
	scaler := w.Scaler(estest.Metrics("", v1alpha1.MetricSpec{Type: v1alpha1.ResourceMetricType, Resource: &v1alpha1.ResourceMetricSource{
		MetricsName: "cpu", Target: v1alpha1.MetricTarget{Type: v1alpha1.UtilizationMetricType, AverageUtilization: &utilization},
	}}))
	scaler.Spec.MinReplicas = new(int32(0))
	w.Create(scaler)
	w.Condition(v1alpha1.ConditionActivationSourceMissing, metav1.ConditionTrue, v1alpha1.ConditionActivationSourceMissing, "nothing would start the target again")
	w.Event("Warning", v1alpha1.ConditionActivationSourceMissing, "set minReplicas to 1")
	w.Edit(func(s *v1alpha1.ElasticScaler) { s.Spec.MinReplicas = new(int32(1)) })
	w.Until("the condition to go", func(s *v1alpha1.ElasticScaler) error {
		if c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionActivationSourceMissing); c != nil && c.Status == metav1.ConditionTrue {
			return errStillThere
		}
		return nil
	})
}

// The behavior of autoscaling/v2 limits the way to a count, and goes before an annotation that says the same, which is told.
func TestTheBehaviorLimitsTheWay(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server := w.Server(faulty.Options{})
	tell(server, "queue", "90")
	w.CreateTarget(3)
	counts := w.Record()
	scaler := between(w, server, 1, 10)
	disabled := autoscalingv2.DisabledPolicySelect
	scaler.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{
		ScaleUp: &autoscalingv2.HPAScalingRules{
			StabilizationWindowSeconds: new(int32(0)),
			Policies:                   []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PodsScalingPolicy, Value: 2, PeriodSeconds: 1800}},
		},
		ScaleDown: &autoscalingv2.HPAScalingRules{SelectPolicy: &disabled},
	}
	metav1.SetMetaDataAnnotation(&scaler.ObjectMeta, "elasticscaler.io/behavior.scaleUp.stabilizationWindowSeconds", "3600")
	w.Create(scaler)
	counts.Wait(3, 5)
	w.Event("Warning", v1alpha1.ReasonValid, "elasticscaler.io/behavior.scaleUp.stabilizationWindowSeconds has no effect", "spec.behavior.scaleUp.stabilizationWindowSeconds is set")
	w.Condition(v1alpha1.ConditionScalingCalculated, metav1.ConditionTrue, v1alpha1.ReasonScaleUpLimit, "behavior.scaleUp allow 5")
	tell(server, "queue", "10")
	w.Condition(v1alpha1.ConditionScalingCalculated, metav1.ConditionTrue, v1alpha1.ReasonScaleDownLimit)
	w.Evaluated(server, 2)
	counts.Wait(3, 5)
	w.Edit(func(s *v1alpha1.ElasticScaler) { s.Spec.Behavior.ScaleDown = nil })
	counts.Wait(3, 5, 2, 1)
}

func TestAnnotationsLimitTheWay(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server := w.Server(faulty.Options{})
	tell(server, "queue", "50")
	w.CreateTarget(3)
	counts := w.Record()
	scaler := between(w, server, 1, 10)
	metav1.SetMetaDataAnnotation(&scaler.ObjectMeta, "elasticscaler.io/behavior.scaleUp.maxPodsPerStep", "1")
	metav1.SetMetaDataAnnotation(&scaler.ObjectMeta, "elasticscaler.io/behavior.scaleDown.stabilizationWindowSeconds", "3600")
	w.Create(scaler)
	counts.Wait(3, 4, 5)
	tell(server, "queue", "10")
	w.Condition(v1alpha1.ConditionScalingCalculated, metav1.ConditionTrue, v1alpha1.ReasonScaleDownStabilized, "for 1h0m0s")
	w.Evaluated(server, 2)
	counts.Wait(3, 4, 5)
	// Another value of the annotation holds from the next evaluation on.
	w.Edit(func(s *v1alpha1.ElasticScaler) {
		s.Annotations["elasticscaler.io/behavior.scaleDown.stabilizationWindowSeconds"] = "1"
	})
	counts.Wait(3, 4, 5, 2, 1)
}

// A count must have been recommended for the whole of a window before the target shrinks to it.
func TestAWindowMustPassBeforeTheTargetShrinks(t *testing.T) {
	t.Parallel()
	const window = 6 * time.Second
	w := env.World(t)
	server := w.Server(faulty.Options{})
	tell(server, "queue", "40")
	w.CreateTarget(4)
	counts := w.Record()
	scaler := between(w, server, 1, 10)
	scaler.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: new(int32(window / time.Second))}}
	w.Create(scaler)
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
	w.Evaluated(server, 2)
	told := time.Now()
	tell(server, "queue", "20")
	counts.Wait(4, 2)
	// The last evaluation that wanted four may have been up to an interval earlier.
	if after := time.Since(told); after < window-1500*time.Millisecond {
		t.Errorf("the target shrank %s after the load did, want a window of %s", after, window)
	}
}

func TestAPausedScalerWritesNothing(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server := w.Server(faulty.Options{})
	tell(server, "queue", "60")
	w.CreateTarget(3)
	counts := w.Record()
	scaler := between(w, server, 1, 10)
	scaler.Spec.Paused = new(true)
	w.Create(scaler)
	w.Condition(v1alpha1.ConditionPaused, metav1.ConditionTrue, v1alpha1.ReasonPaused)
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonPaused)
	w.Condition(v1alpha1.ConditionReconciliationComplete, metav1.ConditionFalse, v1alpha1.ReasonPaused)
	w.ScaleTo(4)
	w.Until("the status to show what would be", func(s *v1alpha1.ElasticScaler) error {
		if s.Status.DesiredReplicas == nil || *s.Status.DesiredReplicas != 6 || *s.Status.CurrentReplicas != 4 {
			return errNotYet
		}
		return nil
	})
	w.Evaluated(server, 2)
	counts.Wait(3, 4)
	if events, err := w.Events(t.Context()); err != nil || slices.ContainsFunc(events, func(e eventsv1.Event) bool { return e.Type == "Warning" }) {
		t.Errorf("there are warnings about a scaler that is as its user wants it: %v (%v)", events, err)
	}
	w.Edit(func(s *v1alpha1.ElasticScaler) { s.Spec.Paused = nil })
	counts.Wait(3, 4, 6)
	w.Condition(v1alpha1.ConditionPaused, metav1.ConditionFalse, v1alpha1.ReasonNotPaused)
}

// A fraction of the target in a query counts as such: quantities are not rounded to whole numbers.
func TestTargetsMayBeFractions(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server := w.Server(faulty.Options{})
	tell(server, "ratio", "1.5")
	w.CreateTarget(2)
	m := metric(server, "ratio")
	half := resource.MustParse("500m")
	m.ExternalServer.Target = &half
	w.Create(estest.Instant(w.Scaler(estest.Metrics("", m))))
	w.WaitReplicas(3)
	scaler := w.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
	if in := input(t, scaler, "ratio"); in.Target != "0.5" {
		t.Errorf("the target is shown as %s, want 0.5", in.Target)
	}
}
