package autoscalerpolicy

import (
	"strings"
	"testing"

	"github.com/pd-orchestrator/pd-orchestrator/test/autoscalerpolicy/ometest"
)

const (
	scaledObject = "scaledobject-llama-engine"
	policyStatus = `.status.conditions[?(@.type=="Ready")].reason`
	inUse        = `.status.conditions[?(@.type=="InUse")].reason`
	byQueue      = "minReplicas: 1, maxReplicas: 4, autoscalerPolicyRef: {name: queue-depth}"
)

// bound gives a test a metric provider of its own.
func bound(w *ometest.World) string {
	name := "p-" + w.Namespace
	w.Bind(name, "serverAddress: http://prometheus:9090")
	return name
}

// attached is a service that a KEDA policy has been rendered for.
func attached(t *testing.T) (w *ometest.World, provider string) {
	t.Helper()
	w = env.NewWorld(t)
	provider = bound(w)
	w.MustApply(kedaPolicy("queue-depth", provider))
	w.MustApply(service("llama", byQueue))
	w.Prints("inferenceservice", "llama", "policy queue-depth RenderedFromPolicy Applied", ometest.Source, ometest.Policy, ometest.Resolved, ometest.Applied)
	return w, provider
}

func TestPolicyRendersToAScaledObject(t *testing.T) {
	t.Parallel()
	w, _ := attached(t)
	w.Prints("scaledobject", scaledObject, `http://prometheus:9090 sum(q{namespace="`+w.Namespace+`",isvc="llama"}) 4 1 4 llama-engine`,
		".spec.triggers[0].metadata.serverAddress", ".spec.triggers[0].metadata.query", ".spec.fallback.replicas", ".spec.minReplicaCount", ".spec.maxReplicaCount", ".spec.scaleTargetRef.name")
	w.Prints("autoscalerpolicy", "queue-depth", "KEDA True TemplatesValid 1 Attached 1", ".spec.class", ometest.Ready, policyStatus, ".status.attachedComponents", inUse, ".status.observedGeneration")
	if w.Get("hpa", "llama-engine") != nil {
		t.Error("there is an HPA beside the ScaledObject")
	}
	policy, engine := w.Get("autoscalerpolicy", "queue-depth"), w.Get("inferenceservice", "llama")
	const provenance = ".status.components.engine.autoscaler.policy"
	if want, got := ometest.Columns(policy, ".status.portableDigest", ".metadata.generation"), ometest.Columns(engine, provenance+".portableDigest", provenance+".observedGeneration"); got != want {
		t.Errorf("the engine was rendered from %s, want %s", got, want)
	}
	before := ometest.Columns(engine, provenance+".resolvedDigest")

	w.MustPatch("autoscalerpolicy", "queue-depth", `{"spec":{"keda":{"pollingInterval":7,"fallback":null}}}`)
	w.Prints("scaledobject", scaledObject, "7 <none>", ".spec.pollingInterval", ".spec.fallback")
	w.Prints("inferenceservice", "llama", "2", provenance+".observedGeneration")
	if after := ometest.Columns(w.Get("inferenceservice", "llama"), provenance+".resolvedDigest"); after == before {
		t.Errorf("the digest of the render is %s before and after the edit", after)
	}
	w.MustPatch("inferenceservice", "llama", `{"spec":{"engine":{"maxReplicas":6}}}`)
	w.Prints("scaledobject", scaledObject, "6", ".spec.maxReplicaCount")
}

func TestHPAPolicy(t *testing.T) {
	t.Parallel()
	w := env.NewWorld(t)
	w.MustApply(`
apiVersion: ome.io/v1beta1
kind: AutoscalerPolicy
metadata: {name: queue-depth}
spec:
  class: HPA
  hpa:
    metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]
    behavior: {scaleDown: {stabilizationWindowSeconds: 120}}
`)
	w.MustApply(service("llama", byQueue))
	w.Prints("inferenceservice", "llama", "policy HPA RenderedFromPolicy", ometest.Source, ometest.Class, ometest.Resolved)
	w.Prints("hpa", "llama-engine", "60 120 1 4", ".spec.metrics[0].resource.target.averageUtilization", ".spec.behavior.scaleDown.stabilizationWindowSeconds", ".spec.minReplicas", ".spec.maxReplicas")
	// A part that is taken out of the policy goes back to the API server's default.
	w.MustPatch("autoscalerpolicy", "queue-depth", `{"spec":{"hpa":{"behavior":null}}}`)
	w.Prints("hpa", "llama-engine", "<none>", ".spec.behavior.scaleDown.stabilizationWindowSeconds")
}

