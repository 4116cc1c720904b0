package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

// Names of the steps that this package records. Algorithms add their own, before these.
const (
	// StepNoData is what the noData policies of metrics without a value make of the count.
	StepNoData = "NoData"
	// StepStabilization is what the recommendations of the stabilization windows make of it.
	StepStabilization = "Stabilization"
	// StepSize is the limit of maxPodsPerStep.
	StepSize = "StepSize"
	// StepRateLimit are the policies of behavior.
	StepRateLimit = "RateLimit"
	// StepBounds are minReplicas and maxReplicas.
	StepBounds = "Bounds"
)

// decision is a Plan in the making.
type decision struct {
	Facts
	memory *Memory
	// metrics are the memories of the metrics.
	metrics []*metricMemory
	// present tells which of them the algorithm is given a value of.
	present []bool
	// window and history: see Settings.windows.
	window, history time.Duration
	// floors are what noData policies propose. held is the one that decided the recommendation, nil where none did.
	floors []floor
	held   *floor
	// said is the number of steps that the message of the outcome need not repeat.
	said int
	// relaxed are the metrics without a value whose noData policy lets the count shrink.
	relaxed []*Input
	// result is what the algorithm said.
	result scaling.Result
	// count is the count so far.
	count int32
	plan  Plan
}

// Decide returns the count for the present moment, and remembers what the next decision needs. It never fails: what it
// cannot tell leaves the count as it is, with a reason.
func Decide(ctx context.Context, f Facts, m *Memory) Plan {
	d := &decision{Facts: f, memory: m, metrics: m.prepare(&f.Settings), count: f.Current}
	d.read()
	if d.leftAlone() || d.outOfBounds() {
		d.plan.Desired, d.plan.Recommended = d.count, d.count
		return d.plan
	}
	d.recommend(ctx)
	d.plan.Recommended = d.count
	d.stabilize()
	d.limitStep()
	d.limitRate()
	d.bound()
	d.plan.Desired = d.count
	d.conclude()
	return d.plan
}

// step sets the count, and records that where it is another one.
func (d *decision) step(to int32, name, reason, message string, args ...any) {
	if to != d.count {
		d.plan.Steps = append(d.plan.Steps, scaling.Step{Name: name, From: d.count, To: to, Reason: reason, Message: fmt.Sprintf(message, args...)})
		d.count = to
	}
}

// leftAlone leaves a target alone that somebody has switched off.
func (d *decision) leftAlone() bool {
	if d.Current != 0 || d.ZeroIsOurs || d.Settings.MinReplicas < 1 {
		return false
	}
	d.plan.Reason = v1alpha1.ReasonManualZero
	d.plan.Message = fmt.Sprintf("the target was set to 0 by somebody else while minReplicas is %d, and is left there: set it to 1 or more to have it scaled again", d.Settings.MinReplicas)
	return true
}

// outOfBounds brings a count that is outside the bounds to the nearest one. Metrics decide from there on.
func (d *decision) outOfBounds() bool {
	d.bound()
	if d.count == d.Current {
		return false
	}
	d.plan.Reason, d.plan.Message = d.plan.Steps[0].Reason, d.plan.Steps[0].Message
	return true
}

func (d *decision) bound() {
	least, most := d.Settings.MinReplicas, max(d.Settings.MaxReplicas, 0)
	d.step(max(d.count, least), StepBounds, v1alpha1.ReasonMinReplicas, "%d is below minReplicas, which is %d", d.count, least)
	d.step(min(d.count, most), StepBounds, v1alpha1.ReasonMaxReplicas, "%d is above maxReplicas, which is %d", d.count, most)
}

