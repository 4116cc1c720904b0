// Package desired turns decisions into what is written: statuses and children. Values in, objects out.
package desired

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/condition"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/groups"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/victims"
)

// ownedConditions are the condition types that the ResourceScalingGroup controller writes.
var ownedConditions = []string{
	v1alpha1.ConditionReady,
	v1alpha1.ConditionScalable,
	v1alpha1.ConditionBaselineUnknown,
	v1alpha1.ConditionScaleDownMetric,
	v1alpha1.ConditionTemplateReferences,
	v1alpha1.ConditionScalerConflict,
	v1alpha1.ConditionSelectorOverlap,
	v1alpha1.ConditionPaused,
}

// GroupObservation is what one pass over a ResourceScalingGroup saw and decided.
type GroupObservation struct {
	// Groups of which anything exists, by ascending id.
	Groups []groups.Group
	// Baselines of the targets.
	Baselines groups.Baselines
	// Drifted says per target whether its base differs from the snapshot; absent where that is not known.
	Drifted map[string]bool
	// Revision is the name of the snapshot, "" while there is none.
	Revision string
	// ScaleDown is the record to show.
	ScaleDown *v1alpha1.ScaleDownRecord
	// MetricReason and MetricMessage are of the last choice by metric, "" when this pass made none.
	MetricReason, MetricMessage string
	// HasReferences says whether clones are made in another namespace than some base. MissingReferences is what their
	// templates name and that namespace lacks, nil when this pass did not look.
	HasReferences     bool
	MissingReferences []string
	// ScalerConflict and SelectorOverlap say who is in whose way, "" where nobody is.
	ScalerConflict, SelectorOverlap string
	// Problems found, the gravest first.
	Problems []condition.Problem
}

// GroupStatus returns the status of a ResourceScalingGroup after a pass. The object's own status is the previous one.
func GroupStatus(rsg *v1alpha1.ResourceScalingGroup, o GroupObservation, now metav1.Time) v1alpha1.ResourceScalingGroupStatus {
	previous := rsg.Status
	wanted := Replicas(rsg)
	s := v1alpha1.ResourceScalingGroupStatus{
		ObservedGeneration:  rsg.Generation,
		LastDesiredReplicas: &wanted,
		Selector:            v1alpha1.LabelScaleUnit + "=" + rsg.Name,
		Revision:            o.Revision,
		LastScaleDown:       o.ScaleDown,
	}
	current, ready := int32(0), int32(0)
	victim := PendingVictims(o.ScaleDown)
	for _, g := range o.Groups {
		if g.Complete() {
			current++
			if g.Available() {
				ready++
			}
		}
		if !g.Empty {
			s.Groups = append(s.Groups, groupStatus(g, slices.Contains(victim, g.ID), o.ScaleDown))
		}
	}
	s.CurrentReplicas, s.ReadyReplicas = &current, &ready
	for _, t := range rsg.Spec.TargetResources {
		ts := v1alpha1.TargetStatus{Name: t.Name}
		if n, ok := o.Baselines.Counts[t.Name]; ok {
			ts.BaselineReplicas = &n
		}
		if d, ok := o.Drifted[t.Name]; ok {
			ts.SnapshotDrift = &d
		}
		s.Targets = append(s.Targets, ts)
	}
	s.Conditions = condition.Merge(previous.Conditions, ownedConditions, groupConditions(rsg, o, current, ready), rsg.Generation, now)
	return s
}

// CountGroups says a number of groups in words.
func CountGroups(n int32) string {
	if n == 1 {
		return "1 group"
	}
	return fmt.Sprintf("%d groups", n)
}

// Replicas is the number of groups that the spec asks for.
func Replicas(rsg *v1alpha1.ResourceScalingGroup) int32 {
	if c := rsg.Spec.ScalingStrategy.GroupConfig; c != nil {
		if c.Replicas != nil {
			return *c.Replicas
		}
		return 1
	}
	return 0
}

// Paused reports whether only the status is to be written.
func Paused(rsg *v1alpha1.ResourceScalingGroup) bool {
	return rsg.Spec.Paused != nil && *rsg.Spec.Paused
}

// PendingVictims are the groups that a record says are being removed.
func PendingVictims(r *v1alpha1.ScaleDownRecord) []int32 {
	if r == nil {
		return nil
	}
	return r.Pending
}

// ScaleDownRecord puts a choice on record; pending are the victims of earlier ones that are not gone yet.
func ScaleDownRecord(c victims.Choice, order v1alpha1.Order, metricReason string, pending []int32, now metav1.Time) *v1alpha1.ScaleDownRecord {
	r := &v1alpha1.ScaleDownRecord{
		Time:    now,
		Level:   c.Level,
		Order:   order,
		Victims: c.Victims,
		Pending: slices.Concat(pending, c.Victims),
	}
	if metricReason != v1alpha1.ReasonMetricUsed {
		r.Reason = metricReason
	}
	for _, v := range c.Values {
		r.Values = append(r.Values, v1alpha1.GroupValue{ID: v.ID, Value: FormatValue(v.Value)})
	}
	return r
}

