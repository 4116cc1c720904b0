package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// StrategyType is the way in which a ResourceScalingGroup scales its targets.
// +kubebuilder:validation:Enum=GroupReplication;InplaceScaling
type StrategyType string

const (
	// GroupReplication copies all targets, with the Services that select them, as one group.
	GroupReplication StrategyType = "GroupReplication"
	// InplaceScaling keeps followers at a ratio to a leader.
	InplaceScaling StrategyType = "InplaceScaling"
)

// MetricType says how an expression's values become one number per group.
// +kubebuilder:validation:Enum=Counter;Gauge;Histogram
type MetricType string

const (
	// MetricCounter is aggregated as rate(expr[window]).
	MetricCounter MetricType = "Counter"
	// MetricGauge is aggregated as it is.
	MetricGauge MetricType = "Gauge"
	// MetricHistogram is aggregated as rate(expr[window]).
	MetricHistogram MetricType = "Histogram"
)

// Aggregator is a PromQL aggregation over the series of one group.
// +kubebuilder:validation:Enum=sum;avg;max;min
type Aggregator string

// The aggregators that scaleDown.metric accepts.
const (
	AggregatorSum Aggregator = "sum"
	AggregatorAvg Aggregator = "avg"
	AggregatorMax Aggregator = "max"
	AggregatorMin Aggregator = "min"
)

// Order says which end of the ranking is removed first.
// +kubebuilder:validation:Enum=ascending;descending
type Order string

const (
	// OrderAscending removes the groups with the smallest values first.
	OrderAscending Order = "ascending"
	// OrderDescending removes the groups with the largest values first.
	OrderDescending Order = "descending"
)

// ResourceScalingGroup treats several workloads as one unit of scaling. With GroupReplication the whole unit is
// copied; with InplaceScaling followers keep a ratio to a leader.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.scalingStrategy.groupConfig.replicas,statuspath=.status.currentReplicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=rsg
// +kubebuilder:printcolumn:name="Strategy",type=string,JSONPath=`.spec.scalingStrategy.type`,description="Scaling strategy"
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.scalingStrategy.groupConfig.replicas`,description="Groups asked for"
// +kubebuilder:printcolumn:name="Current",type=integer,JSONPath=`.status.currentReplicas`,description="Complete groups"
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`,description="Groups whose replicas are all available"
// +kubebuilder:printcolumn:name="Drift",type=string,JSONPath=`.status.targets[*].snapshotDrift`,description="Per target, whether the base differs from the snapshot that clones are made from"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must be at most 63 characters, since it becomes a label value"
type ResourceScalingGroup struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is what the user asks for.
	// +optional
	Spec ResourceScalingGroupSpec `json:"spec,omitempty,omitzero"` //nolint:kubeapilinter // An object without spec is valid for the original CRD; it is reported by condition Ready.

	// status is what the controller saw and did.
	// +optional
	Status ResourceScalingGroupStatus `json:"status,omitempty,omitzero"`
}

// ResourceScalingGroupList is a list of ResourceScalingGroups.
//
// +kubebuilder:object:root=true
type ResourceScalingGroupList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the ResourceScalingGroups.
	Items []ResourceScalingGroup `json:"items"`
}

