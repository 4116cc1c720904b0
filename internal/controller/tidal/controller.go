// Package tidal is the controller of Tidals: it wakes each at the moment its next rule fires, and sees to it that the count
// of the rule that fired last is where it belongs: in the status for an ElasticScaler to apply, or written to the target.
//
// What counts is the state and not the moment: which firing is in force is found by looking back, and whether it has
// reached its target is on record in the status. A firing that was missed is caught up with, and none is written twice.
// The record is written after the count. A manager that dies between the two finds the count in place when it comes back,
// and only adds the record.
package tidal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/alarm"
	"github.com/pd-orchestrator/pd-orchestrator/internal/condition"
	"github.com/pd-orchestrator/pd-orchestrator/internal/config"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/tides"
	"github.com/pd-orchestrator/pd-orchestrator/internal/desired"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
	"github.com/pd-orchestrator/pd-orchestrator/internal/telemetry"
)

// Component is the name of this controller for --controllers, its field owner and its Lease.
const Component = "tidal"

const (
	// unwatchedRetry is when a pass is made again whose obstacle no watch reports the end of: a kind that is not served, or
	// a right that is missing.
	unwatchedRetry = time.Minute
	// conflictRetry lets the watch catch up after a write that was made from an outdated object.
	conflictRetry = 100 * time.Millisecond
	// recordDelay and recordPriority put off the record of a count, and its event, behind the counts of all others that are
	// due: when a thousand rules fire in one second, the targets come first. So they do after a restart, when all Tidals
	// wait with the low priority of a first list.
	recordDelay    = time.Millisecond
	recordPriority = handler.LowPriority - 1
)

// Reconciler reconciles Tidals. All fields must be set.
type Reconciler struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// APIReader reads from the API server.
	APIReader client.Reader
	// Namespaces limits what is watched; empty for all namespaces.
	Namespaces []string
	// Recorder writes events.
	Recorder events.EventRecorder
	// Clock tells the time and makes the one timer.
	Clock clock.WithTicker
	// Kinds finds the kinds of targets.
	Kinds *kube.Kinds
	// CrossNamespace says whether targets in other namespaces are acted on.
	CrossNamespace config.CrossNamespace
	// Telemetry are the metrics of Tidals.
	Telemetry *telemetry.Tidal
	// Concurrency is how many objects are worked on at a time.
	Concurrency int

	alarm   *alarm.Alarm
	watches *watches
	memory  memory
}

// memory is what one process keeps about Tidals: their rules, read, and what it has written, which the cache may not show
// yet.
type memory struct {
	mu      sync.Mutex
	objects map[types.NamespacedName]remembered
}

type remembered struct {
	uid        types.UID
	generation int64
	rules      []tides.Rule
	problems   []tides.Problem
	collisions *tides.Collisions
	scaled     *v1alpha1.ScaleRecord
	// told is the event of that write, which waits for the record.
	told *notice
}

// recall returns what is remembered of a Tidal, with its rules read.
func (m *memory) recall(tidal *v1alpha1.Tidal) remembered {
	key := client.ObjectKeyFromObject(tidal)
	m.mu.Lock()
	r, ok := m.objects[key]
	m.mu.Unlock()
	if ok && r.uid == tidal.UID && r.generation == tidal.Generation {
		return r
	}
	if !ok || r.uid != tidal.UID {
		r = remembered{uid: tidal.UID}
	}
	r.generation = tidal.Generation
	r.rules, r.problems = tides.Compile(tidal.Spec)
	r.collisions = tides.NewCollisions(r.rules)
	m.keep(key, r)
	return r
}

func (m *memory) keep(key types.NamespacedName, r remembered) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.objects == nil {
		m.objects = map[types.NamespacedName]remembered{}
	}
	m.objects[key] = r
}

func (m *memory) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, key)
}

// notice is an event for the user, written after the write that made it true.
type notice struct {
	kind, reason, action, note string
}

// pass is the state of one Reconcile.
type pass struct {
	tidal  *v1alpha1.Tidal
	known  remembered
	facts  facts
	status desired.TidalObservation
	events []notice
	// retry is when to look again although no watch will say so, 0 for never.
	retry time.Duration
	// written tells that this pass has written a count, whose record is left to the next one.
	written bool
	// sameSpec tells that the status was written from the present spec.
	sameSpec bool
	// fired is the firing that this pass was the first to see, nil where it saw none.
	fired *tides.Firing
}

