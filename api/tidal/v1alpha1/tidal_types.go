package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Tidal says how many replicas its target should have at which times. The rule that fired last is in force until the next
// one fires, over restarts of the manager too.
//
// A Tidal with the labels `elasticscaler.io/name` and `elasticscaler.io/namespace` is bound to that ElasticScaler: it writes
// its count to its status only, and the ElasticScaler, which needs a StateTrigger, applies it. Without the labels the Tidal
// writes the count to its target itself, once each time that a rule fires.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=tidal
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.spec.targetRef.kind`,description="Kind of the target"
// +kubebuilder:printcolumn:name="Target Name",type=string,JSONPath=`.spec.targetRef.name`,description="Name of the target"
// +kubebuilder:printcolumn:name="Desired Replicas",type=integer,JSONPath=`.status.desiredReplicas`,description="Replicas that the rule in force wants"
// +kubebuilder:printcolumn:name="Active Rule",type=string,JSONPath=`.status.activeRule`,description="Rule in force"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].status`,description="Whether the Tidal works"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Tidal struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata. The labels `elasticscaler.io/name` and `elasticscaler.io/namespace` bind the
	// Tidal to an ElasticScaler; both are needed.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what to scale, and when.
	// +required
	Spec TidalSpec `json:"spec,omitzero"`

	// status is which rule is in force, and which ones come next.
	// +optional
	Status TidalStatus `json:"status,omitzero"`
}

// TidalList is a list of Tidals.
//
// +kubebuilder:object:root=true
type TidalList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the Tidals.
	Items []Tidal `json:"items"`
}

// TidalSpec is what to scale, and when.
type TidalSpec struct {
	// targetRef names the object that is scaled: a Deployment, StatefulSet, LeaderWorkerSet, ResourceScalingGroup of type
	// GroupReplication, or any other kind with a scale subresource.
	// +required
	TargetRef TargetReference `json:"targetRef,omitzero"`

	// triggers say when which count is wanted.
	// +required
	Triggers Triggers `json:"triggers,omitzero"`

	// suspend freezes the Tidal while it is true: no rule fires, nothing but the status is written, and the count of the target
	// stays. On the way back the rule that fired last takes effect. Defaults to false.
	// +optional
	Suspend *bool `json:"suspend,omitempty"`
}

// TargetReference names the object that is scaled.
//
// +kubebuilder:validation:XValidation:rule="!(self.kind.lowerAscii() in ['daemonset', 'job', 'cronjob', 'pod'])",fieldPath=".kind",message="kind must be one that has a scale subresource, such as Deployment, StatefulSet or ResourceScalingGroup; this kind has none (a DaemonSet runs one pod on each node, whatever the hour)"
// +kubebuilder:validation:XValidation:rule="!(self.kind.lowerAscii() in ['tidal', 'elasticscaler', 'horizontalpodautoscaler', 'scaledobject'])",fieldPath=".kind",message="kind must be that of the workload that is scaled, such as Deployment or ResourceScalingGroup, and not a scaler; to let an ElasticScaler apply the count, set the labels elasticscaler.io/name and elasticscaler.io/namespace on the Tidal"
type TargetReference struct {
	// apiVersion is the group and version of the target, such as `apps/v1`.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +required
	APIVersion string `json:"apiVersion,omitempty"`

	// kind is the kind of the target, such as `Deployment`. Upper and lower case are not told apart.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Kind string `json:"kind,omitempty"`

	// name is the name of the target.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name,omitempty"`

	// namespace is the namespace of the target. A target in another namespace than the Tidal's needs the right to scale
	// it, which admission checks of the writer.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Namespace string `json:"namespace,omitempty"`
}

// Triggers say when which count is wanted.
type Triggers struct {
	// times are rules on the clock.
	// +required
	Times TimeTrigger `json:"times,omitzero"`
}

// TimeTrigger holds the rules on the clock.
type TimeTrigger struct {
	// rules are the rules, 1 to 100, each with a name of its own. Where two fire at the same instant the later one in the
	// list wins, and condition RuleConflict names the pair.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +listType=map
	// +listMapKey=name
	// +required
	Rules []TimeRule `json:"rules,omitempty"`
}