// ResourceScalingGroupSpec is what the user asks for.
//
// +kubebuilder:validation:XValidation:rule="self.targetResources.all(t, self.targetResources.exists_one(o, o.resourceRef.kind.lowerAscii() == t.resourceRef.kind.lowerAscii() && o.resourceRef.name == t.resourceRef.name && (has(o.resourceRef.__namespace__) ? o.resourceRef.__namespace__ : ' ') == (has(t.resourceRef.__namespace__) ? t.resourceRef.__namespace__ : ' ') && (has(o.resourceRef.subresource) && has(o.resourceRef.subresource.roleName) ? o.resourceRef.subresource.roleName : ' ') == (has(t.resourceRef.subresource) && has(t.resourceRef.subresource.roleName) ? t.resourceRef.subresource.roleName : ' ') && (has(o.resourceRef.subresource) && has(o.resourceRef.subresource.workloadName) ? o.resourceRef.subresource.workloadName : ' ') == (has(t.resourceRef.subresource) && has(t.resourceRef.subresource.workloadName) ? t.resourceRef.subresource.workloadName : ' ')))",fieldPath=".targetResources",message="targetResources must name each workload once; remove the entry that repeats another's resourceRef"
// +kubebuilder:validation:XValidation:rule="self.scalingStrategy.type != 'GroupReplication' || self.targetResources.all(t, has(t.resourceRef.subresource) || self.targetResources.exists_one(o, !has(o.resourceRef.subresource) && o.resourceRef.kind.lowerAscii() == t.resourceRef.kind.lowerAscii() && o.resourceRef.name == t.resourceRef.name))",fieldPath=".targetResources",message="targetResources must not hold two workloads of one kind and name in different namespaces, since their clones would have the same name; put one of them into another ResourceScalingGroup"
// +kubebuilder:validation:XValidation:rule="!has(self.scalingStrategy.leaderFollowerConfig) || self.targetResources.exists(t, t.name == self.scalingStrategy.leaderFollowerConfig.leader.resourceName)",fieldPath=".scalingStrategy.leaderFollowerConfig.leader.resourceName",message="leader.resourceName must be the name of an entry of targetResources"
// +kubebuilder:validation:XValidation:rule="!has(self.scalingStrategy.leaderFollowerConfig) || !has(self.scalingStrategy.leaderFollowerConfig.follower) || self.scalingStrategy.leaderFollowerConfig.follower.all(f, self.targetResources.exists(t, t.name == f.resourceName))",fieldPath=".scalingStrategy.leaderFollowerConfig.follower",message="follower[].resourceName must be the name of an entry of targetResources"
type ResourceScalingGroupSpec struct {
	// targetResources are the workloads of the group, at least one and at most 32, each with a name of its own. They
	// are group 0. The first one carries the annotation values and the pods that the scale subresource counts.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	TargetResources []TargetResource `json:"targetResources,omitempty"`

	// scalingStrategy says how the targets scale.
	// +required
	ScalingStrategy ScalingStrategy `json:"scalingStrategy,omitempty,omitzero"`

	// paused stops every write but that of the status while it is true. The counts then belong to others.
	// +optional
	Paused *bool `json:"paused,omitempty"`
}

// TargetResource is one workload of the group.
type TargetResource struct {
	// name is how the strategy and the replica ConfigMap refer to this target. It is a key of that ConfigMap, so it
	// may hold letters, digits, '-', '_' and '.', at most 253 of them.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$') && self != '.' && !self.startsWith('..')",message="name must be a key of a ConfigMap: letters, digits, '-', '_' and '.', and not . or beginning with .."
	Name string `json:"name,omitempty"`

	// resourceRef names the workload.
	// +required
	ResourceRef ResourceRef `json:"resourceRef,omitempty,omitzero"`
}

// ResourceRef names a workload, or one role of a RoleBasedGroup.
//
// +kubebuilder:validation:XValidation:rule="self.kind.lowerAscii() != 'rolebasedgroup' || has(self.subresource)",fieldPath=".subresource",message="subresource must be set when kind is RoleBasedGroup, to say which role is meant"
// +kubebuilder:validation:XValidation:rule="self.kind.lowerAscii() == 'rolebasedgroup' || !has(self.subresource)",fieldPath=".subresource",message="subresource must be left out unless kind is RoleBasedGroup"
// +kubebuilder:validation:XValidation:rule="!(self.kind.lowerAscii() in ['daemonset', 'job', 'cronjob', 'pod', 'resourcescalinggroup', 'elasticscaler', 'tidal', 'horizontalpodautoscaler', 'scaledobject'])",fieldPath=".kind",message="kind must be a workload with a replica count: Deployment, StatefulSet, LeaderWorkerSet or RoleBasedGroup"
type ResourceRef struct {
	// apiVersion of the workload, for example apps/v1.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	APIVersion string `json:"apiVersion,omitempty"`

	// kind of the workload: Deployment, StatefulSet, LeaderWorkerSet or RoleBasedGroup.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`

	// name of the workload.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// namespace of the workload. Empty means the namespace of the ResourceScalingGroup. Clones are always made in the
	// namespace of the ResourceScalingGroup.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// subresource selects a part of the referenced object: one role of a RoleBasedGroup.
	// +optional
	Subresource *Subresource `json:"subresource,omitempty"`
}

// SubresourceType is the kind of object that a subresource is a part of.
// +kubebuilder:validation:Enum=RoleBasedGroup
type SubresourceType string

// SubresourceRoleBasedGroup selects a role of a RoleBasedGroup.
const SubresourceRoleBasedGroup SubresourceType = "RoleBasedGroup"

