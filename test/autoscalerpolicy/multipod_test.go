package autoscalerpolicy

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/test/autoscalerpolicy/ometest"
)

// TestLeaderAndWorkerAreScaledInGroups: a component with leader and worker is a LeaderWorkerSet, with an autoscaler as any
// other, and what it was before stays until it serves.
func TestLeaderAndWorkerAreScaledInGroups(t *testing.T) {
	t.Parallel()
	w := env.NewWorld(t)
	const (
		multiPod = "minReplicas: 2, maxReplicas: 4, runner: {image: 'example.org/server:1'}, leader: {}, worker: {size: 3}"
		target   = ".status.components.engine.scaleTargetRef"
	)
	w.MustApply(service("llama", "minReplicas: 2, maxReplicas: 4"))
	w.Prints("inferenceservice", "llama", "True Deployment", ometest.Ready, target+".kind")
	w.MustApply(service("llama", multiPod))
	w.Prints("leaderworkerset", "lws-llama-engine", "4 2 llama-engine", ".spec.leaderWorkerTemplate.size", ".spec.replicas", ".spec.leaderWorkerTemplate.leaderTemplate.metadata.labels.app")
	w.Prints("hpa", "llama-engine", "leaderworkerset.x-k8s.io/v1 LeaderWorkerSet lws-llama-engine 2", ".spec.scaleTargetRef.apiVersion", ".spec.scaleTargetRef.kind", ".spec.scaleTargetRef.name", ".spec.minReplicas")
	w.Prints("inferenceservice", "llama", "LeaderWorkerSet lws-llama-engine False Applied", target+".kind", target+".name", ometest.Ready, ometest.Applied)
	w.Present("deployment", "llama-engine")

	// Nothing runs LeaderWorkerSets here.
	lws := w.Get("leaderworkerset", "lws-llama-engine")
	if err := w.Client.Status().Patch(t.Context(), lws, client.RawPatch(types.MergePatchType, []byte(`{"status":{"replicas":2,"readyReplicas":2,"updatedReplicas":2}}`))); err != nil {
		t.Fatal(err)
	}
	w.Prints("inferenceservice", "llama", "True", ometest.Ready)
	w.Gone("deployment", "llama-engine")

	provider := bound(w)
	w.MustApply(kedaPolicy("queue-depth", provider))
	w.MustApply(service("llama", multiPod+", autoscalerPolicyRef: {name: queue-depth}"))
	w.Prints("scaledobject", scaledObject, "LeaderWorkerSet lws-llama-engine 2 4", ".spec.scaleTargetRef.kind", ".spec.scaleTargetRef.name", ".spec.minReplicaCount", ".spec.maxReplicaCount")
	w.Prints("leaderworkerset", "lws-llama-engine", "2", ".spec.replicas")
	// The record comes once what was rendered is there.
	testkit.Eventually(t, ometest.Soon, "the LeaderWorkerSet to have a record of what was rendered", func(context.Context) error {
		if record := ometest.Columns(w.Get("leaderworkerset", "lws-llama-engine"), `.metadata.annotations.ome\.io/last-rendered-autoscaler`); record == "<none>" {
			return errors.New("it has none")
		}
		return nil
	})
}
