package admission

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/config"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/rights"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
)

// Targets looks at what objects of ours are to scale through the scale subresource. All fields must be set.
type Targets struct {
	// Kinds finds the kinds of targets.
	Kinds *kube.Kinds
	// API reads ResourceScalingGroups from the API server.
	API client.Reader
	// Scales reads scale subresources.
	Scales client.Client
	// Writers says who may name targets in other namespaces.
	Writers Writers
}

// target is a reference to an object that is to be scaled.
type target struct {
	apiVersion, kind, namespace, name string
	// path of the reference.
	path *field.Path
	// handled tells that the kind needs no scale subresource, since the manager has a handler for it.
	handled bool
}

// examine returns what speaks against a target of an object and what is worth a warning. kind is that of the object. A
// target that stood in the object before is not refused again for what has become wrong around it, since that must not
// stop other changes; but at every change its writer answers for it.
func (v Targets) examine(ctx context.Context, obj client.Object, kind string, t target, known bool) (field.ErrorList, []string) {
	found, err := v.Kinds.Find(t.apiVersion, t.kind)
	served := err == nil
	if err != nil && !errors.Is(err, kube.ErrKindNotFound) {
		unread := field.InternalError(t.path, fmt.Errorf("looking for the kind of the target, try again: %w", err))
		if known && t.namespace == obj.GetNamespace() {
			return nil, []string{unread.Error()}
		}
		return field.ErrorList{unread}, nil
	}
	var unfit *field.Error
	if served && !t.handled && (!found.Scalable || !found.Namespaced) {
		unfit = field.Invalid(t.path.Child("kind"), t.kind, fmt.Sprintf(
			"must be a kind with a scale subresource, such as Deployment, StatefulSet or ResourceScalingGroup; %s has none, so its count cannot be set", found.Kind))
	}
	if unfit == nil || known {
		if refused := v.access(ctx, obj, kind, t, found, served); len(refused) > 0 {
			// Of a target that the writer has no access to, nothing may be told, not even that it exists.
			return refused, nil
		}
	}
	if !served {
		return nil, []string{fmt.Sprintf("%s: the API server serves no kind %s in %s, so nothing is scaled until its CRD is installed; or correct the reference", t.path, t.kind, t.apiVersion)}
	}
	warning := ""
	if unfit == nil && !t.handled {
		warning, unfit = v.look(ctx, t, found)
	}
	switch {
	case unfit != nil && known:
		return nil, []string{unfit.Error()}
	case unfit != nil:
		return field.ErrorList{unfit}, nil
	case warning != "":
		return nil, []string{fmt.Sprintf("%s: %s", t.path, warning)}
	}
	return nil, nil
}

func (v Targets) access(ctx context.Context, obj client.Object, kind string, t target, found kube.Kind, served bool) field.ErrorList {
	if t.namespace == obj.GetNamespace() {
		return nil
	}
	if !served && v.Writers.CrossNamespace == config.CrossNamespaceAdmitted {
		return field.ErrorList{field.Forbidden(t.path, fmt.Sprintf("is in another namespace, and the API server serves no kind %s in %s, so nobody can say who may scale it: "+
			"correct the reference, or install the CRD of the kind first", t.kind, t.apiVersion))}
	}
	right := rights.Scale(schema.GroupResource{Group: found.Group, Resource: found.Resource}, t.namespace, t.name)
	if !found.Scalable {
		right.Subresource = "" // Its count is set by writing the object itself.
	}
	return v.Writers.refusals(ctx, obj, kind, []rights.Need{{Path: t.path, Rights: []rights.Right{right}}})[0]
}

// look says whether a target of a kind that can be scaled is there and can.
func (v Targets) look(ctx context.Context, t target, kind kube.Kind) (warning string, unfit *field.Error) {
	name := fmt.Sprintf("%s %s/%s", kind.Kind, t.namespace, t.name)
	var err error
	if kind.Group == v1alpha1.GroupVersion.Group && kind.Kind == rsgKind.Kind {
		rsg := &v1alpha1.ResourceScalingGroup{}
		err = v.API.Get(ctx, client.ObjectKey{Namespace: t.namespace, Name: t.name}, rsg)
		if strategy := rsg.Spec.ScalingStrategy.Type; err == nil && strategy != v1alpha1.GroupReplication {
			return "", field.Invalid(t.path, name, fmt.Sprintf("is of type %s and has no group count to scale: target the workload of its leader instead, or a ResourceScalingGroup of type %s",
				strategy, v1alpha1.GroupReplication))
		}
	} else {
		address := kube.NewWorkload(kind.GroupVersionKind)
		address.SetNamespace(t.namespace)
		address.SetName(t.name)
		_, err = kube.ReadScale(ctx, v.Scales, address)
	}
	switch {
	case err == nil:
		return "", nil
	case apierrors.IsNotFound(err):
		return name + " does not exist yet, so nothing is scaled until it does; or correct the reference", nil
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("%v: nothing is scaled until the ServiceAccount of the manager has the verbs get and update on the scale of the kind", err), nil
	}
	return "", field.InternalError(t.path, fmt.Errorf("looking at %s, try again: %w", name, err))
}
