package v1alpha1

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ElasticScaler decides how many replicas one target has: from metrics (MetricsTrigger), from the count that another
// object carries in its status (StateTrigger), or from a signal that switches the target on and off (SignalTrigger). The
// count is written through the scale subresource of the target, so that any kind with one can be a target.
//
// One target has one ElasticScaler. Deleting an ElasticScaler leaves the target at the count it has.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=esc
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.spec.targetRef.name`,description="Name of the object that is scaled"
// +kubebuilder:printcolumn:name="Trigger",type=string,JSONPath=`.spec.trigger.type`,description="What drives the count"
// +kubebuilder:printcolumn:name="Min",type=integer,JSONPath=`.status.minReplicas`,description="Lower bound in force"
// +kubebuilder:printcolumn:name="Max",type=integer,JSONPath=`.status.maxReplicas`,description="Upper bound in force"
// +kubebuilder:printcolumn:name="Current",type=integer,JSONPath=`.status.currentReplicas`,description="Replicas of the target at the last decision"
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.status.desiredReplicas`,description="Replicas that the last decision asked for"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].status`,description="Whether the scaler works"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ElasticScaler struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata. Annotations that begin with `elasticscaler.io/` tune the decision where
	// the spec has no field for it or leaves the field out.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what to scale, between which bounds, and what drives the count.
	// +required
	Spec ElasticScalerSpec `json:"spec,omitzero"`

	// status is what the scaler last saw, decided and did. It is written with a decision that changed something, never
	// alone for the sake of a fresh time.
	// +optional
	Status ElasticScalerStatus `json:"status,omitzero"`
}

// ElasticScalerList is a list of ElasticScalers.
//
// +kubebuilder:object:root=true
type ElasticScalerList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the ElasticScalers.
	Items []ElasticScaler `json:"items"`
}

// ElasticScalerSpec is what to scale, between which bounds, and what drives the count.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",fieldPath=".minReplicas",message="minReplicas must be less than or equal to maxReplicas; lower minReplicas or raise maxReplicas"
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || has(self.maxReplicas) || self.trigger.type == 'StateTrigger' || self.minReplicas <= 10",fieldPath=".minReplicas",message="minReplicas must be at most 10 while maxReplicas is left out, since maxReplicas is then 10; set maxReplicas to at least minReplicas"
// +kubebuilder:validation:XValidation:rule="self.targetRef.kind.lowerAscii() != 'tidal' || self.trigger.type == 'StateTrigger' || (has(self.targetRef.apiVersion) && !self.targetRef.apiVersion.startsWith('tidal.io/'))",fieldPath=".targetRef",message="targetRef must name the workload that is scaled; a Tidal may stand there only with trigger.type StateTrigger, where its own targetRef is scaled"
type ElasticScalerSpec struct {
	// targetRef names the object that is scaled: a Deployment, StatefulSet, LeaderWorkerSet, ResourceScalingGroup of type
	// GroupReplication, or any other kind with a scale subresource or a registered resource handler. With a StateTrigger
	// it may name the Tidal that drives the scaler; the Tidal's own targetRef is then scaled.
	// +required
	TargetRef TargetReference `json:"targetRef,omitzero"`

	// minReplicas is the lower bound of the count, in the target's own unit (pods of a Deployment, groups of a
	// ResourceScalingGroup or LeaderWorkerSet). 0 or more. Left out: 1 with a MetricsTrigger or SignalTrigger, and no
	// lower bound with a StateTrigger. With a SignalTrigger it is the count that ScaleDown sets. 0 with a MetricsTrigger
	// needs a metric that exists while no pod runs, or nothing ever starts the target again.
	// +kubebuilder:validation:Minimum=0
	// +optional
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// maxReplicas is the upper bound of the count, in the target's own unit. 1 or more, and not below minReplicas. Left
	// out: 10 with a MetricsTrigger or SignalTrigger, and no upper bound with a StateTrigger. With a SignalTrigger it is
	// the count that ScaleUp sets.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`

	// trigger is what drives the count.
	// +required
	Trigger Trigger `json:"trigger,omitzero"`

	// behavior limits how fast the count may change in each direction and over which time a recommendation must have
	// stood: the `behavior` of a HorizontalPodAutoscaler, of the same meaning. Where an annotation of the scaler sets the
	// same thing, this field wins. Left out: scale-up takes the lowest recommendation of the last 30 seconds, scale-down
	// the highest of the last 180 seconds; with scalingAlgorithm HPA, the defaults of the HorizontalPodAutoscaler.
	// +kubebuilder:validation:XValidation:rule="(!has(self.scaleUp) || !has(self.scaleUp.stabilizationWindowSeconds) || (self.scaleUp.stabilizationWindowSeconds >= 0 && self.scaleUp.stabilizationWindowSeconds <= 3600)) && (!has(self.scaleDown) || !has(self.scaleDown.stabilizationWindowSeconds) || (self.scaleDown.stabilizationWindowSeconds >= 0 && self.scaleDown.stabilizationWindowSeconds <= 3600))",message="stabilizationWindowSeconds must be between 0 and 3600 seconds"
	// +kubebuilder:validation:XValidation:rule="(!has(self.scaleUp) || !has(self.scaleUp.selectPolicy) || self.scaleUp.selectPolicy in ['Max', 'Min', 'Disabled']) && (!has(self.scaleDown) || !has(self.scaleDown.selectPolicy) || self.scaleDown.selectPolicy in ['Max', 'Min', 'Disabled'])",message="selectPolicy must be Max, Min or Disabled"
	// +kubebuilder:validation:XValidation:rule="(!has(self.scaleUp) || !has(self.scaleUp.policies) || self.scaleUp.policies.all(p, p.type in ['Pods', 'Percent'] && p.value > 0 && p.periodSeconds > 0 && p.periodSeconds <= 1800)) && (!has(self.scaleDown) || !has(self.scaleDown.policies) || self.scaleDown.policies.all(p, p.type in ['Pods', 'Percent'] && p.value > 0 && p.periodSeconds > 0 && p.periodSeconds <= 1800))",message="each of policies must have type Pods or Percent, a value greater than 0, and periodSeconds between 1 and 1800"
	// +optional
	Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior,omitempty"`

	// intervalSeconds is the time between two evaluations of a MetricsTrigger, in seconds, and between two polls of a
	// SignalTrigger endpoint that closes its connection. 1 to 3600. Left out: the manager's setting, 15 unless changed.
	// A StateTrigger follows its source at once, and a HorizontalPodAutoscaler the period of its own controller.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	// +optional
	IntervalSeconds *int32 `json:"intervalSeconds,omitempty"`

	// paused stops all writes but those to the status while it is true: the count of the target then belongs to others.
	// Condition Paused says so. Defaults to false.
	// +optional
	Paused *bool `json:"paused,omitempty"`
}