// TimeRule wants a count from the moments of a schedule on.
type TimeRule struct {
	// name tells the rule from the others of this Tidal; the status and events use it. 1 to 253 characters.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name,omitempty"`

	// cron is when the rule fires: five fields (minute, hour, day of month, month, day of week), six with seconds first, or
	// a descriptor such as `@daily`, after an optional `CRON_TZ=<zone>` or `TZ=<zone>` and a space, for example
	// `CRON_TZ=Asia/Shanghai 0 9 * * 1-5`. Without a zone the times are UTC. Sunday is 0, months and days of the week may be
	// written as JAN and MON. Where both the day of month and the day of week are restricted, either is enough. A moment
	// that daylight saving skips fires at the first moment after the gap; one that it repeats fires once. At most 512
	// characters.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.contains('@every')",message="cron must not use @every, since it has no fixed moment to count from; write the hours or minutes as fields, such as 0 */2 * * * for every two hours"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('CRON_TZ=Local ') && !self.startsWith('TZ=Local ')",message="cron must name a time zone such as Asia/Shanghai or UTC; Local would be that of whichever machine the manager runs on"
	// +kubebuilder:validation:XValidation:rule="self.contains('@every') || self.matches('^((CRON_TZ|TZ)=[A-Za-z0-9_+/-]+[ ]+)?([0-9A-Za-z*?,/-]+([ ]+[0-9A-Za-z*?,/-]+){4,5}|@[A-Za-z]+)[ ]*$')",message="cron must have five fields (minute, hour, day of month, month, day of week) or six with seconds first, or be a descriptor such as @daily, after an optional CRON_TZ=<zone> and one space, for example: CRON_TZ=Asia/Shanghai 0 9 * * 1-5"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^((CRON_TZ|TZ)=[A-Za-z0-9_+/-]+[ ]+)?([0-9A-Za-z*?,/-]+([ ]+[0-9A-Za-z*?,/-]+){4,5}|@[A-Za-z]+)[ ]*$') || self.contains('@every') || self.matches('^((CRON_TZ|TZ)=[^ ]+[ ]+)?((([*?]|(0*[0-5]?[0-9])(-(0*[0-5]?[0-9]))?)(/0*[1-9][0-9]*)?(,([*?]|(0*[0-5]?[0-9])(-(0*[0-5]?[0-9]))?)(/0*[1-9][0-9]*)?)*[ ]+)?([*?]|(0*[0-5]?[0-9])(-(0*[0-5]?[0-9]))?)(/0*[1-9][0-9]*)?(,([*?]|(0*[0-5]?[0-9])(-(0*[0-5]?[0-9]))?)(/0*[1-9][0-9]*)?)*[ ]+([*?]|(0*([01]?[0-9]|2[0-3]))(-(0*([01]?[0-9]|2[0-3])))?)(/0*[1-9][0-9]*)?(,([*?]|(0*([01]?[0-9]|2[0-3]))(-(0*([01]?[0-9]|2[0-3])))?)(/0*[1-9][0-9]*)?)*[ ]+([*?]|(0*([1-9]|[12][0-9]|3[01]))(-(0*([1-9]|[12][0-9]|3[01])))?)(/0*[1-9][0-9]*)?(,([*?]|(0*([1-9]|[12][0-9]|3[01]))(-(0*([1-9]|[12][0-9]|3[01])))?)(/0*[1-9][0-9]*)?)*[ ]+([*?]|(0*([1-9]|1[0-2])|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))(-(0*([1-9]|1[0-2])|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)))?)(/0*[1-9][0-9]*)?(,([*?]|(0*([1-9]|1[0-2])|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))(-(0*([1-9]|1[0-2])|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)))?)(/0*[1-9][0-9]*)?)*[ ]+([*?]|(0*[0-6]|(?i:sun|mon|tue|wed|thu|fri|sat))(-(0*[0-6]|(?i:sun|mon|tue|wed|thu|fri|sat)))?)(/0*[1-9][0-9]*)?(,([*?]|(0*[0-6]|(?i:sun|mon|tue|wed|thu|fri|sat))(-(0*[0-6]|(?i:sun|mon|tue|wed|thu|fri|sat)))?)(/0*[1-9][0-9]*)?)*|@(?i:yearly|annually|monthly|weekly|daily|midnight|hourly))[ ]*$')",message="cron must have values within their range: seconds and minutes 0-59, hours 0-23, days of the month 1-31, months 1-12 or JAN-DEC, days of the week 0-6 or SUN-SAT where 0 is Sunday, steps from 1; descriptors are @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly"
	// +required
	Cron string `json:"cron,omitempty"`

	// replicas is the count that is wanted from then on, in the target's own unit. 0 or more.
	// +kubebuilder:validation:Minimum=0
	// +required
	Replicas *int32 `json:"replicas,omitempty"`

	// description says what the rule is for. At most 4096 characters.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Description string `json:"description,omitempty"`
}

