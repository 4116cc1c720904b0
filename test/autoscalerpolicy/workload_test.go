package autoscalerpolicy

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/test/autoscalerpolicy/ometest"
)

func TestServiceBecomesWorkloadsThatServe(t *testing.T) {
	t.Parallel()
	w := env.NewWorld(t)
	warnings := w.MustApply(service("llama", "minReplicas: 2, maxReplicas: 4"))
	want := []string{"Runtime " + ometest.Runtime + " will be auto-selected for model " + ometest.Model}
	if diff := cmp.Diff(want, warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	w.Prints("inferenceservice", "llama", "http://llama-engine."+w.Namespace+".svc:8080 True "+ometest.Model+" <none>", ".status.url", ometest.Ready, ".spec.model.name", ".spec.runtime.name")
	w.Prints("inferenceservice", "llama", "HPA ome default Deployment llama-engine", ometest.Class, ".status.components.engine.autoscaler.managedBy", ometest.Source,
		".status.components.engine.scaleTargetRef.kind", ".status.components.engine.scaleTargetRef.name")
	w.Prints("deployment", "llama-engine", "llama engine 2 vllm/vllm-openai:v0.9 RollingUpdate 0 1", `.metadata.labels.ome\.io/inferenceservice`, ".spec.template.metadata.labels.component",
		".spec.replicas", ".spec.template.spec.containers[0].image", ".spec.strategy.type", ".spec.strategy.rollingUpdate.maxUnavailable", ".spec.strategy.rollingUpdate.maxSurge")
	w.Prints("service", "llama-engine", "llama-engine 8080", ".spec.selector.app", ".spec.ports[0].port")
	w.Prints("hpa", "llama-engine", "2 4 cpu 80 llama-engine", ".spec.minReplicas", ".spec.maxReplicas", ".spec.metrics[0].resource.name", ".spec.metrics[0].resource.target.averageUtilization", ".spec.scaleTargetRef.name")
}

// TestCountsBelongToWhoeverScales: neither an edit nor a restart of the manager writes a count, and only a change of the
// template makes pods anew.
func TestCountsBelongToWhoeverScales(t *testing.T) {
	w := env.NewWorld(t)
	w.MustApply(service("llama", "maxReplicas: 9, autoscaler: {class: External}"))
	w.Prints("inferenceservice", "llama", "External external True", ometest.Class, ".status.components.engine.autoscaler.managedBy", ometest.Ready)
	w.Scale("deployment", "llama-engine", 5)
	before := w.Get("deployment", "llama-engine")

	w.MustApply(service("llama", "maxReplicas: 7, autoscaler: {class: External}, annotations: {autoscaling.keda.sh/paused: 'true'}"))
	w.Settled("llama")
	if err := w.Manager.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	testkit.Consistently(t, 2*time.Second, "the count and the template stay", func(context.Context) error {
		after := w.Get("deployment", "llama-engine")
		if diff := cmp.Diff(before.Object["spec"], after.Object["spec"]); diff != "" {
			return fmt.Errorf("(-before +after):\n%s", diff)
		}
		return nil
	})

	w.MustApply(service("llama", "maxReplicas: 7, autoscaler: {class: External}, runner: {image: 'vllm/vllm-openai:v1.0'}"))
	w.Prints("deployment", "llama-engine", "vllm/vllm-openai:v1.0 5", ".spec.template.spec.containers[0].image", ".spec.replicas")
}

// TestFirstCountOutlivesEdits: a workload begins with the least, and an edit before anybody has scaled does not set it to the
// API server's default.
func TestFirstCountOutlivesEdits(t *testing.T) {
	t.Parallel()
	w := env.NewWorld(t)
	w.MustApply(service("llama", "minReplicas: 2, autoscaler: {class: External}"))
	w.Prints("inferenceservice", "llama", "True", ometest.Ready)
	events, err := w.Client.Watch(t.Context(), &appsv1.DeploymentList{}, client.InNamespace(w.Namespace))
	if err != nil {
		t.Fatal(err)
	}
	for _, image := range []string{"one", "two"} {
		w.MustApply(service("llama", "minReplicas: 2, autoscaler: {class: External}, runner: {image: "+image+"}"))
		w.Prints("deployment", "llama-engine", image+" 2", ".spec.template.spec.containers[0].image", ".status.availableReplicas")
		w.Prints("inferenceservice", "llama", "True", ometest.Ready)
	}
	events.Stop()
	for e := range events.ResultChan() {
		if d, ok := e.Object.(*appsv1.Deployment); ok && *d.Spec.Replicas != 2 {
			t.Errorf("for a moment there were %d replicas", *d.Spec.Replicas)
		}
	}
}

func TestScaleToZeroBeginsAtZero(t *testing.T) {
	t.Parallel()
	w := env.NewWorld(t)
	w.MustApply(service("llama", "minReplicas: 0, autoscaler: {class: KEDA, keda: {triggers: [{type: kafka, metadata: {}}]}}"))
	w.Prints("inferenceservice", "llama", "True", ometest.Ready)
	w.Prints("scaledobject", "scaledobject-llama-engine", "0", ".spec.minReplicaCount")
	w.Prints("deployment", "llama-engine", "0 1", ".spec.replicas", ".status.observedGeneration")
}

func TestClassNoneHoldsTheCount(t *testing.T) {
	t.Parallel()
	w := env.NewWorld(t)
	w.MustApply(service("llama", "minReplicas: 2, maxReplicas: 9, autoscaler: {class: None}"))
	w.Prints("inferenceservice", "llama", "None none True", ometest.Class, ".status.components.engine.autoscaler.managedBy", ometest.Ready)
	w.Scale("deployment", "llama-engine", 5)
	w.Prints("deployment", "llama-engine", "2", ".spec.replicas")
	if w.Get("hpa", "llama-engine") != nil {
		t.Error("class None has an HPA")
	}
}

// TestDriftIsRepaired: what others change of what is ours comes back, and what they add stays.
func TestDriftIsRepaired(t *testing.T) {
	t.Parallel()
	w := env.NewWorld(t)
	w.MustApply(service("llama", "maxReplicas: 4"))
	w.Prints("inferenceservice", "llama", "True", ometest.Ready)
	w.MustPatch("hpa", "llama-engine", `{"spec":{"maxReplicas":8},"metadata":{"labels":{"added":"by-others"}}}`)
	w.Prints("hpa", "llama-engine", "4 by-others", ".spec.maxReplicas", ".metadata.labels.added")
	if err := w.Delete("service", "llama-engine"); err != nil {
		t.Fatal(err)
	}
	w.Present("service", "llama-engine")
	if err := w.Delete("deployment", "llama-engine"); err != nil {
		t.Fatal(err)
	}
	w.Present("deployment", "llama-engine")
}

func TestObjectsOfOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	w := env.NewWorld(t)
	w.MustApply(`
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: llama-engine}
spec: {maxReplicas: 2, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: other}}
`)
	w.MustApply(`
apiVersion: v1
kind: Service
metadata: {name: llama-router}
spec: {ports: [{port: 1}], selector: {a: b}}
`)
	w.MustApply(`
apiVersion: ome.io/v1beta1
kind: InferenceService
metadata: {name: llama}
spec:
  model: {name: ` + ometest.Model + `}
  engine: {}
  router: {}
`)
	w.Prints("inferenceservice", "llama", "NotOwned", ometest.Applied)
	w.Prints("inferenceservice", "llama", "False NotOwned", ometest.Ready, ometest.ReadyReason)
	w.Hears("llama", "NotOwned", "engine autoscaler: HorizontalPodAutoscaler llama-engine is there and not of this service")
	w.Prints("hpa", "llama-engine", "2 other <none>", ".spec.maxReplicas", ".spec.scaleTargetRef.name", ".metadata.ownerReferences")
	w.Prints("service", "llama-router", "1 <none>", ".spec.ports[0].port", ".metadata.ownerReferences")
	if err := w.Delete("hpa", "llama-engine"); err != nil {
		t.Fatal(err)
	}
	w.Prints("inferenceservice", "llama", "Applied", ometest.Applied)
}

