package kinds

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/test/resourcescalinggroup/rsgtest"
)

func newLWS() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("leaderworkerset.x-k8s.io/v1")
	u.SetKind("LeaderWorkerSet")
	return u
}

// makeLWS returns a LeaderWorkerSet whose groups are a leader and one worker.
func makeLWS(namespace, name string, replicas int64) *unstructured.Unstructured {
	u := newLWS()
	u.SetNamespace(namespace)
	u.SetName(name)
	u.Object["spec"] = map[string]any{
		"replicas": replicas,
		"leaderWorkerTemplate": map[string]any{
			"size": int64(2),
			"workerTemplate": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": name}},
				"spec": map[string]any{"terminationGracePeriodSeconds": int64(0), "containers": []any{map[string]any{
					"name": "engine", "image": "example.org/engine:1", "ports": []any{map[string]any{"containerPort": int64(8000)}},
				}}},
			},
		},
	}
	return u
}

// standIn plays the LeaderWorkerSet controller in a world until the test ends: a StatefulSet of leaders, which owns the
// leader pods as the real one does, and the counts in the status.
func standIn(t *testing.T, w *rsgtest.World) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			list := &unstructured.UnstructuredList{}
			list.SetAPIVersion("leaderworkerset.x-k8s.io/v1")
			list.SetKind("LeaderWorkerSetList")
			if err := w.Client.List(ctx, list, client.InNamespace(w.Namespace)); err != nil {
				continue // The kind may not be served yet.
			}
			for i := range list.Items {
				if err := playLWS(ctx, w, &list.Items[i]); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
					t.Logf("stand-in for LeaderWorkerSet %s: %v", list.Items[i].GetName(), err)
				}
			}
		}
	}()
	t.Cleanup(func() { stop(); <-done })
}

func playLWS(ctx context.Context, w *rsgtest.World, lws *unstructured.Unstructured) error {
	if lws.GetDeletionTimestamp() != nil {
		return nil
	}
	replicas, _, _ := unstructured.NestedInt64(lws.Object, "spec", "replicas")
	template, found, _ := unstructured.NestedMap(lws.Object, "spec", "leaderWorkerTemplate", "leaderTemplate")
	if !found {
		template, _, _ = unstructured.NestedMap(lws.Object, "spec", "leaderWorkerTemplate", "workerTemplate")
	}
	var pod corev1.PodTemplateSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template, &pod); err != nil {
		return err
	}
	label := "leaderworkerset.sigs.k8s.io/name"
	pod.Labels[label] = lws.GetName()
	n := int32(replicas)
	leaders := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: lws.GetNamespace(), Name: lws.GetName(), OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(lws, lws.GroupVersionKind()),
		}},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &n, PodManagementPolicy: appsv1.ParallelPodManagement, Template: pod,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{label: lws.GetName()}},
		},
	}
	existing := &appsv1.StatefulSet{}
	err := w.Client.Get(ctx, client.ObjectKeyFromObject(leaders), existing)
	switch {
	case apierrors.IsNotFound(err):
		return w.Client.Create(ctx, leaders)
	case err != nil:
		return err
	case *existing.Spec.Replicas != n:
		existing.Spec.Replicas = &n
		return w.Client.Update(ctx, existing)
	}
	status := map[string]any{
		"replicas": int64(existing.Status.Replicas), "readyReplicas": int64(existing.Status.AvailableReplicas),
		"hpaPodSelector": label + "=" + lws.GetName(),
	}
	if before, _, _ := unstructured.NestedMap(lws.Object, "status"); fmt.Sprint(before) == fmt.Sprint(status) {
		return nil
	}
	lws.Object["status"] = status
	return w.Client.Status().Update(ctx, lws)
}

// waitFor polls until the object is as the check wants it.
func waitFor(w *rsgtest.World, what string, obj client.Object, namespace, name string, check func() error) {
	w.T.Helper()
	testkit.Eventually(w.T, rsgtest.Patience, what, func(ctx context.Context) error {
		if err := w.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, obj); err != nil {
			return err
		}
		return check()
	})
}
