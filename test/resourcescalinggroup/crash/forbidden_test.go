package crash

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab"
	"github.com/pd-orchestrator/pd-orchestrator/test/resourcescalinggroup/rsgtest"
)

// A manager with the component's own Role, less the right to create Deployments: the condition says so, and once the
// right is there the group is completed.
func TestForbidden(t *testing.T) {
	ctx := t.Context()
	account, err := testkit.InstallRoles(ctx, env.Client, "../../../config/rbac/resourcescalinggroup/role.yaml", lab.ProductNamespace)
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{}
	if err := env.Client.Get(ctx, client.ObjectKey{Name: account}, role); err != nil {
		t.Fatal(err)
	}
	whole := role.DeepCopy().Rules
	for i := range role.Rules {
		if slices.Contains(role.Rules[i].Resources, "deployments") {
			role.Rules[i].Verbs = slices.DeleteFunc(role.Rules[i].Verbs, func(verb string) bool { return verb == "create" })
		}
	}
	if err := env.Client.Update(ctx, role); err != nil {
		t.Fatal(err)
	}
	identity, err := env.Lab.ServiceAccountConfig(ctx, lab.ProductNamespace, account)
	if err != nil {
		t.Fatal(err)
	}
	if err := env.Manager.Stop(); err != nil {
		t.Fatal(err)
	}
	api.reset()
	if _, err := env.StartManager(ctx, rsgtest.ManagerOptions{Client: identity, Args: []string{"--controllers=resourcescalinggroup"}}); err != nil {
		t.Fatal(err)
	}

	w := env.World(t, "llm")
	w.CreateBase(1, 1)
	w.Create(w.RSG().Replicas(2).Obj())
	texts := []string{"group 1 lacks Deployment " + w.Namespace + "/prefill-decode-llm-", "forbidden: ", account, "cannot create resource"}
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWriteFailed, texts...)
	w.Event("Warning", v1alpha1.ReasonWriteFailed, texts...)
	role.Rules = whole
	if err := env.Client.Update(ctx, role); err != nil {
		t.Fatal(err)
	}
	w.Settled(2)
	w.HasGroups(map[int32][2]int32{0: {1, 1}, 1: {1, 1}})

	if err := env.Manager.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := startManager(ctx, env, "Trusted"); err != nil {
		t.Fatal(err)
	}
}