func TestRuntimesAreFollowed(t *testing.T) {
	t.Parallel()
	w := env.NewWorld(t)
	w.MustApply(`
apiVersion: ome.io/v1beta1
kind: BaseModel
metadata: {name: own}
spec: {modelFormat: {name: "{ns}"}, storage: {storageUri: "hf://a/b"}}
`)
	warnings := w.MustApply(`
apiVersion: ome.io/v1beta1
kind: InferenceService
metadata: {name: own}
spec:
  model: {name: own, kind: BaseModel}
  engine: {}
`)
	if len(warnings) != 1 {
		t.Errorf("the warnings are %q, want one that says what is missing", warnings)
	}
	const runtimeReason = `.status.conditions[?(@.type=="RuntimeResolved")].reason`
	w.Prints("inferenceservice", "own", "NoSupportingRuntime False RuntimeUnresolved", runtimeReason, ometest.Ready, ometest.ReadyReason)
	runtime := func(image string, disabled bool) string {
		return fmt.Sprintf(`
apiVersion: ome.io/v1beta1
kind: ServingRuntime
metadata: {name: own}
spec:
  disabled: %v
  supportedModelFormats: [{modelFormat: {name: "{ns}"}, modelFramework: {name: a}, autoSelect: true}]
  engineConfig: {runner: {image: %q}, minReplicas: 2, autoscaler: {class: None}}
`, disabled, image)
	}
	w.MustApply(runtime("one", false))
	w.Prints("inferenceservice", "own", "RuntimeSelected True runtime", runtimeReason, ometest.Ready, ometest.Source)
	w.Prints("deployment", "own-engine", "one own 2", ".spec.template.spec.containers[0].image", ".metadata.labels.serving-runtime", ".spec.replicas")
	w.MustApply(runtime("two", false))
	w.Prints("deployment", "own-engine", "two", ".spec.template.spec.containers[0].image")
	// Without a runtime everything stays, and nothing falls back to a default.
	w.MustApply(runtime("two", true))
	w.Prints("inferenceservice", "own", "NoSupportingRuntime False runtime", runtimeReason, ometest.Ready, ometest.Source)
	w.Prints("deployment", "own-engine", "two 2", ".spec.template.spec.containers[0].image", ".spec.replicas")
	if w.Get("hpa", "own-engine") != nil {
		t.Error("without a runtime the component falls back to an HPA")
	}
}

