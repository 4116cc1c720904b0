package tidal

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	elasticscalerv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab"
)

var leaderWorkerSets = schema.GroupVersionKind{Group: "leaderworkerset.x-k8s.io", Version: "v1", Kind: "LeaderWorkerSet"}

func (w *world) on(gvk schema.GroupVersionKind, name string) v1alpha1.TargetReference {
	return v1alpha1.TargetReference{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Namespace: w.namespace, Name: name}
}

// has waits until an object of a kind has a count, by so many changes of its spec since it was created.
func (w *world) has(gvk schema.GroupVersionKind, name string, replicas, changes int64) {
	w.Helper()
	testkit.Eventually(w, soon, fmt.Sprintf("%d replicas of %s %s after %d changes", replicas, gvk.Kind, name, changes), func(context.Context) error {
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(gvk)
		if err := w.get(name, obj); err != nil {
			return err
		}
		if got, _, _ := unstructured.NestedInt64(obj.Object, "spec", "replicas"); got != replicas || obj.GetGeneration()-1 != changes {
			return fmt.Errorf("it has %d after %d changes", got, obj.GetGeneration()-1)
		}
		return nil
	})
}

// again has the controller look at a Tidal that it would look at in a minute.
func (w *world) again(name string) {
	w.Helper()
	w.clock.mu.Lock()
	w.clock.ahead += time.Minute + time.Second
	w.clock.mu.Unlock()
	update(w, name, &v1alpha1.Tidal{}, func(t *v1alpha1.Tidal) {
		t.Labels = map[string]string{"looked-at": fmt.Sprint(w.clock.Now().UnixNano())}
	})
}

func statefulSet(namespace, name string, replicas int32) *appsv1.StatefulSet {
	labels := map[string]string{"app": name}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "engine", Image: "example.org/engine:1"}}}},
		},
	}
}

func TestDirectModeOnAStatefulSet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2026-06-15T12:00:00Z")
	gvk := appsv1.SchemeGroupVersion.WithKind("StatefulSet")
	w.create(statefulSet(w.namespace, "llm", 1), w.makeTidal("tide", w.on(gvk, "llm"), "day|0 8 * * *|4", "night|0 20 * * *|0"))
	w.start()
	w.has(gvk, "llm", 4, 1)
	w.setTime("2026-06-15T20:00:00Z")
	w.has(gvk, "llm", 0, 2)
	w.setTime("2026-06-16T08:00:00Z")
	w.has(gvk, "llm", 4, 3)
	w.says("tide", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
}

// The kind may come after the controller, which then goes on without a restart.
func TestDirectModeOnALeaderWorkerSet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2026-06-15T12:00:00Z")
	w.create(w.makeTidal("tide", w.on(leaderWorkerSets, "llm"), "day|0 8 * * *|4", "night|0 20 * * *|0"))
	w.start()
	w.says("tide", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonTargetKindNotFound)
	if err := plane.InstallCRDs(t.Context(), "../resourcescalinggroup/kinds/testdata"); err != nil {
		t.Fatal(err)
	}
	w.again("tide")
	w.says("tide", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonTargetNotFound)
	lws := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(1)}}}
	lws.SetGroupVersionKind(leaderWorkerSets)
	lws.SetNamespace(w.namespace)
	lws.SetName("llm")
	w.create(lws)
	w.has(leaderWorkerSets, "llm", 4, 1)
	w.setTime("2026-06-15T20:00:00Z")
	w.has(leaderWorkerSets, "llm", 0, 2)
	w.says("tide", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
}

// A kind beyond those of the Role: without a right the Tidal says which, and with the two on the scale subresource it works.
func TestAKindThatTheManagerMayScaleButNotWatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2026-06-15T12:00:00Z")
	gvk := appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "llm"}}
	like := statefulSet(w.namespace, "llm", 1).Spec
	set.Spec = appsv1.ReplicaSetSpec{Replicas: like.Replicas, Selector: like.Selector, Template: like.Template}
	w.create(set, w.makeTidal("tide", w.on(gvk, "llm"), "day|0 8 * * *|4", "night|0 20 * * *|0"), w.makeTidal("missing", w.on(gvk, "missing"), "day|0 8 * * *|4"))
	w.identity = ownRole(t)
	first := w.start()
	message := w.says("tide", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonScaleFailed)
	if want := "give the manager's ServiceAccount the verbs get and update on it, and list and watch on the kind"; !strings.Contains(message, want) {
		t.Errorf("message is %q, want %q in it", message, want)
	}

	meta := metav1.ObjectMeta{Namespace: w.namespace, Name: "scale-replicasets"}
	w.create(
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"apps"}, Resources: []string{"replicasets/scale"}, Verbs: []string{"get", "update"}}}},
		&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: lab.ProductNamespace, Name: "pd-orchestrator-tidal"}}},
	)
	w.again("tide")
	w.has(gvk, "llm", 4, 1)
	w.says("tide", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
	w.again("missing")
	w.says("missing", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonTargetNotFound)
	// Between firings, and over a restart, the count belongs to others here too.
	if err := api.Patch(t.Context(), set.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":3}}`))); err != nil {
		t.Fatal(err)
	}
	first.stop()
	w.start()
	w.again("tide")
	w.setTime("2026-06-15T20:00:00Z")
	w.has(gvk, "llm", 0, 3)
}

