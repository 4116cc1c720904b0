package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// InferenceService serves a model with an engine, and where they are named a decoder and a router. Each component becomes a
// Deployment, or a LeaderWorkerSet where it has leader and worker, with a Service and an autoscaler. Model download,
// accelerators, ingress and traffic are not part of it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,path=inferenceservices,singular=inferenceservice,shortName=isvc
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`,description="Address of the component that requests reach first"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].status`,description="Whether every component serves"
// +kubebuilder:printcolumn:name="BaseModel",type=string,JSONPath=`.spec.model.name`,description="Model that is served"
// +kubebuilder:printcolumn:name="Runtime",type=string,JSONPath=`.spec.runtime.name`,description="Runtime that the service names; condition RuntimeResolved says which was chosen"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && self.metadata.name.size() <= 55",message="metadata.name must consist of lower case letters, digits and '-', start with a letter, end with a letter or digit and have at most 55 characters, since Services are named after it and its components"
type InferenceService struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata. The annotations `ome.io/autoscalerClass` and
	// `ome.io/targetUtilizationPercentage` are an earlier form of a component's autoscaler.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the model and the components that serve it.
	// +optional
	Spec InferenceServiceSpec `json:"spec,omitzero"`

	// status says whether each component serves, and where its autoscaler came from.
	// +optional
	Status InferenceServiceStatus `json:"status,omitzero"`
}

// InferenceServiceList is a list of InferenceServices.
//
// +kubebuilder:object:root=true
type InferenceServiceList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the InferenceServices.
	Items []InferenceService `json:"items"`
}

// InferenceServiceSpec is the model and the components that serve it.
type InferenceServiceSpec struct {
	// model names the model that is served.
	// +optional
	Model *ModelReference `json:"model,omitempty"`

	// runtime names the runtime that serves the model. Left out: of the runtimes that may be selected and support the
	// model's format and size, the one of the highest priority, and of several the first by name.
	// +optional
	Runtime *RuntimeReference `json:"runtime,omitempty"`

	// engine serves the model; with a decoder it does the prefill.
	// +optional
	Engine *ComponentSpec `json:"engine,omitempty"`

	// decoder does the decoding, beside an engine that does the prefill.
	// +optional
	Decoder *ComponentSpec `json:"decoder,omitempty"`

	// router is what requests reach first.
	// +optional
	Router *RouterSpec `json:"router,omitempty"`

	// scalingPolicy relates the counts of the components to each other.
	// +optional
	ScalingPolicy *ScalingPolicy `json:"scalingPolicy,omitempty"`

	// acceleratorSelector is accepted for manifests that have it, and has no effect: nothing here chooses accelerators.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	AcceleratorSelector *runtime.RawExtension `json:"acceleratorSelector,omitempty"`

	// kedaConfig is of a release before autoscaler, and has no effect: write a component's autoscaler instead.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	KedaConfig *runtime.RawExtension `json:"kedaConfig,omitempty"`

	// predictor is of a release before engine, and has no effect: write engine instead.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Predictor *runtime.RawExtension `json:"predictor,omitempty"`
}

// ModelReference names a model.
type ModelReference struct {
	// name is the name of the model.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name,omitempty"`

	// kind is ClusterBaseModel, or BaseModel for a model in the namespace of the InferenceService.
	// +kubebuilder:validation:MaxLength=63
	// +default="ClusterBaseModel"
	// +optional
	Kind string `json:"kind,omitempty"`

	// apiGroup is the group of the kind.
	// +kubebuilder:validation:MaxLength=253
	// +default="ome.io"
	// +optional
	APIGroup string `json:"apiGroup,omitempty"`

	// fineTunedWeights are names of weights that are laid over the model. They are put on labels, and have no other effect.
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=1024
	// +listType=atomic
	// +optional
	FineTunedWeights []string `json:"fineTunedWeights,omitempty"`
}