// TargetReference names the object that is scaled. It has the fields of a core ObjectReference.
//
// +structType=atomic
// +kubebuilder:validation:XValidation:rule="!(self.kind.lowerAscii() in ['elasticscaler', 'horizontalpodautoscaler', 'scaledobject'])",fieldPath=".kind",message="kind must be one that has a scale subresource, such as Deployment or ResourceScalingGroup, and not a scaler; name the workload that is scaled"
// +kubebuilder:validation:XValidation:rule="!(self.kind.lowerAscii() in ['daemonset', 'job', 'cronjob', 'pod'])",fieldPath=".kind",message="kind must be one that has a scale subresource, such as Deployment, StatefulSet or ResourceScalingGroup; this kind has none"
type TargetReference struct {
	// apiVersion is the group and version of the target, such as `apps/v1`. Left out, the kind alone must tell the target:
	// it must be served by one API group only.
	// +kubebuilder:validation:MaxLength=317
	// +optional
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

	// namespace is the namespace of the target. Left out: the namespace of the ElasticScaler. A target elsewhere needs
	// the right to scale it, which admission checks of the writer; with scalingAlgorithm HPA the target must be in the
	// namespace of the ElasticScaler.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// uid of the target. Accepted for the sake of objects that carry a whole ObjectReference; not read.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	UID string `json:"uid,omitempty"`

	// resourceVersion of the target. Accepted for the sake of objects that carry a whole ObjectReference; not read.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	ResourceVersion string `json:"resourceVersion,omitempty"`

	// fieldPath within the target. Accepted for the sake of objects that carry a whole ObjectReference; not read.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	FieldPath string `json:"fieldPath,omitempty"`
}

// TriggerType says what drives the count.
//
// +kubebuilder:validation:Enum=MetricsTrigger;StateTrigger;SignalTrigger
type TriggerType string

const (
	// MetricsTriggerType computes the count from metrics.
	MetricsTriggerType TriggerType = "MetricsTrigger"
	// StateTriggerType takes the count from the status of another object.
	StateTriggerType TriggerType = "StateTrigger"
	// SignalTriggerType switches between the bounds on a signal.
	SignalTriggerType TriggerType = "SignalTrigger"
)

