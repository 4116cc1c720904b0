package desired

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/condition"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/tides"
)

// longestMessage is the longest message of a condition that the API server takes, in bytes of which each is a character
// at most.
const longestMessage = 32768

// tidalConditions are the condition types that the Tidal controller writes.
var tidalConditions = []string{
	v1alpha1.ConditionReady,
	v1alpha1.ConditionProgressing,
	v1alpha1.ConditionDegraded,
	v1alpha1.ConditionBound,
	v1alpha1.ConditionRuleConflict,
	v1alpha1.ConditionSharedTarget,
	v1alpha1.ConditionScalerConflict,
	v1alpha1.ConditionSuspended,
}

// Binding is how the ElasticScaler that the labels name stands to a Tidal.
type Binding struct {
	// Applies tells that the scaler applies the count.
	Applies bool
	// Reason and Message say why, or why not.
	Reason, Message string
}

// TidalObservation is what one pass over a Tidal saw and decided.
type TidalObservation struct {
	// Plan is what the rules mean now.
	Plan tides.Plan
	// Rules are those that cannot be used.
	Rules []tides.Problem
	// Conflicts are pairs of rules that fire together.
	Conflicts []tides.Conflict
	// Bound tells that both labels are there, so that nothing is written but the status.
	Bound bool
	// Binding is nil where no label of an ElasticScaler is there.
	Binding *Binding
	// Problems keep the count from its target, the gravest first.
	Problems []condition.Problem
	// SharedWith names other scalers of the target.
	SharedWith []string
	// YieldsTo names the Tidal that has the first right to the target, "" where this one has it.
	YieldsTo string
	// LastScale is the record to show.
	LastScale *v1alpha1.ScaleRecord
	// Pending tells that the count of the firing in force has not been written yet.
	Pending bool
}

// RecordedFiring is the firing that the status has as in force, nil where there is none.
func RecordedFiring(s v1alpha1.TidalStatus) *tides.Firing {
	if s.ActiveRule == "" || s.ActiveRuleEffectiveTime == nil || s.DesiredReplicas == nil {
		return nil
	}
	return &tides.Firing{Rule: s.ActiveRule, Time: s.ActiveRuleEffectiveTime.Time, Replicas: *s.DesiredReplicas}
}

// ScaleRecord puts on record that a firing has reached a target.
func ScaleRecord(f tides.Firing, targetUID string) *v1alpha1.ScaleRecord {
	at := metav1.NewTime(f.Time)
	return &v1alpha1.ScaleRecord{Rule: f.Rule, Time: &at, Replicas: &f.Replicas, TargetUID: targetUID}
}

// Reached reports whether a firing has reached a target by the record. The name of the rule does not count: giving it
// another one is no firing.
func Reached(r *v1alpha1.ScaleRecord, f tides.Firing, targetUID string) bool {
	return r != nil && r.Time != nil && r.Replicas != nil && r.Time.Time.Equal(f.Time) && *r.Replicas == f.Replicas && r.TargetUID == targetUID
}

// TidalStatus returns the status of a Tidal after a pass. The object's own status is the previous one. While a Tidal is
// suspended what was in force stays as it was.
func TidalStatus(tidal *v1alpha1.Tidal, o TidalObservation, now metav1.Time) v1alpha1.TidalStatus {
	previous := tidal.Status
	s := v1alpha1.TidalStatus{ObservedGeneration: &tidal.Generation, LastScale: o.LastScale}
	if tides.Suspended(tidal) {
		s.DesiredReplicas, s.ActiveRule, s.ActiveRuleEffectiveTime = previous.DesiredReplicas, previous.ActiveRule, previous.ActiveRuleEffectiveTime
		s.LastTriggerRule, s.LastTriggerTime = previous.LastTriggerRule, previous.LastTriggerTime
	} else {
		plan(&s, previous, o.Plan)
	}
	s.Conditions = condition.Merge(previous.Conditions, tidalConditions, tidalConditionsOf(tidal, s, o), tidal.Generation, now)
	if len(o.Conflicts) > 0 {
		// Each pair is to be named, so this message has the room that the API server gives.
		meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionRuleConflict).Message = tides.Describe(o.Conflicts, longestMessage)
	}
	return s
}

func plan(s *v1alpha1.TidalStatus, previous v1alpha1.TidalStatus, p tides.Plan) {
	if a := p.Active; a != nil {
		at := metav1.NewTime(a.Time)
		s.DesiredReplicas, s.ActiveRule, s.ActiveRuleEffectiveTime = &a.Replicas, a.Rule, &at
	}
	if b := p.Before; b != nil {
		at := metav1.NewTime(b.Time)
		s.LastTriggerRule, s.LastTriggerTime = b.Rule, &at
	} else if p.Active != nil {
		s.LastTriggerRule, s.LastTriggerTime = previous.LastTriggerRule, previous.LastTriggerTime
	}
	for i, f := range p.Upcoming {
		at := metav1.NewTime(f.Time)
		if i == 0 {
			s.NextTriggerRule, s.NextTriggerTime = f.Rule, &at
		}
		s.Upcoming = append(s.Upcoming, v1alpha1.UpcomingFiring{Time: &at, Rule: f.Rule, Replicas: &f.Replicas})
	}
}

