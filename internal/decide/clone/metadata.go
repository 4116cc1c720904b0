package clone

import (
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
)

// Marks by which other tools would adopt, prune or rewrite an object that carries them, and marks of ours that mean
// something else on the copy. A name ending in "/" stands for every key with that prefix.
var (
	droppedLabels = []string{
		"app.kubernetes.io/instance",
		"app.kubernetes.io/managed-by",
		"helm.sh/chart",
		"argocd.argoproj.io/",
		"kustomize.toolkit.fluxcd.io/",
		"helm.toolkit.fluxcd.io/",
		"rsg.io/",
	}
	droppedAnnotations = []string{
		"kubectl.kubernetes.io/last-applied-configuration",
		"deployment.kubernetes.io/revision",
		"meta.helm.sh/",
		"helm.sh/",
		"argocd.argoproj.io/",
		"kustomize.toolkit.fluxcd.io/",
		"helm.toolkit.fluxcd.io/",
		"rsg.io/",
		v1alpha1.AnnotationMetricValue,
	}
)

func keptLabels(in map[string]string) map[string]string      { return without(in, droppedLabels) }
func keptAnnotations(in map[string]string) map[string]string { return without(in, droppedAnnotations) }

func without(in map[string]string, dropped []string) map[string]string {
	var out map[string]string
	for key, value := range in {
		if matches(key, dropped) {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[key] = value
	}
	return out
}

func matches(key string, names []string) bool {
	for _, n := range names {
		if key == n || strings.HasSuffix(n, "/") && strings.HasPrefix(key, n) {
			return true
		}
	}
	return false
}

func merged(base, added map[string]string) map[string]string {
	out := make(map[string]string, len(base)+len(added))
	maps.Copy(out, base)
	maps.Copy(out, added)
	return out
}

func addStrings(obj map[string]any, added map[string]string, path ...string) error {
	present, _, err := unstructured.NestedStringMap(obj, path...)
	if err != nil {
		return err
	}
	return unstructured.SetNestedStringMap(obj, merged(present, added), path...)
}
