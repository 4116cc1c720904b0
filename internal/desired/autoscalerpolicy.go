package desired

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/condition"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyrender"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyspec"
)

// AutoscalerPolicyStatus returns the status of a policy that a number of components name. The object's own status is the
// previous one.
func AutoscalerPolicyStatus(policy *v1beta1.AutoscalerPolicy, bindings policyrender.Bindings, uses int, now metav1.Time) v1beta1.AutoscalerPolicyStatus {
	s := v1beta1.AutoscalerPolicyStatus{ObservedGeneration: policy.Generation, AttachedComponents: int32(uses)}
	digest, err := policyrender.PortableDigest(policy.Spec)
	s.PortableDigest = digest
	ready := condition.New(v1beta1.ConditionReady, true, v1beta1.ReasonTemplatesValid, "templates validate and every referenced metric provider is bound")
	if err != nil {
		ready = condition.New(v1beta1.ConditionReady, false, v1beta1.ReasonParseError, err.Error())
	} else if findings := policyspec.Validate(policy.Spec); len(findings) > 0 {
		ready = condition.New(v1beta1.ConditionReady, false, findings[0].Reason, findings[0].Detail)
	} else if unknown := bindings.Unknown(policy.Spec); unknown != "" {
		ready = condition.New(v1beta1.ConditionReady, false, v1beta1.ReasonProviderUnknown, unknown)
	}
	inUse := condition.New(v1beta1.ConditionInUse, false, v1beta1.ReasonNoConsumers, "no component references this policy")
	if uses > 0 {
		inUse = condition.New(v1beta1.ConditionInUse, true, v1beta1.ReasonAttached, fmt.Sprintf("%d component(s) reference this policy", uses))
	}
	s.Conditions = condition.Merge(policy.Status.Conditions, []string{v1beta1.ConditionReady, v1beta1.ConditionInUse},
		[]metav1.Condition{ready, inUse}, policy.Generation, now)
	return s
}
