package scalerspec

import (
	"strings"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
)

// NamesTidal tells whether the target of a scaler with a StateTrigger is the Tidal that drives it. The Tidal's own target is
// then scaled.
func NamesTidal(spec v1alpha1.ElasticScalerSpec) bool {
	ref := spec.TargetRef
	return spec.Trigger.Type == v1alpha1.StateTriggerType && strings.EqualFold(ref.Kind, "Tidal") &&
		(ref.APIVersion == "" || strings.HasPrefix(ref.APIVersion, "tidal.io/"))
}

// LacksActivation tells whether nothing would start the target again once it is at 0: the lower bound allows that, and every
// metric is one of the target's own pods.
func LacksActivation(spec v1alpha1.ElasticScalerSpec) bool {
	t := spec.Trigger.MetricsTrigger
	if t == nil || spec.MinReplicas == nil || *spec.MinReplicas > 0 {
		return false
	}
	for _, m := range t.Metrics {
		if m.Type == v1alpha1.ExternalMetricType || m.Type == v1alpha1.ExternalServerMetricType {
			return false
		}
	}
	return true
}
