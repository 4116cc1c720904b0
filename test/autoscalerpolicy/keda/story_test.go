package keda

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab"
	"github.com/pd-orchestrator/pd-orchestrator/lab/simulator/api"
	simulator "github.com/pd-orchestrator/pd-orchestrator/lab/simulator/client"
	"github.com/pd-orchestrator/pd-orchestrator/test/autoscalerpolicy/ometest"
)

const (
	waiting = "vllm:num_requests_waiting"
	running = "vllm:num_requests_running"
	llama   = ometest.Model
	object  = "scaledobject-" + llama + "-engine"
	// engine are the columns' common path.
	engine = ".status.components.engine.autoscaler"
)

// document reads a manifest that the documents print, by kind and name, into the test's namespace.
func document(t *testing.T, w *ometest.World, file, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "api", "testdata", "documents", file))
	if err != nil {
		t.Fatal(err)
	}
	for manifest := range strings.SplitSeq(string(text), "\n---\n") {
		if strings.Contains(manifest, "  name: "+name+"\n") {
			return strings.ReplaceAll(manifest, "namespace: llama-demo", "namespace: "+w.Namespace)
		}
	}
	t.Fatalf("%s has no %s", file, name)
	return ""
}

// serves pins what each pod of the namespace says.
func serves(t *testing.T, w *ometest.World, metrics map[string]api.Value) {
	t.Helper()
	if err := simulator.New(w.Lab.SimulatorURL(), nil).Pin(t.Context(), api.Pin{Namespace: w.Namespace, Metrics: metrics}); err != nil {
		t.Fatal(err)
	}
}

// scalesTo waits until the engine has a number of replicas.
func scalesTo(t *testing.T, w *ometest.World, service string, replicas int64) {
	t.Helper()
	testkit.Eventually(t, 2*ometest.Soon, fmt.Sprintf("%d replicas", replicas), func(context.Context) error {
		if got := w.Replicas(service); got != replicas {
			scaled := w.Get("scaledobject", "scaledobject-"+service+"-engine")
			if scaled == nil {
				return fmt.Errorf("there are %d and no ScaledObject", got)
			}
			return fmt.Errorf("there are %d; the ScaledObject says %v", got, scaled.Object["status"])
		}
		return nil
	})
}

