package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/pipeline"
)

// ElasticScaler are the metrics of ElasticScalers. The zero value is not usable; call NewElasticScaler.
type ElasticScaler struct {
	desired, current *prometheus.GaugeVec
	least, most      *prometheus.GaugeVec
	value, target    *prometheus.GaugeVec
	proposed         *prometheus.GaugeVec
	decisions        *prometheus.CounterVec
	limits           *prometheus.CounterVec
	missing          *prometheus.CounterVec
	writes           *prometheus.CounterVec
	lateness         prometheus.Histogram
	reads            *prometheus.HistogramVec
	readErrors       *prometheus.CounterVec
	signals          *prometheus.CounterVec
	asked            prometheus.Histogram
	askErrors        prometheus.Counter
}

// NewElasticScaler registers the metrics of ElasticScalers.
func NewElasticScaler(reg prometheus.Registerer) (*ElasticScaler, error) {
	object := []string{"namespace", "name"}
	metric := []string{"namespace", "name", "type", "metric"}
	gauge := func(name, help string, labels []string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	e := &ElasticScaler{
		desired:  gauge("pdo_elasticscaler_desired_replicas", "Replicas that the last decision of an ElasticScaler asked for.", object),
		current:  gauge("pdo_elasticscaler_current_replicas", "Replicas that the target of an ElasticScaler was asked to have at the last decision.", object),
		least:    gauge("pdo_elasticscaler_min_replicas", "Lower bound in force of an ElasticScaler. Absent where there is none.", object),
		most:     gauge("pdo_elasticscaler_max_replicas", "Upper bound in force of an ElasticScaler. Absent where there is none.", object),
		value:    gauge("pdo_elasticscaler_metric_value", "Last value of a metric of an ElasticScaler, in the unit of its target. Absent while there is none.", metric),
		target:   gauge("pdo_elasticscaler_metric_target", "Value that a metric of an ElasticScaler is to hold.", metric),
		proposed: gauge("pdo_elasticscaler_proposed_replicas", "Replicas that a metric of an ElasticScaler proposes. Absent while it proposes none.", metric),
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pdo_elasticscaler_decisions_total",
			Help: "Decisions on metrics, by the reason of their outcome.",
		}, []string{"reason"}),
		limits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pdo_elasticscaler_limits_total",
			Help: "Steps of decisions that changed the count which the metrics asked for, by step.",
		}, []string{"step"}),
		missing: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pdo_elasticscaler_missing_metrics_total",
			Help: "Metrics that had no usable value when a decision was made, by reason.",
		}, []string{"reason"}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pdo_elasticscaler_scale_writes_total",
			Help: "Counts written to targets, by direction: up or down.",
		}, []string{"direction"}),
		lateness: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:                        "pdo_elasticscaler_decision_lateness_seconds",
			Help:                        "Time from the moment that an evaluation was due until it was decided.",
			Buckets:                     []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
			NativeHistogramBucketFactor: 1.1,
		}),
		reads: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:                        "pdo_elasticscaler_metric_read_seconds",
			Help:                        "Time that it took to read a metric, by the type of its source.",
			Buckets:                     []float64{.005, .01, .05, .1, .25, .5, 1, 2.5, 5, 10},
			NativeHistogramBucketFactor: 1.1,
		}, []string{"type"}),
		readErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pdo_elasticscaler_metric_read_errors_total",
			Help: "Metrics that could not be read, by the type of their source.",
		}, []string{"type"}),
		signals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pdo_elasticscaler_signals_total",
			Help: "Signals by what became of them and the way that they came.",
		}, []string{"result", "transport"}),
		asked: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:                        "pdo_elasticscaler_signal_request_seconds",
			Help:                        "Time from a request to a signal endpoint until its answer began.",
			Buckets:                     []float64{.005, .01, .05, .1, .25, .5, 1, 2.5, 5, 10},
			NativeHistogramBucketFactor: 1.1,
		}),
		askErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pdo_elasticscaler_signal_request_errors_total",
			Help: "Requests to signal endpoints that had no answer, or one that says no.",
		}),
	}
	for _, c := range []prometheus.Collector{
		e.desired, e.current, e.least, e.most, e.value, e.target, e.proposed, e.decisions, e.limits, e.missing, e.writes, e.lateness,
		e.reads, e.readErrors, e.signals, e.asked, e.askErrors,
	} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	for _, direction := range []string{up, down} {
		e.writes.WithLabelValues(direction)
	}
	return e, nil
}

