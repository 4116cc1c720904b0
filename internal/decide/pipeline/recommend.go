package pipeline

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

// What the status of an object holds at most.
const (
	maxSteps         = 24 // of the algorithm; the rest is for ours
	maxWord          = 63
	maxStepMessage   = 1024
	maxReasonMessage = 4096
)

// floor is a proposal that follows from a noData policy.
type floor struct {
	metric *Input
	count  int32
	reason string
}

// PanicError is the panic of an algorithm.
type PanicError struct {
	// Algorithm is its name.
	Algorithm string
	// Value is what it panicked with.
	Value any
	// Stack is where it did.
	Stack []byte
}

// Error implements error. It leaves out the stack.
func (e *PanicError) Error() string {
	return fmt.Sprintf("scaling algorithm %s panicked: %v", e.Algorithm, e.Value)
}

// guard calls code of a plug-in, and returns its panic as an error.
func guard(a scaling.ScalingAlgorithm, call func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Algorithm: a.Name(), Value: v, Stack: debug.Stack()}
		}
	}()
	return call()
}

// windows returns over which time the algorithm is to look at metrics, and how long samples are kept for that.
func (s *Settings) windows() (window, history time.Duration) {
	window = scaling.DefaultWindow
	if w, ok := s.Algorithm.(scaling.Windower); ok {
		// A panic shows again when the algorithm is asked for a count.
		_ = guard(s.Algorithm, func() error { window = w.Window(s.Config); return nil })
	}
	history = window
	if s.Window != nil {
		window = *s.Window
	}
	limit := func(d time.Duration) time.Duration { return min(max(d, 0), scaling.MaxWindow) }
	return limit(window), limit(max(window, history))
}

// read takes in what was read of each metric, and what its noData policy makes of a missing value.
func (d *decision) read() {
	d.plan.Inputs = make([]Input, len(d.Settings.Metrics))
	d.present = make([]bool, len(d.Settings.Metrics))
	d.window, d.history = d.Settings.windows()
	for i := range d.Settings.Metrics {
		metric, memory, in := &d.Settings.Metrics[i], d.metrics[i], &d.plan.Inputs[i]
		*in = Input{MetricInfo: metric.MetricInfo, Target: metric.Target}
		sample, problem := d.reading(i)
		inEffect := memory.observe(problem == nil, max(metric.NoData.FailureThreshold, 1))
		switch {
		case problem != nil:
			in.Reason, in.Message = problem.Reason, problem.Message
			d.missing(i, inEffect)
		default:
			in.Value, in.Time = &sample.Value, sample.Time
			d.use(i, sample)
			if inEffect && !holds(metric.NoData.Action) {
				in.Reason = v1alpha1.ReasonNoData
				in.Message = fmt.Sprintf("%s has a value again: it may not lower the count until it has had one %d times in a row", in.Name, metric.NoData.FailureThreshold)
				d.floors = append(d.floors, floor{in, d.Current, in.Reason})
			}
		}
		in.Message = short(in.Message, maxStepMessage)
	}
}

// use hands the sample of a metric to the algorithm.
func (d *decision) use(i int, s scaling.Sample) {
	s.Time = d.Now
	d.metrics[i].keep(s, d.history)
	d.present[i] = true
}

// reading returns the sample of a metric, or what is wrong with it.
func (d *decision) reading(i int) (scaling.Sample, *Problem) {
	if i >= len(d.Readings) || d.Readings[i].Problem == nil && d.Readings[i].Sample == nil {
		return scaling.Sample{}, &Problem{v1alpha1.ReasonNoData, "the metric has not been read"}
	}
	r := d.Readings[i]
	if r.Problem != nil {
		return scaling.Sample{}, r.Problem
	}
	s := *r.Sample
	for _, x := range []float64{s.Value, s.Load, s.Base} {
		if !(x >= 0) || math.IsInf(x, 1) {
			return scaling.Sample{}, &Problem{v1alpha1.ReasonNoData, fmt.Sprintf("the value is %v, which is no usable number: it must be finite and 0 or more", x)}
		}
	}
	if age, most := d.Now.Sub(s.Time), d.Settings.Metrics[i].MaxAge; most > 0 && !s.Time.IsZero() && age > most {
		return scaling.Sample{}, &Problem{v1alpha1.ReasonStale, fmt.Sprintf("the sample is %s old, and %s are allowed", age.Round(time.Second), most)}
	}
	return s, nil
}

// holds reports whether an action means Hold, which is what none means too.
func holds(a v1alpha1.NoDataAction) bool { return a == v1alpha1.NoDataHold || a == "" }

