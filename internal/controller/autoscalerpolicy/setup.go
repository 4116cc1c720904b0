package autoscalerpolicy

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyresolve"
	"github.com/pd-orchestrator/pd-orchestrator/internal/desired"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
)

// +kubebuilder:rbac:groups=ome.io,resources=autoscalerpolicies;inferenceservices;servingruntimes;clusterservingruntimes;basemodels;clusterbasemodels,verbs=get;list;watch
// +kubebuilder:rbac:groups=ome.io,resources=autoscalerpolicies/status;inferenceservices/status,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps,resources=deployments/scale,verbs=update
// +kubebuilder:rbac:groups=leaderworkerset.x-k8s.io,resources=leaderworkersets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=leaderworkerset.x-k8s.io,resources=leaderworkersets/scale,verbs=update
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=keda.sh,resources=scaledobjects;triggerauthentications,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=list;watch
// +kubebuilder:rbac:groups="",namespace=scaling-system,resources=configmaps,resourceNames=pd-orchestrator-metric-providers,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Index keys of the cache.
const (
	// indexPolicies finds InferenceServices by the policies that their components name.
	indexPolicies = "autoscalerpolicy.policies"
	// indexController finds objects by the UID of their controller.
	indexController = "autoscalerpolicy.controller"
	// indexAuthentication finds ScaledObjects by the TriggerAuthentications that they refer to.
	indexAuthentication = "autoscalerpolicy.authentication"
)

const (
	// firstRetry and lastRetry bound the delay of the next try after a failure.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 30 * time.Second
)

var policyKind = v1beta1.GroupVersion.WithKind("AutoscalerPolicy")

func rateLimiter() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry)
}

func controllerOf(obj client.Object) []string {
	if ref := metav1.GetControllerOf(obj); ref != nil {
		return []string{string(ref.UID)}
	}
	return nil
}

func policiesOf(obj client.Object) []string {
	var names []string
	for _, use := range policyresolve.Uses(obj.(*v1beta1.InferenceService).Spec) {
		names = append(names, use.Policy)
	}
	return names
}

// SetupWithManager adds the controllers, their indexes and their watches to the manager.
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, services *Services, policies *Policies) error {
	for _, index := range []struct {
		obj   client.Object
		key   string
		value client.IndexerFunc
	}{
		{&v1beta1.InferenceService{}, indexPolicies, policiesOf},
		{kube.NewWorkload(desired.DeploymentKind), indexController, controllerOf},
		{kube.NewWorkload(desired.ServiceKind), indexController, controllerOf},
		{kube.NewWorkload(desired.HPAKind), indexController, controllerOf},
	} {
		if err := mgr.GetFieldIndexer().IndexField(ctx, index.obj, index.key, index.value); err != nil {
			return fmt.Errorf("indexing for controller %s: %w", Component, err)
		}
	}
	if err := services.setup(mgr); err != nil {
		return fmt.Errorf("setting up the controller of InferenceServices: %w", err)
	}
	if err := policies.setup(mgr); err != nil {
		return fmt.Errorf("setting up the controller of AutoscalerPolicies: %w", err)
	}
	return nil
}