// stabilize takes the highest recommendation of the scale-down window, and the lowest of the scale-up window. From 0, where
// nothing serves the load, the scale-up window does not apply.
func (d *decision) stabilize() {
	up, down := d.Settings.ScaleUp.StabilizationWindow, d.Settings.ScaleDown.StabilizationWindow
	lowest := d.memory.lowest.best(d.Now, up, d.count)
	highest := d.memory.highest.best(d.Now, down, d.count)
	d.memory.highest.add(d.Now, d.count)
	if d.plan.Calculated || d.count != d.Current {
		// A count that merely stays for want of data says nothing against growing later.
		d.memory.lowest.add(d.Now, d.count)
	}
	switch {
	case d.count > d.Current && d.Current > 0:
		d.step(max(d.Current, lowest), StepStabilization, v1alpha1.ReasonScaleUpStabilized,
			"%d must be recommended for %s before the count grows to it", d.count, up)
	case d.count < d.Current:
		d.step(min(d.Current, highest), StepStabilization, v1alpha1.ReasonScaleDownStabilized,
			"%d must be recommended for %s before the count shrinks to it", d.count, down)
	}
}

func (d *decision) limitStep() {
	if up := d.Settings.ScaleUp.MaxPodsPerStep; up != nil {
		most := add(d.Current, max(*up, 0))
		d.step(min(d.count, most), StepSize, v1alpha1.ReasonScaleUpLimit, "maxPodsPerStep allows %d more at a time", *up)
	}
	if down := d.Settings.ScaleDown.MaxPodsPerStep; down != nil {
		least := add(d.Current, -max(*down, 0))
		d.step(max(d.count, least), StepSize, v1alpha1.ReasonScaleDownLimit, "maxPodsPerStep allows %d less at a time", *down)
	}
}

func (d *decision) limitRate() {
	switch {
	case d.count > d.Current:
		most := d.Settings.ScaleUp.most(d.Now, d.Current, d.memory)
		d.step(min(d.count, most), StepRateLimit, v1alpha1.ReasonScaleUpLimit, "the policies of behavior.scaleUp allow %d now", most)
	case d.count < d.Current:
		least := d.Settings.ScaleDown.least(d.Now, d.Current, d.memory)
		d.step(max(d.count, least), StepRateLimit, v1alpha1.ReasonScaleDownLimit, "the policies of behavior.scaleDown allow %d now", least)
	}
}

func add(a, b int32) int32 {
	return int32(min(max(int64(a)+int64(b), 0), math.MaxInt32))
}

// conclude sums up the decision.
func (d *decision) conclude() {
	p := &d.plan
	switch {
	case p.Err != nil:
		p.Reason, p.Message = v1alpha1.ReasonAlgorithmFailed, strings.ReplaceAll(p.Err.Error(), "\n", "; ")
	case d.held != nil:
		p.Reason, p.Message = d.held.reason, d.held.metric.Name+": "+d.held.metric.Message
	case !p.Calculated:
		p.Reason, p.Message = v1alpha1.ReasonNoData, "no metric has a value, and the count stays"
	case p.Desired < d.Current && len(d.relaxed) > 0:
		p.Reason, p.Message = v1alpha1.ReasonNoData, d.relaxed[0].Name+": "+d.relaxed[0].Message
	default:
		p.Reason = cmp.Or(tidy(scaling.Step{Reason: d.result.Reason}).Reason, d.direction())
		p.Message = cmp.Or(d.result.Message, "scaling algorithm "+d.Settings.Algorithm.Name()+" decided")
	}
	last := len(p.Steps) - 1
	if last >= 0 && p.Desired == d.Current && p.Err == nil {
		p.Reason = cmp.Or(p.Steps[last].Reason, p.Reason)
	}
	for i, s := range p.Steps {
		p.Steps[i].Message = short(s.Message, maxStepMessage)
		if i >= d.said && s.Message != "" {
			p.Message += "; " + s.Message
		}
	}
	p.Message = short(p.Message, maxReasonMessage)
}

// direction is the reason of a count that follows from the algorithm.
func (d *decision) direction() string {
	switch {
	case d.plan.Recommended > d.Current:
		return v1alpha1.ReasonMetricAboveTarget
	case d.plan.Recommended < d.Current:
		return v1alpha1.ReasonMetricBelowTarget
	}
	return v1alpha1.ReasonWithinTolerance
}
