// Package resourcescalinggroup is the controller of ResourceScalingGroups: it reads what there is, lets the pure
// packages decide, and writes what they decided.
//
// One rule makes it safe to kill at any point: which groups are to be removed is written to the status, against the
// version of the object that the choice was made from, before the first of them is touched. All else follows from what
// exists.
package resourcescalinggroup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/condition"
	"github.com/pd-orchestrator/pd-orchestrator/internal/config"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/groups"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/groupspec"
	"github.com/pd-orchestrator/pd-orchestrator/internal/desired"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
	"github.com/pd-orchestrator/pd-orchestrator/internal/metricsource"
	"github.com/pd-orchestrator/pd-orchestrator/internal/telemetry"
)

// Component is the name of this controller for --controllers, its field owner and its Lease.
const Component = "resourcescalinggroup"

// unwatchedRetry is when a pass is made again whose obstacle no watch reports the end of: a foreign ConfigMap of the
// name that the replica ConfigMap needs, since only labelled ones are cached.
const unwatchedRetry = time.Minute

// Reconciler reconciles ResourceScalingGroups. All exported fields must be set, but Metrics.
type Reconciler struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// APIReader reads from the API server.
	APIReader client.Reader
	// Namespaces limits what is watched; empty for all namespaces.
	Namespaces []string
	// Recorder writes events.
	Recorder events.EventRecorder
	// Clock tells the time.
	Clock clock.PassiveClock
	// Metrics ranks groups; nil when no Prometheus is configured.
	Metrics metricsource.Querier
	// Prometheus names labels and limits of queries.
	Prometheus config.Prometheus
	// CrossNamespace says whether targets in other namespaces are acted on.
	CrossNamespace config.CrossNamespace
	// OwnNamespace is the namespace of the manager, "" where it runs outside a cluster. Templates that run as one of its
	// ServiceAccounts are not cloned into it.
	OwnNamespace string
	// Telemetry are the product's metrics.
	Telemetry *telemetry.Metrics
	// Concurrency is how many objects are worked on at a time.
	Concurrency int

	indexer  client.FieldIndexer
	watches  *kube.Watches
	failures failures
}

// notice is an event for the user, written after the write that made it true.
type notice struct {
	warning bool
	reason  string
	action  string
	note    string
	// related is the other object that it is about. Events of one reason about the same objects, written in one pass,
	// are taken for repetitions of the first.
	related client.Object
}

// pass is the state of one Reconcile.
type pass struct {
	rsg   *v1alpha1.ResourceScalingGroup
	facts *facts
	base  []groups.Member
	// status is what GroupReplication saw and did, inplace what InplaceScaling did.
	status  desired.GroupObservation
	inplace *desired.InplaceObservation
	// events tell of writes that were made. settled ones tell of what the status says, and wait for its write.
	events, settled []notice
	// retry is when to look again although no watch will say so, 0 for never.
	retry time.Duration
}

func (p *pass) event(reason, action, format string, args ...any) {
	p.events = append(p.events, notice{reason: reason, action: action, note: fmt.Sprintf(format, args...)})
}

func (p *pass) settle(reason, action, format string, args ...any) {
	p.settled = append(p.settled, notice{reason: reason, action: action, note: fmt.Sprintf(format, args...)})
}

func (p *pass) warn(reason, action, format string, args ...any) {
	p.events = append(p.events, notice{warning: true, reason: reason, action: action, note: fmt.Sprintf(format, args...)})
}

