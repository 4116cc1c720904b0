// Package xpa is a scaling algorithm that keeps every metric at a part of its target, and lets some time pass between two
// changes of the count.
package xpa

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

// An error of Register means that two packages want one name. There is no manager then.
func init() {
	if err := scaling.DefaultRegistry.Register(XPA{}); err != nil {
		panic(err)
	}
}

// XPA is the algorithm. It has no state of its own: what it remembers goes through scaling.Result.State.
type XPA struct{}

var (
	_ scaling.ScalingAlgorithm = XPA{}
	_ scaling.Validator        = XPA{}
	_ scaling.Described        = XPA{}
	_ scaling.Windower         = XPA{}
)

// settings are those of algorithmConfig.
type settings struct {
	// threshold is the part of the target that metrics are kept at.
	threshold float64
	// cooldown is the least time between two changes.
	cooldown time.Duration
}

// lastChange is what is remembered of a scaler.
type lastChange struct {
	at       time.Time
	replicas int32
}

// Name implements scaling.ScalingAlgorithm.
func (XPA) Name() string { return "xpa" }

// Settings implements scaling.Described: a setting of another name is answered with a warning at admission.
func (XPA) Settings() []string { return []string{"threshold", "cooldownSeconds"} }

// Window implements scaling.Windower: only the newest sample counts.
func (XPA) Window(map[string]string) time.Duration { return 0 }

// Validate implements scaling.Validator: what it returns refuses an object at admission.
func (XPA) Validate(config map[string]string, _ []scaling.MetricInfo) []error {
	_, errs := read(config)
	return errs
}

func read(config map[string]string) (settings, []error) {
	s, errs := settings{threshold: 1}, []error(nil)
	if text, ok := config["threshold"]; ok {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || !(x > 0 && x <= 1) {
			errs = append(errs, fmt.Errorf("threshold must be a number above 0 and up to 1, and is %q", text))
		}
		s.threshold = x
	}
	if text, ok := config["cooldownSeconds"]; ok {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			errs = append(errs, fmt.Errorf("cooldownSeconds must be a whole number from 0 to 65535, and is %q", text))
		}
		s.cooldown = time.Duration(n) * time.Second
	}
	return s, errs
}

// CalculateDesiredReplicas implements scaling.ScalingAlgorithm. The highest proposal wins.
func (XPA) CalculateDesiredReplicas(_ context.Context, in scaling.Input) (scaling.Result, error) {
	s, errs := read(in.Config)
	if len(errs) > 0 {
		return scaling.Result{}, errors.Join(errs...)
	}
	r := scaling.Result{PerMetric: make([]*int32, len(in.Metrics))}
	for i, m := range in.Metrics {
		if m.Missing {
			continue // the framework sees to it that nothing shrinks for want of a value
		}
		newest := m.Samples[len(m.Samples)-1]
		proposal := int32(min(math.Ceil(newest.Load/s.threshold-1e-6), math.MaxInt32))
		r.PerMetric[i] = &proposal
		r.Replicas = max(r.Replicas, proposal)
	}

	last, ok := in.State.(lastChange)
	if !ok || last.replicas != in.CurrentReplicas {
		// The first call, or the count was changed since the last one: by us, or by somebody else.
		last = lastChange{replicas: in.CurrentReplicas}
		if ok {
			last.at = in.Now
		}
	}
	r.State = last
	if wait := s.cooldown - in.Now.Sub(last.at); r.Replicas != in.CurrentReplicas && wait > 0 {
		r.Steps = []scaling.Step{{
			Name: "Cooldown", From: r.Replicas, To: in.CurrentReplicas, Reason: "Cooldown",
			Message: fmt.Sprintf("the count changed less than %s ago", s.cooldown),
		}}
		r.Replicas = in.CurrentReplicas
	}
	return r, nil
}
