package clone

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
)

// Owner identifies the ResourceScalingGroup that the groups belong to.
type Owner struct {
	// Namespace and Name of the ResourceScalingGroup. Clones are made in Namespace.
	Namespace, Name string
	// GroupName as the user spelt it, or Name.
	GroupName string
}

// OwnerOf returns the identity of a ResourceScalingGroup.
func OwnerOf(rsg *v1alpha1.ResourceScalingGroup) Owner {
	o := Owner{Namespace: rsg.Namespace, Name: rsg.Name, GroupName: rsg.Name}
	if c := rsg.Spec.ScalingStrategy.GroupConfig; c != nil && c.GroupName != "" {
		o.GroupName = c.GroupName
	}
	return o
}

// Labels returns the labels that mark an object, or a pod, as part of a group.
func (o Owner) Labels(id int32) map[string]string {
	return map[string]string{
		v1alpha1.LabelName:      o.Name,
		v1alpha1.LabelNamespace: o.Namespace,
		v1alpha1.LabelGroupName: o.GroupName,
		v1alpha1.LabelGroupID:   formatID(id),
	}
}

// selectorLabels are what a clone's selector adds to the original's, so that the two never claim each other's pods.
func (o Owner) selectorLabels(id int32) map[string]string {
	return map[string]string{
		v1alpha1.LabelName:      o.Name,
		v1alpha1.LabelNamespace: o.Namespace,
		v1alpha1.LabelGroupID:   formatID(id),
	}
}

// IDOf returns the group id that an object's labels claim for this owner, and whether they claim one.
func (o Owner) IDOf(labels map[string]string) (int32, bool) {
	if labels[v1alpha1.LabelName] != o.Name || labels[v1alpha1.LabelNamespace] != o.Namespace || labels[v1alpha1.LabelGroupName] != o.GroupName {
		return 0, false
	}
	id, err := strconv.ParseInt(labels[v1alpha1.LabelGroupID], 10, 32)
	if err != nil || id < 0 || id > int64(v1alpha1.MaxGroupID) || formatID(int32(id)) != labels[v1alpha1.LabelGroupID] {
		return 0, false
	}
	return int32(id), true
}

// WorkloadName is the name of the clone of a workload: <groupName>-<original>-<id>, lower-cased.
func (o Owner) WorkloadName(original string, id int32) string {
	return strings.ToLower(o.GroupName) + "-" + original + "-" + formatID(id)
}

// ServiceName is the name of the clone of a Service: <original>-<groupName>-<id>, lower-cased.
func (o Owner) ServiceName(original string, id int32) string {
	return original + "-" + strings.ToLower(o.GroupName) + "-" + formatID(id)
}

// CheckWorkloadName says whether every clone of a workload, up to the highest id, has a legal name.
func (o Owner) CheckWorkloadName(kind Kind, original string) error {
	name := o.WorkloadName(original, v1alpha1.MaxGroupID)
	if len(name) > kind.MaxNameLength {
		return fmt.Errorf("clones of %s %q would be named like %q, which is %d characters: must be at most %d; shorten groupName %q or rename the workload",
			kind.GroupVersionKind.Kind, original, name, len(name), kind.MaxNameLength, o.GroupName)
	}
	check := validation.IsDNS1123Subdomain
	if kind.serviceLike {
		check = validation.IsDNS1035Label
	}
	if msgs := check(name); len(msgs) > 0 {
		return fmt.Errorf("clones of %s %q would be named like %q, which is not legal: %s; change groupName %q",
			kind.GroupVersionKind.Kind, original, name, strings.Join(msgs, "; "), o.GroupName)
	}
	return nil
}

// CheckServiceName says whether every clone of a Service, up to the highest id, has a legal name.
func (o Owner) CheckServiceName(original string) error {
	name := o.ServiceName(original, v1alpha1.MaxGroupID)
	if msgs := validation.IsDNS1035Label(name); len(msgs) > 0 {
		return fmt.Errorf("clones of Service %q would be named like %q (%d characters), which is not legal: %s; change groupName %q",
			original, name, len(name), strings.Join(msgs, "; "), o.GroupName)
	}
	return nil
}

func formatID(id int32) string { return strconv.FormatInt(int64(id), 10) }
