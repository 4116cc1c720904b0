package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/pd-orchestrator/pd-orchestrator/internal/config"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/rights"
)

// reviewsAtATime bounds how many reviews of access one request asks for at a time.
const reviewsAtATime = 8

// Writers finds out whether those who write objects of ours may do themselves what they have a controller do. All fields
// must be set.
type Writers struct {
	// Reviews creates SubjectAccessReviews.
	Reviews client.Writer
	// CrossNamespace says what is asked of references to other namespaces.
	CrossNamespace config.CrossNamespace
}

// refusals asks whether the writer of an object has what its references to other namespaces take. The findings are in
// the order of the needs, none for those that are met. kind is that of the object.
func (w Writers) refusals(ctx context.Context, obj client.Object, kind string, needs []rights.Need) []field.ErrorList {
	findings := make([]field.ErrorList, len(needs))
	if len(needs) == 0 || w.CrossNamespace == config.CrossNamespaceTrusted {
		return findings
	}
	refuse := func(i int, format string, args ...any) {
		findings[i] = append(findings[i], field.Forbidden(needs[i].Path, fmt.Sprintf(format, args...)))
	}
	if w.CrossNamespace != config.CrossNamespaceAdmitted {
		for i := range needs {
			refuse(i, "must be in namespace %s, since the operator has set crossNamespace: %s", obj.GetNamespace(), w.CrossNamespace)
		}
		return findings
	}
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		for i := range needs {
			refuse(i, "who writes this is not known, so access to another namespace is refused")
		}
		return findings
	}
	user := request.UserInfo
	answers := w.review(ctx, user, needs)
	for i, need := range needs {
		var denied, unknown []string
		for _, right := range need.Rights {
			switch err := answers[right]; {
			case err == nil:
			case apierrors.IsForbidden(err):
				denied = append(denied, right.String())
			default:
				unknown = append(unknown, fmt.Sprintf("%s (%v)", right, err))
			}
		}
		if len(denied) > 0 {
			refuse(i, "is in another namespace, where user %q must be allowed to: %s; ask for that right, or put the %s beside its target",
				user.Username, strings.Join(denied, ", "), kind)
		}
		if len(unknown) > 0 {
			refuse(i, "is in another namespace, and whether user %q is allowed to do this could not be found out, so it is refused: %s; try again",
				user.Username, strings.Join(unknown, ", "))
		}
	}
	return findings
}

// review asks for each right once. The answer is nil where it is held, a Forbidden error where it is not.
func (w Writers) review(ctx context.Context, user authenticationv1.UserInfo, needs []rights.Need) map[rights.Right]error {
	var all []rights.Right
	for _, need := range needs {
		for _, right := range need.Rights {
			if !slices.Contains(all, right) {
				all = append(all, right)
			}
		}
	}
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	results := make([]error, len(all))
	var group errgroup.Group
	group.SetLimit(reviewsAtATime)
	for i, right := range all {
		group.Go(func() error {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: user.Username, Groups: user.Groups, UID: user.UID, Extra: extra,
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: right.Namespace, Verb: right.Verb,
					Group: right.Group, Resource: right.Resource, Subresource: right.Subresource, Name: right.Name,
				},
			}}
			if err := w.Reviews.Create(ctx, review); err != nil {
				// An error of ours: that the manager may not ask is no answer about the writer.
				results[i] = fmt.Errorf("asking for a SubjectAccessReview: %s", err.Error())
			} else if !review.Status.Allowed {
				results[i] = apierrors.NewForbidden(schema.GroupResource{Group: right.Group, Resource: right.Resource}, right.Name, nil)
			}
			return nil
		})
	}
	_ = group.Wait() // The results hold the errors.
	answers := map[rights.Right]error{}
	for i, right := range all {
		answers[right] = results[i]
	}
	return answers
}

// refusal holds all findings about an object in the form in which the API server reports its own, nil for none.
func refusal(kind schema.GroupKind, name string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(kind, name, errs)
}
