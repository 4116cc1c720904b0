// Package docs tests that the manifests in the documentation are accepted by a real API server, with all CRDs and webhooks of
// the product in place.
package docs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/pd-orchestrator/pd-orchestrator/internal/config"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab"
)

const (
	root = "../.."
	// soon is how long anything may take on a busy machine.
	soon = 30 * time.Second
	// notice is how long a webhook may take to know that an earlier object is there, or gone.
	notice = 5 * time.Second
)

// api acts as the administrator of the lab, without a cache.
var api client.Client

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
	ctrl.SetLogger(logr.Discard())
	// Pods are not what this is about, so there are no nodes.
	plane, err := lab.Start(ctx, lab.Options{WithoutMetrics: true, Nodes: -1})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	if err := errors.Join(plane.InstallProduct(ctx), plane.InstallKEDACRDs(ctx)); err != nil {
		return 1, err
	}
	if _, err := plane.StartManager(ctx, lab.ManagerOptions{}); err != nil {
		return 1, err
	}
	if api, err = client.New(plane.AdminConfig(), client.Options{}); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// block is a fenced block of YAML.
type block struct {
	file string
	// line of its first line.
	line int
	// marker is the HTML comment on the line before it.
	marker string
	text   string
}

func (b block) String() string {
	return fmt.Sprintf("%s:%d", strings.TrimPrefix(b.file, root+"/"), b.line)
}

// document is a YAML document of a block.
type document struct {
	block
	object map[string]any
}

var comment = regexp.MustCompile(`^<!-- (.*) -->$`)

// blocksOf returns the fenced blocks of YAML of a page.
func blocksOf(t *testing.T, file string) []block {
	t.Helper()
	text, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []block
	var open *block
	line, before := 0, ""
	for scanner := bufio.NewScanner(bytes.NewReader(text)); scanner.Scan(); {
		line++
		switch now := scanner.Text(); {
		case open == nil && now == "```yaml":
			open = &block{file: file, line: line + 1}
			if m := comment.FindStringSubmatch(before); m != nil {
				open.marker = m[1]
			}
		case open != nil && now == "```":
			blocks = append(blocks, *open)
			open = nil
		case open != nil:
			open.text += now + "\n"
		default:
			before = now
		}
	}
	if open != nil {
		t.Errorf("%s: the block does not end", open)
	}
	return blocks
}

// documents returns what a block holds.
func (b block) documents(t *testing.T) []document {
	t.Helper()
	var found []document
	at := b.line
	for text := range strings.SplitSeq(b.text, "\n---\n") {
		d := document{block: b}
		d.line, d.text = at, text
		at += strings.Count(text, "\n") + 2
		if err := yaml.UnmarshalStrict([]byte(text), &d.object); err != nil {
			t.Errorf("%s: %v", d, err)
			continue
		}
		found = append(found, d)
	}
	return found
}

// TestTheExamplesOfTheDocumentationWork applies the manifests of each page in their order, and takes them away after it, so that
// pages may use the same names. Settings of the manager and Helm values are read as strictly as the manager and Helm do.
func TestTheExamplesOfTheDocumentationWork(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	files = append([]string{filepath.Join(root, "README.md"), filepath.Join(root, "README.zh-CN.md")}, files...)
	applied, refused, settings, values := 0, 0, 0, 0
	for _, file := range files {
		var made []*unstructured.Unstructured
		for _, b := range blocksOf(t, file) {
			words, mustFail := strings.CutPrefix(b.marker, "refused: ")
			for _, d := range b.documents(t) {
				switch {
				case b.marker == "values":
					values++
					checkValues(t, d)
				case d.object["apiVersion"] == nil || d.object["kind"] == nil:
					// A part of something.
				case d.object["kind"] == config.Kind:
					settings++
					if _, err := config.Parse([]byte(d.text)); err != nil {
						t.Errorf("%s: %v", d, err)
					}
				case mustFail:
					refused++
					expectRefusal(t, d, words)
				default:
					applied++
					if object := apply(t, d); object != nil {
						made = append(made, object)
					}
				}
			}
		}
		remove(t, made)
	}
	t.Logf("%d manifests applied, %d refused, %d configurations, %d sets of values", applied, refused, settings, values)
	if applied < 15 || refused < 1 || settings < 1 || values < 1 {
		t.Errorf("%d manifests to apply, %d to refuse, %d configurations and %d sets of values were found: this looks in the wrong places", applied, refused, settings, values)
	}
}

