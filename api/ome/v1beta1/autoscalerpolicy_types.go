package v1beta1

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AutoscalerPolicy is one set of autoscaling settings that the components of the InferenceServices in its namespace share:
// KEDA triggers, or the metrics and behavior of a HorizontalPodAutoscaler. A component names the policy in its
// `autoscalerPolicyRef`, and its autoscaler is rendered from the policy with the component's own names and bounds.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,path=autoscalerpolicies,singular=autoscalerpolicy
// +kubebuilder:printcolumn:name="Class",type=string,JSONPath=`.spec.class`,description="Kind of autoscaler that the policy renders to"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].status`,description="Whether the policy can be used"
// +kubebuilder:printcolumn:name="Attached",type=integer,JSONPath=`.status.attachedComponents`,description="Components that name the policy"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AutoscalerPolicy struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata. The annotation `ome.io/allow-in-use-delete: "true"` allows the deletion of a
	// policy that components still name.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the settings that are shared.
	// +required
	Spec AutoscalerPolicySpec `json:"spec,omitzero"`

	// status says whether the policy can be used, by how many components it is, and which digest tells its spec. It holds
	// counts and digests, never a list of users, so that its size does not grow with them.
	// +optional
	Status AutoscalerPolicyStatus `json:"status,omitzero"`
}

// AutoscalerPolicyList is a list of AutoscalerPolicies.
//
// +kubebuilder:object:root=true
type AutoscalerPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the AutoscalerPolicies.
	Items []AutoscalerPolicy `json:"items"`
}

// AutoscalerPolicyEnforcement says how binding a policy is.
//
// +kubebuilder:validation:Enum=Default;Required
type AutoscalerPolicyEnforcement string

const (
	// EnforcementDefault lets a component's own autoscaler block outrank the policy.
	EnforcementDefault AutoscalerPolicyEnforcement = "Default"
	// EnforcementRequired is reserved, and refused at admission.
	EnforcementRequired AutoscalerPolicyEnforcement = "Required"
)

// AutoscalerPolicyClass is the kind of autoscaler that a policy renders to.
//
// +kubebuilder:validation:Enum=HPA;KEDA
type AutoscalerPolicyClass string

const (
	// PolicyClassHPA renders to a HorizontalPodAutoscaler.
	PolicyClassHPA AutoscalerPolicyClass = "HPA"
	// PolicyClassKEDA renders to a KEDA ScaledObject.
	PolicyClassKEDA AutoscalerPolicyClass = "KEDA"
)

// AutoscalerPolicySpec is the settings that are shared.
//
// The digest in status.portableDigest is that of the JSON form of this type: the order of the fields, plain booleans and
// the empty scalingModifiers are part of it.
//
// +kubebuilder:validation:XValidation:rule="self.class == 'KEDA' ? (has(self.keda) && !has(self.hpa)) : !has(self.keda)",message="class KEDA requires keda and forbids hpa; class HPA forbids keda"
// +kubebuilder:validation:XValidation:rule="!has(self.enforcement) || self.enforcement != 'Required'",fieldPath=".enforcement",message="EnforcementRequiredReserved: enforcement Required is reserved; it must be Default or left out"
type AutoscalerPolicySpec struct {
	// enforcement says how binding the policy is. `Default` lets a component's own autoscaler block outrank it; `Required` is
	// reserved and refused.
	// +default="Default"
	// +optional
	Enforcement AutoscalerPolicyEnforcement `json:"enforcement,omitempty"`

	// class is the kind of autoscaler that the policy renders to: `KEDA` (a ScaledObject, from keda) or `HPA` (a
	// HorizontalPodAutoscaler, from hpa).
	// +required
	Class AutoscalerPolicyClass `json:"class,omitempty"`

	// keda is the template of the ScaledObject. Required with class KEDA, and left out with class HPA.
	// +optional
	Keda *KedaPolicyTemplate `json:"keda,omitempty"`

	// hpa holds metrics and behavior of the HorizontalPodAutoscaler. Only with class HPA; left out, CPU use is kept at 80
	// percent of the request.
	// +optional
	HPA *HPAAutoscaler `json:"hpa,omitempty"`
}