// TestInlineOutranksThePolicy: the kinds change in one step each, the count stays, and what was previewed is what runs.
func TestInlineOutranksThePolicy(t *testing.T) {
	t.Parallel()
	w, _ := attached(t)
	w.Scale("deployment", "llama-engine", 3)
	digest := ometest.Columns(w.Get("inferenceservice", "llama"), ".status.components.engine.autoscaler.policy.resolvedDigest", ".status.components.engine.autoscaler.policy.portableDigest")

	w.MustApply(service("llama", byQueue+", autoscaler: {class: HPA, hpa: {metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}}]}}"))
	w.Prints("inferenceservice", "llama", "isvc queue-depth InlinePrecedence <none> Applied", ometest.Source, ometest.Shadowed, ometest.Resolved, ometest.Policy, ometest.Applied)
	w.Prints("hpa", "llama-engine", "70", ".spec.metrics[0].resource.target.averageUtilization")
	w.Gone("scaledobject", scaledObject)
	w.Prints("inferenceservice", "llama", digest, ".status.components.engine.autoscaler.shadowedPolicyRef.wouldRenderDigest", ".status.components.engine.autoscaler.shadowedPolicyRef.portableDigest")

	w.MustApply(service("llama", byQueue))
	w.Prints("inferenceservice", "llama", "policy <none> RenderedFromPolicy", ometest.Source, ometest.Shadowed, ometest.Resolved)
	w.Gone("hpa", "llama-engine")
	w.Present("scaledobject", scaledObject)
	w.Prints("inferenceservice", "llama", digest, ".status.components.engine.autoscaler.policy.resolvedDigest", ".status.components.engine.autoscaler.policy.portableDigest")
	if got := w.Replicas("llama"); got != 3 {
		t.Errorf("after switches both ways there are %d replicas, want 3", got)
	}
}

// TestHoldKeepsTheLastGoodSettings: while its policy cannot be used a component keeps what it had, with the bounds of the
// moment, through a restart and against deletion.
func TestHoldKeepsTheLastGoodSettings(t *testing.T) {
	w, provider := attached(t)
	err := w.Delete("autoscalerpolicy", "queue-depth")
	const denied = `admission webhook "autoscalerpolicy.ome-webhook-server.validator" denied the request: AutoscalerPolicy "queue-depth" is referenced by 1 component(s): llama/engine; remove the refs first, or set the ome.io/allow-in-use-delete="true" annotation to force deletion`
	if err == nil || !strings.Contains(err.Error(), denied) {
		t.Fatalf("deleting a policy in use gives %v, want %s", err, denied)
	}
	w.MustPatch("autoscalerpolicy", "queue-depth", `{"metadata":{"annotations":{"ome.io/allow-in-use-delete":"true"}}}`)
	if err := w.Delete("autoscalerpolicy", "queue-depth"); err != nil {
		t.Fatal(err)
	}
	w.Prints("inferenceservice", "llama", "policy queue-depth PolicyNotFound KEDA 1", ometest.Source, ometest.Policy, ometest.Resolved, ometest.Class, ".status.components.engine.autoscaler.policy.observedGeneration")
	detail := `AutoscalerPolicy "queue-depth" not found in namespace ` + w.Namespace
	if got, want := w.ResolvedMessage("llama"), "holding last-known-good scaler: "+detail; got != want {
		t.Errorf("the message is %q, want %q", got, want)
	}
	w.Hears("llama", "AutoscalerPolicyHold", "engine autoscaler is holding last-known-good (PolicyNotFound): "+detail)
	w.Present("scaledobject", scaledObject)

	w.MustApply(service("llama", "minReplicas: 2, maxReplicas: 9, autoscalerPolicyRef: {name: queue-depth}, runner: {image: 'vllm/vllm-openai:v1.0'}"))
	w.Prints("scaledobject", scaledObject, "2 9 5", ".spec.minReplicaCount", ".spec.maxReplicaCount", ".spec.triggers[0].metadata.threshold")
	w.Prints("deployment", "llama-engine", "vllm/vllm-openai:v1.0", ".spec.template.spec.containers[0].image")
	if err := w.Manager.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := w.Delete("scaledobject", scaledObject); err != nil {
		t.Fatal(err)
	}
	if err := w.Manager.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Prints("scaledobject", scaledObject, "2 9 5", ".spec.minReplicaCount", ".spec.maxReplicaCount", ".spec.triggers[0].metadata.threshold")
	if w.Get("hpa", "llama-engine") != nil {
		t.Error("a component that holds falls back to an HPA")
	}

	w.MustApply(kedaPolicy("queue-depth", provider))
	w.Prints("inferenceservice", "llama", "policy RenderedFromPolicy", ometest.Source, ometest.Resolved)
}

// TestHoldWithoutARecordLeavesWhatThereIs: a policy that never rendered takes nothing away, and makes nothing.
func TestHoldWithoutARecordLeavesWhatThereIs(t *testing.T) {
	t.Parallel()
	w := env.NewWorld(t)
	warnings := w.MustApply(service("new", byQueue))
	if len(warnings) != 2 || !strings.Contains(warnings[1], `AutoscalerPolicy "queue-depth" does not exist`) {
		t.Errorf("the warnings are %q", warnings)
	}
	w.MustApply(service("llama", "maxReplicas: 4"))
	w.Present("hpa", "llama-engine")
	w.MustApply(service("llama", byQueue))
	for _, name := range []string{"llama", "new"} {
		w.Prints("inferenceservice", name, "policy <none> PolicyNotFound NoRecord", ometest.Source, ometest.Policy, ometest.Resolved, ometest.Applied)
	}
	w.Present("hpa", "llama-engine")
	w.Present("deployment", "new-engine")
	for _, kind := range []string{"hpa", "scaledobject"} {
		for _, u := range w.List(kind) {
			if u.GetName() != "llama-engine" {
				t.Errorf("there is %s %s", kind, u.GetName())
			}
		}
	}
	// Inline settings end the hold.
	w.MustApply(service("new", byQueue+", autoscaler: {class: HPA}"))
	w.Prints("inferenceservice", "new", "isvc InlinePrecedence queue-depth <none>", ometest.Source, ometest.Resolved, ometest.Shadowed, ".status.components.engine.autoscaler.shadowedPolicyRef.portableDigest")
	w.Present("hpa", "new-engine")
}

