package elasticscaler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	autoscalingv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
)

// +kubebuilder:rbac:groups=elasticscaler.io,resources=elasticscalers,verbs=get;list;watch
// +kubebuilder:rbac:groups=elasticscaler.io,resources=elasticscalers/status,verbs=update
// +kubebuilder:rbac:groups=tidal.io,resources=tidals,verbs=get;list;watch
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=autoscaling.openfuyao.com,resources=resourcescalinggroups,verbs=get;list;watch
// +kubebuilder:rbac:groups=autoscaling.openfuyao.com,resources=resourcescalinggroups/scale,verbs=get;update
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets;replicasets,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=deployments/scale;statefulsets/scale,verbs=get;update
// +kubebuilder:rbac:groups=leaderworkerset.x-k8s.io,resources=leaderworkersets,verbs=get;list;watch
// +kubebuilder:rbac:groups=leaderworkerset.x-k8s.io,resources=leaderworkersets/scale,verbs=get;update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
// +kubebuilder:rbac:groups=metrics.k8s.io,resources=pods,verbs=get;list
// +kubebuilder:rbac:groups=custom.metrics.k8s.io,resources=*,verbs=get;list
// +kubebuilder:rbac:groups=external.metrics.k8s.io,resources=*,verbs=get;list
// +kubebuilder:rbac:groups=apiregistration.k8s.io,resources=apiservices,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Index keys of the cache.
const (
	// indexTarget finds ElasticScalers and HPAs by the object that they name.
	indexTarget = "elasticscaler.target"
	// indexScaler finds sources by the ElasticScaler that their labels name.
	indexScaler = "elasticscaler.scaler"
	// indexGroup finds pods by the ResourceScalingGroup in their labels.
	indexGroup = "elasticscaler.group"
	// indexKeeper finds ResourceScalingGroups by the workloads whose counts they keep.
	indexKeeper = "elasticscaler.keeper"
)

const (
	// firstRetry and lastRetry bound the delay of the next try after a failure.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 10 * time.Second
)

// CacheOptions limits what the cache of this controller holds.
func CacheOptions() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&corev1.Pod{}:                            {Transform: kube.StripPod},
		&autoscalingv2.HorizontalPodAutoscaler{}: {Transform: kube.StripHPA},
	}
}

func namedTarget(scaler *v1alpha1.ElasticScaler) string {
	ref := scaler.Spec.TargetRef
	return kube.TargetKey(ref.APIVersion, ref.Kind, cmp.Or(ref.Namespace, scaler.Namespace), ref.Name)
}

func targetOfHPA(obj client.Object) []string {
	return []string{kube.HPATarget(obj.(*autoscalingv2.HorizontalPodAutoscaler))}
}

func groupOfPod(obj client.Object) []string {
	l := obj.GetLabels()
	if l[autoscalingv1alpha1.LabelName] == "" {
		return nil
	}
	return []string{l[autoscalingv1alpha1.LabelNamespace] + "/" + l[autoscalingv1alpha1.LabelName]}
}

// SetupWithManager adds the controller, its indexes and its watches to the manager, whose cache must have the indexes of
// kube.IndexOwners.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	for _, index := range []struct {
		obj   client.Object
		key   string
		value client.IndexerFunc
	}{
		{&v1alpha1.ElasticScaler{}, indexTarget, func(obj client.Object) []string { return []string{namedTarget(obj.(*v1alpha1.ElasticScaler))} }},
		{&autoscalingv2.HorizontalPodAutoscaler{}, indexTarget, targetOfHPA},
		{&corev1.Pod{}, indexGroup, groupOfPod},
	} {
		if err := mgr.GetFieldIndexer().IndexField(ctx, index.obj, index.key, index.value); err != nil {
			return fmt.Errorf("indexing for controller %s: %w", Component, err)
		}
	}
	c, err := ctrl.NewControllerManagedBy(mgr).
		Named(Component).
		For(&v1alpha1.ElasticScaler{}, builder.WithPredicates(scalerChange)).
		Watches(&v1alpha1.ElasticScaler{}, handler.EnqueueRequestsFromMapFunc(r.requestsForSiblings), builder.WithPredicates(scalerChange)).
		Watches(&autoscalingv2.HorizontalPodAutoscaler{}, handler.EnqueueRequestsFromMapFunc(r.requestsForHPA)).
		WatchesRawSource(source.Func(r.Sampler.Start)).
		WatchesRawSource(r.Listeners.Source()).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: r.Concurrency,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		}).
		Build(r)
	if err != nil {
		return fmt.Errorf("setting up controller %s: %w", Component, err)
	}
	r.cache = mgr.GetCache()
	r.watches = kube.NewWatches(mgr.GetCache(), c, r.APIReader, r.Clock, r.Namespaces)
	if r.sources, err = newSources(mgr, c, r); err != nil {
		return fmt.Errorf("setting up controller %s: %w", Component, err)
	}
	for _, runnable := range []manager.Runnable{r.sources.cache, r.sources, r.Listeners} {
		if err := mgr.Add(runnable); err != nil {
			return fmt.Errorf("setting up controller %s: %w", Component, err)
		}
	}
	return nil
}

// scalerChange lets through what decisions read of an ElasticScaler. Of its status this is the last signal, which another
// replica of the manager may have recorded.
var scalerChange = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*v1alpha1.ElasticScaler), e.ObjectNew.(*v1alpha1.ElasticScaler)
	return before.Generation != after.Generation ||
		before.UID != after.UID ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
		!maps.Equal(before.Annotations, after.Annotations) ||
		!sameSignal(before.Status.LastSignal, after.Status.LastSignal)
}}

// requestsForSiblings maps an ElasticScaler to the others of its target: when it goes, or leaves the target, another may
// take over.
func (r *Reconciler) requestsForSiblings(ctx context.Context, obj client.Object) []reconcile.Request {
	own := client.ObjectKeyFromObject(obj)
	var others []reconcile.Request
	for _, request := range r.requestsForTarget(ctx, r.effectiveTargetKey(ctx, obj.(*v1alpha1.ElasticScaler))) {
		if request.NamespacedName != own {
			others = append(others, request)
		}
	}
	return others
}

// requestsForHPA maps an HPA to its ElasticScaler, to one that wants its name, and to those of its target.
func (r *Reconciler) requestsForHPA(ctx context.Context, obj client.Object) []reconcile.Request {
	return append(r.requestsForTarget(ctx, targetOfHPA(obj)[0]), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
}

// requestsForTarget finds the ElasticScalers that scale an object, by its TargetKey: those that name it, and those that
// name a Tidal which does.
func (r *Reconciler) requestsForTarget(ctx context.Context, target string) []reconcile.Request {
	keys := []string{target, kube.WithoutGroup(target)}
	for _, tidal := range r.sources.tidalsOf(ctx, target) {
		keys = append(keys, tidal, kube.WithoutGroup(tidal))
	}
	seen := map[types.NamespacedName]bool{}
	var requests []reconcile.Request
	for _, key := range keys {
		var list v1alpha1.ElasticScalerList
		if err := r.Client.List(ctx, &list, client.MatchingFields{indexTarget: key}, client.UnsafeDisableDeepCopy); err != nil {
			return requests
		}
		for i := range list.Items {
			name := types.NamespacedName{Namespace: list.Items[i].Namespace, Name: list.Items[i].Name}
			if !seen[name] {
				seen[name] = true
				requests = append(requests, reconcile.Request{NamespacedName: name})
			}
		}
	}
	return requests
}

func ignoreKindNotFound(err error) error {
	if errors.Is(err, kube.ErrKindNotFound) {
		return nil
	}
	return err
}