// TestDocument is the documents' guide, in its order.
func TestDocument(t *testing.T) {
	t.Parallel()
	w := env.NewWorld(t)
	serves(t, w, map[string]api.Value{waiting: 0, running: 0})

	// Turn on the feature.
	for kind, name := range map[string]string{"CustomResourceDefinition": "autoscalerpolicies.ome.io", "ValidatingWebhookConfiguration": "autoscalerpolicy.ome.io"} {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion(map[string]string{"CustomResourceDefinition": "apiextensions.k8s.io/v1", "ValidatingWebhookConfiguration": "admissionregistration.k8s.io/v1"}[kind])
		u.SetKind(kind)
		if err := w.Client.Get(t.Context(), types.NamespacedName{Name: name}, u); err != nil {
			t.Errorf("%s %s: %v", kind, name, err)
		}
	}

	// Define a policy, and before it the service that the guide begins with.
	w.MustApply(`
apiVersion: ome.io/v1beta1
kind: InferenceService
metadata: {name: ` + llama + `}
spec:
  model: {name: ` + llama + `}
  engine: {}
`)
	w.Prints("inferenceservice", llama, "HPA default", engine+".class", engine+".specSource")
	w.Present("hpa", llama+"-engine")
	for _, name := range []string{"queue-depth", "cpu-60", "scale-to-max"} {
		if warnings := w.MustApply(document(t, w, "autoscalerpolicy.yaml", name)); len(warnings) > 0 {
			t.Errorf("applying %s warns of %q", name, warnings)
		}
	}

	// Attach a policy to an InferenceService. The HorizontalPodAutoscaler goes by itself.
	isvc := document(t, w, "inferenceservice.yaml", llama)
	warnings := w.MustApply(isvc)
	if diff := cmp.Diff([]string{"Runtime vllm-llama-3-2-1b-instruct will be auto-selected for model llama-3-2-1b-instruct"}, warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	query := `sum(vllm:num_requests_waiting{namespace="` + w.Namespace + `",inferenceservice="llama-3-2-1b-instruct",component="engine"})`
	w.Prints("scaledobject", object, w.Lab.PrometheusURL()+" "+query+" 4", ".spec.triggers[0].metadata.serverAddress", ".spec.triggers[0].metadata.query", ".spec.fallback.replicas")
	w.Prints("inferenceservice", llama, "policy queue-depth RenderedFromPolicy", ometest.Source, ometest.Policy, ometest.Resolved)
	w.Gone("hpa", llama+"-engine")

	// About 5 waiting requests for each replica are kept.
	w.Prints("scaledobject", object, "True", `.status.conditions[?(@.type=="Ready")].status`)
	serves(t, w, map[string]api.Value{waiting: 6})
	scalesTo(t, w, llama, 4)
	w.Prints("inferenceservice", llama, "4 4", engine+".currentReplicas", engine+".desiredReplicas")
	serves(t, w, map[string]api.Value{waiting: 0})
	scalesTo(t, w, llama, 1)

	// Inline settings win.
	w.MustApply(strings.ReplaceAll(document(t, w, "inferenceservice.yaml", llama+"-inline"), llama+"-inline", llama))
	w.Prints("inferenceservice", llama, "isvc queue-depth InlinePrecedence", ometest.Source, ometest.Shadowed, ometest.Resolved)
	w.Present("hpa", llama+"-engine")
	w.Gone("scaledobject", object)
	preview := ometest.Columns(w.Get("inferenceservice", llama), engine+".shadowedPolicyRef.name", engine+".shadowedPolicyRef.portableDigest", engine+".shadowedPolicyRef.wouldRenderDigest")
	if !regexp.MustCompile(`^queue-depth pv1:340d54163f8f rv1:[0-9a-f]{12}$`).MatchString(preview) {
		t.Errorf("the preview prints %q", preview)
	}
	w.MustApply(isvc)
	w.Prints("inferenceservice", llama, preview, engine+".policy.name", engine+".policy.portableDigest", engine+".policy.resolvedDigest")
	w.Gone("hpa", llama+"-engine")

	// Metric providers.
	w.Bind("with-token", "serverAddress: "+w.Lab.PrometheusURL()+"\nauthSecretRef: {name: prometheus-bearer, key: token}")
	w.MustPatch("autoscalerpolicy", "queue-depth", `{"spec":{"keda":{"triggers":[{"type":"prometheus","providerRef":{"name":"with-token"},"metricType":"AverageValue","metadata":{"query":"sum(up)","threshold":"5","ignoreNullValues":"false"}}]}}}`)
	const secret = ".spec.secretTargetRef[0]"
	w.Prints("triggerauthentication", "ome-metric-provider-with-token", "bearerToken prometheus-bearer token", secret+".parameter", secret+".name", secret+".key")
	w.MustApply(document(t, w, "autoscalerpolicy.yaml", "queue-depth"))
	w.Gone("triggerauthentication", "ome-metric-provider-with-token")

	// Conditions and status.
	columns := []string{".metadata.name", ".spec.class", `.status.conditions[?(@.type=="Ready")].status`, `.status.conditions[?(@.type=="Ready")].reason`, ".status.attachedComponents"}
	w.Prints("autoscalerpolicy", "cpu-60", "cpu-60 HPA True TemplatesValid <none>", columns...)
	w.Prints("autoscalerpolicy", "queue-depth", "queue-depth KEDA True TemplatesValid 1", columns...)

	// Confirm that a policy edit landed.
	w.MustApply(strings.ReplaceAll(document(t, w, "autoscalerpolicy.yaml", "queue-depth"), `threshold: "5"`, `threshold: "8"`))
	generation := ometest.Columns(w.Get("autoscalerpolicy", "queue-depth"), ".metadata.generation")
	w.Prints("autoscalerpolicy", "queue-depth", generation+" "+generation+" pv1:abb4127be888", ".metadata.generation", ".status.observedGeneration", ".status.portableDigest")
	w.Prints("inferenceservice", llama, "queue-depth "+generation+" pv1:abb4127be888", engine+".policy.name", engine+".policy.observedGeneration", engine+".policy.portableDigest")
	w.Prints("scaledobject", object, "8", ".spec.triggers[0].metadata.threshold")

	// Delete a policy.
	err := w.Delete("autoscalerpolicy", "queue-depth")
	const denied = `admission webhook "autoscalerpolicy.ome-webhook-server.validator" denied the request: AutoscalerPolicy "queue-depth" is referenced by 1 component(s): llama-3-2-1b-instruct/engine; remove the refs first, or set the ome.io/allow-in-use-delete="true" annotation to force deletion`
	if err == nil || err.Error() != denied {
		t.Errorf("deleting it gives\n%v\nwant\n%s", err, denied)
	}
	w.MustPatch("autoscalerpolicy", "queue-depth", `{"metadata":{"annotations":{"ome.io/allow-in-use-delete":"true"}}}`)
	if err := w.Delete("autoscalerpolicy", "queue-depth"); err != nil {
		t.Fatal(err)
	}
	w.Prints("inferenceservice", llama, "policy queue-depth PolicyNotFound", ometest.Source, ometest.Policy, ometest.Resolved)
	// What stands goes on scaling.
	serves(t, w, map[string]api.Value{waiting: 9})
	scalesTo(t, w, llama, 4)
}

// TestQueryThatComputesTheCount: any request brings all replicas, and none the least.
func TestQueryThatComputesTheCount(t *testing.T) {
	t.Parallel()
	w := env.NewWorld(t)
	serves(t, w, map[string]api.Value{running: 0})
	w.MustApply(document(t, w, "autoscalerpolicy.yaml", "scale-to-max"))
	w.MustApply(strings.ReplaceAll(document(t, w, "inferenceservice.yaml", llama), "name: queue-depth", "name: scale-to-max"))
	w.Prints("scaledobject", object, "True", `.status.conditions[?(@.type=="Ready")].status`)
	serves(t, w, map[string]api.Value{running: 1})
	scalesTo(t, w, llama, 4)
	serves(t, w, map[string]api.Value{running: 0})
	scalesTo(t, w, llama, 1)
}

// TestScaleToZero: a component's own KEDA block may take it to 0 replicas, which the status shows as 0, and back.
func TestScaleToZero(t *testing.T) {
	t.Parallel()
	w := env.NewWorld(t)
	serves(t, w, map[string]api.Value{waiting: 0})
	// Pods that are gone say nothing, so that the queue is elsewhere: at a pod that is no engine.
	w.MustApply(`
apiVersion: v1
kind: Pod
metadata: {name: gateway, labels: {app: gateway}}
spec: {containers: [{name: c, image: i, ports: [{containerPort: 8080}]}]}
`)
	w.MustApply(`
apiVersion: ome.io/v1beta1
kind: InferenceService
metadata: {name: zero}
spec:
  model: {name: ` + llama + `}
  engine:
    minReplicas: 0
    maxReplicas: 4
    autoscaler:
      class: KEDA
      keda:
        pollingInterval: 1
        cooldownPeriod: 1
        triggers: [{type: prometheus, metricType: AverageValue, metadata: {serverAddress: "` + w.Lab.PrometheusURL() + `", query: 'max(vllm:num_requests_waiting{namespace="{ns}"})', threshold: "5"}}]
`)
	scalesTo(t, w, "zero", 0)
	w.Prints("inferenceservice", "zero", "0 0 True", engine+".currentReplicas", engine+".desiredReplicas", ometest.Ready)
	serves(t, w, map[string]api.Value{waiting: 12})
	scalesTo(t, w, "zero", 3)
	serves(t, w, map[string]api.Value{waiting: 0})
	scalesTo(t, w, "zero", 0)
}

// TestSwitchesTakeOneStep: there are never two autoscalers on the workload, never none for long, and the count stays.
func TestSwitchesTakeOneStep(t *testing.T) {
	t.Parallel()
	w := env.NewWorld(t)
	w.MustApply(`
apiVersion: ome.io/v1beta1
kind: AutoscalerPolicy
metadata: {name: both}
spec: {class: HPA, hpa: {metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}], behavior: {scaleDown: {selectPolicy: Disabled}}}}
`)
	w.MustApply(`
apiVersion: ome.io/v1beta1
kind: InferenceService
metadata: {name: switch}
spec:
  model: {name: ` + llama + `}
  engine: {minReplicas: 1, maxReplicas: 5, autoscalerPolicyRef: {name: both}}
`)
	w.Present("hpa", "switch-engine")
	w.Scale("deployment", "switch-engine", 3)

	watch := startWatching(t, w, "switch-engine")
	const kedaSpec = `{"spec":{"class":"KEDA","hpa":null,"keda":{"triggers":[{"type":"prometheus","providerRef":{"name":"cluster-prometheus"},"metricType":"AverageValue","metadata":{"query":"vector(15)","threshold":"5","ignoreNullValues":"false"}}]}}}`
	w.MustPatch("autoscalerpolicy", "both", kedaSpec)
	w.Prints("inferenceservice", "switch", "KEDA RenderedFromPolicy Applied", ometest.Class, ometest.Resolved, ometest.Applied)
	w.Present("hpa", "keda-hpa-scaledobject-switch-engine")
	w.MustPatch("autoscalerpolicy", "both", `{"spec":{"class":"HPA","keda":null,"hpa":{"behavior":{"scaleDown":{"selectPolicy":"Disabled"}}}}}`)
	w.Gone("scaledobject", "scaledobject-switch-engine")
	w.Prints("inferenceservice", "switch", "HPA RenderedFromPolicy Applied", ometest.Class, ometest.Resolved, ometest.Applied)
	w.Present("hpa", "switch-engine")
	watch.check(t, 3)
}

// watching looks at a workload's autoscalers and count all the time.
type watching struct {
	stop func()
	done chan struct{}
	most int
	// without is the longest time without any.
	without time.Duration
	counts  map[int64]bool
}

func startWatching(t *testing.T, w *ometest.World, workload string) *watching {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	seen := &watching{stop: cancel, done: make(chan struct{}), counts: map[int64]bool{}}
	go func() {
		defer close(seen.done)
		last := time.Now()
		ticker := time.NewTicker(testkit.PollInterval)
		defer ticker.Stop()
		for ctx.Err() == nil {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(ometest.Kinds["hpa"].GroupVersion().WithKind("HorizontalPodAutoscalerList"))
			deployment := &unstructured.Unstructured{}
			deployment.SetGroupVersionKind(ometest.Kinds["deployment"])
			err := errors.Join(w.Client.List(ctx, list, client.InNamespace(w.Namespace)),
				w.Client.Get(ctx, types.NamespacedName{Namespace: w.Namespace, Name: workload}, deployment))
			if err != nil {
				continue
			}
			there := 0
			for i := range list.Items {
				if name, _, _ := unstructured.NestedString(list.Items[i].Object, "spec", "scaleTargetRef", "name"); name == workload && list.Items[i].GetDeletionTimestamp() == nil {
					there++
				}
			}
			if there > 0 {
				last = time.Now()
			}
			seen.most, seen.without = max(seen.most, there), max(seen.without, time.Since(last))
			n, _, _ := unstructured.NestedInt64(deployment.Object, "spec", "replicas")
			seen.counts[n] = true
			<-ticker.C
		}
	}()
	t.Cleanup(cancel)
	return seen
}

func (s *watching) check(t *testing.T, count int64) {
	t.Helper()
	s.stop()
	<-s.done
	t.Logf("at most %d autoscalers, none for %s, counts %v", s.most, s.without, s.counts)
	if s.most != 1 || s.without > 15*time.Second || len(s.counts) != 1 || !s.counts[count] {
		t.Errorf("during the switches there were up to %d autoscalers and none for %s, and the counts were %v, want 1, at most 15 s, and %d only", s.most, s.without, s.counts, count)
	}
}

// TestRefusedByKEDA: what KEDA's admission refuses is told, and what there was goes on.
func TestRefusedByKEDA(t *testing.T) {
	t.Parallel()
	w := env.NewWorld(t)
	w.MustApply(`
apiVersion: ome.io/v1beta1
kind: InferenceService
metadata: {name: refused}
spec:
  model: {name: ` + llama + `}
  engine: {}
`)
	uid := w.Present("hpa", "refused-engine").GetUID()
	w.MustPatch("inferenceservice", "refused", `{"spec":{"engine":{"autoscaler":{"class":"KEDA","keda":{"triggers":[{"type":"kafka","metadata":{}}],"advanced":{"scalingModifiers":{"formula":"nothing + 1","target":"5"}}}}}}}`)
	w.Prints("inferenceservice", "refused", "Refused True", ometest.Applied, ometest.Ready)
	w.Hears("refused", "Refused", "engine autoscaler: ")
	if left := w.Get("hpa", "refused-engine"); left == nil || left.GetUID() != uid {
		t.Error("the HPA is not the one that was there")
	}
}

// TestRefusedAfterTheDryRun: a dry run does not look at requests for CPU, so that the refusal comes when the HPA has gone. It
// comes back.
func TestRefusedAfterTheDryRun(t *testing.T) {
	t.Parallel()
	w := env.NewWorld(t)
	manifest := func(autoscaler string) string {
		return `
apiVersion: ome.io/v1beta1
kind: InferenceService
metadata: {name: late}
spec:
  engine: {maxReplicas: 7, runner: {image: "example.org/server:1"}` + autoscaler + `}
`
	}
	w.MustApply(manifest(""))
	uid := w.Present("hpa", "late-engine").GetUID()
	w.MustApply(manifest(`, autoscaler: {class: KEDA, keda: {triggers: [{type: cpu, metricType: Utilization, metadata: {value: "60"}}]}}`))
	testkit.Eventually(t, ometest.Soon, "KEDA's refusal for want of a request", func(context.Context) error {
		status := w.Service("late").Status.Components.Engine.Autoscaler
		for _, c := range status.Conditions {
			if c.Type == "AutoscalerApplied" && c.Reason == "Refused" && strings.Contains(c.Message, "request") {
				return nil
			}
		}
		return fmt.Errorf("the conditions are %v", status.Conditions)
	})
	if w.Get("scaledobject", "scaledobject-late-engine") != nil {
		t.Error("there is a ScaledObject")
	}
	w.Prints("hpa", "late-engine", "7 late-engine", ".spec.maxReplicas", ".spec.scaleTargetRef.name")
	back := w.Get("hpa", "late-engine").GetUID()
	if back == uid {
		t.Error("the HPA has not gone and come back, so that this tests nothing")
	}
	testkit.Consistently(t, 3*time.Second, "the HPA does not go again", func(context.Context) error {
		if hpa := w.Get("hpa", "late-engine"); hpa == nil || hpa.GetUID() != back {
			return errors.New("it went")
		}
		return nil
	})
}

// TestFallbackWhenPrometheusStops: with no answer the component goes to the count of the fallback, and back once there is one.
func TestFallbackWhenPrometheusStops(t *testing.T) {
	w := env.NewWorld(t)
	serves(t, w, map[string]api.Value{waiting: 0})
	w.MustApply(document(t, w, "autoscalerpolicy.yaml", "queue-depth"))
	w.MustApply(document(t, w, "inferenceservice.yaml", llama))
	w.Prints("scaledobject", object, "True", `.status.conditions[?(@.type=="Ready")].status`)
	scalesTo(t, w, llama, 1)
	prometheus := w.Lab.Part(lab.Prometheus)
	if err := prometheus.Stop(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := prometheus.Start(context.Background()); err != nil {
			t.Error(err)
		}
	})
	scalesTo(t, w, llama, 4)
	w.Prints("inferenceservice", llama, "True", engine+`.conditions[?(@.type=="Fallback")].status`)
	if err := prometheus.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	scalesTo(t, w, llama, 1)
}
