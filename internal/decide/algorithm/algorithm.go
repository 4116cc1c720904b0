// Package algorithm holds the scaling algorithms that every manager has: APA, which follows the mean of a window; KPA, which
// has a stable and a panic window; and CEL, which computes what the user writes. docs/scaling-decision.md describes them.
package algorithm

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

// Names of the steps that these algorithms record.
const (
	stepTolerance = "Tolerance"
	stepRate      = "AlgorithmRate"
	stepCapacity  = "PresentCapacity"
	stepPanic     = "Panic"
)

// Register adds the algorithms of this package to a registry. It fails where a plug-in has taken one of their names.
func Register(r *scaling.Registry) error {
	c, err := newCEL()
	if err != nil {
		return err
	}
	return errors.Join(r.Register(apa{}), r.Register(kpa{}), r.Register(c))
}

// roundingError is the part of a replica that is taken for an error of floating point: three replicas at a third of 100 each
// are 100 and not 101.
const roundingError = 1e-6

// ceil rounds a number of replicas up and floor rounds it down, within what a count can be. NaN gives 0.
func ceil(x float64) int32  { return count(math.Ceil(x - roundingError)) }
func floor(x float64) int32 { return count(math.Floor(x + roundingError)) }

func count(x float64) int32 {
	switch {
	case !(x > 0):
		return 0
	case x >= math.MaxInt32:
		return math.MaxInt32
	}
	return int32(x)
}

// meanLoad is the mean of the loads that are younger than the window, and of the newest in any case.
func meanLoad(samples []scaling.Sample, now time.Time, window time.Duration) float64 {
	return mean(samples, now, window, func(s scaling.Sample) float64 { return s.Load })
}

// mean divides before it adds up, so that no sum of finite numbers is infinite.
func mean(samples []scaling.Sample, now time.Time, window time.Duration, of func(scaling.Sample) float64) float64 {
	first := len(samples) - 1
	for first > 0 && samples[first-1].Time.After(now.Add(-window)) {
		first--
	}
	var m float64
	for _, s := range samples[first:] {
		m += of(s) / float64(len(samples)-first)
	}
	return m
}

// settings reads the settings of an algorithm and gathers what is wrong with them.
type settings struct {
	config map[string]string
	errs   []error
}

// number returns a setting that must be a number within bounds, or its default.
func (s *settings) number(key string, byDefault, least, most float64) float64 {
	text, ok := s.config[key]
	if !ok {
		return byDefault
	}
	x, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(x >= least && x <= most) {
		s.errs = append(s.errs, fmt.Errorf("%s must be a number from %s to %s, and is %.100q", key, show(least), show(most), text))
		return byDefault
	}
	return x
}

func (s *settings) err() error { return errors.Join(s.errs...) }

// show writes a number as people do.
func show(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// highest makes the result of proposals, of which the highest wins, with the steps of the one that wins.
func highest(proposals []*proposal) scaling.Result {
	r := scaling.Result{PerMetric: make([]*int32, len(proposals))}
	var winner *proposal
	for i, p := range proposals {
		if p == nil {
			continue
		}
		r.PerMetric[i] = &p.replicas
		if winner == nil || p.replicas > winner.replicas {
			winner = p
		}
	}
	if winner != nil {
		r.Replicas, r.Steps, r.Message = winner.replicas, winner.steps, winner.message
	}
	return r
}

// proposal is what one metric proposes.
type proposal struct {
	replicas int32
	steps    []scaling.Step
	message  string
}

// limit sets the count to another one, and records that, where they differ.
func (p *proposal) limit(to int32, step, reason, message string, args ...any) {
	if to != p.replicas {
		p.steps = append(p.steps, scaling.Step{Name: step, From: p.replicas, To: to, Reason: reason, Message: fmt.Sprintf(message, args...)})
		p.replicas = to
	}
}