// FormatValue writes a metric value as a decimal number, with at most six significant digits where it has more.
func FormatValue(v float64) string {
	short := strconv.FormatFloat(v, 'g', -1, 64)
	if len(short) > 12 {
		return strconv.FormatFloat(v, 'g', 6, 64)
	}
	return short
}

func groupStatus(g groups.Group, victim bool, record *v1alpha1.ScaleDownRecord) v1alpha1.GroupStatus {
	s := v1alpha1.GroupStatus{ID: g.ID}
	switch {
	case g.AtZero:
		s.Phase = v1alpha1.GroupAtZero
	case victim || g.Terminating:
		s.Phase = v1alpha1.GroupRemoving
	case len(g.Missing) > 0:
		s.Phase = v1alpha1.GroupCreating
	case g.Available():
		s.Phase = v1alpha1.GroupReady
	default:
		s.Phase = v1alpha1.GroupProgressing
	}
	for _, m := range g.Members {
		if m.Exists {
			s.Targets = append(s.Targets, v1alpha1.GroupTargetStatus{Name: m.Target, Desired: m.Desired, Ready: m.Available})
		}
	}
	if record != nil {
		for _, v := range record.Values {
			if v.ID == g.ID {
				s.Value = v.Value
			}
		}
	}
	return s
}

func groupConditions(rsg *v1alpha1.ResourceScalingGroup, o GroupObservation, current, ready int32) []metav1.Condition {
	all := []metav1.Condition{readyCondition(rsg, o, current, ready), scalableCondition(rsg)}
	if len(o.Baselines.Unknown) > 0 {
		all = append(all, condition.New(v1alpha1.ConditionBaselineUnknown, true, v1alpha1.ReasonFoundAtZero, fmt.Sprintf(
			"nothing says how many replicas targets [%s] should have, since their base workloads have 0 or are not there: scale them up, or set the counts in ConfigMap %s",
			strings.Join(o.Baselines.Unknown, " "), ReplicaConfigName(rsg.Name))))
	} else if len(o.Baselines.Counts) == len(rsg.Spec.TargetResources) {
		all = append(all, condition.New(v1alpha1.ConditionBaselineUnknown, false, v1alpha1.ReasonBaselineRecorded, "every target has a count"))
	}
	if ScaleDownMetric(rsg) != nil {
		all = append(all, metricCondition(rsg.Status.Conditions, o))
	}
	if o.HasReferences {
		all = append(all, referencesCondition(rsg, o)...)
	}
	if o.SelectorOverlap != "" {
		all = append(all, condition.New(v1alpha1.ConditionSelectorOverlap, true, v1alpha1.ReasonSharedLabels, o.SelectorOverlap))
	}
	return append(all, sharedConditions(rsg, o.ScalerConflict)...)
}

// sharedConditions are those of both strategies that are only there when they hold.
func sharedConditions(rsg *v1alpha1.ResourceScalingGroup, scalerConflict string) []metav1.Condition {
	var all []metav1.Condition
	if scalerConflict != "" {
		all = append(all, condition.New(v1alpha1.ConditionScalerConflict, true, v1alpha1.ReasonScalerConflict, scalerConflict))
	}
	if Paused(rsg) {
		all = append(all, condition.New(v1alpha1.ConditionPaused, true, v1alpha1.ReasonPaused, "spec.paused is true: only the status is written"))
	}
	return all
}

// referencesCondition is empty until the references were looked for once.
func referencesCondition(rsg *v1alpha1.ResourceScalingGroup, o GroupObservation) []metav1.Condition {
	switch {
	case o.MissingReferences == nil:
		if before := meta.FindStatusCondition(rsg.Status.Conditions, v1alpha1.ConditionTemplateReferences); before != nil {
			return []metav1.Condition{*before}
		}
		return nil
	case len(o.MissingReferences) > 0:
		return []metav1.Condition{condition.New(v1alpha1.ConditionTemplateReferences, false, v1alpha1.ReasonReferencesMissing,
			fmt.Sprintf("namespace %s has no %s, which pods of clones need", rsg.Namespace, strings.Join(o.MissingReferences, ", ")))}
	}
	return []metav1.Condition{condition.New(v1alpha1.ConditionTemplateReferences, true, v1alpha1.ReasonReferencesFound,
		fmt.Sprintf("namespace %s has what the pod templates name", rsg.Namespace))}
}

// ScaleDownMetric returns the metric that ranks groups, nil where there is none.
func ScaleDownMetric(rsg *v1alpha1.ResourceScalingGroup) *v1alpha1.ScaleDownMetric {
	c := rsg.Spec.ScalingStrategy.GroupConfig
	if c == nil || c.ScaleDown == nil || c.ScaleDown.Metric == nil || c.ScaleDown.Metric.Expr == "" {
		return nil
	}
	return c.ScaleDown.Metric
}

