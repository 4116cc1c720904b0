package autoscalerpolicy

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/servingcomponent"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/servingruntime"
	"github.com/pd-orchestrator/pd-orchestrator/internal/desired"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// authenticationRequest begins the name in a request to look at a TriggerAuthentication: no service has a '/' in its name.
const authenticationRequest = "triggerauthentication/"

func requestForAuthentication(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: authenticationRequest + name}}
}

func authenticationOf(req reconcile.Request) (types.NamespacedName, bool) {
	name, ok := strings.CutPrefix(req.Name, authenticationRequest)
	return types.NamespacedName{Namespace: req.Namespace, Name: name}, ok
}

// crds tells of the CRDs of the optional kinds.
func (c *Cluster) crds(h handler.EventHandler) source.Source {
	optional := []string{crdPolicies, crdScaledObjects, crdAuthentications, crdWorkloads}
	return source.Kind(c.cache, client.Object(newCRD()), h, predicate.NewPredicateFuncs(func(obj client.Object) bool {
		return slices.Contains(optional, obj.GetName())
	}))
}

// providers tells of the metric providers.
func (c *Cluster) providers(h handler.EventHandler) source.Source {
	if c.namespace == "" {
		return source.Func(func(context.Context, queue) error { return nil })
	}
	return source.Kind(c.cache, client.Object(&corev1.ConfigMap{}), h)
}

// ownerRequests are for the service that controls an object. Of an object that no service controls they are for the one that
// may want its name, since it waits until the object is gone.
func ownerRequests(obj client.Object) []reconcile.Request {
	ref := metav1.GetControllerOf(obj)
	if ref != nil && ref.Kind == "InferenceService" && ref.APIVersion == v1beta1.GroupVersion.String() {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: ref.Name}}}
	}
	name := strings.TrimPrefix(strings.TrimPrefix(obj.GetName(), "lws-"), "scaledobject-")
	for _, component := range []string{servingcomponent.Engine, servingcomponent.Decoder, servingcomponent.Router} {
		if service, ok := strings.CutSuffix(name, "-"+component); ok {
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: service}}}
		}
	}
	return nil
}

var toOwner = handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []reconcile.Request { return ownerRequests(obj) })

// requestsForHPA maps a HorizontalPodAutoscaler to the service that it is of, itself or through a ScaledObject: by what it
// scales, since the ScaledObject may be gone already.
func (r *Services) requestsForHPA(ctx context.Context, obj client.Object) []reconcile.Request {
	ref := metav1.GetControllerOf(obj)
	u, ok := obj.(*unstructured.Unstructured)
	if !ok || ref == nil || ref.Kind != desired.ScaledObjectKind.Kind {
		return ownerRequests(obj)
	}
	kind, _, _ := unstructured.NestedString(u.Object, "spec", "scaleTargetRef", "kind")
	name, _, _ := unstructured.NestedString(u.Object, "spec", "scaleTargetRef", "name")
	for _, gvk := range workloadKinds {
		if gvk.Kind != kind || !r.cached(gvk) {
			continue
		}
		if workload, err := r.read(ctx, gvk, obj.GetNamespace(), name); err == nil && workload != nil {
			return ownerRequests(workload)
		}
	}
	return nil
}

// scaledObjectEvents map a ScaledObject to its service, and what it does not refer to any more to a look at whether anything
// does.
var scaledObjectEvents = handler.Funcs{
	CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { add(q, ownerRequests(e.Object)) },
	UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
		add(q, ownerRequests(e.ObjectNew))
		kept := authenticationsOf(e.ObjectNew)
		for _, name := range authenticationsOf(e.ObjectOld) {
			if !slices.Contains(kept, name) {
				q.Add(requestForAuthentication(e.ObjectOld.GetNamespace(), name))
			}
		}
	},
	DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
		add(q, ownerRequests(e.Object))
		for _, name := range authenticationsOf(e.Object) {
			q.Add(requestForAuthentication(e.Object.GetNamespace(), name))
		}
	},
}

func add(q queue, requests []reconcile.Request) {
	for _, request := range requests {
		q.Add(request)
	}
}

