package tidal

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	elasticscalerv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
)

func TestTheLaterOfTwoTidalsYields(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2026-06-15T12:00:00Z")
	w.deployment("llm", 1)
	w.start()
	// In the same second the name decides.
	w.tidal("a-first", "llm", "day|0 8 * * *|10")
	w.reaches("a-first", "llm", 10, 1)
	w.tidal("b-second", "llm", "day|0 8 * * *|3")
	if message := w.says("b-second", v1alpha1.ConditionScalerConflict, metav1.ConditionTrue, v1alpha1.ReasonConflict); !strings.Contains(message, "Tidal "+w.namespace+"/a-first") {
		t.Errorf("message %q does not name the other", message)
	}
	w.says("b-second", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonConflict)
	w.says("a-first", v1alpha1.ConditionScalerConflict, metav1.ConditionFalse, v1alpha1.ReasonNoConflict)
	w.stays("llm", 10, 1)
	if err := api.Delete(t.Context(), &v1alpha1.Tidal{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "a-first"}}); err != nil {
		t.Fatal(err)
	}
	w.reaches("b-second", "llm", 3, 2)
	w.says("b-second", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
}

func TestOtherScalersOfTheTargetAreNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2026-06-15T12:00:00Z")
	w.deployment("llm", 1)
	w.tidal("tide", "llm", "day|0 8 * * *|10")
	w.start()
	w.reaches("tide", "llm", 10, 1)
	w.says("tide", v1alpha1.ConditionSharedTarget, metav1.ConditionFalse, v1alpha1.ReasonNoConflict)
	hpa := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "cpu"},
		Spec:       autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 20, ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "llm"}},
	}
	scaler := &elasticscalerv1alpha1.ElasticScaler{}
	w.parse(strings.ReplaceAll(documentScaler, "apiVersion: tidal.io/v1alpha1\n    kind: Tidal\n    name: tidal-frequent-test", "kind: deployment\n    name: llm"), scaler)
	w.create(hpa, scaler)
	want := fmt.Sprintf("ElasticScaler %s/state-scaling-example and HorizontalPodAutoscaler %s/cpu write the count", w.namespace, w.namespace)
	named := func(want string) {
		t.Helper()
		testkit.Eventually(t, soon, want, func(context.Context) error {
			if message := w.says("tide", v1alpha1.ConditionSharedTarget, metav1.ConditionTrue, v1alpha1.ReasonOtherScaler); !strings.HasPrefix(message, want) {
				return fmt.Errorf("message is %q", message)
			}
			return nil
		})
	}
	named(want)
	w.says("tide", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
	// An HPA that is pointed at another target leaves this one, and comes back.
	point := func(target string) {
		update(w, "cpu", hpa, func(hpa *autoscalingv2.HorizontalPodAutoscaler) { hpa.Spec.ScaleTargetRef.Name = target })
	}
	point("another")
	named(fmt.Sprintf("ElasticScaler %s/state-scaling-example writes the count", w.namespace))
	point("llm")
	named(want)
	// A firing sets its count to the letter, whatever the other scaler holds for near enough.
	w.scaleByHand("llm", 22)
	update(w, "tide", &v1alpha1.Tidal{}, func(t *v1alpha1.Tidal) { t.Spec.Triggers.Times.Rules = w.rules("day|0 9 * * *|24") })
	w.reaches("tide", "llm", 24, 3)
	if err := api.Delete(t.Context(), hpa); err != nil {
		t.Fatal(err)
	}
	if err := api.Delete(t.Context(), scaler); err != nil {
		t.Fatal(err)
	}
	w.says("tide", v1alpha1.ConditionSharedTarget, metav1.ConditionFalse, v1alpha1.ReasonNoConflict)
}

