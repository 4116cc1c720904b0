package demo

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

//go:embed manifests/*.yaml
var manifests embed.FS

// fieldManager owns the fields that the story applies, as kubectl would.
const fieldManager = "kubectl"

// apply applies a manifest and shows the command by which a user does it.
func (p *player) apply(ctx context.Context, name string) error {
	text, err := manifests.ReadFile("manifests/" + name)
	if err != nil {
		return fmt.Errorf("reading a manifest: %w", err)
	}
	p.screen.command("kubectl apply --server-side -f lab/demo/manifests/%s", name)
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading manifest %s: %w", name, err)
		}
		applied, err := p.resource(object).Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldManager})
		if err != nil {
			return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		p.screen.result("%s/%s serverside-applied", strings.ToLower(applied.GetKind()), applied.GetName())
	}
}

func (p *player) resource(object *unstructured.Unstructured) dynamic.ResourceInterface {
	// The manifests hold kinds with regular plurals only.
	resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	if object.GetNamespace() == "" {
		return p.dynamic.Resource(resource)
	}
	return p.dynamic.Resource(resource).Namespace(object.GetNamespace())
}

// scaleTo writes a number of groups through the scale subresource, as kubectl scale does.
func (p *player) scaleTo(ctx context.Context, replicas int) error {
	p.screen.command("kubectl scale rsg/%s -n %s --replicas=%d", rsgName, scalingNamespace, replicas)
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	if _, err := p.dynamic.Resource(scalingGroups).Namespace(scalingNamespace).Patch(ctx, rsgName, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: fieldManager}, "scale"); err != nil {
		return fmt.Errorf("scaling to %d groups: %w", replicas, err)
	}
	scale, err := p.readScale(ctx)
	if err != nil {
		return err
	}
	p.screen.result("scaled; the subresource answers spec.replicas %d, status.replicas %d", scale.Spec.Replicas, scale.Status.Replicas)
	return nil
}