// KedaPolicyTemplate is the template of a KEDA ScaledObject. Target, bounds and authentication are filled in for each
// component.
type KedaPolicyTemplate struct {
	// triggers are the sources of load, 1 to 64. Each proposes a count, and the highest wins.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +required
	Triggers []KedaPolicyTrigger `json:"triggers,omitempty"`

	// advanced is copied into the ScaledObject as it is.
	// +optional
	Advanced *KedaAdvancedConfig `json:"advanced,omitempty"`

	// pollingInterval is the time between two checks of the triggers, in seconds. 1 or more. Left out: KEDA's default, 30.
	// +kubebuilder:validation:Minimum=1
	// +optional
	PollingInterval *int32 `json:"pollingInterval,omitempty"`

	// cooldownPeriod is how long no trigger must have been active before the component is scaled to idleReplicaCount or 0,
	// in seconds. 0 or more. Left out: KEDA's default, 300.
	// +kubebuilder:validation:Minimum=0
	// +optional
	CooldownPeriod *int32 `json:"cooldownPeriod,omitempty"`

	// idleReplicaCount is the count while no trigger is active. 0 or more, and less than the minReplicas of each component
	// that uses the policy. Left out: the component's minReplicas.
	// +kubebuilder:validation:Minimum=0
	// +optional
	IdleReplicaCount *int32 `json:"idleReplicaCount,omitempty"`

	// fallback is the count while the triggers cannot be read. Left out: the count stays.
	// +optional
	Fallback *FallbackTemplate `json:"fallback,omitempty"`
}

// TemplateText is a value of a trigger's metadata: literal text and the variables `{{ .Namespace }}`, `{{ .ISVCName }}`,
// `{{ .Component }}`, `{{ .MinReplicas }}`, `{{ .MaxReplicas }}` and `{{ .TargetName }}`.
//
// +kubebuilder:validation:MaxLength=16384
type TemplateText string

// TriggerMetricType says how KEDA compares the value of a trigger with its threshold.
//
// +kubebuilder:validation:Enum=AverageValue;Value
type TriggerMetricType string

const (
	// TriggerAverageValue divides the value by the replicas.
	TriggerAverageValue TriggerMetricType = "AverageValue"
	// TriggerValue takes the value as it is, and multiplies the ratio with the ready pods.
	TriggerValue TriggerMetricType = "Value"
)

