package autoscalerpolicy

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyresolve"
	"github.com/pd-orchestrator/pd-orchestrator/internal/desired"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
)

// Policies reconciles the status of AutoscalerPolicies. All fields must be set.
type Policies struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// APIReader reads from the API server.
	APIReader client.Reader
	// Namespaces limits what is watched; empty for all namespaces.
	Namespaces []string
	// Cluster knows whether there are policies, and the metric providers.
	Cluster *Cluster
	// Clock tells the time.
	Clock clock.PassiveClock
	// Concurrency is how many objects are worked on at a time.
	Concurrency int

	watches *kube.Watches
}

// Reconcile makes one pass over one policy. A request without a namespace is of the CRD.
func (r *Policies) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if req.Namespace == "" {
		return ctrl.Result{}, r.ensureWatch(ctx)
	}
	policy := &v1beta1.AutoscalerPolicy{}
	if err := r.Client.Get(ctx, req.NamespacedName, policy); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	bindings, err := r.Cluster.Bindings(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	uses := 0
	var services v1beta1.InferenceServiceList
	if err := r.Client.List(ctx, &services, client.InNamespace(policy.Namespace), client.MatchingFields{indexPolicies: policy.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing InferenceServices: %w", err)
	}
	for i := range services.Items {
		for _, use := range policyresolve.Uses(services.Items[i].Spec) {
			if use.Policy == policy.Name {
				uses++
			}
		}
	}
	status := desired.AutoscalerPolicyStatus(policy, bindings, uses, metav1.NewTime(r.Clock.Now()).Rfc3339Copy())
	if equality.Semantic.DeepEqual(status, policy.Status) {
		return ctrl.Result{}, nil
	}
	policy.Status = status
	err = r.Client.Status().Update(ctx, policy)
	if apierrors.IsConflict(err) {
		log.FromContext(ctx).V(1).Info("Read is outdated", "cause", err.Error())
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	}
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("writing status: %w", err)
	}
	return ctrl.Result{}, nil
}
