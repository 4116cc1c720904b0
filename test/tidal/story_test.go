package tidal

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	autoscalingv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	elasticscalerv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/config"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
)

// documentTidal and documentScaler are the pair of the document, in a namespace of the test.
const documentTidal = `
apiVersion: tidal.io/v1alpha1
kind: Tidal
metadata:
  name: tidal-frequent-test
  namespace: ai-inference
  labels:
    elasticscaler.io/name: state-scaling-example
    elasticscaler.io/namespace: ai-inference
spec:
  targetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: elastic-scaler-state-test
    namespace: ai-inference
  triggers:
    times:
      rules:
        - name: time1
          cron: "CRON_TZ=Asia/Shanghai 0 50 16 * * *"
          replicas: 3
          description: time1
        - name: time2
          cron: "CRON_TZ=Asia/Shanghai 0 0 8 * * *"
          replicas: 5
          description: time2
`

const documentScaler = `
apiVersion: elasticscaler.io/v1alpha1
kind: ElasticScaler
metadata:
  name: state-scaling-example
  namespace: ai-inference
spec:
  targetRef:
    apiVersion: tidal.io/v1alpha1
    kind: Tidal
    name: tidal-frequent-test
  trigger:
    type: StateTrigger
    stateTrigger: {}
`

func (w *world) parse(text string, into client.Object) client.Object {
	w.Helper()
	if err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll(text, "ai-inference", w.namespace)), into); err != nil {
		w.Fatal(err)
	}
	return into
}

func TestTheDocumentsPairShowsItsCountAndLeavesTheTargetToTheScaler(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2026-06-15T07:00:00Z") // 15:00 in Shanghai
	w.deployment("elastic-scaler-state-test", 1)
	w.create(w.parse(documentTidal, &v1alpha1.Tidal{}))
	w.start()
	const name = "tidal-frequent-test"

	status := w.wants(name, 5, "time2")
	if got, want := status.ActiveRuleEffectiveTime.UTC().Format(time.RFC3339), "2026-06-15T00:00:00Z"; got != want {
		t.Errorf("in force since %s, want %s", got, want)
	}
	if status.LastTriggerRule != "time1" || status.NextTriggerRule != "time1" || status.LastTriggerTime.UTC().Format(time.RFC3339) != "2026-06-14T08:50:00Z" ||
		status.NextTriggerTime.UTC().Format(time.RFC3339) != "2026-06-15T08:50:00Z" {
		t.Errorf("last %s at %v, next %s at %v", status.LastTriggerRule, status.LastTriggerTime, status.NextTriggerRule, status.NextTriggerTime)
	}
	var upcoming []string
	for _, f := range status.Upcoming {
		upcoming = append(upcoming, fmt.Sprintf("%s %s %d", f.Time.UTC().Format(time.RFC3339), f.Rule, *f.Replicas))
	}
	if want := []string{"2026-06-15T08:50:00Z time1 3", "2026-06-16T00:00:00Z time2 5", "2026-06-16T08:50:00Z time1 3", "2026-06-17T00:00:00Z time2 5", "2026-06-17T08:50:00Z time1 3"}; !slices.Equal(upcoming, want) {
		t.Errorf("upcoming %q, want %q", upcoming, want)
	}
	w.says(name, v1alpha1.ConditionBound, metav1.ConditionFalse, v1alpha1.ReasonScalerNotFound)
	w.says(name, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonScalerNotFound)

	w.create(w.parse(documentScaler, &elasticscalerv1alpha1.ElasticScaler{}))
	w.says(name, v1alpha1.ConditionBound, metav1.ConditionTrue, v1alpha1.ReasonScalerApplies)
	w.says(name, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)

	w.setTime("2026-06-15T08:49:58Z")
	w.wants(name, 3, "time1")
	w.hears(name, v1alpha1.ReasonRuleActive, `rule "time1" wants 3 replicas`)
	w.setTime("2026-06-16T00:00:00Z")
	w.wants(name, 5, "time2")
	w.stays("elastic-scaler-state-test", 1, 0)

	update(w, "state-scaling-example", &elasticscalerv1alpha1.ElasticScaler{}, func(s *elasticscalerv1alpha1.ElasticScaler) {
		s.Spec.TargetRef = elasticscalerv1alpha1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "elastic-scaler-state-test"}
		s.Spec.Trigger = elasticscalerv1alpha1.Trigger{Type: "SignalTrigger", SignalTrigger: &elasticscalerv1alpha1.SignalTrigger{Endpoint: "https://example.org/signal"}}
	})
	w.says(name, v1alpha1.ConditionBound, metav1.ConditionFalse, v1alpha1.ReasonScalerWithoutStateTrigger)

	// Without the labels the count is this Tidal's to write, at once.
	update(w, name, &v1alpha1.Tidal{}, func(t *v1alpha1.Tidal) { t.Labels = nil })
	w.reaches(name, "elastic-scaler-state-test", 5, 1)
}