// Trigger is what drives the count. The block that belongs to the type is set, and no other.
//
// +kubebuilder:validation:XValidation:rule="self.type != 'MetricsTrigger' || has(self.metricsTrigger)",fieldPath=".metricsTrigger",message="metricsTrigger must be set when type is MetricsTrigger"
// +kubebuilder:validation:XValidation:rule="self.type != 'SignalTrigger' || has(self.signalTrigger)",fieldPath=".signalTrigger",message="signalTrigger must be set when type is SignalTrigger"
// +kubebuilder:validation:XValidation:rule="self.type == 'MetricsTrigger' || !has(self.metricsTrigger)",fieldPath=".metricsTrigger",message="metricsTrigger must be left out unless type is MetricsTrigger; remove the block or change type"
// +kubebuilder:validation:XValidation:rule="self.type == 'StateTrigger' || !has(self.stateTrigger)",fieldPath=".stateTrigger",message="stateTrigger must be left out unless type is StateTrigger; remove the block or change type"
// +kubebuilder:validation:XValidation:rule="self.type == 'SignalTrigger' || !has(self.signalTrigger)",fieldPath=".signalTrigger",message="signalTrigger must be left out unless type is SignalTrigger; remove the block or change type"
type Trigger struct {
	// type is what drives the count: `MetricsTrigger` computes it from metrics, `StateTrigger` takes it from the status of
	// another object, `SignalTrigger` switches between minReplicas and maxReplicas on a signal.
	// +required
	Type TriggerType `json:"type,omitempty"`

	// metricsTrigger says from which metrics, and how, the count is computed. Required with type MetricsTrigger.
	// +optional
	MetricsTrigger *MetricsTrigger `json:"metricsTrigger,omitempty"`

	// stateTrigger belongs to type StateTrigger, and may be left out or empty there. The object that drives the scaler
	// names it by its labels `elasticscaler.io/name` and `elasticscaler.io/namespace`, and carries the count in
	// `status.desiredReplicas`.
	// +optional
	StateTrigger *StateTrigger `json:"stateTrigger,omitempty"`

	// signalTrigger says where signals come from. Required with type SignalTrigger.
	// +optional
	SignalTrigger *SignalTrigger `json:"signalTrigger,omitempty"`
}

// MetricsTrigger computes the count from metrics. Each metric proposes a count, and the highest proposal wins.
//
// +kubebuilder:validation:XValidation:rule="!has(self.scalingAlgorithm) || self.scalingAlgorithm.lowerAscii() != 'hpa' || self.metrics.all(m, m.type != 'ExternalServer')",fieldPath=".metrics",message="metrics must not have type ExternalServer with scalingAlgorithm HPA, since a HorizontalPodAutoscaler cannot read one; use External, or another scalingAlgorithm such as APA"
// +kubebuilder:validation:XValidation:rule="!has(self.scalingAlgorithm) || self.scalingAlgorithm.lowerAscii() != 'hpa' || self.metrics.all(m, m.type != 'Custom' || !has(m.custom) || m.custom.target.type == 'AverageValue')",fieldPath=".metrics",message="custom.target.type must be AverageValue with scalingAlgorithm HPA, since the metric becomes one of type Pods; change the target, or use another scalingAlgorithm such as APA"
// +kubebuilder:validation:XValidation:rule="!has(self.scalingAlgorithm) || self.scalingAlgorithm.lowerAscii() != 'hpa' || self.metrics.all(m, !has(m.noData) && !has(m.maxAgeSeconds))",fieldPath=".metrics",message="noData and maxAgeSeconds must be left out with scalingAlgorithm HPA, since a HorizontalPodAutoscaler has its own treatment of missing metrics; remove them, or use another scalingAlgorithm such as APA"
type MetricsTrigger struct {
	// scalingAlgorithm is the name of the algorithm: `APA` (default, also when empty), `KPA`, `CEL`, `HPA` (a
	// HorizontalPodAutoscaler is created and owned), or the name of an algorithm that was compiled into the manager. Upper
	// and lower case are not told apart. A name that nobody registered is accepted, and reported by condition Validated;
	// the count then stays.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ScalingAlgorithm string `json:"scalingAlgorithm,omitempty"`

	// algorithmConfig holds the settings of the algorithm by name. A value is a string, a number or a boolean. APA reads
	// `upTolerance`, `downTolerance`, `maxScaleUpRate` and `maxScaleDownRate`; CEL reads `expression`. At most 64 settings.
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	AlgorithmConfig map[string]ConfigValue `json:"algorithmConfig,omitempty"`

	// metrics are the inputs of the decision, 1 to 100. A metric that cannot be read may hold or raise the count, never
	// lower it, unless its own noData says otherwise.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +required
	Metrics []MetricSpec `json:"metrics,omitempty"`
}

