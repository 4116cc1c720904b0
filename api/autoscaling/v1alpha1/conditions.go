package v1alpha1

// Condition types of a ResourceScalingGroup.
const (
	// ConditionReady is True when the desired groups exist, nothing else does, and their replicas are available.
	ConditionReady = "Ready"

	// ConditionScalable says whether an autoscaler that reads pods through the scale subresource can drive the
	// number of groups.
	ConditionScalable = "Scalable"

	// ConditionBaselineUnknown is True while a base workload was found at zero replicas and nothing says how many it
	// should have. The groups cannot be copied or recovered until somebody says so.
	ConditionBaselineUnknown = "BaselineUnknown"

	// ConditionScaleDownMetric says whether the last choice of groups to remove could follow scaleDown.metric.
	// It is absent while no metric is configured.
	ConditionScaleDownMetric = "ScaleDownMetric"

	// ConditionTemplateReferences is False when the pod templates of clones name objects that do not exist in the
	// namespace of the ResourceScalingGroup. It is absent while all targets are in that namespace.
	ConditionTemplateReferences = "TemplateReferences"

	// ConditionScalerConflict is True when two scalers set the same count. It is absent otherwise.
	ConditionScalerConflict = "ScalerConflict"

	// ConditionSelectorOverlap is True when an HPA on a workload of a group selects pods of other groups too, since it
	// goes by labels. It is absent otherwise.
	ConditionSelectorOverlap = "SelectorOverlap"

	// ConditionPaused is True while spec.paused is true: only the status is written.
	ConditionPaused = "Paused"
)

// Reasons of ConditionReady.
const (
	// ReasonReconciled: everything is as the spec asks.
	ReasonReconciled = "Reconciled"
	// ReasonProgressing: groups are being created, recovered or removed.
	ReasonProgressing = "Progressing"
	// ReasonReplicasUnavailable: the groups exist but some of their replicas are not available.
	ReasonReplicasUnavailable = "ReplicasUnavailable"
	// ReasonTargetNotFound: a target resource does not exist.
	ReasonTargetNotFound = "TargetNotFound"
	// ReasonTargetKindNotServed: the API server does not serve a target's kind (yet); its CRD may be installed later.
	ReasonTargetKindNotServed = "TargetKindNotServed"
	// ReasonInvalidSpec: the spec asks for what cannot be done; the message has the field, the value and the fix.
	// Admission refuses this, so the object was written while it was away.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonInvalidName: the name that a Service's clones would have is too long or not legal.
	ReasonInvalidName = "InvalidName"
	// ReasonDuplicateClone: two Services would have clones of one name.
	ReasonDuplicateClone = "DuplicateClone"
	// ReasonNameConflict: an object that is not of this group already has a name that the group needs.
	ReasonNameConflict = "NameConflict"
	// ReasonReplicaConfigInvalid: the replica ConfigMap holds something that is no positive integer.
	ReasonReplicaConfigInvalid = "ReplicaConfigInvalid"
	// ReasonSnapshotInvalid: the ControllerRevision cannot be read as a snapshot of the targets.
	ReasonSnapshotInvalid = "SnapshotInvalid"
	// ReasonBaselineUnknown: see ConditionBaselineUnknown.
	ReasonBaselineUnknown = "BaselineUnknown"
	// ReasonCrossNamespaceDenied: a target is in another namespace and the operator does not allow that.
	ReasonCrossNamespaceDenied = "CrossNamespaceDenied"
	// ReasonServiceAccountDenied: a clone in the manager's namespace would run with the manager's rights.
	ReasonServiceAccountDenied = "ServiceAccountDenied"
	// ReasonFollowerNotScaled: a follower has no count that it could be given; the others follow.
	ReasonFollowerNotScaled = "FollowerNotScaled"
	// ReasonScalerConflict: see ConditionScalerConflict.
	ReasonScalerConflict = "ScalerConflict"
	// ReasonWriteFailed: the API server refused or failed a write; the message names the first object.
	ReasonWriteFailed = "WriteFailed"
	// ReasonPaused: spec.paused is true.
	ReasonPaused = "Paused"
)

// Reasons of ConditionScalable.
const (
	// ReasonSelectorPublished: status.selector selects one pod of each group.
	ReasonSelectorPublished = "SelectorPublished"
	// ReasonBaseInOtherNamespace: the pods of group 0 are in another namespace than the ResourceScalingGroup, where an
	// HPA does not see them. External or Object metrics with AverageValue work.
	ReasonBaseInOtherNamespace = "BaseInOtherNamespace"
	// ReasonInplaceScaling: the strategy has no group count, so there is nothing to scale.
	ReasonInplaceScaling = "InplaceScaling"
)

