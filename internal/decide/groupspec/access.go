package groupspec

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/rights"
)

// TargetRights are the rights that one target needs.
type TargetRights struct {
	// Index of the target in spec.targetResources.
	Index int
	rights.Need
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
		t := TargetRights{Index: i, Need: rights.Need{
			Path:   field.NewPath("spec", "targetResources").Index(i).Child("resourceRef"),
			Rights: []rights.Right{rights.Scale(resource, w.Namespace, w.Name)},
		}}
		if rsg.Spec.ScalingStrategy.Type == v1alpha1.GroupReplication {
			t.Rights = append(t.Rights,
				rights.Right{Verb: "get", Group: resource.Group, Resource: resource.Resource, Namespace: w.Namespace, Name: w.Name},
				rights.Right{Verb: "create", Group: resource.Group, Resource: resource.Resource, Namespace: rsg.Namespace})
		}
		all = append(all, t)
	}
	return all
}