// RuntimeReference names a runtime.
type RuntimeReference struct {
	// name is the name of the runtime.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name,omitempty"`

	// kind is ClusterServingRuntime, or ServingRuntime for a runtime in the namespace of the InferenceService.
	// +kubebuilder:validation:MaxLength=63
	// +default="ClusterServingRuntime"
	// +optional
	Kind string `json:"kind,omitempty"`

	// apiGroup is the group of the kind.
	// +kubebuilder:validation:MaxLength=253
	// +default="ome.io"
	// +optional
	APIGroup string `json:"apiGroup,omitempty"`
}

// ScalingMode says how the counts of the components relate to each other.
//
// +kubebuilder:validation:Enum=Independent;Proportional;Pinned
type ScalingMode string

const (
	// ScalingIndependent scales each component by itself.
	ScalingIndependent ScalingMode = "Independent"
	// ScalingProportional is reserved, and refused at admission.
	ScalingProportional ScalingMode = "Proportional"
	// ScalingPinned is reserved, and refused at admission.
	ScalingPinned ScalingMode = "Pinned"
)

// ScalingPolicy relates the counts of the components to each other.
type ScalingPolicy struct {
	// mode is Independent: each component scales by itself. Proportional and Pinned are reserved and refused.
	// +default="Independent"
	// +optional
	Mode ScalingMode `json:"mode,omitempty"`
}

// InferenceServiceStatus says whether each component serves, and where its autoscaler came from.
type InferenceServiceStatus struct {
	// conditions are Ready (every component serves), RuntimeResolved (a runtime was found), and EngineReady, DecoderReady and
	// RouterReady for each component that there is.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status reflects.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// url is the address in the cluster of the component that requests reach first: the router, or else the engine.
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	URL string `json:"url,omitempty"`

	// components tells of each component that there is.
	// +optional
	Components ComponentStatuses `json:"components,omitzero"`
}

// ComponentStatuses tell of each component.
type ComponentStatuses struct {
	// engine is the status of the engine.
	// +optional
	Engine *ComponentStatus `json:"engine,omitempty"`
	// decoder is the status of the decoder.
	// +optional
	Decoder *ComponentStatus `json:"decoder,omitempty"`
	// router is the status of the router.
	// +optional
	Router *ComponentStatus `json:"router,omitempty"`
}

// ComponentStatus tells of one component.
type ComponentStatus struct {
	// url is the address of the component's Service in the cluster.
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	URL string `json:"url,omitempty"`

	// scaleTargetRef is the workload whose replicas are the component's, whatever sets their number.
	// +optional
	ScaleTargetRef *ScaleTargetReference `json:"scaleTargetRef,omitempty"`

	// autoscaler tells what sets the number of replicas, and where its settings came from.
	// +optional
	Autoscaler *ComponentAutoscalerStatus `json:"autoscaler,omitempty"`
}

// ScaleTargetReference names a workload.
type ScaleTargetReference struct {
	// apiVersion is the group and version of the workload, such as `apps/v1`.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +required
	APIVersion string `json:"apiVersion,omitempty"`

	// kind is Deployment or LeaderWorkerSet.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Kind string `json:"kind,omitempty"`

	// name is the name of the workload.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name,omitempty"`
}

// AutoscalerManager says whose the autoscaler of a component is.
//
// +kubebuilder:validation:Enum=ome;external;none
type AutoscalerManager string

const (
	// ManagedByOME is an autoscaler that is made here: class HPA or KEDA.
	ManagedByOME AutoscalerManager = "ome"
	// ManagedByExternal is an autoscaler of the user's: class External.
	ManagedByExternal AutoscalerManager = "external"
	// ManagedByNone is no autoscaler: class None.
	ManagedByNone AutoscalerManager = "none"
)

// AutoscalerSource says where the autoscaling of a component comes from.
//
// +kubebuilder:validation:Enum=isvc;policy;runtime;legacy;default
type AutoscalerSource string

