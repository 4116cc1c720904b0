package ratio

import (
	"fmt"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
)

// Plan says how many replicas the targets of an InplaceScaling strategy should have.
type Plan struct {
	// Leader is the leader's count, nil when it is not known: then nothing may be changed.
	Leader *int32
	// Desired counts by target name, of those that the strategy sets: the followers, and the leader where the spec
	// gives its count.
	Desired map[string]int32
	// Problems lists followers that have no count, with the reason, in the order of the spec.
	Problems []string
}

// Make plans from the configuration and the live counts of the targets, nil for one that does not exist. A follower
// without a count does not stop the others.
func Make(config v1alpha1.LeaderFollowerConfig, live map[string]*int32) Plan {
	p := Plan{Desired: map[string]int32{}}
	leader := config.Leader.ResourceName
	if config.Leader.Replicas != nil {
		p.Leader = config.Leader.Replicas
		p.Desired[leader] = *config.Leader.Replicas
	} else {
		p.Leader = live[leader]
	}
	if p.Leader == nil {
		return p
	}
	for _, f := range config.Follower {
		if f.ResourceName == leader {
			p.Problems = append(p.Problems, fmt.Sprintf("follower %q: is the leader, which does not follow itself", f.ResourceName))
			continue
		}
		r, err := Parse(f.FollowRatio)
		if err == nil {
			var n int32
			if n, err = Follow(*p.Leader, r); err == nil {
				p.Desired[f.ResourceName] = n
				continue
			}
		}
		p.Problems = append(p.Problems, fmt.Sprintf("follower %q: %v", f.ResourceName, err))
	}
	return p
}