// MetricType says where a metric comes from.
//
// +kubebuilder:validation:Enum=Resource;External;ExternalServer;Custom
type MetricType string

const (
	// ResourceMetricType is CPU or memory of the target's pods, from metrics.k8s.io.
	ResourceMetricType MetricType = "Resource"
	// ExternalMetricType is a metric of no Kubernetes object, from external.metrics.k8s.io.
	ExternalMetricType MetricType = "External"
	// ExternalServerMetricType is a metric that is read from an HTTP endpoint.
	ExternalServerMetricType MetricType = "ExternalServer"
	// CustomMetricType is a metric of the target's pods, from custom.metrics.k8s.io.
	CustomMetricType MetricType = "Custom"
)

// MetricSpec is one input of the decision. The block that belongs to the type is set, and no other.
//
// +kubebuilder:validation:XValidation:rule="(self.type == 'Resource') == has(self.resource)",fieldPath=".resource",message="resource must be set when type is Resource, and left out otherwise"
// +kubebuilder:validation:XValidation:rule="(self.type == 'External') == has(self.external)",fieldPath=".external",message="external must be set when type is External, and left out otherwise"
// +kubebuilder:validation:XValidation:rule="(self.type == 'ExternalServer') == has(self.externalServer)",fieldPath=".externalServer",message="externalServer must be set when type is ExternalServer, and left out otherwise"
// +kubebuilder:validation:XValidation:rule="(self.type == 'Custom') == has(self.custom)",fieldPath=".custom",message="custom must be set when type is Custom, and left out otherwise"
type MetricSpec struct {
	// type is where the metric comes from: `Resource` (metrics.k8s.io), `Custom` (custom.metrics.k8s.io), `External`
	// (external.metrics.k8s.io) or `ExternalServer` (an HTTP endpoint, such as Prometheus).
	// +required
	Type MetricType `json:"type,omitempty"`

	// resource is CPU or memory of the target's pods. Required with type Resource.
	// +optional
	Resource *ResourceMetricSource `json:"resource,omitempty"`

	// external is a metric of no Kubernetes object, from the external metrics API. Required with type External.
	// +optional
	External *ExternalMetricSource `json:"external,omitempty"`

	// externalServer is a metric that the manager reads itself from an HTTP endpoint. Required with type ExternalServer.
	// +optional
	ExternalServer *ExternalServerMetricSource `json:"externalServer,omitempty"`

	// custom is a metric of the target's pods, from the custom metrics API. Required with type Custom.
	// +optional
	Custom *CustomMetricSource `json:"custom,omitempty"`

	// noData says what a missing value of this metric means. Left out: Hold.
	// +optional
	NoData *NoDataPolicy `json:"noData,omitempty"`

	// maxAgeSeconds is how old a sample may be, in seconds; an older one counts as missing. 1 to 86400. Left out: the
	// manager's setting, 120 unless changed. The age of an ExternalServer query is known only where the query is a plain
	// selector; for other expressions the look-back of Prometheus decides.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	// +optional
	MaxAgeSeconds *int32 `json:"maxAgeSeconds,omitempty"`
}

// ResourceMetricSource is CPU or memory of the target's pods, from metrics.k8s.io. Only ready pods count; starting and
// missing ones are treated as a HorizontalPodAutoscaler treats them.
type ResourceMetricSource struct {
	// metricsName is the name of the resource, such as `cpu` or `memory`.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	MetricsName string `json:"metricsName,omitempty"`

	// target is the value to hold: type Utilization, in percent of what the pods request, or AverageValue, a quantity per
	// pod such as `500m` or `2Gi`.
	// +kubebuilder:validation:XValidation:rule="self.type != 'Value'",fieldPath=".type",message="type must be Utilization or AverageValue for a Resource metric; a total over all pods is not a target for it"
	// +required
	Target MetricTarget `json:"target,omitzero"`
}