// TestBindingsAreFollowed: a binding that goes or breaks holds its users only, and a changed one arrives at once.
func TestBindingsAreFollowed(t *testing.T) {
	t.Parallel()
	w, provider := attached(t)
	w.Bind(provider, "")
	w.Prints("inferenceservice", "llama", "PolicyInvalid", ometest.Resolved)
	if got, want := w.ResolvedMessage("llama"), `holding last-known-good scaler: policy queue-depth: trigger 0 (prometheus): metric provider "`+provider+`" is not bound on this cluster`; got != want {
		t.Errorf("the message is %q, want %q", got, want)
	}
	w.Prints("autoscalerpolicy", "queue-depth", "False ProviderUnknown", ometest.Ready, policyStatus)
	w.Bind(provider, "server: typo")
	w.Prints("autoscalerpolicy", "queue-depth", "False ProviderUnknown", ometest.Ready, policyStatus)
	w.Prints("scaledobject", scaledObject, "http://prometheus:9090", ".spec.triggers[0].metadata.serverAddress")
	w.Bind(provider, "serverAddress: http://other:9090")
	w.Prints("scaledobject", scaledObject, "http://other:9090", ".spec.triggers[0].metadata.serverAddress")
	w.Prints("inferenceservice", "llama", "RenderedFromPolicy", ometest.Resolved)
	w.Prints("autoscalerpolicy", "queue-depth", "True TemplatesValid", ometest.Ready, policyStatus)
}

// TestAuthenticationLivesWithItsUsers: it is there before the first ScaledObject that refers to it, is repaired, and goes with
// the last one.
func TestAuthenticationLivesWithItsUsers(t *testing.T) {
	t.Parallel()
	w, provider := attached(t)
	authentication := "ome-metric-provider-" + provider
	w.Bind(provider, "serverAddress: http://prometheus:9090\nauthSecretRef: {name: bearer, key: token}")
	w.Prints("scaledobject", scaledObject, "bearer "+authentication, ".spec.triggers[0].metadata.authModes", ".spec.triggers[0].authenticationRef.name")
	const fields = ".spec.secretTargetRef[0]"
	w.Prints("triggerauthentication", authentication, "bearerToken bearer token", fields+".parameter", fields+".name", fields+".key")
	w.MustApply(service("second", byQueue))
	w.Prints("scaledobject", "scaledobject-second-engine", authentication, ".spec.triggers[0].authenticationRef.name")

	w.MustPatch("triggerauthentication", authentication, `{"spec":{"secretTargetRef":[{"parameter":"bearerToken","name":"stolen","key":"token"}]}}`)
	w.Prints("triggerauthentication", authentication, "bearer", fields+".name")
	if err := w.Delete("triggerauthentication", authentication); err != nil {
		t.Fatal(err)
	}
	w.Present("triggerauthentication", authentication)

	if err := w.Delete("inferenceservice", "second"); err != nil {
		t.Fatal(err)
	}
	w.Gone("scaledobject", "scaledobject-second-engine")
	w.Present("triggerauthentication", authentication)
	w.MustApply(service("llama", "minReplicas: 1, maxReplicas: 4"))
	w.Gone("triggerauthentication", authentication)
	w.Gone("scaledobject", scaledObject)
	w.Prints("inferenceservice", "llama", "default <none>", ometest.Source, ometest.Resolved)
	w.Prints("deployment", "llama-engine", "<none>", `.metadata.annotations.ome\.io/last-rendered-autoscaler`)
}

func TestAuthenticationOfOthersIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := env.NewWorld(t)
	provider := bound(w)
	w.MustApply(`
apiVersion: keda.sh/v1alpha1
kind: TriggerAuthentication
metadata: {name: ome-metric-provider-` + provider + `}
spec: {secretTargetRef: [{parameter: bearerToken, name: theirs, key: k}]}
`)
	w.Bind(provider, "serverAddress: http://prometheus:9090\nauthSecretRef: {name: bearer, key: token}")
	w.MustApply(kedaPolicy("queue-depth", provider))
	w.MustApply(service("llama", byQueue))
	w.Prints("inferenceservice", "llama", "NotOwned", ometest.Applied)
	w.Prints("triggerauthentication", "ome-metric-provider-"+provider, "theirs", ".spec.secretTargetRef[0].name")
}