// KedaPolicyTrigger is one source of load.
//
// +kubebuilder:validation:XValidation:rule="self.type.lowerAscii() != 'prometheus' || has(self.providerRef)",fieldPath=".providerRef",message="ProviderRefRequired: providerRef is required for endpoint trigger types; it must name a metric provider that is bound on the cluster"
// +kubebuilder:validation:XValidation:rule="self.type.lowerAscii() != 'prometheus' || 'ignoreNullValues' in self.metadata",fieldPath=".metadata",message="IgnoreNullValuesMustBeExplicit: metadata must have the key ignoreNullValues, since KEDA's default of true turns an empty answer into a healthy zero; set it to \"false\", or to \"true\" if that is meant"
// +kubebuilder:validation:XValidation:rule="self.type.lowerAscii() != 'prometheus' || ('query' in self.metadata && size(self.metadata['query']) > 0)",fieldPath=".metadata",message="QueryRequired: metadata must have the key query with a PromQL expression"
// +kubebuilder:validation:XValidation:rule="self.type.lowerAscii() != 'prometheus' || ('threshold' in self.metadata && (self.metadata['threshold'].contains('{{') || (self.metadata['threshold'].matches('^[+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?$') && self.metadata['threshold'].matches('^[^eE]*[1-9]'))))",fieldPath=".metadata",message="ThresholdInvalid: metadata must have the key threshold with a number greater than 0, such as \"5\""
// +kubebuilder:validation:XValidation:rule="!has(self.queryReturnsDesiredReplicas) || !self.queryReturnsDesiredReplicas || (has(self.metricType) && self.metricType == 'AverageValue')",fieldPath=".metricType",message="DesiredCountRequiresAverageValue: metricType must be AverageValue with queryReturnsDesiredReplicas, since otherwise the HorizontalPodAutoscaler computes ceil((metric/threshold) x readyPods), which turns a count of N into N times the pods"
// +kubebuilder:validation:XValidation:rule="!('serverAddress' in self.metadata || 'serveraddress' in self.metadata || 'ServerAddress' in self.metadata || 'SERVERADDRESS' in self.metadata)",fieldPath=".metadata",message="ForbiddenMetadataKey: metadata key \"serverAddress\" is provider-owned; bind endpoints via providerRef, the key must be removed"
// +kubebuilder:validation:XValidation:rule="!('authModes' in self.metadata || 'authmodes' in self.metadata || 'AuthModes' in self.metadata || 'AUTHMODES' in self.metadata)",fieldPath=".metadata",message="ForbiddenMetadataKey: metadata key \"authModes\" is provider-owned; bind endpoints via providerRef, the key must be removed"
type KedaPolicyTrigger struct {
	// type is KEDA's name of the trigger, such as `prometheus`. At most 63 characters.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Type string `json:"type,omitempty"`

	// providerRef names the metric provider that the trigger asks. Required with type prometheus. Address and credentials
	// of the provider are bound by the operator of the cluster, so that one policy works in every cluster.
	// +optional
	ProviderRef *MetricProviderReference `json:"providerRef,omitempty"`

	// metricType is how the value is compared with the threshold: `AverageValue` divides it by the replicas, `Value` takes it
	// as it is. Left out: KEDA's default, AverageValue.
	// +optional
	MetricType TriggerMetricType `json:"metricType,omitempty"`

	// queryReturnsDesiredReplicas declares that the query computes the count itself instead of a load. It changes nothing
	// in the rendered trigger; true needs metricType AverageValue. Defaults to false.
	// +optional
	QueryReturnsDesiredReplicas bool `json:"queryReturnsDesiredReplicas,omitempty"`

	// metadata are KEDA's settings of the trigger, at most 64 of at most 16384 characters. Each value is literal text with
	// the variables `{{ .Namespace }}`, `{{ .ISVCName }}`, `{{ .Component }}`, `{{ .MinReplicas }}`, `{{ .MaxReplicas }}` and
	// `{{ .TargetName }}`. A prometheus trigger needs `query`, `threshold` and `ignoreNullValues`; `serverAddress` and
	// `authModes` belong to the provider and are refused.
	// +kubebuilder:validation:MaxProperties=64
	// +required
	Metadata map[string]TemplateText `json:"metadata,omitempty"`
}

// MetricProviderReference names a metric provider that the operator of the cluster has bound.
type MetricProviderReference struct {
	// name is the name of the provider, such as `cluster-prometheus`.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name,omitempty"`
}

// FallbackTemplate is the count while the triggers cannot be read.
type FallbackTemplate struct {
	// failureThreshold is how many checks in a row may fail; with one more the fallback is in force. 1 or more.
	// +kubebuilder:validation:Minimum=1
	// +required
	FailureThreshold int32 `json:"failureThreshold,omitempty"`

	// replicas is the count of the fallback.
	// +required
	Replicas ReplicaSource `json:"replicas,omitzero"` //nolint:kubeapilinter // One of its fields is required, which only CEL can say.
}

// ReplicaValueSource says which bound of a component is meant.
//
// +kubebuilder:validation:Enum=MaxReplicas;MinReplicas
type ReplicaValueSource string

const (
	// FromMaxReplicas takes the component's maxReplicas.
	FromMaxReplicas ReplicaValueSource = "MaxReplicas"
	// FromMinReplicas takes the component's minReplicas.
	FromMinReplicas ReplicaValueSource = "MinReplicas"
)

// ReplicaSource is a count: a number, or a bound of the component.
//
// +kubebuilder:validation:XValidation:rule="has(self.value) != has(self.fromComponent)",message="exactly one of value or fromComponent must be set"
type ReplicaSource struct {
	// value is the count. 0 or more. It or fromComponent is set.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Value *int32 `json:"value,omitempty"`

	// fromComponent takes the count from a bound of the component: `MaxReplicas` or `MinReplicas`. It or value is set.
	// +optional
	FromComponent ReplicaValueSource `json:"fromComponent,omitempty"`
}

