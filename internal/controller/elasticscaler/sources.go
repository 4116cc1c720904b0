package elasticscaler

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	tidalv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/state"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
)

// kindRetry is how often a kind of sources that is not served is looked for: its CRD may come later.
const kindRetry = 5 * time.Second

var tidalKind = tidalv1alpha1.GroupVersion.WithKind("Tidal")

// sources are the objects that drive StateTriggers. They have a cache of their own, which holds those that name a scaler
// and no others.
type sources struct {
	cache      cache.Cache
	watches    *kube.Watches
	kinds      []schema.GroupVersionKind
	reconciler *Reconciler
	// looked is closed once every kind that was served at the start is watched.
	looked chan struct{}
}

func newSources(mgr ctrl.Manager, c controller.Controller, r *Reconciler) (*sources, error) {
	named, err := labels.NewRequirement(v1alpha1.LabelScalerName, selection.Exists, nil)
	if err != nil {
		return nil, err
	}
	held, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient:           mgr.GetHTTPClient(),
		Scheme:               mgr.GetScheme(),
		Mapper:               mgr.GetRESTMapper(),
		DefaultNamespaces:    kube.LimitedTo(r.Namespaces),
		DefaultLabelSelector: labels.NewSelector().Add(*named),
		DefaultTransform:     kube.StripManagedFields,
	})
	if err != nil {
		return nil, fmt.Errorf("making the cache of sources: %w", err)
	}
	return &sources{
		cache:      held,
		watches:    kube.NewWatches(held, c, r.APIReader, r.Clock, r.Namespaces),
		kinds:      append([]schema.GroupVersionKind{tidalKind}, r.StateSources...),
		reconciler: r,
		looked:     make(chan struct{}),
	}, nil
}

// Start watches each kind of sources from when it is served, until the context ends.
func (s *sources) Start(ctx context.Context) error {
	missing := s.watch(ctx, s.kinds)
	close(s.looked)
	for {
		if len(missing) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.reconciler.Clock.After(kindRetry):
		}
		missing = s.watch(ctx, missing)
	}
}

// watch starts the watches of those kinds that are served, and returns the others.
func (s *sources) watch(ctx context.Context, kinds []schema.GroupVersionKind) []schema.GroupVersionKind {
	var missing []schema.GroupVersionKind
	for _, gvk := range kinds {
		_, err := s.reconciler.Kinds.Find(gvk.GroupVersion().String(), gvk.Kind)
		if err == nil {
			var watched bool
			watched, err = s.watches.Ensure(ctx, kube.Watch{
				Object:  kube.NewWorkload(gvk),
				Kind:    gvk,
				Index:   func(ctx context.Context) error { return s.index(ctx, gvk) },
				Handler: handler.EnqueueRequestsFromMapFunc(s.requests),
			})
			if watched {
				continue
			}
		}
		if ignoreKindNotFound(err) != nil {
			log.FromContext(ctx).Error(err, "Cannot watch sources", "kind", gvk)
		}
		missing = append(missing, gvk)
	}
	return missing
}

func (s *sources) index(ctx context.Context, gvk schema.GroupVersionKind) error {
	if err := s.cache.IndexField(ctx, kube.NewWorkload(gvk), indexScaler, scalerOf); err != nil {
		return err
	}
	if gvk != tidalKind {
		return nil
	}
	return s.cache.IndexField(ctx, kube.NewWorkload(gvk), indexTarget, targetOfTidal)
}

func scalerOf(obj client.Object) []string {
	l := obj.GetLabels()
	if l[v1alpha1.LabelScalerName] == "" || l[v1alpha1.LabelScalerNamespace] == "" {
		return nil
	}
	return []string{l[v1alpha1.LabelScalerNamespace] + "/" + l[v1alpha1.LabelScalerName]}
}

func targetOfTidal(obj client.Object) []string {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	ref := tidalTarget(u)
	return []string{kube.TargetKey(ref.APIVersion, ref.Kind, ref.Namespace, ref.Name)}
}

func tidalTarget(u *unstructured.Unstructured) v1alpha1.TargetReference {
	field := func(name string) string {
		s, _, _ := unstructured.NestedString(u.Object, "spec", "targetRef", name)
		return s
	}
	return v1alpha1.TargetReference{APIVersion: field("apiVersion"), Kind: field("kind"), Namespace: field("namespace"), Name: field("name")}
}

// requests maps a source to its scaler.
func (s *sources) requests(_ context.Context, obj client.Object) []reconcile.Request {
	l := obj.GetLabels()
	key := types.NamespacedName{Namespace: l[v1alpha1.LabelScalerNamespace], Name: l[v1alpha1.LabelScalerName]}
	if key.Name == "" || key.Namespace == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: key}}
}

// of returns the sources that name the scaler.
func (s *sources) of(ctx context.Context, scaler *v1alpha1.ElasticScaler) ([]state.Source, error) {
	select {
	case <-s.looked:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var found []state.Source
	for _, gvk := range s.kinds {
		if !s.watches.Known(gvk) {
			continue
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		err := s.cache.List(ctx, list, client.MatchingFields{indexScaler: client.ObjectKeyFromObject(scaler).String()})
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", gvk.Kind, err)
		}
		for _, u := range list.Items {
			if u.GetDeletionTimestamp() != nil {
				continue
			}
			count, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status", "desiredReplicas")
			found = append(found, state.Source{Kind: gvk.Kind, Namespace: u.GetNamespace(), Name: u.GetName(), Count: count})
		}
	}
	return found, nil
}

// tidal returns the target of a Tidal that is a source.
func (s *sources) tidal(ctx context.Context, key types.NamespacedName) (*v1alpha1.TargetReference, error) {
	if !s.watches.Known(tidalKind) {
		return nil, nil
	}
	u := kube.NewWorkload(tidalKind)
	if err := s.cache.Get(ctx, key, u); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if u.GetDeletionTimestamp() != nil {
		return nil, nil
	}
	ref := tidalTarget(u)
	return &ref, nil
}

// tidalsOf returns the TargetKeys of the Tidals that are sources and have the target.
func (s *sources) tidalsOf(ctx context.Context, target string) []string {
	if !s.watches.Known(tidalKind) {
		return nil
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(tidalKind.GroupVersion().WithKind("TidalList"))
	if err := s.cache.List(ctx, list, client.MatchingFields{indexTarget: target}); err != nil {
		return nil
	}
	var keys []string
	for _, u := range list.Items {
		keys = append(keys, kube.TargetKey(tidalv1alpha1.GroupVersion.String(), tidalKind.Kind, u.GetNamespace(), u.GetName()))
	}
	return keys
}
