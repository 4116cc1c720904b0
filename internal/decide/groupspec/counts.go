package groupspec

import (
	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
)

// OwnCounts returns the workloads whose counts a ResourceScalingGroup of type InplaceScaling keeps: its followers, and the
// leader where it says the leader's count. One that is paused keeps none.
func OwnCounts(rsg *v1alpha1.ResourceScalingGroup) []Workload {
	c := rsg.Spec.ScalingStrategy.LeaderFollowerConfig
	if rsg.Spec.ScalingStrategy.Type != v1alpha1.InplaceScaling || c == nil || rsg.Spec.Paused != nil && *rsg.Spec.Paused {
		return nil
	}
	kept := map[string]bool{}
	if c.Leader.Replicas != nil {
		kept[c.Leader.ResourceName] = true
	}
	for _, f := range c.Follower {
		kept[f.ResourceName] = true
	}
	var out []Workload
	for i, w := range Workloads(rsg) {
		if kept[rsg.Spec.TargetResources[i].Name] {
			out = append(out, w)
		}
	}
	return out
}
