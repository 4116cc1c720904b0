// Package admission says whether the API server may store an object of ours, where that depends on other objects or on
// who asks. What one object shows is decided by the pure packages, which the controllers call too.
//
// It only reads: a review of access leaves nothing behind, so a dry run gives the same answer and the same traces, none.
package admission

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/groupspec"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/rights"
)

// ResourceScalingGroupPath is where the admission of ResourceScalingGroups is served.
const ResourceScalingGroupPath = "/validate-autoscaling-openfuyao-com-v1alpha1-resourcescalinggroup"

// indexTargets finds ResourceScalingGroups by their strategy and a workload that they name.
const indexTargets = "admission.targets"

var rsgKind = schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: "ResourceScalingGroup"}

// ResourceScalingGroups admits ResourceScalingGroups. All fields must be set.
type ResourceScalingGroups struct {
	// Cache reads from the cache, which must have the index of IndexResourceScalingGroups.
	Cache client.Reader
	// API reads from the API server.
	API client.Reader
	// Writers says who may name targets in other namespaces.
	Writers Writers
	// Namespace is that of this product's components.
	Namespace string
}

var _ admission.Validator[*v1alpha1.ResourceScalingGroup] = &ResourceScalingGroups{}

// IndexResourceScalingGroups adds the index that other ResourceScalingGroups of a target are found by. Call it once for
// a cache, before it starts.
func IndexResourceScalingGroups(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &v1alpha1.ResourceScalingGroup{}, indexTargets, targetKeys); err != nil {
		return fmt.Errorf("indexing ResourceScalingGroups by target: %w", err)
	}
	return nil
}

func targetKeys(obj client.Object) []string {
	rsg := obj.(*v1alpha1.ResourceScalingGroup)
	var keys []string
	for _, w := range groupspec.Workloads(rsg) {
		keys = append(keys, targetKey(rsg, w))
	}
	return keys
}

func targetKey(rsg *v1alpha1.ResourceScalingGroup, w groupspec.Workload) string {
	return string(rsg.Spec.ScalingStrategy.Type) + "/" + w.Key()
}

// Handler serves the admission at ResourceScalingGroupPath.
func (v *ResourceScalingGroups) Handler(scheme *runtime.Scheme) http.Handler {
	return admission.WithValidator(scheme, v)
}

// ValidateCreate returns everything that speaks against a new object.
func (v *ResourceScalingGroups) ValidateCreate(ctx context.Context, rsg *v1alpha1.ResourceScalingGroup) (admission.Warnings, error) {
	errs, warnings := groupspec.Validate(rsg)
	return warnings, refusal(rsgKind, rsg.Name, append(errs, v.surroundings(ctx, nil, rsg)...))
}

// ValidateUpdate returns everything that speaks against a change of the spec. Other changes are no concern of ours.
func (v *ResourceScalingGroups) ValidateUpdate(ctx context.Context, old, rsg *v1alpha1.ResourceScalingGroup) (admission.Warnings, error) {
	if rsg.DeletionTimestamp != nil || equality.Semantic.DeepEqual(old.Spec, rsg.Spec) {
		return nil, nil
	}
	errs, warnings := groupspec.ValidateUpdate(old, rsg)
	return warnings, refusal(rsgKind, rsg.Name, append(errs, v.surroundings(ctx, old, rsg)...))
}

// ValidateDelete lets every deletion pass.
func (v *ResourceScalingGroups) ValidateDelete(context.Context, *v1alpha1.ResourceScalingGroup) (admission.Warnings, error) {
	return nil, nil
}

// surroundings checks what the object refers to. old is nil for a new object.
func (v *ResourceScalingGroups) surroundings(ctx context.Context, old, rsg *v1alpha1.ResourceScalingGroup) field.ErrorList {
	var errs field.ErrorList
	refused := map[int]bool{}
	needed := groupspec.RequiredRights(rsg)
	needs := make([]rights.Need, len(needed))
	for i, target := range needed {
		needs[i] = target.Need
	}
	for i, findings := range v.Writers.refusals(ctx, rsg, rsgKind.Kind, needs) {
		refused[needed[i].Index] = len(findings) > 0
		errs = append(errs, findings...)
	}
	known := map[string]bool{}
	if old != nil {
		for _, w := range groupspec.Workloads(old) {
			known[targetKey(old, w)] = true
		}
	}
	for i, w := range groupspec.Workloads(rsg) {
		// Of a target that the writer has no access to, nothing may be told, not even that it exists. One that was there
		// before is not looked at again: what has become wrong around it must not stop a pause.
		if refused[i] || known[targetKey(rsg, w)] {
			continue
		}
		path := targetPath(i)
		if err := v.otherManager(ctx, rsg, w, path); err != nil {
			errs = append(errs, err)
		}
		if err := v.componentAccount(ctx, rsg, w, path); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

func targetPath(i int) *field.Path {
	return field.NewPath("spec", "targetResources").Index(i).Child("resourceRef")
}

// otherManager finds another ResourceScalingGroup of the same strategy that names the workload.
func (v *ResourceScalingGroups) otherManager(ctx context.Context, rsg *v1alpha1.ResourceScalingGroup, w groupspec.Workload, path *field.Path) *field.Error {
	var list v1alpha1.ResourceScalingGroupList
	key := targetKey(rsg, w)
	if err := v.Cache.List(ctx, &list, client.MatchingFields{indexTargets: key}); err != nil {
		return field.InternalError(path, fmt.Errorf("looking for other ResourceScalingGroups of this target, try again: %w", err))
	}
	for i := range list.Items {
		other := client.ObjectKeyFromObject(&list.Items[i])
		if other == client.ObjectKeyFromObject(rsg) {
			continue
		}
		// The cache may still show one that has just been deleted to make room for this one.
		live := &v1alpha1.ResourceScalingGroup{}
		switch err := v.API.Get(ctx, other, live); {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return field.InternalError(path, fmt.Errorf("looking at ResourceScalingGroup %s, which names this target, try again: %w", other, err))
		}
		if live.DeletionTimestamp == nil && slices.Contains(targetKeys(live), key) {
			return field.Invalid(path, w.String(), fmt.Sprintf("is managed by ResourceScalingGroup %s of type %s already: remove it from one of the two",
				other, live.Spec.ScalingStrategy.Type))
		}
	}
	return nil
}

// componentAccount refuses to copy a workload that runs as one of our components into the namespace where that
// ServiceAccount is. A workload that cannot be read now is looked at by the controller before it is copied.
func (v *ResourceScalingGroups) componentAccount(ctx context.Context, rsg *v1alpha1.ResourceScalingGroup, w groupspec.Workload, path *field.Path) *field.Error {
	if rsg.Namespace != v.Namespace || rsg.Spec.ScalingStrategy.Type != v1alpha1.GroupReplication {
		return nil
	}
	base, known := w.Object()
	if !known {
		return nil
	}
	if err := v.API.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: w.Name}, base); err != nil {
		return nil //nolint:nilerr // What is not there yet has nothing to be refused for.
	}
	if account := groupspec.ComponentAccount(base); account != "" {
		return field.Forbidden(path, fmt.Sprintf("%s runs as ServiceAccount %s, and a copy of it in namespace %s would hold the rights of that component: "+
			"put the ResourceScalingGroup into another namespace, or give the workload a ServiceAccount of its own", w, account, rsg.Namespace))
	}
	return nil
}
