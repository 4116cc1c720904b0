// Package v1alpha1 holds the ResourceScalingGroup API: a group of workloads that is replicated as a whole, or whose
// followers keep a ratio to a leader.
//
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
// +kubebuilder:ac:output:package=../../../client/applyconfiguration/autoscaling
// +groupName=autoscaling.openfuyao.com
package v1alpha1
