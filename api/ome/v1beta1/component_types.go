package v1beta1

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ComponentExtensionSpec is what every component of an InferenceService has beside its pods: labels, bounds and autoscaling.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || !has(self.maxReplicas) || self.maxReplicas == 0 || self.minReplicas <= self.maxReplicas",fieldPath=".minReplicas",message="minReplicas must be <= maxReplicas"
type ComponentExtensionSpec struct {
	// minReplicas is the least number of replicas, of a component with leader and worker the least number of groups. 0 or
	// more; 0 needs an autoscaler of the component's own with class KEDA. Left out: that of the runtime, or else 1.
	// +kubebuilder:validation:XValidation:rule="self >= 0",message="minReplicas must be >= 0"
	// +optional
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// maxReplicas is the greatest number of replicas, of a component with leader and worker the greatest number of groups.
	// 1 or more. Left out, or 0: that of the runtime, or else 3, and 2 for a router; raised to minReplicas.
	// +kubebuilder:validation:XValidation:rule="self >= 0",message="maxReplicas must be >= 1"
	// +optional
	MaxReplicas int32 `json:"maxReplicas,omitempty"`

	// autoscaler is the component's own autoscaling, which outranks autoscalerPolicyRef and the runtime's. Left out: the
	// policy that autoscalerPolicyRef names, or else the runtime's autoscaler, or else CPU use of 80 percent.
	// +optional
	Autoscaler *ComponentAutoscaler `json:"autoscaler,omitempty"`

	// autoscalerPolicyRef names the AutoscalerPolicy in the same namespace that the component's autoscaler is rendered from.
	// Only in an InferenceService, not in a runtime.
	// +optional
	AutoscalerPolicyRef *AutoscalerPolicyReference `json:"autoscalerPolicyRef,omitempty"`

	// labels are added to the component's workload, Service and pods, and to its autoscaler.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are added to the component's workload, Service and pods, and to its autoscaler, so that those of KEDA such
	// as `autoscaling.keda.sh/paused` reach the ScaledObject.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// deploymentStrategy is how the pods of the Deployment are replaced. It has no effect on a component with leader and
	// worker. Left out: one new pod at a time, and none is taken before the new one is ready.
	// +optional
	DeploymentStrategy *appsv1.DeploymentStrategy `json:"deploymentStrategy,omitempty"`

	// minAvailable is accepted for manifests that have it, and has no effect: nothing here makes PodDisruptionBudgets.
	// +kubebuilder:validation:XIntOrString
	// +optional
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`

	// maxUnavailable is accepted for manifests that have it, and has no effect: nothing here makes PodDisruptionBudgets.
	// +kubebuilder:validation:XIntOrString
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// timeoutSeconds is accepted for manifests that have it, and has no effect: nothing here routes requests.
	// +optional
	TimeoutSeconds *int64 `json:"timeoutSeconds,omitempty"`

	// containerConcurrency is accepted for manifests that have it, and has no effect: nothing here routes requests.
	// +optional
	ContainerConcurrency *int64 `json:"containerConcurrency,omitempty"`

	// canaryTrafficPercent is accepted for manifests that have it, and has no effect: nothing here routes requests.
	// +optional
	CanaryTrafficPercent *int64 `json:"canaryTrafficPercent,omitempty"`

	// scaleTarget is of a release before autoscaler, and is refused at admission: write autoscaler instead.
	// +optional
	ScaleTarget *int32 `json:"scaleTarget,omitempty"`

	// scaleMetric is of a release before autoscaler, and is refused at admission: write autoscaler instead.
	// +optional
	ScaleMetric ScaleMetric `json:"scaleMetric,omitempty"`

	// kedaConfig is of a release before autoscaler, and has no effect: write autoscaler instead.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	KedaConfig *runtime.RawExtension `json:"kedaConfig,omitempty"`
}

// ScaleMetric is what a component of an earlier release was scaled by.
//
// +kubebuilder:validation:Enum=cpu;memory;concurrency;rps
type ScaleMetric string

// ComponentSpec is an engine or a decoder: one container, runner, or a leader and its workers. Further fields are those of
// a pod spec, such as `volumes`.
//
// +kubebuilder:pruning:PreserveUnknownFields
type ComponentSpec struct {
	ComponentExtensionSpec `json:",inline"`

	// PodFields are the fields of a pod spec that stand beside these.
	PodFields PodFields `json:"-"`

	// runner is the container that serves the model: a container of a pod, laid over the runtime's.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Runner *runtime.RawExtension `json:"runner,omitempty"`

	// leader is the first pod of each group. With worker the component is a LeaderWorkerSet instead of a Deployment.
	// +optional
	Leader *LeaderSpec `json:"leader,omitempty"`

	// worker is the other pods of each group. It goes with leader.
	// +optional
	Worker *WorkerSpec `json:"worker,omitempty"`

	// acceleratorOverride is accepted for manifests that have it, and has no effect: nothing here chooses accelerators.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	AcceleratorOverride *runtime.RawExtension `json:"acceleratorOverride,omitempty"`
}

// RouterSpec is the component that requests reach first. Further fields are those of a pod spec, such as `volumes`.
//
// +kubebuilder:pruning:PreserveUnknownFields
type RouterSpec struct {
	ComponentExtensionSpec `json:",inline"`

	// PodFields are the fields of a pod spec that stand beside these.
	PodFields PodFields `json:"-"`

	// runner is the container that routes: a container of a pod, laid over the runtime's.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Runner *runtime.RawExtension `json:"runner,omitempty"`

	// config are environment variables of the runner.
	// +optional
	Config map[string]string `json:"config,omitempty"`
}

// LeaderSpec is the first pod of a group. Further fields are those of a pod spec.
//
// +kubebuilder:pruning:PreserveUnknownFields
type LeaderSpec struct {
	// PodFields are the fields of a pod spec that stand beside these.
	PodFields PodFields `json:"-"`

	// runner is the container that serves the model, laid over the runtime's.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Runner *runtime.RawExtension `json:"runner,omitempty"`
}

// WorkerSpec is the other pods of a group. Further fields are those of a pod spec.
//
// +kubebuilder:pruning:PreserveUnknownFields
type WorkerSpec struct {
	// PodFields are the fields of a pod spec that stand beside these.
	PodFields PodFields `json:"-"`

	// size is how many workers a group has beside its leader. 1 or more. Left out: that of the runtime, or else 1.
	// +optional
	Size *int32 `json:"size,omitempty"`

	// runner is the container of each worker, laid over the runtime's.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Runner *runtime.RawExtension `json:"runner,omitempty"`
}

// AutoscalerPolicyRefKind is the kind of a policy.
//
// +kubebuilder:validation:Enum=AutoscalerPolicy;ClusterAutoscalerPolicy
type AutoscalerPolicyRefKind string

const (
	// RefKindAutoscalerPolicy is the kind that there is.
	RefKindAutoscalerPolicy AutoscalerPolicyRefKind = "AutoscalerPolicy"
	// RefKindClusterAutoscalerPolicy is reserved, and refused at admission.
	RefKindClusterAutoscalerPolicy AutoscalerPolicyRefKind = "ClusterAutoscalerPolicy"
)

// AutoscalerPolicyReference names the policy that a component uses.
type AutoscalerPolicyReference struct {
	// name is the name of the policy, in the namespace of the InferenceService.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name,omitempty"`

	// kind is AutoscalerPolicy. ClusterAutoscalerPolicy is reserved and refused.
	// +default="AutoscalerPolicy"
	// +optional
	Kind AutoscalerPolicyRefKind `json:"kind,omitempty"`
}

