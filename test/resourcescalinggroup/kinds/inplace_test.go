package kinds

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/test/resourcescalinggroup/rsgtest"
)

// leaderFollower is the document's example: a scheduler, a worker that follows twice and a sidecar that follows once.
func leaderFollower(w *rsgtest.World, leader *int32) *v1alpha1.ResourceScalingGroup {
	for _, name := range []string{"scheduler", "worker", "sidecar"} {
		w.Create(testkit.MakeDeployment(w.Base, name).Obj())
	}
	rsg := testkit.MakeRSG(w.Namespace, w.Name).Target("scheduler", w.Base, "scheduler").Target("worker", w.Base, "worker").Target("sidecar", w.Base, "sidecar").Obj()
	rsg.Spec.ScalingStrategy = v1alpha1.ScalingStrategy{Type: v1alpha1.InplaceScaling, LeaderFollowerConfig: &v1alpha1.LeaderFollowerConfig{
		Leader: v1alpha1.Leader{ResourceName: "scheduler", Replicas: leader},
		Follower: []v1alpha1.Follower{
			{ResourceName: "worker", FollowRatio: intstr.FromInt32(2)},
			{ResourceName: "sidecar", FollowRatio: intstr.FromString("0.5")},
		},
	}}
	return rsg
}

func waitCounts(w *rsgtest.World, counts map[string]int32) {
	w.T.Helper()
	for name, want := range counts {
		d := &appsv1.Deployment{}
		waitFor(w, fmt.Sprintf("%s to have %d replicas", name, want), d, w.Base, name, func() error {
			if *d.Spec.Replicas != want {
				return fmt.Errorf("it has %d", *d.Spec.Replicas)
			}
			return nil
		})
	}
}

func scale(w *rsgtest.World, name string, replicas int32) {
	w.T.Helper()
	rsgtest.Update(w, &appsv1.Deployment{}, w.Base, name, func(d *appsv1.Deployment) { d.Spec.Replicas = &replicas })
}

func TestFollowersFollowTheSpec(t *testing.T) {
	t.Parallel()
	w := env.World(t, "leader-follower-rsg")
	three := int32(3)
	w.Create(leaderFollower(w, &three))
	waitCounts(w, map[string]int32{"scheduler": 3, "worker": 6, "sidecar": 2})
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
	rsg := w.Condition(v1alpha1.ConditionScalable, metav1.ConditionFalse, v1alpha1.ReasonInplaceScaling)
	if err := w.Client.SubResource("scale").Get(t.Context(), rsg, &autoscalingv1.Scale{}); err == nil {
		t.Error("the scale subresource counts groups that there are none of")
	}
	w.Event("Normal", v1alpha1.EventReplicasSet, "worker goes from 1 to 6", `leader "scheduler" has 3`)

	scale(w, "scheduler", 5)
	waitCounts(w, map[string]int32{"scheduler": 3, "worker": 6})
	w.Event("Warning", v1alpha1.EventLeaderReset, "set back to 3", "leader.replicas")

	w.Edit(func(rsg *v1alpha1.ResourceScalingGroup) {
		zero := int32(0)
		rsg.Spec.ScalingStrategy.LeaderFollowerConfig.Leader.Replicas = &zero
	})
	waitCounts(w, map[string]int32{"scheduler": 0, "worker": 0, "sidecar": 0})
}

// That pods do not come up is another matter than who changes the count.
func TestALeaderThatIsNotReadyIsResetToo(t *testing.T) {
	t.Parallel()
	w := env.World(t, "follow")
	three := int32(3)
	rsg := leaderFollower(w, &three)
	rsgtest.Update(w, &appsv1.Deployment{}, w.Base, "scheduler", func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.NodeSelector = map[string]string{"accelerator": "none-has-it"}
	})
	w.Create(rsg)
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonReplicasUnavailable, "[scheduler]")
	scale(w, "scheduler", 5)
	waitCounts(w, map[string]int32{"scheduler": 3})
	w.Event("Warning", v1alpha1.EventLeaderReset, "was changed to 5", "set back to 3")
}

func TestFollowersFollowALiveLeader(t *testing.T) {
	t.Parallel()
	w := env.World(t, "follow")
	w.Create(leaderFollower(w, nil))
	waitCounts(w, map[string]int32{"scheduler": 1, "worker": 2, "sidecar": 1})
	scale(w, "scheduler", 5)
	waitCounts(w, map[string]int32{"scheduler": 5, "worker": 10, "sidecar": 3})
	scale(w, "worker", 1) // A follower belongs to the ratio.
	waitCounts(w, map[string]int32{"worker": 10})
}

// A follower that is not there is told, and the others follow; when it comes it follows too.
func TestAMissingFollowerStopsNobody(t *testing.T) {
	t.Parallel()
	w := env.World(t, "follow")
	rsg := leaderFollower(w, nil)
	w.Delete(&appsv1.Deployment{}, w.Base, "worker")
	w.WaitGone(&appsv1.Deployment{}, w.Base, "worker")
	w.Create(rsg)
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonTargetNotFound, "follower resource not found", `target "worker"`)
	w.Logged("follower resource not found")
	scale(w, "scheduler", 4)
	waitCounts(w, map[string]int32{"sidecar": 2})
	w.Create(testkit.MakeDeployment(w.Base, "worker").Obj())
	waitCounts(w, map[string]int32{"worker": 8})
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
}