const (
	// SourceInline is the component's own autoscaler.
	SourceInline AutoscalerSource = "isvc"
	// SourcePolicy is the AutoscalerPolicy that the component names.
	SourcePolicy AutoscalerSource = "policy"
	// SourceRuntime is the autoscaler in the runtime.
	SourceRuntime AutoscalerSource = "runtime"
	// SourceLegacy is the annotations of an earlier release.
	SourceLegacy AutoscalerSource = "legacy"
	// SourceDefault is CPU use of 80 percent.
	SourceDefault AutoscalerSource = "default"
)

// ComponentAutoscalerStatus tells what sets the number of replicas of a component, and where its settings came from.
type ComponentAutoscalerStatus struct {
	// conditions are those of the HorizontalPodAutoscaler (AbleToScale, ScalingActive, ScalingLimited) or of the ScaledObject
	// (Ready, Active, Fallback, Paused and others), AutoscalerResolved for a component that names a policy, and
	// AutoscalerApplied.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// class is the class in effect. While the component holds it is the one from before.
	// +optional
	Class AutoscalerClass `json:"class,omitempty"`

	// managedBy says whose the autoscaler is: `ome` (class HPA and KEDA), `external` or `none`.
	// +optional
	ManagedBy AutoscalerManager `json:"managedBy,omitempty"`

	// specSource says where the settings come from: `isvc` (the component's own autoscaler), `policy`, `runtime`, `legacy`
	// (annotations) or `default`.
	// +optional
	SpecSource AutoscalerSource `json:"specSource,omitempty"`

	// currentReplicas is the count that the autoscaler last saw. Absent where the autoscaler is not managed by ome, or has
	// not said.
	// +kubebuilder:validation:Minimum=0
	// +optional
	CurrentReplicas *int32 `json:"currentReplicas,omitempty"`

	// desiredReplicas is the count that the autoscaler last wanted. Absent where the autoscaler is not managed by ome, or has
	// not said.
	// +kubebuilder:validation:Minimum=0
	// +optional
	DesiredReplicas *int32 `json:"desiredReplicas,omitempty"`

	// lastScaleTime is when the HorizontalPodAutoscaler last changed the count, or the triggers of the ScaledObject were last
	// active.
	// +optional
	LastScaleTime *metav1.Time `json:"lastScaleTime,omitempty"`

	// policy is the render that the live autoscaler came from. While the component holds it is the last that succeeded.
	// +optional
	Policy *AutoscalerPolicyProvenance `json:"policy,omitempty"`

	// shadowedPolicyRef is the policy that the component's own autoscaler outranks.
	// +optional
	ShadowedPolicyRef *ShadowedAutoscalerPolicy `json:"shadowedPolicyRef,omitempty"`
}

// AutoscalerPolicyProvenance is the render that an autoscaler came from.
type AutoscalerPolicyProvenance struct {
	// name is the name of the policy.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Name string `json:"name,omitempty"`

	// observedGeneration is the generation of the policy that was rendered.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// portableDigest tells the spec of the policy that was rendered: `pv1:` and 12 hexadecimal digits.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	PortableDigest string `json:"portableDigest,omitempty"`

	// resolvedDigest tells the render: `rv1:` and 12 hexadecimal digits. It changes with the policy, the component's bounds and
	// the binding of the metric provider.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	ResolvedDigest string `json:"resolvedDigest,omitempty"`
}

// ShadowedAutoscalerPolicy is a policy that a component's own autoscaler outranks. Where it does not render both digests
// are absent.
type ShadowedAutoscalerPolicy struct {
	// name is the name of the policy.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Name string `json:"name,omitempty"`

	// portableDigest tells the spec of the policy: `pv1:` and 12 hexadecimal digits.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	PortableDigest string `json:"portableDigest,omitempty"`

	// wouldRenderDigest tells the render that the policy would be dispatched as without the component's own autoscaler: `rv1:`
	// and 12 hexadecimal digits.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	WouldRenderDigest string `json:"wouldRenderDigest,omitempty"`
}
