// Package kube is the one wrapper around the API server: how this product writes counts and marks, and how it finds
// objects in the cache.
package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FieldOwner is the field manager of every write of a component.
func FieldOwner(component string) client.FieldOwner {
	return client.FieldOwner("pd-orchestrator/" + component)
}

// Scale sets the replica count of an object through its scale subresource. The object is the one the count was decided
// from: when it has changed since, the write fails with a conflict and nothing is overwritten unseen.
func Scale(ctx context.Context, c client.Client, obj client.Object, replicas int32) error {
	scale := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       obj.GetNamespace(),
			Name:            obj.GetName(),
			UID:             obj.GetUID(),
			ResourceVersion: obj.GetResourceVersion(),
		},
		Spec: autoscalingv1.ScaleSpec{Replicas: replicas},
	}
	if err := c.SubResource("scale").Update(ctx, obj, client.WithSubResourceBody(scale)); err != nil {
		return fmt.Errorf("update scale failed: setting %s to %d replicas: %w", Describe(obj), replicas, err)
	}
	return nil
}

// NamespaceTerminating reports whether all that went wrong is that nothing can be created in a namespace any more, since it is
// being deleted. What asked for it goes too.
func NamespaceTerminating(err error) bool {
	if err == nil {
		return false
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(joined.Unwrap(), func(err error) bool { return !NamespaceTerminating(err) })
	}
	if inner := errors.Unwrap(err); inner != nil {
		return NamespaceTerminating(inner)
	}
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// Refused reports whether the API server, or a webhook that it asks, says that what was written is wrong: trying the same again at
// once would give the same answer.
func Refused(err error) bool {
	// An object with a field that this version of the API server does not have yet; the answer has no reason of its own.
	undeclared := err != nil && strings.Contains(err.Error(), "field not declared in schema")
	return (undeclared || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err)) && !NamespaceTerminating(err)
}

// Marks are labels and annotations to set on an object; a nil value takes one off.
type Marks struct {
	Labels, Annotations map[string]*string
	// Unchanged sets them only while the object is of the version that was read; otherwise the error is a Conflict.
	Unchanged bool
}

// Mark sets labels and annotations, and nothing else, on exactly this object: one of the same name that has come since
// is not touched.
func Mark(ctx context.Context, c client.Client, obj client.Object, marks Marks) error {
	meta := map[string]any{"uid": obj.GetUID()}
	if marks.Unchanged {
		meta["resourceVersion"] = obj.GetResourceVersion()
	}
	if len(marks.Labels) > 0 {
		meta["labels"] = marks.Labels
	}
	if len(marks.Annotations) > 0 {
		meta["annotations"] = marks.Annotations
	}
	patch, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		return fmt.Errorf("encoding the patch of %s: %w", Describe(obj), err)
	}
	target := obj.DeepCopyObject().(client.Object)
	if err := c.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("marking %s: %w", Describe(obj), err)
	}
	// What was read stands for later writes of the same pass only with its new version.
	obj.SetResourceVersion(target.GetResourceVersion())
	return nil
}

// Delete deletes exactly this object, in the foreground, so that it stays visible until what it owns is gone. One that
// is gone already is no error.
func Delete(ctx context.Context, c client.Client, obj client.Object) error {
	uid := obj.GetUID()
	err := c.Delete(ctx, obj, client.PropagationPolicy(metav1.DeletePropagationForeground), client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s: %w", Describe(obj), err)
	}
	return nil
}

// Describe names an object for a message: its kind, namespace and name.
func Describe(obj client.Object) string {
	kind := obj.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		kind = "object"
	}
	return fmt.Sprintf("%s %s/%s", kind, obj.GetNamespace(), obj.GetName())
}
