package resourcescalinggroup

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/clone"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
)

// newCRD returns an empty CustomResourceDefinition of which only the metadata is read.
func newCRD() *metav1.PartialObjectMetadata {
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	return crd
}

// kindWatches starts to watch a kind that comes from a CRD when it is first needed and served. Kinds that every API
// server has are watched from the start.
type kindWatches struct {
	mgr        manager.Manager
	controller controller.Controller
	handler    handler.MapFunc

	mu      sync.Mutex
	started map[schema.GroupKind]bool
}

// ensure reports whether objects of the kind can be read, and sees to it that they are watched if so.
func (k *kindWatches) ensure(ctx context.Context, kind clone.Kind) (bool, error) {
	if kind.Builtin {
		return true, nil
	}
	crd := newCRD()
	err := k.mgr.GetClient().Get(ctx, types.NamespacedName{Name: kind.CRDName()}, crd)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for CRD %s: %w", kind.CRDName(), err)
	}

	k.mu.Lock()
	defer k.mu.Unlock()
	gk := kind.GroupKind()
	if k.started[gk] {
		return true, nil
	}
	if _, err := k.mgr.GetRESTMapper().RESTMapping(gk, kind.Version); err != nil {
		if meta.IsNoMatchError(err) {
			return false, fmt.Errorf("CRD %s exists and %s is not served yet", kind.CRDName(), kind.GroupVersionKind)
		}
		return false, fmt.Errorf("looking for %s: %w", kind.GroupVersionKind, err)
	}
	obj := kube.NewWorkload(kind.GroupVersionKind)
	if err := k.mgr.GetFieldIndexer().IndexField(ctx, obj, indexOwner, byOwner); err != nil {
		return false, fmt.Errorf("indexing %s: %w", kind.GroupVersionKind.Kind, err)
	}
	var object client.Object = obj
	if err := k.controller.Watch(source.Kind(k.mgr.GetCache(), object, handler.EnqueueRequestsFromMapFunc(k.handler), workloadChange)); err != nil {
		return false, fmt.Errorf("watching %s: %w", kind.GroupVersionKind.Kind, err)
	}
	k.started[gk] = true
	return true, nil
}

// requestsForCRD maps the CRD of a kind to the ResourceScalingGroups with a target of that kind.
func (r *Reconciler) requestsForCRD(ctx context.Context, crd client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, kind := range clone.Kinds() {
		if kind.Builtin || kind.CRDName() != crd.GetName() {
			continue
		}
		var list v1alpha1.ResourceScalingGroupList
		if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			return nil
		}
		for i := range list.Items {
			for _, t := range list.Items[i].Spec.TargetResources {
				if ref, err := clone.Resolve(t.ResourceRef); err == nil && ref.Kind.GroupKind() == kind.GroupKind() {
					requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
					break
				}
			}
		}
	}
	return requests
}