// ScaleDownOrder returns the order in which values are compared, ascending where none is given.
func ScaleDownOrder(rsg *v1alpha1.ResourceScalingGroup) v1alpha1.Order {
	c := rsg.Spec.ScalingStrategy.GroupConfig
	if c == nil || c.ScaleDown == nil || c.ScaleDown.Order == "" {
		return v1alpha1.OrderAscending
	}
	return c.ScaleDown.Order
}

// ReplicaConfigName is the name of the ConfigMap with the baseline counts.
func ReplicaConfigName(rsg string) string { return rsg + "-replica-config" }

func metricCondition(previous []metav1.Condition, o GroupObservation) metav1.Condition {
	if o.MetricReason != "" {
		return condition.New(v1alpha1.ConditionScaleDownMetric, o.MetricReason == v1alpha1.ReasonMetricUsed, o.MetricReason, o.MetricMessage)
	}
	if before := meta.FindStatusCondition(previous, v1alpha1.ConditionScaleDownMetric); before != nil {
		return *before
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionScaleDownMetric, Status: metav1.ConditionUnknown,
		Reason: v1alpha1.ReasonNoDecisionYet, Message: "no group had to be chosen for removal so far",
	}
}

func scalableCondition(rsg *v1alpha1.ResourceScalingGroup) metav1.Condition {
	if len(rsg.Spec.TargetResources) == 0 {
		return condition.New(v1alpha1.ConditionScalable, false, v1alpha1.ReasonInvalidSpec, "spec.targetResources is empty")
	}
	if ns := rsg.Spec.TargetResources[0].ResourceRef.Namespace; ns != "" && ns != rsg.Namespace {
		return condition.New(v1alpha1.ConditionScalable, false, v1alpha1.ReasonBaseInOtherNamespace, fmt.Sprintf(
			"the pods of group 0 are in namespace %s, and an HPA reads pods of %s only: use External or Object metrics with AverageValue", ns, rsg.Namespace))
	}
	return condition.New(v1alpha1.ConditionScalable, true, v1alpha1.ReasonSelectorPublished, "status.selector selects one pod of each group")
}

func readyCondition(rsg *v1alpha1.ResourceScalingGroup, o GroupObservation, current, ready int32) metav1.Condition {
	wanted := Replicas(rsg)
	no := func(reason, message string) metav1.Condition {
		return condition.New(v1alpha1.ConditionReady, false, reason, message)
	}
	if len(o.Problems) > 0 {
		return problemCondition(o.Problems)
	}
	pending := len(PendingVictims(o.ScaleDown)) > 0
	incomplete := slices.ContainsFunc(o.Groups, func(g groups.Group) bool {
		return g.Terminating || !g.AtZero && !g.Empty && len(g.Missing) > 0
	})
	switch {
	case current != wanted && Paused(rsg):
		return no(v1alpha1.ReasonPaused, fmt.Sprintf("%d of %d groups exist, and spec.paused is true", current, wanted))
	case current != wanted || pending || incomplete:
		return no(v1alpha1.ReasonProgressing, fmt.Sprintf("%d of %d groups exist; requeue for convergence%s", current, wanted, awaited(o.Groups, PendingVictims(o.ScaleDown))))
	case ready != wanted:
		return no(v1alpha1.ReasonReplicasUnavailable, fmt.Sprintf("the replicas of %d of %d groups are available; not of %s", ready, wanted, unavailable(o.Groups)))
	}
	return condition.New(v1alpha1.ConditionReady, true, v1alpha1.ReasonReconciled, CountGroups(wanted)+" there, and all replicas available")
}

func problemCondition(problems []condition.Problem) metav1.Condition {
	messages := make([]string, len(problems))
	for i, p := range problems {
		messages[i] = p.Message
	}
	return condition.New(v1alpha1.ConditionReady, false, problems[0].Reason, strings.Join(slices.Compact(messages), "; "))
}

// unavailable names the first groups whose replicas are not available, the targets, and what their controllers say about it.
func unavailable(all []groups.Group) string {
	var names []string
	for _, g := range all {
		if !g.Complete() || g.Available() {
			continue
		}
		var targets []string
		for _, m := range g.Members {
			if m.Desired != 0 && m.Available >= m.Desired {
				continue
			}
			text := m.Target
			if m.Trouble != "" {
				text += ": " + m.Trouble
			}
			targets = append(targets, text)
		}
		names = append(names, fmt.Sprintf("group %d (%s)", g.ID, strings.Join(targets, ", ")))
	}
	return Some(names, namedGroups)
}

// awaited names the first groups that are not as they are to be yet.
func awaited(all []groups.Group, victims []int32) string {
	var names []string
	for _, g := range all {
		switch {
		case g.Terminating || slices.Contains(victims, g.ID):
			names = append(names, fmt.Sprintf("group %d is being removed", g.ID))
		case !g.AtZero && !g.Empty && len(g.Missing) > 0:
			names = append(names, fmt.Sprintf("group %d lacks %s", g.ID, Some(g.Missing, namedObjects)))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return ": " + Some(names, namedGroups)
}
