package hpa

import (
	"errors"
	"fmt"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab"
)

// An HPA is made and kept as the scaler says, and the scaler's status tells what that one does. It is no better than its HPA.
func TestTheStatusIsThatOfTheHPA(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	w.CreateTarget(2)
	counts := w.Record()
	w.Create(by(w, "HPA", external(metricOf(w), "10")))
	w.Condition(v1alpha1.ConditionAvailable, metav1.ConditionFalse, "FailedGetExternalMetric", "HorizontalPodAutoscaler: ", metricOf(w))
	w.Condition(v1alpha1.ConditionMetricsCollected, metav1.ConditionFalse, "FailedGetExternalMetric")
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, "FailedGetExternalMetric")
	w.Event("Warning", "FailedGetExternalMetric", metricOf(w))
	counts.Wait(2)

	queue := serve(w, 40)
	counts.Wait(2, 4)
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
	w.Condition(v1alpha1.ConditionMetricsCollected, metav1.ConditionTrue, "ValidMetricFound")
	w.Condition(v1alpha1.ConditionAvailable, metav1.ConditionTrue, "ValidMetricFound")
	w.Until("the status to tell the count of the HPA", func(s *v1alpha1.ElasticScaler) error {
		switch status := s.Status; {
		case status.DesiredReplicas == nil || *status.DesiredReplicas != 4 || status.CurrentReplicas == nil || *status.CurrentReplicas != 4:
			return fmt.Errorf("it is %v of %v", status.CurrentReplicas, status.DesiredReplicas)
		case status.LastScaleTime == nil:
			return errors.New("it does not tell when that was")
		case status.LastDecision != nil:
			return errors.New("it tells of a decision that the scaler did not make")
		}
		return nil
	})
	w.Edit(func(s *v1alpha1.ElasticScaler) { s.Spec.MaxReplicas = new(int32(3)) })
	counts.Wait(2, 4, 3)
	queue.set(10)
	counts.Wait(2, 4, 3, 1)

	// What somebody else changes of the HPA is put back.
	hpa := hpaOf(w, "the HPA", isThere)
	before := hpa.DeepCopy()
	hpa.Spec.MaxReplicas = 50
	if err := w.Client.Patch(t.Context(), hpa, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	hpaOf(w, "the HPA to be as the scaler says", func(h *autoscalingv2.HorizontalPodAutoscaler) error {
		if h.Spec.MaxReplicas != 3 {
			return fmt.Errorf("its maximum is %d", h.Spec.MaxReplicas)
		}
		return nil
	})

	// It goes with its scaler, and the count stays.
	if err := w.Client.Delete(t.Context(), w.Live()); err != nil {
		t.Fatal(err)
	}
	noHPA(w)
	queue.set(30)
	w.KeepsReplicas(1)
}

// From one algorithm to another the count stays, and at no time do two of them write it.
func TestAlgorithmsHandOver(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	queue := serve(w, 40)
	w.CreateTarget(2)
	counts := w.Record()
	w.Create(by(w, "HPA", external(queue.metric, "10")))
	counts.Wait(2, 4)
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)

	useAlgorithm(w, "APA")
	noHPA(w)
	w.Event("Normal", v1alpha1.ReasonReconciled, "HorizontalPodAutoscaler inference is deleted and the count stays")
	scaler := w.Condition(v1alpha1.ConditionScalingCalculated, metav1.ConditionTrue, v1alpha1.ReasonWithinTolerance)
	if d := scaler.Status.LastDecision; d == nil || d.Algorithm != "APA" {
		t.Errorf("the decision is %+v, want that of APA", d)
	}
	counts.Wait(2, 4)
	queue.set(60)
	counts.Wait(2, 4, 6)

	useAlgorithm(w, "hpa")
	w.Condition(v1alpha1.ConditionScalingCalculated, metav1.ConditionTrue, "ValidMetricFound")
	counts.Wait(2, 4, 6)
	queue.set(30)
	counts.Wait(2, 4, 6, 3)

	w.Edit(func(s *v1alpha1.ElasticScaler) { s.Spec.Trigger = v1alpha1.Trigger{Type: v1alpha1.StateTriggerType} })
	noHPA(w)
	w.Condition(v1alpha1.ConditionScalingCalculated, metav1.ConditionFalse, v1alpha1.ReasonNoSource)
	queue.set(90)
	w.KeepsReplicas(3)
	counts.Wait(2, 4, 6, 3)
}

