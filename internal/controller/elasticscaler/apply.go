package elasticscaler

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/condition"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
)

const (
	// writeAttempts is how often a count is written that is refused since the rest of the object changed meanwhile, as the
	// status of a workload does all the time while its pods start.
	writeAttempts = 5
	// fightAfter is how often in a row a count must be set back before that is called a fight.
	fightAfter = 3
	// fightForgotten is how long a count must have stood until setting it back is no longer part of a fight.
	fightForgotten = 2 * time.Minute
	// fightFirst and fightLast bound the time between two writes in a fight. It doubles from one to the next.
	fightFirst, fightLast = 10 * time.Second, 5 * time.Minute
)

// fight is what is remembered of another writer that sets the count back.
type fight struct {
	target types.UID
	// wrote is the count that was written last, and when.
	wrote int32
	at    time.Time
	// lost is how often it was set back in a row.
	lost int
	// told is what the condition says of it, and fresh that this was found out after the last write.
	told  string
	fresh bool
}

// pause is how long the last write must have been ago before the next one, and the count must have stood before the fight is
// over. It is 0 where there is no fight.
func (f *fight) pause() time.Duration {
	if f.lost < fightAfter {
		return 0
	}
	return min(fightFirst<<min(f.lost-fightAfter, 10), fightLast)
}

// left is how much of the pause is left.
func (f *fight) left(target types.UID, now time.Time) time.Duration {
	if f.target != target {
		return 0
	}
	return f.pause() - now.Sub(f.at)
}

// next is the fight after a target that had a count was given another.
func (f *fight) next(target types.UID, from, to int32, now time.Time) fight {
	n := fight{target: target, wrote: to, at: now}
	if f.target == target && f.wrote != from && now.Sub(f.at) <= f.pause()+fightForgotten {
		n.lost, n.told = f.lost+1, f.told
	}
	return n
}

// apply writes the count that was decided, unless the target has it.
func (r *Reconciler) apply(ctx context.Context, p *pass) error {
	want := p.observation.Want
	if !p.writes() {
		return nil
	}
	now, from := r.Clock.Now(), p.target.count.Desired
	f := &p.known.fight
	if left := f.left(p.target.uid, now); left > 0 && (want == nil || from == *want || from != f.wrote) {
		if want != nil && from != *want && !f.fresh {
			f.fresh = true
			f.told = fmt.Sprintf("somebody sets %s back to %d replicas each time that this scaler sets it to %d%s: take the count out of what applies it, or delete one of the two",
				p.target, from, f.wrote, r.otherWriter(ctx, p.target))
		}
		p.observation.Fight = f.told
		p.retryIn(left)
		return nil
	}
	if want == nil || from == *want {
		return nil
	}
	err := r.write(ctx, p, *want)
	switch {
	case apierrors.IsNotFound(err):
		p.invalid(v1alpha1.ReasonTargetNotFound, "target %s does not exist: create it, or correct spec.targetRef", p.target)
		p.retryIn(unwatchedRetry)
		return nil
	case apierrors.IsConflict(err):
		return err
	case err != nil:
		p.observation.WriteProblem = &condition.Problem{Reason: v1alpha1.ReasonScaleFailed, Message: err.Error()}
		if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err) {
			// Trying again at once would give the same answer.
			p.retryIn(unwatchedRetry)
			return nil
		}
		return err
	}
	*f = f.next(p.target.uid, from, *want, now)
	if left := f.left(p.target.uid, now); left > 0 {
		// Whether this one stands remains to be seen.
		p.observation.Fight = f.told
		p.retryIn(left)
	}
	if p.known.memory != nil {
		p.known.memory.Recorded(now, from, *want)
	}
	p.known.count = knownCount{}
	p.observation.Current, p.target.count.Desired = &from, *want
	at := metav1.NewTime(now).Rfc3339Copy()
	p.known.scaled, p.known.zeroed = &at, *want == 0
	why := p.observation.Reason()
	log.FromContext(ctx).Info("Scaled", "target", p.target.String(), "from", from, "to", *want, "why", why)
	r.Telemetry.Scaled(from, *want)
	p.events = append(p.events, notice{kind: "Normal", reason: v1alpha1.ReasonScaled, action: "Scale",
		note: fmt.Sprintf("%s scaled from %d to %d replicas: %s", p.target, from, *want, why)})
	return nil
}

// write sets the count. Where only the rest of the object has changed since the count was read, it is tried again; a count
// that somebody else set meanwhile is left for the next decision.
func (r *Reconciler) write(ctx context.Context, p *pass, want int32) error {
	t := p.target
	var err error
	for range writeAttempts {
		err = t.handler.UpdateReplicas(ctx, r.Client, t.reference(), t.count, want)
		if !apierrors.IsConflict(err) {
			return err
		}
		now, readErr := t.handler.GetCurrentReplicas(ctx, r.Client, t.reference())
		if readErr != nil {
			return readErr
		}
		if now.UID != t.count.UID || now.Desired != t.count.Desired {
			p.known.count = knownCount{}
			return err
		}
		t.count = now
	}
	return err
}

// otherWriter names the field manager that wrote the count of a target last, in words, where it is not this one.
func (r *Reconciler) otherWriter(ctx context.Context, t *target) string {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(t.kind.GroupVersionKind)
	if err := r.APIReader.Get(ctx, t.key, m); err != nil {
		return ""
	}
	var last *metav1.ManagedFieldsEntry
	for i := range m.ManagedFields {
		e := &m.ManagedFields[i]
		if e.FieldsV1 == nil || e.Manager == string(kube.FieldOwner(Component)) || !strings.Contains(e.FieldsV1.GetRawString(), `"f:replicas"`) || e.Subresource == "status" {
			continue
		}
		if last == nil || last.Time == nil || e.Time != nil && last.Time.Before(e.Time) {
			last = e
		}
	}
	if last == nil {
		return ""
	}
	return fmt.Sprintf(" (field manager %s)", last.Manager)
}