func TestDirectModeWritesOncePerFiring(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2026-06-15T11:17:00Z")
	w.deployment("llm", 1)
	w.tidal("tide", "llm", "day|CRON_TZ=UTC 0 0 8 * * *|10", "night|CRON_TZ=UTC 0 0 20 * * *|2")
	w.start()

	w.reaches("tide", "llm", 10, 1)
	w.says("tide", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
	w.says("tide", v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonScaled)
	w.hears("tide", v1alpha1.ReasonScaled, `rule "day": Deployment `+w.namespace+`/llm scaled from 1 to 10 replicas`)

	// Between firings the count belongs to others, and another one's touch of the Tidal changes nothing.
	w.scaleByHand("llm", 7)
	update(w, "tide", &v1alpha1.Tidal{}, func(t *v1alpha1.Tidal) { t.Spec.Triggers.Times.Rules[0].Description = "working hours" })
	w.says("tide", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
	w.stays("llm", 7, 2)

	w.setTime("2026-06-15T19:59:58Z")
	w.reaches("tide", "llm", 2, 3)

	// The clock is set back over the firing by five minutes, and comes to it again.
	w.scaleByHand("llm", 4)
	w.setTime("2026-06-15T19:55:00Z")
	w.stays("llm", 4, 4)
	w.setTime("2026-06-15T19:59:58Z")
	testkit.Consistently(t, 4*time.Second, "the firing does not come again", func(context.Context) error {
		if got, n := w.count("llm"); got != 4 || n != 4 {
			return fmt.Errorf("%d replicas after %d changes", got, n)
		}
		return nil
	})

	// It is set back by half a day: at that hour the day's count is in force.
	w.setTime("2026-06-15T09:00:00Z")
	w.reaches("tide", "llm", 10, 5)

	// Days asleep: one change, to the rule that fired last.
	w.setTime("2026-06-19T07:30:00Z")
	w.reaches("tide", "llm", 2, 6)
}

func TestDirectModeOnAResourceScalingGroup(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2026-06-15T12:00:00Z")
	group := testkit.MakeRSG(w.namespace, "llm").GroupName("pd").Target("prefill", w.namespace, "prefill").Replicas(1).Obj()
	w.create(group)
	// The document's Tidal, not bound, on a group.
	tide := &v1alpha1.Tidal{}
	w.parse(documentTidal, tide)
	tide.Labels = nil
	tide.Spec.TargetRef = v1alpha1.TargetReference{APIVersion: "autoscaling.openfuyao.com/v1alpha1", Kind: "resourcescalinggroup", Namespace: w.namespace, Name: "llm"}
	w.create(tide)
	w.start()
	reaches := func(groups int32, generation int64) {
		t.Helper()
		testkit.Eventually(t, soon, fmt.Sprintf("%d groups", groups), func(context.Context) error {
			var rsg autoscalingv1alpha1.ResourceScalingGroup
			if err := w.get("llm", &rsg); err != nil {
				return err
			}
			if got := *rsg.Spec.ScalingStrategy.GroupConfig.Replicas; got != groups || rsg.Generation != generation {
				return fmt.Errorf("it has %d groups at generation %d, want generation %d", got, rsg.Generation, generation)
			}
			return nil
		})
	}
	reaches(3, 2) // 20:00 in Shanghai
	w.setTime("2026-06-16T00:00:00Z")
	reaches(5, 3)
	w.says(tide.Name, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
}

func TestTargetsThatCannotBeScaledAreRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2026-06-15T12:00:00Z")
	w.create(w.parse(`
apiVersion: autoscaling.openfuyao.com/v1alpha1
kind: ResourceScalingGroup
metadata: {name: ratio, namespace: ai-inference}
spec:
  targetResources:
  - {name: prefill, resourceRef: {apiVersion: apps/v1, kind: Deployment, name: prefill}}
  - {name: decode, resourceRef: {apiVersion: apps/v1, kind: Deployment, name: decode}}
  scalingStrategy:
    type: InplaceScaling
    leaderFollowerConfig:
      leader: {resourceName: prefill, replicas: 2}
      follower:
      - {resourceName: decode, followRatio: "0.5"}
`, &autoscalingv1alpha1.ResourceScalingGroup{}))
	w.start()
	cases := []struct {
		name    string
		ref     v1alpha1.TargetReference
		reason  string
		message string
	}{
		{"configmap", v1alpha1.TargetReference{APIVersion: "v1", Kind: "ConfigMap", Name: "x"}, v1alpha1.ReasonTargetNotScalable, "kind ConfigMap has no scale subresource: must be a kind that has one"},
		{"unknown", v1alpha1.TargetReference{APIVersion: "example.org/v1", Kind: "Thing", Name: "x"}, v1alpha1.ReasonTargetKindNotFound, "serves no kind Thing in example.org/v1"},
		{"missing", v1alpha1.TargetReference{APIVersion: "apps/v1", Kind: "deployment", Name: "x"}, v1alpha1.ReasonTargetNotFound, "does not exist: create it, or correct spec.targetRef"},
		{"ratio", v1alpha1.TargetReference{APIVersion: "autoscaling.openfuyao.com/v1alpha1", Kind: "ResourceScalingGroup", Name: "ratio"}, v1alpha1.ReasonTargetNotScalable, "has strategy InplaceScaling, which has no group count"},
	}
	for _, tc := range cases {
		tc.ref.Namespace = w.namespace
		w.create(w.makeTidal(tc.name, tc.ref, "always|@hourly|1"))
	}
	for _, tc := range cases {
		if message := w.says(tc.name, v1alpha1.ConditionReady, metav1.ConditionFalse, tc.reason); !strings.Contains(message, tc.message) {
			t.Errorf("%s: %q does not say %q", tc.name, message, tc.message)
		}
		w.hears(tc.name, tc.reason, tc.message)
	}
	// What is missing is waited for by watch.
	w.deployment("x", 3)
	w.reaches("missing", "x", 1, 1)
	// Made anew, the target gets the count anew.
	if err := api.Delete(t.Context(), testkit.MakeDeployment(w.namespace, "x").Obj()); err != nil {
		t.Fatal(err)
	}
	w.says("missing", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonTargetNotFound)
	w.deployment("x", 3)
	w.reaches("missing", "x", 1, 1)
}

func TestABrokenRuleStopsNeitherSiblingsNorOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2026-06-15T12:00:00Z")
	w.deployment("a", 1)
	w.deployment("b", 1)
	w.deployment("c", 3)
	w.tidal("hopeless", "c", "leap|0 0 30 2 *|8")
	w.tidal("broken", "a", "zone|CRON_TZ=Asia/Chongqin 0 9 * * *|9", "leap|0 0 30 2 *|8", "good|0 8 * * *|4")
	w.tidal("whole", "b", "good|0 8 * * *|6")
	w.start()
	w.reaches("broken", "a", 4, 1)
	w.reaches("whole", "b", 6, 1)
	message := w.says("broken", v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonInvalidSchedule)
	for _, want := range []string{`rule "zone": unknown time zone "Asia/Chongqin": must be a name`, `rule "leap": "0 0 30 2 *": it never fires`} {
		if !strings.Contains(message, want) {
			t.Errorf("message %q does not say %q", message, want)
		}
	}
	w.says("broken", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInvalidSchedule)
	// Where no rule can be used, none has ever fired, and the count is left alone.
	w.says("hopeless", v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonNoPastFiring)
	w.stays("c", 3, 0)

	// The rule in force breaks: what it wanted stays until another one fires.
	update(w, "whole", &v1alpha1.Tidal{}, func(t *v1alpha1.Tidal) {
		t.Spec.Triggers.Times.Rules = w.rules("good|CRON_TZ=Nowhere 0 8 * * *|6", "night|0 20 * * *|1")
	})
	w.says("whole", v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonInvalidSchedule)
	w.wants("whole", 6, "good")
	w.stays("b", 6, 1)
	w.setTime("2026-06-15T20:00:00Z")
	w.reaches("whole", "b", 1, 2)
}

func TestAnEditTakesEffectAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2026-06-15T12:00:00Z")
	w.deployment("llm", 1)
	w.tidal("tide", "llm", "day|0 8 * * *|10", "night|0 20 * * *|2")
	w.start()
	w.reaches("tide", "llm", 10, 1)
	update(w, "tide", &v1alpha1.Tidal{}, func(t *v1alpha1.Tidal) {
		t.Spec.Triggers.Times.Rules = w.rules("day|30 9 * * *|12", "evening|0 18 * * *|5", "night|0 20 * * *|2")
	})
	w.reaches("tide", "llm", 12, 2)
	if status := w.wants("tide", 12, "day"); status.NextTriggerRule != "evening" || status.NextTriggerTime.UTC().Format(time.RFC3339) != "2026-06-15T18:00:00Z" {
		t.Errorf("next is %s at %v", status.NextTriggerRule, status.NextTriggerTime)
	}
	// Another name for the rule is no firing.
	w.scaleByHand("llm", 9)
	update(w, "tide", &v1alpha1.Tidal{}, func(t *v1alpha1.Tidal) { t.Spec.Triggers.Times.Rules[0].Name = "daytime" })
	w.wants("tide", 12, "daytime")
	w.stays("llm", 9, 3)
	// Another target is.
	w.deployment("other", 1)
	update(w, "tide", &v1alpha1.Tidal{}, func(t *v1alpha1.Tidal) { t.Spec.TargetRef.Name = "other" })
	w.reaches("tide", "other", 12, 1)
	w.stays("llm", 9, 3)
}

