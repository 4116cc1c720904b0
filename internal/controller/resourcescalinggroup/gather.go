package resourcescalinggroup

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/condition"
	"github.com/pd-orchestrator/pd-orchestrator/internal/config"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/clone"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/groups"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/groupspec"
	"github.com/pd-orchestrator/pd-orchestrator/internal/desired"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
)

// target is one entry of spec.targetResources as it stands.
type target struct {
	name      string
	namespace string
	workload  string // name of the workload
	role      bool   // whether it is reached through a role of a RoleBasedGroup
	kind      clone.Kind
	base      *unstructured.Unstructured // nil where it does not exist
}

func (t target) String() string {
	return fmt.Sprintf("%s %s/%s", t.kind.GroupVersionKind.Kind, t.namespace, t.workload)
}

// key is the TargetKey of the workload.
func (t target) key() string {
	return kube.TargetKey(t.kind.GroupVersion().String(), t.kind.GroupVersionKind.Kind, t.namespace, t.workload)
}

// copies are the objects of one clone that exist.
type copies struct {
	workloads map[string]*unstructured.Unstructured // by target name
	services  []*corev1.Service
}

// facts is what one pass has read. Everything comes from the cache, but for a snapshot that the status names and the
// cache does not have.
type facts struct {
	owner    clone.Owner
	targets  []target
	clones   map[int32]*copies
	revision *appsv1.ControllerRevision
	snapshot *clone.Snapshot
	config   *corev1.ConfigMap
	// problems of the spec and of what it refers to, the gravest first. With blocked set nothing may be written.
	problems []condition.Problem
	blocked  bool
}

func (f *facts) problem(reason, format string, args ...any) {
	f.problems = append(f.problems, condition.Problem{Reason: reason, Message: fmt.Sprintf(format, args...)})
}

func (f *facts) block(reason, format string, args ...any) {
	f.blocked = true
	f.problem(reason, format, args...)
}

// gather reads everything that the decisions need. An error means that something could not be read, so nothing may be
// decided; what was read and is wrong is a problem.
func (r *Reconciler) gather(ctx context.Context, rsg *v1alpha1.ResourceScalingGroup) (*facts, error) {
	f := &facts{owner: clone.OwnerOf(rsg), clones: map[int32]*copies{}}
	// Admission refuses these, so the object was written while it was away. A group is not made half right; followers
	// that are right follow.
	findings, _ := groupspec.Validate(rsg)
	for _, finding := range findings {
		f.problem(v1alpha1.ReasonInvalidSpec, "%v", finding)
	}
	f.blocked = len(findings) > 0 && rsg.Spec.ScalingStrategy.Type != v1alpha1.InplaceScaling
	if err := r.gatherTargets(ctx, rsg, f); err != nil {
		return nil, err
	}
	if err := r.checkManagers(ctx, rsg, f); err != nil {
		return nil, err
	}
	if rsg.Spec.ScalingStrategy.Type != v1alpha1.GroupReplication {
		return f, nil
	}
	r.checkAccounts(f)
	if err := r.gatherClones(ctx, rsg, f); err != nil {
		return nil, err
	}
	if err := r.gatherRecords(ctx, rsg, f); err != nil {
		return nil, err
	}
	return f, nil
}

