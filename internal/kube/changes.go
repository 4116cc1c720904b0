package kube

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// HPAChange lets through what decisions read of a HorizontalPodAutoscaler: what it scales, who made it, and that it goes.
// Its status, which changes several times a minute, is not among that.
var HPAChange = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return Changed(e.ObjectOld, e.ObjectNew) || controllerOf(e.ObjectOld) != controllerOf(e.ObjectNew)
}}

func controllerOf(obj client.Object) types.UID {
	if ref := metav1.GetControllerOfNoCopy(obj); ref != nil {
		return ref.UID
	}
	return ""
}

// Changed reports whether an object is another than before, has another spec, or is on its way out.
func Changed(before, after client.Object) bool {
	return specChanged(before, after) ||
		before.GetUID() != after.GetUID() ||
		(before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil)
}

// specChanged reports whether the spec of an object is another than before. Some built-in kinds have no generation that
// would tell, HorizontalPodAutoscalers before Kubernetes 1.37 and Services among them: of these the specs are compared.
func specChanged(before, after client.Object) bool {
	if before.GetGeneration() != after.GetGeneration() {
		return true
	}
	return after.GetGeneration() == 0 && !equality.Semantic.DeepEqual(specOf(before), specOf(after))
}

// specOf returns the spec of an object that may have no generation, nil of any other kind.
func specOf(obj client.Object) any {
	switch o := obj.(type) {
	case *autoscalingv2.HorizontalPodAutoscaler:
		return &o.Spec
	case *corev1.Service:
		return &o.Spec
	case *unstructured.Unstructured:
		return o.Object["spec"]
	}
	return nil
}
