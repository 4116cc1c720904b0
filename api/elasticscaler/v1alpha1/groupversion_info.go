// Package v1alpha1 holds the elasticscaler.io/v1alpha1 API: an ElasticScaler decides how many replicas one target should
// have, from metrics, from the state of another object, or from a signal.
//
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
// +kubebuilder:ac:output:package=../../../client/applyconfiguration/elasticscaler
// +groupName=elasticscaler.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of the ElasticScaler.
const GroupName = "elasticscaler.io"

var (
	// GroupVersion is the group and version of the kinds in this package.
	GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

	// SchemeGroupVersion is GroupVersion under the name that generated code expects.
	SchemeGroupVersion = GroupVersion

	// SchemeBuilder collects the functions that add the kinds of this package to a scheme.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme adds the kinds of this package to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&ElasticScaler{},
		&ElasticScalerList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
