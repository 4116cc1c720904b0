// Package serving reads what the runtime of an InferenceService is chosen from, for all who choose: the controller, admission
// and the plug-in.
package serving

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/servingruntime"
)

// Question reads what the runtime of a service is chosen from. Of a cache it hands on what the cache holds, which must not
// be changed.
func Question(ctx context.Context, c client.Reader, service *v1beta1.InferenceService) (servingruntime.Question, error) {
	q := servingruntime.Question{Service: service.Spec}
	var err error
	if q.Model, err = model(ctx, c, service); err != nil {
		return q, err
	}
	var cluster v1beta1.ClusterServingRuntimeList
	if err := c.List(ctx, &cluster, client.UnsafeDisableDeepCopy); err != nil {
		return q, fmt.Errorf("listing ClusterServingRuntimes: %w", err)
	}
	for i := range cluster.Items {
		q.Runtimes = append(q.Runtimes, servingruntime.Runtime{Kind: servingruntime.KindClusterServingRuntime, Name: cluster.Items[i].Name, Spec: cluster.Items[i].Spec})
	}
	var own v1beta1.ServingRuntimeList
	if err := c.List(ctx, &own, client.InNamespace(service.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return q, fmt.Errorf("listing ServingRuntimes: %w", err)
	}
	for i := range own.Items {
		q.Runtimes = append(q.Runtimes, servingruntime.Runtime{Kind: servingruntime.KindServingRuntime, Name: own.Items[i].Name, Spec: own.Items[i].Spec})
	}
	return q, nil
}

// model reads the model that a service names, nil where there is none.
func model(ctx context.Context, c client.Reader, service *v1beta1.InferenceService) (*v1beta1.BaseModelSpec, error) {
	ref := service.Spec.Model
	if ref == nil {
		return nil, nil
	}
	var spec *v1beta1.BaseModelSpec
	var err error
	switch ref.Kind {
	case servingruntime.KindClusterBaseModel:
		m := &v1beta1.ClusterBaseModel{}
		err = c.Get(ctx, types.NamespacedName{Name: ref.Name}, m)
		spec = &m.Spec
	case servingruntime.KindBaseModel:
		m := &v1beta1.BaseModel{}
		err = c.Get(ctx, types.NamespacedName{Namespace: service.Namespace, Name: ref.Name}, m)
		spec = &m.Spec
	default:
		return nil, nil
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", ref.Kind, ref.Name, err)
	}
	return spec, nil
}
