package kube

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

const (
	// firstSync is how long a pass waits for the first list of a kind.
	firstSync = 5 * time.Second
	// unlistedRetry is when a kind that may not be listed is tried again: no watch reports that a right was given.
	unlistedRetry = time.Minute
)

// Watches starts a watch for each kind that objects refer to, when the first one does: which kinds there are is up to
// users, and a CRD may come later than the controller or never.
type Watches struct {
	cache      cache.Cache
	controller controller.Controller
	api        client.Reader
	clock      clock.PassiveClock
	namespaces []string

	// starting is held while a watch is started, which may take until the controller has.
	starting sync.Mutex

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

// Watch is a kind to watch and what its events lead to.
type Watch struct {
	// Object is empty and of the kind: typed, unstructured, or metadata only, as the cache is to hold it.
	Object client.Object
	// Kind of Object.
	Kind schema.GroupVersionKind
	// Index adds indexes to the cache, before the first list. Optional.
	Index func(context.Context) error
	// Handler turns events into requests.
	Handler handler.EventHandler
	// Predicates choose among the events. Optional.
	Predicates []predicate.Predicate
}

// NewWatches returns the watches of a controller. The reader asks the API server. The namespaces are those that the cache is
// limited to; none for all.
func NewWatches(c cache.Cache, ctrl controller.Controller, api client.Reader, clk clock.PassiveClock, namespaces []string) *Watches {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	return &Watches{cache: c, controller: ctrl, api: api, clock: clk, namespaces: namespaces, kinds: map[schema.GroupVersionKind]*watchedKind{}}
}

// LimitedTo is what limits a cache to namespaces; nil, which limits nothing, for none.
func LimitedTo(namespaces []string) map[string]cache.Config {
	if len(namespaces) == 0 {
		return nil
	}
	limits := map[string]cache.Config{}
	for _, name := range namespaces {
		limits[name] = cache.Config{}
	}
	return limits
}

// Known reports whether a watch of the kind was asked for before. It does not wait for one that is being started, so that
// handlers of events may ask.
func (w *Watches) Known(gvk schema.GroupVersionKind) bool { return w.kind(gvk) != nil }

func (w *Watches) kind(gvk schema.GroupVersionKind) *watchedKind {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.kinds[gvk]
}

func (w *Watches) keep(gvk schema.GroupVersionKind, kind *watchedKind) *watchedKind {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kinds[gvk] = kind
	return kind
}

// Ensure sees to it that the kind, which must be served, is watched, and reports whether the cache can answer for it: not
// where it may not be listed, or while the first list has not come. It waits some seconds for that list.
func (w *Watches) Ensure(ctx context.Context, watch Watch) (bool, error) {
	kind, err := w.start(ctx, watch)
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

func (w *Watches) start(ctx context.Context, watch Watch) (*watchedKind, error) {
	gvk, now := watch.Kind, w.clock.Now()
	standing := func() *watchedKind {
		if kind := w.kind(gvk); kind != nil && (kind.informer != nil || now.Sub(kind.asked) < unlistedRetry) {
			return kind
		}
		return nil
	}
	if kind := standing(); kind != nil {
		return kind, nil
	}
	w.starting.Lock()
	defer w.starting.Unlock()
	if kind := standing(); kind != nil {
		return kind, nil
	}
	// An informer of a kind that may not be listed never gets ready, and the manager with it.
	for _, namespace := range w.namespaces {
		probe := &metav1.PartialObjectMetadataList{}
		probe.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err := w.api.List(ctx, probe, client.InNamespace(namespace), client.Limit(1)); apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err) {
			kind := &watchedKind{asked: now, first: make(chan struct{})}
			close(kind.first)
			return w.keep(gvk, kind), nil
		} else if err != nil {
			return nil, fmt.Errorf("listing %s: %w", gvk.Kind, err)
		}
	}
	if watch.Index != nil {
		if err := watch.Index(ctx); err != nil {
			return nil, fmt.Errorf("indexing %s: %w", gvk.Kind, err)
		}
	}
	informer, err := w.cache.GetInformer(ctx, watch.Object, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", gvk.Kind, err)
	}
	if err := w.controller.Watch(&source.Informer{Informer: informer, Handler: watch.Handler, Predicates: watch.Predicates}); err != nil {
		return nil, fmt.Errorf("watching %s: %w", gvk.Kind, err)
	}
	kind := w.keep(gvk, &watchedKind{informer: informer, first: make(chan struct{})})
	go func() {
		defer close(kind.first)
		wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), firstSync)
		defer cancel()
		toolscache.WaitForCacheSync(wait.Done(), informer.HasSynced)
	}()
	return kind, nil
}
