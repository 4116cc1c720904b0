package autoscalerpolicy

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyrender"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/servingcomponent"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/servingruntime"
	"github.com/pd-orchestrator/pd-orchestrator/internal/desired"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
	"github.com/pd-orchestrator/pd-orchestrator/internal/serving"
)

// facts are what a pass read before it decided.
type facts struct {
	served     Served
	bindings   policyrender.Bindings
	choice     servingruntime.Choice
	components []component
}

// component is a component of the service and the policy that it names, nil where there is none.
type component struct {
	desired.ServingComponent
	Name   string
	policy *v1beta1.AutoscalerPolicy
}

func (r *Services) gather(ctx context.Context, service *v1beta1.InferenceService) (facts, error) {
	var f facts
	var err error
	if f.served, err = r.Cluster.Served(ctx); err != nil {
		return f, err
	}
	if err := r.ensureWatches(ctx, &f.served); err != nil {
		return f, err
	}
	if f.bindings, err = r.Cluster.Bindings(ctx); err != nil {
		return f, err
	}
	question, err := serving.Question(ctx, r.Client, service)
	if err != nil {
		return f, err
	}
	f.choice = servingruntime.Choose(question)
	var spec *v1beta1.ServingRuntimeSpec
	name := ""
	if chosen := f.choice.Runtime; chosen != nil {
		spec, name = &chosen.Spec, chosen.Name
	}
	for _, c := range servingcomponent.Of(service.Spec, spec) {
		found := component{Name: c.Name, ServingComponent: desired.ServingComponent{Service: service, Component: c, Runtime: name, Model: question.Model}}
		if ref := c.Own.AutoscalerPolicyRef; ref != nil && f.served.Policies {
			policy := &v1beta1.AutoscalerPolicy{}
			err := r.Client.Get(ctx, types.NamespacedName{Namespace: service.Namespace, Name: ref.Name}, policy)
			if err == nil {
				found.policy = policy
			} else if !apierrors.IsNotFound(err) {
				return f, fmt.Errorf("reading AutoscalerPolicy %s: %w", ref.Name, err)
			}
		}
		f.components = append(f.components, found)
	}
	return f, nil
}

// read reads an object from the cache, nil where there is none.
func (r *Services) read(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	u := kube.NewWorkload(kind)
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, u)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", kind.Kind, name, err)
	}
	return u, nil
}

// workloadKinds are the kinds that run the pods of a component.
var workloadKinds = []schema.GroupVersionKind{desired.DeploymentKind, desired.LeaderWorkerSetKind}

// cached reports whether the cache holds objects of a workload's kind.
func (r *Services) cached(kind schema.GroupVersionKind) bool {
	return kind == desired.DeploymentKind || r.watches.Known(kind)
}
