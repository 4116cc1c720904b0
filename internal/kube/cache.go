package kube

import (
	"context"
	"fmt"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const indexController = "metadata.controller"

// StripManagedFields is a cache transform: nothing here reads who owns which field, and it is most of an object's size.
func StripManagedFields(obj any) (any, error) {
	if o, ok := obj.(client.Object); ok {
		o.SetManagedFields(nil)
	}
	return obj, nil
}

// StripPod is a cache transform that keeps of a pod what decisions read: its metadata, what it requests, its phase and its
// conditions.
func StripPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	pod.ManagedFields = nil
	pod.Annotations = nil
	spec := corev1.PodSpec{Resources: requestsOf(pod.Spec.Resources), Overhead: pod.Spec.Overhead, Containers: requesting(pod.Spec.Containers)}
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			spec.InitContainers = append(spec.InitContainers, c)
		}
	}
	spec.InitContainers = requesting(spec.InitContainers)
	pod.Spec = spec
	pod.Status = corev1.PodStatus{Phase: pod.Status.Phase, Conditions: pod.Status.Conditions, StartTime: pod.Status.StartTime}
	return pod, nil
}

func requesting(containers []corev1.Container) []corev1.Container {
	var out []corev1.Container
	for _, c := range containers {
		kept := corev1.Container{Name: c.Name, RestartPolicy: c.RestartPolicy}
		if r := requestsOf(&c.Resources); r != nil {
			kept.Resources = *r
		}
		out = append(out, kept)
	}
	return out
}

func requestsOf(r *corev1.ResourceRequirements) *corev1.ResourceRequirements {
	if r == nil || len(r.Requests) == 0 {
		return nil
	}
	return &corev1.ResourceRequirements{Requests: r.Requests}
}

// StripHPA is a cache transform that drops what is long in an HPA and decides nothing.
func StripHPA(obj any) (any, error) {
	hpa, ok := obj.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return obj, nil
	}
	hpa.ManagedFields, hpa.Annotations = nil, nil
	hpa.Status.CurrentMetrics = nil
	return hpa, nil
}

// Kinds through which a workload owns pods. Of ReplicaSets only the metadata is cached.
var (
	replicaSetKind  = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"}
	statefulSetKind = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"}
)

// maxOwners bounds how far a chain of owners is followed. The longest that is known is a worker pod of a
// LeaderWorkerSet: StatefulSet, leader pod, StatefulSet, LeaderWorkerSet.
const maxOwners = 6

// IndexOwners adds the indexes by which PodsOf finds pods. Call it once for each cache, before it starts.
func IndexOwners(ctx context.Context, indexer client.FieldIndexer) error {
	for _, obj := range []client.Object{&corev1.Pod{}, metadataOnly(replicaSetKind), NewWorkload(statefulSetKind)} {
		if err := indexer.IndexField(ctx, obj, indexController, controllerUID); err != nil {
			return fmt.Errorf("indexing by controller: %w", err)
		}
	}
	return nil
}

func metadataOnly(gvk schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(gvk)
	return obj
}

func controllerUID(obj client.Object) []string {
	if ref := metav1.GetControllerOf(obj); ref != nil {
		return []string{string(ref.UID)}
	}
	return nil
}

// Pods are the pods of a workload.
type Pods struct {
	// Direct are those that stand for a replica each: of a LeaderWorkerSet the leaders.
	Direct []corev1.Pod
	// All are those and the ones that they own in turn.
	All []corev1.Pod
}

// PodsOf returns the pods that a workload owns, itself or through ReplicaSets, StatefulSets and leader pods. Ownership
// counts, not labels: the selector of an original matches the pods of its clones too.
func PodsOf(ctx context.Context, c client.Reader, namespace string, workload types.UID) (Pods, error) {
	var pods Pods
	owners := []types.UID{workload}
	for depth := 0; len(owners) > 0 && depth < maxOwners; depth++ {
		var next, leaders []types.UID
		for _, uid := range owners {
			owned := []client.ListOption{client.InNamespace(namespace), client.MatchingFields{indexController: string(uid)}, client.UnsafeDisableDeepCopy}
			replicaSets := &metav1.PartialObjectMetadataList{}
			replicaSets.SetGroupVersionKind(replicaSetKind.GroupVersion().WithKind("ReplicaSetList"))
			statefulSets := &unstructured.UnstructuredList{}
			statefulSets.SetGroupVersionKind(statefulSetKind.GroupVersion().WithKind("StatefulSetList"))
			var list corev1.PodList
			for _, l := range []client.ObjectList{replicaSets, statefulSets, &list} {
				if err := c.List(ctx, l, owned...); err != nil {
					return Pods{}, fmt.Errorf("listing what a workload owns: %w", err)
				}
			}
			for i := range replicaSets.Items {
				next = append(next, replicaSets.Items[i].UID)
			}
			for i := range statefulSets.Items {
				next = append(next, statefulSets.Items[i].GetUID())
			}
			for i := range list.Items {
				pods.All = append(pods.All, *list.Items[i].DeepCopy())
				leaders = append(leaders, list.Items[i].UID)
			}
		}
		if pods.Direct == nil && len(leaders) > 0 {
			pods.Direct = slices.Clone(pods.All)
		}
		owners = append(next, leaders...)
	}
	return pods, nil
}

// OwnersOf returns the chain of controllers of an object, the nearest first, as far as the cache knows it.
func OwnersOf(ctx context.Context, c client.Reader, obj client.Object) []metav1.OwnerReference {
	var chain []metav1.OwnerReference
	for len(chain) < maxOwners {
		ref := metav1.GetControllerOf(obj)
		if ref == nil {
			return chain
		}
		chain = append(chain, *ref)
		var owner client.Object
		switch ref.Kind {
		case replicaSetKind.Kind:
			owner = metadataOnly(replicaSetKind)
		case statefulSetKind.Kind:
			owner = NewWorkload(statefulSetKind)
		case "Pod":
			owner = &corev1.Pod{}
		default:
			return chain
		}
		if err := c.Get(ctx, types.NamespacedName{Namespace: obj.GetNamespace(), Name: ref.Name}, owner); err != nil {
			return chain
		}
		obj = owner
	}
	return chain
}

// PodReady reports whether the pod serves: ready and not on its way out.
func PodReady(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// NewWorkload returns an empty object of a kind, to read one into.
func NewWorkload(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u
}
