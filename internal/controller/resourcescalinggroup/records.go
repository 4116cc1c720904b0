package resourcescalinggroup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/clone"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/groups"
	"github.com/pd-orchestrator/pd-orchestrator/internal/desired"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
)

// errNameTaken says that an object which is not of this ResourceScalingGroup has a name that it needs.
var errNameTaken = errors.New("already exists and is not of this ResourceScalingGroup")

// ensureRecords makes the snapshot and the replica ConfigMap where they are missing.
func (r *Reconciler) ensureRecords(ctx context.Context, p *pass) error {
	return errors.Join(r.ensureSnapshot(ctx, p), r.ensureReplicaConfig(ctx, p))
}

func (r *Reconciler) ensureSnapshot(ctx context.Context, p *pass) error {
	f := p.facts
	if f.revision != nil {
		return nil
	}
	var bases []clone.Base
	var services []corev1.Service
	listed := map[string]bool{}
	for _, t := range f.targets {
		if t.base == nil {
			return nil
		}
		bases = append(bases, clone.Base{Name: t.name, Kind: t.kind, Workload: t.base})
		if listed[t.namespace] {
			continue
		}
		listed[t.namespace] = true
		var list corev1.ServiceList
		if err := r.Client.List(ctx, &list, client.InNamespace(t.namespace)); err != nil {
			return fmt.Errorf("listing Services: %w", err)
		}
		services = append(services, list.Items...)
	}
	snapshot, dropped := clone.TakeSnapshot(bases, services)
	for i, s := range snapshot.Services {
		if err := f.owner.CheckServiceName(s.Name); err != nil {
			p.problem(v1alpha1.ReasonInvalidName, "%v", err)
			return nil
		}
		if i > 0 && snapshot.Services[i-1].Name == s.Name {
			p.problem(v1alpha1.ReasonDuplicateClone, "two Services named %q select the targets, in different namespaces: rename one of them", s.Name)
			return nil
		}
	}
	encoded, err := snapshot.Encode()
	if err != nil {
		return fmt.Errorf("encoding the snapshot: %w", err)
	}
	revision := &appsv1.ControllerRevision{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ControllerRevision"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.rsg.Namespace,
			Name:      p.rsg.Name + "-" + clone.Hash(encoded),
			// Nothing of the targets' labels: a StatefulSet adopts orphaned revisions that match its selector.
			Labels: map[string]string{v1alpha1.LabelName: p.rsg.Name, v1alpha1.LabelNamespace: p.rsg.Namespace},
		},
		Revision: 1,
		Data:     runtime.RawExtension{Raw: encoded},
	}
	created, err := r.ensureOwned(ctx, p.rsg, revision)
	if err != nil {
		return p.nameTaken(err)
	}
	f.revision, f.snapshot = revision, &snapshot
	if !created {
		return nil
	}
	p.event(v1alpha1.EventSnapshotCreated, "TakeSnapshot", "recorded %d targets and %d Services in ControllerRevision %s", len(snapshot.Targets), len(snapshot.Services), revision.Name)
	var lost []string
	for _, name := range slices.Sorted(maps.Keys(dropped)) {
		lost = append(lost, fmt.Sprintf("Service %s without %s", name, strings.Join(dropped[name], ", ")))
	}
	if len(lost) > 0 {
		p.warn(v1alpha1.EventServiceSettingsDropped, "TakeSnapshot", "only one Service can have some settings, so clones are made of %s", strings.Join(lost, "; "))
	}
	return nil
}

// baselines decides the counts from what is recorded and from the base workloads.
func (f *facts) baselines(base []groups.Member) groups.Baselines {
	var recorded map[string]string
	if f.config != nil {
		recorded = f.config.Data
	}
	return groups.DecideBaselines(recorded, base)
}

