package resourcescalinggroup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/clone"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/groups"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/victims"
	"github.com/pd-orchestrator/pd-orchestrator/internal/desired"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
	"github.com/pd-orchestrator/pd-orchestrator/internal/ranking"
)

const (
	// parallelWrites is how many groups of one object are created or removed, or pods of it marked, at a time.
	parallelWrites = 16
	// namedObjects is how many objects a message names.
	namedObjects = 8
	// groupsBudget is how long one pass goes on to begin with more groups. The next pass goes on where it stopped, for
	// the count that is wanted then, and with pods marked and the status written meanwhile.
	groupsBudget = time.Second
)

// converge brings the groups one step closer to the desired count: it settles which are victims, puts new victims on
// record, and then removes, recovers and creates.
func (r *Reconciler) converge(ctx context.Context, p *pass) error {
	// While the ConfigMap of the counts cannot be made, groups would be made with counts that are on no record.
	counted := p.status.Baselines.Complete() && p.facts.config != nil
	wasPending := desired.PendingVictims(p.status.ScaleDown)
	plan := groups.Make(groups.Facts{
		Desired:    desired.Replicas(p.rsg),
		Groups:     p.status.Groups,
		Victims:    p.stillThere(wasPending),
		CanCreate:  p.facts.snapshot != nil && counted,
		CanRecover: counted,
	})
	p.settleRecord(wasPending, plan)
	if plan.Excess > 0 {
		if err := r.choose(ctx, p, plan); err != nil {
			return err
		}
		plan.Remove = desired.PendingVictims(p.status.ScaleDown)
	}

	var errs []error
	p.noteDiscarded(plan.Discard)
	errs = append(errs, r.removeClones(ctx, p, slices.Concat(plan.Remove, plan.Discard)))
	if slices.Contains(plan.Remove, 0) {
		errs = append(errs, r.zeroBase(ctx, p))
	} else {
		errs = append(errs, r.recoverBase(ctx, p, plan.Recover))
	}
	missing := slices.Concat(plan.Finish, plan.Create)
	errs = append(errs, r.checkReferences(ctx, p, len(missing) > 0), r.createClones(ctx, p, missing))
	return errors.Join(errs...)
}

// noteDiscarded tells why groups that were not too many are removed.
func (p *pass) noteDiscarded(ids []int32) {
	var why []string
	for _, g := range p.status.Groups {
		if slices.Contains(ids, g.ID) && !g.Terminating && !g.Drained {
			why = append(why, fmt.Sprintf("group %d lacks %s", g.ID, strings.Join(g.Missing, ", ")))
		}
	}
	if len(why) > 0 {
		p.warn(v1alpha1.EventGroupDiscarded, "DiscardGroup", "a group is made from one snapshot, and that of these is gone, so others are made instead from %s: %s",
			p.facts.revision.Name, strings.Join(why, "; "))
	}
}

// stillThere keeps the victims that are not gone yet.
func (p *pass) stillThere(ids []int32) []int32 {
	var out []int32
	for _, id := range ids {
		for _, g := range p.status.Groups {
			if g.ID == id && !g.AtZero && !g.Empty {
				out = append(out, id)
			}
		}
	}
	return out
}

// settleRecord takes the victims that are gone, and those that are spared, off the pending ones. A choice all of whose
// victims were spared never happened.
func (p *pass) settleRecord(before []int32, plan groups.Plan) {
	if len(before) == 0 {
		return
	}
	// One event for all: several of one reason in one pass could be taken for repetitions of each other.
	gone := slices.DeleteFunc(slices.Clone(before), func(id int32) bool {
		return slices.Contains(plan.Remove, id) || slices.Contains(plan.Spared, id)
	})
	if len(gone) > 0 {
		p.settle(v1alpha1.EventGroupRemoved, "RemoveGroup", "%s", describeGone(gone))
	}
	record := p.status.ScaleDown
	record.Pending = plan.Remove
	record.Victims = slices.DeleteFunc(record.Victims, func(id int32) bool { return slices.Contains(plan.Spared, id) })
	if len(record.Victims) == 0 && len(record.Pending) == 0 {
		p.status.ScaleDown = nil
	}
}