// inNamespace returns the object, in the namespace default where the text names none, whose namespace exists then.
func inNamespace(t *testing.T, d document) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{Object: d.object}
	namespaced, err := api.IsObjectNamespaced(object)
	if err != nil {
		t.Errorf("%s: %v", d, err)
		return nil
	}
	if !namespaced {
		return object
	}
	if object.GetNamespace() == "" {
		object.SetNamespace(metav1.NamespaceDefault)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: object.GetNamespace()}}
	if err := api.Create(t.Context(), namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatalf("%s: %v", d, err)
	}
	return object
}

// apply creates the object, or brings an earlier one of its name to what the text says. A field that nobody knows is an error.
// It returns nil where it failed, or the object was there already.
func apply(t *testing.T, d document) *unstructured.Unstructured {
	t.Helper()
	object := inNamespace(t, d)
	if object == nil {
		return nil
	}
	var fresh *unstructured.Unstructured
	var err error
	// A poll that ran out of time says less than its last answer.
	_ = wait.PollUntilContextTimeout(t.Context(), 4*testkit.PollInterval, notice, true, func(ctx context.Context) (bool, error) {
		fresh = object.DeepCopy()
		err = api.Create(ctx, fresh, client.FieldValidation(metav1.FieldValidationStrict))
		return !apierrors.IsInvalid(err), nil
	})
	if apierrors.IsAlreadyExists(err) {
		if err := api.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("documentation"), client.ForceOwnership); err != nil {
			t.Errorf("%s: %v", d, err)
		}
		return nil
	}
	if err != nil {
		t.Errorf("%s: %v", d, err)
		return nil
	}
	return fresh
}

// expectRefusal waits until a dry run is refused with the words. What an earlier manifest made may not be known at once.
func expectRefusal(t *testing.T, d document, words string) {
	t.Helper()
	object := inNamespace(t, d)
	if object == nil {
		return
	}
	var err error
	_ = wait.PollUntilContextTimeout(t.Context(), 4*testkit.PollInterval, notice, true, func(ctx context.Context) (bool, error) {
		err = api.Create(ctx, object.DeepCopy(), client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
		return err != nil, nil
	})
	switch {
	case err == nil:
		t.Errorf("%s: it is accepted, want it refused with %q", d, words)
	case !strings.Contains(err.Error(), words):
		t.Errorf("%s: %v, want in it %q", d, err, words)
	}
}

// remove deletes what a page made, the last first, and waits until no trace of it would be in the way of the next page.
func remove(t *testing.T, made []*unstructured.Unstructured) {
	t.Helper()
	for i := len(made) - 1; i >= 0; i-- {
		object := made[i]
		if object.GetKind() == "Namespace" {
			continue // It would take time to go, and is needed again.
		}
		if err := api.Delete(t.Context(), object); client.IgnoreNotFound(err) != nil {
			t.Fatalf("deleting %s %s: %v", object.GetKind(), object.GetName(), err)
		}
		testkit.Eventually(t, soon, "the end of "+object.GetKind()+" "+object.GetName(), func(ctx context.Context) error {
			err := api.Get(ctx, client.ObjectKeyFromObject(object), object.DeepCopy())
			if err == nil {
				return errors.New("it is still there")
			}
			return client.IgnoreNotFound(err)
		})
	}
}

// checkValues checks Helm values against the chart's schema, which refuses keys that do not exist.
func checkValues(t *testing.T, d document) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "charts", "pd-orchestrator", "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var schema spec.Schema
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	if err := validate.AgainstSchema(&schema, d.object, strfmt.Default); err != nil {
		t.Errorf("%s: %v", d, err)
	}
}
