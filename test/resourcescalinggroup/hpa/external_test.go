package hpa

import (
	"fmt"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
)

// An external metric counts no pods, so it scales groups also where the user's own workloads are in another namespace,
// which is what condition Scalable advises there.
func TestGroupsScaleByAnExternalMetric(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm")
	w.CreateBase(2, 1)
	w.Create(w.RSG().Replicas(1).Obj())
	w.Settled(1)
	w.Condition(v1alpha1.ConditionScalable, metav1.ConditionFalse, v1alpha1.ReasonBaseInOtherNamespace, "External")

	external.Set(w.Namespace, "queue_length", "30")
	seen := recordCounts(w)
	hpa := makeHPA(w, "llm", groups(w), 1, 5, externalAverage("queue_length", "10"))
	atOnce := int32(0)
	hpa.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: &atOnce}}
	w.Create(hpa)
	seen.wait(1, 3)
	w.Settled(3)
	external.Set(w.Namespace, "queue_length", "200")
	seen.wait(1, 3, 5)
	w.Settled(5)
	external.Set(w.Namespace, "queue_length", "15")
	seen.wait(1, 3, 5, 2)
	w.Settled(2)
	w.HasGroups(map[int32][2]int32{0: {2, 1}, 1: {2, 1}})
	waitHPA(w, "llm", "the HPA controller to count two groups", func(hpa *autoscalingv2.HorizontalPodAutoscaler) error {
		if hpa.Status.CurrentReplicas != 2 || hpa.Status.DesiredReplicas != 2 {
			return fmt.Errorf("it counts %d groups and wants %d", hpa.Status.CurrentReplicas, hpa.Status.DesiredReplicas)
		}
		return hasCondition(hpa, autoscalingv2.ScalingActive, corev1.ConditionTrue, "ValidMetricFound")
	})
}

// externalAverage is a target per group.
func externalAverage(metric, target string) autoscalingv2.MetricSpec {
	quantity := resource.MustParse(target)
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: metric},
		Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: &quantity},
	}}
}
