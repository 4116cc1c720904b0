// Package elasticscaler runs ElasticScalers: it gathers what a decision needs, has it made by the pure packages, writes the
// count and tells what was done.
package elasticscaler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/condition"
	"github.com/pd-orchestrator/pd-orchestrator/internal/config"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/pipeline"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/scalerspec"
	"github.com/pd-orchestrator/pd-orchestrator/internal/desired"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
	"github.com/pd-orchestrator/pd-orchestrator/internal/sampling"
	"github.com/pd-orchestrator/pd-orchestrator/internal/signal"
	"github.com/pd-orchestrator/pd-orchestrator/internal/telemetry"
	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

// Component is the name of this controller on the command line, in field owners and in logs.
const Component = "elasticscaler"

const (
	// unwatchedRetry is when a pass is made again whose obstacle no watch reports the end of.
	unwatchedRetry = time.Minute
	// conflictRetry lets the watch catch up after a write that was made from an outdated object.
	conflictRetry = 100 * time.Millisecond
)

// Reconciler makes the count of a target that which its ElasticScaler decides. All fields must be set.
type Reconciler struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// APIReader reads from the API server.
	APIReader client.Reader
	// Recorder writes events.
	Recorder events.EventRecorder
	// Clock tells the time.
	Clock clock.Clock
	// Kinds finds the kinds of targets.
	Kinds *kube.Kinds
	// Algorithms are those that a spec may name.
	Algorithms *scaling.Registry
	// Sampler reads the metrics.
	Sampler *sampling.Sampler
	// Listeners listen for signals.
	Listeners *signal.Listeners
	// StateSources are the kinds, beside Tidal, that may drive a StateTrigger.
	StateSources []schema.GroupVersionKind
	// Namespaces limits what is watched; empty for all namespaces.
	Namespaces []string
	// Defaults stand where a spec says nothing.
	Defaults scalerspec.Defaults
	// CPUInitialization and InitialReadiness are how long a pod counts as starting.
	CPUInitialization, InitialReadiness time.Duration
	// CrossNamespace says whether targets in other namespaces are acted on.
	CrossNamespace config.CrossNamespace
	// Telemetry are the metrics of ElasticScalers.
	Telemetry *telemetry.ElasticScaler
	// Concurrency is how many objects are worked on at a time.
	Concurrency int

	cache   cache.Cache
	watches *kube.Watches
	sources *sources
	memory  memory
}

// memory holds what is known of each object beside what the API server holds.
type memory struct {
	mu      sync.Mutex
	objects map[types.NamespacedName]*known
}

// known is what is remembered of one object. One pass at a time has it.
type known struct {
	uid types.UID
	// generation and annotations are those that settings and findings were read from.
	generation  int64
	annotations map[string]string
	settings    pipeline.Settings
	problems    []condition.Problem
	warnings    []string
	// memory is that of the decisions for the target memoryOf.
	memory   *pipeline.Memory
	memoryOf types.UID
	// seen is the round of answers that was decided on last, and plan the decision.
	seen time.Time
	plan *decided
	// count is the count that was read last.
	count knownCount
	fight fight
	// scaled is when a count was written that no status tells of yet, nil where there is none. zeroed tells that the last one
	// was 0.
	scaled *metav1.Time
	zeroed bool
}

func (m *memory) recall(scaler *v1alpha1.ElasticScaler) *known {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := client.ObjectKeyFromObject(scaler)
	k, ok := m.objects[key]
	if !ok || k.uid != scaler.UID {
		k = &known{uid: scaler.UID}
		if m.objects == nil {
			m.objects = map[types.NamespacedName]*known{}
		}
		m.objects[key] = k
	}
	return k
}

func (m *memory) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, key)
}

// notice is an event to write once what it tells has happened.
type notice struct {
	kind, reason, action, note string
}

