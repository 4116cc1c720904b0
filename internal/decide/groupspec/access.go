package groupspec

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
)

// Right is what somebody must be allowed to do.
type Right struct {
	// Verb, Group, Resource and Subresource as RBAC names them.
	Verb, Group, Resource, Subresource string
	// Namespace, and Name of the object, "" for any.
	Namespace, Name string
}

// String names the right in a message.
func (r Right) String() string {
	resource := schema.GroupResource{Group: r.Group, Resource: r.Resource}.String()
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	if r.Name == "" {
		return fmt.Sprintf("%s %s in namespace %s", r.Verb, resource, r.Namespace)
	}
	return fmt.Sprintf("%s %s %q in namespace %s", r.Verb, resource, r.Name, r.Namespace)
}

// TargetRights are the rights that one target needs.
type TargetRights struct {
	// Index of the target in spec.targetResources.
	Index int
	// Path of the reference.
	Path *field.Path
	// Rights that the writer must have, all of them.
	Rights []Right
}

// RequiredRights lists what the writer of a ResourceScalingGroup must be allowed to do, for each target in another
// namespace: the controller acts there with its own rights, so it asks for the writer's. Scaling the target takes
// `update` on its scale subresource; copying it `get` on it, and `create` on its kind where the copies are made.
func RequiredRights(rsg *v1alpha1.ResourceScalingGroup) []TargetRights {
	var all []TargetRights
	for i, w := range Workloads(rsg) {
		if w.Namespace == rsg.Namespace || w.kind == nil {
			continue
		}
		resource := w.kind.GroupResource()
		base := Right{Group: resource.Group, Resource: resource.Resource, Namespace: w.Namespace, Name: w.Name}
		scale, get, create := base, base, base
		scale.Verb, scale.Subresource = "update", "scale"
		get.Verb = "get"
		create.Verb, create.Namespace, create.Name = "create", rsg.Namespace, ""
		t := TargetRights{Index: i, Path: field.NewPath("spec", "targetResources").Index(i).Child("resourceRef"), Rights: []Right{scale}}
		if rsg.Spec.ScalingStrategy.Type == v1alpha1.GroupReplication {
			t.Rights = append(t.Rights, get, create)
		}
		all = append(all, t)
	}
	return all
}
