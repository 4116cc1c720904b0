package crash

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/test/resourcescalinggroup/rsgtest"
)

// The leader's count is changed by hand, and the Deployment changes once more before it is set back, so that the first
// attempt is refused. What is told is still that somebody had changed the count.
func TestALeaderIsResetAfterARefusedAttempt(t *testing.T) {
	w := env.World(t, "llm")
	w.CreateBase(1, 1)
	rsg := w.RSG().Obj()
	three := int32(3)
	rsg.Spec.ScalingStrategy = v1alpha1.ScalingStrategy{Type: v1alpha1.InplaceScaling, LeaderFollowerConfig: &v1alpha1.LeaderFollowerConfig{
		Leader:   v1alpha1.Leader{ResourceName: "prefill", Replicas: &three},
		Follower: []v1alpha1.Follower{{ResourceName: "decode", FollowRatio: intstr.FromInt32(1)}},
	}}
	w.Create(rsg)
	w.Event("Normal", v1alpha1.EventReplicasSet, "llm-prefill goes from 1 to 3")
	reaches := func() {
		t.Helper()
		testkit.Eventually(t, rsgtest.Patience, "the leader to be on record and in the cluster with 3 replicas", func(ctx context.Context) error {
			leader := &appsv1.Deployment{}
			if err := w.Client.Get(ctx, types.NamespacedName{Namespace: w.Base, Name: "llm-prefill"}, leader); err != nil {
				return err
			}
			for _, target := range w.Live().Status.Targets {
				if n := target.CurrentReplicas; target.Name == "prefill" && n != nil && *n == 3 && *leader.Spec.Replicas == 3 {
					return nil
				}
			}
			return fmt.Errorf("it has %d, and on record is %+v", *leader.Spec.Replicas, w.Live().Status.Targets)
		})
	}
	reaches()

	var attempts atomic.Int32
	api.between(t, func(r *http.Request) {
		if r.Method != http.MethodPut || !strings.HasSuffix(r.URL.Path, "/deployments/llm-prefill/scale") || attempts.Add(1) > 1 {
			return
		}
		leader := &appsv1.Deployment{}
		leader.Namespace, leader.Name = w.Base, "llm-prefill"
		note := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"example.com/note":"changed meanwhile"}}}`))
		if err := w.Client.Patch(r.Context(), leader, note); err != nil {
			t.Error(err)
		}
	})
	rsgtest.Update(w, &appsv1.Deployment{}, w.Base, "llm-prefill", func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(5)) })
	w.Event("Warning", v1alpha1.EventLeaderReset, "was changed to 5", "set back to 3")
	reaches()
	if n := attempts.Load(); n < 2 {
		t.Errorf("%d attempts, want the refused one and another", n)
	}
}
