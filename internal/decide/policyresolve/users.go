package policyresolve

import (
	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/servingcomponent"
)

// Use is a component that names a policy.
type Use struct {
	// Component is engine, decoder or router.
	Component string
	// Policy is the name of the policy.
	Policy string
}

// Uses returns the policies that the components of a service name, in the order of the components. References to the
// reserved kind are none.
func Uses(spec v1beta1.InferenceServiceSpec) []Use {
	var uses []Use
	for _, c := range servingcomponent.Of(spec, nil) {
		if ref := c.Own.AutoscalerPolicyRef; ref != nil && (ref.Kind == "" || ref.Kind == v1beta1.RefKindAutoscalerPolicy) {
			uses = append(uses, Use{c.Name, ref.Name})
		}
	}
	return uses
}
