package tidal

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/tides"
	"github.com/pd-orchestrator/pd-orchestrator/internal/desired"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
)

// scale writes the count of the firing in force to the target, unless that firing has reached it already. The count is
// read anew just before and written against the version read, so a count that somebody sets meanwhile is not overwritten
// unseen: the write fails, and the next pass decides from what is there then.
func (r *Reconciler) scale(ctx context.Context, p *pass) error {
	p.status.LastScale = p.tidal.Status.LastScale
	active, target := p.status.Plan.Active, p.facts.target
	if active == nil || tides.Suspended(p.tidal) || p.status.YieldsTo != "" {
		return nil
	}
	if p.facts.rivals && len(p.known.rules) == 0 {
		return nil // What its broken rule wanted stays in force, and is no reason to write what another one writes.
	}
	p.status.Pending = true
	if p.facts.blocked || target == nil {
		return nil
	}
	uid := string(target.GetUID())
	for _, record := range []*v1alpha1.ScaleRecord{p.tidal.Status.LastScale, p.known.scaled} {
		if desired.Reached(record, *active, uid) {
			p.status.Pending, p.status.LastScale = false, record
			return nil
		}
	}
	scaled := addressOf(target)
	current, err := kube.ReadScale(ctx, r.Client, scaled)
	if err == nil && current.Spec.Replicas != active.Replicas {
		err = kube.Scale(ctx, r.Client, scaled, active.Replicas)
	}
	switch {
	case apierrors.IsNotFound(err):
		// The cache still has it. Its watch will tell that it is gone.
		p.problem(v1alpha1.ReasonTargetNotFound, "target %s does not exist: create it, or correct spec.targetRef", kube.Describe(target))
		p.retry = unwatchedRetry
		return nil
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsMethodNotSupported(err):
		// Trying again at once would give the same answer.
		p.problem(v1alpha1.ReasonScaleFailed, "%v", err)
		p.retry = unwatchedRetry
		return nil
	case apierrors.IsConflict(err):
		return err
	case err != nil:
		p.problem(v1alpha1.ReasonScaleFailed, "%v", err)
		return err
	}
	p.status.Pending = false
	p.status.LastScale = desired.ScaleRecord(*active, string(scaled.GetUID()))
	p.known.scaled = p.status.LastScale
	if last := p.tidal.Status.LastScale; p.sameSpec && last != nil && last.TargetUID == uid && active.Time.After(last.Time.Time) {
		r.Telemetry.Fired(r.Clock.Now().Sub(active.Time))
	}
	if current.Spec.Replicas != active.Replicas {
		p.written = true
		r.Telemetry.Scaled()
		log.FromContext(ctx).Info("Scaled", "target", kube.Describe(target), "from", current.Spec.Replicas, "to", active.Replicas, "rule", active.Rule, "since", active.Time)
		p.known.told = &notice{kind: "Normal", reason: v1alpha1.ReasonScaled, action: "Scale",
			note: fmt.Sprintf("rule %q: %s scaled from %d to %d replicas", active.Rule, kube.Describe(target), current.Spec.Replicas, active.Replicas)}
	}
	r.memory.keep(client.ObjectKeyFromObject(p.tidal), p.known)
	return nil
}

// addressOf returns an object by which the scale subresource of a target is found.
func addressOf(target client.Object) *unstructured.Unstructured {
	address := kube.NewWorkload(target.GetObjectKind().GroupVersionKind())
	address.SetNamespace(target.GetNamespace())
	address.SetName(target.GetName())
	return address
}
