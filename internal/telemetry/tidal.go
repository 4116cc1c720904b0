package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Tidal are the metrics of Tidals. The zero value is not usable; call NewTidal.
type Tidal struct {
	desired  *prometheus.GaugeVec
	lateness prometheus.Histogram
	writes   prometheus.Counter
	next     prometheus.Gauge
}

// NewTidal registers the metrics of Tidals.
func NewTidal(reg prometheus.Registerer) (*Tidal, error) {
	t := &Tidal{
		desired: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pdo_tidal_desired_replicas",
			Help: "Replicas that the rule in force of a Tidal wants.",
		}, []string{"namespace", "name"}),
		lateness: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:                        "pdo_tidal_firing_lateness_seconds",
			Help:                        "Time from the moment of a firing until its count was written: to the target, or to the status of a Tidal that is bound to an ElasticScaler.",
			Buckets:                     []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 3600},
			NativeHistogramBucketFactor: 1.1,
		}),
		writes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pdo_tidal_scale_writes_total",
			Help: "Counts written to targets by Tidals.",
		}),
		next: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pdo_tidal_next_firing_timestamp_seconds",
			Help: "Unix time of the next firing of any Tidal, 0 where none is due.",
		}),
	}
	for _, c := range []prometheus.Collector{t.desired, t.lateness, t.writes, t.next} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// SetDesired records the count of the rule in force; nil where there is none.
func (t *Tidal) SetDesired(namespace, name string, replicas *int32) {
	if replicas == nil {
		t.desired.DeleteLabelValues(namespace, name)
		return
	}
	t.desired.WithLabelValues(namespace, name).Set(float64(*replicas))
}

// Forget drops the series of a Tidal that is gone.
func (t *Tidal) Forget(namespace, name string) { t.desired.DeleteLabelValues(namespace, name) }

// Fired records how late the count of a firing was written.
func (t *Tidal) Fired(late time.Duration) { t.lateness.Observe(max(late, 0).Seconds()) }

// Scaled counts a count written to a target.
func (t *Tidal) Scaled() { t.writes.Inc() }

// SetNext records the next firing of all; the zero time where none is due.
func (t *Tidal) SetNext(at time.Time) {
	if at.IsZero() {
		t.next.Set(0)
		return
	}
	t.next.Set(float64(at.Unix()))
}