// Reasons of ConditionTemplateReferences.
const (
	// ReasonReferencesFound: every object that the templates name exists.
	ReasonReferencesFound = "ReferencesFound"
	// ReasonReferencesMissing: the message lists what is missing.
	ReasonReferencesMissing = "ReferencesMissing"
)

// ReasonSharedLabels is the reason of ConditionSelectorOverlap.
const ReasonSharedLabels = "SharedLabels"

// Reasons of ConditionBaselineUnknown.
const (
	// ReasonFoundAtZero: a base workload had zero replicas when it was first seen.
	ReasonFoundAtZero = "FoundAtZero"
	// ReasonBaselineRecorded: the replica ConfigMap has a count for every target.
	ReasonBaselineRecorded = "BaselineRecorded"
)

// Reasons of ConditionScaleDownMetric. All but the first two make the decision fall back to the annotation and then to
// the highest group id.
const (
	// ReasonMetricUsed: one finite value per group ranked the candidates.
	ReasonMetricUsed = "MetricUsed"
	// ReasonNoDecisionYet: no group had to be chosen so far.
	ReasonNoDecisionYet = "NoDecisionYet"
	// ReasonPrometheusNotConfigured: the manager has no Prometheus address.
	ReasonPrometheusNotConfigured = "PrometheusNotConfigured"
	// ReasonPrometheusUnavailable: no answer, an HTTP error, or an answer that is not Prometheus'.
	ReasonPrometheusUnavailable = "PrometheusUnavailable"
	// ReasonQueryInvalid: the expression is no PromQL once it is wrapped in the aggregation.
	ReasonQueryInvalid = "QueryInvalid"
	// ReasonResultTypeUnusable: the answer was a scalar, a string or a matrix; a vector with group_id is due.
	ReasonResultTypeUnusable = "ResultTypeUnusable"
	// ReasonGroupMissing: at least one candidate has no series.
	ReasonGroupMissing = "GroupMissing"
	// ReasonMultipleSeries: at least one candidate has more than one series.
	ReasonMultipleSeries = "MultipleSeries"
	// ReasonNotFinite: at least one candidate's value is NaN or infinite.
	ReasonNotFinite = "NotFinite"
	// ReasonMetricScopeAmbiguous: groups of another ResourceScalingGroup have pods in the same namespaces, and no label
	// tells their series apart. The setting prometheus.labels.rsg does.
	ReasonMetricScopeAmbiguous = "MetricScopeAmbiguous"
	// ReasonMetricScopeMismatch: candidates have series, but not with the labels that narrow the query. The settings
	// prometheus.labels.namespace and prometheus.labels.rsg must name labels that the scrape configuration sets.
	ReasonMetricScopeMismatch = "MetricScopeMismatch"
	// ReasonStale: behind at least one candidate's value is a sample that is too old.
	ReasonStale = "Stale"
)

// Reasons of events that are not also reasons of a condition.
const (
	// EventSnapshotCreated: the targets and their Services were recorded in a ControllerRevision.
	EventSnapshotCreated = "SnapshotCreated"
	// EventReplicaConfigCreated: the baseline counts were recorded in the replica ConfigMap.
	EventReplicaConfigCreated = "ReplicaConfigCreated"
	// EventGroupCreated: a group's missing objects were created.
	EventGroupCreated = "GroupCreated"
	// EventGroupRecovered: group 0 left zero and has its baseline again.
	EventGroupRecovered = "GroupRecovered"
	// EventScaleDown: groups were chosen for removal; the note has the level, the values and the order.
	EventScaleDown = "ScaleDown"
	// EventGroupRemoved: a clone is gone, or group 0 is at zero.
	EventGroupRemoved = "GroupRemoved"
	// EventGroupDiscarded: a clone of which something is missing was removed, since the snapshot that the rest of it was
	// made from is gone; another one is made from the present snapshot.
	EventGroupDiscarded = "GroupDiscarded"
	// EventClaimsFound: volume claims of an earlier group of the same id exist and are used again.
	EventClaimsFound = "ClaimsFound"
	// EventReplicasSet: a leader or follower was brought to its count.
	EventReplicasSet = "ReplicasSet"
	// EventLeaderReset: somebody else had changed the leader's count, which leader.replicas sets.
	EventLeaderReset = "LeaderReset"
	// EventServiceSettingsDropped: settings of a Service that cannot be shared were left out of its clones.
	EventServiceSettingsDropped = "ServiceSettingsDropped"
)
