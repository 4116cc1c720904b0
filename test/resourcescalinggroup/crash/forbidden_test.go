package crash

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab"
	"github.com/pd-orchestrator/pd-orchestrator/test/resourcescalinggroup/rsgtest"
)

// A manager with the component's own Role, less the rights to create Deployments and to scale them: conditions and log
// say so, and once the rights are there the group is completed and the follower follows.
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
		rule := &role.Rules[i]
		for resource, verb := range map[string]string{"deployments": "create", "deployments/scale": "update"} {
			if slices.Contains(rule.Resources, resource) {
				rule.Verbs = slices.DeleteFunc(rule.Verbs, func(v string) bool { return v == verb })
			}
		}
		if len(rule.Verbs) == 0 {
			rule.Verbs = []string{"get"}
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
	w.Logged("group 1 lacks Deployment", "forbidden")

	f := env.World(t, "follow").OneNamespace()
	f.Create(testkit.MakeDeployment(f.Namespace, "scheduler").Obj(), testkit.MakeDeployment(f.Namespace, "worker").Obj())
	rsg := testkit.MakeRSG(f.Namespace, f.Name).Target("scheduler", "", "scheduler").Target("worker", "", "worker").Obj()
	rsg.Spec.ScalingStrategy = v1alpha1.ScalingStrategy{Type: v1alpha1.InplaceScaling, LeaderFollowerConfig: &v1alpha1.LeaderFollowerConfig{
		Leader:   v1alpha1.Leader{ResourceName: "scheduler"},
		Follower: []v1alpha1.Follower{{ResourceName: "worker", FollowRatio: intstr.FromInt32(2)}},
	}}
	f.Create(rsg)
	f.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWriteFailed, "patch follower replicas failed", `target "worker"`, "update scale failed", "forbidden")
	f.Logged("patch follower replicas failed", "update scale failed", "forbidden")

	role.Rules = whole
	if err := env.Client.Update(ctx, role); err != nil {
		t.Fatal(err)
	}
	w.Settled(2)
	w.HasGroups(map[int32][2]int32{0: {1, 1}, 1: {1, 1}})
	f.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
	if got := f.Workloads(); got["worker"] != 2 {
		t.Errorf("the follower has %d replicas, want 2", got["worker"])
	}

	if err := env.Manager.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := startManager(ctx, env, "Trusted"); err != nil {
		t.Fatal(err)
	}
}
