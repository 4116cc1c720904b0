package lab_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// crds returns a folder with CRDs of two kinds, anchor and buoy, of a group.
func crds(t *testing.T, group string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"anchor", "buoy"} {
		text := fmt.Sprintf(`# A comment.
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: %[1]ss.%[2]s
spec:
  group: %[2]s
  scope: Namespaced
  names: {plural: %[1]ss, singular: %[1]s, kind: %[1]s, listKind: %[1]sList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
`, name, group)
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestCRDsAreServed(t *testing.T) {
	dir := crds(t, "harbour.example.com")
	for range 2 {
		if err := shared.InstallCRDs(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
	}
	resources := schema.GroupVersionResource{Group: "harbour.example.com", Version: "v1", Resource: "buoys"}
	if _, err := dynamic.NewForConfigOrDie(shared.AdminConfig()).Resource(resources).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	if err := shared.InstallCRDs(t.Context(), t.TempDir()); err == nil {
		t.Error("a folder without CRDs is no error")
	}
}

// Clients look a kind up before they use it, and the API server lists it a little later than it serves it.
func TestCRDsCanBeFoundOnceTheyAreInstalled(t *testing.T) {
	for i := range 10 {
		kind := schema.GroupKind{Group: fmt.Sprintf("pier-%d.example.com", i), Kind: "buoy"}
		if err := shared.InstallCRDs(t.Context(), crds(t, kind.Group)); err != nil {
			t.Fatal(err)
		}
		client := discovery.NewDiscoveryClientForConfigOrDie(shared.AdminConfig())
		for name, known := range map[string]discovery.DiscoveryInterface{"in one document": client, "group by group": client.WithLegacy()} {
			groups, err := restmapper.GetAPIGroupResources(known)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := restmapper.NewDiscoveryRESTMapper(groups).RESTMapping(kind, "v1"); err != nil {
				t.Errorf("looked up %s: %v", name, err)
			}
		}
	}
}
