package crash

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
)

// Without crossNamespace: Trusted a target in another namespace is refused and nothing is done to it; a manager that
// trusts goes on from there.
func TestTargetInAnotherNamespaceWithoutTrust(t *testing.T) {
	if err := env.Manager.Stop(); err != nil {
		t.Fatal(err)
	}
	api.reset()
	if err := startManager(t.Context(), env, "Denied"); err != nil {
		t.Fatal(err)
	}
	w := env.World(t, "llm")
	w.CreateBase(1, 1)
	w.Create(w.RSG().Replicas(2).Obj())
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonCrossNamespaceDenied,
		`target "prefill" is in namespace `+w.Base, "unless the operator")
	w.Event("Warning", v1alpha1.ReasonCrossNamespaceDenied, "unless the operator")
	w.HasGroups(map[int32][2]int32{0: {1, 1}})

	near := env.World(t, "near").OneNamespace()
	near.CreateBase(1, 1)
	near.Create(near.RSG().Replicas(2).Obj())
	near.Settled(2)

	if err := env.Manager.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := startManager(t.Context(), env, "Trusted"); err != nil {
		t.Fatal(err)
	}
	w.Settled(2)
	w.HasGroups(map[int32][2]int32{0: {1, 1}, 1: {1, 1}})
}