func TestComponentsAndServicesGoWithoutTraces(t *testing.T) {
	t.Parallel()
	w := env.NewWorld(t)
	w.MustApply(`
apiVersion: ome.io/v1beta1
kind: InferenceService
metadata: {name: llama}
spec:
  model: {name: ` + ometest.Model + `}
  engine: {}
  decoder: {}
  router: {config: {POLICY: cache_aware}}
`)
	w.Prints("inferenceservice", "llama", "http://llama-router."+w.Namespace+".svc:8080 True", ".status.url", ometest.Ready)
	w.MustPatch("inferenceservice", "llama", `{"spec":{"decoder":null}}`)
	for _, kind := range []string{"deployment", "service", "hpa"} {
		w.Gone(kind, "llama-decoder")
		w.Present(kind, "llama-engine")
	}
	w.Prints("inferenceservice", "llama", "<none>", ".status.components.decoder")
	if err := w.Delete("inferenceservice", "llama"); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, ometest.Soon, "everything of the service to go", func(context.Context) error {
		for _, kind := range []string{"inferenceservice", "deployment", "service", "hpa", "scaledobject"} {
			if left := w.List(kind); len(left) > 0 {
				return fmt.Errorf("%s %s is there", kind, left[0].GetName())
			}
		}
		return nil
	})
}

func TestSpecsThatAreWrongKeepWhatThereIs(t *testing.T) {
	t.Parallel()
	w := env.NewWorld(t)
	w.MustApply(service("llama", "minReplicas: 2, autoscaler: {class: None}, deploymentStrategy: {type: Recreate}"))
	w.Prints("inferenceservice", "llama", "True", ometest.Ready)
	w.Prints("deployment", "llama-engine", "Recreate", ".spec.strategy.type")
	// A strategy that is no longer asked for is taken off.
	w.MustApply(service("llama", "minReplicas: 2, autoscaler: {class: None}"))
	w.Prints("deployment", "llama-engine", "RollingUpdate", ".spec.strategy.type")
	// What is no pod at all is refused; what the API server finds wrong in a pod is told in the status, and the old pods stay.
	if err := w.Patch("inferenceservice", "llama", `{"spec":{"engine":{"containers":"none"}}}`); err == nil || !strings.Contains(err.Error(), "spec.engine: json: cannot unmarshal string") {
		t.Errorf("containers that are a text give %v, want a refusal", err)
	}
	w.MustPatch("inferenceservice", "llama", `{"spec":{"engine":{"restartPolicy":"Sometimes"}}}`)
	w.Prints("inferenceservice", "llama", "False InvalidSpec", ometest.Ready, ometest.ReadyReason)
	w.Prints("deployment", "llama-engine", "Always 2", ".spec.template.spec.restartPolicy", ".status.availableReplicas")
}
