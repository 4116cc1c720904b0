package servingspec

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyspec"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/servingcomponent"
)

// Warnings returns what a service may be surprised by, although it can be used.
func Warnings(service *v1beta1.InferenceService) []string {
	var warnings []string
	if idle := idleFields(service.Spec); len(idle) > 0 {
		warnings = append(warnings, strings.Join(idle, ", ")+": accepted, and without effect here")
	}
	for _, c := range servingcomponent.Of(service.Spec, nil) {
		if a := c.Own.Autoscaler; a != nil && a.Class == v1beta1.ClassKEDA {
			least, _ := c.Bounds()
			warnings = append(warnings, policyspec.KedaWarnings(a.Keda, field.NewPath("spec", c.Name, "autoscaler", "keda"), least)...)
		}
	}
	return warnings
}

// idleFields are the fields that the originals act on and that have no effect here.
func idleFields(spec v1beta1.InferenceServiceSpec) []string {
	var fields []string
	add := func(present bool, name string) {
		if present {
			fields = append(fields, name)
		}
	}
	add(spec.AcceleratorSelector != nil, "spec.acceleratorSelector")
	add(spec.KedaConfig != nil, "spec.kedaConfig")
	add(spec.Predictor != nil, "spec.predictor")
	for _, c := range servingcomponent.Of(spec, nil) {
		path := "spec." + c.Name
		add(c.Own.MinAvailable != nil, path+".minAvailable")
		add(c.Own.MaxUnavailable != nil, path+".maxUnavailable")
		add(c.Own.TimeoutSeconds != nil, path+".timeoutSeconds")
		add(c.Own.ContainerConcurrency != nil, path+".containerConcurrency")
		add(c.Own.CanaryTrafficPercent != nil, path+".canaryTrafficPercent")
		add(c.Own.KedaConfig != nil, path+".kedaConfig")
	}
	add(spec.Engine != nil && spec.Engine.AcceleratorOverride != nil, "spec.engine.acceleratorOverride")
	add(spec.Decoder != nil && spec.Decoder.AcceleratorOverride != nil, "spec.decoder.acceleratorOverride")
	return fields
}
