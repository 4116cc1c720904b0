// Package late tests what happens when kinds that the component can do without come after it, and go again.
package late

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab"
	"github.com/pd-orchestrator/pd-orchestrator/test/autoscalerpolicy/ometest"
)

const policyCRD = "autoscalerpolicies.ome.io"

var env *ometest.Env

func TestMain(m *testing.M) {
	os.Exit(ometest.Main(m, &env, lab.Options{WithoutMetrics: true}, removePolicies))
}

func removePolicies(ctx context.Context, e *ometest.Env) error { return removeCRDs(ctx, e, policyCRD) }

func removeCRDs(ctx context.Context, e *ometest.Env, names ...string) error {
	var errs []error
	for _, name := range names {
		crd := &unstructured.Unstructured{}
		crd.SetAPIVersion("apiextensions.k8s.io/v1")
		crd.SetKind("CustomResourceDefinition")
		crd.SetName(name)
		errs = append(errs, e.Client.Delete(ctx, crd))
	}
	return errors.Join(errs...)
}

const (
	policy = `
apiVersion: ome.io/v1beta1
kind: AutoscalerPolicy
metadata: {name: queue-depth}
spec:
  class: KEDA
  keda: {triggers: [{type: kafka, metadata: {topic: "{{ .ISVCName }}"}}]}
`
	object = "scaledobject-llama-engine"
)

func service(engine string) string {
	return `
apiVersion: ome.io/v1beta1
kind: InferenceService
metadata: {name: llama}
spec:
  model: {name: ` + ometest.Model + `}
  engine: {` + engine + `}
`
}

// TestKindsComeAndGo follows a cluster on which first policies are installed, then KEDA, and then both are taken away, all
// under a running manager.
func TestKindsComeAndGo(t *testing.T) {
	w := env.NewWorld(t)
	const byPolicy = "minReplicas: 1, maxReplicas: 4, autoscalerPolicyRef: {name: queue-depth}"
	w.MustApply(service("maxReplicas: 4"))
	w.Prints("inferenceservice", "llama", "HPA default", ometest.Class, ometest.Source)
	_, err := w.Apply(service(byPolicy))
	const disabled = `AutoscalerPolicyFeatureDisabled: spec.engine.autoscalerPolicyRef references "queue-depth" but the AutoscalerPolicy feature is not enabled on this cluster; remove the ref or enable the feature`
	if err == nil || !strings.Contains(err.Error(), disabled) {
		t.Fatalf("a reference without policies gives %v, want %s", err, disabled)
	}

	if err := w.Lab.InstallCRDs(t.Context(), filepath.Join("..", "..", "..", "config", "crd", "bases")); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, ometest.Soon, "references to be taken", func(context.Context) error {
		_, err := w.Apply(service(byPolicy))
		return err
	})
	w.MustApply(policy)
	w.Prints("autoscalerpolicy", "queue-depth", "True 1", ometest.Ready, ".status.attachedComponents")
	w.Prints("inferenceservice", "llama", "policy HPA ClassUnavailable NoRecord", ometest.Source, ometest.Class, ometest.Resolved, ometest.Applied)
	if got, want := w.ResolvedMessage("llama"), `holding last-known-good scaler: policy "queue-depth" renders class KEDA but the KEDA CRDs are not installed`; got != want {
		t.Errorf("the message is %q, want %q", got, want)
	}
	w.Present("hpa", "llama-engine")
	w.MustApply(strings.Replace(service("autoscaler: {class: KEDA, keda: {triggers: [{type: kafka, metadata: {}}]}}"), "name: llama}", "name: inline}", 1))
	w.Prints("inferenceservice", "inline", "isvc KedaUnavailable True", ometest.Source, ometest.Applied, ometest.Ready)

	start := time.Now()
	if err := w.Lab.InstallKEDACRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Prints("inferenceservice", "llama", "policy KEDA RenderedFromPolicy Applied", ometest.Source, ometest.Class, ometest.Resolved, ometest.Applied)
	w.Prints("inferenceservice", "inline", "isvc Applied", ometest.Source, ometest.Applied)
	t.Logf("KEDA is used %s after the install of its CRDs began", time.Since(start))
	w.Gone("hpa", "llama-engine")
	w.Prints("scaledobject", object, "llama 4", ".spec.triggers[0].metadata.topic", ".spec.maxReplicaCount")

	if err := removeCRDs(t.Context(), w.Env, "scaledobjects.keda.sh", "triggerauthentications.keda.sh"); err != nil {
		t.Fatal(err)
	}
	w.Prints("inferenceservice", "llama", "policy KEDA ClassUnavailable KedaUnavailable", ometest.Source, ometest.Class, ometest.Resolved, ometest.Applied)
	if err := w.Lab.InstallKEDACRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Prints("inferenceservice", "llama", "policy KEDA RenderedFromPolicy Applied", ometest.Source, ometest.Class, ometest.Resolved, ometest.Applied)
	w.Present("scaledobject", object)

	if err := removePolicies(t.Context(), w.Env); err != nil {
		t.Fatal(err)
	}
	w.Prints("inferenceservice", "llama", "policy PolicyNotFound", ometest.Source, ometest.Resolved)
	testkit.Eventually(t, ometest.Soon, "the hold to say that there are no policies", func(context.Context) error {
		// Its objects go before a CRD does.
		if got := w.ResolvedMessage("llama"); got != "holding last-known-good scaler: the AutoscalerPolicy feature is not enabled on this cluster" {
			return errors.New(got)
		}
		return nil
	})
	w.Present("scaledobject", object)
	// A service that has a reference already still takes a new image.
	w.MustApply(service(byPolicy + ", runner: {image: 'vllm/vllm-openai:v1.0'}"))
	w.Prints("deployment", "llama-engine", "vllm/vllm-openai:v1.0", ".spec.template.spec.containers[0].image")
}