func (r *Services) setup(mgr ctrl.Manager) error {
	c, err := ctrl.NewControllerManagedBy(mgr).
		Named("inferenceservice").
		// Its own status too: a pass that saw the one before may have taken what has changed back for no change.
		For(&v1beta1.InferenceService{}).
		Watches(kube.NewWorkload(desired.DeploymentKind), toOwner).
		Watches(kube.NewWorkload(desired.ServiceKind), toOwner).
		Watches(kube.NewWorkload(desired.HPAKind), handler.EnqueueRequestsFromMapFunc(r.requestsForHPA), builder.WithPredicates(scalerChange)).
		Watches(&v1beta1.ClusterServingRuntime{}, handler.EnqueueRequestsFromMapFunc(r.requestsForRuntime), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1beta1.ServingRuntime{}, handler.EnqueueRequestsFromMapFunc(r.requestsForRuntime), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1beta1.ClusterBaseModel{}, handler.EnqueueRequestsFromMapFunc(r.requestsForModel), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1beta1.BaseModel{}, handler.EnqueueRequestsFromMapFunc(r.requestsForModel), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(r.Cluster.crds(handler.EnqueueRequestsFromMapFunc(r.requestsForAll))).
		WatchesRawSource(r.Cluster.providers(handler.EnqueueRequestsFromMapFunc(r.requestsForUsers))).
		WithOptions(controller.Options{MaxConcurrentReconciles: r.Concurrency, RateLimiter: rateLimiter()}).
		Build(r)
	if err != nil {
		return err
	}
	r.cache, r.watches = mgr.GetCache(), kube.NewWatches(mgr.GetCache(), c, r.APIReader, r.Clock, r.Namespaces)
	return nil
}

func (r *Policies) setup(mgr ctrl.Manager) error {
	c, err := controller.New("autoscalerpolicy", mgr, controller.Options{Reconciler: r, MaxConcurrentReconciles: r.Concurrency, RateLimiter: rateLimiter()})
	if err != nil {
		return err
	}
	r.watches = kube.NewWatches(mgr.GetCache(), c, r.APIReader, r.Clock, r.Namespaces)
	services := source.Kind(mgr.GetCache(), client.Object(&v1beta1.InferenceService{}), handler.EventHandler(toPolicies), predicate.Predicate(predicate.GenerationChangedPredicate{}))
	for _, s := range []source.Source{services, r.Cluster.crds(handler.EnqueueRequestsFromMapFunc(requestForPolicyCRD)), r.Cluster.providers(handler.EnqueueRequestsFromMapFunc(r.requestsForAll))} {
		if err := c.Watch(s); err != nil {
			return err
		}
	}
	return nil
}

// ensureWatch sees to it that policies are watched once there are any.
func (r *Policies) ensureWatch(ctx context.Context) error {
	served, err := r.Cluster.Served(ctx)
	if err != nil || !served.Policies {
		return err
	}
	_, err = r.watches.Ensure(ctx, kube.Watch{
		Object: &v1beta1.AutoscalerPolicy{}, Kind: policyKind,
		Handler: &handler.EnqueueRequestForObject{},
	})
	return err
}

// ensureWatches sees to it that the optional kinds that are served are watched, and takes out those whose objects the cache
// cannot tell of.
func (r *Services) ensureWatches(ctx context.Context, served *Served) error {
	index := func(kind schema.GroupVersionKind, key string, value client.IndexerFunc) func(context.Context) error {
		return func(ctx context.Context) error { return r.cache.IndexField(ctx, kube.NewWorkload(kind), key, value) }
	}
	for _, w := range []struct {
		served *bool
		watch  kube.Watch
	}{
		{&served.Policies, kube.Watch{
			Object: &v1beta1.AutoscalerPolicy{}, Kind: policyKind,
			Handler: handler.EnqueueRequestsFromMapFunc(r.requestsForPolicy), Predicates: []predicate.Predicate{predicate.GenerationChangedPredicate{}},
		}},
		{&served.LeaderWorkerSets, kube.Watch{
			Object: kube.NewWorkload(desired.LeaderWorkerSetKind), Kind: desired.LeaderWorkerSetKind,
			Index: index(desired.LeaderWorkerSetKind, indexController, controllerOf), Handler: toOwner,
		}},
		{&served.Keda, kube.Watch{
			Object: kube.NewWorkload(desired.ScaledObjectKind), Kind: desired.ScaledObjectKind,
			Index: func(ctx context.Context) error {
				return errors.Join(
					index(desired.ScaledObjectKind, indexController, controllerOf)(ctx),
					index(desired.ScaledObjectKind, indexAuthentication, authenticationsOf)(ctx))
			},
			Handler: scaledObjectEvents, Predicates: []predicate.Predicate{scalerChange},
		}},
		{&served.Keda, kube.Watch{
			Object: kube.NewWorkload(desired.TriggerAuthenticationKind), Kind: desired.TriggerAuthenticationKind,
			Handler: handler.EnqueueRequestsFromMapFunc(r.requestsForAuthentication), Predicates: []predicate.Predicate{predicate.GenerationChangedPredicate{}},
		}},
	} {
		if !*w.served {
			continue
		}
		var err error
		if *w.served, err = r.watches.Ensure(ctx, w.watch); err != nil {
			return err
		}
	}
	return nil
}
