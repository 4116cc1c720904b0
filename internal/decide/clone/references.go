package clone

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Reference is an object of the pod's own namespace that a pod template names.
type Reference struct {
	// Kind is ConfigMap, Secret, ServiceAccount or PersistentVolumeClaim.
	Kind string
	// Name of the object.
	Name string
}

// References lists what the pod templates of the snapshot need beside them, sorted, without what they mark as optional.
func (s Snapshot) References(kinds []Kind) []Reference {
	var all []Reference
	for i, t := range s.Targets {
		for _, path := range kinds[i].templates {
			spec, found, err := unstructured.NestedMap(t.Workload.Object, append(slices.Clone(path), "spec")...)
			if err != nil || !found {
				continue
			}
			var pod corev1.PodSpec
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &pod); err == nil {
				all = append(all, podReferences(&pod)...)
			}
		}
	}
	slices.SortFunc(all, func(a, b Reference) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	return slices.Compact(all)
}

// ClaimTemplates lists the names of the volume claim templates of the workload.
func (k Kind) ClaimTemplates(workload *unstructured.Unstructured) []string {
	if k.claims == nil {
		return nil
	}
	list, _, _ := unstructured.NestedSlice(workload.Object, k.claims...)
	var names []string
	for _, c := range list {
		if claim, ok := c.(map[string]any); ok {
			if name, _, _ := unstructured.NestedString(claim, "metadata", "name"); name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}

func podReferences(pod *corev1.PodSpec) []Reference {
	var all []Reference
	add := func(kind, name string, optional *bool) {
		if name != "" && (optional == nil || !*optional) {
			all = append(all, Reference{Kind: kind, Name: name})
		}
	}
	// The API server makes the ServiceAccount "default" in every namespace.
	if pod.ServiceAccountName != "default" {
		add("ServiceAccount", pod.ServiceAccountName, nil)
	}
	for _, s := range pod.ImagePullSecrets {
		add("Secret", s.Name, nil)
	}
	for _, v := range pod.Volumes {
		if v.ConfigMap != nil {
			add("ConfigMap", v.ConfigMap.Name, v.ConfigMap.Optional)
		}
		if v.Secret != nil {
			add("Secret", v.Secret.SecretName, v.Secret.Optional)
		}
		if v.PersistentVolumeClaim != nil {
			add("PersistentVolumeClaim", v.PersistentVolumeClaim.ClaimName, nil)
		}
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.ConfigMap != nil {
				add("ConfigMap", s.ConfigMap.Name, s.ConfigMap.Optional)
			}
			if s.Secret != nil {
				add("Secret", s.Secret.Name, s.Secret.Optional)
			}
		}
	}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		for _, e := range c.EnvFrom {
			if e.ConfigMapRef != nil {
				add("ConfigMap", e.ConfigMapRef.Name, e.ConfigMapRef.Optional)
			}
			if e.SecretRef != nil {
				add("Secret", e.SecretRef.Name, e.SecretRef.Optional)
			}
		}
		for _, e := range c.Env {
			if e.ValueFrom == nil {
				continue
			}
			if r := e.ValueFrom.ConfigMapKeyRef; r != nil {
				add("ConfigMap", r.Name, r.Optional)
			}
			if r := e.ValueFrom.SecretKeyRef; r != nil {
				add("Secret", r.Name, r.Optional)
			}
		}
	}
	return all
}