// ExternalMetricSource is a metric of no Kubernetes object, from external.metrics.k8s.io.
//
// +kubebuilder:validation:XValidation:rule="has(self.metricsName) || has(self.metric)",fieldPath=".metricsName",message="metricsName (or metric.name) must be set to the name of the metric"
// +kubebuilder:validation:XValidation:rule="!has(self.metricsName) || !has(self.metric) || self.metricsName == self.metric.name",fieldPath=".metricsName",message="metricsName must be equal to metric.name where both are set; keep one of the two"
type ExternalMetricSource struct {
	// metricsName is the name of the metric. It or metric.name is required.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	MetricsName string `json:"metricsName,omitempty"`

	// metric names the metric in the way of a HorizontalPodAutoscaler: `metric: {name: qps}` means the same as
	// `metricsName: qps`.
	// +optional
	Metric *MetricName `json:"metric,omitempty"`

	// selector chooses among the series of that name by their labels. Left out: all of them; their values are summed.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// target is the value to hold: type Value, the total, or AverageValue, the total divided by the replicas.
	// +kubebuilder:validation:XValidation:rule="self.type != 'Utilization'",fieldPath=".type",message="type must be Value or AverageValue for an External metric; Utilization belongs to Resource metrics"
	// +required
	Target MetricTarget `json:"target,omitzero"`
}

// MetricName is the name of a metric.
type MetricName struct {
	// name is the name of the metric.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name,omitempty"`
}

// CustomMetricSource is a metric of the target's pods, from custom.metrics.k8s.io.
type CustomMetricSource struct {
	// metricsName is the name of the metric, such as `vllm:num_requests_waiting`.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	MetricsName string `json:"metricsName,omitempty"`

	// selector chooses among the series of that name by their labels. Left out: all of them.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// target is the value to hold: type AverageValue, the mean over the pods, or Value, their total.
	// +kubebuilder:validation:XValidation:rule="self.type != 'Utilization'",fieldPath=".type",message="type must be AverageValue or Value for a Custom metric; Utilization belongs to Resource metrics"
	// +required
	Target MetricTarget `json:"target,omitzero"`
}

// Protocol is the scheme of an endpoint that has none of its own.
//
// +kubebuilder:validation:Enum=http;https
type Protocol string

const (
	// ProtocolHTTP is plain HTTP.
	ProtocolHTTP Protocol = "http"
	// ProtocolHTTPS is HTTP over TLS.
	ProtocolHTTPS Protocol = "https"
)

// ExternalServerMetricSource is a metric that the manager reads itself from an HTTP endpoint: with query as a Prometheus
// instant query, without it as Prometheus text or JSON.
type ExternalServerMetricSource struct {
	// endpoint is where the metric is read: a host with optional port and path, such as `prometheus.monitoring.svc:9090`,
	// or an http:// or https:// URL. With query it is the base URL of Prometheus; `/api/v1/query` is appended unless it is
	// there. Loopback and link-local addresses and the API server are refused at run time. At most 2048 characters.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^((?i:https?)://)?([A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?[.]?|[[][0-9A-Fa-f:.]+[]])(:[0-9]{1,5})?([/?][!-~]*)?$')",message="endpoint must be a host with optional port and path, such as prometheus.monitoring.svc:9090, or an http:// or https:// URL, without user name and password"
	// +required
	Endpoint string `json:"endpoint,omitempty"`

	// metricsName is the name of the metric. With query it names the metric in status and events only. In Prometheus text
	// it is the family whose samples are summed; in JSON the key that holds the number, where dots descend, or else the
	// key `value` is read.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	MetricsName string `json:"metricsName,omitempty"`

	// query is a PromQL expression that gives one number: a scalar, or a vector with one element. Left out: the answer of
	// the endpoint is read as Prometheus text or JSON. At most 16384 characters.
	// +kubebuilder:validation:MaxLength=16384
	// +optional
	Query string `json:"query,omitempty"`

	// target is the value to hold per replica: the metric is divided by the replicas (at 0 replicas it is taken as it is)
	// and compared with this quantity. Greater than 0.
	// +kubebuilder:validation:XValidation:rule="type(self) in [int] ? self > 0 : !self.startsWith('-') && !(self in ['0', '+0', '00', '0.0', '0.00', '.0', '0.', '0m', '0k', '0Ki', '0M', '0Mi', '0G', '0Gi'])",message="target must be greater than 0"
	// +required
	Target *resource.Quantity `json:"target,omitempty"`

	// protocol is the scheme of an endpoint without one: http or https. Ignored where the endpoint has a scheme.
	// +default="https"
	// +optional
	Protocol Protocol `json:"protocol,omitempty"`
}

