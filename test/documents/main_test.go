// Package documents walks through what the documents of the original products tell a user to run: to look at an installation,
// to see what is scaled and why, to switch it off and on, and to find out what is wrong. What the documents say about scaling
// itself is proven by the suites of the kinds; docs/differences.md has the commands that cannot be as they were.
package documents

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
	"github.com/pd-orchestrator/pd-orchestrator/test/installed"
)

var (
	// env is the lab with the product as its chart installs it.
	env *estest.Env
	// rester asks the API server what the client has no types for.
	rester rest.Interface
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	options := lab.Options{With: []string{lab.MetricsServer, lab.Helm}, HPASyncPeriod: time.Second}
	os.Exit(estest.MainOfBareLab(m, &env, options, start))
}

const (
	release    = "pd-orchestrator"
	components = "scaling-system"
)

// start installs the product by the command of the README, with two values of the lab's own.
func start(ctx context.Context, e *estest.Env) error {
	clientset, err := kubernetes.NewForConfig(e.Lab.AdminConfig())
	if err != nil {
		return err
	}
	rester = clientset.RESTClient()
	helm, err := installed.NewHelm(e.Lab)
	if err != nil {
		return err
	}
	if _, err := helm.Run(ctx, "install", release, installed.Chart, "--set", "resourcescalinggroup.namespace.create=true",
		"--set", "prometheus.address="+e.Lab.PrometheusURL(), "--set", "elastic-scaler.endpoints.allow={127.0.0.0/8}"); err != nil {
		return err
	}
	e.Components, err = installed.Run(ctx, e.Lab, e.Client, components)
	return err
}

// apply creates what of the files is not there, with names replaced.
func apply(w *estest.World, replace *strings.Replacer, files ...string) {
	w.T.Helper()
	for _, file := range files {
		text, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			w.T.Fatal(err)
		}
		for document := range strings.SplitSeq(replace.Replace(string(text)), "\n---\n") {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
				w.T.Fatal(err)
			}
			if err := w.Client.Create(w.T.Context(), object, client.FieldValidation("Strict")); err != nil && !apierrors.IsAlreadyExists(err) {
				w.T.Fatal(err)
			}
		}
	}
}

// getShows waits until `kubectl get` of a resource prints this heading and these lines. The age is left out.
func getShows(w *estest.World, path, heading string, lines ...string) {
	w.T.Helper()
	testkit.Eventually(w.T, estest.Patience, "kubectl get "+path, func(ctx context.Context) error {
		body, err := rester.Get().AbsPath(path).SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(ctx)
		if err != nil {
			return err
		}
		var table metav1.Table
		if err := json.Unmarshal(body, &table); err != nil {
			return err
		}
		var columns, rows []string
		for _, c := range table.ColumnDefinitions {
			columns = append(columns, c.Name)
		}
		for _, row := range table.Rows {
			var cells []string
			for _, cell := range row.Cells[:len(row.Cells)-1] {
				if cell == nil {
					cell = ""
				}
				cells = append(cells, fmt.Sprint(cell))
			}
			rows = append(rows, strings.Join(cells, "|"))
		}
		if got := strings.Join(columns, "|"); got != heading+"|Age" {
			return fmt.Errorf("the columns are %s, want %s|Age", got, heading)
		}
		slices.Sort(lines)
		if slices.Sort(rows); !slices.Equal(rows, lines) {
			return fmt.Errorf("the lines are %q, want %q", rows, lines)
		}
		return nil
	})
}

// eventsHold waits for an event that `kubectl get events --field-selector involvedObject.kind=...` prints.
func eventsHold(w *estest.World, kind, name, reason, text string) {
	w.T.Helper()
	testkit.Eventually(w.T, estest.Patience, "an event of "+name+": "+text, func(ctx context.Context) error {
		var list corev1.EventList
		if err := w.Client.List(ctx, &list, client.InNamespace(w.Namespace), client.MatchingFields{"involvedObject.kind": kind}); err != nil {
			return err
		}
		var seen []string
		for _, e := range list.Items {
			if e.InvolvedObject.Name == name && e.Reason == reason && strings.Contains(e.Message, text) {
				return nil
			}
			seen = append(seen, e.InvolvedObject.Name+" "+e.Reason+": "+e.Message)
		}
		return fmt.Errorf("there are %q", seen)
	})
}

// logHolds fails unless one line of a component's log holds all the texts.
func logHolds(w *estest.World, component string, texts ...string) {
	w.T.Helper()
	lines, err := w.Components[component].Logs(100_000)
	if err != nil {
		w.T.Fatal(err)
	}
line:
	for line := range strings.SplitSeq(lines, "\n") {
		for _, text := range texts {
			if !strings.Contains(line, text) {
				continue line
			}
		}
		return
	}
	w.T.Errorf("no line of the log holds all of %q", texts)
}
