package elasticscaler

import (
	"context"
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
)

// gatherRivals finds who has the right to the count of the target before this scaler: an HPA that no ElasticScaler made,
// KEDA's among them, an older ResourceScalingGroup that keeps it, and an older ElasticScaler.
func (r *Reconciler) gatherRivals(ctx context.Context, p *pass) error {
	if p.target == nil {
		return nil
	}
	ref := p.target.reference()
	key := kube.TargetKey(ref.APIVersion, ref.Kind, ref.Namespace, ref.Name)
	var hpas autoscalingv2.HorizontalPodAutoscalerList
	if err := r.Client.List(ctx, &hpas, client.MatchingFields{indexTarget: key}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing HPAs: %w", err)
	}
	for i := range hpas.Items {
		hpa := &hpas.Items[i]
		// That of another ElasticScaler counts as that scaler does.
		if owner := metav1.GetControllerOf(hpa); hpa.DeletionTimestamp == nil && (owner == nil || owner.Kind != "ElasticScaler") {
			p.observation.YieldsTo = kube.DescribeScaler(hpa)
			return nil
		}
	}
	if keeper, err := r.keeper(ctx, p.scaler, key); err != nil || keeper != "" {
		p.observation.YieldsTo = keeper
		return err
	}
	first := p.scaler
	for _, request := range r.requestsForTarget(ctx, key) {
		other := &v1alpha1.ElasticScaler{}
		if err := r.Client.Get(ctx, request.NamespacedName, other); err != nil {
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("reading ElasticScaler %s: %w", request, err)
			}
			continue
		}
		if other.DeletionTimestamp == nil && (other.Spec.Paused == nil || !*other.Spec.Paused) && olderThan(other, first) {
			first = other
		}
	}
	if first.UID != p.scaler.UID {
		p.observation.YieldsTo = fmt.Sprintf("ElasticScaler %s/%s", first.Namespace, first.Name)
	}
	return nil
}

// keeper names a ResourceScalingGroup that keeps the count of the target as that of a leader or follower, and has done so for
// longer than the scaler is there.
func (r *Reconciler) keeper(ctx context.Context, scaler *v1alpha1.ElasticScaler, target string) (string, error) {
	if _, err := r.Kinds.Find(groupKind.GroupVersion().String(), groupKind.Kind); err != nil {
		return "", ignoreKindNotFound(err)
	}
	if synced, err := r.ensureGroups(ctx); err != nil || !synced {
		return "", err
	}
	var groups autoscalingv1alpha1.ResourceScalingGroupList
	if err := r.Client.List(ctx, &groups, client.MatchingFields{indexKeeper: target}, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("listing ResourceScalingGroups: %w", err)
	}
	for i := range groups.Items {
		if g := &groups.Items[i]; g.DeletionTimestamp == nil && olderThan(g, scaler) {
			return fmt.Sprintf("ResourceScalingGroup %s/%s", g.Namespace, g.Name), nil
		}
	}
	return "", nil
}

// olderThan reports whether one object has the right to a target before another: the older has, of two of one age the first
// by namespace and name.
func olderThan(a, b client.Object) bool {
	x, y := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	if !x.Equal(&y) {
		return x.Before(&y)
	}
	return a.GetNamespace()+"/"+a.GetName() < b.GetNamespace()+"/"+b.GetName()
}
