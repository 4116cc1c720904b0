package resourcescalinggroup

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	elasticscalerv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	tidalv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/test/resourcescalinggroup/rsgtest"
)

// elasticScaler returns an ElasticScaler that no state drives, so that it writes nothing whoever has the right to.
func elasticScaler(w *rsgtest.World, name, apiVersion, kind, target string) *elasticscalerv1alpha1.ElasticScaler {
	return &elasticscalerv1alpha1.ElasticScaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name},
		Spec: elasticscalerv1alpha1.ElasticScalerSpec{
			TargetRef: elasticscalerv1alpha1.TargetReference{APIVersion: apiVersion, Kind: kind, Name: target},
			Trigger:   elasticscalerv1alpha1.Trigger{Type: elasticscalerv1alpha1.StateTriggerType},
		},
	}
}

// An HPA and an ElasticScaler set the number of groups: the ResourceScalingGroup names both until one of them goes. The
// reference may leave the group out and write the kind in any case.
func TestElasticScalerBesideAnHPA(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm").OneNamespace()
	w.CreateBase(1, 1)
	w.Create(w.RSG().Replicas(2).Obj())
	w.Settled(2)
	w.Create(elasticScaler(w, "first", "", "resourcescalinggroup", w.Name))
	w.Create(&autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "second"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ResourceScalingGroup", Name: w.Name},
			MinReplicas:    ptr.To[int32](2), MaxReplicas: 2,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](80)},
			}}},
		},
	})
	w.Condition(v1alpha1.ConditionScalerConflict, metav1.ConditionTrue, v1alpha1.ReasonScalerConflict,
		fmt.Sprintf("ElasticScaler %s/first and by HorizontalPodAutoscaler %s/second", w.Namespace, w.Namespace))
	w.Delete(&autoscalingv2.HorizontalPodAutoscaler{}, w.Namespace, "second")
	w.NoCondition(v1alpha1.ConditionScalerConflict)
}

// An ElasticScaler that names a Tidal scales what the Tidal names.
func TestElasticScalerByWayOfATidal(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm").OneNamespace()
	w.CreateBase(1, 1)
	w.Create(w.RSG().Replicas(2).Obj())
	w.Settled(2)
	tidal := &tidalv1alpha1.Tidal{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "tide", Labels: map[string]string{
			elasticscalerv1alpha1.LabelScalerName: "by-tide", elasticscalerv1alpha1.LabelScalerNamespace: w.Namespace,
		}},
		Spec: tidalv1alpha1.TidalSpec{
			TargetRef: tidalv1alpha1.TargetReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ResourceScalingGroup", Namespace: w.Namespace, Name: w.Name},
			Triggers:  tidalv1alpha1.Triggers{Times: tidalv1alpha1.TimeTrigger{Rules: []tidalv1alpha1.TimeRule{{Name: "new-year", Cron: "0 0 1 1 *", Replicas: ptr.To[int32](2)}}}},
		},
	}
	w.Create(tidal, elasticScaler(w, "by-tide", "", "Tidal", "tide"))
	w.NoCondition(v1alpha1.ConditionScalerConflict)
	w.Create(elasticScaler(w, "direct", v1alpha1.GroupVersion.String(), "ResourceScalingGroup", w.Name))
	w.Condition(v1alpha1.ConditionScalerConflict, metav1.ConditionTrue, v1alpha1.ReasonScalerConflict,
		fmt.Sprintf("ElasticScaler %s/by-tide and by ElasticScaler %s/direct", w.Namespace, w.Namespace))
	w.Delete(&tidalv1alpha1.Tidal{}, w.Namespace, "tide")
	w.NoCondition(v1alpha1.ConditionScalerConflict)
}

// follower makes a ResourceScalingGroup whose worker follows the scheduler one to one.
func follower(w *rsgtest.World) *v1alpha1.ResourceScalingGroup {
	rsg := testkit.MakeRSG(w.Namespace, w.Name).Target("scheduler", "", "scheduler").Target("worker", "", "worker").Obj()
	rsg.Spec.ScalingStrategy = v1alpha1.ScalingStrategy{Type: v1alpha1.InplaceScaling, LeaderFollowerConfig: &v1alpha1.LeaderFollowerConfig{
		Leader:   v1alpha1.Leader{ResourceName: "scheduler"},
		Follower: []v1alpha1.Follower{{ResourceName: "worker", FollowRatio: intstr.FromInt32(1)}},
	}}
	return rsg
}

func waitReplicas(w *rsgtest.World, name string, want int32) {
	w.T.Helper()
	testkit.Eventually(w.T, rsgtest.Patience, fmt.Sprintf("%s to have %d replicas", name, want), func(ctx context.Context) error {
		d := &appsv1.Deployment{}
		if err := w.Exists(ctx, d, w.Namespace, name); err != nil {
			return err
		}
		if *d.Spec.Replicas != want {
			return fmt.Errorf("it has %d", *d.Spec.Replicas)
		}
		return nil
	})
}

// Of an ElasticScaler and a ResourceScalingGroup that both set the count of a follower the older has it. The other resumes
// when that one is paused or gone.
func TestElasticScalerOnAFollower(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm").OneNamespace()
	w.Create(testkit.MakeDeployment(w.Namespace, "scheduler").Obj(), testkit.MakeDeployment(w.Namespace, "worker").Obj())
	// Ages are in seconds; of two of one age the first by name is the older.
	w.Create(elasticScaler(w, "a-older", "apps/v1", "Deployment", "worker"), follower(w))
	conflict := []string{"worker", fmt.Sprintf("ElasticScaler %s/a-older", w.Namespace)}
	w.Condition(v1alpha1.ConditionScalerConflict, metav1.ConditionTrue, v1alpha1.ReasonScalerConflict, conflict...)
	scaleDeployment(w, w.Namespace, "scheduler", 3)
	testkit.Consistently(t, 2*time.Second, "the follower is left to the ElasticScaler", func(context.Context) error {
		if n := w.Workloads()["worker"]; n != 1 {
			return fmt.Errorf("it has %d replicas", n)
		}
		return nil
	})

	pause := func(paused bool) {
		rsgtest.Update(w, &elasticscalerv1alpha1.ElasticScaler{}, w.Namespace, "a-older", func(s *elasticscalerv1alpha1.ElasticScaler) { s.Spec.Paused = &paused })
	}
	pause(true)
	w.NoCondition(v1alpha1.ConditionScalerConflict)
	waitReplicas(w, "worker", 3)
	pause(false)
	w.Condition(v1alpha1.ConditionScalerConflict, metav1.ConditionTrue, v1alpha1.ReasonScalerConflict, conflict...)

	w.Delete(&elasticscalerv1alpha1.ElasticScaler{}, w.Namespace, "a-older")
	w.NoCondition(v1alpha1.ConditionScalerConflict)
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
	younger := elasticScaler(w, "z-younger", "apps/v1", "Deployment", "worker")
	w.Create(younger)
	scaleDeployment(w, w.Namespace, "scheduler", 2)
	waitReplicas(w, "worker", 2)
	w.NoCondition(v1alpha1.ConditionScalerConflict)
}
