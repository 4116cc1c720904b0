package elasticscaler

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab/faulty"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
)

// The kind of a target may be written in lower case and without its group, as in the values of charts.
func TestTargetsByTheirBareKind(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server := w.Server(faulty.Options{})
	tell(server, "queue", "40")
	w.CreateTarget(2)
	scaler := between(w, server, 1, 10)
	scaler.Spec.TargetRef = v1alpha1.TargetReference{Kind: "deployment", Name: w.Name}
	w.Create(scaler)
	w.WaitReplicas(4)
	w.Condition(v1alpha1.ConditionValidated, metav1.ConditionTrue, v1alpha1.ReasonValid)
	// A change of the target by others is noticed by watch.
	w.ScaleTo(8)
	w.WaitReplicas(4)
}

// A target may be in another namespace, where the operator trusts those who write scalers. An HPA cannot follow it there.
func TestATargetInAnotherNamespace(t *testing.T) {
	t.Parallel()
	w, other := env.World(t), env.World(t)
	server := w.Server(faulty.Options{})
	tell(server, "queue", "40")
	other.CreateTarget(2)
	scaler := between(w, server, 1, 10)
	scaler.Spec.TargetRef.Namespace = other.Namespace
	w.Create(scaler)
	other.WaitReplicas(4)
	w.Event("Normal", v1alpha1.ReasonScaled, "Deployment "+other.Namespace+"/inference", "from 2 to 4")
	w.Edit(func(s *v1alpha1.ElasticScaler) {
		s.Spec.Trigger = estest.Metrics("HPA", v1alpha1.MetricSpec{Type: v1alpha1.ExternalMetricType, External: &v1alpha1.ExternalMetricSource{
			MetricsName: "queue", Target: v1alpha1.MetricTarget{Type: v1alpha1.AverageValueMetricType, AverageValue: metric(server, "queue").ExternalServer.Target},
		}})
	})
	w.Condition(v1alpha1.ConditionValidated, metav1.ConditionFalse, v1alpha1.ReasonInvalidSpec, "spec.targetRef.namespace", other.Namespace, "must be the namespace of the ElasticScaler")
}

// A ResourceScalingGroup is counted in groups, however many pods a group has.
func TestGroupsAreCountedAndNotPods(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server := w.Server(faulty.Options{})
	tell(server, "queue", "20")
	w.Create(testkit.MakeDeployment(w.Namespace, "prefill").Replicas(3).Obj(),
		testkit.MakeRSG(w.Namespace, w.Name).GroupName("pd").Target("prefill", w.Namespace, "prefill").Replicas(2).Obj())
	scaler := between(w, server, 1, 10)
	scaler.Spec.TargetRef = v1alpha1.TargetReference{Kind: "resourcescalinggroup", Name: w.Name}
	w.Create(scaler)
	w.Condition(v1alpha1.ConditionScalingCalculated, metav1.ConditionTrue, v1alpha1.ReasonWithinTolerance)
	if in := input(t, w.Live(), "queue"); in.Value != "10" {
		t.Errorf("20 for two groups is shown as %s per group, want 10", in.Value)
	}
	tell(server, "queue", "40")
	groups := func(want int32) {
		t.Helper()
		testkit.Eventually(t, estest.Patience, fmt.Sprintf("%d groups", want), func(ctx context.Context) error {
			rsg := &autoscalingv1alpha1.ResourceScalingGroup{}
			if err := w.Client.Get(ctx, types.NamespacedName{Namespace: w.Namespace, Name: w.Name}, rsg); err != nil {
				return err
			}
			if asked, have := *rsg.Spec.ScalingStrategy.GroupConfig.Replicas, rsg.Status.CurrentReplicas; asked != want || have == nil || *have != want {
				return fmt.Errorf("%d are asked for", asked)
			}
			return nil
		})
	}
	groups(4)
	w.Event("Normal", v1alpha1.ReasonScaled, "ResourceScalingGroup", "from 2 to 4")
	tell(server, "queue", "10")
	groups(1)
}

