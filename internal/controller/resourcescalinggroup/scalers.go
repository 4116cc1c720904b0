package resourcescalinggroup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// scaledBy is the index value of an HPA: what it scales. An HPA scales within its own namespace.
func scaledBy(obj client.Object) []string {
	ref := obj.(*autoscalingv2.HorizontalPodAutoscaler).Spec.ScaleTargetRef
	return []string{targetKey(ref.Kind, obj.GetNamespace(), ref.Name)}
}

// scalersOf names the HPAs that scale an object, sorted. Those that KEDA makes are named with their ScaledObject.
func (r *Reconciler) scalersOf(ctx context.Context, namespace, kind, name string) ([]string, error) {
	var list autoscalingv2.HorizontalPodAutoscalerList
	if err := r.Client.List(ctx, &list, client.MatchingFields{indexScaler: targetKey(kind, namespace, name)}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing HPAs: %w", err)
	}
	var names []string
	for i := range list.Items {
		hpa := &list.Items[i]
		text := fmt.Sprintf("HorizontalPodAutoscaler %s/%s", hpa.Namespace, hpa.Name)
		if owner := metav1.GetControllerOf(hpa); owner != nil {
			text = fmt.Sprintf("%s %s/%s", owner.Kind, hpa.Namespace, owner.Name)
		}
		names = append(names, text)
	}
	slices.Sort(names)
	return names, nil
}

// findScalers notes who scales the groups, and who scales a workload of a group by labels that other groups share.
func (r *Reconciler) findScalers(ctx context.Context, p *pass) error {
	ofGroups, err := r.scalersOf(ctx, p.rsg.Namespace, "ResourceScalingGroup", p.rsg.Name)
	if err != nil {
		return err
	}
	if len(ofGroups) > 1 {
		p.status.ScalerConflict = fmt.Sprintf("the number of groups is set by %s: keep one of them", strings.Join(ofGroups, " and by "))
	}
	onBase, err := r.scalersOfWorkloads(ctx, p, func(t target) []string {
		if t.namespace != p.rsg.Namespace {
			return nil // The clones are elsewhere, so the base's labels select the base's pods only.
		}
		return []string{t.workload}
	})
	if err != nil {
		return err
	}
	onClones, err := r.scalersOfWorkloads(ctx, p, func(t target) []string {
		var names []string
		for id, c := range p.facts.clones {
			if c.workloads[t.name] != nil {
				names = append(names, p.facts.owner.WorkloadName(t.workload, id))
			}
		}
		return names
	})
	if err != nil {
		return err
	}
	var overlaps []string
	if len(p.facts.clones) > 0 || len(ofGroups) > 0 {
		overlaps = append(overlaps, onBase...)
	}
	if len(onBase) > 0 || len(ofGroups) > 0 {
		overlaps = append(overlaps, onClones...)
	}
	if len(overlaps) > 0 {
		p.status.SelectorOverlap = strings.Join(overlaps, ", ") + " counts pods of other groups, or stops with AmbiguousSelector, since an HPA goes by labels: scale the groups instead"
	}
	return nil
}

// scalersOfWorkloads names the HPAs on the workloads that the function lists for each target, sorted.
func (r *Reconciler) scalersOfWorkloads(ctx context.Context, p *pass, workloads func(target) []string) ([]string, error) {
	var found []string
	for _, t := range p.facts.targets {
		for _, w := range workloads(t) {
			names, err := r.scalersOf(ctx, p.rsg.Namespace, t.kind.GroupVersionKind.Kind, w)
			if err != nil {
				return nil, err
			}
			for _, n := range names {
				found = append(found, fmt.Sprintf("%s on %s", n, w))
			}
		}
	}
	slices.Sort(found)
	return found, nil
}