// Subresource selects one role of a RoleBasedGroup through the workload that the role runs as.
//
// +kubebuilder:validation:XValidation:rule="has(self.roleName) && size(self.roleName) > 0 || has(self.workloadName) && size(self.workloadName) > 0",fieldPath=".roleName",message="roleName must be set, or workloadName where the workload of the role has a name of its own"
type Subresource struct {
	// type must be RoleBasedGroup.
	// +required
	Type SubresourceType `json:"type,omitempty"`

	// roleName is the name of the role.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	RoleName string `json:"roleName,omitempty"`

	// workloadKind is the kind that the role runs as. Empty means StatefulSet, the default of a RoleBasedGroup.
	// +optional
	// +kubebuilder:validation:Enum=StatefulSet;Deployment;LeaderWorkerSet
	WorkloadKind string `json:"workloadKind,omitempty"`

	// workloadApiVersion overrides the API version of workloadKind.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	WorkloadAPIVersion string `json:"workloadApiVersion,omitempty"`

	// workloadName overrides the name of the workload, which is <group>-<role> otherwise.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	WorkloadName string `json:"workloadName,omitempty"`
}

// ScalingStrategy says how the targets scale.
// +kubebuilder:validation:XValidation:rule="self.type != 'GroupReplication' || has(self.groupConfig)",fieldPath=".groupConfig",message="groupConfig must be set when type is GroupReplication"
// +kubebuilder:validation:XValidation:rule="self.type != 'GroupReplication' || !has(self.leaderFollowerConfig)",fieldPath=".leaderFollowerConfig",message="leaderFollowerConfig must not be set when type is GroupReplication: remove it, or use type InplaceScaling"
// +kubebuilder:validation:XValidation:rule="self.type != 'InplaceScaling' || has(self.leaderFollowerConfig)",fieldPath=".leaderFollowerConfig",message="leaderFollowerConfig must be set when type is InplaceScaling"
// +kubebuilder:validation:XValidation:rule="self.type != 'InplaceScaling' || !has(self.groupConfig)",fieldPath=".groupConfig",message="groupConfig must not be set when type is InplaceScaling: remove it, or use type GroupReplication"
type ScalingStrategy struct {
	// type is GroupReplication or InplaceScaling. The block of the other type must be left out.
	// +required
	Type StrategyType `json:"type,omitempty"`

	// groupConfig is the configuration of GroupReplication.
	// +optional
	GroupConfig *GroupConfig `json:"groupConfig,omitempty"`

	// leaderFollowerConfig is the configuration of InplaceScaling.
	// +optional
	LeaderFollowerConfig *LeaderFollowerConfig `json:"leaderFollowerConfig,omitempty"`
}

// GroupConfig configures GroupReplication.
type GroupConfig struct {
	// groupName is the prefix of the clones' names, <groupName>-<workload>-<id>, lower-cased there. Empty means the
	// name of the ResourceScalingGroup. Letters, digits and '-', at most 63, beginning and ending with a letter or digit.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?$')",message="groupName must be letters, digits and '-', and begin and end with a letter or digit, since it becomes part of object names"
	GroupName string `json:"groupName,omitempty"`

	// replicas is the number of groups, the user's own workloads (group 0) included, from 0 to 10000. It is what the
	// scale subresource reads and writes, so leave it out of Git where an autoscaler owns it. The default is 1.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Replicas *int32 `json:"replicas,omitempty"`

	// rewriteServiceReferences makes environment values and arguments of clones name the group's own Services where
	// the original's name stands as a host.
	// +optional
	RewriteServiceReferences *bool `json:"rewriteServiceReferences,omitempty"` //nolint:kubeapilinter // It rewrites references, and is none.

	// scaleDown says which groups are removed first. Left out, the annotation autoscaling.rsg.metric.values decides,
	// then the highest id.
	// +optional
	ScaleDown *ScaleDown `json:"scaleDown,omitempty"`
}

// ScaleDown says which groups are removed first.
type ScaleDown struct {
	// metric ranks the groups by Prometheus. Without an expr the annotation decides.
	// +optional
	Metric *ScaleDownMetric `json:"metric,omitempty"`

	// order is ascending (smallest values are removed first, the default) or descending.
	// +optional
	Order Order `json:"order,omitempty"`
}

