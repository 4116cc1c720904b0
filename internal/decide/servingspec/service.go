// Package servingspec answers whether an InferenceService or a runtime can be used, as far as their autoscaling and the shape
// of their components go. It finds everything that is wrong at once.
package servingspec

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyspec"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/servingcomponent"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/servingruntime"
)

// longestName leaves room for the longest name of a component in the name of a Service.
const longestName = validation.DNS1035LabelMaxLength - len("-"+servingcomponent.Decoder)

// Service returns everything for which an InferenceService is refused. policies tells whether there are
// AutoscalerPolicies on this cluster.
func Service(service *v1beta1.InferenceService, policies bool) []policyspec.Finding {
	var findings []policyspec.Finding
	add := func(scope, reason, format string, args ...any) {
		findings = append(findings, policyspec.Finding{Scope: scope, Reason: reason, Detail: fmt.Sprintf(format, args...)})
	}
	if len(validation.IsDNS1035Label(service.Name)) > 0 && service.Name != "" || len(service.Name) > longestName {
		add("", "", "metadata.name %q must consist of lower case letters, digits and '-', start with a letter and have at most %d characters", service.Name, longestName)
	}
	components := servingcomponent.Of(service.Spec, nil)
	legacyValues(service.Annotations, "", add)
	for _, c := range components {
		legacyValues(c.Own.Annotations, c.Name, add)
	}
	inline := false
	for _, c := range components {
		findings = append(findings, policyspec.In(c.Name, Block(c.Own.Autoscaler, c.Own.MinReplicas))...)
		inline = inline || c.Own.Autoscaler != nil
	}
	if _, annotated := service.Annotations[v1beta1.AnnotationAutoscalerClass]; annotated && inline {
		add("", v1beta1.ReasonAutoscalerAnnotationConflict, "annotation %s must be removed, since a component has an autoscaler of its own", v1beta1.AnnotationAutoscalerClass)
	}
	for _, c := range components {
		reference(c, policies, add)
	}
	legacyUtilization(service.Annotations, "", add)
	for _, c := range components {
		legacyUtilization(c.Own.Annotations, c.Name, add)
	}
	if service.Spec.Decoder != nil && service.Spec.Engine == nil {
		add("", "", "decoder cannot be specified without engine")
	}
	lean := service.Spec.Model == nil && service.Spec.Runtime == nil
	pairing(servingcomponent.Engine, service.Spec.Engine, lean, add)
	pairing(servingcomponent.Decoder, service.Spec.Decoder, lean, add)
	for _, c := range components {
		bounds(c, service.Annotations, add)
		for _, err := range c.Check() {
			add("", "", "%v", err)
		}
	}
	if p := service.Spec.ScalingPolicy; p != nil && p.Mode != "" && p.Mode != v1beta1.ScalingIndependent {
		add("", v1beta1.ReasonScalingModeNotImplemented, "spec.scalingPolicy.mode %q is reserved; it must be %s or left out", p.Mode, v1beta1.ScalingIndependent)
	}
	return findings
}

type adder func(scope, reason, format string, args ...any)

func legacyValues(annotations map[string]string, scope string, add adder) {
	class, ok := annotations[v1beta1.AnnotationAutoscalerClass]
	if ok && class != LegacyHPA && class != LegacyKEDA && class != LegacyExternal {
		add(scope, "", "[%s] is not a supported autoscaler class type", class)
	}
	if metric, ok := annotations[v1beta1.AnnotationMetrics]; ok && class == LegacyHPA && metric != "cpu" && metric != "memory" {
		add(scope, "", "[%s] is not a supported metric", metric)
	}
}

// Values of annotation ome.io/autoscalerClass.
const (
	// LegacyHPA is class HPA.
	LegacyHPA = "hpa"
	// LegacyKEDA is class KEDA, for which the annotations have no triggers.
	LegacyKEDA = "keda"
	// LegacyExternal is class External.
	LegacyExternal = "external"
)

func legacyUtilization(annotations map[string]string, scope string, add adder) {
	text, ok := annotations[v1beta1.AnnotationTargetUtilization]
	if percent, err := strconv.Atoi(text); ok && (err != nil || percent < 1 || percent > 100) {
		add(scope, "", "the target utilization percentage should be a [1-100] integer")
	}
}

