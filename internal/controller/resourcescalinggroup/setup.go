package resourcescalinggroup

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/clone"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
)

// +kubebuilder:rbac:groups=autoscaling.openfuyao.com,resources=resourcescalinggroups,verbs=get;list;watch
// +kubebuilder:rbac:groups=autoscaling.openfuyao.com,resources=resourcescalinggroups/status,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets,verbs=get;list;watch;create;delete;patch
// +kubebuilder:rbac:groups=apps,resources=deployments/scale;statefulsets/scale,verbs=update
// +kubebuilder:rbac:groups=leaderworkerset.x-k8s.io,resources=leaderworkersets,verbs=get;list;watch;create;delete;patch
// +kubebuilder:rbac:groups=leaderworkerset.x-k8s.io,resources=leaderworkersets/scale,verbs=update
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=get;list;watch
// +kubebuilder:rbac:groups=elasticscaler.io,resources=elasticscalers,verbs=get;list;watch
// +kubebuilder:rbac:groups=tidal.io,resources=tidals,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets;serviceaccounts;persistentvolumeclaims,verbs=get
// +kubebuilder:rbac:groups=apps,resources=replicasets,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;delete;patch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

const (
	// firstRetry and lastRetry bound the delay of the next try after a failure. No watch tells of the end of most: of
	// a quota that was raised, of a webhook that answers again.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 15 * time.Second
)

// Index keys of the cache.
const (
	// indexOwner finds objects by the namespace and name of the ResourceScalingGroup in their labels.
	indexOwner = "rsg.owner"
	// indexTarget finds ResourceScalingGroups by an object whose count matters to them: a workload that they name as a
	// target, or themselves.
	indexTarget = "rsg.target"
	// indexScaler finds HPAs, ElasticScalers and Tidals by what they name as their target.
	indexScaler = "rsg.scaler"
	// indexConflict finds ResourceScalingGroups that wait for a name in their namespace to become free.
	indexConflict = "rsg.conflict"
)

func ownerKey(namespace, name string) string { return namespace + "/" + name }

// CacheOptions limits what the cache of this controller holds: of pods what decisions read, of ConfigMaps and
// ControllerRevisions those of ResourceScalingGroups.
func CacheOptions() map[client.Object]cache.ByObject {
	mine, err := labels.NewRequirement(v1alpha1.LabelName, selection.Exists, nil)
	if err != nil {
		panic(err) // The label is a constant.
	}
	selector := labels.NewSelector().Add(*mine)
	return map[client.Object]cache.ByObject{
		&corev1.Pod{}:                            {Transform: kube.StripPod},
		&autoscalingv2.HorizontalPodAutoscaler{}: {Transform: kube.StripHPA},
		&corev1.ConfigMap{}:                      {Label: selector},
		&appsv1.ControllerRevision{}:             {Label: selector},
	}
}

