package desired

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/condition"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/pipeline"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/scalerspec"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/state"
	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

func scalerOf(trigger v1alpha1.TriggerType) *v1alpha1.ElasticScaler {
	scaler := &v1alpha1.ElasticScaler{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", Generation: 3}}
	scaler.Spec.Trigger.Type = trigger
	if trigger == v1alpha1.MetricsTriggerType {
		scaler.Spec.Trigger.MetricsTrigger = &v1alpha1.MetricsTrigger{}
	}
	return scaler
}

// observed is a pass that decided on one metric.
func observed(value float64, problem string, at time.Time) ScalerObservation {
	in := pipeline.Input{MetricInfo: scaling.MetricInfo{Type: "ExternalServer", Name: "queue"}, Target: 10, Time: at}
	plan := pipeline.Plan{Desired: 4, Calculated: problem == "", Reason: v1alpha1.ReasonWithinTolerance, Message: "queue is near its target"}
	if problem == "" {
		in.Value = &value
	} else {
		in.Reason, in.Message = problem, "there is no series"
		plan.Reason, plan.Message = problem, "there is no series"
	}
	plan.Inputs = []pipeline.Input{in}
	return ScalerObservation{
		Bounds: scalerspec.Bounds{Min: new(int32(1)), Max: new(int32(10))}, Target: "Deployment ns/d", Current: new(int32(4)), Have: new(int32(4)),
		Decision: DecisionOfPlan(plan, "APA", 4, metav1.NewTime(at)), Calculated: plan.Calculated, Want: &plan.Desired,
	}
}

func checkCondition(t *testing.T, s v1alpha1.ElasticScalerStatus, conditionType string, status metav1.ConditionStatus, reason string) {
	t.Helper()
	c := meta.FindStatusCondition(s.Conditions, conditionType)
	if c == nil || c.Status != status || c.Reason != reason {
		t.Errorf("condition %s is %+v, want %s with reason %s", conditionType, c, status, reason)
	}
}

// Only what decides is worth a write: other values and times leave the status as it was, word for word.
func TestADecisionThatChangesNothingWritesNothing(t *testing.T) {
	scaler := scalerOf(v1alpha1.MetricsTriggerType)
	start := time.Unix(1_700_000_000, 0)
	write := func(o ScalerObservation, at time.Time) bool {
		status := ElasticScalerStatus(scaler, o, metav1.NewTime(at))
		changed := !equality.Semantic.DeepEqual(status, scaler.Status)
		scaler.Status = status
		return changed
	}
	if !write(observed(40, "", start), start) {
		t.Fatal("the first decision was not written")
	}
	if write(observed(41, "", start.Add(time.Minute)), start.Add(time.Minute)) {
		t.Errorf("another value was written: %+v", scaler.Status.LastDecision)
	}
	// Whether a value within the tolerance had to be rounded changes nothing either.
	rounded := observed(42, "", start.Add(time.Minute))
	rounded.Decision.Steps = []v1alpha1.DecisionStep{stepOf(scaling.Step{Name: "Tolerance", From: 5, To: 4, Reason: v1alpha1.ReasonWithinTolerance})}
	if write(rounded, start.Add(time.Minute)) {
		t.Errorf("a step that led to the same was written: %+v", scaler.Status.LastDecision)
	}
	if got := scaler.Status.LastDecision.Inputs[0].Value; got != "40" {
		t.Errorf("value %s, want that of the decision that was written", got)
	}
	if !write(observed(0, v1alpha1.ReasonNoData, start.Add(2*time.Minute)), start.Add(2*time.Minute)) {
		t.Error("a missing metric was not written")
	}
	checkCondition(t, scaler.Status, v1alpha1.ConditionMetricsCollected, metav1.ConditionFalse, v1alpha1.ReasonNoData)
	checkCondition(t, scaler.Status, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonNoData)
	checkCondition(t, scaler.Status, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNoData)
	scaled := observed(40, "", start.Add(3*time.Minute))
	at := metav1.NewTime(start.Add(3 * time.Minute))
	scaled.Scaled = &at
	if !write(scaled, at.Time) || scaler.Status.LastScaleTime == nil || !scaler.Status.LastScaleTime.Equal(&at) {
		t.Errorf("lastScaleTime is %v, want %v", scaler.Status.LastScaleTime, at)
	}
	// After a restart nothing is known until the first round.
	nothingYet := ScalerObservation{Bounds: scaled.Bounds, Target: scaled.Target, Current: new(int32(4)), Have: new(int32(4))}
	if write(nothingYet, start.Add(4*time.Minute)) {
		t.Errorf("a restart was written: %s", cmp.Diff(scaled, scaler.Status))
	}
	// What has changed meanwhile shows at once.
	nothingYet.YieldsTo = "HorizontalPodAutoscaler ns/h"
	write(nothingYet, start.Add(5*time.Minute))
	checkCondition(t, scaler.Status, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonConflict)
}

func TestConditionsOfAScaler(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	type want struct {
		conditionType string
		status        metav1.ConditionStatus
		reason        string
	}
	cases := map[string]struct {
		trigger v1alpha1.TriggerType
		change  func(*ScalerObservation)
		want    []want
	}{
		"all is well": {want: []want{{v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled}, {v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonReconciled}}},
		"a fault of the spec": {
			change: func(o *ScalerObservation) {
				o.Problems = []condition.Problem{{Reason: v1alpha1.ReasonTargetNotFound, Message: "gone"}}
			},
			want: []want{{v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonTargetNotFound}, {v1alpha1.ConditionValidated, metav1.ConditionFalse, v1alpha1.ReasonTargetNotFound}},
		},
		"another has the right": {
			change: func(o *ScalerObservation) { o.YieldsTo = "HorizontalPodAutoscaler ns/h" },
			want:   []want{{v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonConflict}, {v1alpha1.ConditionScalerConflict, metav1.ConditionTrue, v1alpha1.ReasonConflict}},
		},
		"paused": {
			change: func(o *ScalerObservation) { o.Paused = true },
			want:   []want{{v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonPaused}, {v1alpha1.ConditionPaused, metav1.ConditionTrue, v1alpha1.ReasonPaused}},
		},
		"the count was refused": {
			change: func(o *ScalerObservation) {
				o.WriteProblem = &condition.Problem{Reason: v1alpha1.ReasonScaleFailed, Message: "forbidden"}
			},
			want: []want{{v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonScaleFailed}},
		},
		"pods on their way": {
			change: func(o *ScalerObservation) { o.Have = new(int32(2)) },
			want:   []want{{v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled}, {v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonScaling}},
		},
		"a fight": {
			change: func(o *ScalerObservation) { o.Fight = "somebody sets it back" },
			want:   []want{{v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonReplicaFight}, {v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonReplicaFight}},
		},
		"an HPA that cannot scale": {
			change: func(o *ScalerObservation) {
				o.ByHPA, o.Decision = true, nil
				o.HPA = &autoscalingv2.HorizontalPodAutoscaler{Status: autoscalingv2.HorizontalPodAutoscalerStatus{Conditions: []autoscalingv2.HorizontalPodAutoscalerCondition{
					{Type: autoscalingv2.AbleToScale, Status: corev1.ConditionTrue, Reason: "SucceededGetScale"},
					{Type: autoscalingv2.ScalingActive, Status: corev1.ConditionFalse, Reason: "FailedGetResourceMetric"},
				}}}
			},
			want: []want{{v1alpha1.ConditionAvailable, metav1.ConditionFalse, "FailedGetResourceMetric"}, {v1alpha1.ConditionReady, metav1.ConditionFalse, "FailedGetResourceMetric"}},
		},
		"no signal yet": {
			trigger: v1alpha1.SignalTriggerType,
			change: func(o *ScalerObservation) {
				o.Decision, o.Calculated, o.Listening = DecisionOfSignal(nil, o.Bounds, o.Current, metav1.NewTime(at)), false, &Listening{}
			},
			want: []want{{v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled}, {v1alpha1.ConditionScalingCalculated, metav1.ConditionFalse, v1alpha1.ReasonNoSignal}},
		},
		"an endpoint that cannot be heard": {
			trigger: v1alpha1.SignalTriggerType,
			change: func(o *ScalerObservation) {
				o.Listening = &Listening{Reason: v1alpha1.ReasonEndpointUnreachable, Message: "refused"}
			},
			want: []want{{v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonEndpointUnreachable}, {v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonEndpointUnreachable}},
		},
		"no source": {
			trigger: v1alpha1.StateTriggerType,
			change: func(o *ScalerObservation) {
				o.Decision = DecisionOfState(state.Choose(scalerOf(v1alpha1.StateTriggerType), nil), o.Bounds, o.Current, metav1.NewTime(at))
				o.Calculated = false
			},
			want: []want{{v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNoSource}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			trigger := tc.trigger
			if trigger == "" {
				trigger = v1alpha1.MetricsTriggerType
			}
			o := observed(40, "", at)
			if tc.change != nil {
				tc.change(&o)
			}
			s := ElasticScalerStatus(scalerOf(trigger), o, metav1.NewTime(at))
			for _, w := range tc.want {
				checkCondition(t, s, w.conditionType, w.status, w.reason)
			}
		})
	}
}

// While an HPA stands aside nothing is decided, which is as the user wants it, and what another algorithm decided before is
// history.
func TestAnHPAThatStandsAside(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	for name, tc := range map[string]struct {
		change func(*ScalerObservation)
		ready  metav1.ConditionStatus
		reason string
	}{
		"for a pause":     {func(o *ScalerObservation) { o.Paused = true }, metav1.ConditionTrue, v1alpha1.ReasonPaused},
		"for another HPA": {func(o *ScalerObservation) { o.YieldsTo = "HorizontalPodAutoscaler ns/h" }, metav1.ConditionFalse, v1alpha1.ReasonConflict},
	} {
		t.Run(name, func(t *testing.T) {
			scaler := scalerOf(v1alpha1.MetricsTriggerType)
			scaler.Status = ElasticScalerStatus(scaler, observed(40, "", at), metav1.NewTime(at))
			scaler.Spec.Trigger.MetricsTrigger.ScalingAlgorithm = "hpa"
			o := observed(40, "", at)
			o.Decision, o.Calculated, o.Want = nil, false, nil
			tc.change(&o)
			s := ElasticScalerStatus(scaler, o, metav1.NewTime(at))
			checkCondition(t, s, v1alpha1.ConditionReady, tc.ready, tc.reason)
			checkCondition(t, s, v1alpha1.ConditionScalingCalculated, metav1.ConditionFalse, tc.reason)
			checkCondition(t, s, v1alpha1.ConditionMetricsCollected, metav1.ConditionFalse, tc.reason)
			if s.LastDecision != nil || s.DesiredReplicas != nil {
				t.Errorf("the status tells of a decision: %+v", s)
			}
		})
	}
}

// Bounds that the spec writes clamp the count of a source, and the status says so.
func TestTheCountOfASourceIsClamped(t *testing.T) {
	at := metav1.NewTime(time.Unix(1_700_000_000, 0))
	for name, tc := range map[string]struct {
		bounds scalerspec.Bounds
		want   int32
		reason string
	}{
		"no bounds": {scalerspec.Bounds{}, 50, v1alpha1.ReasonCountOfSource},
		"above":     {scalerspec.Bounds{Max: new(int32(10))}, 10, v1alpha1.ReasonMaxReplicas},
		"below":     {scalerspec.Bounds{Min: new(int32(60))}, 60, v1alpha1.ReasonMinReplicas},
		"within":    {scalerspec.Bounds{Min: new(int32(1)), Max: new(int32(60))}, 50, v1alpha1.ReasonCountOfSource},
	} {
		t.Run(name, func(t *testing.T) {
			d := DecisionOfState(state.Choice{Source: &state.Source{Kind: "Tidal", Namespace: "ns", Name: "t"}, Replicas: new(int32(50))}, tc.bounds, nil, at)
			if *d.DesiredReplicas != tc.want || d.Reason != tc.reason {
				t.Errorf("%d replicas with reason %s, want %d with %s", *d.DesiredReplicas, d.Reason, tc.want, tc.reason)
			}
		})
	}
}

func TestASignalSetsABound(t *testing.T) {
	at := metav1.NewTime(time.Unix(1_700_000_000, 0))
	bounds := scalerspec.Bounds{Min: new(int32(0)), Max: new(int32(10))}
	for signal, want := range map[v1alpha1.SignalType]int32{v1alpha1.SignalScaleUp: 10, v1alpha1.SignalScaleDown: 0} {
		if d := DecisionOfSignal(&v1alpha1.Signal{Signal: signal}, bounds, nil, at); *d.DesiredReplicas != want {
			t.Errorf("%s asks for %d replicas, want %d", signal, *d.DesiredReplicas, want)
		}
	}
}

// What the HPA wants is shown once its controller has looked, also where that tells no generation, as on Kubernetes 1.28.
func TestTheCountOfTheHPAIsMirrored(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status autoscalingv2.HorizontalPodAutoscalerStatus
		want   *int32
	}{
		"nobody has looked": {autoscalingv2.HorizontalPodAutoscalerStatus{}, nil},
		"without a generation": {autoscalingv2.HorizontalPodAutoscalerStatus{
			DesiredReplicas: 4, Conditions: []autoscalingv2.HorizontalPodAutoscalerCondition{{Type: autoscalingv2.ScalingActive, Status: corev1.ConditionTrue}},
		}, new(int32(4))},
		"with one": {autoscalingv2.HorizontalPodAutoscalerStatus{
			DesiredReplicas: 5, ObservedGeneration: new(int64(1)), Conditions: []autoscalingv2.HorizontalPodAutoscalerCondition{{Type: autoscalingv2.ScalingActive, Status: corev1.ConditionTrue}},
		}, new(int32(5))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scaler := scalerOf(v1alpha1.MetricsTriggerType)
			scaler.Spec.Trigger.MetricsTrigger = &v1alpha1.MetricsTrigger{ScalingAlgorithm: "HPA"}
			got := ElasticScalerStatus(scaler, ScalerObservation{ByHPA: true, HPA: &autoscalingv2.HorizontalPodAutoscaler{Status: tc.status}}, metav1.NewTime(time.Unix(0, 0))).DesiredReplicas
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("desiredReplicas (-want +got):\n%s", diff)
			}
		})
	}
}
