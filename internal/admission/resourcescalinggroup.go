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
	"strings"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/config"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/groupspec"
)

// ResourceScalingGroupPath is where the admission of ResourceScalingGroups is served.
const ResourceScalingGroupPath = "/validate-autoscaling-openfuyao-com-v1alpha1-resourcescalinggroup"

// indexTargets finds ResourceScalingGroups by their strategy and a workload that they name.
const indexTargets = "admission.targets"

// reviewsAtATime bounds how many reviews of access one request asks for at a time.
const reviewsAtATime = 8

// ResourceScalingGroups admits ResourceScalingGroups. All fields must be set.
type ResourceScalingGroups struct {
	// Cache reads from the cache, which must have the index of IndexResourceScalingGroups.
	Cache client.Reader
	// API reads from the API server.
	API client.Reader
	// Reviews creates SubjectAccessReviews.
	Reviews client.Writer
	// Namespace is that of this product's components.
	Namespace string
	// CrossNamespace says what is asked of targets in other namespaces.
	CrossNamespace config.CrossNamespace
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
	return warnings, refusal(rsg, append(errs, v.surroundings(ctx, nil, rsg)...))
}

// ValidateUpdate returns everything that speaks against a change of the spec. Other changes are no concern of ours.
func (v *ResourceScalingGroups) ValidateUpdate(ctx context.Context, old, rsg *v1alpha1.ResourceScalingGroup) (admission.Warnings, error) {
	if rsg.DeletionTimestamp != nil || equality.Semantic.DeepEqual(old.Spec, rsg.Spec) {
		return nil, nil
	}
	errs, warnings := groupspec.ValidateUpdate(old, rsg)
	return warnings, refusal(rsg, append(errs, v.surroundings(ctx, old, rsg)...))
}

// ValidateDelete lets every deletion pass.
func (v *ResourceScalingGroups) ValidateDelete(context.Context, *v1alpha1.ResourceScalingGroup) (admission.Warnings, error) {
	return nil, nil
}

// refusal holds all findings in the form in which the API server reports its own.
func refusal(rsg *v1alpha1.ResourceScalingGroup, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: "ResourceScalingGroup"}, rsg.Name, errs)
}

// surroundings checks what the object refers to. old is nil for a new object.
func (v *ResourceScalingGroups) surroundings(ctx context.Context, old, rsg *v1alpha1.ResourceScalingGroup) field.ErrorList {
	refused, errs := v.access(ctx, rsg)
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

// access asks whether the writer may do to targets in other namespaces what the controller is to do there. It returns
// the indexes of the targets that are refused.
func (v *ResourceScalingGroups) access(ctx context.Context, rsg *v1alpha1.ResourceScalingGroup) (map[int]bool, field.ErrorList) {
	refused := map[int]bool{}
	targets := groupspec.RequiredRights(rsg)
	if len(targets) == 0 || v.CrossNamespace == config.CrossNamespaceTrusted {
		return refused, nil
	}
	var errs field.ErrorList
	refuse := func(t groupspec.TargetRights, detail string) {
		refused[t.Index] = true
		errs = append(errs, field.Forbidden(t.Path, detail))
	}
	if v.CrossNamespace != config.CrossNamespaceAdmitted {
		for _, t := range targets {
			refuse(t, fmt.Sprintf("must be in namespace %s, since the operator has set crossNamespace: %s", rsg.Namespace, v.CrossNamespace))
		}
		return refused, errs
	}
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		for _, t := range targets {
			refuse(t, "who writes this is not known, so access to another namespace is refused")
		}
		return refused, errs
	}
	answers := v.review(ctx, request.UserInfo, targets)
	for _, t := range targets {
		var denied, unknown []string
		for _, right := range t.Rights {
			switch err := answers[right]; {
			case err == nil:
			case apierrors.IsForbidden(err):
				denied = append(denied, right.String())
			default:
				unknown = append(unknown, fmt.Sprintf("%s (%v)", right, err))
			}
		}
		if len(denied) > 0 {
			refuse(t, fmt.Sprintf("is in another namespace, where user %q must be allowed to: %s; ask for that right, or put the ResourceScalingGroup beside its target",
				request.UserInfo.Username, strings.Join(denied, ", ")))
		}
		if len(unknown) > 0 {
			refuse(t, fmt.Sprintf("is in another namespace, and whether user %q is allowed to do this could not be found out, so it is refused: %s; try again",
				request.UserInfo.Username, strings.Join(unknown, ", ")))
		}
	}
	return refused, errs
}

// review asks for each right once. The answer is nil where it is held, a Forbidden error where it is not.
func (v *ResourceScalingGroups) review(ctx context.Context, user authenticationv1.UserInfo, targets []groupspec.TargetRights) map[groupspec.Right]error {
	var rights []groupspec.Right
	for _, t := range targets {
		for _, right := range t.Rights {
			if !slices.Contains(rights, right) {
				rights = append(rights, right)
			}
		}
	}
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	results := make([]error, len(rights))
	var group errgroup.Group
	group.SetLimit(reviewsAtATime)
	for i, right := range rights {
		group.Go(func() error {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: user.Username, Groups: user.Groups, UID: user.UID, Extra: extra,
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: right.Namespace, Verb: right.Verb,
					Group: right.Group, Resource: right.Resource, Subresource: right.Subresource, Name: right.Name,
				},
			}}
			if err := v.Reviews.Create(ctx, review); err != nil {
				// An error of ours: that the manager may not ask is no answer about the writer.
				results[i] = fmt.Errorf("asking for a SubjectAccessReview: %s", err.Error())
			} else if !review.Status.Allowed {
				results[i] = apierrors.NewForbidden(schema.GroupResource{Group: right.Group, Resource: right.Resource}, right.Name, nil)
			}
			return nil
		})
	}
	_ = group.Wait() // The results hold the errors.
	answers := map[groupspec.Right]error{}
	for i, right := range rights {
		answers[right] = results[i]
	}
	return answers
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