// gatherTargets reads the workloads that the spec names. What cannot be resolved is a finding of groupspec already.
func (r *Reconciler) gatherTargets(ctx context.Context, rsg *v1alpha1.ResourceScalingGroup, f *facts) error {
	for _, t := range rsg.Spec.TargetResources {
		ref, err := clone.Resolve(t.ResourceRef)
		if err != nil {
			continue
		}
		entry := target{name: t.Name, namespace: cmp.Or(t.ResourceRef.Namespace, rsg.Namespace), kind: ref.Kind, workload: ref.Name, role: t.ResourceRef.Subresource != nil}
		if entry.namespace != rsg.Namespace && r.CrossNamespace == config.CrossNamespaceDenied {
			f.block(v1alpha1.ReasonCrossNamespaceDenied,
				"target %q is in namespace %s: must be in %s, unless the operator allows other namespaces", t.Name, entry.namespace, rsg.Namespace)
			continue
		}
		served, err := r.watchKind(ctx, entry.kind)
		if err != nil {
			return err
		}
		if !served {
			f.block(v1alpha1.ReasonTargetKindNotServed, "target %q: the cluster does not serve kind %s of %s: install its CRD", t.Name, entry.kind.GroupVersionKind.Kind, entry.kind.GroupVersion())
			continue
		}
		base := kube.NewWorkload(entry.kind.GroupVersionKind)
		err = r.Client.Get(ctx, types.NamespacedName{Namespace: entry.namespace, Name: entry.workload}, base)
		switch {
		case err == nil:
			entry.base = base
		case apierrors.IsNotFound(err):
			f.problem(v1alpha1.ReasonTargetNotFound, "%s resource not found: %s of target %q", roleOf(rsg, t.Name), entry, t.Name)
		default:
			return fmt.Errorf("reading target %q: %w", t.Name, err)
		}
		f.targets = append(f.targets, entry)
	}
	return nil
}

// roleOf says what a target is: a follower of InplaceScaling, or just a target.
func roleOf(rsg *v1alpha1.ResourceScalingGroup, target string) string {
	c := rsg.Spec.ScalingStrategy.LeaderFollowerConfig
	if c != nil && slices.ContainsFunc(c.Follower, func(f v1alpha1.Follower) bool { return f.ResourceName == target }) {
		return "follower"
	}
	return "target"
}

// checkAccounts looks for templates whose clones would have the rights of a component of this product.
func (r *Reconciler) checkAccounts(f *facts) {
	for _, t := range f.targets {
		if t.base == nil || f.owner.Namespace != r.OwnNamespace {
			continue
		}
		if account := groupspec.ComponentAccount(t.base); account != "" {
			f.block(v1alpha1.ReasonServiceAccountDenied, "target %q: pods of %s run as ServiceAccount %s, and its clones in namespace %s would have the rights of the manager: use another account",
				t.name, t, account, r.OwnNamespace)
		}
	}
}

// checkManagers looks for another ResourceScalingGroup that manages a target already.
func (r *Reconciler) checkManagers(ctx context.Context, rsg *v1alpha1.ResourceScalingGroup, f *facts) error {
	for _, t := range f.targets {
		other, err := r.otherManager(ctx, rsg, t)
		if err != nil {
			return err
		}
		if other != "" {
			f.block(v1alpha1.ReasonNameConflict, "target %q: %s is managed by ResourceScalingGroup %s already: remove it from one of the two", t.name, t, other)
		}
	}
	return nil
}

