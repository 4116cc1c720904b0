package algorithm

import (
	"context"
	"fmt"
	"math"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

// apa keeps the mean load of a window at the target, within a tolerance and by at most a factor at a time. With the newest
// sample only, and factors out of the way, it computes what a HorizontalPodAutoscaler does.
//
//	ratio = mean load / replicas that carry the newest
//	ratio above 1 + upTolerance:    the load, rounded up; at most current * maxScaleUpRate, rounded up; not below current
//	ratio below 1 - downTolerance:  the load, rounded up; at least current / maxScaleDownRate, rounded down; not above current
//	otherwise:                      current
//	current is 0:                   the load, rounded up
type apa struct{}

type apaSettings struct {
	upTolerance, downTolerance, maxScaleUpRate, maxScaleDownRate float64
}

func (apa) Name() string { return "APA" }

// Settings implements scaling.Described.
func (apa) Settings() []string {
	return []string{"upTolerance", "downTolerance", "maxScaleUpRate", "maxScaleDownRate"}
}

func readAPA(config map[string]string) (apaSettings, []error) {
	s := settings{config: config}
	a := apaSettings{
		upTolerance:      s.number("upTolerance", 0.1, 0, 1000),
		downTolerance:    s.number("downTolerance", 0.1, 0, 1),
		maxScaleUpRate:   s.number("maxScaleUpRate", 2, 1, math.MaxInt32),
		maxScaleDownRate: s.number("maxScaleDownRate", 2, 1, math.MaxInt32),
	}
	return a, s.errs
}

// Validate implements scaling.Validator.
func (apa) Validate(config map[string]string, _ []scaling.MetricInfo) []error {
	_, errs := readAPA(config)
	return errs
}

// CalculateDesiredReplicas implements scaling.ScalingAlgorithm. The highest proposal wins.
func (apa) CalculateDesiredReplicas(_ context.Context, in scaling.Input) (scaling.Result, error) {
	s := settings{config: in.Config}
	a, errs := readAPA(in.Config)
	if s.errs = errs; len(errs) > 0 {
		return scaling.Result{}, s.err()
	}
	if in.UpTolerance != nil {
		a.upTolerance = *in.UpTolerance
	}
	if in.DownTolerance != nil {
		a.downTolerance = *in.DownTolerance
	}
	proposals := make([]*proposal, len(in.Metrics))
	for i, m := range in.Metrics {
		if !m.Missing && len(m.Samples) > 0 {
			proposals[i] = a.propose(in, m)
		}
	}
	return highest(proposals), nil
}

func (a apaSettings) propose(in scaling.Input, m scaling.Metric) *proposal {
	newest := m.Samples[len(m.Samples)-1]
	load := meanLoad(m.Samples, in.Now, in.Window)
	current := in.CurrentReplicas
	p := &proposal{
		replicas: ceil(load),
		message:  fmt.Sprintf("the load of %s would keep %s replicas at its target", m.Name, show(math.Round(load*1000)/1000)),
	}
	if current == 0 {
		return p
	}
	base := newest.Base
	if base == 0 {
		base = float64(current)
	}
	switch ratio := load / base; {
	case ratio > 1+a.upTolerance+roundingError:
		p.limit(max(p.replicas, current), stepCapacity, v1alpha1.ReasonMetricAboveTarget,
			"%s is above its target for the %s replicas that carry the load, and the present count is enough for it", m.Name, show(base))
		p.limit(min(p.replicas, max(current, ceil(a.maxScaleUpRate*float64(current)))), stepRate, v1alpha1.ReasonScaleUpLimit,
			"maxScaleUpRate allows %s times the present count at most", show(a.maxScaleUpRate))
	case ratio < 1-a.downTolerance-roundingError:
		p.limit(min(p.replicas, current), stepCapacity, v1alpha1.ReasonMetricBelowTarget,
			"%s is below its target, and the present count is not raised for it", m.Name)
		p.limit(max(p.replicas, min(current, floor(float64(current)/a.maxScaleDownRate))), stepRate, v1alpha1.ReasonScaleDownLimit,
			"maxScaleDownRate allows the present count divided by %s at least", show(a.maxScaleDownRate))
	default:
		p.limit(current, stepTolerance, v1alpha1.ReasonWithinTolerance,
			"%s is at %s times its target, which is within the tolerance", m.Name, show(math.Round(ratio*1000)/1000))
	}
	return p
}
