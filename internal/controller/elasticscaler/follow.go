package elasticscaler

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/scalerspec"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/signals"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/state"
	"github.com/pd-orchestrator/pd-orchestrator/internal/desired"
	"github.com/pd-orchestrator/pd-orchestrator/internal/metricsource"
	"github.com/pd-orchestrator/pd-orchestrator/internal/signal"
)

// follow takes the last decision on metrics, as long as the target is what it was made for.
func (r *Reconciler) follow(p *pass) {
	d := p.known.plan
	if d == nil || p.target == nil || d.target != p.target.uid {
		p.known.plan = nil
		return
	}
	p.observation.Decision = desired.DecisionOfPlan(d.plan, p.known.settings.Algorithm.Name(), d.current, metav1.NewTime(d.at).Rfc3339Copy())
	p.observation.Calculated = d.plan.Calculated
	// Somebody else has set another count since. The next round decides from there.
	if p.target.count.Desired == d.current {
		p.observation.Want = &d.plan.Desired
	}
}

// followState takes the count from the object that drives the scaler.
func (r *Reconciler) followState(ctx context.Context, p *pass) error {
	found, err := r.sources.of(ctx, p.scaler)
	if err != nil {
		return err
	}
	choice := state.Choose(p.scaler, found)
	now := metav1.NewTime(r.Clock.Now()).Rfc3339Copy()
	p.observation.Decision = desired.DecisionOfState(choice, scalerspec.BoundsOf(p.scaler.Spec), p.current(), now)
	p.observation.Calculated = choice.Replicas != nil
	p.observation.Want = p.observation.Decision.DesiredReplicas
	return nil
}

// followSignal listens at the endpoint, and takes the count from the last signal that was accepted.
func (r *Reconciler) followSignal(p *pass) {
	key := client.ObjectKeyFromObject(p.scaler)
	t := p.scaler.Spec.Trigger.SignalTrigger
	request, err := metricsource.EndpointRequest(t.Endpoint, string(t.Protocol), "", "")
	if err != nil {
		p.invalid(v1alpha1.ReasonInvalidSpec, "spec.trigger.signalTrigger.endpoint: %v", err)
		r.Listeners.Forget(key)
		return
	}
	last := p.scaler.Status.LastSignal
	endpoint := signal.Endpoint{UID: p.scaler.UID, URL: request.URL, Interval: scalerspec.Interval(p.scaler.Spec, r.Defaults), Token: t.TokenSecretRef, CA: t.CASecretRef}
	if last != nil {
		endpoint.LastEventID = last.ID
	}
	r.Listeners.Set(key, endpoint)
	if s, ok := r.Listeners.State(key); ok {
		p.observation.Listening = &desired.Listening{Reason: s.Reason, Message: s.Error, Refused: s.Refused}
	}
	now := metav1.NewTime(r.Clock.Now()).Rfc3339Copy()
	p.observation.Decision = desired.DecisionOfSignal(last, scalerspec.BoundsOf(p.scaler.Spec), p.current(), now)
	p.observation.Calculated = last != nil
	p.observation.Want = p.observation.Decision.DesiredReplicas
}

func (p *pass) current() *int32 {
	if p.target == nil {
		return nil
	}
	return &p.target.count.Desired
}

// Accept implements signal.Acceptor. It records a signal that counts in the status of its scaler, where the replica of the
// manager that leads finds it.
func (r *Reconciler) Accept(ctx context.Context, key types.NamespacedName, m signals.Message) (signals.Outcome, error) {
	for {
		scaler := &v1alpha1.ElasticScaler{}
		err := r.APIReader.Get(ctx, key, scaler)
		if apierrors.IsNotFound(err) || err == nil && scaler.Spec.Trigger.Type != v1alpha1.SignalTriggerType {
			return signals.Outcome{Result: signals.NotFound, Reason: fmt.Sprintf("there is no ElasticScaler %s with a SignalTrigger", key)}, nil
		}
		if err != nil {
			return signals.Outcome{}, fmt.Errorf("reading ElasticScaler %s: %w", key, err)
		}
		now := r.Clock.Now()
		outcome := signals.Accept(scaler.Status.LastSignal, m, now)
		if outcome.Result != signals.Accepted {
			return outcome, nil
		}
		received := metav1.NewTime(now).Rfc3339Copy()
		scaler.Status.LastSignal = &v1alpha1.Signal{Signal: m.Signal, ID: m.ID, ReceivedTime: &received}
		if !m.Time.IsZero() {
			at := metav1.NewTime(m.Time)
			scaler.Status.LastSignal.Time = &at
		}
		// Another one may have come meanwhile, or the status changed for another reason.
		if err := r.Client.Status().Update(ctx, scaler); apierrors.IsConflict(err) && ctx.Err() == nil {
			continue
		} else if err != nil {
			return signals.Outcome{}, fmt.Errorf("recording the signal: %w", err)
		}
		return outcome, nil
	}
}

// sameSignal reports whether two signals are one.
func sameSignal(a, b *v1alpha1.Signal) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Signal == b.Signal && a.ID == b.ID && a.Time.Equal(b.Time) && a.ReceivedTime.Equal(b.ReceivedTime)
}