// Directions of a change.
const up, down = "up", "down"

// SetReplicas records what a status says of counts.
func (e *ElasticScaler) SetReplicas(namespace, name string, s v1alpha1.ElasticScalerStatus) {
	set := func(g *prometheus.GaugeVec, v *int32) {
		if v == nil {
			g.DeleteLabelValues(namespace, name)
			return
		}
		g.WithLabelValues(namespace, name).Set(float64(*v))
	}
	set(e.desired, s.DesiredReplicas)
	set(e.current, s.CurrentReplicas)
	set(e.least, s.MinReplicas)
	set(e.most, s.MaxReplicas)
}

// Decided records a decision on metrics and how late it came. The inputs of the decision before it, if any, tell which
// series have had their day.
func (e *ElasticScaler) Decided(namespace, name string, p pipeline.Plan, before []pipeline.Input, late time.Duration) {
	e.decisions.WithLabelValues(p.Reason).Inc()
	for _, step := range p.Steps {
		e.limits.WithLabelValues(stepLabel(step.Name)).Inc()
	}
	e.lateness.Observe(max(late, 0).Seconds())
	gone := map[pipelineMetric]bool{}
	for _, in := range before {
		gone[pipelineMetric{in.Type, in.Name}] = true
	}
	for _, in := range p.Inputs {
		delete(gone, pipelineMetric{in.Type, in.Name})
		labels := []string{namespace, name, in.Type, in.Name}
		e.target.WithLabelValues(labels...).Set(in.Target)
		if in.Value != nil {
			e.value.WithLabelValues(labels...).Set(*in.Value)
		} else {
			e.value.DeleteLabelValues(labels...)
		}
		if in.Reason != "" {
			e.missing.WithLabelValues(in.Reason).Inc()
		}
		if in.Proposed != nil {
			e.proposed.WithLabelValues(labels...).Set(float64(*in.Proposed))
		} else {
			e.proposed.DeleteLabelValues(labels...)
		}
	}
	for m := range gone {
		for _, g := range []*prometheus.GaugeVec{e.value, e.target, e.proposed} {
			g.DeleteLabelValues(namespace, name, m.kind, m.name)
		}
	}
}

// stepLabel keeps the steps of the product, and takes those that algorithms name for one.
func stepLabel(name string) string {
	switch name {
	case pipeline.StepNoData, pipeline.StepStabilization, pipeline.StepSize, pipeline.StepRateLimit, pipeline.StepBounds:
		return name
	}
	return "Algorithm"
}

// pipelineMetric is what tells the metrics of one scaler apart. Those of one type and name share their series.
type pipelineMetric struct{ kind, name string }

// Scaled counts a count that was written to a target.
func (e *ElasticScaler) Scaled(from, to int32) {
	direction := up
	if to < from {
		direction = down
	}
	e.writes.WithLabelValues(direction).Inc()
}

// Read records how long it took to read a metric, and whether it failed.
func (e *ElasticScaler) Read(kind string, took time.Duration, err error) {
	e.reads.WithLabelValues(kind).Observe(took.Seconds())
	if err != nil {
		e.readErrors.WithLabelValues(kind).Inc()
	}
}

// Signal counts a signal by what became of it.
func (e *ElasticScaler) Signal(result, transport string) {
	e.signals.WithLabelValues(result, transport).Inc()
}

// SignalsAsked records a request to a signal endpoint: how long it took until the answer began, and whether it failed.
func (e *ElasticScaler) SignalsAsked(took time.Duration, failed bool) {
	e.asked.Observe(took.Seconds())
	if failed {
		e.askErrors.Inc()
	}
}

// Forget drops the series of an ElasticScaler that is gone.
func (e *ElasticScaler) Forget(namespace, name string) {
	for _, g := range []*prometheus.GaugeVec{e.desired, e.current, e.least, e.most} {
		g.DeleteLabelValues(namespace, name)
	}
	of := prometheus.Labels{"namespace": namespace, "name": name}
	for _, g := range []*prometheus.GaugeVec{e.value, e.target, e.proposed} {
		g.DeletePartialMatch(of)
	}
}
