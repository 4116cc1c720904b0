package algorithm

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

// kpa follows the mean load of a stable window, and of a shorter one while that is far above what the present replicas can
// carry: the Knative Pod Autoscaler, on concurrency, rates, or any other metric that adds up over the replicas.
//
//	stable = mean load of the stable window, panic = mean load of the panic window, both rounded up and within
//	         ready / maxScaleDownRate, rounded down, and ready * maxScaleUpRate, rounded up
//	panic load, rounded up and not limited, at or above ready * panicThresholdPercentage / 100: panic begins, or goes on
//	no such load for a stable window: panic ends
//	in panic: the highest of stable and panic since it began; otherwise: stable
//
// ready is the number of replicas that carry the load, at least 1.
type kpa struct{}

// kpaState is what is remembered of each metric.
type kpaState []kpaMetric

type kpaMetric struct {
	// since is when the load was last above the threshold. Zero without panic.
	since time.Time
	// peak is the highest count since panic began.
	peak int32
}

type kpaSettings struct {
	stable, panic                               time.Duration
	threshold, maxScaleUpRate, maxScaleDownRate float64
}

const defaultStableWindow = time.Minute

func (kpa) Name() string { return "KPA" }

// Settings implements scaling.Described.
func (kpa) Settings() []string {
	return []string{"stableWindowSeconds", "panicWindowPercentage", "panicThresholdPercentage", "maxScaleUpRate", "maxScaleDownRate"}
}

// readKPA reads the settings. The bounds are Knative's.
func readKPA(config map[string]string, window time.Duration) (kpaSettings, []error) {
	s := settings{config: config}
	seconds := s.number("stableWindowSeconds", window.Seconds(), 6, 3600)
	k := kpaSettings{
		stable:           time.Duration(seconds * float64(time.Second)),
		panic:            time.Duration(seconds * s.number("panicWindowPercentage", 10, 1, 100) / 100 * float64(time.Second)),
		threshold:        s.number("panicThresholdPercentage", 200, 110, 1000) / 100,
		maxScaleUpRate:   s.number("maxScaleUpRate", 1000, 1.01, math.MaxInt32),
		maxScaleDownRate: s.number("maxScaleDownRate", 2, 1.01, math.MaxInt32),
	}
	return k, s.errs
}

// Validate implements scaling.Validator.
func (kpa) Validate(config map[string]string, _ []scaling.MetricInfo) []error {
	_, errs := readKPA(config, defaultStableWindow)
	return errs
}

// Window implements scaling.Windower: it is the stable window.
func (kpa) Window(config map[string]string) time.Duration {
	k, _ := readKPA(config, defaultStableWindow)
	return k.stable
}

// CalculateDesiredReplicas implements scaling.ScalingAlgorithm. The highest proposal wins. Without memory and with more than
// one replica it begins in panic, so that the count holds until a whole stable window says that it may fall.
func (kpa) CalculateDesiredReplicas(_ context.Context, in scaling.Input) (scaling.Result, error) {
	k, errs := readKPA(in.Config, in.Window)
	if s := (settings{errs: errs}); len(errs) > 0 {
		return scaling.Result{}, s.err()
	}
	state := make(kpaState, len(in.Metrics))
	if before, ok := in.State.(kpaState); ok && len(before) == len(state) {
		copy(state, before)
	} else if in.CurrentReplicas > 1 {
		for i := range state {
			state[i] = kpaMetric{since: in.Now, peak: in.CurrentReplicas}
		}
	}
	proposals := make([]*proposal, len(in.Metrics))
	for i, m := range in.Metrics {
		if !m.Missing && len(m.Samples) > 0 {
			proposals[i] = k.propose(in, m, &state[i])
		}
	}
	r := highest(proposals)
	r.State = state
	return r, nil
}

func (k kpaSettings) propose(in scaling.Input, m scaling.Metric, memory *kpaMetric) *proposal {
	ready := max(1, m.Samples[len(m.Samples)-1].Base)
	stableLoad, panicLoad := meanLoad(m.Samples, in.Now, k.stable), meanLoad(m.Samples, in.Now, k.panic)
	least, most := floor(ready/k.maxScaleDownRate), ceil(ready*k.maxScaleUpRate)

	p := &proposal{
		replicas: ceil(stableLoad),
		message: fmt.Sprintf("the load of %s would keep %s replicas at its target over %s, and %s over %s", m.Name,
			show(math.Round(stableLoad*1000)/1000), k.stable, show(math.Round(panicLoad*1000)/1000), k.panic),
	}
	p.limit(max(p.replicas, least), stepRate, v1alpha1.ReasonScaleDownLimit,
		"maxScaleDownRate allows the replicas that carry the load divided by %s at least", show(k.maxScaleDownRate))
	p.limit(min(p.replicas, most), stepRate, v1alpha1.ReasonScaleUpLimit,
		"maxScaleUpRate allows %s times the replicas that carry the load at most", show(k.maxScaleUpRate))

	switch over := float64(ceil(panicLoad))/ready >= k.threshold; {
	case over:
		memory.since = in.Now
	case !memory.since.IsZero() && in.Now.Sub(memory.since) > k.stable:
		*memory = kpaMetric{}
	}
	if !memory.since.IsZero() {
		memory.peak = max(memory.peak, p.replicas, min(max(ceil(panicLoad), least), most))
		p.limit(memory.peak, stepPanic, "Panic", "%s was above %s times its target at %s: until %s after that the count only rises",
			m.Name, show(k.threshold), memory.since.UTC().Format(time.RFC3339), k.stable)
	}
	return p
}