// A scaler writes the count by way of a Tidal that is bound, too.
func TestAScalerThatWorksThroughATidalIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2026-06-15T12:00:00Z")
	w.deployment("llm", 1)
	w.tidal("tide", "llm", "day|0 8 * * *|10")
	bound := w.bind(w.makeTidal("tidal-frequent-test", w.on(appsv1.SchemeGroupVersion.WithKind("Deployment"), "llm"), "day|0 8 * * *|7"), "state-scaling-example")
	w.create(bound)
	w.start()
	w.reaches("tide", "llm", 10, 1)
	w.says("tide", v1alpha1.ConditionSharedTarget, metav1.ConditionFalse, v1alpha1.ReasonNoConflict)
	shared := func() {
		t.Helper()
		want := fmt.Sprintf("ElasticScaler %s/state-scaling-example writes the count", w.namespace)
		if message := w.says("tide", v1alpha1.ConditionSharedTarget, metav1.ConditionTrue, v1alpha1.ReasonOtherScaler); !strings.HasPrefix(message, want) {
			t.Errorf("message is %q", message)
		}
	}
	w.create(w.parse(documentScaler, &elasticscalerv1alpha1.ElasticScaler{}))
	shared()
	// It does so while that Tidal is bound and has the target.
	retarget := func(target string) {
		update(w, bound.Name, bound, func(t *v1alpha1.Tidal) { t.Spec.TargetRef.Name = target })
	}
	retarget("another")
	w.says("tide", v1alpha1.ConditionSharedTarget, metav1.ConditionFalse, v1alpha1.ReasonNoConflict)
	retarget("llm")
	shared()
	update(w, "state-scaling-example", &elasticscalerv1alpha1.ElasticScaler{}, func(s *elasticscalerv1alpha1.ElasticScaler) { s.Spec.TargetRef.Name = "another" })
	w.says("tide", v1alpha1.ConditionSharedTarget, metav1.ConditionFalse, v1alpha1.ReasonNoConflict)
}

func TestACountIsWrittenAgainAfterAScalerHadIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2026-06-15T12:00:00Z")
	w.deployment("llm", 1)
	w.tidal("tide", "llm", "day|0 8 * * *|10")
	w.start()
	w.reaches("tide", "llm", 10, 1)
	update(w, "tide", &v1alpha1.Tidal{}, func(t *v1alpha1.Tidal) { w.bind(t, "scaler") })
	w.says("tide", v1alpha1.ConditionBound, metav1.ConditionFalse, v1alpha1.ReasonScalerNotFound)
	w.scaleByHand("llm", 4)
	w.stays("llm", 4, 2)
	update(w, "tide", &v1alpha1.Tidal{}, func(t *v1alpha1.Tidal) { t.Labels = nil })
	w.reaches("tide", "llm", 10, 3)
}

// One whose rules all broke writes nothing, so it keeps nobody from the target.
func TestATidalWithoutAUsableRuleHoldsUpNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2026-06-15T12:00:00Z")
	w.deployment("llm", 1)
	w.start()
	w.tidal("a-broken", "llm", "day|0 8 * * *|10")
	w.reaches("a-broken", "llm", 10, 1)
	w.tidal("b-second", "llm", "day|0 9 * * *|3")
	w.says("b-second", v1alpha1.ConditionScalerConflict, metav1.ConditionTrue, v1alpha1.ReasonConflict)
	w.stays("llm", 10, 1)
	cron := func(text string) {
		update(w, "a-broken", &v1alpha1.Tidal{}, func(t *v1alpha1.Tidal) { t.Spec.Triggers.Times.Rules[0].Cron = text })
	}
	cron("0 8 30 2 *")
	w.reaches("b-second", "llm", 3, 2)
	w.says("b-second", v1alpha1.ConditionScalerConflict, metav1.ConditionFalse, v1alpha1.ReasonNoConflict)
	w.says("a-broken", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonScheduleNeverFires)
	// Made anew, the target is the other's too.
	if err := api.Delete(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "llm"}}); err != nil {
		t.Fatal(err)
	}
	w.says("b-second", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonTargetNotFound)
	w.deployment("llm", 1)
	w.reaches("b-second", "llm", 3, 1)
	cron("0 8 * * *")
	w.says("b-second", v1alpha1.ConditionScalerConflict, metav1.ConditionTrue, v1alpha1.ReasonConflict)
	w.reaches("a-broken", "llm", 10, 2)
}