// Block returns everything for which the autoscaler of a component is refused, which may be nil. The minimum is the one that
// stands beside it, nil where there is none.
func Block(a *v1beta1.ComponentAutoscaler, minReplicas *int32) []policyspec.Finding {
	if a == nil {
		return nil
	}
	switch a.Class {
	case v1beta1.ClassHPA:
		return policyspec.HPA(a.HPA, field.NewPath("autoscaler", "hpa"))
	case v1beta1.ClassKEDA:
		findings := policyspec.Keda(a.Keda, field.NewPath("autoscaler", "keda"))
		if k := a.Keda; k != nil && k.IdleReplicaCount != nil && minReplicas != nil && *k.IdleReplicaCount >= *minReplicas {
			findings = append(findings, policyspec.Finding{Reason: v1beta1.ReasonKedaIdleBelowMin,
				Detail: fmt.Sprintf("idleReplicaCount %d must be less than minReplicas %d", *k.IdleReplicaCount, *minReplicas)})
		}
		return findings
	case v1beta1.ClassExternal, v1beta1.ClassNone:
		return nil
	}
	return []policyspec.Finding{{Reason: v1beta1.ReasonAutoscalerClassUnknown, Detail: fmt.Sprintf("class %q must be HPA, KEDA, External or None", a.Class)}}
}

func reference(c servingcomponent.Component, policies bool, add adder) {
	ref := c.Own.AutoscalerPolicyRef
	switch {
	case ref == nil:
	case !policies:
		add("", v1beta1.ReasonAutoscalerPolicyFeatureDisabled,
			"spec.%s.autoscalerPolicyRef references %q but the AutoscalerPolicy feature is not enabled on this cluster; remove the ref or enable the feature", c.Name, ref.Name)
	case ref.Kind != "" && ref.Kind != v1beta1.RefKindAutoscalerPolicy:
		add("", v1beta1.ReasonAutoscalerPolicyRefKindReserved,
			"spec.%s.autoscalerPolicyRef.kind %q is not supported (ClusterAutoscalerPolicy is a reserved shape); use AutoscalerPolicy", c.Name, ref.Kind)
	}
}

func pairing(name string, c *v1beta1.ComponentSpec, lean bool, add adder) {
	if c == nil {
		return
	}
	switch {
	case c.Leader != nil && c.Worker == nil:
		add("", v1beta1.ReasonInvalidLeaderWorkerPairing, "LeaderRequiresWorker: spec.%s.leader must go with spec.%s.worker", name, name)
	case c.Leader == nil && c.Worker != nil:
		add("", v1beta1.ReasonInvalidLeaderWorkerPairing, "WorkerRequiresLeader: spec.%s.worker must go with spec.%s.leader", name, name)
	}
	if c.Worker != nil && c.Worker.Size != nil && *c.Worker.Size <= 0 {
		add("", v1beta1.ReasonInvalidLeaderWorkerPairing, "WorkerSizeMustBePositive: spec.%s.worker.size is %d, which must be 1 or more", name, *c.Worker.Size)
	}
	if lean && c.Leader != nil && c.Worker != nil && !servingruntime.HasImages(c) {
		add("", v1beta1.ReasonMultiPodLeanModelNeedsRunner, "spec.%s has leader and worker, and without a model and a runtime their runners must have images", name)
	}
}

func bounds(c servingcomponent.Component, annotations map[string]string, add adder) {
	least, most := c.Own.MinReplicas, c.Own.MaxReplicas
	if least != nil && *least < 0 {
		add(c.Name, "", "minReplicas must be >= 0")
	}
	if most < 0 {
		add(c.Name, "", "maxReplicas must be >= 1")
	}
	if least != nil && most > 0 && *least > most {
		add(c.Name, "", "minReplicas %d must be <= maxReplicas %d", *least, most)
	}
	if least != nil && *least == 0 && !scalesFromZero(c.Own, annotations) {
		add(c.Name, v1beta1.ReasonInvalidScaleToZero, "minReplicas 0 must go with an autoscaler of the component's own with class KEDA, "+
			"since nothing else scales it up again; an autoscalerPolicyRef or the runtime's autoscaler does not count")
	}
	for _, legacy := range []struct {
		name    string
		present bool
	}{{"scaleTarget", c.Own.ScaleTarget != nil}, {"scaleMetric", c.Own.ScaleMetric != ""}} {
		if legacy.present {
			add("", v1beta1.ReasonLegacyAutoscalerFieldsRejected, "spec.%s.%s must be removed; use spec.%s.autoscaler.hpa.metrics with class HPA instead", c.Name, legacy.name, c.Name)
		}
	}
}

func scalesFromZero(own v1beta1.ComponentExtensionSpec, annotations map[string]string) bool {
	if own.Autoscaler != nil {
		return own.Autoscaler.Class == v1beta1.ClassKEDA
	}
	class, ok := own.Annotations[v1beta1.AnnotationAutoscalerClass]
	if !ok {
		class = annotations[v1beta1.AnnotationAutoscalerClass]
	}
	return class == LegacyKEDA
}
