package desired

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyrender"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyresolve"
)

// annotationHPAOwnership tells KEDA's admission to let a ScaledObject in beside this HorizontalPodAutoscaler, so that the one
// can be tried before the other goes.
const annotationHPAOwnership = "validations.keda.sh/hpa-ownership"

// ScaledObjectName is the name of the component's ScaledObject: KEDA makes a label of it, so that it has room for the end of
// a longer name only.
func (c ServingComponent) ScaledObjectName() string { return "scaledobject-" + tail(c.Name(), 50) }

// Autoscaler is the HorizontalPodAutoscaler or ScaledObject that settings ask for, nil where they ask for none. The error
// says why there cannot be one.
func (c ServingComponent) Autoscaler(r policyresolve.Resolution) (*unstructured.Unstructured, error) {
	a := *r.Autoscaler
	scalesFromZero := a.Class == v1beta1.ClassKEDA && a.Keda != nil && len(a.Keda.Triggers) > 0
	switch {
	case a.Class == v1beta1.ClassExternal || a.Class == v1beta1.ClassNone:
		return nil, nil
	case a.Class == v1beta1.ClassKEDA && !scalesFromZero:
		return nil, errors.New("KEDA autoscaler requires at least one trigger")
	case r.MinReplicas == 0 && !scalesFromZero:
		return nil, errors.New("minReplicas=0 requires typed KEDA with at least one trigger")
	case a.Class == v1beta1.ClassHPA:
		return c.hpa(a, r)
	case a.Class == v1beta1.ClassKEDA:
		return c.scaledObject(a, r)
	}
	return nil, fmt.Errorf("class %q must be HPA, KEDA, External or None", a.Class)
}

// scalerAnnotations are those of the component, so that KEDA's reach the ScaledObject.
func (c ServingComponent) scalerAnnotations(class v1beta1.AutoscalerClass) map[string]any {
	annotations := map[string]any{}
	for key, value := range c.Component.Annotations() {
		annotations[key] = value
	}
	if _, ok := annotations[v1beta1.AnnotationAutoscalerClass]; ok {
		annotations[v1beta1.AnnotationAutoscalerClass] = strings.ToLower(string(class))
	}
	return annotations
}

func (c ServingComponent) targetRef() map[string]any {
	t := c.Target()
	return map[string]any{"apiVersion": t.APIVersion, "kind": t.Kind, "name": t.Name}
}

func (c ServingComponent) hpa(a v1beta1.ComponentAutoscaler, r policyresolve.Resolution) (*unstructured.Unstructured, error) {
	settings := v1beta1.HPAAutoscaler{}
	if a.HPA != nil {
		settings = *a.HPA
	}
	if len(settings.Metrics) == 0 {
		settings.Metrics = policyresolve.CPU(policyresolve.DefaultUtilization)
	}
	spec, err := fieldsOf(&settings)
	if err != nil {
		return nil, fmt.Errorf("encoding the metrics of component %s: %w", c.Component.Name, err)
	}
	spec["scaleTargetRef"] = c.targetRef()
	spec["minReplicas"], spec["maxReplicas"] = int64(r.MinReplicas), int64(r.MaxReplicas)
	annotations := c.scalerAnnotations(a.Class)
	annotations[annotationHPAOwnership] = "false"
	u := c.object(HPAKind, c.Name(), annotations)
	u.Object["spec"] = spec
	return applied(u)
}

// longestHPAName is the longest name of a HorizontalPodAutoscaler that KEDA makes, since it goes into a label too.
const longestHPAName = 63

func (c ServingComponent) scaledObject(a v1beta1.ComponentAutoscaler, r policyresolve.Resolution) (*unstructured.Unstructured, error) {
	settings := *a.Keda.DeepCopy()
	const prefix = "keda-hpa-"
	if len(prefix+c.ScaledObjectName()) > longestHPAName {
		if settings.Advanced == nil {
			settings.Advanced = &v1beta1.KedaAdvancedConfig{}
		}
		if settings.Advanced.HorizontalPodAutoscalerConfig == nil {
			settings.Advanced.HorizontalPodAutoscalerConfig = &v1beta1.KedaHorizontalPodAutoscalerConfig{}
		}
		if config := settings.Advanced.HorizontalPodAutoscalerConfig; config.Name == "" {
			config.Name = prefix + tail(c.Name(), longestHPAName-len(prefix))
		}
	}
	spec, err := fieldsOf(&settings)
	if err != nil {
		return nil, fmt.Errorf("encoding the triggers of component %s: %w", c.Component.Name, err)
	}
	if settings.Advanced != nil && settings.Advanced.ScalingModifiers == (v1beta1.KedaScalingModifiers{}) {
		// The type writes them although there are none.
		unstructured.RemoveNestedField(spec, "advanced", "scalingModifiers")
	}
	spec["scaleTargetRef"] = c.targetRef()
	spec["minReplicaCount"], spec["maxReplicaCount"] = int64(r.MinReplicas), int64(r.MaxReplicas)
	u := c.object(ScaledObjectKind, c.ScaledObjectName(), c.scalerAnnotations(a.Class))
	u.Object["spec"] = spec
	return applied(u)
}

// TriggerAuthentication points KEDA at the Secret of a metric provider in a namespace. All components there that use the
// provider share it, so that none owns it.
func TriggerAuthentication(namespace string, a policyrender.Authentication) (*unstructured.Unstructured, error) {
	return applied(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": TriggerAuthenticationKind.GroupVersion().String(),
		"kind":       TriggerAuthenticationKind.Kind,
		"metadata": map[string]any{
			"name": a.Name, "namespace": namespace,
			"labels": map[string]any{labelManagedBy: managedBy},
		},
		"spec": map[string]any{"secretTargetRef": []any{
			map[string]any{"parameter": "bearerToken", "name": a.Secret.Name, "key": a.Secret.Key},
		}},
	}})
}

// IsOwnTriggerAuthentication reports whether a TriggerAuthentication was made here.
func IsOwnTriggerAuthentication(u *unstructured.Unstructured) bool {
	return u.GetLabels()[labelManagedBy] == managedBy && u.GetAnnotations()[AnnotationApplied] != ""
}

// LastGood reads what a policy last rendered to off a workload, nil where there is no record or it cannot be read.
func LastGood(workload *unstructured.Unstructured) *v1beta1.ComponentAutoscaler {
	if workload == nil {
		return nil
	}
	text := workload.GetAnnotations()[v1beta1.AnnotationLastRenderedAutoscaler]
	a := &v1beta1.ComponentAutoscaler{}
	if text == "" || json.Unmarshal([]byte(text), a) != nil || a.Class == "" {
		return nil
	}
	return a
}
