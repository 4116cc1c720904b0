package kube

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ApplyObject applies an object server-side, unless the live one, nil for none, has everything that is wanted already, and
// reports whether it wrote. What the server fills in, and what others add, does not count. An object that has come
// meanwhile is not taken over, nor one that has been made anew: the error is a conflict. Afterwards wanted is what the
// server answered.
func ApplyObject(ctx context.Context, c client.Client, wanted, live *unstructured.Unstructured, options ...client.ApplyOption) (bool, error) {
	if live != nil {
		if HasAll(live, wanted) {
			return false, nil
		}
		wanted.SetUID(live.GetUID())
		options = append(options, client.ForceOwnership)
	}
	if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(wanted), options...); err != nil {
		return false, fmt.Errorf("applying %s: %w", Describe(wanted), err)
	}
	return true, nil
}

// HasAll reports whether a live object has everything that is wanted.
func HasAll(live, wanted *unstructured.Unstructured) bool {
	return matches(wanted.Object, live.Object, "")
}

// sharedLists are lists that several may add elements to; each element has a key. All others belong to one writer whole.
var sharedLists = map[string]bool{
	"ownerReferences": true, "containers": true, "initContainers": true, "volumes": true, "env": true, "ports": true, "volumeMounts": true,
	"volumeDevices": true, "imagePullSecrets": true, "hostAliases": true, "topologySpreadConstraints": true, "resizePolicy": true,
	"schedulingGates": true, "resourceClaims": true,
}

// matches reports whether a live value has all that is wanted. The name is that of the field that holds it.
func matches(wanted, live any, name string) bool {
	switch w := wanted.(type) {
	case nil:
		return true
	case map[string]any:
		l, _ := live.(map[string]any)
		for key, value := range w {
			if !matches(value, l[key], key) {
				return false
			}
		}
		return true
	case []any:
		l, _ := live.([]any)
		if sharedLists[name] {
			for _, value := range w {
				if !anyMatches(value, l) {
					return false
				}
			}
			return true
		}
		if len(w) != len(l) {
			return false
		}
		for i := range w {
			if !matches(w[i], l[i], "") {
				return false
			}
		}
		return true
	}
	return wanted == live
}

func anyMatches(wanted any, live []any) bool {
	for _, l := range live {
		if matches(wanted, l, "") {
			return true
		}
	}
	return false
}
