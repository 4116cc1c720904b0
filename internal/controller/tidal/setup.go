package tidal

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	elasticscalerv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/alarm"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/scalerspec"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/tides"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
)

// +kubebuilder:rbac:groups=tidal.io,resources=tidals,verbs=get;list;watch
// +kubebuilder:rbac:groups=tidal.io,resources=tidals/status,verbs=update
// +kubebuilder:rbac:groups=elasticscaler.io,resources=elasticscalers,verbs=get;list;watch
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=get;list;watch
// +kubebuilder:rbac:groups=autoscaling.openfuyao.com,resources=resourcescalinggroups,verbs=get;list;watch
// +kubebuilder:rbac:groups=autoscaling.openfuyao.com,resources=resourcescalinggroups/scale,verbs=get;update
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=deployments/scale;statefulsets/scale,verbs=get;update
// +kubebuilder:rbac:groups=leaderworkerset.x-k8s.io,resources=leaderworkersets,verbs=get;list;watch
// +kubebuilder:rbac:groups=leaderworkerset.x-k8s.io,resources=leaderworkersets/scale,verbs=get;update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Index keys of the cache.
const (
	// indexTarget finds Tidals, HPAs and ElasticScalers by the object that they scale.
	indexTarget = "tidal.target"
	// indexScaler finds Tidals by the ElasticScaler that they are bound to.
	indexScaler = "tidal.scaler"
)

const (
	// firstRetry and lastRetry bound the delay of the next try after a failure. The last one is short, since a firing that
	// fell into an outage of the API server is to be caught up with soon after it.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 10 * time.Second
)

func targetOf(tidal *v1alpha1.Tidal) string {
	ref := tidal.Spec.TargetRef
	return kube.TargetKey(ref.APIVersion, ref.Kind, ref.Namespace, ref.Name)
}

func scaledByHPA(obj client.Object) []string {
	return []string{kube.HPATarget(obj.(*autoscalingv2.HorizontalPodAutoscaler))}
}

func scaledByElasticScaler(obj client.Object) []string {
	ref := obj.(*elasticscalerv1alpha1.ElasticScaler).Spec.TargetRef
	return []string{kube.TargetKey(ref.APIVersion, ref.Kind, cmp.Or(ref.Namespace, obj.GetNamespace()), ref.Name)}
}

func boundTo(obj client.Object) []string {
	if tidal := obj.(*v1alpha1.Tidal); tides.Bound(tidal) {
		key, _ := tides.Scaler(tidal)
		return []string{key.String()}
	}
	return nil
}

// SetupWithManager adds the controller, its indexes and its watches to the manager.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	indexer := mgr.GetFieldIndexer()
	for _, index := range []struct {
		obj   client.Object
		key   string
		value client.IndexerFunc
	}{
		{&v1alpha1.Tidal{}, indexTarget, func(obj client.Object) []string { return []string{targetOf(obj.(*v1alpha1.Tidal))} }},
		{&v1alpha1.Tidal{}, indexScaler, boundTo},
		{&autoscalingv2.HorizontalPodAutoscaler{}, indexTarget, scaledByHPA},
	} {
		if err := indexer.IndexField(ctx, index.obj, index.key, index.value); err != nil {
			return fmt.Errorf("indexing for controller %s: %w", Component, err)
		}
	}
	r.alarm = alarm.New(r.Clock, r.Telemetry.SetNext)
	c, err := ctrl.NewControllerManagedBy(mgr).
		Named(Component).
		For(&v1alpha1.Tidal{}, builder.WithPredicates(tidalChange)).
		Watches(&v1alpha1.Tidal{}, handler.EnqueueRequestsFromMapFunc(r.requestsForSiblings), builder.WithPredicates(tidalChange)).
		Watches(&autoscalingv2.HorizontalPodAutoscaler{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
			return r.requestsByIndex(ctx, indexTarget, scaledByHPA(obj)...)
		}), builder.WithPredicates(kube.HPAChange)).
		WatchesRawSource(source.Func(r.alarm.Start)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: r.Concurrency,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		}).
		Build(r)
	if err != nil {
		return fmt.Errorf("setting up controller %s: %w", Component, err)
	}
	r.watches = newWatches(mgr.GetCache(), c, r)
	return nil
}

// requestsForSiblings maps a Tidal to the others of its target: when it goes, or leaves the target, another may take over.
func (r *Reconciler) requestsForSiblings(ctx context.Context, obj client.Object) []reconcile.Request {
	requests := r.requestsByIndex(ctx, indexTarget, targetOf(obj.(*v1alpha1.Tidal)))
	own := client.ObjectKeyFromObject(obj)
	others := requests[:0]
	for _, request := range requests {
		if request.NamespacedName != own {
			others = append(others, request)
		}
	}
	return others
}

func (r *Reconciler) requestsForScaler(ctx context.Context, obj client.Object) []reconcile.Request {
	requests := r.requestsByIndex(ctx, indexScaler, client.ObjectKeyFromObject(obj).String())
	scaler := obj.(*elasticscalerv1alpha1.ElasticScaler)
	if scalerspec.NamesTidal(scaler.Spec) {
		return append(requests, r.requestsForDriven(ctx, scaler)...)
	}
	if scaler.Spec.TargetRef.APIVersion != "" {
		return append(requests, r.requestsByIndex(ctx, indexTarget, scaledByElasticScaler(obj)...)...)
	}
	// Without an apiVersion the reference fits targets of every group.
	var list v1alpha1.TidalList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return requests
	}
	for i := range list.Items {
		if kube.WithoutGroup(targetOf(&list.Items[i])) == scaledByElasticScaler(obj)[0] {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// requestsForDriven maps an ElasticScaler that names a Tidal to the Tidals of what it scales, which is the target of that one.
func (r *Reconciler) requestsForDriven(ctx context.Context, scaler *elasticscalerv1alpha1.ElasticScaler) []reconcile.Request {
	var tidal v1alpha1.Tidal
	key := types.NamespacedName{Namespace: cmp.Or(scaler.Spec.TargetRef.Namespace, scaler.Namespace), Name: scaler.Spec.TargetRef.Name}
	if err := r.Client.Get(ctx, key, &tidal); err != nil {
		return nil // When it comes, it is an event for the others of its target.
	}
	return r.requestsByIndex(ctx, indexTarget, targetOf(&tidal))
}

func (r *Reconciler) requestsByIndex(ctx context.Context, index string, keys ...string) []reconcile.Request {
	var requests []reconcile.Request
	for _, key := range keys {
		var list v1alpha1.TidalList
		if err := r.Client.List(ctx, &list, client.MatchingFields{index: key}, client.UnsafeDisableDeepCopy); err != nil {
			return nil
		}
		for i := range list.Items {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: list.Items[i].Namespace, Name: list.Items[i].Name}})
		}
	}
	return requests
}

// tidalChange lets through what decisions read of a Tidal; its status is written by this controller alone.
var tidalChange = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
		e.ObjectOld.GetUID() != e.ObjectNew.GetUID() ||
		(e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil) ||
		!maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels())
}}