func tidalConditionsOf(tidal *v1alpha1.Tidal, s v1alpha1.TidalStatus, o TidalObservation) []metav1.Condition {
	all := []metav1.Condition{
		tidalReady(tidal, s, o),
		progressing(tidal, s, o),
		degraded(o),
	}
	if len(o.Conflicts) > 0 {
		all = append(all, condition.New(v1alpha1.ConditionRuleConflict, true, v1alpha1.ReasonRulesOverlap, ""))
	} else {
		all = append(all, condition.New(v1alpha1.ConditionRuleConflict, false, v1alpha1.ReasonNoOverlap, "no two rules fire at the same moment within 366 days"))
	}
	if tides.Suspended(tidal) {
		all = append(all, condition.New(v1alpha1.ConditionSuspended, true, v1alpha1.ReasonSuspended,
			"spec.suspend is true: no rule fires, and the count belongs to others"))
	} else {
		all = append(all, condition.New(v1alpha1.ConditionSuspended, false, v1alpha1.ReasonNotSuspended, "spec.suspend is not true"))
	}
	if o.Binding != nil {
		all = append(all, condition.New(v1alpha1.ConditionBound, o.Binding.Applies, o.Binding.Reason, o.Binding.Message))
	}
	if o.Bound {
		return all
	}
	if len(o.SharedWith) > 0 {
		verb := "writes"
		if len(o.SharedWith) > 1 {
			verb = "write"
		}
		all = append(all, condition.New(v1alpha1.ConditionSharedTarget, true, v1alpha1.ReasonOtherScaler, fmt.Sprintf(
			"%s %s the count of %s too: this Tidal writes it once each time that a rule fires, and between firings it belongs to the others",
			strings.Join(o.SharedWith, " and "), verb, targetName(tidal))))
	} else {
		all = append(all, condition.New(v1alpha1.ConditionSharedTarget, false, v1alpha1.ReasonNoConflict, "no other scaler is known to write the count of the target"))
	}
	if o.YieldsTo != "" {
		all = append(all, condition.New(v1alpha1.ConditionScalerConflict, true, v1alpha1.ReasonConflict, fmt.Sprintf(
			"%s has the first right to %s, since it is older: this one writes nothing until the other is gone, is suspended or has another target", o.YieldsTo, targetName(tidal))))
	} else {
		all = append(all, condition.New(v1alpha1.ConditionScalerConflict, false, v1alpha1.ReasonNoConflict, "no other Tidal has the first right to the target"))
	}
	return all
}

func targetName(tidal *v1alpha1.Tidal) string {
	ref := tidal.Spec.TargetRef
	return fmt.Sprintf("%s %s/%s", ref.Kind, ref.Namespace, ref.Name)
}

// tidalReady is True where every rule can be used and nothing keeps the count from its target.
func tidalReady(tidal *v1alpha1.Tidal, s v1alpha1.TidalStatus, o TidalObservation) metav1.Condition {
	problems := o.Problems
	if o.Bound && !o.Binding.Applies {
		problems = append([]condition.Problem{{Reason: o.Binding.Reason, Message: o.Binding.Message}}, problems...)
	}
	if o.YieldsTo != "" {
		problems = append(problems, condition.Problem{Reason: v1alpha1.ReasonConflict, Message: o.YieldsTo + " has the first right to the target"})
	}
	for _, r := range o.Rules {
		problems = append(problems, condition.Problem{Reason: r.Reason, Message: r.Message})
	}
	if len(problems) > 0 {
		messages := make([]string, len(problems))
		for i, p := range problems {
			messages[i] = p.Message
		}
		return condition.New(v1alpha1.ConditionReady, false, problems[0].Reason, strings.Join(messages, "; "))
	}
	switch {
	case tides.Suspended(tidal):
		return condition.New(v1alpha1.ConditionReady, true, v1alpha1.ReasonSuspended, "every rule can be used, and spec.suspend is true")
	case o.Pending:
		return condition.New(v1alpha1.ConditionReady, false, v1alpha1.ReasonScaling, fmt.Sprintf("the count of rule %q is on its way to %s", s.ActiveRule, targetName(tidal)))
	}
	return condition.New(v1alpha1.ConditionReady, true, v1alpha1.ReasonReconciled, fmt.Sprintf("rule %q is in force", s.ActiveRule))
}

func progressing(tidal *v1alpha1.Tidal, s v1alpha1.TidalStatus, o TidalObservation) metav1.Condition {
	no := func(reason, message string) metav1.Condition {
		return condition.New(v1alpha1.ConditionProgressing, false, reason, message)
	}
	switch {
	case tides.Suspended(tidal):
		return no(v1alpha1.ReasonSuspended, "spec.suspend is true")
	case s.ActiveRule == "":
		return no(v1alpha1.ReasonNoPastFiring, "no rule that can be used has a past moment: the count of the target is left alone")
	case o.Pending:
		reason := v1alpha1.ReasonScaling
		if len(o.Problems) > 0 {
			reason = o.Problems[0].Reason
		}
		return condition.New(v1alpha1.ConditionProgressing, true, reason, fmt.Sprintf(
			"rule %q wants %d replicas of %s, which have not been written yet", s.ActiveRule, *s.DesiredReplicas, targetName(tidal)))
	case o.LastScale != nil:
		return no(v1alpha1.ReasonScaled, fmt.Sprintf("the count of rule %q has been written to %s", o.LastScale.Rule, targetName(tidal)))
	}
	return no(v1alpha1.ReasonRuleActive, fmt.Sprintf("rule %q is in force", s.ActiveRule))
}

func degraded(o TidalObservation) metav1.Condition {
	if len(o.Rules) == 0 {
		return condition.New(v1alpha1.ConditionDegraded, false, v1alpha1.ReasonReconciled, "every rule can be used")
	}
	messages := make([]string, len(o.Rules))
	for i, r := range o.Rules {
		messages[i] = r.Message
	}
	return condition.New(v1alpha1.ConditionDegraded, true, o.Rules[0].Reason, strings.Join(messages, "; "))
}