func (p *pass) problem(reason, format string, args ...any) {
	p.status.Problems = append(p.status.Problems, condition.Problem{Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// Reconcile makes one pass over one Tidal.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	tidal := &v1alpha1.Tidal{}
	if err := r.Client.Get(ctx, req.NamespacedName, tidal); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(req.NamespacedName)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("reading Tidal: %w", err)
	}
	if tidal.DeletionTimestamp != nil {
		r.alarm.Set(req.NamespacedName, time.Time{})
		return ctrl.Result{}, nil
	}
	p := &pass{tidal: tidal, known: r.memory.recall(tidal)}
	err := r.run(ctx, p)
	if apierrors.IsConflict(err) {
		log.FromContext(ctx).V(1).Info("Read is outdated", "cause", err.Error())
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if p.written {
		return ctrl.Result{RequeueAfter: recordDelay, Priority: new(recordPriority)}, nil
	}
	return ctrl.Result{RequeueAfter: p.retry}, nil
}

func (r *Reconciler) forget(key types.NamespacedName) {
	r.alarm.Set(key, time.Time{})
	r.memory.forget(key)
	r.Telemetry.Forget(key.Namespace, key.Name)
}

func (r *Reconciler) run(ctx context.Context, p *pass) error {
	r.decide(p)
	var err error
	if p.facts, err = r.gather(ctx, p.tidal); err != nil {
		return err
	}
	p.status.Bound, p.status.Binding = p.facts.bound, p.facts.binding
	p.status.SharedWith, p.status.YieldsTo = p.facts.sharedWith, p.facts.yieldsTo
	p.status.Problems = p.facts.problems
	p.retry = p.facts.retry
	var cause error
	if p.facts.bound {
		r.leave(p)
	} else {
		cause = r.scale(ctx, p)
	}
	if p.written {
		return nil
	}
	if apierrors.IsConflict(cause) {
		// Somebody else was faster, which is no news: the next pass decides from what is there then.
		return cause
	}
	return r.finish(ctx, p, cause)
}

// leave forgets what has been written, since the count is another's from now on: once it is this Tidal's again, what is in
// force is written again.
func (r *Reconciler) leave(p *pass) {
	if p.known.scaled != nil {
		p.known.scaled = nil
		r.memory.keep(client.ObjectKeyFromObject(p.tidal), p.known)
	}
}

// decide finds the firing in force and sets the alarm for the next one.
func (r *Reconciler) decide(p *pass) {
	now := r.Clock.Now()
	recorded := desired.RecordedFiring(p.tidal.Status)
	p.sameSpec = p.tidal.Status.ObservedGeneration != nil && *p.tidal.Status.ObservedGeneration == p.tidal.Generation
	p.status.Rules = p.known.problems
	key := client.ObjectKeyFromObject(p.tidal)
	if tides.Suspended(p.tidal) {
		r.alarm.Set(key, time.Time{})
		return
	}
	p.status.Plan = tides.Continue(tides.Facts{
		Rules: p.known.rules, Problems: p.known.problems, Recorded: recorded, SameSpec: p.sameSpec, Now: now,
	})
	if active := p.status.Plan.Active; active != nil && p.sameSpec && recorded != nil && active.Time.After(recorded.Time) {
		p.fired = active
	}
	next := time.Time{}
	if up := p.status.Plan.Upcoming; len(up) > 0 {
		next = up[0].Time
	}
	r.alarm.Set(key, next)
}

// finish writes the status, then the events that it made true. cause is what went wrong before.
func (r *Reconciler) finish(ctx context.Context, p *pass, cause error) error {
	// No count waits for this.
	p.status.Conflicts = p.known.collisions.At(r.Clock.Now())
	readyBefore := meta.FindStatusCondition(p.tidal.Status.Conditions, v1alpha1.ConditionReady).DeepCopy()
	err := r.writeStatus(ctx, p)
	if err == nil {
		p.noteChanges(readyBefore)
		if p.known.told != nil {
			p.events = append(p.events, *p.known.told)
			p.known.told = nil
			r.memory.keep(client.ObjectKeyFromObject(p.tidal), p.known)
		}
		if p.fired != nil && p.facts.bound {
			r.Telemetry.Fired(r.Clock.Now().Sub(p.fired.Time))
		}
	}
	for _, e := range p.events {
		// The API server takes notes of at most 1024 bytes.
		r.Recorder.Eventf(p.tidal, nil, e.kind, e.reason, e.action, "%s", shortened(e.note, 1000))
	}
	return errors.Join(cause, err)
}

// writeStatus writes the status where it differs from what was read. The write fails with a conflict when the object has
// changed since, so that no decision is put on record that was made from an outdated object.
func (r *Reconciler) writeStatus(ctx context.Context, p *pass) error {
	status := desired.TidalStatus(p.tidal, p.status, metav1.NewTime(r.Clock.Now()).Rfc3339Copy())
	r.Telemetry.SetDesired(p.tidal.Namespace, p.tidal.Name, status.DesiredReplicas)
	if equality.Semantic.DeepEqual(status, p.tidal.Status) {
		return nil
	}
	updated := p.tidal.DeepCopy()
	updated.Status = status
	err := r.Client.Status().Update(ctx, updated)
	if apierrors.IsNotFound(err) {
		return nil // It was deleted meanwhile.
	}
	if err != nil {
		return fmt.Errorf("writing status: %w", err)
	}
	p.tidal = updated
	return nil
}

// noteChanges adds a warning when Ready has become False or has another reason, and a note when a bound Tidal has fired.
func (p *pass) noteChanges(before *metav1.Condition) {
	now := meta.FindStatusCondition(p.tidal.Status.Conditions, v1alpha1.ConditionReady)
	if now != nil && now.Status == metav1.ConditionFalse && (before == nil || before.Reason != now.Reason || before.Message != now.Message) {
		p.events = append(p.events, notice{kind: "Warning", reason: now.Reason, action: "Reconcile", note: now.Message})
	}
	if p.fired != nil && p.facts.bound {
		p.events = append(p.events, notice{kind: "Normal", reason: v1alpha1.ReasonRuleActive, action: "Fire",
			note: fmt.Sprintf("rule %q wants %d replicas", p.fired.Rule, p.fired.Replicas)})
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
