package api_test

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	autoscalingv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	elasticscalerv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	omev1beta1 "github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	tidalv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
)

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		autoscalingv1alpha1.AddToScheme, elasticscalerv1alpha1.AddToScheme, omev1beta1.AddToScheme, tidalv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// TestDocumentManifests applies what the documents print, with the corrections that the files name. What is stored must
// also pass through the Go types without loss.
func TestDocumentManifests(t *testing.T) {
	scheme := newScheme(t)
	for _, file := range manifestFiles(t, "testdata/documents/*.yaml") {
		for _, object := range readManifests(t, file) {
			t.Run(filepath.Base(file)+"/"+object.GetName(), func(t *testing.T) {
				stored, err := create(t.Context(), object, false)
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				checkRoundTrip(t, scheme, stored)
			})
		}
	}
}

// checkRoundTrip decodes an object strictly into its Go type and compares what comes out again. Values of an
// algorithmConfig come out as strings, which means the same.
func checkRoundTrip(t *testing.T, scheme *runtime.Scheme, stored *unstructured.Unstructured) {
	t.Helper()
	typed, err := scheme.New(stored.GroupVersionKind())
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(stored.Object)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, typed); err != nil {
		t.Fatalf("decoding strictly: %v", err)
	}
	again, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		t.Fatal(err)
	}
	path := []string{"spec", "trigger", "metricsTrigger", "algorithmConfig"}
	for _, object := range []map[string]any{again, stored.Object} {
		unstructured.RemoveNestedField(object, path...)
		unstructured.RemoveNestedField(object, "metadata", "managedFields")
	}
	if diff := cmp.Diff(stored.Object["spec"], again["spec"]); diff != "" {
		t.Errorf("the Go type loses or adds something (-stored +typed):\n%s", diff)
	}
}