// SetupWithManager adds the controller, its indexes and its watches to the manager, whose cache must have the indexes of
// kube.IndexOwners.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	indexer := mgr.GetFieldIndexer()
	workloads := []client.Object{}
	for _, kind := range clone.Kinds() {
		if kind.Builtin {
			workloads = append(workloads, kube.NewWorkload(kind.GroupVersionKind))
		}
	}
	for _, obj := range append([]client.Object{&corev1.Service{}}, workloads...) {
		if err := indexer.IndexField(ctx, obj, indexOwner, byOwner); err != nil {
			return fmt.Errorf("indexing by owner: %w", err)
		}
	}
	for key, index := range map[string]client.IndexerFunc{indexTarget: countsOf, indexConflict: conflictOf} {
		if err := indexer.IndexField(ctx, &v1alpha1.ResourceScalingGroup{}, key, index); err != nil {
			return fmt.Errorf("indexing ResourceScalingGroups: %w", err)
		}
	}

	if err := indexer.IndexField(ctx, &autoscalingv2.HorizontalPodAutoscaler{}, indexScaler, scaledBy); err != nil {
		return fmt.Errorf("indexing HPAs: %w", err)
	}

	b := ctrl.NewControllerManagedBy(mgr).
		Named(Component).
		For(&v1alpha1.ResourceScalingGroup{}, builder.WithPredicates(specOrStatusChange)).
		Owns(&corev1.ConfigMap{}).
		Owns(&appsv1.ControllerRevision{}).
		Watches(&v1alpha1.ResourceScalingGroup{}, handler.EnqueueRequestsFromMapFunc(r.requestsForRival), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Service{}, handler.EnqueueRequestsFromMapFunc(r.requestsForObject), builder.WithPredicates(serviceChange)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.requestsForPod), builder.WithPredicates(podChange)).
		Watches(&autoscalingv2.HorizontalPodAutoscaler{}, handler.EnqueueRequestsFromMapFunc(r.requestsForScaler), builder.WithPredicates(kube.HPAChange)).
		Watches(newCRD(), handler.EnqueueRequestsFromMapFunc(r.requestsForCRD), builder.WithPredicates(appearance)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: r.Concurrency,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		})
	for _, obj := range workloads {
		b = b.Watches(obj, handler.EnqueueRequestsFromMapFunc(r.requestsForObject), builder.WithPredicates(workloadChange))
	}
	c, err := b.Build(r)
	if err != nil {
		return fmt.Errorf("setting up controller %s: %w", Component, err)
	}
	r.indexer = indexer
	r.watches = kube.NewWatches(mgr.GetCache(), c, r.APIReader, r.Clock, r.Namespaces)
	return nil
}

func byOwner(obj client.Object) []string {
	if l := obj.GetLabels(); l[v1alpha1.LabelName] != "" {
		return []string{ownerKey(l[v1alpha1.LabelNamespace], l[v1alpha1.LabelName])}
	}
	return nil
}

// appearance passes when an object comes or goes, not when it changes.
var appearance = predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}

func targetsOf(obj client.Object) []string {
	rsg := obj.(*v1alpha1.ResourceScalingGroup)
	keys := make([]string, 0, len(rsg.Spec.TargetResources))
	for _, t := range rsg.Spec.TargetResources {
		if ref, err := clone.Resolve(t.ResourceRef); err == nil {
			keys = append(keys, kube.TargetKey(ref.Kind.GroupVersion().String(), ref.Kind.GroupVersionKind.Kind, cmp.Or(t.ResourceRef.Namespace, rsg.Namespace), ref.Name))
		}
	}
	return keys
}

// groupsKey is the TargetKey of a ResourceScalingGroup itself.
func groupsKey(rsg *v1alpha1.ResourceScalingGroup) string {
	return kube.TargetKey(v1alpha1.GroupVersion.String(), "ResourceScalingGroup", rsg.Namespace, rsg.Name)
}

// countsOf has each key in the form that leaves the group out, too, which references may.
func countsOf(obj client.Object) []string {
	keys := append(targetsOf(obj), groupsKey(obj.(*v1alpha1.ResourceScalingGroup)))
	for _, key := range keys {
		keys = append(keys, kube.WithoutGroup(key))
	}
	return keys
}

func conflictOf(obj client.Object) []string {
	rsg := obj.(*v1alpha1.ResourceScalingGroup)
	if c := meta.FindStatusCondition(rsg.Status.Conditions, v1alpha1.ConditionReady); c != nil && c.Reason == v1alpha1.ReasonNameConflict {
		return []string{rsg.Namespace}
	}
	return nil
}

// requestsForRival maps a ResourceScalingGroup to the others that name one of its targets, since one has to wait for the
// other to go.
func (r *Reconciler) requestsForRival(ctx context.Context, obj client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, key := range targetsOf(obj) {
		for _, req := range r.requestsByIndex(ctx, indexTarget, key) {
			if req.NamespacedName != client.ObjectKeyFromObject(obj) {
				requests = append(requests, req)
			}
		}
	}
	return requests
}

