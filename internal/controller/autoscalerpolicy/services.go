// Package autoscalerpolicy is the controllers of AutoscalerPolicies and of the serving slice that they attach to: an
// InferenceService becomes workloads and Services, and each of its components gets the autoscaler that its settings ask for.
//
// A pass over a service reads everything from caches, decides what each component runs and what it is scaled by, applies
// what differs, and writes one status. What a policy last rendered to is kept on the component's workload, so that a
// component whose policy cannot be used keeps it across restarts.
package autoscalerpolicy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/condition"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyresolve"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/servingcomponent"
	"github.com/pd-orchestrator/pd-orchestrator/internal/desired"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
	"github.com/pd-orchestrator/pd-orchestrator/internal/telemetry"
)

// Component is the name of these controllers for --controllers, their field owner and their Lease.
const Component = "autoscalerpolicy"

const (
	// unwatchedRetry is when a pass is made again whose obstacle no watch reports the end of, such as a webhook that
	// refuses.
	unwatchedRetry = time.Minute
	// conflictRetry lets the watch catch up after a write that was made from an outdated object.
	conflictRetry = 100 * time.Millisecond
)

// Services reconciles InferenceServices. All fields must be set.
type Services struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// APIReader reads from the API server.
	APIReader client.Reader
	// Namespaces limits what is watched; empty for all namespaces.
	Namespaces []string
	// Cluster knows which kinds there are, and the metric providers.
	Cluster *Cluster
	// Recorder writes events.
	Recorder events.EventRecorder
	// Clock tells the time.
	Clock clock.PassiveClock
	// Telemetry are the metrics of the component.
	Telemetry *telemetry.AutoscalerPolicy
	// Concurrency is how many objects are worked on at a time.
	Concurrency int

	cache           cache.Cache
	watches         *kube.Watches
	authentications authenticationLocks
	refusals        refusals
}

// notice is an event for the user, written after the write that made it true.
type notice struct {
	kind, reason, action, note string
}

// pass is the state of one Reconcile.
type pass struct {
	service *v1beta1.InferenceService
	facts   facts
	seen    desired.ServiceObservation
	events  []notice
	// retry is when to look again although no watch will say so, 0 for never.
	retry time.Duration
}

func (p *pass) retryIn(d time.Duration) {
	if p.retry == 0 || d < p.retry {
		p.retry = d
	}
}

// Reconcile makes one pass over one InferenceService, or looks at whether a TriggerAuthentication is needed.
func (r *Services) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if key, ok := authenticationOf(req); ok {
		return r.removeUnused(ctx, key)
	}
	service := &v1beta1.InferenceService{}
	if err := r.Client.Get(ctx, req.NamespacedName, service); err != nil {
		if apierrors.IsNotFound(err) {
			r.Telemetry.Forget(req.Namespace, req.Name)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("reading InferenceService: %w", err)
	}
	if service.DeletionTimestamp != nil {
		// What it owns goes with it.
		return ctrl.Result{}, nil
	}
	p := &pass{service: service}
	err := r.run(ctx, p)
	if apierrors.IsConflict(err) {
		log.FromContext(ctx).V(1).Info("Read is outdated", "cause", err.Error())
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	}
	if kube.NamespaceTerminating(err) {
		log.FromContext(ctx).V(1).Info("Namespace is being deleted", "cause", err.Error())
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: p.retry}, nil
}

func (r *Services) run(ctx context.Context, p *pass) error {
	var err error
	if p.facts, err = r.gather(ctx, p.service); err != nil {
		return err
	}
	p.seen.Choice = p.facts.choice
	var causes []error
	for _, c := range p.facts.components {
		o, err := r.component(ctx, p, c)
		if apierrors.IsConflict(err) {
			return err
		}
		if err != nil {
			// The other components go on.
			causes = append(causes, fmt.Errorf("component %s: %w", c.Name, err))
		}
		p.seen.Components = append(p.seen.Components, o)
	}
	if len(causes) == 0 {
		causes = append(causes, r.removeLeftovers(ctx, p))
	}
	return r.finish(ctx, p, errors.Join(causes...))
}