// otherManager names the ResourceScalingGroup that has a better claim to a base workload: one of the same strategy that
// is older, or of the same age and first by name. "" where there is none.
func (r *Reconciler) otherManager(ctx context.Context, rsg *v1alpha1.ResourceScalingGroup, t target) (string, error) {
	var list v1alpha1.ResourceScalingGroupList
	if err := r.Client.List(ctx, &list, client.MatchingFields{indexTarget: t.key()}, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("listing ResourceScalingGroups: %w", err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.UID == rsg.UID || other.DeletionTimestamp != nil || other.Spec.ScalingStrategy.Type != rsg.Spec.ScalingStrategy.Type {
			continue
		}
		if older(other, rsg) {
			return nameOf(other), nil
		}
	}
	return "", nil
}

func nameOf(obj client.Object) string { return obj.GetNamespace() + "/" + obj.GetName() }

func (r *Reconciler) gatherClones(ctx context.Context, rsg *v1alpha1.ResourceScalingGroup, f *facts) error {
	at := func(id int32) *copies {
		if f.clones[id] == nil {
			f.clones[id] = &copies{workloads: map[string]*unstructured.Unstructured{}}
		}
		return f.clones[id]
	}
	mine := []client.ListOption{client.InNamespace(rsg.Namespace), client.MatchingFields{indexOwner: ownerKey(rsg.Namespace, rsg.Name)}}
	seen := map[string]bool{}
	for _, t := range f.targets {
		gvk := t.kind.GroupVersionKind
		if seen[gvk.String()] {
			continue
		}
		seen[gvk.String()] = true
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err := r.Client.List(ctx, list, mine...); err != nil {
			return fmt.Errorf("listing clones: %w", err)
		}
		for i := range list.Items {
			obj := &list.Items[i]
			id, ours := f.owner.IDOf(obj.GetLabels())
			if !ours || id == 0 {
				continue
			}
			for _, t := range f.targets {
				if t.kind.GroupVersionKind == gvk && obj.GetName() == f.owner.WorkloadName(t.workload, id) {
					at(id).workloads[t.name] = obj
				}
			}
		}
	}
	var services corev1.ServiceList
	if err := r.Client.List(ctx, &services, mine...); err != nil {
		return fmt.Errorf("listing cloned Services: %w", err)
	}
	for i := range services.Items {
		svc := &services.Items[i]
		id, ours := f.owner.IDOf(svc.Labels)
		if ours && id != 0 && strings.HasSuffix(svc.Name, f.owner.ServiceName("", id)) {
			svc.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Service"))
			at(id).services = append(at(id).services, svc)
		}
	}
	return nil
}

func (r *Reconciler) gatherRecords(ctx context.Context, rsg *v1alpha1.ResourceScalingGroup, f *facts) error {
	var revisions appsv1.ControllerRevisionList
	if err := r.Client.List(ctx, &revisions, client.InNamespace(rsg.Namespace), client.MatchingLabels{v1alpha1.LabelName: rsg.Name}); err != nil {
		return fmt.Errorf("listing snapshots: %w", err)
	}
	// The first one made wins, so that a second one, made from a cache that did not show the first yet, changes nothing.
	slices.SortFunc(revisions.Items, func(a, b appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), strings.Compare(a.Name, b.Name))
	})
	for i := range revisions.Items {
		if metav1.IsControlledBy(&revisions.Items[i], rsg) && revisions.Items[i].DeletionTimestamp == nil {
			f.revision = &revisions.Items[i]
			break
		}
	}
	if f.revision == nil && rsg.Status.Revision != "" {
		// Gone, or not in the cache yet. Only the API server knows, and a second snapshot could differ from the first.
		var live appsv1.ControllerRevision
		err := r.APIReader.Get(ctx, types.NamespacedName{Namespace: rsg.Namespace, Name: rsg.Status.Revision}, &live)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading snapshot %s: %w", rsg.Status.Revision, err)
		}
		if err == nil && metav1.IsControlledBy(&live, rsg) && live.DeletionTimestamp == nil {
			f.revision = &live
		}
	}
	f.readSnapshot()

	var cm corev1.ConfigMap
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: rsg.Namespace, Name: desired.ReplicaConfigName(rsg.Name)}, &cm)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the replica ConfigMap: %w", err)
	}
	if err == nil && metav1.IsControlledBy(&cm, rsg) {
		f.config = &cm
	}
	return nil
}

func (f *facts) readSnapshot() {
	if f.revision == nil || f.blocked {
		return
	}
	names := make([]string, len(f.targets))
	for i, t := range f.targets {
		names[i] = t.name
	}
	s, err := clone.DecodeSnapshot(f.revision.Data.Raw, names)
	if err != nil {
		f.problem(v1alpha1.ReasonSnapshotInvalid, "ControllerRevision %s: %v", f.revision.Name, err)
		return
	}
	f.snapshot = &s
}