// requestsForObject maps a workload or a Service to the ResourceScalingGroups that it matters to: the one in its
// labels, those that name it as a target, and those that wait for a name in its namespace.
func (r *Reconciler) requestsForObject(ctx context.Context, obj client.Object) []reconcile.Request {
	requests := requestsByLabels(obj)
	apiVersion, kind := obj.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
	for index, key := range map[string]string{
		indexTarget:   kube.TargetKey(apiVersion, kind, obj.GetNamespace(), obj.GetName()),
		indexConflict: obj.GetNamespace(),
	} {
		requests = append(requests, r.requestsByIndex(ctx, index, key)...)
	}
	return requests
}

func requestsByLabels(obj client.Object) []reconcile.Request {
	l := obj.GetLabels()
	if l[v1alpha1.LabelName] == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: l[v1alpha1.LabelNamespace], Name: l[v1alpha1.LabelName]}}}
}

func (r *Reconciler) requestsByIndex(ctx context.Context, index, key string) []reconcile.Request {
	var list v1alpha1.ResourceScalingGroupList
	if err := r.Client.List(ctx, &list, client.MatchingFields{index: key}, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// requestsForPod maps a pod to the ResourceScalingGroup in its labels, and where it has none to those that name its
// workload as a target: the pods of group 0 are labelled only once they run.
func (r *Reconciler) requestsForPod(ctx context.Context, obj client.Object) []reconcile.Request {
	if requests := requestsByLabels(obj); requests != nil {
		return requests
	}
	var requests []reconcile.Request
	for _, owner := range kube.OwnersOf(ctx, r.Client, obj) {
		requests = append(requests, r.requestsByIndex(ctx, indexTarget, kube.TargetKey(owner.APIVersion, owner.Kind, obj.GetNamespace(), owner.Name))...)
	}
	return requests
}

// requestsForScaler maps an HPA, an ElasticScaler or a Tidal to the ResourceScalingGroups whose count it sets, or that of a
// workload of theirs.
func (r *Reconciler) requestsForScaler(ctx context.Context, obj client.Object) []reconcile.Request {
	requests := r.requestsByIndex(ctx, indexTarget, r.targetOf(ctx, obj))
	hpa, ok := obj.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return requests
	}
	ref := hpa.Spec.ScaleTargetRef
	for _, kind := range clone.Kinds() {
		if kind.GroupVersionKind.Kind != ref.Kind || !kind.Builtin {
			continue
		}
		workload := kube.NewWorkload(kind.GroupVersionKind)
		if err := r.Client.Get(ctx, types.NamespacedName{Namespace: obj.GetNamespace(), Name: ref.Name}, workload); err == nil {
			requests = append(requests, requestsByLabels(workload)...)
		}
	}
	return requests
}

// specOrStatusChange passes changes of the status, too. A pass that still reads the status from before the last write can
// take it for what is to be written, and write nothing; the event of that write starts the pass that sees the difference.
var specOrStatusChange = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok1 := e.ObjectOld.(*v1alpha1.ResourceScalingGroup)
	after, ok2 := e.ObjectNew.(*v1alpha1.ResourceScalingGroup)
	return !ok1 || !ok2 || metadataChanged(before, after) || !equality.Semantic.DeepEqual(before.Status, after.Status)
}}

// workloadChange passes what decisions read of a workload.
var workloadChange = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok1 := e.ObjectOld.(*unstructured.Unstructured)
	after, ok2 := e.ObjectNew.(*unstructured.Unstructured)
	if !ok1 || !ok2 || metadataChanged(before, after) {
		return true
	}
	kind, err := clone.KindOf(after.GetAPIVersion(), after.GetKind())
	return err != nil || kind.Available(before) != kind.Available(after) || clone.Trouble(before) != clone.Trouble(after)
}}

var serviceChange = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return metadataChanged(e.ObjectOld, e.ObjectNew) }}

var podChange = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok1 := e.ObjectOld.(*corev1.Pod)
	after, ok2 := e.ObjectNew.(*corev1.Pod)
	return !ok1 || !ok2 || relevantPodChange(before, after)
}}

func metadataChanged(before, after client.Object) bool {
	return kube.Changed(before, after) ||
		!maps.Equal(before.GetLabels(), after.GetLabels()) ||
		!maps.Equal(before.GetAnnotations(), after.GetAnnotations())
}
