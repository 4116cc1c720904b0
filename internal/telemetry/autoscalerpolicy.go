package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
)

// AutoscalerPolicy are the metrics of policies and of the services that use them. The zero value is not usable; call
// NewAutoscalerPolicy.
type AutoscalerPolicy struct {
	autoscaler *prometheus.GaugeVec
	holding    *prometheus.GaugeVec
	holds      *prometheus.CounterVec
	writes     *prometheus.CounterVec
}

// NewAutoscalerPolicy registers the metrics of policies and services.
func NewAutoscalerPolicy(reg prometheus.Registerer) (*AutoscalerPolicy, error) {
	m := &AutoscalerPolicy{
		autoscaler: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pdo_inferenceservice_autoscaler_info",
			Help: "1 for each component of an InferenceService that has settings, by the class of its autoscaler and where the settings stand.",
		}, []string{"namespace", "name", "component", "class", "source"}),
		holding: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pdo_inferenceservice_holding",
			Help: "1 for each component of an InferenceService that keeps its last autoscaler, since its policy cannot be used.",
		}, []string{"namespace", "name", "component"}),
		holds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pdo_inferenceservice_holds_total",
			Help: "Times that a component of an InferenceService began to hold, by reason.",
		}, []string{"reason"}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pdo_inferenceservice_writes_total",
			Help: "Writes of objects that are made for InferenceServices, by kind.",
		}, []string{"kind"}),
	}
	for _, c := range []prometheus.Collector{m.autoscaler, m.holding, m.holds, m.writes} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	for _, reason := range []string{v1beta1.ReasonPolicyNotFound, v1beta1.ReasonPolicyInvalid, v1beta1.ReasonClassUnavailable} {
		m.holds.WithLabelValues(reason)
	}
	return m, nil
}

// SetAutoscaler records what a component is scaled by and where that stands; nil where it has no settings.
func (m *AutoscalerPolicy) SetAutoscaler(namespace, name, component string, autoscaler *v1beta1.ComponentAutoscaler, source v1beta1.AutoscalerSource) {
	m.autoscaler.DeletePartialMatch(prometheus.Labels{"namespace": namespace, "name": name, "component": component})
	if autoscaler != nil {
		m.autoscaler.WithLabelValues(namespace, name, component, string(autoscaler.Class), string(source)).Set(1)
	}
}

// HoldBegan counts a component that began to hold.
func (m *AutoscalerPolicy) HoldBegan(reason string) { m.holds.WithLabelValues(reason).Inc() }

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
	of := prometheus.Labels{"namespace": namespace, "name": name}
	m.holding.DeletePartialMatch(of)
	m.autoscaler.DeletePartialMatch(of)
}

// Written counts a write of an object of a kind.
func (m *AutoscalerPolicy) Written(kind string) { m.writes.WithLabelValues(kind).Inc() }
