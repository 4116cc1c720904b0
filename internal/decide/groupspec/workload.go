package groupspec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/clone"
)

// KindRoleBasedGroup is the kind whose roles can be targets.
const KindRoleBasedGroup = "RoleBasedGroup"

const groupRoleBasedGroup = "workloads.x-k8s.io"

// Workload identifies the object whose replicas a target stands for. For a role of a RoleBasedGroup that is the
// workload that the role runs as.
type Workload struct {
	// GroupKind of the workload.
	schema.GroupKind
	// Namespace and Name. Namespace is never empty.
	Namespace, Name string
	// kind is nil where no controller of ours knows the kind.
	kind *clone.Kind
}

// Key is equal for two workloads that are one object.
func (w Workload) Key() string {
	return strings.Join([]string{w.Group, w.Kind, w.Namespace, w.Name}, "/")
}

// String names the workload in a message.
func (w Workload) String() string { return fmt.Sprintf("%s %s/%s", w.Kind, w.Namespace, w.Name) }

// Object returns an empty object to read the workload into, false where its kind is none that can be a target.
func (w Workload) Object() (*unstructured.Unstructured, bool) {
	if w.kind == nil {
		return nil, false
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(w.kind.GroupVersionKind)
	return u, true
}

// WorkloadOf resolves a reference of an object in the namespace. A reference that resolves to nothing stands for
// itself.
func WorkloadOf(ref v1alpha1.ResourceRef, namespace string) Workload {
	w := Workload{Namespace: cmp.Or(ref.Namespace, namespace)}
	resolved, err := clone.Resolve(ref)
	if err != nil {
		w.GroupKind, w.Name = schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind(), ref.Name
		return w
	}
	w.GroupKind, w.Name, w.kind = resolved.Kind.GroupKind(), resolved.Name, &resolved.Kind
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

// componentAccounts begins the names of the ServiceAccounts that the components of this product run as.
const componentAccounts = "pd-orchestrator-"

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
			if name, ok := v[key].(string); ok && strings.HasPrefix(name, componentAccounts) {
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

// PodNamespaces returns the namespaces in which groups have pods, sorted.
func PodNamespaces(rsg *v1alpha1.ResourceScalingGroup) []string {
	all := []string{rsg.Namespace}
	for _, t := range rsg.Spec.TargetResources {
		all = append(all, cmp.Or(t.ResourceRef.Namespace, rsg.Namespace))
	}
	slices.Sort(all)
	return slices.Compact(all)
}
