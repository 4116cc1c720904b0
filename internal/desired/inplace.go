package desired

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/condition"
)

// InplaceObservation is what one pass of InplaceScaling saw and did.
type InplaceObservation struct {
	// Targets in the order of the spec.
	Targets []InplaceTarget
	// Conflicts lists the targets that somebody else scales.
	Conflicts []string
	// Problems found, the gravest first.
	Problems []condition.Problem
}

// InplaceTarget is a target of InplaceScaling.
type InplaceTarget struct {
	// Name of the target.
	Name string
	// Desired is the count that the strategy sets, nil where it sets none.
	Desired *int32
	// Replicas and Available are the target's counts as they were read.
	Replicas, Available int32
	// Current is the count that the pass left the target with.
	Current int32
}

// InplaceStatus returns the status of an InplaceScaling ResourceScalingGroup after a pass.
func InplaceStatus(rsg *v1alpha1.ResourceScalingGroup, o InplaceObservation, now metav1.Time) v1alpha1.ResourceScalingGroupStatus {
	s := v1alpha1.ResourceScalingGroupStatus{ObservedGeneration: rsg.Generation}
	for _, t := range o.Targets {
		s.Targets = append(s.Targets, v1alpha1.TargetStatus{Name: t.Name, DesiredReplicas: t.Desired, CurrentReplicas: new(t.Current), ReadyReplicas: new(t.Available)})
	}
	conditions := []metav1.Condition{
		inplaceReady(rsg, o),
		condition.New(v1alpha1.ConditionScalable, false, v1alpha1.ReasonInplaceScaling, "the scale subresource counts groups, which only GroupReplication has"),
	}
	conditions = append(conditions, sharedConditions(rsg, strings.Join(o.Conflicts, "; "))...)
	s.Conditions = condition.Merge(rsg.Status.Conditions, ownedConditions, conditions, rsg.Generation, now)
	return s
}

func inplaceReady(rsg *v1alpha1.ResourceScalingGroup, o InplaceObservation) metav1.Condition {
	if len(o.Problems) > 0 {
		return problemCondition(o.Problems)
	}
	if len(o.Conflicts) > 0 {
		return condition.New(v1alpha1.ConditionReady, false, v1alpha1.ReasonScalerConflict, strings.Join(o.Conflicts, "; "))
	}
	var moving, waiting []string
	for _, t := range o.Targets {
		switch {
		case t.Desired != nil && *t.Desired != t.Replicas:
			moving = append(moving, t.Name)
		case t.Available < t.Replicas:
			waiting = append(waiting, t.Name)
		}
	}
	switch {
	case len(moving) > 0 && Paused(rsg):
		return condition.New(v1alpha1.ConditionReady, false, v1alpha1.ReasonPaused, fmt.Sprintf("targets [%s] are not at their counts, and spec.paused is true", strings.Join(moving, " ")))
	case len(moving) > 0:
		return condition.New(v1alpha1.ConditionReady, false, v1alpha1.ReasonProgressing, fmt.Sprintf("targets [%s] are on the way to their counts", strings.Join(moving, " ")))
	case len(waiting) > 0:
		return condition.New(v1alpha1.ConditionReady, false, v1alpha1.ReasonReplicasUnavailable, fmt.Sprintf("replicas of targets [%s] are not available", strings.Join(waiting, " ")))
	}
	return condition.New(v1alpha1.ConditionReady, true, v1alpha1.ReasonReconciled, "all targets are at their counts and available")
}
