package kube

import (
	"context"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ReadScale reads the scale subresource of an object from the API server, and gives the object the UID and the version that
// the count was read at, so that Scale overwrites nothing that came later.
func ReadScale(ctx context.Context, c client.Client, obj *unstructured.Unstructured) (*autoscalingv1.Scale, error) {
	read := NewWorkload(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
	if err := c.SubResource("scale").Get(ctx, obj, read); err != nil {
		return nil, fmt.Errorf("get scale failed: reading the replicas of %s: %w", Describe(obj), err)
	}
	scale := &autoscalingv1.Scale{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(read.Object, scale); err != nil {
		return nil, fmt.Errorf("get scale failed: decoding the replicas of %s: %w", Describe(obj), err)
	}
	obj.SetUID(scale.UID)
	obj.SetResourceVersion(scale.ResourceVersion)
	return scale, nil
}