// A ResourceScalingGroup without a group count is no target.
func TestAGroupThatFollowsARatioIsNoTarget(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server := w.Server(faulty.Options{})
	tell(server, "queue", "40")
	w.Create(pairOf(t, w, "inference", "prefill", 1))
	scaler := between(w, server, 1, 10)
	scaler.Spec.TargetRef = v1alpha1.TargetReference{APIVersion: "autoscaling.openfuyao.com/v1alpha1", Kind: "ResourceScalingGroup", Name: w.Name}
	w.Create(scaler)
	w.Condition(v1alpha1.ConditionValidated, metav1.ConditionFalse, v1alpha1.ReasonTargetNotScalable, "InplaceScaling", "target its leader instead")
}

// A target that is not there, or goes, is waited for; the one that comes is another one, and is judged afresh.
func TestTheTargetGoesAndComes(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server := w.Server(faulty.Options{})
	tell(server, "queue", "40")
	w.Create(between(w, server, 1, 10))
	w.Condition(v1alpha1.ConditionValidated, metav1.ConditionFalse, v1alpha1.ReasonTargetNotFound, "inference does not exist", "create it, or correct spec.targetRef")
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonTargetNotFound)
	if n := server.Count("", ""); n > 0 {
		t.Errorf("the metric of a target that is not there was asked for %d times", n)
	}
	began := time.Now()
	w.CreateTarget(2)
	w.WaitReplicas(4)
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
	if after := time.Since(began); after > 30*time.Second {
		t.Errorf("the target was found after %s, so by a retry and not by watch", after)
	}
	if err := w.Client.Delete(t.Context(), testkit.MakeDeployment(w.Namespace, w.Name).Obj()); err != nil {
		t.Fatal(err)
	}
	gone := w.Condition(v1alpha1.ConditionValidated, metav1.ConditionFalse, v1alpha1.ReasonTargetNotFound)
	if gone.Status.CurrentReplicas != nil {
		t.Errorf("the count of a target that is gone is shown as %d", *gone.Status.CurrentReplicas)
	}
	w.CreateTarget(7)
	w.WaitReplicas(4)
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
}

