package elasticscaler

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	tidalv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab/faulty"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
)

// An HPA that a user made has the first right to the count, also where it comes later. When it goes the scaler takes over by
// watch.
func TestAnHPAOfAUserGoesFirst(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server := w.Server(faulty.Options{})
	tell(server, "queue", "40")
	w.CreateTarget(2)
	counts := w.Record()
	w.Create(between(w, server, 1, 10))
	counts.Wait(2, 4)
	utilization := int32(70)
	hpa := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "by-hand"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: w.Name}, MaxReplicas: 10,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name: "cpu", Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &utilization},
			}}},
		},
	}
	w.Create(hpa)
	name := "HorizontalPodAutoscaler " + w.Namespace + "/by-hand"
	w.Condition(v1alpha1.ConditionScalerConflict, metav1.ConditionTrue, v1alpha1.ReasonConflict, name, "writes nothing until the other is gone")
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonConflict, name)
	w.Event("Warning", v1alpha1.ReasonConflict, name)
	tell(server, "queue", "60")
	w.Evaluated(server, 3)
	counts.Wait(2, 4)
	began := time.Now()
	if err := w.Client.Delete(t.Context(), hpa); err != nil {
		t.Fatal(err)
	}
	counts.Wait(2, 4, 6)
	w.Condition(v1alpha1.ConditionScalerConflict, metav1.ConditionFalse, v1alpha1.ReasonNoConflict)
	if after := time.Since(began); after > 30*time.Second {
		t.Errorf("the scaler took over after %s, so not by watch", after)
	}
}

// Of two ElasticScalers of one target the older has the right to the count, however each of them names it; when it goes, has
// another target or is paused, the other takes over.
func TestTheOlderScalerGoesFirst(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	older, newer := w.Server(faulty.Options{}), w.Server(faulty.Options{})
	tell(older, "queue", "40")
	tell(newer, "queue", "80")
	w.CreateTarget(4)
	counts := w.Record()
	first := between(w, older, 1, 10)
	first.Name = "z-first"
	w.Create(first)
	w.Name = first.Name
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
	youngerThan(t, w.Live())
	second := between(w, newer, 1, 10)
	second.Name = "a-second"
	second.Spec.TargetRef = v1alpha1.TargetReference{Kind: "deployment", Name: "inference"}
	w.Create(second)

	w.Name = second.Name
	w.Condition(v1alpha1.ConditionScalerConflict, metav1.ConditionTrue, v1alpha1.ReasonConflict, "ElasticScaler "+w.Namespace+"/z-first")
	w.Evaluated(newer, 2)
	counts.Wait(4)
	pause := func(paused bool) {
		w.Name = first.Name
		w.Edit(func(s *v1alpha1.ElasticScaler) { s.Spec.Paused = &paused })
		w.Name = second.Name
	}
	pause(true)
	counts.Wait(4, 8)
	w.Condition(v1alpha1.ConditionScalerConflict, metav1.ConditionFalse, v1alpha1.ReasonNoConflict)
	pause(false)
	w.Condition(v1alpha1.ConditionScalerConflict, metav1.ConditionTrue, v1alpha1.ReasonConflict)
	counts.Wait(4, 8, 4)
	if err := w.Client.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	counts.Wait(4, 8, 4, 8)
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
}

// youngerThan waits until the next object is younger than one that was created: ages count in seconds.
func youngerThan(t *testing.T, obj client.Object) {
	t.Helper()
	next := obj.GetCreationTimestamp().Add(time.Second)
	testkit.Eventually(t, estest.Patience, "the next second", func(context.Context) error {
		if time.Now().Before(next) {
			return errNotYet
		}
		return nil
	})
}

// pairOf is a ResourceScalingGroup that keeps a Deployment at a count, and the Deployment decode at twice that.
func pairOf(t *testing.T, w *estest.World, name, leader string, replicas int) *autoscalingv1alpha1.ResourceScalingGroup {
	t.Helper()
	rsg := &autoscalingv1alpha1.ResourceScalingGroup{}
	fromYAML(t, w, fmt.Sprintf(`
apiVersion: autoscaling.openfuyao.com/v1alpha1
kind: ResourceScalingGroup
metadata: {name: %s}
spec:
  targetResources:
  - {name: prefill, resourceRef: {apiVersion: apps/v1, kind: Deployment, name: %s, namespace: ai-inference}}
  - {name: decode, resourceRef: {apiVersion: apps/v1, kind: Deployment, name: decode, namespace: ai-inference}}
  scalingStrategy:
    type: InplaceScaling
    leaderFollowerConfig:
      leader: {resourceName: prefill, replicas: %d}
      follower: [{resourceName: decode, followRatio: 2}]
`, name, leader, replicas), rsg)
	return rsg
}

