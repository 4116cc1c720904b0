package elasticscaler

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
)

// forecastKind is the kind of sources that the manager is told of and that nobody serves at its start.
var forecastKind = schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Forecast"}

// forecastCRD defines it. It has no scale subresource, and its count is any value.
func forecastCRD() *apiextensionsv1.CustomResourceDefinition {
	crd := scalableCRD(forecastKind, "forecasts")
	crd.Spec.Versions[0].Subresources.Scale = nil
	return crd
}

// serveForecasts installs the kind, once for all tests.
func serveForecasts(t *testing.T) {
	t.Helper()
	if err := client.IgnoreAlreadyExists(env.Client.Create(t.Context(), forecastCRD())); err != nil {
		t.Fatal(err)
	}
}

// forecast is a source of the world's scaler.
func forecast(w *estest.World, name string) *unstructured.Unstructured {
	f := &unstructured.Unstructured{}
	f.SetGroupVersionKind(forecastKind)
	f.SetNamespace(w.Namespace)
	f.SetName(name)
	f.SetLabels(map[string]string{v1alpha1.LabelScalerName: w.Name, v1alpha1.LabelScalerNamespace: w.Namespace})
	return f
}

// create creates a source with a count, any value or none.
func create(w *estest.World, f *unstructured.Unstructured, count any) {
	w.T.Helper()
	testkit.Eventually(w.T, estest.Patience, "forecasts to be served", func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(w.Client.Create(ctx, f.DeepCopy()))
	})
	if count != nil {
		want(w, f, count)
	}
}

// want sets the count of a source.
func want(w *estest.World, f *unstructured.Unstructured, count any) {
	w.T.Helper()
	if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		live := f.DeepCopy()
		if err := w.Client.Get(w.T.Context(), client.ObjectKeyFromObject(f), live); err != nil {
			return err
		}
		if err := unstructured.SetNestedField(live.Object, count, "status", "desiredReplicas"); err != nil {
			return err
		}
		return w.Client.Status().Update(w.T.Context(), live)
	}); err != nil {
		w.T.Fatal(err)
	}
}

// byState is a scaler without bounds that a source drives.
func byState(w *estest.World) *v1alpha1.ElasticScaler {
	scaler := w.Scaler(v1alpha1.Trigger{Type: v1alpha1.StateTriggerType})
	scaler.Spec.MinReplicas, scaler.Spec.MaxReplicas, scaler.Spec.IntervalSeconds = nil, nil, nil
	return scaler
}

// A kind of sources that is installed long after the manager began drives scalers like any other. There are no bounds but
// those that the user wrote.
func TestTheCountFollowsASource(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	w.CreateTarget(2)
	counts := w.Record()
	w.Create(byState(w))
	w.Condition(v1alpha1.ConditionScalingCalculated, metav1.ConditionFalse, v1alpha1.ReasonNoSource, "elasticscaler.io/name: inference")
	serveForecasts(t)
	f := forecast(w, "morning")
	create(w, f, int64(25))
	counts.Wait(2, 25)
	w.Event("Normal", v1alpha1.ReasonScaled, "from 2 to 25", "Forecast "+w.Namespace+"/morning wants 25 replicas")
	scaler := w.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
	in := input(t, scaler, "Forecast "+w.Namespace+"/morning")
	if in.Type != "State" || in.Value != "25" || scaler.Status.MinReplicas != nil || scaler.Status.MaxReplicas != nil {
		t.Errorf("the input is %+v with bounds %v and %v, want 25 and none", in, scaler.Status.MinReplicas, scaler.Status.MaxReplicas)
	}
	want(w, f, int64(0))
	counts.Wait(2, 25, 0)
	want(w, f, int64(3))
	counts.Wait(2, 25, 0, 3)
	w.Edit(func(s *v1alpha1.ElasticScaler) { s.Spec.MaxReplicas = new(int32(2)) })
	counts.Wait(2, 25, 0, 3, 2)
	w.Condition(v1alpha1.ConditionScalingCalculated, metav1.ConditionTrue, v1alpha1.ReasonMaxReplicas, "wants 3 replicas, and maxReplicas is 2")
	w.Edit(func(s *v1alpha1.ElasticScaler) { s.Spec.MinReplicas, s.Spec.MaxReplicas = new(int32(5)), nil })
	counts.Wait(2, 25, 0, 3, 2, 5)
	// What somebody else sets is put back.
	w.ScaleTo(4)
	counts.Wait(2, 25, 0, 3, 2, 5, 4, 5)
	// So is what happens while the source is gone: the count stays, and is nobody's.
	if err := w.Client.Delete(t.Context(), f.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	w.Condition(v1alpha1.ConditionScalingCalculated, metav1.ConditionFalse, v1alpha1.ReasonNoSource)
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNoSource)
	w.Event("Warning", v1alpha1.ReasonNoSource)
	counts.Wait(2, 25, 0, 3, 2, 5, 4, 5)
}