// choose picks the victims and puts them on record before anything is done to them.
func (r *Reconciler) choose(ctx context.Context, p *pass, plan groups.Plan) error {
	candidates := make([]victims.Candidate, 0, len(plan.Candidates))
	for _, g := range plan.Candidates {
		candidates = append(candidates, victims.Candidate{ID: g.ID, Incomplete: len(g.Missing) > 0})
	}
	asker := ranking.Asker{Metrics: r.Metrics, Settings: r.Prometheus, Groups: r.Client, Workloads: r.APIReader, Now: r.Clock.Now}
	choice, ranked, err := asker.Choose(ctx, p.rsg, plan.Excess, candidates)
	if err != nil {
		return err
	}
	order := desired.ScaleDownOrder(p.rsg)
	p.status.ScaleDown = desired.ScaleDownRecord(choice, order, ranked.Reason, plan.Remove, metav1.NewTime(r.Clock.Now()).Rfc3339Copy())
	p.status.MetricReason, p.status.MetricMessage = ranked.Reason, ranked.Message
	if ranked.Reason == v1alpha1.ReasonMetricUsed {
		p.status.MetricMessage = "the last scale-down was ranked by the metric"
	}
	if err := r.writeStatus(ctx, p); err != nil {
		return err
	}
	note := fmt.Sprintf("scaling down to %s: removing %s by %s in %s order (%s)%s", desired.CountGroups(desired.Replicas(p.rsg)), joinIDs(choice.Victims),
		choice.Level, order, choice.Why, describeValues(p.status.ScaleDown.Values))
	if ranked.Reason != "" && ranked.Reason != v1alpha1.ReasonMetricUsed {
		p.warn(v1alpha1.EventScaleDown, "ChooseGroups", "%s", note)
	} else {
		p.event(v1alpha1.EventScaleDown, "ChooseGroups", "%s", note)
	}
	log.FromContext(ctx).Info("Chose groups to remove", "victims", choice.Victims, "level", choice.Level, "order", order, "reason", p.status.ScaleDown.Reason, "why", choice.Why)
	r.Telemetry.ScaleDownChosen(string(choice.Level), p.status.ScaleDown.Reason)
	return nil
}

func describeValues(values []v1alpha1.GroupValue) string {
	if len(values) == 0 {
		return ""
	}
	parts := make([]string, 0, len(values))
	for _, v := range values {
		parts = append(parts, fmt.Sprintf("%d=%s", v.ID, v.Value))
	}
	return "; values by group: " + strings.Join(parts, " ")
}

// describeGone says what became of victims: clones are deleted, group 0 waits at zero.
func describeGone(ids []int32) string {
	var parts []string
	if clones := slices.DeleteFunc(slices.Clone(ids), func(id int32) bool { return id == 0 }); len(clones) > 0 {
		parts = append(parts, "removed "+joinIDs(clones))
	}
	if slices.Contains(ids, 0) {
		parts = append(parts, "group 0 is at zero replicas")
	}
	return strings.Join(parts, "; ")
}

func joinIDs(ids []int32) string {
	parts := make([]string, len(ids))
	for i, id := range ids {
		parts[i] = strconv.Itoa(int(id))
	}
	if len(ids) == 1 {
		return "group " + parts[0]
	}
	return "groups " + strings.Join(parts, ", ")
}

// removeClones deletes the workloads of the victims and, once those are gone, their Services.
func (r *Reconciler) removeClones(ctx context.Context, p *pass, ids []int32) error {
	drained := map[int32]bool{}
	for _, g := range p.status.Groups {
		drained[g.ID] = g.Drained
	}
	return r.eachGroup(ctx, p, ids, func(ctx context.Context, id int32) error {
		c := p.facts.clones[id]
		if id == 0 || c == nil {
			return nil
		}
		var errs []error
		for _, t := range p.facts.targets {
			if obj := c.workloads[t.name]; obj != nil {
				errs = append(errs, r.delete(ctx, obj))
			}
		}
		if drained[id] {
			for _, svc := range c.services {
				errs = append(errs, r.delete(ctx, svc))
			}
		}
		return errors.Join(errs...)
	})
}

func (r *Reconciler) delete(ctx context.Context, obj client.Object) error {
	if obj.GetDeletionTimestamp() != nil {
		return nil
	}
	if err := kube.Delete(ctx, r.Client, obj); err != nil {
		return err
	}
	r.Telemetry.ObjectDeleted(obj.GetObjectKind().GroupVersionKind().Kind)
	log.FromContext(ctx).Info("Deleted", "object", kube.Describe(obj))
	return nil
}

