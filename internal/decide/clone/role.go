package clone

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
)

var roleBasedGroup = schema.GroupKind{Group: "workloads.x-k8s.io", Kind: "RoleBasedGroup"}

// Ref names the workload that a target is, or that a role runs as.
type Ref struct {
	// Kind of the workload.
	Kind Kind
	// Name of the workload.
	Name string
}

// Resolve finds the workload behind a reference. A role of a RoleBasedGroup is reached through the workload that it
// runs as: a StatefulSet unless the reference says otherwise, named <group>-<role>, cut to 63 characters, unless the
// reference names it.
func Resolve(ref v1alpha1.ResourceRef) (Ref, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return Ref{}, fmt.Errorf("apiVersion %q is not of the form group/version", ref.APIVersion)
	}
	if (schema.GroupKind{Group: gv.Group, Kind: ref.Kind}) != roleBasedGroup {
		if ref.Subresource != nil {
			return Ref{}, fmt.Errorf("subresource is of a %s, and the reference is to a %s: remove it", roleBasedGroup.Kind, ref.Kind)
		}
		kind, err := KindOf(ref.APIVersion, ref.Kind)
		return Ref{Kind: kind, Name: ref.Name}, err
	}
	sub := ref.Subresource
	if sub == nil || sub.RoleName == "" && sub.WorkloadName == "" {
		return Ref{}, fmt.Errorf("%s %q is scaled by role: subresource must have roleName or workloadName", ref.Kind, ref.Name)
	}
	workloadKind := cmp.Or(sub.WorkloadKind, "StatefulSet")
	kind, err := KindOf(cmp.Or(sub.WorkloadAPIVersion, defaultAPIVersion(workloadKind)), workloadKind)
	if err != nil {
		return Ref{}, err
	}
	name := ref.Name + "-" + sub.RoleName
	if len(name) > 63 {
		name = strings.TrimRight(name[:63], "-")
	}
	return Ref{Kind: kind, Name: cmp.Or(sub.WorkloadName, name)}, nil
}

func defaultAPIVersion(kind string) string {
	for _, k := range kinds {
		if k.GroupVersionKind.Kind == kind {
			return k.GroupVersion().String()
		}
	}
	return ""
}