// missing applies the noData policy of a metric without a value. Until it is in effect the metric holds the count.
func (d *decision) missing(i int, inEffect bool) {
	in, policy := &d.plan.Inputs[i], d.Settings.Metrics[i].NoData
	action := policy.Action
	if !inEffect {
		action = v1alpha1.NoDataHold
	}
	switch action {
	case v1alpha1.NoDataIgnore:
		in.Message += "; noData.policy Ignore leaves the decision to the other metrics"
		d.relaxed = append(d.relaxed, in)
	case v1alpha1.NoDataZero:
		in.Message += "; noData.policy Zero takes the value as 0"
		d.relaxed = append(d.relaxed, in)
		d.use(i, scaling.Sample{Base: float64(d.Current)})
	case v1alpha1.NoDataFallback:
		in.Message += fmt.Sprintf("; noData.policy Fallback proposes %d", policy.Replicas)
		d.propose(in, policy.Replicas, v1alpha1.ReasonFallback)
	case v1alpha1.NoDataHold:
		fallthrough
	default:
		in.Message += "; the count may grow by other metrics and does not shrink"
		d.propose(in, d.Current, v1alpha1.ReasonNoData)
	}
}

func (d *decision) propose(in *Input, count int32, reason string) {
	in.Proposed = &count
	d.floors = append(d.floors, floor{in, count, reason})
}

// recommend sets the count to what the metrics propose: what the algorithm makes of those with a value, and the proposals of
// the noData policies, of which the highest wins.
func (d *decision) recommend(ctx context.Context) {
	asked := slices.Contains(d.present, true)
	if asked {
		if d.plan.Err = d.ask(ctx); d.plan.Err == nil {
			d.plan.Calculated = true
		}
	}
	if len(d.floors) == 0 {
		return
	}
	highest := d.floors[0]
	for _, f := range d.floors[1:] {
		if f.count > highest.count {
			highest = f
		}
	}
	// Without a value only the policies speak, and a Fallback may be lower than the present count.
	if highest.count > d.count || !asked {
		d.step(highest.count, StepNoData, highest.reason, "%s: %s", highest.metric.Name, highest.metric.Message)
		d.held, d.said = &highest, len(d.plan.Steps)
	}
}

// ask calls the algorithm and sets the count to its result.
func (d *decision) ask(ctx context.Context) error {
	s := &d.Settings
	in := scaling.Input{
		Now: d.Now, Target: d.Target,
		CurrentReplicas: d.Current, MinReplicas: s.MinReplicas, MaxReplicas: s.MaxReplicas,
		Config: s.Config, Window: d.window,
		UpTolerance: s.ScaleUp.Tolerance, DownTolerance: s.ScaleDown.Tolerance,
		Metrics: make([]scaling.Metric, len(s.Metrics)), State: d.memory.state,
	}
	for i, m := range s.Metrics {
		in.Metrics[i] = scaling.Metric{MetricInfo: m.MetricInfo, Target: m.Target, Missing: !d.present[i]}
		if d.present[i] {
			in.Metrics[i].Samples = slices.Clip(d.metrics[i].samples)
		}
	}
	var r scaling.Result
	err := guard(s.Algorithm, func() (err error) {
		r, err = s.Algorithm.CalculateDesiredReplicas(ctx, in)
		return err
	})
	if err == nil && r.Replicas < 0 {
		err = fmt.Errorf("scaling algorithm %s returned %d: must be 0 or more", s.Algorithm.Name(), r.Replicas)
	}
	if err != nil {
		return err
	}
	d.memory.state = r.State
	for i, count := range r.PerMetric {
		if i < len(d.plan.Inputs) && d.present[i] && count != nil {
			proposed := max(*count, 0)
			d.plan.Inputs[i].Proposed = &proposed
		}
	}
	for _, step := range r.Steps[:min(len(r.Steps), maxSteps)] {
		d.plan.Steps = append(d.plan.Steps, tidy(step))
	}
	d.count, d.result = r.Replicas, r
	return nil
}

var word = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*$`)

// tidy fits what an algorithm says into what a status takes.
func tidy(s scaling.Step) scaling.Step {
	if !word.MatchString(s.Name) || len(s.Name) > maxWord {
		s.Name = "Algorithm"
	}
	if !word.MatchString(s.Reason) || len(s.Reason) > maxWord {
		s.Reason = ""
	}
	s.Message = short(s.Message, maxStepMessage)
	return s
}

// short cuts a text that is longer than a number of bytes.
func short(s string, most int) string {
	if len(s) <= most {
		return s
	}
	const mark = "..."
	return strings.ToValidUTF8(s[:most-len(mark)], "") + mark
}
