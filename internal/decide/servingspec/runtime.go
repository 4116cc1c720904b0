package servingspec

import (
	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyspec"
)

// Runtime returns everything for which a runtime is refused.
func Runtime(spec v1beta1.ServingRuntimeSpec) []policyspec.Finding {
	var findings []policyspec.Finding
	for _, c := range []struct {
		name      string
		extension *v1beta1.ComponentExtensionSpec
	}{
		{"engineConfig", extension(spec.EngineConfig)},
		{"decoderConfig", extension(spec.DecoderConfig)},
		{"routerConfig", routerExtension(spec.RouterConfig)},
	} {
		if c.extension == nil {
			continue
		}
		if c.extension.AutoscalerPolicyRef != nil {
			findings = append(findings, policyspec.Finding{Scope: c.name,
				Detail: "autoscalerPolicyRef is not supported on serving runtimes; policy refs attach on the InferenceService only"})
		}
		findings = append(findings, policyspec.In(c.name, Block(c.extension.Autoscaler, c.extension.MinReplicas))...)
	}
	return findings
}

func extension(c *v1beta1.ComponentSpec) *v1beta1.ComponentExtensionSpec {
	if c == nil {
		return nil
	}
	return &c.ComponentExtensionSpec
}

func routerExtension(r *v1beta1.RouterSpec) *v1beta1.ComponentExtensionSpec {
	if r == nil {
		return nil
	}
	return &r.ComponentExtensionSpec
}
