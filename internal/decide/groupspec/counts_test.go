package groupspec

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
)

func TestOwnCounts(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*v1alpha1.ResourceScalingGroup)
		want   []string
	}{
		"followers, and a leader whose count it says": {func(*v1alpha1.ResourceScalingGroup) {}, []string{"Deployment ns/prefill", "Deployment ns/decode"}},
		"a leader that others scale": {
			func(r *v1alpha1.ResourceScalingGroup) {
				r.Spec.ScalingStrategy.LeaderFollowerConfig.Leader.Replicas = nil
			},
			[]string{"Deployment ns/decode"},
		},
		"paused":    {func(r *v1alpha1.ResourceScalingGroup) { r.Spec.Paused = new(true) }, nil},
		"of copies": {func(r *v1alpha1.ResourceScalingGroup) { r.Spec.ScalingStrategy.Type = v1alpha1.GroupReplication }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			rsg := &v1alpha1.ResourceScalingGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r"}}
			for _, n := range []string{"prefill", "decode", "gateway"} {
				rsg.Spec.TargetResources = append(rsg.Spec.TargetResources, v1alpha1.TargetResource{
					Name: n, ResourceRef: v1alpha1.ResourceRef{APIVersion: "apps/v1", Kind: "Deployment", Name: n},
				})
			}
			rsg.Spec.ScalingStrategy = v1alpha1.ScalingStrategy{Type: v1alpha1.InplaceScaling, LeaderFollowerConfig: &v1alpha1.LeaderFollowerConfig{
				Leader:   v1alpha1.Leader{ResourceName: "prefill", Replicas: new(int32(2))},
				Follower: []v1alpha1.Follower{{ResourceName: "decode"}},
			}}
			tc.change(rsg)
			var got []string
			for _, w := range OwnCounts(rsg) {
				got = append(got, w.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("workloads (-want +got):\n%s", diff)
			}
		})
	}
}