// TidalStatus is which rule is in force, and which ones come next.
type TidalStatus struct {
	// conditions say how the Tidal is. Ready is the summary; Progressing and Degraded describe the target's way to the
	// count and rules that cannot be used; RuleConflict and Suspended are there always. Bound is there on a Tidal with a
	// label of an ElasticScaler, and tells whether that scaler applies the count; SharedTarget and ScalerConflict are there
	// on one that writes the count itself.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status reflects.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ObservedGeneration *int64 `json:"observedGeneration,omitempty"`

	// desiredReplicas is the count of the rule in force. Absent where no rule has ever fired; the count of the target is
	// then left alone.
	// +optional
	DesiredReplicas *int32 `json:"desiredReplicas,omitempty"`

	// activeRule is the name of the rule in force: the one that fired last.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ActiveRule string `json:"activeRule,omitempty"`

	// activeRuleEffectiveTime is the moment since which activeRule is in force.
	// +optional
	ActiveRuleEffectiveTime *metav1.Time `json:"activeRuleEffectiveTime,omitempty"`

	// lastTriggerRule is the name of the rule that was in force before activeRule.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	LastTriggerRule string `json:"lastTriggerRule,omitempty"`

	// lastTriggerTime is when lastTriggerRule fired.
	// +optional
	LastTriggerTime *metav1.Time `json:"lastTriggerTime,omitempty"`

	// nextTriggerRule is the name of the rule that fires next.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	NextTriggerRule string `json:"nextTriggerRule,omitempty"`

	// nextTriggerTime is when nextTriggerRule fires.
	// +optional
	NextTriggerTime *metav1.Time `json:"nextTriggerTime,omitempty"`

	// lastScale is the last firing whose count was written to the target, or found there. Absent where an ElasticScaler
	// applies the count.
	// +optional
	LastScale *ScaleRecord `json:"lastScale,omitempty"`

	// upcoming are the next firings, at most five, the nearest first.
	// +kubebuilder:validation:MaxItems=5
	// +listType=atomic
	// +optional
	Upcoming []UpcomingFiring `json:"upcoming,omitempty"`
}

// ScaleRecord is a firing that has reached a target. While the firing in force is the one on record nothing is written, so
// that between firings the count belongs to others.
type ScaleRecord struct {
	// rule is the name of the rule that fired.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Rule string `json:"rule,omitempty"`

	// time is when the rule fired.
	// +required
	Time *metav1.Time `json:"time,omitempty"`

	// replicas is the count that was written.
	// +required
	Replicas *int32 `json:"replicas,omitempty"`

	// targetUID is the UID of the target. A target that was made anew, or another one, gets the count anew.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +required
	TargetUID string `json:"targetUID,omitempty"`
}

// UpcomingFiring is a firing to come.
type UpcomingFiring struct {
	// time is when the rule fires.
	// +required
	Time *metav1.Time `json:"time,omitempty"`

	// rule is the name of the rule.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Rule string `json:"rule,omitempty"`

	// replicas is the count that the rule wants.
	// +required
	Replicas *int32 `json:"replicas,omitempty"`
}
