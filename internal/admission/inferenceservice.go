package admission

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyresolve"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyspec"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/servingruntime"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/servingspec"
	"github.com/pd-orchestrator/pd-orchestrator/internal/serving"
)

// Paths of the admission of what policies attach to.
const (
	// InferenceServicePath is where the admission of InferenceServices is served.
	InferenceServicePath = "/validate-ome-io-v1beta1-inferenceservice"
	// ServingRuntimePath is where the admission of ServingRuntimes is served.
	ServingRuntimePath = "/validate-ome-io-v1beta1-servingruntime"
	// ClusterServingRuntimePath is where the admission of ClusterServingRuntimes is served.
	ClusterServingRuntimePath = "/validate-ome-io-v1beta1-clusterservingruntime"
)

// InferenceServices admits InferenceServices. All fields must be set.
type InferenceServices struct {
	// Cache reads policies, models and runtimes from the cache, and API reads those from the API server that the cache does
	// not have: they may just have come.
	Cache, API client.Reader
	// PoliciesServed reports whether there are AutoscalerPolicies.
	PoliciesServed func(context.Context) (bool, error)
}

var _ admission.Validator[*v1beta1.InferenceService] = &InferenceServices{}

// Handler serves the admission at InferenceServicePath.
func (v *InferenceServices) Handler(scheme *runtime.Scheme) http.Handler {
	return admission.WithValidator(scheme, v)
}

// ValidateCreate returns everything that speaks against a new service.
func (v *InferenceServices) ValidateCreate(ctx context.Context, service *v1beta1.InferenceService) (admission.Warnings, error) {
	served, err := v.PoliciesServed(ctx)
	if err != nil {
		return nil, fmt.Errorf("finding out whether there are AutoscalerPolicies, try again: %w", err)
	}
	return v.warnings(ctx, service, served), denial(servingspec.Service(service, served))
}

// ValidateUpdate returns everything that speaks against a change of the spec or the annotations, but for what was so before:
// a service of an earlier time must still take a new image.
func (v *InferenceServices) ValidateUpdate(ctx context.Context, old, service *v1beta1.InferenceService) (admission.Warnings, error) {
	if service.DeletionTimestamp != nil || equality.Semantic.DeepEqual(old.Spec, service.Spec) && equality.Semantic.DeepEqual(old.Annotations, service.Annotations) {
		return nil, nil
	}
	served, err := v.PoliciesServed(ctx)
	if err != nil {
		return nil, fmt.Errorf("finding out whether there are AutoscalerPolicies, try again: %w", err)
	}
	before := servingspec.Service(old, served)
	var added []policyspec.Finding
	warnings := v.warnings(ctx, service, served)
	for _, finding := range servingspec.Service(service, served) {
		if slices.Contains(before, finding) {
			warnings = append(warnings, finding.String())
		} else {
			added = append(added, finding)
		}
	}
	return warnings, denial(added)
}

// ValidateDelete lets every deletion pass.
func (v *InferenceServices) ValidateDelete(context.Context, *v1beta1.InferenceService) (admission.Warnings, error) {
	return nil, nil
}

// warnings say which runtime will serve, and what the service may be surprised by. What cannot be read now is left out: the
// status tells it.
func (v *InferenceServices) warnings(ctx context.Context, service *v1beta1.InferenceService, served bool) []string {
	var warnings []string
	if choice, err := v.choose(ctx, service); err == nil {
		switch choice.Reason {
		case v1beta1.ReasonRuntimeSelected:
			warnings = append(warnings, fmt.Sprintf("Runtime %s will be auto-selected for model %s", choice.Runtime.Name, service.Spec.Model.Name))
		case v1beta1.ReasonRuntimeNotNeeded:
		case v1beta1.ReasonRuntimeNamed:
			if choice.Partial {
				warnings = append(warnings, choice.Message)
			}
		default:
			warnings = append(warnings, choice.Message)
		}
	}
	for _, use := range policyresolve.Uses(service.Spec) {
		if !served {
			break
		}
		key := client.ObjectKey{Namespace: service.Namespace, Name: use.Policy}
		err := v.Cache.Get(ctx, key, &v1beta1.AutoscalerPolicy{})
		if apierrors.IsNotFound(err) {
			err = v.API.Get(ctx, key, &v1beta1.AutoscalerPolicy{})
		}
		if apierrors.IsNotFound(err) {
			warnings = append(warnings, fmt.Sprintf("spec.%s.autoscalerPolicyRef: AutoscalerPolicy %q does not exist in namespace %s, and %s holds until it does", use.Component, use.Policy, service.Namespace, use.Component))
		}
	}
	return append(warnings, servingspec.Warnings(service)...)
}

// choose finds the runtime that will serve.
func (v *InferenceServices) choose(ctx context.Context, service *v1beta1.InferenceService) (servingruntime.Choice, error) {
	question, err := serving.Question(ctx, v.Cache, service)
	if err != nil {
		return servingruntime.Choice{}, err
	}
	if choice := servingruntime.Choose(question); choice.Resolved {
		return choice, nil
	}
	question, err = serving.Question(ctx, v.API, service)
	return servingruntime.Choose(question), err
}

// ServingRuntimes admits ServingRuntimes and ClusterServingRuntimes.
type ServingRuntimes struct{}

// Handler serves the admission at ServingRuntimePath.
func (v ServingRuntimes) Handler(scheme *runtime.Scheme) http.Handler {
	return admission.WithValidator(scheme, specs[*v1beta1.ServingRuntime]{func(r *v1beta1.ServingRuntime) v1beta1.ServingRuntimeSpec { return r.Spec }})
}

// ClusterHandler serves the admission at ClusterServingRuntimePath.
func (v ServingRuntimes) ClusterHandler(scheme *runtime.Scheme) http.Handler {
	return admission.WithValidator(scheme, specs[*v1beta1.ClusterServingRuntime]{func(r *v1beta1.ClusterServingRuntime) v1beta1.ServingRuntimeSpec { return r.Spec }})
}

// specs admits a kind by the spec of a runtime that it has.
type specs[T runtime.Object] struct {
	of func(T) v1beta1.ServingRuntimeSpec
}

// ValidateCreate returns everything that speaks against a new runtime.
func (v specs[T]) ValidateCreate(_ context.Context, obj T) (admission.Warnings, error) {
	return nil, denial(servingspec.Runtime(v.of(obj)))
}

// ValidateUpdate returns everything that speaks against a change of the spec.
func (v specs[T]) ValidateUpdate(ctx context.Context, old, obj T) (admission.Warnings, error) {
	if equality.Semantic.DeepEqual(v.of(old), v.of(obj)) {
		return nil, nil
	}
	return v.ValidateCreate(ctx, obj)
}

// ValidateDelete lets every deletion pass.
func (v specs[T]) ValidateDelete(context.Context, T) (admission.Warnings, error) { return nil, nil }
