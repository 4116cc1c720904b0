package elasticscaler

import (
	"context"
	"encoding/json"
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/condition"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/scalerspec"
	"github.com/pd-orchestrator/pd-orchestrator/internal/desired"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
)

// ownHPA returns the HPA of the scaler's name, nil where there is none, and whether the scaler made it.
func (r *Reconciler) ownHPA(ctx context.Context, scaler *v1alpha1.ElasticScaler) (*autoscalingv2.HorizontalPodAutoscaler, bool, error) {
	hpa := &autoscalingv2.HorizontalPodAutoscaler{}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(scaler), hpa)
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("reading HPA: %w", err)
	}
	return hpa, metav1.IsControlledBy(hpa, scaler), nil
}

// retireHPA deletes the HPA of the scaler, if there is one. The count stays as the HPA left it.
func (r *Reconciler) retireHPA(ctx context.Context, p *pass) error {
	hpa, ours, err := r.ownHPA(ctx, p.scaler)
	if err != nil || hpa == nil || !ours {
		return err
	}
	if hpa.DeletionTimestamp == nil {
		uid := hpa.UID
		if err := r.Client.Delete(ctx, hpa, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting HPA: %w", err)
		}
		log.FromContext(ctx).Info("Deleted the HPA, since something else decides now")
		p.events = append(p.events, notice{kind: "Normal", reason: v1alpha1.ReasonReconciled, action: "DeleteHPA",
			note: fmt.Sprintf("HorizontalPodAutoscaler %s is deleted and the count stays as it is", hpa.Name)})
	}
	return nil
}

// keepHPA sees to it that the HPA is as the scaler says, and takes over what it tells.
func (r *Reconciler) keepHPA(ctx context.Context, p *pass) error {
	if !p.writes() {
		return nil
	}
	if p.target.key.Namespace != p.scaler.Namespace {
		p.invalid(v1alpha1.ReasonInvalidSpec, "spec.targetRef.namespace is %s: must be %s with scalingAlgorithm HPA, since a HorizontalPodAutoscaler scales in its own namespace only; use another algorithm, or move the scaler",
			p.target.key.Namespace, p.scaler.Namespace)
		return nil
	}
	hpa, ours, err := r.ownHPA(ctx, p.scaler)
	if err != nil {
		return err
	}
	if hpa != nil && !ours {
		p.invalid(v1alpha1.ReasonHPANotOwned, "a HorizontalPodAutoscaler of the name %s exists and is not this scaler's: delete it, or rename the scaler", hpa.Name)
		return nil
	}
	bounds := scalerspec.BoundsOf(p.scaler.Spec)
	wanted := desired.ScalerHPA(p.scaler, p.target.kind.GroupVersionKind, *bounds.Min, *bounds.Max)
	reflected := p.scaler.Status.ObservedGeneration != nil && *p.scaler.Status.ObservedGeneration == p.scaler.Generation
	if same, err := matches(hpa, wanted); err != nil {
		return err
	} else if !same || !reflected {
		if err := r.Client.Apply(ctx, wanted, kube.FieldOwner(Component), client.ForceOwnership); kube.Refused(err) {
			p.observation.WriteProblem = &condition.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: fmt.Sprintf("the HorizontalPodAutoscaler is refused: %v", err)}
			p.retryIn(unwatchedRetry)
			return nil
		} else if err != nil {
			return fmt.Errorf("applying HPA: %w", err)
		}
		if hpa == nil {
			p.events = append(p.events, notice{kind: "Normal", reason: v1alpha1.ReasonReconciled, action: "CreateHPA",
				note: fmt.Sprintf("HorizontalPodAutoscaler %s is created for %s", p.scaler.Name, p.target)})
		}
	}
	p.observation.HPA = hpa
	p.observation.ByHPA = true
	return nil
}

// matches reports whether an HPA has all that is wanted of it. Values that the API server has filled in do not count.
func matches(hpa *autoscalingv2.HorizontalPodAutoscaler, wanted any) (bool, error) {
	if hpa == nil {
		return false, nil
	}
	encoded, err := json.Marshal(wanted)
	if err != nil {
		return false, fmt.Errorf("encoding the HPA: %w", err)
	}
	var typed autoscalingv2.HorizontalPodAutoscaler
	if err := json.Unmarshal(encoded, &typed); err != nil {
		return false, fmt.Errorf("decoding the HPA: %w", err)
	}
	return equality.Semantic.DeepDerivative(typed.Spec, hpa.Spec), nil
}