// AutoscalerClass says what sets the number of replicas.
//
// +kubebuilder:validation:Enum=HPA;KEDA;External;None
type AutoscalerClass string

const (
	// ClassHPA is a HorizontalPodAutoscaler.
	ClassHPA AutoscalerClass = "HPA"
	// ClassKEDA is a KEDA ScaledObject.
	ClassKEDA AutoscalerClass = "KEDA"
	// ClassExternal is an autoscaler of the user's: none is made, and the count is left alone.
	ClassExternal AutoscalerClass = "External"
	// ClassNone is no autoscaler: the count is held at minReplicas.
	ClassNone AutoscalerClass = "None"
)

// ComponentAutoscaler is the autoscaling of one component, as a user writes it or a policy is rendered to. The digest of a
// render is that of the JSON form of this type, so the order of the fields is part of it.
//
// +kubebuilder:validation:XValidation:rule="self.class != 'KEDA' || has(self.keda)",fieldPath=".keda",message="KedaTriggersRequired: class=keda requires at least 1 trigger"
type ComponentAutoscaler struct {
	// class says what sets the number of replicas: `HPA` (a HorizontalPodAutoscaler, from hpa), `KEDA` (a ScaledObject, from
	// keda), `External` (an autoscaler of the user's: the count is left alone) or `None` (nothing: the count is held at
	// minReplicas).
	// +required
	Class AutoscalerClass `json:"class,omitempty"`

	// keda is the content of the ScaledObject. Required with class KEDA.
	// +optional
	Keda *KedaAutoscaler `json:"keda,omitempty"`

	// hpa holds metrics and behavior of the HorizontalPodAutoscaler. Left out with class HPA: CPU use is kept at 80 percent of
	// the request.
	// +optional
	HPA *HPAAutoscaler `json:"hpa,omitempty"`
}

