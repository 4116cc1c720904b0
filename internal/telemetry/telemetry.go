// Package telemetry defines the product's own metrics. Every series that names an object goes away with the object, and all
// other labels have few values, which docs/metrics.md lists.
//
// Counters of what happens seldom begin at 0 for each value of their labels: what Prometheus first sees at 1 has not
// increased, so the first time would go unnoticed.
package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
)

// Metrics are the metrics of ResourceScalingGroups. The zero value is not usable; call New.
type Metrics struct {
	groups         *prometheus.GaugeVec
	scaleDowns     *prometheus.CounterVec
	fallbacks      *prometheus.CounterVec
	queryDuration  prometheus.Histogram
	queryErrors    prometheus.Counter
	objectsCreated *prometheus.CounterVec
	objectsDeleted *prometheus.CounterVec
}

// New registers the metrics.
func New(reg prometheus.Registerer) (*Metrics, error) {
	object := []string{"namespace", "name"}
	m := &Metrics{
		groups: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pdo_resourcescalinggroup_groups",
			Help: "Groups of a ResourceScalingGroup: desired, current (complete) and ready (available).",
		}, append(object, "state")),
		scaleDowns: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pdo_resourcescalinggroup_scale_downs_total",
			Help: "Choices of groups to remove, by the level that ranked them: Metric, Annotation, GroupID or Incomplete.",
		}, []string{"level"}),
		fallbacks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pdo_resourcescalinggroup_metric_fallbacks_total",
			Help: "Choices of groups that could not follow the configured metric, by reason.",
		}, []string{"reason"}),
		queryDuration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:                        "pdo_prometheus_query_duration_seconds",
			Help:                        "Time that queries to Prometheus took.",
			Buckets:                     prometheus.DefBuckets,
			NativeHistogramBucketFactor: 1.1,
		}),
		queryErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pdo_prometheus_query_errors_total",
			Help: "Queries to Prometheus that had no answer.",
		}),
		objectsCreated: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pdo_resourcescalinggroup_objects_created_total",
			Help: "Objects created for clones, by kind.",
		}, []string{"kind"}),
		objectsDeleted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pdo_resourcescalinggroup_objects_deleted_total",
			Help: "Objects of clones deleted, by kind.",
		}, []string{"kind"}),
	}
	for _, c := range []prometheus.Collector{m.groups, m.scaleDowns, m.fallbacks, m.queryDuration, m.queryErrors, m.objectsCreated, m.objectsDeleted} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	for _, level := range []v1alpha1.ScaleDownLevel{v1alpha1.LevelMetric, v1alpha1.LevelAnnotation, v1alpha1.LevelGroupID, v1alpha1.LevelIncomplete} {
		m.scaleDowns.WithLabelValues(string(level))
	}
	for _, reason := range []string{
		v1alpha1.ReasonPrometheusNotConfigured, v1alpha1.ReasonPrometheusUnavailable, v1alpha1.ReasonQueryInvalid, v1alpha1.ReasonResultTypeUnusable,
		v1alpha1.ReasonGroupMissing, v1alpha1.ReasonMultipleSeries, v1alpha1.ReasonNotFinite, v1alpha1.ReasonStale,
		v1alpha1.ReasonMetricScopeAmbiguous, v1alpha1.ReasonMetricScopeMismatch,
	} {
		m.fallbacks.WithLabelValues(reason)
	}
	return m, nil
}

// SetGroups records the group counts of a ResourceScalingGroup.
func (m *Metrics) SetGroups(namespace, name string, desired, current, ready int32) {
	m.groups.WithLabelValues(namespace, name, "desired").Set(float64(desired))
	m.groups.WithLabelValues(namespace, name, "current").Set(float64(current))
	m.groups.WithLabelValues(namespace, name, "ready").Set(float64(ready))
}

// ForgetGroups drops the series of a ResourceScalingGroup that is gone.
func (m *Metrics) ForgetGroups(namespace, name string) {
	m.groups.DeletePartialMatch(prometheus.Labels{"namespace": namespace, "name": name})
}

// ScaleDownChosen counts a choice of groups to remove. The reason is "" where no metric is configured or it decided.
func (m *Metrics) ScaleDownChosen(level, fallbackReason string) {
	m.scaleDowns.WithLabelValues(level).Inc()
	if fallbackReason != "" {
		m.fallbacks.WithLabelValues(fallbackReason).Inc()
	}
}

// ObjectCreated counts an object created for a clone.
func (m *Metrics) ObjectCreated(kind string) { m.objectsCreated.WithLabelValues(kind).Inc() }

// ObjectDeleted counts an object of a clone deleted.
func (m *Metrics) ObjectDeleted(kind string) { m.objectsDeleted.WithLabelValues(kind).Inc() }

// PrometheusQuery records one query.
func (m *Metrics) PrometheusQuery(took time.Duration, err error) {
	m.queryDuration.Observe(took.Seconds())
	if err != nil {
		m.queryErrors.Inc()
	}
}