func TestDaylightSaving(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2025-03-09T09:45:00Z") // 01:45 in Los Angeles
	w.deployment("llm", 1)
	w.tidal("tide", "llm", "night|CRON_TZ=America/Los_Angeles 0 30 2 * * *|5", "early|CRON_TZ=America/Los_Angeles 0 30 1 * * *|3")
	w.start()
	w.reaches("tide", "llm", 3, 1)
	// What the gap skips fires at its end, 03:00.
	w.setTime("2025-03-09T09:59:58Z")
	w.reaches("tide", "llm", 5, 2)
	// What is repeated fires the first time only.
	w.setTime("2025-11-02T08:29:58Z")
	w.reaches("tide", "llm", 3, 3)
	w.scaleByHand("llm", 4)
	w.setTime("2025-11-02T09:29:58Z")
	testkit.Consistently(t, 4*time.Second, "01:30 does not come again", func(context.Context) error {
		if got, n := w.count("llm"); got != 4 || n != 4 {
			return fmt.Errorf("%d replicas after %d changes", got, n)
		}
		return nil
	})
}

func TestMetricsFollowTheTidal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2026-06-15T19:00:00Z")
	w.deployment("llm", 1)
	w.tidal("tide", "llm", "day|0 8 * * *|10", "night|0 20 * * *|2")
	w.start()
	w.reaches("tide", "llm", 10, 1)
	shows := func(what string, desired []float64, writes, next float64, firings uint64) {
		t.Helper()
		testkit.Eventually(t, soon, "the metrics "+what, func(context.Context) error {
			if got := w.metric("pdo_tidal_desired_replicas"); !slices.Equal(got, desired) {
				return fmt.Errorf("the counts are %v, want %v", got, desired)
			}
			if got := w.metric("pdo_tidal_scale_writes_total")[0]; got != writes {
				return fmt.Errorf("%v writes, want %v", got, writes)
			}
			if got := w.metric("pdo_tidal_next_firing_timestamp_seconds")[0]; got != next {
				return fmt.Errorf("the next firing is at %v, want %v", got, next)
			}
			if got, _ := w.lateness(); got != firings {
				return fmt.Errorf("%d firings, want %d", got, firings)
			}
			return nil
		})
	}
	unix := func(text string) float64 {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return float64(at.Unix())
	}
	shows("by day", []float64{10}, 1, unix("2026-06-15T20:00:00Z"), 0)
	// Another count at another hour: no trace of the old rule.
	update(w, "tide", &v1alpha1.Tidal{}, func(t *v1alpha1.Tidal) {
		t.Spec.Triggers.Times.Rules = w.rules("morning|0 9 * * *|12", "night|0 21 * * *|2")
	})
	shows("after an edit", []float64{12}, 2, unix("2026-06-15T21:00:00Z"), 0)
	w.setTime("2026-06-15T20:59:58Z")
	shows("after a firing", []float64{2}, 3, unix("2026-06-16T09:00:00Z"), 1)
	if err := api.Delete(t.Context(), &v1alpha1.Tidal{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "tide"}}); err != nil {
		t.Fatal(err)
	}
	shows("after its deletion", nil, 3, 0, 1)
}

