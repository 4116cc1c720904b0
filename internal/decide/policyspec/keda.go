package policyspec

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyrender"
)

// Keda returns everything for which the block for KEDA of a component's own autoscaler is refused.
func Keda(k *v1beta1.KedaAutoscaler, path *field.Path) []Finding {
	if k == nil || len(k.Triggers) == 0 {
		return []Finding{{Reason: v1beta1.ReasonKedaTriggersRequired, Detail: "class=keda requires at least 1 trigger"}}
	}
	var findings []Finding
	names := map[string]bool{}
	var types []string
	for i, t := range k.Triggers {
		at := path.Child("triggers").Index(i)
		types = append(types, t.Type)
		if reason, detail := metricType(t.Type, string(t.MetricType)); reason != "" {
			findings = append(findings, Finding{Reason: reason, Detail: at.String() + ": " + detail})
		}
		if t.Name != "" && names[t.Name] {
			findings = append(findings, of(v1beta1.ReasonKedaTriggerInvalid, field.ErrorList{field.Duplicate(at.Child("name"), t.Name)})...)
		}
		names[t.Name] = true
		if t.UseCachedMetrics && (ofResource(t.Type) || t.Type == "cron") {
			findings = append(findings, Finding{Reason: v1beta1.ReasonKedaTriggerInvalid, Detail: fmt.Sprintf("%s.useCachedMetrics: must be left out for type %s, which KEDA does not cache", at, t.Type)})
		}
		if policyrender.AsksEndpoint(t.Type) {
			metadata := map[string]string{}
			for key, value := range t.Metadata {
				metadata[key] = string(value)
			}
			for _, f := range prometheusMetadata(metadata) {
				findings = append(findings, Finding{Reason: f.Reason, Detail: at.String() + ": " + f.Detail})
			}
		}
	}
	if f := k.Fallback; f != nil {
		findings = append(findings, fallback(path, types, k.Advanced)...)
		if f.Behavior == "scalingModifiers" && !formula(k.Advanced) {
			findings = append(findings, Finding{Reason: v1beta1.ReasonKedaFallbackIgnored, Detail: path.Child("fallback", "behavior").String() + ": scalingModifiers must have a formula in advanced.scalingModifiers that decides"})
		}
	}
	if a := k.Advanced; a != nil && a.HorizontalPodAutoscalerConfig != nil {
		findings = append(findings, of(v1beta1.ReasonHPABehaviorMalformed,
			behavior(a.HorizontalPodAutoscalerConfig.Behavior, path.Child("advanced", "horizontalPodAutoscalerConfig", "behavior")))...)
	}
	return findings
}

// KedaWarnings returns what the block may be surprised by, although KEDA takes it.
func KedaWarnings(k *v1beta1.KedaAutoscaler, path *field.Path, minReplicas int32) []string {
	if k == nil || k.Fallback == nil {
		return nil
	}
	var warnings []string
	if k.Fallback.Replicas > 0 && (minReplicas == 0 || k.IdleReplicaCount != nil && *k.IdleReplicaCount == 0) {
		warnings = append(warnings, path.Child("fallback").String()+": KEDA does not start a component from 0 replicas while its triggers cannot be read; the fallback acts on one that runs")
	}
	for i, t := range k.Triggers {
		if t.MetricType == autoscalingv2.ValueMetricType {
			warnings = append(warnings, fmt.Sprintf("%s: with metricType Value KEDA computes the fallback from the ready pods, and has none while no pod is ready", path.Child("triggers").Index(i)))
		}
	}
	return warnings
}

// ofResource reports whether KEDA leaves triggers of a type to the HorizontalPodAutoscaler's own metrics.
func ofResource(triggerType string) bool { return triggerType == "cpu" || triggerType == "memory" }

// metricType returns the reason and the detail for which KEDA would refuse the metric type of a trigger, "" for none.
func metricType(triggerType, metricType string) (reason, detail string) {
	switch {
	case metricType == string(autoscalingv2.UtilizationMetricType) && !ofResource(triggerType):
		return v1beta1.ReasonKedaTriggerInvalid, fmt.Sprintf("metricType Utilization must be AverageValue or Value for type %s; only cpu and memory have a utilization", triggerType)
	case metricType == string(autoscalingv2.ValueMetricType) && ofResource(triggerType):
		return v1beta1.ReasonKedaTriggerInvalid, fmt.Sprintf("metricType Value must be Utilization or AverageValue for type %s", triggerType)
	}
	return "", ""
}

// prometheusMetadata checks what KEDA needs of a prometheus trigger.
func prometheusMetadata(metadata map[string]string) []Finding {
	var findings []Finding
	if strings.TrimSpace(metadata["query"]) == "" {
		findings = append(findings, Finding{Reason: v1beta1.ReasonQueryRequired, Detail: "metadata must have the key query with a PromQL expression"})
	}
	text := metadata["threshold"]
	if value, err := strconv.ParseFloat(text, 64); err != nil || !(value > 0) || math.IsInf(value, 0) {
		findings = append(findings, Finding{Reason: v1beta1.ReasonThresholdInvalid, Detail: fmt.Sprintf("metadata key threshold is %q, which must be a number greater than 0, such as \"5\"", text)})
	}
	return findings
}

func formula(a *v1beta1.KedaAdvancedConfig) bool { return a != nil && a.ScalingModifiers.Formula != "" }

// fallback says why KEDA would ignore a fallback: where the triggers form one metric it goes by that metric's target, which
// must then be a whole number, and otherwise it needs a trigger that KEDA itself reads.
func fallback(path *field.Path, types []string, a *v1beta1.KedaAdvancedConfig) []Finding {
	if a != nil && a.ScalingModifiers != (v1beta1.KedaScalingModifiers{}) {
		target := a.ScalingModifiers.Target
		if value, err := strconv.ParseInt(target, 10, 64); err != nil || value <= 0 {
			return []Finding{{Reason: v1beta1.ReasonKedaFallbackIgnored, Detail: fmt.Sprintf(
				"%s is %q, which must be a whole number greater than 0, or else KEDA ignores the fallback", path.Child("advanced", "scalingModifiers", "target"), target)}}
		}
		return nil
	}
	for _, t := range types {
		if !ofResource(t) {
			return nil
		}
	}
	return []Finding{{Reason: v1beta1.ReasonKedaFallbackIgnored, Detail: path.Child("fallback").String() + " must go with at least one trigger that is not cpu or memory, or else KEDA ignores it"}}
}
