package pipeline

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

// horizontal is what a HorizontalPodAutoscaler with External metrics of type AverageValue and a behavior decides, written
// down as its documentation has it and with nothing forgotten: every recommendation and every change is kept.
type horizontal struct {
	least, most     int32
	up, down        Rules
	recommendations []recommendation
	ups, downs      []change
}

func (h *horizontal) decide(now time.Time, current int32, totals []float64) int32 {
	if len(h.recommendations) == 0 {
		h.recommendations = append(h.recommendations, recommendation{now, current})
	}
	switch {
	case current > h.most:
		return h.most
	case current < h.least:
		return h.least
	}
	var wanted int32
	for _, total := range totals {
		proposal := int32(math.Ceil(total))
		if ratio := total / float64(current); ratio >= 0.9 && ratio <= 1.1 {
			proposal = current
		}
		wanted = max(wanted, proposal)
	}
	lowest, highest := wanted, wanted
	for _, r := range h.recommendations {
		if now.Sub(r.at) < h.up.StabilizationWindow {
			lowest = min(lowest, r.value)
		}
		if now.Sub(r.at) < h.down.StabilizationWindow {
			highest = max(highest, r.value)
		}
	}
	h.recommendations = append(h.recommendations, recommendation{now, wanted})
	stable := min(max(current, lowest), highest)
	switch {
	case stable > current:
		return min(stable, h.most, max(current, h.limit(now, current, h.up, 1)))
	case stable < current:
		return max(stable, h.least, min(current, h.limit(now, current, h.down, -1)))
	}
	return current
}

// limit works out how far the policies of one direction allow the count to go.
func (h *horizontal) limit(now time.Time, current int32, r Rules, direction float64) int32 {
	if r.SelectPolicy == autoscalingv2.DisabledPolicySelect {
		return current
	}
	var reached []float64
	for _, p := range r.Policies {
		start := float64(current)
		for _, c := range h.ups {
			if now.Sub(c.at) < time.Duration(p.PeriodSeconds)*time.Second {
				start -= float64(c.by)
			}
		}
		for _, c := range h.downs {
			if now.Sub(c.at) < time.Duration(p.PeriodSeconds)*time.Second {
				start += float64(c.by)
			}
		}
		by := float64(p.Value)
		if p.Type == autoscalingv2.PercentScalingPolicy {
			by = start * by / 100
		}
		// Up is rounded up, down is rounded down.
		reached = append(reached, math.Round((start+direction*by)*100)/100)
	}
	best := reached[0]
	for _, x := range reached {
		farther := direction*(x-best) > 0
		if farther == (r.SelectPolicy != autoscalingv2.MinChangePolicySelect) {
			best = x
		}
	}
	if direction > 0 {
		return int32(math.Ceil(best))
	}
	return int32(math.Floor(best))
}

func (h *horizontal) wrote(now time.Time, from, to int32) {
	if to > from {
		h.ups = append(h.ups, change{now, to - from})
	} else if to < from {
		h.downs = append(h.downs, change{now, from - to})
	}
}

func randomRules(r *rand.Rand, window time.Duration) Rules {
	rules := Rules{StabilizationWindow: window, SelectPolicy: autoscalingv2.MaxChangePolicySelect}
	switch r.IntN(8) {
	case 0:
		rules.SelectPolicy = autoscalingv2.DisabledPolicySelect
	case 1, 2:
		rules.SelectPolicy = autoscalingv2.MinChangePolicySelect
	}
	for range 1 + r.IntN(3) {
		period := 1 + r.Int32N(120)
		if r.IntN(2) == 0 {
			rules.Policies = append(rules.Policies, pods(1+r.Int32N(10), period))
		} else {
			rules.Policies = append(rules.Policies, percent(25*(1+r.Int32N(5)), period))
		}
	}
	return rules
}

func TestSequencesEqualThoseOfAHorizontalPodAutoscaler(t *testing.T) {
	for seed := range uint64(600) {
		r := rand.New(rand.NewPCG(seed, 1))
		least := r.Int32N(4)
		most := least + 1 + r.Int32N(40)
		upWindow := time.Duration(r.IntN(4)*20) * time.Second
		if least == 0 {
			upWindow = 0 // with one a HorizontalPodAutoscaler starts from 0 late, and we do not
		}
		h := &horizontal{
			least: least, most: most,
			up: randomRules(r, upWindow), down: randomRules(r, time.Duration(r.IntN(4)*40)*time.Second),
		}
		if least == 0 {
			h.up.Policies = append(h.up.Policies, pods(1, 600)) // a percentage of 0 is 0, and we begin with 1
			h.up.SelectPolicy = autoscalingv2.MaxChangePolicySelect
		}
		w := newWorld(t, least+r.Int32N(most-least+5), least, most, metric("a"), metric("b"))
		w.ours = true
		w.memory = NewMemory(w.now, w.current)
		w.settings.ScaleUp, w.settings.ScaleDown = h.up, h.down
		h.recommendations = []recommendation{{w.now, w.current}}
		level := float64(w.current)
		var log strings.Builder
		for range 60 {
			switch r.IntN(5) {
			case 0:
				level = float64(r.IntN(60))
			case 1:
				level = math.Max(0, level+float64(r.IntN(40))/4-5)
			}
			a, b := level, math.Max(0, level-float64(r.IntN(20))/4)
			d := time.Duration(1+r.IntN(30)) * time.Second
			before, theirs := w.current, h.decide(w.now.Add(d), w.current, []float64{a, b})
			p := w.after(d, w.needs(a), w.needs(b))
			h.wrote(w.now, before, p.Desired)
			fmt.Fprintf(&log, "%s: %d, metrics need %v and %v: got %d\n", w.now.Format(time.TimeOnly), before, a, b, p.Desired)
			if p.Desired != theirs {
				t.Fatalf("seed %d: got %d, and a HorizontalPodAutoscaler decides %d\n%s\nbounds %d to %d\nup %+v\ndown %+v\n%s", seed, p.Desired, theirs, show(p), least, most, h.up, h.down, log.String())
			}
		}
	}
}
