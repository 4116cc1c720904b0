// Package pool lets ElasticScalers scale EnginePools, a kind without a scale subresource that holds its count in spec.engines.
package pool

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

// The kind that is handled.
const (
	APIVersion = "example.com/v1"
	Kind       = "EnginePool"
)

func init() { scaling.RegisterResourceHandler(APIVersion, Kind, Handler{}) }

// Handler reads and writes the count of EnginePools.
type Handler struct{}

var _ scaling.ResourceHandler = Handler{}

func object(t scaling.Target) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(APIVersion)
	u.SetKind(Kind)
	u.SetNamespace(t.Namespace)
	u.SetName(t.Name)
	return u
}

// GetCurrentReplicas implements scaling.ResourceHandler.
func (Handler) GetCurrentReplicas(ctx context.Context, c client.Client, t scaling.Target) (scaling.Replicas, error) {
	u := object(t)
	if err := c.Get(ctx, client.ObjectKeyFromObject(u), u); err != nil {
		return scaling.Replicas{}, fmt.Errorf("reading the engines of %s/%s: %w", t.Namespace, t.Name, err)
	}
	desired, found, err := unstructured.NestedInt64(u.Object, "spec", "engines")
	if err != nil {
		return scaling.Replicas{}, fmt.Errorf("reading spec.engines of %s/%s: %w", t.Namespace, t.Name, err)
	}
	if !found {
		return scaling.Replicas{}, errors.New("spec.engines is not set: it must be, for the count to be known")
	}
	ready, _, err := unstructured.NestedInt64(u.Object, "status", "engines")
	if err != nil {
		return scaling.Replicas{}, fmt.Errorf("reading status.engines of %s/%s: %w", t.Namespace, t.Name, err)
	}
	return scaling.Replicas{
		Desired: int32(desired), Current: int32(ready),
		// The controller of EnginePools labels the pods of a pool, and those of one engine with its number.
		Selector:  "example.com/pool=" + t.Name,
		UnitLabel: "example.com/engine",
		UID:       u.GetUID(), ResourceVersion: u.GetResourceVersion(),
	}, nil
}

// UpdateReplicas implements scaling.ResourceHandler. The patch names the version that was read, so that the API server
// refuses it with a Conflict where somebody else has written since.
func (Handler) UpdateReplicas(ctx context.Context, c client.Client, t scaling.Target, read scaling.Replicas, replicas int32) error {
	before := object(t)
	before.SetUID(read.UID)
	before.SetResourceVersion(read.ResourceVersion)
	after := before.DeepCopy()
	if err := unstructured.SetNestedField(after.Object, int64(replicas), "spec", "engines"); err != nil {
		return err
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, after, patch); err != nil {
		return fmt.Errorf("setting the engines of %s/%s to %d: %w", t.Namespace, t.Name, replicas, err)
	}
	return nil
}