// zeroBase takes group 0 to zero: each workload first keeps its count in the annotation, then loses its replicas.
func (r *Reconciler) zeroBase(ctx context.Context, p *pass) error {
	var errs []error
	for i, t := range p.facts.targets {
		m := p.base[i]
		if t.base == nil {
			continue
		}
		if !m.Marked {
			count := m.Desired
			if count == 0 {
				count = p.status.Baselines.Counts[t.name]
			}
			if count == 0 {
				continue
			}
			if err := r.keepBaseline(ctx, t.base, count); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		if m.Desired != 0 {
			errs = append(errs, kube.Scale(ctx, r.Client, t.base, 0))
		}
	}
	return errors.Join(errs...)
}

// recoverBase brings marked base workloads back. Those at zero get the count of the replica ConfigMap, but only when
// group 0 is wanted: when it leaves zero now, or when an earlier pass began to bring it back.
func (r *Reconciler) recoverBase(ctx context.Context, p *pass, leave bool) error {
	zero := p.status.Groups[0]
	if zero.AtZero && !leave {
		return r.adoptAtZero(ctx, p)
	}
	var errs []error
	recovered := false
	for i, t := range p.facts.targets {
		m := p.base[i]
		if t.base == nil || !m.Marked && !(m.Unknown && leave) {
			continue
		}
		if m.Desired == 0 {
			count, known := p.status.Baselines.Counts[t.name]
			if !known {
				continue
			}
			if err := kube.Scale(ctx, r.Client, t.base, count); err != nil {
				errs = append(errs, err)
				continue
			}
			// The scale write made a new version of the workload; the mark is taken off by the next pass, which sees it.
			recovered = true
			continue
		}
		// A count above zero may be that of before a write that is not seen yet, and its mark is then still needed.
		errs = append(errs, kube.Mark(ctx, r.Client, t.base, kube.Marks{Unchanged: true, Annotations: map[string]*string{v1alpha1.AnnotationBaselineReplicas: nil}}))
	}
	if recovered && leave {
		p.event(v1alpha1.EventGroupRecovered, "RecoverGroup", "group 0 leaves zero with the counts of ConfigMap %s", desired.ReplicaConfigName(p.rsg.Name))
	}
	return errors.Join(errs...)
}

// adoptAtZero marks base workloads that were found at zero once their count is known, so that from then on they are
// like any that were scaled away.
func (r *Reconciler) adoptAtZero(ctx context.Context, p *pass) error {
	var errs []error
	for i, t := range p.facts.targets {
		count, known := p.status.Baselines.Counts[t.name]
		if t.base == nil || p.base[i].Marked || !p.base[i].Unknown || !known {
			continue
		}
		errs = append(errs, r.keepBaseline(ctx, t.base, count))
	}
	return errors.Join(errs...)
}

// keepBaseline writes the count to return to on a base workload.
func (r *Reconciler) keepBaseline(ctx context.Context, base client.Object, count int32) error {
	text := strconv.Itoa(int(count))
	return kube.Mark(ctx, r.Client, base, kube.Marks{Annotations: map[string]*string{v1alpha1.AnnotationBaselineReplicas: &text}})
}

// createClones creates what is missing of the groups. What goes wrong with one is told and does not stop the others.
func (r *Reconciler) createClones(ctx context.Context, p *pass, ids []int32) error {
	var mu sync.Mutex
	var created, taken, claims []string
	var made []int32
	err := r.eachGroup(ctx, p, ids, func(ctx context.Context, id int32) error {
		objects, err := p.build(id)
		if err != nil {
			return err
		}
		whole := true
		var errs []error
		for _, obj := range objects {
			what := kube.Describe(obj)
			ok, found, err := r.createClone(ctx, p, id, obj)
			switch {
			case errors.Is(err, errNameTaken):
				mu.Lock()
				taken = append(taken, what)
				mu.Unlock()
				whole = false
			case err != nil:
				errs = append(errs, &desired.GroupFailure{ID: id, Object: what, Err: err})
				whole = false
			case ok:
				mu.Lock()
				created = append(created, what)
				claims = append(claims, found...)
				mu.Unlock()
			}
		}
		if whole {
			mu.Lock()
			made = append(made, id)
			mu.Unlock()
		}
		return errors.Join(errs...)
	})
	if len(made) > 0 && len(created) > 0 {
		slices.Sort(made)
		p.event(v1alpha1.EventGroupCreated, "CreateGroup", "created %s (%d objects)", joinIDs(made), len(created))
		log.FromContext(ctx).Info("Created groups", "groups", made, "objects", len(created))
	}
	if len(claims) > 0 {
		slices.Sort(claims)
		p.event(v1alpha1.EventClaimsFound, "CreateGroup", "volume claims of an earlier group are used again: %s", strings.Join(claims, ", "))
	}
	if len(taken) > 0 {
		slices.Sort(taken)
		p.problem(v1alpha1.ReasonNameConflict, "%s already exists and is not of this group: rename or delete it, or change groupName", desired.Some(taken, namedObjects))
	}
	return err
}

// build makes the objects of a group in the order in which they are created: Services first, so that a pod's first name
// lookup finds them.
func (p *pass) build(id int32) ([]client.Object, error) {
	f := p.facts
	g := clone.Group{Owner: f.owner, ID: id, Revision: f.revision.Name}
	if c := p.rsg.Spec.ScalingStrategy.GroupConfig; c != nil && c.RewriteServiceReferences != nil {
		g.RewriteServiceReferences = *c.RewriteServiceReferences
	}
	for _, t := range f.targets {
		g.Kinds = append(g.Kinds, t.kind)
		g.Replicas = append(g.Replicas, p.status.Baselines.Counts[t.name])
	}
	services, workloads, err := f.snapshot.Build(g)
	if err != nil {
		return nil, fmt.Errorf("building group %d: %w", id, err)
	}
	var out []client.Object
	for _, s := range services {
		out = append(out, s)
	}
	for _, w := range workloads {
		out = append(out, w)
	}
	return out, nil
}

// createClone creates one object. It reports whether it did, and which volume claims of an earlier group it found; an
// object of this group that is there already is no error.
func (r *Reconciler) createClone(ctx context.Context, p *pass, id int32, obj client.Object) (bool, []string, error) {
	gvk := obj.GetObjectKind().GroupVersionKind()
	existing, err := r.cached(ctx, obj)
	if err != nil {
		return false, nil, err
	}
	if existing != nil {
		if got, ours := p.facts.owner.IDOf(existing.GetLabels()); !ours || got != id {
			return false, nil, errNameTaken
		}
		return false, nil, nil
	}
	var claims []string
	if kind, err := clone.KindOf(gvk.GroupVersion().String(), gvk.Kind); err == nil {
		if claims, err = r.foundClaims(ctx, kind, obj); err != nil {
			return false, nil, err
		}
	}
	err = r.Client.Create(ctx, obj)
	if apierrors.IsAlreadyExists(err) {
		// The cache does not show it yet. The event that brings it starts the next pass, which will know whose it is.
		return false, nil, nil
	}
	if err != nil {
		return false, nil, err
	}
	r.Telemetry.ObjectCreated(gvk.Kind)
	return true, claims, nil
}

// cached reads the object of the same kind and name from the cache, nil where there is none.
func (r *Reconciler) cached(ctx context.Context, obj client.Object) (client.Object, error) {
	var existing client.Object
	if _, ok := obj.(*corev1.Service); ok {
		existing = &corev1.Service{}
	} else {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
		existing = u
	}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(obj), existing)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return existing, err
}

// eachGroup runs the function for each id, a bounded number at a time and as long as the budget lasts. After a failure
// all get their turn: the next pass would begin with those that fail again.
func (r *Reconciler) eachGroup(ctx context.Context, p *pass, ids []int32, do func(context.Context, int32) error) error {
	start := r.Clock.Now()
	var late, failed atomic.Bool
	err := inParallel(ctx, ids, func(ctx context.Context, id int32) error {
		if !failed.Load() && r.Clock.Since(start) > groupsBudget {
			late.Store(true)
			return nil
		}
		err := do(ctx, id)
		if err != nil {
			failed.Store(true)
		}
		return err
	})
	if late.Load() {
		p.lookAgain(time.Millisecond)
	}
	return err
}

// inParallel runs the function for each item, a bounded number at a time, and joins the errors in the order of the items.
func inParallel[T any](ctx context.Context, items []T, do func(context.Context, T) error) error {
	errs := make([]error, len(items))
	var g errgroup.Group
	g.SetLimit(parallelWrites)
	for i, item := range items {
		g.Go(func() error {
			errs[i] = do(ctx, item)
			return nil
		})
	}
	_ = g.Wait()
	return errors.Join(errs...)
}
