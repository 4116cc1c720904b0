package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ServingRuntime is how the InferenceServices in its namespace may serve models: the formats that it supports, and a
// template for each component.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,path=servingruntimes,singular=servingruntime
// +kubebuilder:printcolumn:name="Disabled",type=boolean,JSONPath=`.spec.disabled`,description="Whether the runtime is not to be used"
// +kubebuilder:printcolumn:name="ModelFormat",type=string,JSONPath=`.spec.supportedModelFormats[*].modelFormat.name`,description="Formats that are supported"
// +kubebuilder:printcolumn:name="ModelFramework",type=string,JSONPath=`.spec.supportedModelFormats[*].modelFramework.name`,description="Frameworks that are supported"
// +kubebuilder:printcolumn:name="ModelFrameworkVersion",type=string,JSONPath=`.spec.supportedModelFormats[*].modelFramework.version`,description="Versions of the frameworks"
// +kubebuilder:printcolumn:name="ModelArchitecture",type=string,JSONPath=`.spec.supportedModelFormats[*].modelArchitecture`,description="Architectures that are supported"
// +kubebuilder:printcolumn:name="ModelSizeMin",type=string,JSONPath=`.spec.modelSizeRange.min`,description="Least size of a model"
// +kubebuilder:printcolumn:name="ModelSizeMax",type=string,JSONPath=`.spec.modelSizeRange.max`,description="Greatest size of a model"
// +kubebuilder:printcolumn:name="Images",type=string,JSONPath=`.spec.containers[*].image`,description="Images of the containers"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ServingRuntime struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what the runtime supports, and how it runs.
	// +optional
	Spec ServingRuntimeSpec `json:"spec,omitzero"`

	// status is empty.
	// +optional
	Status ServingRuntimeStatus `json:"status,omitzero"`
}

// ServingRuntimeList is a list of ServingRuntimes.
//
// +kubebuilder:object:root=true
type ServingRuntimeList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the ServingRuntimes.
	Items []ServingRuntime `json:"items"`
}

// ClusterServingRuntime is how the InferenceServices of all namespaces may serve models: the formats that it supports, and
// a template for each component.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=clusterservingruntimes,singular=clusterservingruntime
// +kubebuilder:printcolumn:name="Disabled",type=boolean,JSONPath=`.spec.disabled`,description="Whether the runtime is not to be used"
// +kubebuilder:printcolumn:name="ModelFormat",type=string,JSONPath=`.spec.supportedModelFormats[*].modelFormat.name`,description="Formats that are supported"
// +kubebuilder:printcolumn:name="ModelFramework",type=string,JSONPath=`.spec.supportedModelFormats[*].modelFramework.name`,description="Frameworks that are supported"
// +kubebuilder:printcolumn:name="ModelFrameworkVersion",type=string,JSONPath=`.spec.supportedModelFormats[*].modelFramework.version`,description="Versions of the frameworks"
// +kubebuilder:printcolumn:name="ModelArchitecture",type=string,JSONPath=`.spec.supportedModelFormats[*].modelArchitecture`,description="Architectures that are supported"
// +kubebuilder:printcolumn:name="ModelSizeMin",type=string,JSONPath=`.spec.modelSizeRange.min`,description="Least size of a model"
// +kubebuilder:printcolumn:name="ModelSizeMax",type=string,JSONPath=`.spec.modelSizeRange.max`,description="Greatest size of a model"
// +kubebuilder:printcolumn:name="Images",type=string,JSONPath=`.spec.containers[*].image`,description="Images of the containers"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterServingRuntime struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what the runtime supports, and how it runs.
	// +optional
	Spec ServingRuntimeSpec `json:"spec,omitzero"`

	// status is empty.
	// +optional
	Status ServingRuntimeStatus `json:"status,omitzero"`
}

// ClusterServingRuntimeList is a list of ClusterServingRuntimes.
//
// +kubebuilder:object:root=true
type ClusterServingRuntimeList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the ClusterServingRuntimes.
	Items []ClusterServingRuntime `json:"items"`
}

// ServingRuntimeStatus is empty.
type ServingRuntimeStatus struct{}