// MetricTargetType says how a metric is compared with its target.
//
// +kubebuilder:validation:Enum=Utilization;Value;AverageValue
type MetricTargetType string

const (
	// UtilizationMetricType compares the use in percent of the request.
	UtilizationMetricType MetricTargetType = "Utilization"
	// ValueMetricType compares the metric as it is.
	ValueMetricType MetricTargetType = "Value"
	// AverageValueMetricType compares the metric per pod, or divided by the replicas.
	AverageValueMetricType MetricTargetType = "AverageValue"
)

// MetricTarget is the value to hold. The field that belongs to the type is set, and no other.
//
// +kubebuilder:validation:XValidation:rule="(self.type == 'Utilization') == has(self.averageUtilization)",fieldPath=".averageUtilization",message="averageUtilization must be set when type is Utilization, and left out otherwise"
// +kubebuilder:validation:XValidation:rule="(self.type == 'Value') == has(self.value)",fieldPath=".value",message="value must be set when type is Value, and left out otherwise"
// +kubebuilder:validation:XValidation:rule="(self.type == 'AverageValue') == has(self.averageValue)",fieldPath=".averageValue",message="averageValue must be set when type is AverageValue, and left out otherwise"
type MetricTarget struct {
	// type is how the metric is compared: `Utilization` (percent of the request, Resource metrics only), `Value` (the
	// metric as it is) or `AverageValue` (per pod, or divided by the replicas).
	// +required
	Type MetricTargetType `json:"type,omitempty"`

	// value is the target of type Value, a quantity such as `100` or `1500m`. Greater than 0.
	// +kubebuilder:validation:XValidation:rule="type(self) in [int] ? self > 0 : !self.startsWith('-') && !(self in ['0', '+0', '00', '0.0', '0.00', '.0', '0.', '0m', '0k', '0Ki', '0M', '0Mi', '0G', '0Gi'])",message="value must be greater than 0"
	// +optional
	Value *resource.Quantity `json:"value,omitempty"`

	// averageValue is the target of type AverageValue, a quantity per pod or replica such as `100` or `1500m`. Greater
	// than 0.
	// +kubebuilder:validation:XValidation:rule="type(self) in [int] ? self > 0 : !self.startsWith('-') && !(self in ['0', '+0', '00', '0.0', '0.00', '.0', '0.', '0m', '0k', '0Ki', '0M', '0Mi', '0G', '0Gi'])",message="averageValue must be greater than 0"
	// +optional
	AverageValue *resource.Quantity `json:"averageValue,omitempty"`

	// averageUtilization is the target of type Utilization: the mean use over the pods in percent of their request. 1 or
	// more; more than 100 is possible where use may exceed the request.
	// +kubebuilder:validation:Minimum=1
	// +optional
	AverageUtilization *int32 `json:"averageUtilization,omitempty"`
}

// NoDataAction says what a missing value of a metric means.
//
// +kubebuilder:validation:Enum=Hold;Ignore;Zero;Fallback
type NoDataAction string

const (
	// NoDataHold proposes the present count: the target may grow by other metrics and does not shrink.
	NoDataHold NoDataAction = "Hold"
	// NoDataIgnore leaves the metric out; the others decide alone. With none left the count stays.
	NoDataIgnore NoDataAction = "Ignore"
	// NoDataZero takes the value as 0.
	NoDataZero NoDataAction = "Zero"
	// NoDataFallback proposes a fixed count.
	NoDataFallback NoDataAction = "Fallback"
)

// NoDataPolicy says what a missing value of a metric means: no series, several where one is due, not a finite number,
// too old, or a source that does not answer.
//
// +kubebuilder:validation:XValidation:rule="(self.policy == 'Fallback') == has(self.replicas)",fieldPath=".replicas",message="replicas must be set when policy is Fallback, and left out otherwise"
type NoDataPolicy struct {
	// policy is what a missing value means: `Hold` proposes the present count, `Ignore` leaves the decision to the other
	// metrics, `Zero` takes the value as 0, `Fallback` proposes the count in replicas. Ignore, Zero and a low Fallback may
	// scale the target down while the metric is missing.
	// +required
	Policy NoDataAction `json:"policy,omitempty"`

	// failureThreshold is how many evaluations in a row must find no value before the policy takes effect, and how many
	// in a row must find one before it ends; until then the metric holds the count. 1 to 1000. Left out: 3.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	FailureThreshold *int32 `json:"failureThreshold,omitempty"`

	// replicas is the count that policy Fallback proposes. It is one proposal among those of the other metrics, of which
	// the highest wins, and the bounds hold for it too. 0 or more.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
}

