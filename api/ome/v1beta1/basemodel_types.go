package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// BaseModel describes a model that the InferenceServices in its namespace may serve. Its files are not downloaded here.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,path=basemodels,singular=basemodel
// +kubebuilder:printcolumn:name="Disabled",type=boolean,JSONPath=`.spec.disabled`,description="Whether the model is not to be used"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`,description="Version of the model"
// +kubebuilder:printcolumn:name="Vendor",type=string,JSONPath=`.spec.vendor`,description="Who made the model"
// +kubebuilder:printcolumn:name="Framework",type=string,JSONPath=`.spec.modelFramework.name`,description="Framework of the model"
// +kubebuilder:printcolumn:name="FrameworkVersion",type=string,JSONPath=`.spec.modelFramework.version`,description="Version of the framework"
// +kubebuilder:printcolumn:name="ModelFormat",type=string,JSONPath=`.spec.modelFormat.name`,description="Format of the files"
// +kubebuilder:printcolumn:name="Architecture",type=string,JSONPath=`.spec.modelArchitecture`,description="Architecture of the model"
// +kubebuilder:printcolumn:name="Capabilities",type=string,JSONPath=`.spec.modelCapabilities[*]`,description="What the model can do"
// +kubebuilder:printcolumn:name="Size",type=string,JSONPath=`.spec.modelParameterSize`,description="Number of parameters"
// +kubebuilder:printcolumn:name="CompartmentID",type=string,JSONPath=`.spec.compartmentID`,description="Compartment of the model"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.state`,description="State that whoever downloads the model reports"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type BaseModel struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec describes the model.
	// +required
	Spec BaseModelSpec `json:"spec,omitzero"`

	// status is what whoever downloads the model reports. Nothing here writes or reads it.
	// +optional
	Status ModelStatus `json:"status,omitzero"`
}

// BaseModelList is a list of BaseModels.
//
// +kubebuilder:object:root=true
type BaseModelList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the BaseModels.
	Items []BaseModel `json:"items"`
}

// ClusterBaseModel describes a model that the InferenceServices of all namespaces may serve. Its files are not downloaded
// here.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=clusterbasemodels,singular=clusterbasemodel
// +kubebuilder:printcolumn:name="Disabled",type=boolean,JSONPath=`.spec.disabled`,description="Whether the model is not to be used"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`,description="Version of the model"
// +kubebuilder:printcolumn:name="Vendor",type=string,JSONPath=`.spec.vendor`,description="Who made the model"
// +kubebuilder:printcolumn:name="Framework",type=string,JSONPath=`.spec.modelFramework.name`,description="Framework of the model"
// +kubebuilder:printcolumn:name="FrameworkVersion",type=string,JSONPath=`.spec.modelFramework.version`,description="Version of the framework"
// +kubebuilder:printcolumn:name="ModelFormat",type=string,JSONPath=`.spec.modelFormat.name`,description="Format of the files"
// +kubebuilder:printcolumn:name="Architecture",type=string,JSONPath=`.spec.modelArchitecture`,description="Architecture of the model"
// +kubebuilder:printcolumn:name="Capabilities",type=string,JSONPath=`.spec.modelCapabilities[*]`,description="What the model can do"
// +kubebuilder:printcolumn:name="Size",type=string,JSONPath=`.spec.modelParameterSize`,description="Number of parameters"
// +kubebuilder:printcolumn:name="CompartmentID",type=string,JSONPath=`.spec.compartmentID`,description="Compartment of the model"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.state`,description="State that whoever downloads the model reports"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterBaseModel struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec describes the model.
	// +required
	Spec BaseModelSpec `json:"spec,omitzero"`

	// status is what whoever downloads the model reports. Nothing here writes or reads it.
	// +optional
	Status ModelStatus `json:"status,omitzero"`
}

// ClusterBaseModelList is a list of ClusterBaseModels.
//
// +kubebuilder:object:root=true
type ClusterBaseModelList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the ClusterBaseModels.
	Items []ClusterBaseModel `json:"items"`
}