// ServingRuntimeSpec is what a runtime supports, and how it runs. Further fields are those of a pod spec, of a runtime
// without engineConfig; they are accepted and have no effect.
//
// +kubebuilder:pruning:PreserveUnknownFields
// +kubebuilder:validation:XValidation:rule="(!has(self.engineConfig) || !has(self.engineConfig.autoscalerPolicyRef)) && (!has(self.decoderConfig) || !has(self.decoderConfig.autoscalerPolicyRef)) && (!has(self.routerConfig) || !has(self.routerConfig.autoscalerPolicyRef))",message="autoscalerPolicyRef is not supported on serving runtimes; policy refs attach on the InferenceService only, and must be removed here"
type ServingRuntimeSpec struct {
	// PodFields are the fields of a pod spec that stand beside these.
	PodFields PodFields `json:"-"`

	// supportedModelFormats are the formats of models that the runtime can serve.
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	// +optional
	SupportedModelFormats []SupportedModelFormat `json:"supportedModelFormats,omitempty"`

	// modelSizeRange is the range of sizes of models that the runtime can serve. Left out: any.
	// +optional
	ModelSizeRange *ModelSizeRange `json:"modelSizeRange,omitempty"`

	// disabled takes the runtime out of use, if true. Defaults to false.
	// +optional
	Disabled *bool `json:"disabled,omitempty"`

	// engineConfig is the template of engines.
	// +optional
	EngineConfig *ComponentSpec `json:"engineConfig,omitempty"`

	// decoderConfig is the template of decoders.
	// +optional
	DecoderConfig *ComponentSpec `json:"decoderConfig,omitempty"`

	// routerConfig is the template of routers.
	// +optional
	RouterConfig *RouterSpec `json:"routerConfig,omitempty"`

	// labels are accepted for manifests that have them, and have no effect: those of engineConfig and its like do.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are accepted for manifests that have them, and have no effect: those of engineConfig and its like do.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// protocolVersions are accepted for manifests that have them, and have no effect.
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=1024
	// +listType=atomic
	// +optional
	ProtocolVersions []string `json:"protocolVersions,omitempty"`

	// workers are of a release before engineConfig, and have no effect: write engineConfig.worker instead.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Workers *runtime.RawExtension `json:"workers,omitempty"`

	// acceleratorRequirements are accepted for manifests that have them, and have no effect: nothing here chooses accelerators.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	AcceleratorRequirements *runtime.RawExtension `json:"acceleratorRequirements,omitempty"`
}

// ModelSizeRange is a range of sizes, both ends included.
type ModelSizeRange struct {
	// min is the least number of parameters, such as `1B` or `500M`.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Min string `json:"min,omitempty"`

	// max is the greatest number of parameters, such as `70B`.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Max string `json:"max,omitempty"`
}

// SupportedModelFormat is one format that a runtime can serve. modelFormat and autoSelect decide; the rest is accepted for
// manifests that have it, and has no effect.
type SupportedModelFormat struct {
	// modelFormat is the format of the model's files. A model of the same name and version can be served.
	// +required
	ModelFormat NamedVersion `json:"modelFormat,omitzero"`

	// modelFramework is the framework of the model.
	// +required
	ModelFramework NamedVersion `json:"modelFramework,omitzero"`

	// autoSelect lets the runtime be chosen for services that name none, if true. Defaults to false.
	// +optional
	AutoSelect *bool `json:"autoSelect,omitempty"`

	// priority decides between runtimes that could be chosen: the highest wins. 1 or more. Left out: 1.
	// +kubebuilder:validation:Minimum=1
	// +optional
	Priority *int32 `json:"priority,omitempty"`

	// name is of a release before modelFormat, and has no effect.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Name string `json:"name,omitempty"`

	// version is of a release before modelFormat, and has no effect.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Version string `json:"version,omitempty"`

	// modelType is the type of the model.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	ModelType string `json:"modelType,omitempty"`

	// modelArchitecture is the architecture of the model.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	ModelArchitecture string `json:"modelArchitecture,omitempty"`

	// quantization is how the weights are stored.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Quantization string `json:"quantization,omitempty"`

	// acceleratorConfig are settings by class of accelerator.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	AcceleratorConfig *runtime.RawExtension `json:"acceleratorConfig,omitempty"`

	// diffusionPipeline are the parts of a diffusion model.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	DiffusionPipeline *runtime.RawExtension `json:"diffusionPipeline,omitempty"`
}

// NamedVersion is a name with a version.
type NamedVersion struct {
	// name is the name, such as `safetensors`.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name,omitempty"`

	// version is the version. Left out: none, which equals none only.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Version *string `json:"version,omitempty"`

	// operator is accepted for manifests that have it. Versions are compared for equality, whatever it says.
	// +kubebuilder:validation:MaxLength=1024
	// +default="Equal"
	// +optional
	Operator string `json:"operator,omitempty"`

	// weight is accepted for manifests that have it, and has no effect.
	// +default=1
	// +optional
	Weight *int64 `json:"weight,omitempty"`
}