func (p *pass) problem(reason, format string, args ...any) {
	p.status.Problems = append(p.status.Problems, condition.Problem{Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// lookAgain asks for another pass after this time at the latest.
func (p *pass) lookAgain(after time.Duration) {
	if p.retry == 0 || after < p.retry {
		p.retry = after
	}
}

// Reconcile makes one pass over one ResourceScalingGroup.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	rsg := &v1alpha1.ResourceScalingGroup{}
	if err := r.Client.Get(ctx, req.NamespacedName, rsg); err != nil {
		if apierrors.IsNotFound(err) {
			r.Telemetry.ForgetGroups(req.Namespace, req.Name)
			r.failures.forget(req.NamespacedName)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("reading ResourceScalingGroup: %w", err)
	}
	if rsg.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	p := &pass{rsg: rsg}
	err := r.run(ctx, p)
	if apierrors.IsConflict(err) {
		// Something changed since it was read, and the watch that reports it starts the next pass; an error would only
		// slow that one down.
		log.FromContext(ctx).V(1).Info("Read is outdated, requeue for convergence", "cause", err.Error())
		return ctrl.Result{RequeueAfter: 100 * time.Millisecond}, nil
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

func (r *Reconciler) run(ctx context.Context, p *pass) error {
	var err error
	if p.facts, err = r.gather(ctx, p.rsg); err != nil {
		return err
	}
	p.status.Problems = p.facts.problems
	switch p.rsg.Spec.ScalingStrategy.Type {
	case v1alpha1.GroupReplication:
		return r.replicate(ctx, p)
	case v1alpha1.InplaceScaling:
		return r.follow(ctx, p)
	}
	return r.finish(ctx, p, nil) // gather has said that there is no such strategy.
}

// replicate makes a pass of GroupReplication.
func (r *Reconciler) replicate(ctx context.Context, p *pass) error {
	writable := !p.facts.blocked && !desired.Paused(p.rsg)
	var errs []error
	if writable {
		errs = append(errs, r.ensureRecords(ctx, p), r.markBases(ctx, p))
	}
	p.base = p.facts.members(p.rsg.Status)
	p.status.Groups = p.facts.observe(p.base)
	p.status.Drifted = p.facts.drifted()
	if p.facts.revision != nil {
		p.status.Revision = p.facts.revision.Name
	}
	if p.status.Baselines.Counts == nil {
		p.status.Baselines = p.facts.baselines(p.base)
	}
	p.status.ScaleDown = p.rsg.Status.LastScaleDown.DeepCopy()
	p.status.HasReferences = len(groupspec.PodNamespaces(p.rsg)) > 1
	if err := r.findScalers(ctx, p); err != nil {
		return err
	}
	if writable {
		errs = append(errs, r.converge(ctx, p), r.markPods(ctx, p))
	}
	return r.finish(ctx, p, errors.Join(errs...))
}

// finish writes the status, then the events that it made true. cause is what went wrong before.
func (r *Reconciler) finish(ctx context.Context, p *pass, cause error) error {
	if kube.NamespaceTerminating(cause) {
		return cause
	}
	if text := r.failures.explain(client.ObjectKeyFromObject(p.rsg), cause, r.Clock.Now()); text != "" {
		p.problem(v1alpha1.ReasonWriteFailed, "%s", text)
	}
	before := p.rsg.Status.Conditions
	err := r.writeStatus(ctx, p)
	if err == nil {
		p.events = append(p.events, p.settled...)
		if len(p.status.Problems) > 0 {
			p.noteFalse(before, v1alpha1.ConditionReady, "Reconcile")
		}
		p.noteFalse(before, v1alpha1.ConditionTemplateReferences, "CheckReferences")
		if now, changed := p.changed(before, v1alpha1.ConditionReady); changed {
			log.FromContext(ctx).Info("Ready changed", "status", now.Status, "reason", now.Reason, "message", now.Message)
		}
	}
	r.emit(p)
	return errors.Join(cause, err)
}

// writeStatus writes the status where it differs from what was read. The write fails with a conflict when the object has
// changed since, so that no decision is put on record that was made from an outdated object.
func (r *Reconciler) writeStatus(ctx context.Context, p *pass) error {
	now := metav1.NewTime(r.Clock.Now()).Rfc3339Copy()
	var status v1alpha1.ResourceScalingGroupStatus
	if p.inplace != nil {
		p.inplace.Problems = p.status.Problems
		status = desired.InplaceStatus(p.rsg, *p.inplace, now)
	} else {
		status = desired.GroupStatus(p.rsg, p.status, now)
		r.Telemetry.SetGroups(p.rsg.Namespace, p.rsg.Name, desired.Replicas(p.rsg), *status.CurrentReplicas, *status.ReadyReplicas)
	}
	if equality.Semantic.DeepEqual(status, p.rsg.Status) {
		return nil
	}
	updated := p.rsg.DeepCopy()
	updated.Status = status
	err := r.Client.Status().Update(ctx, updated)
	if apierrors.IsNotFound(err) {
		return nil // It was deleted meanwhile.
	}
	if err != nil {
		return fmt.Errorf("writing status: %w", err)
	}
	p.rsg = updated
	return nil
}

// changed returns a condition, and whether its status, reason or message is another than before.
func (p *pass) changed(before []metav1.Condition, conditionType string) (*metav1.Condition, bool) {
	was, now := meta.FindStatusCondition(before, conditionType), meta.FindStatusCondition(p.rsg.Status.Conditions, conditionType)
	return now, now != nil && (was == nil || was.Status != now.Status || was.Reason != now.Reason || was.Message != now.Message)
}

// noteFalse adds a warning when a condition is False and has changed.
func (p *pass) noteFalse(before []metav1.Condition, conditionType, action string) {
	if now, changed := p.changed(before, conditionType); changed && now.Status == metav1.ConditionFalse {
		p.warn(now.Reason, action, "%s", now.Message)
	}
}

func (r *Reconciler) emit(p *pass) {
	for _, e := range p.events {
		kind := "Normal"
		if e.warning {
			kind = "Warning"
		}
		// The API server takes notes of at most 1024 bytes.
		var related runtime.Object
		if e.related != nil {
			related = e.related
		}
		r.Recorder.Eventf(p.rsg, related, kind, e.reason, e.action, "%s", shortened(e.note, 1000))
	}
}

func shortened(s string, most int) string {
	if len(s) <= most {
		return s
	}
	cut := most
	for cut > 0 && s[cut]&0xC0 == 0x80 {
		cut--
	}
	return s[:cut] + "…"
}