// KedaAdvancedConfig has the shape of a ScaledObject's `advanced` and is copied into it as it is.
type KedaAdvancedConfig struct {
	// horizontalPodAutoscalerConfig configures the HorizontalPodAutoscaler that KEDA creates.
	// +optional
	HorizontalPodAutoscalerConfig *KedaHorizontalPodAutoscalerConfig `json:"horizontalPodAutoscalerConfig,omitempty"`

	// restoreToOriginalReplicaCount puts the count that the component had before back when the ScaledObject is deleted, if
	// true. Defaults to false.
	// +optional
	RestoreToOriginalReplicaCount bool `json:"restoreToOriginalReplicaCount,omitempty"`

	// scalingModifiers combine the triggers into one metric.
	// +optional
	ScalingModifiers KedaScalingModifiers `json:"scalingModifiers,omitempty"`
}

// KedaHorizontalPodAutoscalerConfig configures the HorizontalPodAutoscaler that KEDA creates.
type KedaHorizontalPodAutoscalerConfig struct {
	// behavior is the `behavior` of the HorizontalPodAutoscaler: how fast the count may change in each direction.
	// +optional
	Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior,omitempty"`

	// name is the name of the HorizontalPodAutoscaler. It must differ from the name of the component's workload. Left out:
	// `keda-hpa-` and the name of the ScaledObject.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Name string `json:"name,omitempty"`
}

// KedaScalingModifiers combine the triggers into one metric.
type KedaScalingModifiers struct {
	// formula computes the metric from the triggers. At most 4096 characters.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Formula string `json:"formula,omitempty"`

	// target is the value of the formula to hold, a number as a string. Required with formula.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Target string `json:"target,omitempty"`

	// activationTarget is the value of the formula from which on the component counts as active, a number as a string.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	ActivationTarget string `json:"activationTarget,omitempty"`

	// metricType is how the formula is compared with the target: `AverageValue` or `Value`. Left out: KEDA's default,
	// AverageValue.
	// +optional
	MetricType TriggerMetricType `json:"metricType,omitempty"`
}

// HPAAutoscaler holds metrics and behavior of a HorizontalPodAutoscaler. They are copied as they are; variables are not
// filled in.
type HPAAutoscaler struct {
	// metrics are the `metrics` of the HorizontalPodAutoscaler, at most 64. Left out: CPU use is kept at 80 percent of the
	// request.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(m, (m.type == 'Resource') == has(m.resource) && (m.type == 'ContainerResource') == has(m.containerResource) && (m.type == 'Pods') == has(m.pods) && (m.type == 'Object') == has(m.object) && (m.type == 'External') == has(m.external))",message="HPAMetricMalformed: each of metrics must have the block that belongs to its type, and no other: resource for Resource, containerResource for ContainerResource, pods for Pods, object for Object, external for External"
	// +kubebuilder:validation:XValidation:rule="self.all(m, m.type in ['Resource', 'ContainerResource', 'Pods', 'Object', 'External'])",message="HPAMetricMalformed: type must be Resource, ContainerResource, Pods, Object or External"
	// +listType=atomic
	// +optional
	Metrics []autoscalingv2.MetricSpec `json:"metrics,omitempty"`

	// behavior is the `behavior` of the HorizontalPodAutoscaler: how fast the count may change in each direction, and over
	// which time a recommendation must have stood.
	// +optional
	Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior,omitempty"`
}

// AutoscalerPolicyStatus says whether the policy can be used, and by how many components it is.
type AutoscalerPolicyStatus struct {
	// conditions are Ready (the policy is valid and its metric providers are bound) and InUse (components name it).
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status reflects.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// portableDigest tells the spec: `pv1:` and 12 hexadecimal digits, the same in every cluster that has the same spec.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	PortableDigest string `json:"portableDigest,omitempty"`

	// attachedComponents is how many components in the namespace name the policy; engine and decoder of one InferenceService
	// are two. Absent at zero.
	// +kubebuilder:validation:Minimum=0
	// +optional
	AttachedComponents int32 `json:"attachedComponents,omitempty"`
}
