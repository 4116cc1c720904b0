package elasticscaler

import (
	"context"
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
)

// gatherRivals finds who has the right to the count of the target before this scaler: an HPA that no ElasticScaler made,
// KEDA's among them, and an older ElasticScaler.
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
	first := p.scaler
	for _, request := range r.requestsForTarget(ctx, key) {
		other := &v1alpha1.ElasticScaler{}
		if err := r.Client.Get(ctx, request.NamespacedName, other); err != nil {
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("reading ElasticScaler %s: %w", request, err)
			}
			continue
		}
		if other.DeletionTimestamp == nil && (other.Spec.Paused == nil || !*other.Spec.Paused) && before(other, first) {
			first = other
		}
	}
	if first.UID != p.scaler.UID {
		p.observation.YieldsTo = fmt.Sprintf("ElasticScaler %s/%s", first.Namespace, first.Name)
	}
	return nil
}

// before reports whether one ElasticScaler has the right to a target before another: the older has, of two of one age the
// first by namespace and name.
func before(a, b *v1alpha1.ElasticScaler) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Namespace+"/"+a.Name < b.Namespace+"/"+b.Name
}
