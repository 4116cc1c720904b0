// Package v1beta1 holds the ome.io/v1beta1 API: an AutoscalerPolicy is one set of autoscaling settings that many inference
// services share; an InferenceService serves a BaseModel or ClusterBaseModel with a ServingRuntime or ClusterServingRuntime.
//
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
// +kubebuilder:ac:output:package=../../../client/applyconfiguration/ome
// +groupName=ome.io
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of this package.
const GroupName = "ome.io"

var (
	// GroupVersion is the group and version of the kinds in this package.
	GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1beta1"}

	// SchemeGroupVersion is GroupVersion under the name that generated code expects.
	SchemeGroupVersion = GroupVersion

	// SchemeBuilder collects the functions that add the kinds of this package to a scheme.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme adds the kinds of this package to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&AutoscalerPolicy{},
		&AutoscalerPolicyList{},
		&BaseModel{},
		&BaseModelList{},
		&ClusterBaseModel{},
		&ClusterBaseModelList{},
		&ClusterServingRuntime{},
		&ClusterServingRuntimeList{},
		&InferenceService{},
		&InferenceServiceList{},
		&ServingRuntime{},
		&ServingRuntimeList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
