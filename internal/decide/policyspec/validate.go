package policyspec

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyrender"
)

// sample is the component that a policy is tried for: the real ones are not known when it is written.
var sample = policyrender.Variables{
	Namespace: "sample-namespace", ISVCName: "sample-isvc", Component: "engine",
	MinReplicas: 1, MaxReplicas: 4, TargetName: "sample-isvc-engine",
}

// Validate returns everything for which a policy is refused, the class first, then the triggers in their order, then the
// fallback. Each query is parsed as Prometheus itself does, with sample values in place of the variables.
func Validate(spec v1beta1.AutoscalerPolicySpec) []Finding {
	findings := class(spec)
	if k := spec.Keda; k != nil {
		for i, t := range k.Triggers {
			findings = append(findings, trigger(i, t)...)
		}
		if f := k.Fallback; f != nil && (f.Replicas.Value == nil) == (f.Replicas.FromComponent == "") {
			findings = append(findings, Finding{Reason: v1beta1.ReasonValueSourceInvalid, Detail: "keda.fallback.replicas: exactly one of value or fromComponent must be set"})
		}
		if k.Fallback != nil {
			types := make([]string, len(k.Triggers))
			for i, t := range k.Triggers {
				types[i] = t.Type
			}
			findings = append(findings, fallback(field.NewPath("keda"), types, k.Advanced)...)
		}
		if k.Advanced != nil && k.Advanced.HorizontalPodAutoscalerConfig != nil {
			findings = append(findings, of(v1beta1.ReasonHPABehaviorMalformed,
				behavior(k.Advanced.HorizontalPodAutoscalerConfig.Behavior, field.NewPath("keda", "advanced", "horizontalPodAutoscalerConfig", "behavior")))...)
		}
	}
	return append(findings, HPA(spec.HPA, field.NewPath("hpa"))...)
}

func class(spec v1beta1.AutoscalerPolicySpec) []Finding {
	var findings []Finding
	if spec.Enforcement == v1beta1.EnforcementRequired {
		findings = append(findings, Finding{Reason: v1beta1.ReasonEnforcementRequiredReserved, Detail: "enforcement Required is reserved; it must be Default or left out"})
	}
	mismatch := func(format string, args ...any) {
		findings = append(findings, Finding{Reason: v1beta1.ReasonClassTemplateMismatch, Detail: fmt.Sprintf(format, args...)})
	}
	switch spec.Class {
	case v1beta1.PolicyClassKEDA:
		if spec.Keda == nil {
			mismatch("class KEDA requires a keda template")
		} else if len(spec.Keda.Triggers) == 0 {
			findings = append(findings, Finding{Reason: v1beta1.ReasonKedaTriggersRequired, Detail: "class=keda requires at least 1 trigger"})
		}
		if spec.HPA != nil {
			mismatch("class KEDA forbids an hpa template")
		}
	case v1beta1.PolicyClassHPA:
		if spec.Keda != nil {
			mismatch("class HPA forbids a keda template")
		}
	default:
		mismatch("class %q is not allowed in policies (External and None are inline-only)", spec.Class)
	}
	return findings
}

func trigger(i int, t v1beta1.KedaPolicyTrigger) []Finding {
	var findings []Finding
	add := func(reason, format string, args ...any) {
		findings = append(findings, Finding{Reason: reason, Detail: fmt.Sprintf("trigger %d", i) + fmt.Sprintf(format, args...)})
	}
	for _, key := range slices.Sorted(maps.Keys(t.Metadata)) {
		if policyrender.OwnedByProvider(key) {
			add(v1beta1.ReasonForbiddenMetadataKey, ": metadata key %q is provider-owned; bind endpoints via providerRef", key)
		}
	}
	if reason, detail := metricType(t.Type, string(t.MetricType)); reason != "" {
		add(reason, ": %s", detail)
	}
	if t.QueryReturnsDesiredReplicas && t.MetricType != v1beta1.TriggerAverageValue {
		add(v1beta1.ReasonDesiredCountRequiresAverageValue, ": metricType must be AverageValue with queryReturnsDesiredReplicas; with Value the HorizontalPodAutoscaler "+
			"computes ceil((metric/threshold) x readyPods), which turns a count of N into N times the pods")
	}
	endpoint := policyrender.AsksEndpoint(t.Type)
	if _, ok := t.Metadata["ignoreNullValues"]; endpoint && !ok {
		add(v1beta1.ReasonIgnoreNullValuesMustBeExplicit, ` (%s): metadata must have the key ignoreNullValues, since KEDA's default of true turns "no series" into a healthy zero; `+
			`set it to "false", or to "true" if that is meant`, t.Type)
	}
	if endpoint && t.ProviderRef == nil {
		add(v1beta1.ReasonProviderRefRequired, " (%s): providerRef is required for endpoint trigger types", t.Type)
	}
	rendered := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(t.Metadata)) {
		template, err := policyrender.Parse(string(t.Metadata[key]))
		switch {
		case errors.Is(err, policyrender.ErrForbidden):
			add(v1beta1.ReasonForbiddenTemplateNode, ": metadata key %q: %v", key, err)
		case err != nil:
			add(v1beta1.ReasonParseError, ": metadata key %q: %v", key, err)
		}
		// A value that is no template is there all the same.
		rendered[key] = string(t.Metadata[key])
		if err == nil {
			rendered[key] = template.Render(sample)
		}
	}
	if !endpoint {
		return findings
	}
	for _, f := range prometheusMetadata(rendered) {
		add(f.Reason, " (%s): %s", t.Type, f.Detail)
	}
	if _, err := policyrender.Parse(string(t.Metadata["query"])); err == nil && strings.TrimSpace(rendered["query"]) != "" {
		if problem := query(rendered["query"]); problem != "" {
			add(v1beta1.ReasonPromQLInvalid, ": %s", problem)
		}
	}
	return findings
}

// Warnings returns what a policy may be surprised by, although it can be used.
func Warnings(spec v1beta1.AutoscalerPolicySpec) []string {
	k := spec.Keda
	if k == nil {
		return nil
	}
	var warnings []string
	for i, t := range k.Triggers {
		endpoint := policyrender.AsksEndpoint(t.Type)
		if t.ProviderRef != nil && !endpoint {
			warnings = append(warnings, fmt.Sprintf("trigger %d (%s): providerRef has no effect, since only prometheus triggers ask a metric provider", i, t.Type))
		}
		if k.Fallback != nil && t.MetricType == v1beta1.TriggerValue {
			warnings = append(warnings, fmt.Sprintf("trigger %d (%s): with metricType Value KEDA computes the fallback from the ready pods, and has none while no pod is ready", i, t.Type))
		}
		if endpoint && t.QueryReturnsDesiredReplicas {
			if template, err := policyrender.Parse(string(t.Metadata["query"])); err == nil {
				for _, comparison := range foldedSeries(template.Render(sample)) {
					warnings = append(warnings, fmt.Sprintf("trigger %d: comparison %q takes the arithmetic on its right side as its threshold; parenthesize the comparison if its result was to be multiplied", i, comparison))
				}
			}
		}
	}
	if a := k.Advanced; a != nil && a.HorizontalPodAutoscalerConfig != nil && a.HorizontalPodAutoscalerConfig.Name != "" {
		warnings = append(warnings, fmt.Sprintf("advanced.horizontalPodAutoscalerConfig.name %q is one name, so that only one component in the namespace can use the policy", a.HorizontalPodAutoscalerConfig.Name))
	}
	return warnings
}