// StateTrigger takes the count from `status.desiredReplicas` of another object, such as a Tidal. That object names the
// scaler by its labels `elasticscaler.io/name` and `elasticscaler.io/namespace`.
type StateTrigger struct {
	// sourceNamespaces are the namespaces, beside the scaler's own, from which an object may drive this scaler. At most
	// 64. Left out: objects of the scaler's own namespace only.
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	// +optional
	SourceNamespaces []NamespaceName `json:"sourceNamespaces,omitempty"`
}

// NamespaceName is the name of a namespace.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="a namespace name must be lower-case letters, digits and '-', and begin and end with a letter or digit; name each namespace, patterns are not supported"
type NamespaceName string

// SignalTrigger switches the target on and off: a ScaleUp signal sets maxReplicas, a ScaleDown signal minReplicas. The
// manager listens at the endpoint (Server-Sent Events or lines of JSON on a held connection, or polling), and the same
// signal can be pushed to the manager.
//
// +kubebuilder:validation:XValidation:rule="!has(self.caSecretRef) || !(self.endpoint.lowerAscii().startsWith('http://') || (!self.endpoint.contains('://') && has(self.protocol) && self.protocol == 'http'))",fieldPath=".caSecretRef",message="caSecretRef must be left out when the endpoint is plain http, which has no certificate to check; use https or remove it"
type SignalTrigger struct {
	// endpoint is where signals come from: an http:// or https:// URL, or a host with optional port and path. Loopback and
	// link-local addresses and the API server are refused at run time. At most 2048 characters.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^((?i:https?)://)?([A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?[.]?|[[][0-9A-Fa-f:.]+[]])(:[0-9]{1,5})?([/?][!-~]*)?$')",message="endpoint must be a host with optional port and path, such as signals.example.com/scale, or an http:// or https:// URL, without user name and password"
	// +required
	Endpoint string `json:"endpoint,omitempty"`

	// protocol is the scheme of an endpoint without one: http or https. Ignored where the endpoint has a scheme.
	// +default="https"
	// +optional
	Protocol Protocol `json:"protocol,omitempty"`

	// tokenSecretRef names a Secret key, in the namespace of the ElasticScaler, with a token that is sent to the endpoint
	// as `Authorization: Bearer`. Left out: no token is sent.
	// +optional
	TokenSecretRef *SecretKeyReference `json:"tokenSecretRef,omitempty"`

	// caSecretRef names a Secret key, in the namespace of the ElasticScaler, with the PEM certificates that the endpoint's
	// certificate is checked against. Left out: the manager's system certificates.
	// +optional
	CASecretRef *SecretKeyReference `json:"caSecretRef,omitempty"`
}

// SecretKeyReference names one key of a Secret in the namespace of the object that holds the reference.
type SecretKeyReference struct {
	// name is the name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$')",message="name must be the name of a Secret: lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit"
	// +required
	Name string `json:"name,omitempty"`

	// key is the key within the Secret, such as `token`.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="key must be a key of a Secret: letters, digits, '-', '_' and '.'"
	// +required
	Key string `json:"key,omitempty"`
}