// pass is the work on one object.
type pass struct {
	scaler *v1alpha1.ElasticScaler
	known  *known
	// problems keep the count from being decided or written.
	problems []condition.Problem
	// target is nil where it cannot be scaled.
	target      *target
	observation desired.ScalerObservation
	events      []notice
	// retry is when to look again although no watch will say so, 0 for never.
	retry time.Duration
	// edited tells that the spec or the annotations are others than in the pass before.
	edited bool
}

func (p *pass) invalid(reason, format string, args ...any) {
	p.problems = append(p.problems, condition.Problem{Reason: reason, Message: fmt.Sprintf(format, args...)})
}

func (p *pass) retryIn(d time.Duration) {
	if p.retry == 0 || d < p.retry {
		p.retry = d
	}
}

func (p *pass) paused() bool { return p.scaler.Spec.Paused != nil && *p.scaler.Spec.Paused }

// writes reports whether the count may be written.
func (p *pass) writes() bool {
	return !p.paused() && p.observation.YieldsTo == "" && len(p.problems) == 0 && p.target != nil
}

// Reconcile brings one object forward.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	scaler := &v1alpha1.ElasticScaler{}
	if err := r.Client.Get(ctx, req.NamespacedName, scaler); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(req.NamespacedName)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("reading ElasticScaler: %w", err)
	}
	if scaler.DeletionTimestamp != nil {
		r.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	p := &pass{scaler: scaler, known: r.memory.recall(scaler)}
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

func (r *Reconciler) forget(key types.NamespacedName) {
	r.Sampler.Forget(key)
	r.Listeners.Forget(key)
	r.memory.forget(key)
	r.Telemetry.Forget(key.Namespace, key.Name)
}

func (r *Reconciler) run(ctx context.Context, p *pass) error {
	r.compile(p)
	p.problems = slices.Clone(p.known.problems)
	if err := r.gatherTarget(ctx, p); err != nil {
		return err
	}
	if err := r.gatherRivals(ctx, p); err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(p.scaler)
	trigger := p.scaler.Spec.Trigger
	byHPA := scalerspec.IsHPA(p.scaler.Spec)
	if trigger.Type != v1alpha1.MetricsTriggerType || byHPA {
		r.Sampler.Forget(key)
		p.known.memory, p.known.plan = nil, nil
	}
	if trigger.Type != v1alpha1.SignalTriggerType {
		r.Listeners.Forget(key)
	}
	// The HPA goes before anything else writes the count.
	if !byHPA || p.paused() || p.observation.YieldsTo != "" {
		if err := r.retireHPA(ctx, p); err != nil {
			return err
		}
	}
	var err error
	switch {
	case byHPA:
		err = r.keepHPA(ctx, p)
	case trigger.Type == v1alpha1.MetricsTriggerType:
		if err = r.evaluate(ctx, p); err == nil {
			r.follow(p)
		}
	case trigger.Type == v1alpha1.StateTriggerType:
		err = r.followState(ctx, p)
	case trigger.Type == v1alpha1.SignalTriggerType:
		r.followSignal(p)
	}
	if err != nil {
		return err
	}
	cause := r.apply(ctx, p)
	if apierrors.IsConflict(cause) {
		return cause
	}
	return r.finish(ctx, p, cause)
}

// compile reads the spec and the annotations, once for each change of them.
func (r *Reconciler) compile(p *pass) {
	k := p.known
	if k.generation == p.scaler.Generation && maps.Equal(k.annotations, p.scaler.Annotations) {
		return
	}
	p.edited = true
	k.generation, k.annotations = p.scaler.Generation, maps.Clone(p.scaler.Annotations)
	k.problems, k.settings, k.plan = nil, pipeline.Settings{}, nil
	findings, warnings := scalerspec.Validate(p.scaler, r.Algorithms)
	k.warnings = warnings
	if len(findings) > 0 {
		messages := make([]string, len(findings))
		for i, f := range findings {
			messages[i] = f.Error()
		}
		k.problems = append(k.problems, condition.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: strings.Join(messages, "; ")})
	}
	if p.scaler.Spec.Trigger.Type != v1alpha1.MetricsTriggerType || scalerspec.IsHPA(p.scaler.Spec) {
		return
	}
	settings, problem := scalerspec.Resolve(p.scaler, r.Algorithms, r.Defaults)
	k.settings = settings
	if problem != nil && len(k.problems) == 0 {
		k.problems = append(k.problems, condition.Problem{Reason: problem.Reason, Message: problem.Message})
	}
}