// BaseModelSpec describes a model. modelFormat and modelParameterSize decide which runtimes can serve it, and vendor is put
// on a label; the rest is accepted for manifests that have it, and has no effect.
type BaseModelSpec struct {
	// modelFormat is the format of the model's files.
	// +optional
	ModelFormat *NamedVersion `json:"modelFormat,omitempty"`

	// modelParameterSize is the number of parameters, such as `1.24B` or `500M`.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	ModelParameterSize string `json:"modelParameterSize,omitempty"`

	// storage is where the model's files are.
	// +required
	Storage ModelStorage `json:"storage,omitzero"`

	// vendor is who made the model.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Vendor string `json:"vendor,omitempty"`

	// version is the version of the model.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Version string `json:"version,omitempty"`

	// displayName is a name for people.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	DisplayName string `json:"displayName,omitempty"`

	// disabled takes the model out of use.
	// +optional
	Disabled *bool `json:"disabled,omitempty"`

	// modelType is the type of the model.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	ModelType string `json:"modelType,omitempty"`

	// modelFramework is the framework of the model.
	// +optional
	ModelFramework *NamedVersion `json:"modelFramework,omitempty"`

	// modelArchitecture is the architecture of the model.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	ModelArchitecture string `json:"modelArchitecture,omitempty"`

	// modelCapabilities are what the model can do.
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=1024
	// +listType=atomic
	// +optional
	ModelCapabilities []string `json:"modelCapabilities,omitempty"`

	// apiCapabilities are the interfaces that the model can be asked through.
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=1024
	// +listType=atomic
	// +optional
	APICapabilities []string `json:"apiCapabilities,omitempty"`

	// modelConfiguration is the model's own configuration.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	ModelConfiguration *runtime.RawExtension `json:"modelConfiguration,omitempty"`

	// quantization is how the weights are stored.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Quantization string `json:"quantization,omitempty"`

	// servingMode is how the model may be served.
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=1024
	// +listType=atomic
	// +optional
	ServingMode []string `json:"servingMode,omitempty"`

	// maxTokens is how many tokens the model takes.
	// +optional
	MaxTokens *int32 `json:"maxTokens,omitempty"`

	// compartmentID is the compartment that the model is in.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	CompartmentID string `json:"compartmentID,omitempty"`

	// additionalMetadata are further facts on the model.
	// +optional
	AdditionalMetadata map[string]string `json:"additionalMetadata,omitempty"`

	// diffusionPipeline are the parts of a diffusion model.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	DiffusionPipeline *runtime.RawExtension `json:"diffusionPipeline,omitempty"`
}

// DownloadPolicy says when a model's files are downloaded.
//
// +kubebuilder:validation:Enum=AlwaysDownload;ReuseIfExists
type DownloadPolicy string

// ModelStorage is where a model's files are.
type ModelStorage struct {
	// storageUri is where the files come from, such as `hf://org/model`.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +required
	StorageURI string `json:"storageUri,omitempty"`

	// path is where the files are on a node.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Path string `json:"path,omitempty"`

	// schemaPath is where the schema of the model is.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	SchemaPath string `json:"schemaPath,omitempty"`

	// key names the credentials of the source.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Key string `json:"key,omitempty"`

	// parameters are settings of the source.
	// +optional
	Parameters map[string]string `json:"parameters,omitempty"`

	// downloadPolicy says when the files are downloaded.
	// +optional
	DownloadPolicy DownloadPolicy `json:"downloadPolicy,omitempty"`

	// nodeSelector selects the nodes that the files are downloaded to.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// nodeAffinity selects the nodes that the files are downloaded to.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	NodeAffinity *runtime.RawExtension `json:"nodeAffinity,omitempty"`
}

// ModelState is how far the download of a model is.
//
// +kubebuilder:validation:Enum=Creating;Importing;In_Transit;In_Training;Ready;Failed
type ModelState string

// ModelStatus is what whoever downloads a model reports.
type ModelStatus struct {
	// state is how far the download is.
	// +optional
	State ModelState `json:"state,omitempty"`

	// lifecycle is the stage of the model's life.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Lifecycle string `json:"lifecycle,omitempty"`

	// nodesReady are the nodes that have the files.
	// +kubebuilder:validation:MaxItems=10000
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=atomic
	// +optional
	NodesReady []string `json:"nodesReady,omitempty"`

	// nodesFailed are the nodes on which the download failed.
	// +kubebuilder:validation:MaxItems=10000
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=atomic
	// +optional
	NodesFailed []string `json:"nodesFailed,omitempty"`
}
