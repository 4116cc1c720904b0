package scaling

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type named string

func (n named) Name() string { return string(n) }

func (named) CalculateDesiredReplicas(context.Context, Input) (Result, error) { return Result{}, nil }

func TestRegistry(t *testing.T) {
	r := NewRegistry()
	for _, name := range []string{"Xpa", "apa"} {
		if err := r.Register(named(name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"XPA": `"Xpa" is registered already`, " x p a ": `"Xpa" is registered already`, "APA": `"apa" is registered already`, "": "its name is empty", " \t": "its name is empty",
	} {
		if err := r.Register(named(name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("registering %q gives %v, want an error with %q", name, err, want)
		}
	}
	if err := r.Register(nil); err == nil {
		t.Error("registering nothing gives no error")
	}
	for _, name := range []string{"xpa", "XPA", " xPa", "X P A"} {
		if a, ok := r.Lookup(name); !ok || a.Name() != "Xpa" {
			t.Errorf("looking up %q gives %v, %v", name, a, ok)
		}
	}
	if _, ok := r.Lookup("xpa2"); ok {
		t.Error("a name that nobody registered is found")
	}
	if diff := cmp.Diff([]string{"apa", "Xpa"}, r.Names()); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestRegistryIsSafeForConcurrentUse(t *testing.T) {
	r := NewRegistry()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if err := r.Register(named(fmt.Sprint("a", i))); err != nil {
				t.Error(err)
			}
			r.Lookup("a0")
			r.Names()
		})
	}
	wg.Wait()
	if n := len(r.Names()); n != 8 {
		t.Errorf("%d algorithms are registered, want 8", n)
	}
}

type handler struct{}

func (handler) GetCurrentReplicas(context.Context, client.Client, Target) (Replicas, error) {
	return Replicas{}, nil
}

func (handler) UpdateReplicas(context.Context, client.Client, Target, Replicas, int32) error {
	return nil
}

func TestResourceHandlers(t *testing.T) {
	RegisterResourceHandler("example.com/v1", "EnginePool", handler{})
	for _, kind := range []string{"EnginePool", "enginepool"} {
		if _, ok := LookupResourceHandler("example.com/v1", kind); !ok {
			t.Errorf("kind %s has no handler", kind)
		}
	}
	for _, other := range []struct{ apiVersion, kind string }{{"example.com/v2", "EnginePool"}, {"example.com/v1", "Engine"}} {
		if _, ok := LookupResourceHandler(other.apiVersion, other.kind); ok {
			t.Errorf("%s %s has a handler", other.apiVersion, other.kind)
		}
	}
	if diff := cmp.Diff([]string{"example.com/v1 enginepool"}, ResourceHandlerKinds()); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
	for name, register := range map[string]func(){
		"a kind twice":               func() { RegisterResourceHandler("example.com/v1", "EnginePool", handler{}) },
		"a kind twice in other case": func() { RegisterResourceHandler("example.com/v1", "ENGINEPOOL", handler{}) },
		"no apiVersion":              func() { RegisterResourceHandler("", "Pool", handler{}) },
		"no kind":                    func() { RegisterResourceHandler("example.com/v1", "", handler{}) },
		"no handler":                 func() { RegisterResourceHandler("example.com/v1", "Pool", nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			register()
		}()
	}
}