// A ResourceScalingGroup that keeps the count of a leader has the right to it before a scaler that came later.
func TestAGroupThatKeepsTheCountGoesFirst(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server := w.Server(faulty.Options{})
	tell(server, "queue", "40")
	w.CreateTarget(2)
	w.Create(testkit.MakeDeployment(w.Namespace, "decode").Obj())
	counts := w.Record()
	rsg := pairOf(t, w, "pair", "inference", 2)
	w.Create(rsg)
	youngerThan(t, rsg)
	w.Create(between(w, server, 1, 10))
	w.Condition(v1alpha1.ConditionScalerConflict, metav1.ConditionTrue, v1alpha1.ReasonConflict, "ResourceScalingGroup "+w.Namespace+"/pair")
	w.Evaluated(server, 2)
	counts.Wait(2)
	if err := w.Client.Delete(t.Context(), rsg); err != nil {
		t.Fatal(err)
	}
	counts.Wait(2, 4)
	w.Condition(v1alpha1.ConditionScalerConflict, metav1.ConditionFalse, v1alpha1.ReasonNoConflict)
}

// A scaler that names a Tidal has that one's target, which an older scaler may have as well.
func TestTheTargetOfATidalIsThatOfItsScaler(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server := w.Server(faulty.Options{})
	tell(server, "queue", "40")
	w.CreateTarget(4)
	counts := w.Record()
	w.Create(between(w, server, 1, 10))
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
	youngerThan(t, w.Live())
	tidal, byTide := &tidalv1alpha1.Tidal{}, &v1alpha1.ElasticScaler{}
	fromYAML(t, w, `
apiVersion: tidal.io/v1alpha1
kind: Tidal
metadata: {name: tide, labels: {elasticscaler.io/name: by-tide, elasticscaler.io/namespace: ai-inference}}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: inference, namespace: ai-inference}
  triggers: {times: {rules: [{name: always, cron: "* * * * *", replicas: 9}]}}
`, tidal)
	fromYAML(t, w, `
apiVersion: elasticscaler.io/v1alpha1
kind: ElasticScaler
metadata: {name: by-tide}
spec:
  targetRef: {apiVersion: tidal.io/v1alpha1, kind: Tidal, name: tide}
  trigger: {type: StateTrigger}
`, byTide)
	w.Create(tidal, byTide)
	w.Name = "by-tide"
	w.Condition(v1alpha1.ConditionScalerConflict, metav1.ConditionTrue, v1alpha1.ReasonConflict, "ElasticScaler "+w.Namespace+"/inference")
	w.Until("the count of the Tidal to be known", func(s *v1alpha1.ElasticScaler) error {
		if s.Status.DesiredReplicas == nil || *s.Status.DesiredReplicas != 9 {
			return errNotYet
		}
		return nil
	})
	counts.Wait(4)
	if err := w.Client.Delete(t.Context(), &v1alpha1.ElasticScaler{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "inference"}}); err != nil {
		t.Fatal(err)
	}
	counts.Wait(4, 9)
	w.Condition(v1alpha1.ConditionScalerConflict, metav1.ConditionFalse, v1alpha1.ReasonNoConflict)
}

// Another writer that sets the count back each time is told of, by its name, and is not written against for ever.
func TestAFightOverTheCount(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server := w.Server(faulty.Options{})
	tell(server, "queue", "40")
	w.CreateTarget(1)
	quiet, writes := make(chan struct{}), make(chan time.Time, 1000)
	var seen int64
	w.Follow(func(d *appsv1.Deployment) {
		// Its status changes too.
		if d == nil || *d.Spec.Replicas == 1 || d.Generation == seen {
			return
		}
		seen = d.Generation
		select {
		case <-quiet:
		default:
			writes <- time.Now()
			patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":1}}`))
			_ = w.Client.Patch(context.WithoutCancel(t.Context()), &appsv1.Deployment{ObjectMeta: d.ObjectMeta}, patch, client.FieldOwner("rollout-operator"))
		}
	})
	scaler := between(w, server, 1, 10)
	scaler.Spec.Trigger.MetricsTrigger.AlgorithmConfig = map[string]v1alpha1.ConfigValue{"maxScaleUpRate": "10"}
	w.Create(scaler)
	w.Condition(v1alpha1.ConditionReconciliationComplete, metav1.ConditionFalse, v1alpha1.ReasonReplicaFight, "field manager rollout-operator", "sets it to 4", "back to 1")
	w.Condition(v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonReplicaFight)
	w.Event("Warning", v1alpha1.ReasonReplicaFight, "rollout-operator")
	if n := len(writes); n > 5 {
		t.Errorf("the count was written %d times before it was called a fight", n)
	}
	// It is tried again later and later, and the condition does not come and go with each try.
	tries := len(writes)
	w.Until("another try", func(*v1alpha1.ElasticScaler) error {
		if len(writes) == tries {
			return errNotYet
		}
		return nil
	})
	w.Evaluated(server, 2)
	if c := meta.FindStatusCondition(w.Live().Status.Conditions, v1alpha1.ConditionReconciliationComplete); c.Reason != v1alpha1.ReasonReplicaFight {
		t.Errorf("after another try the condition is %s with reason %s, want it to stand", c.Status, c.Reason)
	}
	close(quiet)
	w.WaitReplicas(4)
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
	w.KeepsReplicas(4)
	events, err := w.Events(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for _, e := range events {
		if e.Reason == v1alpha1.ReasonReplicaFight {
			told++
		}
	}
	if told < 1 || told > 2 {
		t.Errorf("the fight was told of in %d events, want one, or two where it ended for a moment", told)
	}
}