// ScaleDownMetric is a Prometheus expression that gives one value per group through the label group_id.
//
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type == 'Gauge' || (has(self.window) && self.window.size() > 0)",fieldPath=".window",message="window must be set for type Counter or Histogram, for example 2m"
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type == 'Gauge' || !has(self.window) || self.window.size() == 0 || self.window.matches('^(0*[1-9][0-9]*(ms|s|m|h|d|w|y))+$')",fieldPath=".window",message="window must be a Prometheus duration greater than 0, for example 2m or 1h30m"
type ScaleDownMetric struct {
	// expr is a metric name or a PromQL expression whose series carry group_id, for example vllm:num_requests_running.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Expr string `json:"expr,omitempty"`

	// type is Gauge (the default), Counter or Histogram. For a Gauge the values are aggregated as they are; for the
	// others their rate over window is.
	// +optional
	Type MetricType `json:"type,omitempty"`

	// window is the range of the rate, a Prometheus duration such as 2m. Required for Counter and Histogram, ignored
	// for a Gauge.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Window string `json:"window,omitempty"`

	// aggregator over the series of one group. The default is avg for a Gauge and sum for the others.
	// +optional
	Aggregator Aggregator `json:"aggregator,omitempty"`
}

// LeaderFollowerConfig configures InplaceScaling.
//
// +kubebuilder:validation:XValidation:rule="!has(self.follower) || self.follower.all(f, f.resourceName != self.leader.resourceName)",fieldPath=".follower",message="follower[].resourceName must be another target than leader.resourceName"
type LeaderFollowerConfig struct {
	// leader is the target that the followers follow.
	// +required
	Leader Leader `json:"leader,omitempty,omitzero"`

	// follower lists the targets that keep a ratio to the leader, at most 64.
	// +optional
	// +listType=map
	// +listMapKey=resourceName
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Follower []Follower `json:"follower,omitempty"`
}

// Leader is the target whose replica count the followers follow.
type Leader struct {
	// resourceName is the name of an entry of targetResources.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ResourceName string `json:"resourceName,omitempty"`

	// replicas forces the leader's count, 0 or more. Left out, the leader's live count (driven by an HPA, say) is
	// followed and never written.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`
}

// Follower is a target that keeps a ratio to the leader.
type Follower struct {
	// resourceName is the name of an entry of targetResources.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ResourceName string `json:"resourceName,omitempty"`

	// followRatio is multiplied with the leader's count and rounded up: an integer, or a quoted decimal with at most
	// three decimals, above 0 and at most 1000.
	// +required
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:Pattern=`^[0-9]{1,4}([.][0-9]{1,3})?$`
	// +kubebuilder:validation:XValidation:rule="type(self) in [int] ? self >= 1 && self <= 1000 : double(self) > 0.0 && double(self) <= 1000.0",message="followRatio must be an integer from 1 to 1000, or a quoted decimal above 0 and at most 1000 with at most three decimals, for example \"0.5\""
	FollowRatio intstr.IntOrString `json:"followRatio,omitempty"` //nolint:kubeapilinter // Its zero value is refused, so that it needs no pointer.
}

// ResourceScalingGroupStatus is what the controller saw and did.
type ResourceScalingGroupStatus struct {
	// conditions are the latest observations, keyed by type.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status was made from.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// currentReplicas is the number of groups whose workloads and Services all exist and none of which is terminating.
	// Group 0 at zero replicas is not counted.
	// +optional
	CurrentReplicas *int32 `json:"currentReplicas,omitempty"`

	// lastDesiredReplicas is the number of groups that the last pass worked towards.
	// +optional
	LastDesiredReplicas *int32 `json:"lastDesiredReplicas,omitempty"`

	// readyReplicas is the number of groups counted in currentReplicas whose replicas are all available.
	// +optional
	ReadyReplicas *int32 `json:"readyReplicas,omitempty"`

	// selector selects one pod of each group, in the form of a label selector string, for the scale subresource.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Selector string `json:"selector,omitempty"`

	// revision names the ControllerRevision that new clones are built from.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Revision string `json:"revision,omitempty"`

	// groups lists every group of which anything exists, by id.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=10001
	Groups []GroupStatus `json:"groups,omitempty"`

	// targets lists what is known per target.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Targets []TargetStatus `json:"targets,omitempty"`

	// lastScaleDown is the last choice of groups to remove. It is on record before the first of them is touched, so
	// that a restarted controller goes on with the same ones.
	// +optional
	LastScaleDown *ScaleDownRecord `json:"lastScaleDown,omitempty"`
}

// GroupPhase is where a group stands.
// +kubebuilder:validation:Enum=Creating;Progressing;Ready;Removing;AtZero
type GroupPhase string