// Deleting a scaler leaves the count, at once and for good, although nobody answers for its metrics and somebody writes to
// it all the time. Its series in the manager's metrics go.
func TestDeletingAScalerLeavesTheCount(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server := w.Server(faulty.Options{})
	tell(server, "queue", "50")
	w.CreateTarget(2)
	counts := w.Record()
	scaler := between(w, server, 1, 10)
	w.Create(scaler)
	counts.Wait(2, 4, 5)
	labels := map[string]string{"namespace": w.Namespace, "name": w.Name}
	series := []string{"pdo_elasticscaler_desired_replicas", "pdo_elasticscaler_metric_value", "pdo_elasticscaler_proposed_replicas", "pdo_elasticscaler_metric_target"}
	for _, name := range series {
		testkit.Eventually(t, estest.Patience, "a series of "+name, func(ctx context.Context) error {
			if _, found, err := env.Series(ctx, name, labels); err != nil || !found {
				return fmt.Errorf("there is none (%w)", err)
			}
			return nil
		})
	}
	server.Answer(faulty.Hang())
	server.AnswerQuery(sumOf("queue"), faulty.Hang())
	w.Evaluated(server, 0)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"example.org/touched":"%d"}}}`, i))
				_ = w.Client.Patch(context.Background(), &v1alpha1.ElasticScaler{ObjectMeta: scaler.ObjectMeta}, patch)
			}
		}
	}()
	began := time.Now()
	err := w.Client.Delete(t.Context(), &v1alpha1.ElasticScaler{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(scaler), &v1alpha1.ElasticScaler{}); !apierrors.IsNotFound(err) {
		t.Errorf("%s after it was deleted the scaler is still there (%v)", time.Since(began), err)
	}
	close(stop)
	<-stopped
	for _, name := range series {
		testkit.Eventually(t, estest.Patience, "the series of "+name+" to go", func(ctx context.Context) error {
			if _, found, err := env.Series(ctx, name, labels); err != nil || found {
				return fmt.Errorf("it is there (%w)", err)
			}
			return nil
		})
	}
	w.ScaleTo(3)
	w.KeepsReplicas(3)
}

// Scaling changes the count and nothing else: what a typed client would rewrite stays, and no pod is replaced.
func TestScalingTouchesTheCountOnly(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server := w.Server(faulty.Options{})
	tell(server, "queue", "40")
	w.CreateTarget(2)
	before := &unstructured.Unstructured{}
	before.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	key := types.NamespacedName{Namespace: w.Namespace, Name: w.Name}
	if err := w.Client.Get(t.Context(), key, before); err != nil {
		t.Fatal(err)
	}
	w.Create(between(w, server, 1, 10))
	w.WaitReplicas(4)
	after := before.DeepCopy()
	if err := w.Client.Get(t.Context(), key, after); err != nil {
		t.Fatal(err)
	}
	if after.GetGeneration() != before.GetGeneration()+1 {
		t.Errorf("the generation went from %d to %d, want one change", before.GetGeneration(), after.GetGeneration())
	}
	for _, u := range []*unstructured.Unstructured{before, after} {
		unstructured.RemoveNestedField(u.Object, "spec", "replicas")
	}
	if b, a := fmt.Sprint(before.Object["spec"]), fmt.Sprint(after.Object["spec"]); a != b {
		t.Errorf("the rest of the spec went from\n%s\nto\n%s", b, a)
	}
}

// A kind that nobody serves is waited for, and its going away again is no harm to others.
func TestTheKindOfATargetComesAndGoes(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server := w.Server(faulty.Options{})
	tell(server, "queue", "40")
	kind := schema.GroupVersionKind{Group: "engines.example.org", Version: "v1", Kind: "Engine"}
	crd := scalableCRD(kind, "engines")
	t.Cleanup(func() { _ = env.Client.Delete(context.Background(), crd.DeepCopy()) })
	scaler := between(w, server, 1, 10)
	scaler.Spec.TargetRef = v1alpha1.TargetReference{Kind: "engine", Name: w.Name}
	w.Create(scaler)
	w.Condition(v1alpha1.ConditionValidated, metav1.ConditionFalse, v1alpha1.ReasonTargetKindNotFound, "engine", "install its CRD")
	w.Create(crd)
	engine := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(2)}}}
	engine.SetGroupVersionKind(kind)
	engine.SetNamespace(w.Namespace)
	engine.SetName(w.Name)
	testkit.Eventually(t, estest.Patience, "the new kind to be served", func(ctx context.Context) error {
		return w.Client.Create(ctx, engine.DeepCopy())
	})
	// No watch tells of a kind that comes. It is looked for once a minute.
	testkit.Eventually(t, 2*estest.Patience, "the engine to be scaled", func(ctx context.Context) error {
		live := engine.DeepCopy()
		if err := w.Client.Get(ctx, client.ObjectKeyFromObject(engine), live); err != nil {
			return err
		}
		if n, _, _ := unstructured.NestedInt64(live.Object, "spec", "replicas"); n != 4 {
			return fmt.Errorf("it has %d replicas", n)
		}
		return nil
	})
	if err := env.Client.Delete(t.Context(), crd.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	w.Until("the scaler to miss its target", func(s *v1alpha1.ElasticScaler) error {
		if !meta.IsStatusConditionFalse(s.Status.Conditions, v1alpha1.ConditionValidated) {
			return errNotYet
		}
		return nil
	})
}

// scalableCRD defines a namespaced kind with the usual scale subresource.
func scalableCRD(kind schema.GroupVersionKind, plural string) *apiextensionsv1.CustomResourceDefinition {
	open := true
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + kind.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: kind.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind.Kind, ListKind: kind.Kind + "List", Plural: plural},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: kind.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &open}},
				Subresources: &apiextensionsv1.CustomResourceSubresources{
					Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
					Scale:  &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas"},
				},
			}},
		},
	}
}
