package tidal

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	autoscalingv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	elasticscalerv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
)

// errUnlisted says that the manager may not list ElasticScalers, or cannot now.
var errUnlisted = errors.New("listing ElasticScalers: there is no answer, or no right to")

// watches are those of the kinds that Tidals refer to.
type watches struct {
	*kube.Watches
	cache      cache.Cache
	reconciler *Reconciler
}

func newWatches(c cache.Cache, ctrl controller.Controller, r *Reconciler) *watches {
	return &watches{Watches: kube.NewWatches(c, ctrl, r.APIReader, r.Clock, r.Namespaces), cache: c, reconciler: r}
}

// ensureTarget sees to it that objects of a target's kind are watched, and reports whether the cache can answer for them.
func (w *watches) ensureTarget(ctx context.Context, target client.Object) (bool, error) {
	gvk := target.GetObjectKind().GroupVersionKind()
	return w.Ensure(ctx, kube.Watch{
		Object: newTarget(gvk),
		Kind:   gvk,
		Handler: handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
			return w.reconciler.requestsByIndex(ctx, indexTarget, kube.TargetKey(gvk.GroupVersion().String(), gvk.Kind, obj.GetNamespace(), obj.GetName()))
		}),
		Predicates: []predicate.Predicate{targetChange},
	})
}

// ensureScalers sees to it that ElasticScalers are watched, and reports whether there are any to read: not while their CRD
// is missing.
func (w *watches) ensureScalers(ctx context.Context) (bool, error) {
	gvk := elasticscalerv1alpha1.GroupVersion.WithKind("ElasticScaler")
	if !w.Known(gvk) {
		if _, err := w.reconciler.Kinds.Find(gvk.GroupVersion().String(), gvk.Kind); err != nil {
			return false, ignoreKindNotFound(err)
		}
	}
	synced, err := w.Ensure(ctx, kube.Watch{
		Object: &elasticscalerv1alpha1.ElasticScaler{},
		Kind:   gvk,
		Index: func(ctx context.Context) error {
			return w.cache.IndexField(ctx, &elasticscalerv1alpha1.ElasticScaler{}, indexTarget, scaledByElasticScaler)
		},
		Handler:    handler.EnqueueRequestsFromMapFunc(w.reconciler.requestsForScaler),
		Predicates: []predicate.Predicate{predicate.GenerationChangedPredicate{}},
	})
	if err == nil && !synced {
		return false, errUnlisted
	}
	return synced, err
}

// targetChange lets through that a target came, went or was made anew, and that a ResourceScalingGroup has another
// strategy. Its count and the rest of it are no business of a Tidal between firings.
var targetChange = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	if e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
		return true
	}
	before, ok1 := e.ObjectOld.(*autoscalingv1alpha1.ResourceScalingGroup)
	after, ok2 := e.ObjectNew.(*autoscalingv1alpha1.ResourceScalingGroup)
	return ok1 && ok2 && before.Spec.ScalingStrategy.Type != after.Spec.ScalingStrategy.Type
}}

func ignoreKindNotFound(err error) error {
	if errors.Is(err, kube.ErrKindNotFound) {
		return nil
	}
	return err
}