// A change of the source is followed by watch: the median of several is far below a second, also on a busy machine.
func TestASourceIsFollowedAtOnce(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	w.CreateTarget(1)
	serveForecasts(t)
	f := forecast(w, "load")
	create(w, f, int64(2))
	w.Create(byState(w))
	w.WaitReplicas(2)
	var took []time.Duration
	for n := int64(3); n < 10; n++ {
		began := time.Now()
		want(w, f, n)
		w.WaitReplicas(int32(n))
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	if median := took[len(took)/2]; median > 5*time.Second {
		t.Errorf("a change took %s in the median, all took %s", median, took)
	}
	t.Logf("changes took %s", took)
}

// A source without a usable count leaves the count as it is, with the reason.
func TestASourceWithoutACount(t *testing.T) {
	t.Parallel()
	serveForecasts(t)
	for name, tc := range map[string]struct {
		count  any
		reason string
		says   string
	}{
		"none":              {nil, v1alpha1.ReasonSourceWithoutCount, "has no status.desiredReplicas yet"},
		"a negative one":    {int64(-1), v1alpha1.ReasonSourceCountInvalid, "is -1: must be a whole number from 0"},
		"a fraction":        {2.5, v1alpha1.ReasonSourceCountInvalid, "is 2.5"},
		"a word":            {"4", v1alpha1.ReasonSourceCountInvalid, "is 4: must be a whole number"},
		"one beyond counts": {int64(1) << 40, v1alpha1.ReasonSourceCountInvalid, "is 1099511627776"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := env.World(t)
			w.CreateTarget(3)
			counts := w.Record()
			f := forecast(w, "load")
			create(w, f, tc.count)
			w.Create(byState(w))
			w.Condition(v1alpha1.ConditionScalingCalculated, metav1.ConditionFalse, tc.reason, "Forecast "+w.Namespace+"/load", tc.says)
			w.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, tc.reason)
			w.Event("Warning", tc.reason, tc.says)
			counts.Wait(3)
			want(w, f, int64(4))
			counts.Wait(3, 4)
			// It is as bad later on.
			if tc.count != nil {
				want(w, f, tc.count)
				w.Condition(v1alpha1.ConditionScalingCalculated, metav1.ConditionFalse, tc.reason)
				counts.Wait(3, 4)
			}
		})
	}
}

// Two sources contradict each other: the count stays until one has lost its labels.
func TestTwoSourcesOfOneScaler(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	w.CreateTarget(3)
	counts := w.Record()
	serveForecasts(t)
	first, second := forecast(w, "first"), forecast(w, "second")
	create(w, first, int64(5))
	w.Create(byState(w))
	counts.Wait(3, 5)
	create(w, second, int64(8))
	w.Condition(v1alpha1.ConditionScalingCalculated, metav1.ConditionFalse, v1alpha1.ReasonMultipleSources, w.Namespace+"/first", w.Namespace+"/second", "take the labels")
	want(w, first, int64(6))
	want(w, second, int64(9))
	w.KeepsReplicas(5)
	live := first.DeepCopy()
	if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(first), live); err != nil {
		t.Fatal(err)
	}
	patch := client.MergeFrom(live.DeepCopy())
	live.SetLabels(nil)
	if err := w.Client.Patch(t.Context(), live, patch); err != nil {
		t.Fatal(err)
	}
	counts.Wait(3, 5, 9)
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
}

// A source counts from the namespace of the scaler, and from another only where the scaler names that.
func TestASourceOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "elsewhere-"}}
	w.Create(other)
	t.Cleanup(func() { _ = env.Client.Delete(context.Background(), other) })
	w.CreateTarget(3)
	counts := w.Record()
	serveForecasts(t)
	f := forecast(w, "load")
	f.SetNamespace(other.Name)
	create(w, f, int64(7))
	w.Create(byState(w))
	w.Condition(v1alpha1.ConditionScalingCalculated, metav1.ConditionFalse, v1alpha1.ReasonSourceNamespaceForbidden, "Forecast "+other.Name+"/load", "sourceNamespaces")
	counts.Wait(3)
	allow := func(names ...v1alpha1.NamespaceName) {
		w.Edit(func(s *v1alpha1.ElasticScaler) {
			s.Spec.Trigger.StateTrigger = &v1alpha1.StateTrigger{SourceNamespaces: names}
		})
	}
	allow(v1alpha1.NamespaceName(other.Name))
	counts.Wait(3, 7)
	allow()
	w.Condition(v1alpha1.ConditionScalingCalculated, metav1.ConditionFalse, v1alpha1.ReasonSourceNamespaceForbidden)
	want(w, f, int64(9))
	// One of its own namespace counts beside it, as if the other were not there.
	own := forecast(w, "own")
	create(w, own, int64(5))
	counts.Wait(3, 7, 5)
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
}

// A scaler that names a Tidal which is not its source has no target.
func TestAScalerOfATidalThatDoesNotNameIt(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	scaler := byState(w)
	scaler.Spec.TargetRef = v1alpha1.TargetReference{Kind: "tidal", Name: "tide"}
	w.Create(scaler)
	w.Condition(v1alpha1.ConditionValidated, metav1.ConditionFalse, v1alpha1.ReasonTargetNotFound, "tide", "does not name this scaler by its labels")
	w.Event("Warning", v1alpha1.ReasonTargetNotFound, "tide")
}
