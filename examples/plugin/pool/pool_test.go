package pool

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

func TestReadsAndWritesTheCount(t *testing.T) {
	ctx := context.Background()
	target := scaling.Target{APIVersion: APIVersion, Kind: Kind, Namespace: "ns", Name: "engines"}
	u := object(target)
	if err := unstructured.SetNestedField(u.Object, int64(3), "spec", "engines"); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithObjects(u).Build()
	read, err := Handler{}.GetCurrentReplicas(ctx, c, target)
	if err != nil || read.Desired != 3 || read.Selector != "example.com/pool=engines" {
		t.Fatalf("got %+v, %v; want 3", read, err)
	}
	if err := (Handler{}).UpdateReplicas(ctx, c, target, read, 5); err != nil {
		t.Fatal(err)
	}
	// Whoever read before that must not overwrite it.
	if err := (Handler{}).UpdateReplicas(ctx, c, target, read, 9); !apierrors.IsConflict(err) {
		t.Errorf("a write on what was read before another write gives %v, want a Conflict", err)
	}
	if read, err = (Handler{}).GetCurrentReplicas(ctx, c, target); err != nil || read.Desired != 5 {
		t.Errorf("got %+v, %v; want 5", read, err)
	}
	missing := target
	missing.Name = "other"
	if _, err := (Handler{}).GetCurrentReplicas(ctx, c, missing); !apierrors.IsNotFound(err) {
		t.Errorf("a pool that does not exist gives %v, want NotFound", err)
	}
	if err := c.Create(ctx, object(missing), &client.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if read, err := (Handler{}).GetCurrentReplicas(ctx, c, missing); err == nil {
		t.Errorf("a pool without a count gives %+v, want an error", read)
	}
}

func TestIsRegistered(t *testing.T) {
	if _, ok := scaling.LookupResourceHandler(APIVersion, "enginepool"); !ok {
		t.Error("the kind has no handler")
	}
}
