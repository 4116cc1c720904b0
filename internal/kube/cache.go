package kube

import (
	"context"
	"fmt"

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

// StripPod is a cache transform that keeps of a pod what decisions read: its metadata, its phase and its conditions.
func StripPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	pod.ManagedFields = nil
	pod.Annotations = nil
	pod.Spec = corev1.PodSpec{}
	pod.Status = corev1.PodStatus{Phase: pod.Status.Phase, Conditions: pod.Status.Conditions, StartTime: pod.Status.StartTime}
	return pod, nil
}

// ReplicaSetKind is the kind through which a Deployment owns pods. Only its metadata is cached.
var ReplicaSetKind = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"}

// IndexOwners adds the indexes by which PodsOf finds pods. Call it once for each cache, before it starts.
func IndexOwners(ctx context.Context, indexer client.FieldIndexer) error {
	replicaSet := &metav1.PartialObjectMetadata{}
	replicaSet.SetGroupVersionKind(ReplicaSetKind)
	for _, obj := range []client.Object{&corev1.Pod{}, replicaSet} {
		if err := indexer.IndexField(ctx, obj, indexController, controllerUID); err != nil {
			return fmt.Errorf("indexing by controller: %w", err)
		}
	}
	return nil
}

func controllerUID(obj client.Object) []string {
	if ref := metav1.GetControllerOf(obj); ref != nil {
		return []string{string(ref.UID)}
	}
	return nil
}

// PodsOf returns the pods that a workload owns, itself or through its ReplicaSets. Ownership counts, not labels: the
// selector of an original matches the pods of its clones too.
func PodsOf(ctx context.Context, c client.Reader, namespace string, workload types.UID) ([]corev1.Pod, error) {
	replicaSets := &metav1.PartialObjectMetadataList{}
	replicaSets.SetGroupVersionKind(ReplicaSetKind.GroupVersion().WithKind("ReplicaSetList"))
	if err := c.List(ctx, replicaSets, client.InNamespace(namespace), client.MatchingFields{indexController: string(workload)}); err != nil {
		return nil, fmt.Errorf("listing ReplicaSets: %w", err)
	}
	owners := []types.UID{workload}
	for i := range replicaSets.Items {
		owners = append(owners, replicaSets.Items[i].UID)
	}
	var pods []corev1.Pod
	for _, uid := range owners {
		var list corev1.PodList
		if err := c.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{indexController: string(uid)}); err != nil {
			return nil, fmt.Errorf("listing pods: %w", err)
		}
		pods = append(pods, list.Items...)
	}
	return pods, nil
}

// WorkloadOf returns the reference to the workload that owns a pod, seen through a ReplicaSet, and false where the pod
// has no owner or the owner is not known yet.
func WorkloadOf(ctx context.Context, c client.Reader, pod client.Object) (metav1.OwnerReference, bool) {
	ref := metav1.GetControllerOf(pod)
	if ref == nil {
		return metav1.OwnerReference{}, false
	}
	if ref.Kind != ReplicaSetKind.Kind {
		return *ref, true
	}
	rs := &metav1.PartialObjectMetadata{}
	rs.SetGroupVersionKind(ReplicaSetKind)
	if err := c.Get(ctx, types.NamespacedName{Namespace: pod.GetNamespace(), Name: ref.Name}, rs); err != nil {
		return metav1.OwnerReference{}, false
	}
	if up := metav1.GetControllerOf(rs); up != nil {
		return *up, true
	}
	return metav1.OwnerReference{}, false
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
