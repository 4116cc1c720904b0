package resourcescalinggroup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/clone"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/ratio"
	"github.com/pd-orchestrator/pd-orchestrator/internal/desired"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
)

// follow makes a pass of InplaceScaling: it brings the leader and the followers to their counts. One that cannot be
// scaled does not stop the others.
func (r *Reconciler) follow(ctx context.Context, p *pass) error {
	p.inplace = &desired.InplaceObservation{}
	config := p.rsg.Spec.ScalingStrategy.LeaderFollowerConfig
	if config == nil {
		return r.finish(ctx, p, nil)
	}
	live := map[string]*int32{}
	for _, t := range p.facts.targets {
		if t.base != nil {
			n := clone.Replicas(t.base)
			live[t.name] = &n
		}
	}
	plan := ratio.Make(*config, live)
	for _, text := range plan.Problems {
		p.problem(v1alpha1.ReasonFollowerNotScaled, "%s", text)
	}

	var errs []error
	for _, t := range p.facts.targets {
		o := desired.InplaceTarget{Name: t.name}
		want, set := plan.Desired[t.name]
		// A RoleBasedGroup's own controller would put the count back.
		set = set && !t.role
		if set {
			o.Desired = &want
		}
		if t.base != nil {
			o.Replicas, o.Available = clone.Replicas(t.base), t.kind.Available(t.base)
			o.Current = o.Replicas
			if set {
				wrote, err := r.setCount(ctx, p, t, *config, plan, want)
				if wrote {
					o.Current = want
				}
				errs = append(errs, err)
			}
		}
		p.inplace.Targets = append(p.inplace.Targets, o)
	}
	// The pass that reads what has changed follows at once. This one puts no count on record: it may be one that somebody has
	// set meanwhile, and that pass is to see that it was another before.
	if slices.ContainsFunc(errs, apierrors.IsConflict) {
		r.emit(p)
		return errors.Join(errs...)
	}
	return r.finish(ctx, p, errors.Join(errs...))
}

// setCount writes the count of one target, unless it has it or somebody else scales it. It reports whether it wrote.
func (r *Reconciler) setCount(ctx context.Context, p *pass, t target, config v1alpha1.LeaderFollowerConfig, plan ratio.Plan, want int32) (bool, error) {
	rival, err := r.rivalOf(ctx, p.rsg, t)
	if err != nil {
		return false, err
	}
	if rival != "" {
		p.inplace.Conflicts = append(p.inplace.Conflicts, fmt.Sprintf("%s of target %q is scaled by %s", t, t.name, rival))
		return false, nil
	}
	had := clone.Replicas(t.base)
	if had == want || p.facts.blocked || desired.Paused(p.rsg) {
		return false, nil
	}
	if err := kube.Scale(ctx, r.Client, t.base, want); err != nil {
		if apierrors.IsConflict(err) {
			return false, err
		}
		return false, fmt.Errorf("patch %s replicas failed: target %q: %w", roleOf(p.rsg, t.name), t.name, err)
	}
	log.FromContext(ctx).Info("Set replicas", "target", t.name, "object", t.String(), "from", had, "to", want)
	e := notice{reason: v1alpha1.EventReplicasSet, action: "SetLeader", related: t.base,
		note: fmt.Sprintf("%s goes from %d to %d replicas, as leader.replicas says", t, had, want)}
	switch {
	case t.name != config.Leader.ResourceName:
		e.action = "FollowLeader"
		e.note = fmt.Sprintf("%s goes from %d to %d replicas: leader %q has %d", t, had, want, config.Leader.ResourceName, *plan.Leader)
	case p.wasLeftAt(t.name, want):
		e.warning, e.reason = true, v1alpha1.EventLeaderReset
		e.note = fmt.Sprintf("%s was changed to %d replicas and is set back to %d: to change it, set spec.scalingStrategy.leaderFollowerConfig.leader.replicas, or remove that field to follow the live count", t, had, want)
	}
	p.events = append(p.events, e)
	return true, nil
}

// wasLeftAt reports whether an earlier pass over this spec left the target with the count.
func (p *pass) wasLeftAt(target string, count int32) bool {
	if p.rsg.Status.ObservedGeneration != p.rsg.Generation {
		return false
	}
	for _, t := range p.rsg.Status.Targets {
		if t.Name == target {
			return t.CurrentReplicas != nil && *t.CurrentReplicas == count
		}
	}
	return false
}
