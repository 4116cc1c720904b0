package clone

import (
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
)

const annotationRevision = v1alpha1.AnnotationRevision

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

// addEnv tells every container of the pod template which group it is in. Variables of these names that the original
// has are replaced: they would name the original's group.
func addEnv(obj map[string]any, owner Owner, id int32, podSpec ...string) error {
	vars := [][2]string{{"RSG_NAME", owner.Name}, {"RSG_GROUP_NAME", owner.GroupName}, {"RSG_GROUP_ID", formatID(id)}}
	for _, list := range []string{"initContainers", "containers"} {
		path := append(append([]string{}, podSpec...), list)
		containers, found, err := unstructured.NestedSlice(obj, path...)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		for _, c := range containers {
			container, ok := c.(map[string]any)
			if !ok {
				continue
			}
			env, _ := container["env"].([]any)
			kept := make([]any, 0, len(env)+len(vars))
			for _, v := range vars {
				kept = append(kept, map[string]any{"name": v[0], "value": v[1]})
			}
			for _, e := range env {
				if entry, ok := e.(map[string]any); ok {
					name, _ := entry["name"].(string)
					if name == vars[0][0] || name == vars[1][0] || name == vars[2][0] {
						continue
					}
				}
				kept = append(kept, e)
			}
			container["env"] = kept
		}
		if err := unstructured.SetNestedSlice(obj, containers, path...); err != nil {
			return err
		}
	}
	return nil
}
