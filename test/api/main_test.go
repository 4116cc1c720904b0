// Package api_test checks the API types against a real API server: that it takes the CRDs, what they accept, what they
// refuse and with which words.
package api_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/pd-orchestrator/pd-orchestrator/lab"
)

const crdFolder = "../../config/crd/bases"

// namespaces are those of the documents; the tables use the first.
var namespaces = []string{"ai-inference", "scaling-system", "llama-demo"}

// kubernetesVersion is that of the lab, such as 1.37.2.
var kubernetesVersion string

// client acts as the administrator of the lab that all tests of this package share.
var client dynamic.Interface

var resources = map[string]schema.GroupVersionResource{
	"ResourceScalingGroup": {Group: "autoscaling.openfuyao.com", Version: "v1alpha1", Resource: "resourcescalinggroups"},
	"ElasticScaler":        {Group: "elasticscaler.io", Version: "v1alpha1", Resource: "elasticscalers"},
	"Tidal":                {Group: "tidal.io", Version: "v1alpha1", Resource: "tidals"},
	"AutoscalerPolicy":     {Group: "ome.io", Version: "v1beta1", Resource: "autoscalerpolicies"},
	"InferenceService":     {Group: "ome.io", Version: "v1beta1", Resource: "inferenceservices"},
	"ServingRuntime":       {Group: "ome.io", Version: "v1beta1", Resource: "servingruntimes"},
	"BaseModel":            {Group: "ome.io", Version: "v1beta1", Resource: "basemodels"},
	// Cluster-wide.
	"ClusterServingRuntime": {Group: "ome.io", Version: "v1beta1", Resource: "clusterservingruntimes"},
	"ClusterBaseModel":      {Group: "ome.io", Version: "v1beta1", Resource: "clusterbasemodels"},
}

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	cluster, err := lab.Start(ctx, lab.Options{WithoutMetrics: true, Nodes: -1})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	kubernetesVersion = cluster.KubernetesVersion()
	if err := cluster.InstallCRDs(ctx, crdFolder); err != nil {
		return 1, err
	}
	if client, err = dynamic.NewForConfig(cluster.AdminConfig()); err != nil {
		return 1, err
	}
	core, err := kubernetes.NewForConfig(cluster.AdminConfig())
	if err != nil {
		return 1, err
	}
	for _, name := range namespaces {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := core.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return 1, err
		}
	}
	return m.Run(), nil
}

// create sends an object as kubectl does: unknown fields are errors, defaults are filled in.
func create(ctx context.Context, object *unstructured.Unstructured, dryRun bool) (*unstructured.Unstructured, error) {
	resource, known := resources[object.GetKind()]
	if !known || resource.GroupVersion() != object.GroupVersionKind().GroupVersion() {
		return nil, fmt.Errorf("%s is none of our kinds", object.GroupVersionKind())
	}
	options := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	return client.Resource(resource).Namespace(object.GetNamespace()).Create(ctx, object, options)
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatalf("reading the manifest: %v\n%s", err, text)
	}
	return object
}

// readManifests returns the objects of a YAML file.
func readManifests(t *testing.T, path string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for _, document := range strings.Split(string(text), "\n---\n") {
		objects = append(objects, parse(t, document))
	}
	return objects
}

func manifestFiles(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("no file matches %s", pattern)
	}
	return files
}

// variation is an object that differs from a valid one by a merge patch, and what the API server says to it.
type variation struct {
	name string
	// patch is a JSON merge patch, written as YAML. A list in it replaces the whole list.
	patch string
	// want are parts of the answer: the field's path, and what must hold.
	want []string
}

// refuseAll checks that each variation of a valid object is refused with the words it wants.
func refuseAll(t *testing.T, base string, variations []variation) {
	t.Helper()
	if _, err := create(t.Context(), parse(t, base), true); err != nil {
		t.Fatalf("the object that is varied must be valid: %v", err)
	}
	for _, v := range variations {
		t.Run(v.name, func(t *testing.T) {
			_, err := create(t.Context(), vary(t, base, v.patch), true)
			if err == nil {
				t.Fatalf("accepted, want it refused with %q", v.want)
			}
			if !apierrors.IsInvalid(err) {
				t.Errorf("got %T of reason %s, want Invalid: %v", err, apierrors.ReasonForError(err), err)
			}
			for _, want := range v.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the answer does not contain %q:\n%v", want, err)
				}
			}
		})
	}
}

// acceptAll checks that each variation of a valid object is accepted.
func acceptAll(t *testing.T, base string, variations []variation) {
	t.Helper()
	for _, v := range variations {
		t.Run(v.name, func(t *testing.T) {
			if _, err := create(t.Context(), vary(t, base, v.patch), true); err != nil {
				t.Errorf("refused: %v", err)
			}
		})
	}
}

func vary(t *testing.T, base, patch string) *unstructured.Unstructured {
	t.Helper()
	original, err := yaml.YAMLToJSON([]byte(base))
	if err != nil {
		t.Fatalf("reading the object: %v", err)
	}
	change, err := yaml.YAMLToJSON([]byte(patch))
	if err != nil {
		t.Fatalf("reading the patch: %v\n%s", err, patch)
	}
	varied, err := jsonpatch.MergePatch(original, change)
	if err != nil {
		t.Fatalf("applying the patch: %v", err)
	}
	return parse(t, string(varied))
}
