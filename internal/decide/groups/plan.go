// Package groups decides, from what exists of the groups of a ResourceScalingGroup and how many are wanted, which
// groups to create, to finish, to recover and to go on removing, and how many more have to be chosen for removal.
//
// The rules:
//
//   - A group is alive while anything of it exists, nothing of it is terminating and it was not chosen for removal.
//     Group 0, the user's own workloads, is alive unless it stands at zero.
//   - A group that was chosen for removal is removed even when it is half gone. It is spared only when more groups
//     are wanted again and nothing of it was touched yet; group 0 can always be spared.
//   - Missing groups fill the lowest free ids, group 0 first when it stands at zero. An id is free when nothing of
//     that group exists, so a terminating group keeps its id and delays nobody else.
//   - A living group of which something is missing is finished, under its own id, unless what there is of it was made
//     from a snapshot that is no more: a group is made wholly from one. Such a group is discarded, and another made.
package groups

import (
	"slices"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
)

// Group is what exists of one group.
type Group struct {
	// ID of the group, 0 for the user's own workloads.
	ID int32
	// Members are its workloads, one for each target in the order of the spec.
	Members []Member
	// Missing names the objects that belong to the group and do not exist.
	Missing []string
	// Empty is true when nothing of the group exists. Only group 0 can be listed so.
	Empty bool
	// Terminating is true when the API server is already deleting something of the group.
	Terminating bool
	// AtZero is true for group 0 when all its workloads wait at zero for their recovery.
	AtZero bool
	// Drained is true for a clone that has no workload left; its Services can go then.
	Drained bool
	// Outdated is true for a clone of which something is missing that can not be made to match: what exists of it was
	// made from another snapshot than the present one.
	Outdated bool
	// Touched is true when the removal of the group has begun: something of it is terminating or gone, or is on its
	// way to zero.
	Touched bool
}

// Complete reports whether every object of the group exists and stays.
func (g Group) Complete() bool {
	return !g.Empty && !g.Terminating && !g.AtZero && len(g.Missing) == 0
}

// Facts is what the plan is made from.
type Facts struct {
	// Desired number of groups, from 0 to MaxGroupID+1.
	Desired int32
	// Groups of which anything exists, by ascending id, group 0 included.
	Groups []Group
	// Victims are the groups that an earlier pass chose for removal and that are not gone yet, in the order of choice.
	Victims []int32
	// CanCreate says whether clones can be made now: there is a snapshot, and a count for each target on record.
	CanCreate bool
	// CanRecover says whether group 0 can leave zero now: there is a count for each of its workloads on record.
	CanRecover bool
}

// Plan says what to do with which group.
type Plan struct {
	// Create lists the ids of new clones, ascending.
	Create []int32
	// Finish lists living clones of which something is missing, ascending.
	Finish []int32
	// Discard lists outdated clones, ascending. They are removed, and do not count as living.
	Discard []int32
	// Recover is true when group 0 leaves zero.
	Recover bool
	// Remove lists the victims that stay victims, in the order of choice.
	Remove []int32
	// Spared lists the victims that are victims no longer, ascending.
	Spared []int32
	// Excess is how many of Candidates have to be chosen for removal, on top of Remove.
	Excess int
	// Candidates are the living groups, ascending.
	Candidates []Group
}

// Make plans one step. It is a function of the facts alone.
func Make(f Facts) Plan {
	var p Plan
	byID := map[int32]Group{}
	for _, g := range f.Groups {
		byID[g.ID] = g
	}
	victim := map[int32]bool{}
	for _, id := range f.Victims {
		victim[id] = true
	}
	// Without a snapshot to make another group from, an outdated one is better than none.
	outdated := func(g Group) bool { return g.Outdated && f.CanCreate && !victim[g.ID] }
	alive := func(g Group) bool {
		return !g.Empty && !g.Terminating && !g.AtZero && !victim[g.ID] && !outdated(g)
	}
	living := 0
	for _, g := range f.Groups {
		if alive(g) {
			living++
		}
	}

	// The last chosen is spared first: it was the least suited for removal.
	for i := len(f.Victims) - 1; i >= 0; i-- {
		g, exists := byID[f.Victims[i]]
		if int32(living) >= f.Desired || !exists || g.Terminating || g.AtZero || g.Touched && g.ID != 0 {
			continue
		}
		delete(victim, g.ID)
		p.Spared = append(p.Spared, g.ID)
		living++
	}
	slices.Sort(p.Spared)
	for _, id := range f.Victims {
		if victim[id] {
			p.Remove = append(p.Remove, id)
		}
	}

	for _, g := range f.Groups {
		if outdated(g) {
			p.Discard = append(p.Discard, g.ID)
		}
		if !alive(g) {
			continue
		}
		p.Candidates = append(p.Candidates, g)
		if g.ID != 0 && len(g.Missing) > 0 && f.CanCreate {
			p.Finish = append(p.Finish, g.ID)
		}
	}

	short := int(f.Desired) - living
	if short <= 0 {
		p.Excess = -short
		return p
	}
	if zero, ok := byID[0]; ok && zero.AtZero && !victim[0] && f.CanRecover {
		p.Recover = true
		short--
	}
	if f.CanCreate {
		for id := int32(1); id <= v1alpha1.MaxGroupID && short > 0; id++ {
			if _, taken := byID[id]; taken || victim[id] {
				continue
			}
			p.Create = append(p.Create, id)
			short--
		}
	}
	return p
}
