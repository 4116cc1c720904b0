package resourcescalinggroup

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	elasticscalerv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	tidalv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/scalerspec"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
)

// scaledBy are the index values of an HPA, an ElasticScaler or a Tidal: what it names as its target.
func scaledBy(obj client.Object) []string {
	switch o := obj.(type) {
	case *autoscalingv2.HorizontalPodAutoscaler:
		return []string{kube.HPATarget(o)}
	case *elasticscalerv1alpha1.ElasticScaler:
		ref := o.Spec.TargetRef
		return []string{kube.TargetKey(ref.APIVersion, ref.Kind, cmp.Or(ref.Namespace, o.Namespace), ref.Name)}
	case *tidalv1alpha1.Tidal:
		ref := o.Spec.TargetRef
		return []string{kube.TargetKey(ref.APIVersion, ref.Kind, ref.Namespace, ref.Name)}
	}
	return nil
}

// hpasOf lists the HPAs that scale an object, by its TargetKey.
func (r *Reconciler) hpasOf(ctx context.Context, target string) ([]autoscalingv2.HorizontalPodAutoscaler, error) {
	var list autoscalingv2.HorizontalPodAutoscalerList
	if err := r.Client.List(ctx, &list, client.MatchingFields{indexScaler: target}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing HPAs: %w", err)
	}
	return slices.DeleteFunc(slices.Clone(list.Items), func(hpa autoscalingv2.HorizontalPodAutoscaler) bool { return hpa.DeletionTimestamp != nil }), nil
}

// scalersOf finds who sets the count of an object, by its TargetKey: HPAs, ScaledObjects through theirs, and
// ElasticScalers that name it or a Tidal which does. The map is from what messages call the scaler to the ElasticScaler,
// nil where it is none.
func (r *Reconciler) scalersOf(ctx context.Context, target string) (map[string]*elasticscalerv1alpha1.ElasticScaler, error) {
	found := map[string]*elasticscalerv1alpha1.ElasticScaler{}
	readable, err := r.watchScalers(ctx)
	if err != nil {
		return nil, err
	}
	if readable {
		scalers, err := r.elasticScalersOf(ctx, target)
		if err != nil {
			return nil, err
		}
		for i := range scalers {
			// One that is paused leaves the count to others.
			if s := &scalers[i]; s.DeletionTimestamp == nil && (s.Spec.Paused == nil || !*s.Spec.Paused) {
				found[describe(s)] = s
			}
		}
	}
	hpas, err := r.hpasOf(ctx, target)
	if err != nil {
		return nil, err
	}
	for i := range hpas {
		name := kube.DescribeScaler(&hpas[i])
		if _, counted := found[name]; counted {
			continue // An ElasticScaler and its own HPA are one.
		}
		found[name] = nil
		if owner := metav1.GetControllerOf(&hpas[i]); readable && owner != nil && owner.Kind == "ElasticScaler" {
			s := &elasticscalerv1alpha1.ElasticScaler{}
			err := r.Client.Get(ctx, types.NamespacedName{Namespace: hpas[i].Namespace, Name: owner.Name}, s)
			if client.IgnoreNotFound(err) != nil {
				return nil, fmt.Errorf("reading ElasticScaler: %w", err)
			}
			if err == nil {
				found[name] = s
			}
		}
	}
	return found, nil
}

func describe(s *elasticscalerv1alpha1.ElasticScaler) string {
	return "ElasticScaler " + s.Namespace + "/" + s.Name
}

// elasticScalersOf lists the ElasticScalers of an object, itself or by way of a Tidal.
func (r *Reconciler) elasticScalersOf(ctx context.Context, target string) ([]elasticscalerv1alpha1.ElasticScaler, error) {
	keys := []string{target, kube.WithoutGroup(target)}
	readable, err := r.watchTidals(ctx)
	if err != nil {
		return nil, err
	}
	if readable {
		var tidals tidalv1alpha1.TidalList
		if err := r.Client.List(ctx, &tidals, client.MatchingFields{indexScaler: target}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing Tidals: %w", err)
		}
		for i := range tidals.Items {
			key := kube.TargetKey(tidalv1alpha1.GroupVersion.String(), "Tidal", tidals.Items[i].Namespace, tidals.Items[i].Name)
			keys = append(keys, key, kube.WithoutGroup(key))
		}
	}
	var all []elasticscalerv1alpha1.ElasticScaler
	for _, key := range keys {
		var list elasticscalerv1alpha1.ElasticScalerList
		if err := r.Client.List(ctx, &list, client.MatchingFields{indexScaler: key}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing ElasticScalers: %w", err)
		}
		all = append(all, list.Items...)
	}
	return all, nil
}

