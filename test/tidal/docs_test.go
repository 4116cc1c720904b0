package tidal

import (
	"os"
	"regexp"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

func TestTheExamplesOfTheDocumentationApply(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/tidal.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1) {
		for _, document := range regexp.MustCompile(`(?m)^---$`).Split(string(block[1]), -1) {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
				t.Fatalf("%v in\n%s", err, document)
			}
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: object.GetNamespace()}}
			if err := api.Create(t.Context(), namespace); err != nil && !apierrors.IsAlreadyExists(err) {
				t.Fatal(err)
			}
			if err := api.Create(t.Context(), object, client.DryRunAll, client.FieldValidation("Strict")); err != nil {
				t.Errorf("%v\n%s", err, document)
			}
			n++
		}
	}
	if n < 4 {
		t.Errorf("only %d manifests found", n)
	}
}
