package tidal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	autoscalingv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	elasticscalerv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
)

// firstSync is how long a pass waits for the first list of a kind.
const firstSync = 5 * time.Second

// errUnlisted says that the manager may not list ElasticScalers, or cannot now.
var errUnlisted = errors.New("listing ElasticScalers: there is no answer, or no right to")

// watches starts a watch for each kind that a Tidal refers to, when the first one does: which kinds there are is up to
// users, and the CRD of ElasticScalers may come later than this controller or never.
type watches struct {
	cache      cache.Cache
	controller controller.Controller
	reconciler *Reconciler

	mu    sync.Mutex
	kinds map[schema.GroupVersionKind]*watchedKind
}

type watchedKind struct {
	// informer is nil where the kind may not be listed; asked is when that was found.
	informer cache.Informer
	asked    time.Time
	// first is closed when the first list is there, or has not come in time.
	first chan struct{}
}

func newWatches(c cache.Cache, ctrl controller.Controller, r *Reconciler) *watches {
	return &watches{cache: c, controller: ctrl, reconciler: r, kinds: map[schema.GroupVersionKind]*watchedKind{}}
}

// ensureTarget sees to it that objects of a target's kind are watched, and reports whether the cache can answer for them.
func (w *watches) ensureTarget(ctx context.Context, target client.Object) (bool, error) {
	gvk := target.GetObjectKind().GroupVersionKind()
	toTidals := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
		return w.reconciler.requestsByIndex(ctx, indexTarget, targetKey(gvk.Group, gvk.Kind, obj.GetNamespace(), obj.GetName()))
	})
	return w.ensure(ctx, gvk, newTarget(gvk), nil, toTidals, targetChange)
}

// ensureScalers sees to it that ElasticScalers are watched, and reports whether there are any to read: not while their CRD
// is missing.
func (w *watches) ensureScalers(ctx context.Context) (bool, error) {
	gvk := elasticscalerv1alpha1.GroupVersion.WithKind("ElasticScaler")
	w.mu.Lock()
	_, known := w.kinds[gvk]
	w.mu.Unlock()
	if !known {
		if _, err := w.reconciler.Kinds.Find(gvk.GroupVersion().String(), gvk.Kind); err != nil {
			return false, ignoreKindNotFound(err)
		}
	}
	index := func(ctx context.Context) error {
		return w.cache.IndexField(ctx, &elasticscalerv1alpha1.ElasticScaler{}, indexTarget, scaledByElasticScaler)
	}
	toTidals := handler.EnqueueRequestsFromMapFunc(w.reconciler.requestsForScaler)
	synced, err := w.ensure(ctx, gvk, &elasticscalerv1alpha1.ElasticScaler{}, index, toTidals, predicate.GenerationChangedPredicate{})
	if err == nil && !synced {
		return false, errUnlisted
	}
	return synced, err
}

func (w *watches) ensure(ctx context.Context, gvk schema.GroupVersionKind, obj client.Object, index func(context.Context) error, h handler.EventHandler, p predicate.Predicate) (bool, error) {
	kind, err := w.start(ctx, gvk, obj, index, h, p)
	if err != nil {
		return false, err
	}
	select {
	case <-kind.first:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	return kind.informer != nil && kind.informer.HasSynced(), nil
}

func (w *watches) start(ctx context.Context, gvk schema.GroupVersionKind, obj client.Object, index func(context.Context) error, h handler.EventHandler, p predicate.Predicate) (*watchedKind, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.reconciler.Clock.Now()
	if kind, ok := w.kinds[gvk]; ok && (kind.informer != nil || now.Sub(kind.asked) < unwatchedRetry) {
		return kind, nil
	}
	// An informer of a kind that may not be listed never gets ready, and the manager with it.
	probe := &metav1.PartialObjectMetadataList{}
	probe.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err := w.reconciler.APIReader.List(ctx, probe, client.Limit(1)); apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err) {
		kind := &watchedKind{asked: now, first: make(chan struct{})}
		close(kind.first)
		w.kinds[gvk] = kind
		return kind, nil
	} else if err != nil {
		return nil, fmt.Errorf("listing %s: %w", gvk.Kind, err)
	}
	if index != nil {
		if err := index(ctx); err != nil {
			return nil, fmt.Errorf("indexing %s: %w", gvk.Kind, err)
		}
	}
	informer, err := w.cache.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", gvk.Kind, err)
	}
	if err := w.controller.Watch(&source.Informer{Informer: informer, Handler: h, Predicates: []predicate.Predicate{p}}); err != nil {
		return nil, fmt.Errorf("watching %s: %w", gvk.Kind, err)
	}
	kind := &watchedKind{informer: informer, first: make(chan struct{})}
	w.kinds[gvk] = kind
	go func() {
		defer close(kind.first)
		wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), firstSync)
		defer cancel()
		toolscache.WaitForCacheSync(wait.Done(), informer.HasSynced)
	}()
	return kind, nil
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