// rivalOf names who has the right to a count before the ResourceScalingGroup, "" where nobody has: of two objects of this
// product the older, and anybody else.
func (r *Reconciler) rivalOf(ctx context.Context, rsg *v1alpha1.ResourceScalingGroup, t target) (string, error) {
	scalers, err := r.scalersOf(ctx, t.key())
	if err != nil {
		return "", err
	}
	for _, name := range slices.Sorted(maps.Keys(scalers)) {
		if s := scalers[name]; s == nil || older(s, rsg) {
			return name, nil
		}
	}
	return "", nil
}

// older reports whether an object has the right to something before another: the older has, of two of one age the first by
// namespace and name.
func older(a, b client.Object) bool {
	return cmp.Or(a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time), cmp.Compare(nameOf(a), nameOf(b))) < 0
}

// findScalers notes who scales the groups, and which HPA scales a workload of a group by labels that other groups share.
func (r *Reconciler) findScalers(ctx context.Context, p *pass) error {
	scalers, err := r.scalersOf(ctx, groupsKey(p.rsg))
	if err != nil {
		return err
	}
	if len(scalers) > 1 {
		p.status.ScalerConflict = fmt.Sprintf("the number of groups is set by %s: keep one of them", strings.Join(slices.Sorted(maps.Keys(scalers)), " and by "))
	}
	ofGroups, err := r.hpasOf(ctx, groupsKey(p.rsg))
	if err != nil {
		return err
	}
	onBase, err := r.hpasOfWorkloads(ctx, p, func(t target) []string {
		if t.namespace != p.rsg.Namespace {
			return nil // The clones are elsewhere, so the base's labels select the base's pods only.
		}
		return []string{t.workload}
	})
	if err != nil {
		return err
	}
	onClones, err := r.hpasOfWorkloads(ctx, p, func(t target) []string {
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

// hpasOfWorkloads names the HPAs on the workloads that the function lists for each target, sorted.
func (r *Reconciler) hpasOfWorkloads(ctx context.Context, p *pass, workloads func(target) []string) ([]string, error) {
	var found []string
	for _, t := range p.facts.targets {
		for _, w := range workloads(t) {
			hpas, err := r.hpasOf(ctx, kube.TargetKey(t.kind.GroupVersion().String(), t.kind.GroupVersionKind.Kind, p.rsg.Namespace, w))
			if err != nil {
				return nil, err
			}
			for i := range hpas {
				found = append(found, fmt.Sprintf("%s on %s", kube.DescribeScaler(&hpas[i]), w))
			}
		}
	}
	slices.Sort(found)
	return found, nil
}

// targetOf is the TargetKey of what a scaler scales: where an ElasticScaler names a Tidal, that is the Tidal's target.
func (r *Reconciler) targetOf(ctx context.Context, obj client.Object) string {
	target := scaledBy(obj)[0]
	scaler, ok := obj.(*elasticscalerv1alpha1.ElasticScaler)
	if !ok || !scalerspec.NamesTidal(scaler.Spec) {
		return target
	}
	ref := scaler.Spec.TargetRef
	var tidal tidalv1alpha1.Tidal
	if readable, err := r.watchTidals(ctx); err != nil || !readable {
		return target
	}
	if err := r.Client.Get(ctx, types.NamespacedName{Namespace: cmp.Or(ref.Namespace, scaler.Namespace), Name: ref.Name}, &tidal); err != nil {
		return target
	}
	return scaledBy(&tidal)[0]
}