// component sees to one component: its pods, then what they are scaled by. What went wrong is in what is returned with an
// error too.
func (r *Services) component(ctx context.Context, p *pass, c component) (desired.ComponentObservation, error) {
	o := desired.ComponentObservation{Component: c.ServingComponent, Unknown: !p.facts.choice.Resolved}
	if err := r.workload(ctx, p, &o); err != nil {
		o.Problem, o.Unknown = &condition.Problem{Reason: v1beta1.ReasonApplyFailed, Message: err.Error()}, true
		return o, err
	}
	if o.Unknown {
		return o, nil
	}
	o.Resolution = policyresolve.Resolve(policyresolve.Facts{
		Service: p.service, Component: c.Component, PoliciesServed: p.facts.served.Policies, Policy: c.policy,
		KedaServed: p.facts.served.Keda, Bindings: p.facts.bindings, LastGood: desired.LastGood(o.Workload),
	})
	err := r.scale(ctx, p, &o)
	if err != nil {
		o.Applied = condition.New(v1beta1.ConditionAutoscalerApplied, false, v1beta1.ReasonApplyFailed, err.Error())
	}
	return o, err
}

// finish writes the status, then the events that it made true. cause is what went wrong before.
func (r *Services) finish(ctx context.Context, p *pass, cause error) error {
	if kube.NamespaceTerminating(cause) {
		return cause
	}
	before := p.service.Status
	status := desired.InferenceServiceStatus(p.service, p.seen, metav1.NewTime(r.Clock.Now()).Rfc3339Copy())
	var err error
	if !equality.Semantic.DeepEqual(status, before) {
		updated := p.service.DeepCopy()
		updated.Status = status
		err = client.IgnoreNotFound(r.Client.Status().Update(ctx, updated))
	}
	if err != nil {
		return errors.Join(cause, fmt.Errorf("writing status: %w", err))
	}
	r.note(p, before, status)
	for _, e := range p.events {
		r.Recorder.Eventf(p.service, nil, e.kind, e.reason, e.action, "%s", shortened(e.note))
	}
	return cause
}

// note adds events for what has changed: a component that begins to hold, an autoscaler that cannot be as it should, and a
// runtime that is missing.
func (r *Services) note(p *pass, before, after v1beta1.InferenceServiceStatus) {
	warn := func(reason, action, format string, args ...any) {
		p.events = append(p.events, notice{"Warning", reason, action, fmt.Sprintf(format, args...)})
	}
	if c := meta.FindStatusCondition(after.Conditions, v1beta1.ConditionRuntimeResolved); c.Status == metav1.ConditionFalse {
		if b := meta.FindStatusCondition(before.Conditions, c.Type); b == nil || b.Status != c.Status || b.Reason != c.Reason {
			warn(c.Reason, "Resolve", "%s", c.Message)
		}
	}
	holding, resolutions := map[string]bool{}, map[string]policyresolve.Resolution{}
	for _, o := range p.seen.Components {
		name := o.Component.Component.Name
		resolutions[name] = o.Resolution
		if hold := o.Resolution.Hold; hold != nil {
			holding[name] = true
			if hold.Begins {
				r.Telemetry.HoldBegan(hold.Reason)
				warn(v1beta1.EventAutoscalerPolicyHold, "Hold", "%s autoscaler is holding last-known-good (%s): %s", name, hold.Reason, hold.Detail)
			}
		}
		c := o.Applied
		if c.Status != metav1.ConditionFalse || c.Reason == v1beta1.ReasonSwitching || c.Reason == v1beta1.ReasonNoWorkload || c.Reason == v1beta1.ReasonNoRecord {
			continue
		}
		var b *metav1.Condition
		if s := policyresolve.Status(before.Components, name); s != nil && s.Autoscaler != nil {
			b = meta.FindStatusCondition(s.Autoscaler.Conditions, c.Type)
		}
		if b == nil || b.Status != c.Status || b.Reason != c.Reason {
			warn(c.Reason, "Apply", "%s autoscaler: %s", name, c.Message)
		}
	}
	for _, name := range []string{servingcomponent.Engine, servingcomponent.Decoder, servingcomponent.Router} {
		r.Telemetry.SetHolding(p.service.Namespace, p.service.Name, name, holding[name])
		r.Telemetry.SetAutoscaler(p.service.Namespace, p.service.Name, name, resolutions[name].Autoscaler, resolutions[name].Source)
	}
}

// shortened keeps a note within the 1024 bytes that the API server takes.
func shortened(s string) string {
	const most = 1000
	if len(s) <= most {
		return s
	}
	cut := most
	for cut > 0 && s[cut]&0xC0 == 0x80 {
		cut--
	}
	return s[:cut] + "…"
}