// KedaAutoscaler is the content of a ScaledObject but for its target and bounds, which come from the component.
type KedaAutoscaler struct {
	// triggers are the sources of load, 1 to 64. Each proposes a count, and the highest wins.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +required
	Triggers []KedaTrigger `json:"triggers,omitempty"`

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

	// idleReplicaCount is the count while no trigger is active. 0 or more, and less than minReplicas. Left out: minReplicas.
	// +kubebuilder:validation:Minimum=0
	// +optional
	IdleReplicaCount *int32 `json:"idleReplicaCount,omitempty"`

	// fallback is the count while the triggers cannot be read. Left out: the count stays.
	// +optional
	Fallback *KedaFallback `json:"fallback,omitempty"`
}

// KedaTrigger has the shape of a trigger of a ScaledObject and is copied into it as it is.
type KedaTrigger struct {
	// type is KEDA's name of the trigger, such as `prometheus`. At most 63 characters.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Type string `json:"type,omitempty"`

	// name is the name of the trigger in a formula. It is unique among the triggers. At most 253 characters.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Name string `json:"name,omitempty"`

	// useCachedMetrics has KEDA answer with the value of its last check, if true. Defaults to false.
	// +optional
	UseCachedMetrics bool `json:"useCachedMetrics,omitempty"`

	// metadata are KEDA's settings of the trigger, at most 64 of at most 16384 characters. Variables are not filled in.
	// +kubebuilder:validation:MaxProperties=64
	// +required
	Metadata map[string]TriggerText `json:"metadata"`

	// authenticationRef names the KEDA object that says how the trigger authenticates itself.
	// +optional
	AuthenticationRef *KedaAuthenticationReference `json:"authenticationRef,omitempty"`

	// metricType is how the value is compared with the threshold: `AverageValue` divides it by the replicas, `Value` takes it
	// as it is, and `Utilization` is a percentage of the request, for types cpu and memory only. Left out: KEDA's default.
	// +kubebuilder:validation:Enum=AverageValue;Value;Utilization
	// +optional
	MetricType autoscalingv2.MetricTargetType `json:"metricType,omitempty"`
}

// TriggerText is a value of a trigger's metadata.
//
// +kubebuilder:validation:MaxLength=16384
type TriggerText string

// KedaAuthenticationKind is the kind of object that says how a trigger authenticates itself.
//
// +kubebuilder:validation:Enum=TriggerAuthentication;ClusterTriggerAuthentication
type KedaAuthenticationKind string

// KedaAuthenticationReference names the KEDA object that says how a trigger authenticates itself.
type KedaAuthenticationReference struct {
	// name is the name of the object. A TriggerAuthentication is looked for in the namespace of the InferenceService.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name,omitempty"`

	// kind is the kind of the object. Left out: TriggerAuthentication.
	// +optional
	Kind KedaAuthenticationKind `json:"kind,omitempty"`
}

// KedaFallbackBehavior says how KEDA computes the count of a fallback.
//
// +kubebuilder:validation:Enum=static;currentReplicas;currentReplicasIfHigher;currentReplicasIfLower;scalingModifiers
type KedaFallbackBehavior string

// KedaFallback has the shape of a ScaledObject's `fallback` and is copied into it as it is.
type KedaFallback struct {
	// failureThreshold is how many checks in a row may fail; with one more the fallback is in force. 0 or more.
	// +kubebuilder:validation:Minimum=0
	// +required
	FailureThreshold int32 `json:"failureThreshold"`

	// replicas is the count of the fallback. 0 or more.
	// +kubebuilder:validation:Minimum=0
	// +required
	Replicas int32 `json:"replicas"`

	// behavior is how the count is computed: `static` takes replicas, `currentReplicas` the present count,
	// `currentReplicasIfHigher` and `currentReplicasIfLower` the greater or lesser of both, `scalingModifiers` has the formula
	// decide. Left out: KEDA's default, static.
	// +optional
	Behavior KedaFallbackBehavior `json:"behavior,omitempty"`
}
