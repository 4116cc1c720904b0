package telemetry

import "github.com/prometheus/client_golang/prometheus"

// AutoscalerPolicy are the metrics of policies and of the services that use them. The zero value is not usable; call
// NewAutoscalerPolicy.
type AutoscalerPolicy struct {
	holding *prometheus.GaugeVec
	writes  *prometheus.CounterVec
}

// NewAutoscalerPolicy registers the metrics of policies and services.
func NewAutoscalerPolicy(reg prometheus.Registerer) (*AutoscalerPolicy, error) {
	m := &AutoscalerPolicy{
		holding: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pdo_inferenceservice_holding",
			Help: "1 for each component of an InferenceService that keeps its last autoscaler, since its policy cannot be used.",
		}, []string{"namespace", "name", "component"}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pdo_inferenceservice_writes_total",
			Help: "Writes of objects that are made for InferenceServices, by kind.",
		}, []string{"kind"}),
	}
	for _, c := range []prometheus.Collector{m.holding, m.writes} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// SetHolding records whether a component holds.
func (m *AutoscalerPolicy) SetHolding(namespace, name, component string, holds bool) {
	if holds {
		m.holding.WithLabelValues(namespace, name, component).Set(1)
	} else {
		m.holding.DeleteLabelValues(namespace, name, component)
	}
}

// Forget drops the series of a service that is gone.
func (m *AutoscalerPolicy) Forget(namespace, name string) {
	m.holding.DeletePartialMatch(prometheus.Labels{"namespace": namespace, "name": name})
}

// Written counts a write of an object of a kind.
func (m *AutoscalerPolicy) Written(kind string) { m.writes.WithLabelValues(kind).Inc() }