func TestOverlapsAreNamedAndTheLaterRuleWins(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2026-06-15T12:00:00Z")
	w.deployment("llm", 1)
	w.tidal("tide", "llm", "daily|0 9 * * *|3", "monthly|0 9 1 * *|6")
	w.start()
	w.reaches("tide", "llm", 3, 1)
	message := w.says("tide", v1alpha1.ConditionRuleConflict, metav1.ConditionTrue, v1alpha1.ReasonRulesOverlap)
	if want := `"daily" and "monthly" fire together at 2026-07-01T09:00:00Z, 2026-08-01T09:00:00Z, 2026-09-01T09:00:00Z, 2026-10-01T09:00:00Z, 2026-11-01T09:00:00Z, and "monthly" wins`; message != want {
		t.Errorf("message is %q, want %q", message, want)
	}
	w.says("tide", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
	w.setTime("2026-07-01T09:00:00Z")
	w.reaches("tide", "llm", 6, 2)
}

func TestSuspendFreezes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2026-06-15T12:00:00Z")
	w.deployment("llm", 1)
	w.tidal("tide", "llm", "day|0 8 * * *|10", "night|0 20 * * *|2")
	w.start()
	w.reaches("tide", "llm", 10, 1)
	update(w, "tide", &v1alpha1.Tidal{}, func(t *v1alpha1.Tidal) { t.Spec.Suspend = new(true) })
	w.says("tide", v1alpha1.ConditionSuspended, metav1.ConditionTrue, v1alpha1.ReasonSuspended)
	w.says("tide", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSuspended)
	w.setTime("2026-06-15T21:00:00Z")
	w.stays("llm", 10, 1)
	if status := w.wants("tide", 10, "day"); status.NextTriggerTime != nil || len(status.Upcoming) > 0 {
		t.Errorf("nothing fires, and next is %v", status.NextTriggerTime)
	}
	update(w, "tide", &v1alpha1.Tidal{}, func(t *v1alpha1.Tidal) { t.Spec.Suspend = nil })
	w.reaches("tide", "llm", 2, 2)
	w.says("tide", v1alpha1.ConditionSuspended, metav1.ConditionFalse, v1alpha1.ReasonNotSuspended)
}

