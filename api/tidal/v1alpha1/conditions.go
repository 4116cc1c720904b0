package v1alpha1

// Types of the conditions of a Tidal.
const (
	// ConditionReady is the summary: every rule can be used and the count reaches its target or its ElasticScaler.
	ConditionReady = "Ready"
	// ConditionProgressing tells whether a count is on its way to the target.
	ConditionProgressing = "Progressing"
	// ConditionDegraded tells whether some of the rules cannot be used; the others go on.
	ConditionDegraded = "Degraded"
	// ConditionBound is there on a Tidal with the labels of an ElasticScaler: whether that scaler applies the count.
	ConditionBound = "Bound"
	// ConditionRuleConflict is True where two rules fire at the same instant; the message names pairs and moments.
	ConditionRuleConflict = "RuleConflict"
	// ConditionSharedTarget is True where another scaler writes the count of the target between firings.
	ConditionSharedTarget = "SharedTarget"
	// ConditionScalerConflict is True while another Tidal has the first right to the target; this one then writes nothing.
	ConditionScalerConflict = "ScalerConflict"
	// ConditionSuspended is True while spec.suspend is.
	ConditionSuspended = "Suspended"
)

// Reasons of the conditions and events of a Tidal.
const (
	// ReasonReconciled says that everything is as it should be.
	ReasonReconciled = "Reconciled"
	// ReasonRuleActive says that a rule is in force.
	ReasonRuleActive = "RuleActive"
	// ReasonNoPastFiring says that no rule has a past moment, so that the count is left alone.
	ReasonNoPastFiring = "NoPastFiring"
	// ReasonInvalidSchedule says that the cron of a rule cannot be used; the message names the rule.
	ReasonInvalidSchedule = "InvalidSchedule"
	// ReasonScheduleNeverFires says that no date matches the cron of a rule, such as 30 February.
	ReasonScheduleNeverFires = "ScheduleNeverFires"
	// ReasonRulesOverlap says that two rules fire at the same instant.
	ReasonRulesOverlap = "RulesOverlap"
	// ReasonNoOverlap says that no two rules fire at the same instant.
	ReasonNoOverlap = "NoOverlap"
	// ReasonScalerApplies says that the ElasticScaler applies the count.
	ReasonScalerApplies = "ScalerApplies"
	// ReasonScalerNotFound says that the ElasticScaler that the labels name does not exist.
	ReasonScalerNotFound = "ScalerNotFound"
	// ReasonScalerWithoutStateTrigger says that the ElasticScaler that the labels name has another trigger.
	ReasonScalerWithoutStateTrigger = "ScalerWithoutStateTrigger"
	// ReasonIncompleteLabels says that only one of the two labels is there.
	ReasonIncompleteLabels = "IncompleteLabels"
	// ReasonSourceNotAllowed says that the ElasticScaler takes no count from the namespace of the Tidal.
	ReasonSourceNotAllowed = "SourceNotAllowed"
	// ReasonTargetNotFound says that the target does not exist.
	ReasonTargetNotFound = "TargetNotFound"
	// ReasonTargetKindNotFound says that no API group serves the target's kind.
	ReasonTargetKindNotFound = "TargetKindNotFound"
	// ReasonTargetNotScalable says that the target has no scale subresource.
	ReasonTargetNotScalable = "TargetNotScalable"
	// ReasonTargetForbidden says that the target is in another namespace and the reference is not trusted.
	ReasonTargetForbidden = "TargetForbidden"
	// ReasonScaled says that the count was written.
	ReasonScaled = "Scaled"
	// ReasonScaling says that the target is on its way to the count.
	ReasonScaling = "Scaling"
	// ReasonScaleFailed says that the count could not be written.
	ReasonScaleFailed = "ScaleFailed"
	// ReasonOtherScaler says that another scaler writes the count of the target too.
	ReasonOtherScaler = "OtherScaler"
	// ReasonConflict says that another object has the first right to the count.
	ReasonConflict = "Conflict"
	// ReasonNoConflict says that no other object scales the target.
	ReasonNoConflict = "NoConflict"
	// ReasonSuspended says that spec.suspend is true.
	ReasonSuspended = "Suspended"
	// ReasonNotSuspended says that spec.suspend is not true.
	ReasonNotSuspended = "NotSuspended"
)
