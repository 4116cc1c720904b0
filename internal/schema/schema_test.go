package schema

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	schemas, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	if !schemas.Knows(schema.GroupVersionKind{Group: "ome.io", Version: "v1beta1", Kind: "ClusterBaseModel"}) || schemas.Knows(schema.GroupVersionKind{Version: "v1", Kind: "Pod"}) {
		t.Error("the product's kinds are known, and no others")
	}
	const tidal = `
apiVersion: tidal.io/v1alpha1
kind: Tidal
metadata: {name: t, namespace: ns}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web, namespace: ns}
  triggers: {times: {rules: [{name: a, cron: "0 9 * * *", replicas: 3}]}}
`
	for name, tc := range map[string]struct {
		text     string
		readable bool
		want     []string
	}{
		"good":              {tidal, true, nil},
		"unknown fields":    {strings.Replace(tidal, "replicas: 3", "replicas: 3, colour: red", 1), true, []string{"spec.triggers.times.rules[0].colour: Forbidden: unknown field"}},
		"wrong type":        {strings.Replace(tidal, "replicas: 3", `replicas: "3"`, 1), false, []string{"spec.triggers.times.rules[0].replicas: Invalid value"}},
		"missing field":     {strings.Replace(tidal, "kind: Deployment, ", "", 1), false, []string{"spec.targetRef.kind: Required value"}},
		"bad name":          {strings.Replace(tidal, "name: t,", "name: T_t,", 1), true, []string{"metadata.name: Invalid value"}},
		"two rules a name":  {strings.Replace(tidal, "replicas: 3}", `replicas: 3}, {name: a, cron: "0 8 * * *", replicas: 1}`, 1), false, []string{"Duplicate value"}},
		"a rule of the CRD": {strings.Replace(tidal, "0 9 * * *", "99 9 * * *", 1), true, []string{"cron must have values within their range"}},
		"another kind":      {"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n", false, []string{"kind: Unsupported value"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(tc.text), &u.Object); err != nil {
				t.Fatal(err)
			}
			errs, readable := schemas.Validate(t.Context(), u)
			if readable != tc.readable {
				t.Errorf("readable is %t, want %t", readable, tc.readable)
			}
			if len(errs) != len(tc.want) {
				t.Fatalf("the findings are %v, want %d", errs, len(tc.want))
			}
			for i, want := range tc.want {
				if !strings.Contains(errs[i].Error(), want) {
					t.Errorf("the finding is %v, want %q", errs[i], want)
				}
			}
		})
	}
}

// Defaults are filled in before anything is looked at, as the API server does before admission.
func TestValidateFillsInDefaults(t *testing.T) {
	t.Parallel()
	schemas, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(`
apiVersion: autoscaling.openfuyao.com/v1alpha1
kind: ResourceScalingGroup
metadata: {name: g, namespace: ns}
spec:
  targetResources: [{name: p, resourceRef: {apiVersion: apps/v1, kind: Deployment, name: web}}]
  scalingStrategy: {type: GroupReplication, groupConfig: {groupName: x}}
`), &u.Object); err != nil {
		t.Fatal(err)
	}
	if errs, _ := schemas.Validate(t.Context(), u); len(errs) > 0 {
		t.Fatal(errs)
	}
	if n, _, _ := unstructured.NestedInt64(u.Object, "spec", "scalingStrategy", "groupConfig", "replicas"); n != 1 {
		t.Errorf("replicas is %d, want the default 1", n)
	}
}
