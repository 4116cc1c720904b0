package resourcescalinggroup

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	elasticscalerv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	tidalv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/clone"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
)

// Resources of this product's other components, whose CRDs may come later or never.
var (
	elasticScalers = elasticscalerv1alpha1.GroupVersion.WithResource("elasticscalers").GroupResource()
	tidals         = tidalv1alpha1.GroupVersion.WithResource("tidals").GroupResource()
)

// newCRD returns an empty CustomResourceDefinition of which only the metadata is read.
func newCRD() *metav1.PartialObjectMetadata {
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	return crd
}

// watchCRD sees to it that objects of a kind that comes from a CRD are watched, and reports whether the cache can answer
// for them: not while the CRD is missing, nor where they may not be listed.
func (r *Reconciler) watchCRD(ctx context.Context, resource schema.GroupResource, watch kube.Watch) (served, readable bool, err error) {
	err = r.Client.Get(ctx, types.NamespacedName{Name: resource.String()}, newCRD())
	if apierrors.IsNotFound(err) {
		return false, false, nil
	}
	if err != nil {
		return false, false, fmt.Errorf("looking for CRD %s: %w", resource, err)
	}
	readable, err = r.watches.Ensure(ctx, watch)
	return true, readable, err
}

// watchKind does so for a kind of workload, and reports whether the cluster serves it. Kinds that every API server has are
// watched from the start.
func (r *Reconciler) watchKind(ctx context.Context, kind clone.Kind) (bool, error) {
	if kind.Builtin {
		return true, nil
	}
	obj := kube.NewWorkload(kind.GroupVersionKind)
	served, readable, err := r.watchCRD(ctx, kind.GroupResource(), kube.Watch{
		Object:     obj,
		Kind:       kind.GroupVersionKind,
		Index:      func(ctx context.Context) error { return r.indexer.IndexField(ctx, obj, indexOwner, byOwner) },
		Handler:    handler.EnqueueRequestsFromMapFunc(r.requestsForObject),
		Predicates: []predicate.Predicate{workloadChange},
	})
	if err == nil && served && !readable {
		return true, fmt.Errorf("listing %s: there is no answer, or no right to", kind.GroupVersionKind.Kind)
	}
	return served, err
}

// watchScalers does so for ElasticScalers, and reports whether there are any to read.
func (r *Reconciler) watchScalers(ctx context.Context) (bool, error) {
	return r.watchOurs(ctx, elasticScalers, &elasticscalerv1alpha1.ElasticScaler{}, elasticscalerv1alpha1.GroupVersion.WithKind("ElasticScaler"))
}

// watchTidals does so for Tidals, which can stand between an ElasticScaler and what it scales.
func (r *Reconciler) watchTidals(ctx context.Context) (bool, error) {
	return r.watchOurs(ctx, tidals, &tidalv1alpha1.Tidal{}, tidalv1alpha1.GroupVersion.WithKind("Tidal"))
}

func (r *Reconciler) watchOurs(ctx context.Context, resource schema.GroupResource, obj client.Object, gvk schema.GroupVersionKind) (bool, error) {
	_, readable, err := r.watchCRD(ctx, resource, kube.Watch{
		Object:     obj,
		Kind:       gvk,
		Index:      func(ctx context.Context) error { return r.indexer.IndexField(ctx, obj, indexScaler, scaledBy) },
		Handler:    handler.EnqueueRequestsFromMapFunc(r.requestsForScaler),
		Predicates: []predicate.Predicate{predicate.GenerationChangedPredicate{}},
	})
	return readable, err
}

// requestsForCRD maps a CRD to the ResourceScalingGroups that its kind matters to: those with a target of it and, where it is
// the CRD of those who may scale them, all.
func (r *Reconciler) requestsForCRD(ctx context.Context, crd client.Object) []reconcile.Request {
	if crd.GetName() == elasticScalers.String() || crd.GetName() == tidals.String() {
		return r.requestsForThose(ctx, func(clone.Kind) bool { return true })
	}
	return r.requestsForThose(ctx, func(kind clone.Kind) bool { return !kind.Builtin && kind.CRDName() == crd.GetName() })
}

// requestsForThose lists the ResourceScalingGroups with a target of such a kind.
func (r *Reconciler) requestsForThose(ctx context.Context, such func(clone.Kind) bool) []reconcile.Request {
	var list v1alpha1.ResourceScalingGroupList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		for _, t := range list.Items[i].Spec.TargetResources {
			if ref, err := clone.Resolve(t.ResourceRef); err == nil && such(ref.Kind) {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
				break
			}
		}
	}
	return requests
}