func TestWhatIsBoundToWhat(t *testing.T) {
	t.Parallel()
	elsewhere := newWorld(t, "2026-06-15T12:00:00Z")
	w := newWorld(t, "2026-06-15T12:00:00Z")
	w.also = elsewhere.namespace
	w.deployment("llm", 1)
	scaler := &elasticscalerv1alpha1.ElasticScaler{}
	elsewhere.parse(documentScaler, scaler)
	w.create(scaler)
	half := w.makeTidal("half", w.on(appsv1.SchemeGroupVersion.WithKind("Deployment"), "llm"), "day|0 8 * * *|4")
	half.Labels = map[string]string{elasticscalerv1alpha1.LabelScalerName: scaler.Name}
	bound := w.makeTidal("bound", w.on(appsv1.SchemeGroupVersion.WithKind("Deployment"), "llm"), "day|0 8 * * *|7")
	bound.Labels = map[string]string{elasticscalerv1alpha1.LabelScalerName: scaler.Name, elasticscalerv1alpha1.LabelScalerNamespace: elsewhere.namespace}
	w.create(half, bound)
	w.start()

	// One label binds to nothing.
	if message := w.says("half", v1alpha1.ConditionBound, metav1.ConditionFalse, v1alpha1.ReasonIncompleteLabels); !strings.Contains(message, "set both, or neither") {
		t.Errorf("message is %q", message)
	}
	w.reaches("half", "llm", 4, 1)
	// A scaler of another namespace has to name ours.
	if message := w.says("bound", v1alpha1.ConditionBound, metav1.ConditionFalse, v1alpha1.ReasonSourceNotAllowed); !strings.Contains(message, "stateTrigger.sourceNamespaces") {
		t.Errorf("message is %q", message)
	}
	w.says("bound", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonSourceNotAllowed)
	w.wants("bound", 7, "day")
	update(elsewhere, scaler.Name, &elasticscalerv1alpha1.ElasticScaler{}, func(s *elasticscalerv1alpha1.ElasticScaler) {
		s.Spec.Trigger.StateTrigger.SourceNamespaces = []elasticscalerv1alpha1.NamespaceName{elasticscalerv1alpha1.NamespaceName(w.namespace)}
	})
	w.says("bound", v1alpha1.ConditionBound, metav1.ConditionTrue, v1alpha1.ReasonScalerApplies)
	w.says("bound", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
	// A bound one holds up nobody, and its conditions about the target go with its right to it.
	w.stays("llm", 4, 1)
	var tidal v1alpha1.Tidal
	if err := w.get("bound", &tidal); err != nil {
		t.Fatal(err)
	}
	for _, c := range tidal.Status.Conditions {
		if c.Type == v1alpha1.ConditionSharedTarget || c.Type == v1alpha1.ConditionScalerConflict {
			t.Errorf("it has condition %s", c.Type)
		}
	}
	if tidal.Status.LastScale != nil {
		t.Errorf("it has scaled: %s", show(tidal.Status))
	}
}

// Not parallel: the kind is missing for everybody.
func TestWithoutTheCRDOfElasticScalers(t *testing.T) {
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	crd.SetName("elasticscalers.elasticscaler.io")
	if err := api.Delete(t.Context(), crd.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, soon, "the CRD to be gone", func(ctx context.Context) error {
		if err := api.Get(ctx, client.ObjectKeyFromObject(crd), crd.DeepCopy()); !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading it: %w", err)
		}
		return nil
	})
	installed := false
	install := func() {
		installed = true
		if err := plane.InstallProduct(context.WithoutCancel(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		if !installed {
			install()
		}
	}()
	w := newWorld(t, "2026-06-15T12:00:00Z")
	w.deployment("llm", 1)
	w.tidal("direct", "llm", "day|0 8 * * *|4")
	bound := w.bind(w.makeTidal("bound", w.on(appsv1.SchemeGroupVersion.WithKind("Deployment"), "llm"), "day|0 8 * * *|7"), "scaler")
	w.create(bound)
	w.start()
	w.reaches("direct", "llm", 4, 1)
	if message := w.says("bound", v1alpha1.ConditionBound, metav1.ConditionFalse, v1alpha1.ReasonScalerNotFound); !strings.Contains(message, "its CRD is not installed") {
		t.Errorf("message is %q, want that the CRD is not installed", message)
	}
	install()
	w.create(w.parse(strings.ReplaceAll(documentScaler, "state-scaling-example", "scaler"), &elasticscalerv1alpha1.ElasticScaler{}))
	w.setTime("2026-06-15T12:02:00Z")
	update(w, "bound", &v1alpha1.Tidal{}, func(t *v1alpha1.Tidal) { t.Labels["looked-at"] = "again" })
	w.says("bound", v1alpha1.ConditionBound, metav1.ConditionTrue, v1alpha1.ReasonScalerApplies)
	w.stays("llm", 4, 1)
}