func (r *Reconciler) ensureReplicaConfig(ctx context.Context, p *pass) error {
	f := p.facts
	b := f.baselines(f.members(p.rsg.Status))
	p.status.Baselines = b
	name := desired.ReplicaConfigName(p.rsg.Name)
	if len(b.Invalid) > 0 {
		p.problem(v1alpha1.ReasonReplicaConfigInvalid, "ConfigMap %s: %s", name, strings.Join(b.Invalid, "; "))
	}
	if len(b.Unknown) > 0 && !p.anyTargetMissing() {
		p.problem(v1alpha1.ReasonBaselineUnknown, "targets [%s] have no replica count: see condition %s", strings.Join(b.Unknown, " "), v1alpha1.ConditionBaselineUnknown)
	}
	// With every base at zero there is no count to record, but the user is told to write the counts into this ConfigMap.
	asked := len(b.Unknown) > 0 && !p.anyTargetMissing() && f.config == nil
	if len(b.Add) == 0 && !asked {
		return nil
	}
	if f.config == nil {
		cm := &corev1.ConfigMap{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: p.rsg.Namespace,
				Name:      name,
				Labels:    map[string]string{v1alpha1.LabelName: p.rsg.Name, v1alpha1.LabelNamespace: p.rsg.Namespace},
			},
			Data: b.Add,
		}
		created, err := r.ensureOwned(ctx, p.rsg, cm)
		if err != nil {
			return p.nameTaken(err)
		}
		f.config = cm
		if created {
			p.event(v1alpha1.EventReplicaConfigCreated, "RecordBaseline", "recorded the replica counts of the targets in ConfigMap %s", name)
		}
		return nil
	}
	updated := f.config.DeepCopy()
	if updated.Data == nil {
		updated.Data = map[string]string{}
	}
	maps.Copy(updated.Data, b.Add)
	if err := r.Client.Patch(ctx, updated, client.MergeFromWithOptions(f.config, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("completing ConfigMap %s: %w", name, err)
	}
	f.config = updated
	return nil
}

func (p *pass) anyTargetMissing() bool {
	return slices.ContainsFunc(p.facts.targets, func(t target) bool { return t.base == nil })
}

// nameTaken turns errNameTaken into a problem; other errors pass.
func (p *pass) nameTaken(err error) error {
	if !errors.Is(err, errNameTaken) {
		return err
	}
	p.problem(v1alpha1.ReasonNameConflict, "%v: rename or delete it", err)
	p.lookAgain(unwatchedRetry)
	return nil
}

// ensureOwned creates the object with the ResourceScalingGroup as its controller. One that is there already is read
// into obj when it is owned by it, or when it carries its labels and has no owner, which happens after the
// ResourceScalingGroup was deleted without its dependents.
func (r *Reconciler) ensureOwned(ctx context.Context, rsg *v1alpha1.ResourceScalingGroup, obj client.Object) (created bool, err error) {
	if err := controllerutil.SetControllerReference(rsg, obj, r.Client.Scheme()); err != nil {
		return false, fmt.Errorf("owning %s: %w", kube.Describe(obj), err)
	}
	what, labels := kube.Describe(obj), obj.GetLabels()
	err = r.Client.Create(ctx, obj)
	if err == nil {
		return true, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return false, fmt.Errorf("creating %s: %w", what, err)
	}
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
		return false, fmt.Errorf("reading %s: %w", what, err)
	}
	owner := metav1.GetControllerOf(obj)
	switch {
	case metav1.IsControlledBy(obj, rsg):
		return false, nil
	case owner != nil && owner.Kind == "ResourceScalingGroup" && owner.Name == rsg.Name:
		return false, fmt.Errorf("%s is of an earlier ResourceScalingGroup of this name and not collected yet", what)
	case owner == nil && obj.GetLabels()[v1alpha1.LabelName] == labels[v1alpha1.LabelName] && obj.GetLabels()[v1alpha1.LabelNamespace] == labels[v1alpha1.LabelNamespace]:
		before := obj.DeepCopyObject().(client.Object)
		if err := controllerutil.SetControllerReference(rsg, obj, r.Client.Scheme()); err != nil {
			return false, fmt.Errorf("owning %s: %w", what, err)
		}
		if err := r.Client.Patch(ctx, obj, client.MergeFrom(before)); err != nil {
			return false, fmt.Errorf("taking back %s: %w", what, err)
		}
		return false, nil
	}
	return false, fmt.Errorf("%s %w", what, errNameTaken)
}
