package scalerspec

import "github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"

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
