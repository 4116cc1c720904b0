package groups

// Member is one workload of a group as it stands in the cluster.
type Member struct {
	// Target is the name of the target that the workload belongs to.
	Target string
	// Object is the kind and name of the workload, for messages.
	Object string
	// Exists is false when the workload is not there.
	Exists bool
	// Terminating is true when it is being deleted.
	Terminating bool
	// Desired and Available count its replicas.
	Desired, Available int32
	// Trouble is what the workload's controller says is in the way of its replicas, "" where it says nothing.
	Trouble string
	// Revision names the snapshot that a clone's workload was made from, "" where it does not say.
	Revision string
	// Marked is true for a base workload that carries the annotation with the count to return to.
	Marked bool
	// Baseline is the positive count that the annotation holds, 0 where it holds none.
	Baseline int32
	// Unknown is true for a base workload at zero replicas of which nothing says how many it should have.
	Unknown bool
}

// Service is a Service of a clone as it stands in the cluster.
type Service struct {
	// Name of the Service.
	Name string
	// Exists is false when it is not there.
	Exists bool
	// Terminating is true when it is being deleted.
	Terminating bool
	// Revision names the snapshot that it was made from, "" where it does not say.
	Revision string
}

// ObserveClone sums up a clone. revision names the present snapshot, "" where there is none.
func ObserveClone(id int32, members []Member, services []Service, revision string) Group {
	g := Group{ID: id, Members: members}
	workloads := 0
	other := func(made string) bool { return made != "" && made != revision && revision != "" }
	for _, m := range members {
		g.Outdated = g.Outdated || other(m.Revision)
		switch {
		case !m.Exists:
			g.Missing = append(g.Missing, m.Object)
		case m.Terminating:
			g.Terminating = true
			workloads++
		default:
			workloads++
		}
	}
	g.Drained = workloads == 0
	for _, s := range services {
		if !s.Exists {
			g.Missing = append(g.Missing, "Service "+s.Name)
		}
		g.Terminating = g.Terminating || s.Terminating
		g.Outdated = g.Outdated || other(s.Revision)
	}
	g.Outdated = g.Outdated && len(g.Missing) > 0
	g.Touched = g.Terminating || len(g.Missing) > 0
	return g
}

// ObserveBase sums up group 0. It stands at zero when each of its workloads carries the mark and has no replicas, or
// when the count of one of them is unknown; a workload that somebody else set to zero keeps it counted.
func ObserveBase(members []Member) Group {
	g := Group{ID: 0, Members: members, Empty: true}
	atZero, unknown := true, false
	for _, m := range members {
		if !m.Exists {
			g.Missing = append(g.Missing, m.Object)
			continue
		}
		g.Empty = false
		g.Terminating = g.Terminating || m.Terminating
		g.Touched = g.Touched || m.Marked
		atZero = atZero && m.Marked && m.Desired == 0
		unknown = unknown || m.Unknown
	}
	g.AtZero = !g.Empty && (atZero || unknown)
	g.Touched = g.Touched || g.Terminating
	return g
}

// Available reports whether the group is complete and each of its workloads has at least one replica and all of them
// available.
func (g Group) Available() bool {
	if !g.Complete() {
		return false
	}
	for _, m := range g.Members {
		if m.Desired == 0 || m.Available < m.Desired {
			return false
		}
	}
	return true
}