func TestTargetsInOtherNamespaces(t *testing.T) {
	t.Parallel()
	other := newWorld(t, "2026-06-15T12:00:00Z")
	other.deployment("llm", 1)
	w := newWorld(t, "2026-06-15T12:00:00Z")
	ref := v1alpha1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: other.namespace, Name: "llm"}
	w.create(w.makeTidal("tide", ref, "day|0 8 * * *|10"))
	denying := w.start()
	message := w.says("tide", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonTargetForbidden)
	if want := "the target is in namespace " + other.namespace + ": must be in " + w.namespace; !strings.HasPrefix(message, want) {
		t.Errorf("message is %q, want %q", message, want)
	}
	other.stays("llm", 1, 0)
	denying.stop()

	// A Tidal of the target's own namespace is not held up by one that may not touch it.
	own := *other
	own.start()
	own.tidal("own", "llm", "day|0 8 * * *|4")
	own.reaches("own", "llm", 4, 1)
}

func TestATrustedTargetInAnotherNamespace(t *testing.T) {
	t.Parallel()
	other := newWorld(t, "2026-06-15T12:00:00Z")
	other.deployment("llm", 1)
	w := newWorld(t, "2026-06-15T12:00:00Z")
	w.crossNamespace, w.also = config.CrossNamespaceTrusted, other.namespace
	ref := v1alpha1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: other.namespace, Name: "llm"}
	w.create(w.makeTidal("tide", ref, "day|0 8 * * *|10"))
	w.start()
	testkit.Eventually(t, soon, "10 replicas in the other namespace", func(context.Context) error {
		if got, _ := other.count("llm"); got != 10 {
			return fmt.Errorf("%d", got)
		}
		return nil
	})
}

func TestPrinterColumnsAreTheOriginals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2026-06-15T12:00:00Z")
	w.deployment("llm", 1)
	w.tidal("tide", "llm", "day|0 8 * * *|10")
	w.start()
	w.says("tide", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
	c, err := kubernetes.NewForConfig(plane.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	body, err := c.RESTClient().Get().AbsPath("/apis/tidal.io/v1alpha1/namespaces/"+w.namespace+"/tidals").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := json.Unmarshal(body, &table); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, column := range table.ColumnDefinitions {
		names = append(names, column.Name)
	}
	if want := []string{"Name", "Target", "Target Name", "Desired Replicas", "Active Rule", "Ready", "Age"}; !slices.Equal(names, want) {
		t.Errorf("columns are %q, want %q", names, want)
	}
	if got := fmt.Sprint(table.Rows[0].Cells[:6]); got != "[tide Deployment llm 10 day True]" {
		t.Errorf("row is %s", got)
	}
}