// An HPA of the scaler's name that it did not make is left alone. When it goes the scaler makes its own, by watch.
func TestAnHPAOfTheNameThatIsNotOurs(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	queue := serve(w, 40)
	w.CreateTarget(2)
	counts := w.Record()
	percent := int32(70)
	foreign := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "another"}, MaxReplicas: 7,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name: "cpu", Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent},
			}}},
		},
	}
	w.Create(foreign)
	w.Create(by(w, "HPA", external(queue.metric, "10")))
	w.Condition(v1alpha1.ConditionValidated, metav1.ConditionFalse, v1alpha1.ReasonHPANotOwned, "inference exists and is not this scaler's", "delete it, or rename the scaler")
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonHPANotOwned)
	w.Event("Warning", v1alpha1.ReasonHPANotOwned, "inference")
	live := hpaOf(w, "the HPA", isThere)
	if live.Spec.MaxReplicas != 7 || live.Spec.ScaleTargetRef.Name != "another" || len(live.OwnerReferences) > 0 {
		t.Errorf("the HPA of somebody else was changed: %+v", live.Spec)
	}
	// Nor is it deleted with another algorithm, or with the scaler.
	useAlgorithm(w, "APA")
	counts.Wait(2, 4)
	useAlgorithm(w, "HPA")
	w.Condition(v1alpha1.ConditionValidated, metav1.ConditionFalse, v1alpha1.ReasonHPANotOwned)
	if again := hpaOf(w, "the HPA", isThere); again.UID != live.UID {
		t.Error("the HPA of somebody else was made anew")
	}
	if err := w.Client.Delete(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	hpaOf(w, "the scaler's own HPA", func(h *autoscalingv2.HorizontalPodAutoscaler) error {
		if owner := metav1.GetControllerOf(h); owner == nil {
			return errors.New("nobody owns it")
		}
		return nil
	})
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
	counts.Wait(2, 4)
}

// While the scaler is paused, or yields to another HPA, there is no HPA of it: two of them on one target stop each other.
func TestAnHPAStandsAside(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	queue := serve(w, 40)
	w.CreateTarget(2)
	counts := w.Record()
	w.Create(by(w, "HPA", external(queue.metric, "10")))
	counts.Wait(2, 4)
	w.Edit(func(s *v1alpha1.ElasticScaler) { s.Spec.Paused = new(true) })
	noHPA(w)
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonPaused)
	w.ScaleTo(7)
	w.KeepsReplicas(7)
	w.Edit(func(s *v1alpha1.ElasticScaler) { s.Spec.Paused = nil })
	counts.Wait(2, 4, 7, 4)

	byHand := hpaOf(w, "the HPA", isThere).DeepCopy()
	byHand.ObjectMeta = metav1.ObjectMeta{Namespace: w.Namespace, Name: "by-hand"}
	byHand.Spec.MinReplicas = new(int32(6))
	w.Create(byHand)
	w.Condition(v1alpha1.ConditionScalerConflict, metav1.ConditionTrue, v1alpha1.ReasonConflict, w.Namespace+"/by-hand")
	noHPA(w)
	counts.Wait(2, 4, 7, 4, 6)
	if err := w.Client.Delete(t.Context(), byHand); err != nil {
		t.Fatal(err)
	}
	counts.Wait(2, 4, 7, 4, 6, 4)
	w.Condition(v1alpha1.ConditionScalerConflict, metav1.ConditionFalse, v1alpha1.ReasonNoConflict)
}

// A Custom metric becomes one of type Pods.
func TestAnHPAByAMetricOfPods(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	target := testkit.MakeDeployment(w.Namespace, w.Name).Replicas(2).Obj()
	pin(w, target.Spec.Selector.MatchLabels, metricOf(w), 12)
	w.Create(target)
	scaler := by(w, "HPA", custom(metricOf(w), "8"))
	scaler.Spec.MaxReplicas = new(int32(5))
	w.Create(scaler)
	hpa := hpaOf(w, "the HPA", isThere)
	if m := hpa.Spec.Metrics[0]; m.Type != autoscalingv2.PodsMetricSourceType || m.Pods.Metric.Name != metricOf(w) || m.Pods.Target.AverageValue.String() != "8" {
		t.Errorf("the metric of the HPA is %+v", m)
	}
	w.WaitReplicas(5)
	pin(w, target.Spec.Selector.MatchLabels, metricOf(w), 1)
	w.WaitReplicas(1)
}

// The HPA of a ResourceScalingGroup counts groups.
func TestAnHPAOfGroups(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	createGroups(w, 3, 2)
	scaler := by(w, "HPA", memory("1Gi"))
	scaler.Spec.TargetRef = v1alpha1.TargetReference{Kind: "resourcescalinggroup", Name: w.Name}
	w.Create(scaler)
	use(w, map[string]string{"app": "prefill"}, 6, map[string]string{lab.MemoryAnnotation: "2Gi"})
	waitGroups(w, 4)
	hpa := hpaOf(w, "the HPA", isThere)
	if ref := hpa.Spec.ScaleTargetRef; ref.Kind != "ResourceScalingGroup" || ref.APIVersion != "autoscaling.openfuyao.com/v1alpha1" {
		t.Errorf("the HPA scales %+v, want the kind as the API server spells it", ref)
	}
}

// A tolerance, which a HorizontalPodAutoscaler has since Kubernetes 1.33, is refused in so many words by a cluster that does not
// have it, and is not tried again and again.
func TestATolerance(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	queue := serve(w, 40)
	w.CreateTarget(2)
	scaler := by(w, "HPA", external(queue.metric, "10"))
	scaler.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: &autoscalingv2.HPAScalingRules{Tolerance: resource.NewMilliQuantity(50, resource.DecimalSI)}}
	w.Create(scaler)
	if version.MustParseSemantic(env.Lab.KubernetesVersion()).LessThan(version.MajorMinor(1, 33)) {
		w.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInvalidSpec, "tolerance")
		return
	}
	w.WaitReplicas(4)
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
}