// requestsForAuthentication maps a TriggerAuthentication to a look at whether it is needed, and to the services that need it
// as it was made.
func (r *Services) requestsForAuthentication(ctx context.Context, obj client.Object) []reconcile.Request {
	requests := []reconcile.Request{requestForAuthentication(obj.GetNamespace(), obj.GetName())}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(desired.ScaledObjectKind.GroupVersion().WithKind(desired.ScaledObjectKind.Kind + "List"))
	if err := r.Client.List(ctx, list, client.InNamespace(obj.GetNamespace()), client.MatchingFields{indexAuthentication: obj.GetName()}); err != nil {
		return requests
	}
	for i := range list.Items {
		requests = append(requests, ownerRequests(&list.Items[i])...)
	}
	return requests
}

// requests are for the services of the cache that fit.
func (r *Services) requests(ctx context.Context, fits func(*v1beta1.InferenceService) bool, options ...client.ListOption) []reconcile.Request {
	var list v1beta1.InferenceServiceList
	if err := r.Client.List(ctx, &list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if fits(&list.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

func anyService(*v1beta1.InferenceService) bool { return true }

func (r *Services) requestsForAll(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.requests(ctx, anyService)
}

// requestsForUsers are for the services that name a policy.
func (r *Services) requestsForUsers(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.requests(ctx, func(s *v1beta1.InferenceService) bool { return len(policiesOf(s)) > 0 })
}

func (r *Services) requestsForPolicy(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.requests(ctx, anyService, client.InNamespace(obj.GetNamespace()), client.MatchingFields{indexPolicies: obj.GetName()})
}

// requestsForRuntime are for the services that name the runtime, and for those that one is chosen for.
func (r *Services) requestsForRuntime(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.requests(ctx, func(s *v1beta1.InferenceService) bool {
		return s.Spec.Runtime == nil || s.Spec.Runtime.Name == obj.GetName()
	}, client.InNamespace(obj.GetNamespace()))
}

func (r *Services) requestsForModel(ctx context.Context, obj client.Object) []reconcile.Request {
	kind := servingruntime.KindBaseModel
	if obj.GetNamespace() == "" {
		kind = servingruntime.KindClusterBaseModel
	}
	return r.requests(ctx, func(s *v1beta1.InferenceService) bool {
		return s.Spec.Model != nil && s.Spec.Model.Kind == kind && s.Spec.Model.Name == obj.GetName()
	}, client.InNamespace(obj.GetNamespace()))
}

// toPolicies map a service to the policies that it names and to those that it named before.
var toPolicies = handler.Funcs{
	CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { addPolicies(q, e.Object) },
	UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { addPolicies(q, e.ObjectOld, e.ObjectNew) },
	DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { addPolicies(q, e.Object) },
}

func addPolicies(q queue, services ...client.Object) {
	for _, s := range services {
		for _, name := range policiesOf(s) {
			q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: s.GetNamespace(), Name: name}})
		}
	}
}

// requestForPolicyCRD asks for the watch of policies. It has no namespace, which each policy has.
func requestForPolicyCRD(_ context.Context, obj client.Object) []reconcile.Request {
	if obj.GetName() != crdPolicies {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: crdPolicies}}}
}

func (r *Policies) requestsForAll(ctx context.Context, _ client.Object) []reconcile.Request {
	if !r.watches.Known(policyKind) {
		return nil
	}
	var list v1beta1.AutoscalerPolicyList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// scalerChange lets through what is read of HorizontalPodAutoscalers and ScaledObjects. They say anew all the time which value
// a metric has, or that a trigger is active, which is no news.
var scalerChange = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok1 := e.ObjectOld.(*unstructured.Unstructured)
	after, ok2 := e.ObjectNew.(*unstructured.Unstructured)
	return !ok1 || !ok2 || kube.Changed(before, after) || !equality.Semantic.DeepEqual(news(before), news(after))
}}

func news(u *unstructured.Unstructured) map[string]any {
	seen := map[string]any{
		"labels": u.GetLabels(), "annotations": u.GetAnnotations(), "owners": u.GetOwnerReferences(),
	}
	status, _ := u.Object["status"].(map[string]any)
	for _, field := range []string{"currentReplicas", "desiredReplicas", "hpaName", "lastScaleTime"} {
		seen[field] = status[field]
	}
	conditions, _ := status["conditions"].([]any)
	for _, element := range conditions {
		c, _ := element.(map[string]any)
		seen["condition "+text(c["type"])] = [3]string{text(c["status"]), text(c["reason"]), text(c["message"])}
	}
	return seen
}

func text(value any) string {
	s, _ := value.(string)
	return s
}
