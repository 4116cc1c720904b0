package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyresolve"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyspec"
)

// AutoscalerPolicyPath is where the admission of AutoscalerPolicies is served.
const AutoscalerPolicyPath = "/validate-ome-io-v1beta1-autoscalerpolicy"

// usersShown is how many components an answer names.
const usersShown = 10

// AutoscalerPolicies admits AutoscalerPolicies. All fields must be set.
type AutoscalerPolicies struct {
	// API reads InferenceServices and namespaces from the API server: what is about to be deleted may be named since a
	// moment ago.
	API client.Reader
}

var _ admission.Validator[*v1beta1.AutoscalerPolicy] = &AutoscalerPolicies{}

// Handler serves the admission at AutoscalerPolicyPath.
func (v *AutoscalerPolicies) Handler(scheme *runtime.Scheme) http.Handler {
	return admission.WithValidator(scheme, v)
}

// ValidateCreate returns everything that speaks against a new policy.
func (v *AutoscalerPolicies) ValidateCreate(_ context.Context, policy *v1beta1.AutoscalerPolicy) (admission.Warnings, error) {
	return policyspec.Warnings(policy.Spec), denial(policyspec.Validate(policy.Spec))
}

// ValidateUpdate returns everything that speaks against a policy whose spec changes. Other changes are no concern of ours.
func (v *AutoscalerPolicies) ValidateUpdate(ctx context.Context, old, policy *v1beta1.AutoscalerPolicy) (admission.Warnings, error) {
	if policy.DeletionTimestamp != nil || equality.Semantic.DeepEqual(old.Spec, policy.Spec) {
		return nil, nil
	}
	return v.ValidateCreate(ctx, policy)
}

// denial puts all findings into one answer, nil for none.
func denial(findings []policyspec.Finding) error {
	if len(findings) == 0 {
		return nil
	}
	return errors.New(policyspec.Join(findings))
}

// ValidateDelete refuses to delete a policy that components name, unless it is annotated or its namespace goes too. Components
// that lose their policy hold, so nothing but a mistake is lost if this does not run.
func (v *AutoscalerPolicies) ValidateDelete(ctx context.Context, policy *v1beta1.AutoscalerPolicy) (admission.Warnings, error) {
	if policy.Annotations[v1beta1.AnnotationAllowInUseDelete] == "true" {
		return nil, nil
	}
	var services v1beta1.InferenceServiceList
	if err := v.API.List(ctx, &services, client.InNamespace(policy.Namespace)); err != nil {
		return nil, fmt.Errorf("looking for components that reference AutoscalerPolicy %q, try again: %w", policy.Name, err)
	}
	var users []string
	for i := range services.Items {
		if services.Items[i].DeletionTimestamp != nil {
			continue
		}
		for _, use := range policyresolve.Uses(services.Items[i].Spec) {
			if use.Policy == policy.Name {
				users = append(users, services.Items[i].Name+"/"+use.Component)
			}
		}
	}
	if len(users) == 0 {
		return nil, nil
	}
	namespace := &corev1.Namespace{}
	err := v.API.Get(ctx, client.ObjectKey{Name: policy.Namespace}, namespace)
	if apierrors.IsNotFound(err) || err == nil && namespace.DeletionTimestamp != nil {
		return nil, nil
	}
	count, more := len(users), ""
	if count > usersShown {
		users, more = users[:usersShown], fmt.Sprintf(" and %d more", count-usersShown)
	}
	return nil, fmt.Errorf("AutoscalerPolicy %q is referenced by %d component(s): %s%s; remove the refs first, or set the %s=\"true\" annotation to force deletion",
		policy.Name, count, strings.Join(users, ", "), more, v1beta1.AnnotationAllowInUseDelete)
}
