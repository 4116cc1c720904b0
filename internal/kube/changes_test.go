package kube

import (
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

func hpaOn(target string, change ...func(*autoscalingv2.HorizontalPodAutoscaler)) *autoscalingv2.HorizontalPodAutoscaler {
	hpa := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "dev", Name: "cpu", UID: "1"},
		Spec:       autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 9, ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: target}},
	}
	for _, c := range change {
		c(hpa)
	}
	return hpa
}

// The HPAs of an API server before 1.37 have no generation.
func TestChangesOfAnHPAWithoutAGenerationAreSeen(t *testing.T) {
	owned := func(uid types.UID) func(*autoscalingv2.HorizontalPodAutoscaler) {
		return func(hpa *autoscalingv2.HorizontalPodAutoscaler) {
			hpa.OwnerReferences = []metav1.OwnerReference{{Kind: "ScaledObject", Name: "cpu", UID: uid, Controller: new(true)}}
		}
	}
	generation := func(n int64) func(*autoscalingv2.HorizontalPodAutoscaler) {
		return func(hpa *autoscalingv2.HorizontalPodAutoscaler) { hpa.Generation = n }
	}
	for _, c := range []struct {
		name          string
		before, after *autoscalingv2.HorizontalPodAutoscaler
		want          bool
	}{
		{"repointed", hpaOn("a"), hpaOn("b"), true},
		{"adopted", hpaOn("a"), hpaOn("a", owned("2")), true},
		{"of another owner", hpaOn("a", owned("2")), hpaOn("a", owned("3")), true},
		{"made anew", hpaOn("a"), hpaOn("a", func(hpa *autoscalingv2.HorizontalPodAutoscaler) { hpa.UID = "9" }), true},
		{"on its way out", hpaOn("a"), hpaOn("a", func(hpa *autoscalingv2.HorizontalPodAutoscaler) { hpa.DeletionTimestamp = new(metav1.Now()) }), true},
		{"of another generation", hpaOn("a", generation(1)), hpaOn("b", generation(2)), true},
		{"with news of its metrics", hpaOn("a"), hpaOn("a", func(hpa *autoscalingv2.HorizontalPodAutoscaler) { hpa.Status.DesiredReplicas = 4 }), false},
		{"of one generation", hpaOn("a", generation(1)), hpaOn("a", generation(1), func(hpa *autoscalingv2.HorizontalPodAutoscaler) { hpa.Labels = map[string]string{"a": "b"} }), false},
	} {
		if got := HPAChange.Update(event.UpdateEvent{ObjectOld: c.before, ObjectNew: c.after}); got != c.want {
			t.Errorf("one %s: %t, want %t", c.name, got, c.want)
		}
	}
}

func TestASpecIsComparedWhereNoGenerationTells(t *testing.T) {
	service := func(port int32) client.Object {
		return &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: port}}}}
	}
	read := func(replicas, generation int64) client.Object {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"maxReplicas": replicas}}}
		if generation > 0 {
			u.SetGeneration(generation)
		}
		return u
	}
	for _, c := range []struct {
		name          string
		before, after client.Object
		want          bool
	}{
		{"a Service with another port", service(80), service(81), true},
		{"a Service as it was", service(80), service(80), false},
		{"an object read without its type", read(1, 0), read(2, 0), true},
		{"one as it was", read(1, 0), read(1, 0), false},
		{"one with generations", read(1, 1), read(2, 2), true},
		{"a kind whose spec is not known", &corev1.ConfigMap{}, &corev1.ConfigMap{Data: map[string]string{"a": "b"}}, false},
	} {
		if got := specChanged(c.before, c.after); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}