// members describes the base workloads. previous is the status that the last pass left.
func (f *facts) members(previous v1alpha1.ResourceScalingGroupStatus) []groups.Member {
	adoptedUnknown := map[string]bool{}
	if meta.IsStatusConditionTrue(previous.Conditions, v1alpha1.ConditionBaselineUnknown) {
		for _, t := range previous.Targets {
			adoptedUnknown[t.Name] = t.BaselineReplicas == nil
		}
	}
	recorded := map[string]string{}
	if f.config != nil {
		recorded = f.config.Data
	}
	all := make([]groups.Member, 0, len(f.targets))
	for _, t := range f.targets {
		m := groups.Member{Target: t.name, Object: t.String()}
		if t.base != nil {
			m = member(m, t.kind, t.base)
			if text, marked := t.base.GetAnnotations()[v1alpha1.AnnotationBaselineReplicas]; marked {
				m.Marked = true
				if n, err := groups.ParseReplicas(text); err == nil {
					m.Baseline = n
				}
			}
			_, hasCount := recorded[t.name]
			m.Unknown = m.Desired == 0 && m.Baseline == 0 && (!hasCount || adoptedUnknown[t.name])
		}
		all = append(all, m)
	}
	return all
}

func member(m groups.Member, kind clone.Kind, obj *unstructured.Unstructured) groups.Member {
	m.Exists = true
	m.Terminating = obj.GetDeletionTimestamp() != nil
	m.Desired = clone.Replicas(obj)
	m.Available = kind.Available(obj)
	m.Trouble = clone.Trouble(obj)
	return m
}

// observe sums up all groups of which anything exists, by ascending id.
func (f *facts) observe(base []groups.Member) []groups.Group {
	all := []groups.Group{groups.ObserveBase(base)}
	revision := ""
	if f.snapshot != nil {
		revision = f.revision.Name
	}
	for id, c := range f.clones {
		var members []groups.Member
		for _, t := range f.targets {
			m := groups.Member{Target: t.name, Object: t.kind.GroupVersionKind.Kind + " " + f.owner.WorkloadName(t.workload, id)}
			if obj := c.workloads[t.name]; obj != nil {
				m = member(m, t.kind, obj)
				m.Revision = obj.GetAnnotations()[v1alpha1.AnnotationRevision]
			}
			members = append(members, m)
		}
		all = append(all, groups.ObserveClone(id, members, f.cloneServices(id, c), revision))
	}
	slices.SortFunc(all, func(a, b groups.Group) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

func (f *facts) cloneServices(id int32, c *copies) []groups.Service {
	var all []groups.Service
	listed := map[string]bool{}
	for _, svc := range c.services {
		listed[svc.Name] = true
		all = append(all, groups.Service{
			Name: svc.Name, Exists: true, Terminating: svc.DeletionTimestamp != nil, Revision: svc.Annotations[v1alpha1.AnnotationRevision],
		})
	}
	for _, name := range f.servicesDue(id, c) {
		if !listed[name] {
			all = append(all, groups.Service{Name: name})
		}
	}
	return all
}

// servicesDue names the Services that a clone should have: those that its workloads say were made with them, since the
// present snapshot can have others than the one they were made from.
func (f *facts) servicesDue(id int32, c *copies) []string {
	for _, t := range f.targets {
		if w := c.workloads[t.name]; w != nil {
			if names, known := clone.ServicesOf(w); known {
				return names
			}
		}
	}
	if f.snapshot == nil {
		return nil
	}
	var names []string
	for _, s := range f.snapshot.Services {
		names = append(names, f.owner.ServiceName(s.Name, id))
	}
	return names
}

// drifted says per target whether the base differs from the snapshot.
func (f *facts) drifted() map[string]bool {
	if f.snapshot == nil {
		return nil
	}
	out := map[string]bool{}
	for i, t := range f.targets {
		if t.base != nil {
			out[t.name] = f.snapshot.Targets[i].Drifted(t.kind, t.base)
		}
	}
	return out
}