const (
	// GroupCreating says that some of the group's objects do not exist yet.
	GroupCreating GroupPhase = "Creating"
	// GroupProgressing says that all objects exist, not all replicas are available.
	GroupProgressing GroupPhase = "Progressing"
	// GroupReady says that all objects exist and all replicas are available.
	GroupReady GroupPhase = "Ready"
	// GroupRemoving says that the group was chosen for removal, or something of it is terminating.
	GroupRemoving GroupPhase = "Removing"
	// GroupAtZero says that group 0 was scaled away and its workloads wait at zero replicas.
	GroupAtZero GroupPhase = "AtZero"
)

// GroupStatus describes one group.
type GroupStatus struct {
	// id of the group, 0 for the user's own workloads.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9999
	ID int32 `json:"id"`

	// phase is where the group stands.
	// +required
	Phase GroupPhase `json:"phase,omitempty"` //nolint:kubeapilinter // A group is no object of its own, so it has no conditions to say this.

	// targets are the workloads of the group that exist, by target name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Targets []GroupTargetStatus `json:"targets,omitempty"`

	// value is what ranked this group in the last scale-down, a decimal number.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Value string `json:"value,omitempty"`
}

// GroupTargetStatus counts the replicas of one workload of a group.
type GroupTargetStatus struct {
	// name of the target.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// desired replicas of the workload.
	// +required
	// +kubebuilder:validation:Minimum=0
	Desired int32 `json:"desired"`

	// ready is the number of the workload's available replicas.
	// +required
	// +kubebuilder:validation:Minimum=0
	Ready int32 `json:"ready"`
}

// TargetStatus describes one target.
type TargetStatus struct {
	// name of the target.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// baselineReplicas is the count that new clones and a recovered group 0 get, from the replica ConfigMap.
	// +optional
	BaselineReplicas *int32 `json:"baselineReplicas,omitempty"`

	// desiredReplicas is what InplaceScaling last wanted the target to have.
	// +optional
	// +kubebuilder:validation:Minimum=0
	DesiredReplicas *int32 `json:"desiredReplicas,omitempty"`

	// currentReplicas is, with InplaceScaling, the count that the target was left with: what was last written, else what it had.
	// +optional
	// +kubebuilder:validation:Minimum=0
	CurrentReplicas *int32 `json:"currentReplicas,omitempty"`

	// readyReplicas is, with InplaceScaling, the number of the target's available replicas.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ReadyReplicas *int32 `json:"readyReplicas,omitempty"`

	// snapshotDrift is true when the base workload differs from the snapshot that clones are made from. Delete the
	// ControllerRevision and the replica ConfigMap to take a new one.
	// +optional
	SnapshotDrift *bool `json:"snapshotDrift,omitempty"`
}

// ScaleDownLevel names what ranked the groups of a scale-down.
// +kubebuilder:validation:Enum=Metric;Annotation;GroupID;Incomplete
type ScaleDownLevel string

const (
	// LevelMetric says that the values of scaleDown.metric ranked them.
	LevelMetric ScaleDownLevel = "Metric"
	// LevelAnnotation says that the annotation autoscaling.rsg.metric.values ranked them.
	LevelAnnotation ScaleDownLevel = "Annotation"
	// LevelGroupID says that the highest ids went, group 0 last.
	LevelGroupID ScaleDownLevel = "GroupID"
	// LevelIncomplete says that removing groups that were never complete was enough.
	LevelIncomplete ScaleDownLevel = "Incomplete"
)

// ScaleDownRecord is one choice of groups to remove.
type ScaleDownRecord struct {
	// time of the choice.
	// +required
	Time metav1.Time `json:"time,omitempty,omitzero"` //nolint:kubeapilinter // A record is made at a time, so that it needs no pointer.

	// level that ranked the groups.
	// +required
	Level ScaleDownLevel `json:"level,omitempty"`

	// order in which values were compared.
	// +required
	Order Order `json:"order,omitempty"`

	// reason is a reason of the condition ScaleDownMetric when a metric is configured and could not decide.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`

	// values that were compared, by group id, decimal numbers. Empty when the ids decided.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=10001
	Values []GroupValue `json:"values,omitempty"`

	// victims are the ids of the groups chosen, in the order of choice.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10001
	Victims []int32 `json:"victims,omitempty"`

	// pending are the groups chosen by this or an earlier choice that are not gone yet. Absent when the removal is done.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10001
	Pending []int32 `json:"pending,omitempty"`
}

// GroupValue is the value of one group.
type GroupValue struct {
	// id of the group.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9999
	ID int32 `json:"id"`

	// value of the group, a decimal number.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	Value string `json:"value,omitempty"`
}
