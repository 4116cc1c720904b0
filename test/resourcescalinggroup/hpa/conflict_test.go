package hpa

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/test/resourcescalinggroup/rsgtest"
)

// Two HPAs on one ResourceScalingGroup stop each other. The ResourceScalingGroup names both, and when one goes it says
// so and follows the other.
func TestTwoHPAsOnTheGroups(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm").OneNamespace()
	w.CreateBase(1, 1)
	w.Create(w.RSG().Replicas(2).Obj())
	w.Settled(2)
	external.Set(w.Namespace, "queue_length", "40")
	w.Create(makeHPA(w, "first", groups(w), 1, 2, externalAverage("queue_length", "10")))
	waitLooked(w, "first")
	w.NoCondition(v1alpha1.ConditionScalerConflict)
	w.Create(makeHPA(w, "second", groups(w), 1, 4, externalAverage("queue_length", "10")))
	w.Condition(v1alpha1.ConditionScalerConflict, metav1.ConditionTrue, v1alpha1.ReasonScalerConflict,
		fmt.Sprintf("HorizontalPodAutoscaler %s/first", w.Namespace), fmt.Sprintf("HorizontalPodAutoscaler %s/second", w.Namespace))
	for _, name := range []string{"first", "second"} {
		waitHPA(w, name, name+" to stop", ambiguous)
	}
	w.Delete(&autoscalingv2.HorizontalPodAutoscaler{}, w.Namespace, "first")
	w.NoCondition(v1alpha1.ConditionScalerConflict)
	w.Settled(4)
}

// An HPA on the user's own workload goes by labels that the clones beside it have too. Beside an HPA on the groups both
// stop.
func TestHPAOnTheBase(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm").OneNamespace()
	w.CreateBase(1, 1)
	w.Create(w.RSG().Replicas(1).Obj())
	w.Settled(1)
	w.Create(makeHPA(w, "prefill", deployment("llm-prefill"), 1, 3, cpuUtilization(100)))
	waitLooked(w, "prefill")
	// Without a clone nobody else has its labels.
	w.NoCondition(v1alpha1.ConditionSelectorOverlap)
	w.ScaleTo(2)
	w.Settled(2)
	on := fmt.Sprintf("HorizontalPodAutoscaler %s/prefill on llm-prefill", w.Namespace)
	w.Condition(v1alpha1.ConditionSelectorOverlap, metav1.ConditionTrue, v1alpha1.ReasonSharedLabels, on)
	w.NoCondition(v1alpha1.ConditionScalerConflict)

	w.Create(makeHPA(w, "llm", groups(w), 1, 3, cpuUtilization(100)))
	for _, name := range []string{"prefill", "llm"} {
		waitHPA(w, name, name+" to stop", ambiguous)
	}
	w.Condition(v1alpha1.ConditionSelectorOverlap, metav1.ConditionTrue, v1alpha1.ReasonSharedLabels, on, "AmbiguousSelector")
	w.Delete(&autoscalingv2.HorizontalPodAutoscaler{}, w.Namespace, "prefill")
	w.NoCondition(v1alpha1.ConditionSelectorOverlap)
	waitHPA(w, "llm", "the HPA on the groups to work", func(hpa *autoscalingv2.HorizontalPodAutoscaler) error {
		return hasCondition(hpa, autoscalingv2.ScalingActive, corev1.ConditionTrue, "ValidMetricFound")
	})
}

// ambiguous returns nil when the HPA has stopped, since the pods that it selects are those of another HPA as well.
func ambiguous(hpa *autoscalingv2.HorizontalPodAutoscaler) error {
	return hasCondition(hpa, autoscalingv2.ScalingActive, corev1.ConditionFalse, "AmbiguousSelector")
}

// A follower that an HPA scales is left to it, and is brought to its count when the HPA goes.
func TestHPAOnAFollower(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm").OneNamespace()
	w.CreateBase(2, 1)
	leader := int32(2)
	rsg := testkit.MakeRSG(w.Namespace, w.Name).Target("prefill", w.Base, "llm-prefill").Target("decode", w.Base, "llm-decode").Obj()
	rsg.Spec.ScalingStrategy = v1alpha1.ScalingStrategy{
		Type: v1alpha1.InplaceScaling,
		LeaderFollowerConfig: &v1alpha1.LeaderFollowerConfig{
			Leader:   v1alpha1.Leader{ResourceName: "prefill", Replicas: &leader},
			Follower: []v1alpha1.Follower{{ResourceName: "decode", FollowRatio: intstr.FromInt32(1)}},
		},
	}
	w.Create(rsg)
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
	waitReplicas(w, "llm-decode", 2)
	w.NoCondition(v1alpha1.ConditionScalerConflict)

	// Its minimum is more than the leader's count, so the HPA raises the follower whatever the metric says.
	w.Create(makeHPA(w, "decode", deployment("llm-decode"), 5, 6, cpuUtilization(100)))
	waitReplicas(w, "llm-decode", 5)
	by := fmt.Sprintf("HorizontalPodAutoscaler %s/decode", w.Namespace)
	w.Condition(v1alpha1.ConditionScalerConflict, metav1.ConditionTrue, v1alpha1.ReasonScalerConflict, by, "llm-decode")
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonScalerConflict, by)

	// The leader is still driven, and the follower still is not.
	three := int32(3)
	w.Edit(func(rsg *v1alpha1.ResourceScalingGroup) {
		rsg.Spec.ScalingStrategy.LeaderFollowerConfig.Leader.Replicas = &three
	})
	waitReplicas(w, "llm-prefill", 3)
	w.Condition(v1alpha1.ConditionScalerConflict, metav1.ConditionTrue, v1alpha1.ReasonScalerConflict, by)
	testkit.Consistently(t, 2*syncPeriod, "the follower is left to the HPA", func(ctx context.Context) error {
		return hasReplicas(ctx, w, "llm-decode", 5)
	})

	w.Delete(&autoscalingv2.HorizontalPodAutoscaler{}, w.Namespace, "decode")
	waitReplicas(w, "llm-decode", 3)
	w.NoCondition(v1alpha1.ConditionScalerConflict)
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
}

func waitReplicas(w *rsgtest.World, name string, want int32) {
	w.T.Helper()
	testkit.Eventually(w.T, rsgtest.Patience, fmt.Sprintf("%s to have %d replicas", name, want), func(ctx context.Context) error {
		return hasReplicas(ctx, w, name, want)
	})
}

func hasReplicas(ctx context.Context, w *rsgtest.World, name string, want int32) error {
	d := &appsv1.Deployment{}
	if err := w.Client.Get(ctx, types.NamespacedName{Namespace: w.Namespace, Name: name}, d); err != nil {
		return err
	}
	if *d.Spec.Replicas != want {
		return fmt.Errorf("it has %d", *d.Spec.Replicas)
	}
	return nil
}