// ElasticScalerStatus is what the scaler last saw, decided and did.
type ElasticScalerStatus struct {
	// conditions say how the scaler is. Ready is the summary; Validated, MetricsCollected (MetricsTrigger only),
	// ScalingCalculated and ReconciliationComplete are the steps that lead to it; Available, Progressing and Degraded
	// describe the target's way to the desired count; Paused and ScalerConflict say why nothing is written.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status reflects.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ObservedGeneration *int64 `json:"observedGeneration,omitempty"`

	// currentReplicas is the count of the target at the last decision. Absent while it is unknown.
	// +optional
	CurrentReplicas *int32 `json:"currentReplicas,omitempty"`

	// desiredReplicas is the count that the last decision asked for. Absent until there is one.
	// +optional
	DesiredReplicas *int32 `json:"desiredReplicas,omitempty"`

	// minReplicas is the lower bound in force, with defaults applied. Absent where none is.
	// +optional
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// maxReplicas is the upper bound in force, with defaults applied. Absent where none is.
	// +optional
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`

	// lastScaleTime is when the scaler last changed the count of the target.
	// +optional
	LastScaleTime *metav1.Time `json:"lastScaleTime,omitempty"`

	// lastSyncTime is the time of the last decision that changed the count, a limit, a condition or its reason.
	// +optional
	LastSyncTime *metav1.Time `json:"lastSyncTime,omitempty"`

	// lastDecision is the last decision that changed the count, a limit, a condition or its reason: its inputs, what each
	// proposed, what limited it, and why. Values in between are in the manager's metrics.
	// +optional
	LastDecision *Decision `json:"lastDecision,omitempty"`

	// lastSignal is the last accepted signal of a SignalTrigger. It stands until the next one, also over a restart of the
	// manager and when the bounds change. Absent before the first; the count is then left alone.
	// +optional
	LastSignal *Signal `json:"lastSignal,omitempty"`
}

// Decision is how a count came about.
type Decision struct {
	// time is when it was decided.
	// +required
	Time *metav1.Time `json:"time,omitempty"`

	// algorithm is the algorithm that decided, such as `APA`. Absent with a StateTrigger or SignalTrigger.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Algorithm string `json:"algorithm,omitempty"`

	// inputs are what the decision was based on: one entry per metric, in the order of the spec, or the source object, or
	// the signal.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +optional
	Inputs []DecisionInput `json:"inputs,omitempty"`

	// steps are the stages that changed the proposal on its way to the result, in their order. A stage that left the count
	// as it was is not listed.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Steps []DecisionStep `json:"steps,omitempty"`

	// currentReplicas is the count of the target when it was decided. Absent where it was unknown.
	// +optional
	CurrentReplicas *int32 `json:"currentReplicas,omitempty"`

	// desiredReplicas is the result. Absent where no count could be decided.
	// +optional
	DesiredReplicas *int32 `json:"desiredReplicas,omitempty"`

	// reason is the outcome in one word, such as `MetricAboveTarget` or `NoData`.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Reason string `json:"reason,omitempty"`

	// message is the outcome in a sentence.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
}

// DecisionInput is one input of a decision.
type DecisionInput struct {
	// type is the type of the metric; `State` for the source of a StateTrigger, `Signal` for a signal.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Type string `json:"type,omitempty"`

	// name is the name of the metric; kind, namespace and name of the source object; or the id of the signal.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Name string `json:"name,omitempty"`

	// value is what was read: a decimal number, a percentage of the request for a Utilization target, or the word of the
	// signal. Absent where nothing could be read.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Value string `json:"value,omitempty"`

	// target is the value to hold, in the unit of value.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Target string `json:"target,omitempty"`

	// time is the time of the sample, where the source tells it, and otherwise when it was read.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`

	// proposedReplicas is the count that this input proposed. Absent where it proposed none.
	// +optional
	ProposedReplicas *int32 `json:"proposedReplicas,omitempty"`

	// reason says in one word why the value is missing or was not used as it is, such as `NoData`, `Stale` or
	// `MultipleSeries`. Absent where nothing was wrong.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Reason string `json:"reason,omitempty"`

	// message says the same in a sentence.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
}

// DecisionStep is one stage that changed a proposal.
type DecisionStep struct {
	// name is the stage, such as `Tolerance`, `Stabilization`, `RateLimit` or `Bounds`.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name,omitempty"`

	// from is the count before the stage.
	// +required
	From *int32 `json:"from,omitempty"`

	// to is the count after the stage.
	// +required
	To *int32 `json:"to,omitempty"`

	// reason says in one word what limited the count, such as `MaxReplicas` or `ScaleDownStabilized`.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Reason string `json:"reason,omitempty"`

	// message says the same in a sentence.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
}

// SignalType is the word of a signal.
//
// +kubebuilder:validation:Enum=ScaleUp;ScaleDown
type SignalType string

const (
	// SignalScaleUp sets the target to maxReplicas.
	SignalScaleUp SignalType = "ScaleUp"
	// SignalScaleDown sets the target to minReplicas.
	SignalScaleDown SignalType = "ScaleDown"
)

// Signal is an accepted signal.
type Signal struct {
	// signal is its word: `ScaleUp` or `ScaleDown`.
	// +required
	Signal SignalType `json:"signal,omitempty"`

	// id is its id, where it has one. A signal with the id of the last one is a repetition and changes nothing; a listener
	// resumes after it.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	ID string `json:"id,omitempty"`

	// time is the time that the signal carries. A signal with an earlier time is late and changes nothing.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`

	// receivedTime is when the manager accepted it.
	// +optional
	ReceivedTime *metav1.Time `json:"receivedTime,omitempty"`
}
