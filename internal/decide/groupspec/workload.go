package groupspec

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
)

// KindRoleBasedGroup is the kind whose roles can be targets.
const KindRoleBasedGroup = "RoleBasedGroup"

const (
	groupRoleBasedGroup   = "workloads.x-k8s.io"
	groupLeaderWorkerSet  = "leaderworkerset.x-k8s.io"
	maxRoleWorkloadLength = 63
)

// Workload identifies the object whose replicas a target stands for. For a role of a RoleBasedGroup that is the
// workload that the role runs as.
type Workload struct {
	// APIVersion as the reference spells it; objects of one group and kind are the same in every version.
	APIVersion string
	// Kind, Namespace and Name. Namespace is never empty.
	Kind, Namespace, Name string
}

// Group is the API group of the workload, "" where its apiVersion is none.
func (w Workload) Group() string {
	gv, err := schema.ParseGroupVersion(w.APIVersion)
	if err != nil {
		return ""
	}
	return gv.Group
}

// Key is equal for two workloads that are one object.
func (w Workload) Key() string {
	return strings.Join([]string{w.Group(), w.Kind, w.Namespace, w.Name}, "/")
}

// String names the workload in a message.
func (w Workload) String() string { return fmt.Sprintf("%s %s/%s", w.Kind, w.Namespace, w.Name) }

// WorkloadOf resolves a reference of an object in the namespace. A role without workloadName runs as
// <RoleBasedGroup>-<role>, cut to 63 characters and not ending in '-', a StatefulSet unless workloadKind says otherwise.
func WorkloadOf(ref v1alpha1.ResourceRef, namespace string) Workload {
	w := Workload{APIVersion: ref.APIVersion, Kind: ref.Kind, Namespace: cmp.Or(ref.Namespace, namespace), Name: ref.Name}
	sub := ref.Subresource
	if sub == nil || ref.Kind != KindRoleBasedGroup {
		return w
	}
	w.Kind = cmp.Or(sub.WorkloadKind, "StatefulSet")
	w.APIVersion = "apps/v1"
	if w.Kind == "LeaderWorkerSet" {
		w.APIVersion = groupLeaderWorkerSet + "/v1"
	}
	w.APIVersion = cmp.Or(sub.WorkloadAPIVersion, w.APIVersion)
	name := ref.Name + "-" + sub.RoleName
	if len(name) > maxRoleWorkloadLength {
		name = strings.TrimRight(name[:maxRoleWorkloadLength], "-")
	}
	w.Name = cmp.Or(sub.WorkloadName, name)
	return w
}

// Workloads resolves all targets, in their order.
func Workloads(rsg *v1alpha1.ResourceScalingGroup) []Workload {
	all := make([]Workload, len(rsg.Spec.TargetResources))
	for i, t := range rsg.Spec.TargetResources {
		all[i] = WorkloadOf(t.ResourceRef, rsg.Namespace)
	}
	return all
}

// componentAccounts are the ServiceAccounts that the components of this product run as, in their own namespace.
var componentAccounts = map[string]bool{
	"pd-orchestrator-resourcescalinggroup": true,
	"pd-orchestrator-elasticscaler":        true,
	"pd-orchestrator-tidal":                true,
	"pd-orchestrator-autoscalerpolicy":     true,
}

// ComponentAccount returns the first ServiceAccount of a component of this product that a pod template of the workload
// names, "" where there is none. A copy of such a workload in the components' namespace would hold their rights.
func ComponentAccount(workload *unstructured.Unstructured) string {
	return componentAccount(workload.Object["spec"])
}

// componentAccount looks through the whole spec, so that it needs to know no kind's templates: these keys stand in pod
// specs only.
func componentAccount(value any) string {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range []string{"serviceAccountName", "serviceAccount"} {
			if name, ok := v[key].(string); ok && componentAccounts[name] {
				return name
			}
		}
		// The smallest of several, so that the order of a map does not show in a message.
		found := ""
		for _, child := range v {
			if name := componentAccount(child); name != "" && (found == "" || name < found) {
				found = name
			}
		}
		return found
	case []any:
		for _, child := range v {
			if name := componentAccount(child); name != "" {
				return name
			}
		}
	}
	return ""
}
