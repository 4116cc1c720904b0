package resourcescalinggroup

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
)

// markBases puts the group labels on the base workloads and on the Services that are cloned with them. Their pod
// templates stay as they are, so nothing restarts.
func (r *Reconciler) markBases(ctx context.Context, p *pass) error {
	var errs []error
	for _, t := range p.facts.targets {
		if t.base != nil {
			errs = append(errs, r.label(ctx, t.base, p.facts.owner.Labels(0)))
		}
	}
	if p.facts.snapshot == nil {
		return errors.Join(errs...)
	}
	for _, s := range p.facts.snapshot.Services {
		svc := &corev1.Service{}
		err := r.Client.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: s.Name}, svc)
		if err == nil {
			svc.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Service"))
			err = r.label(ctx, svc, p.facts.owner.Labels(0))
		}
		errs = append(errs, client.IgnoreNotFound(err))
	}
	return errors.Join(errs...)
}

// label sets the labels that the object lacks, and does nothing where it has them all.
func (r *Reconciler) label(ctx context.Context, obj client.Object, wanted map[string]string) error {
	missing := map[string]*string{}
	for key, value := range wanted {
		if obj.GetLabels()[key] != value {
			missing[key] = &value
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return goneIsFine(kube.Mark(ctx, r.Client, obj, kube.Marks{Labels: missing}))
}

// goneIsFine drops the error of a mark on an object that was deleted, or replaced by another of its name, meanwhile.
func goneIsFine(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// markPods labels the live pods of group 0, whose template is not touched, and marks one pod of each counted group for
// status.selector.
func (r *Reconciler) markPods(ctx context.Context, p *pass) error {
	var errs []error
	for i, t := range p.facts.targets {
		if t.base == nil {
			continue
		}
		pods, err := kube.PodsOf(ctx, r.Client, t.namespace, t.base.GetUID())
		if err != nil {
			return err
		}
		errs = append(errs, inParallel(ctx, pods.All, func(ctx context.Context, pod corev1.Pod) error {
			return r.label(ctx, named(&pod), p.facts.owner.Labels(0))
		}))
		if i == 0 {
			errs = append(errs, r.markScaleUnit(ctx, p, pods.Direct, p.counts(0)))
		}
	}
	if len(p.facts.targets) == 0 {
		return errors.Join(errs...)
	}
	first := p.facts.targets[0].name
	errs = append(errs, inParallel(ctx, slices.Sorted(maps.Keys(p.facts.clones)), func(ctx context.Context, id int32) error {
		workload := p.facts.clones[id].workloads[first]
		if workload == nil {
			return nil
		}
		pods, err := kube.PodsOf(ctx, r.Client, workload.GetNamespace(), workload.GetUID())
		if err != nil {
			return err
		}
		return r.markScaleUnit(ctx, p, pods.Direct, p.counts(id))
	}))
	return errors.Join(errs...)
}

// counts reports whether the group is one of those that status.currentReplicas counts.
func (p *pass) counts(id int32) bool {
	for _, g := range p.status.Groups {
		if g.ID == id {
			return g.Complete()
		}
	}
	return false
}

// markScaleUnit sees to it that exactly one of the pods carries the mark: the one that has it while it serves, else the
// oldest that does. The new pod is marked before the old one is unmarked, so that the group is never unseen.
func (r *Reconciler) markScaleUnit(ctx context.Context, p *pass, pods []corev1.Pod, counted bool) error {
	chosen := scaleUnit(pods, p.rsg.Name)
	if !counted {
		chosen = nil
	}
	if chosen != nil {
		if err := r.label(ctx, named(chosen), map[string]string{v1alpha1.LabelScaleUnit: p.rsg.Name}); err != nil {
			return err
		}
	}
	var errs []error
	for i := range pods {
		pod := &pods[i]
		if _, marked := pod.Labels[v1alpha1.LabelScaleUnit]; marked && (chosen == nil || pod.UID != chosen.UID) && pod.DeletionTimestamp == nil {
			errs = append(errs, goneIsFine(kube.Mark(ctx, r.Client, named(pod), kube.Marks{Labels: map[string]*string{v1alpha1.LabelScaleUnit: nil}})))
		}
	}
	return errors.Join(errs...)
}

// scaleUnit picks the pod that stands for its group: ready ones before others, then the one that is marked already,
// then the oldest, then by name. Pods on their way out are never picked.
func scaleUnit(pods []corev1.Pod, mark string) *corev1.Pod {
	var best *corev1.Pod
	for i := range pods {
		pod := &pods[i]
		if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		if best == nil || compareUnits(pod, best, mark) < 0 {
			best = pod
		}
	}
	return best
}

func compareUnits(a, b *corev1.Pod, mark string) int {
	first := func(x, y bool) int {
		switch {
		case x == y:
			return 0
		case x:
			return -1
		}
		return 1
	}
	return cmp.Or(
		first(kube.PodReady(a), kube.PodReady(b)),
		first(a.Labels[v1alpha1.LabelScaleUnit] == mark, b.Labels[v1alpha1.LabelScaleUnit] == mark),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Name, b.Name),
	)
}

// named gives a pod from the cache its kind, which messages name.
func named(pod *corev1.Pod) *corev1.Pod {
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	return pod
}

// relevantPodChange reports whether an update of a pod can change what is marked.
func relevantPodChange(before, after *corev1.Pod) bool {
	marks := []string{v1alpha1.LabelScaleUnit, v1alpha1.LabelName, v1alpha1.LabelNamespace, v1alpha1.LabelGroupID, v1alpha1.LabelGroupName}
	return kube.PodReady(before) != kube.PodReady(after) ||
		before.Status.Phase != after.Status.Phase ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
		slices.ContainsFunc(marks, func(key string) bool { return before.Labels[key] != after.Labels[key] })
}