// finish writes the status where something changed, then tells of it.
func (r *Reconciler) finish(ctx context.Context, p *pass, cause error) error {
	if kube.NamespaceTerminating(cause) {
		return cause
	}
	o := &p.observation
	o.Problems, o.Paused, o.Scaled = p.problems, p.paused(), p.known.scaled
	o.Bounds = scalerspec.BoundsOf(p.scaler.Spec)
	if p.target != nil {
		o.Target, o.Have = p.target.String(), &p.target.count.Current
		if o.Current == nil {
			o.Current = &p.target.count.Desired
		}
	}
	before := p.scaler.Status
	status := desired.ElasticScalerStatus(p.scaler, *o, metav1.NewTime(r.Clock.Now()).Rfc3339Copy())
	r.Telemetry.SetReplicas(p.scaler.Namespace, p.scaler.Name, status)
	var err error
	if !equality.Semantic.DeepEqual(status, before) {
		updated := p.scaler.DeepCopy()
		updated.Status = status
		switch err = r.Client.Status().Update(ctx, updated); {
		case apierrors.IsNotFound(err):
			err = nil
		case err != nil:
			err = fmt.Errorf("writing status: %w", err)
		default:
			p.known.scaled = nil
			p.noteChanges(before, status)
		}
	}
	for _, e := range p.events {
		r.Recorder.Eventf(p.scaler, nil, e.kind, e.reason, e.action, "%s", shortened(e.note))
	}
	return errors.Join(cause, err)
}

// noted are the conditions that events tell of, the cause before what follows from it. Ready sums them up.
var noted = []string{
	v1alpha1.ConditionValidated,
	v1alpha1.ConditionScalerConflict,
	v1alpha1.ConditionActivationSourceMissing,
	v1alpha1.ConditionMetricsCollected,
	v1alpha1.ConditionAvailable,
	v1alpha1.ConditionReconciliationComplete,
	v1alpha1.ConditionScalingCalculated,
	v1alpha1.ConditionDegraded,
}

// noteChanges adds an event for each trouble that the conditions tell of since this pass, and for what a spec warns of. Of
// the events of one pass with one reason the API server keeps one.
func (p *pass) noteChanges(before, after v1alpha1.ElasticScalerStatus) {
	told, ofMetrics := map[string]bool{}, false
	for _, conditionType := range noted {
		c, last := meta.FindStatusCondition(after.Conditions, conditionType), meta.FindStatusCondition(before.Conditions, conditionType)
		if c == nil || desired.Healthy(*c) || told[c.Reason] || last != nil && last.Status == c.Status && last.Reason == c.Reason {
			continue
		}
		// What a missing metric leads to has the same message.
		if ofMetrics && (conditionType == v1alpha1.ConditionScalingCalculated || conditionType == v1alpha1.ConditionDegraded) {
			continue
		}
		told[c.Reason] = true
		ofMetrics = ofMetrics || conditionType == v1alpha1.ConditionMetricsCollected
		p.events = append(p.events, notice{kind: "Warning", reason: c.Reason, action: "Reconcile", note: c.Message})
	}
	if before.ObservedGeneration == nil || after.ObservedGeneration == nil || *before.ObservedGeneration != *after.ObservedGeneration {
		if len(p.known.warnings) > 0 {
			p.events = append(p.events, notice{kind: "Warning", reason: v1alpha1.ReasonValid, action: "Validate", note: strings.Join(p.known.warnings, "; ")})
		}
	}
}

// shortened keeps a note below the limit of the API server, which takes at most 1024 bytes.
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
