package pipeline

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

// These are faults that autoscalers elsewhere have had.

func TestAMissingMetricLetsNothingShrink(t *testing.T) {
	w := newWorld(t, 4, 1, 10, metric("a"), metric("b"))
	p := w.decide(w.needs(1), noSeries())
	want(t, p, 4, v1alpha1.ReasonNoData)
	if got := p.Inputs[0].Proposed; got == nil || *got != 1 {
		t.Errorf("a proposed %s, want 1: what the good metric says must be on record", text(got))
	}
	if got, step := steps(p), "NoData 1>4 NoData"; got != step {
		t.Errorf("steps are %q, want %q", got, step)
	}
}

func TestABadMetricLetsTheOthersGrow(t *testing.T) {
	w := newWorld(t, 3, 1, 10, metric("a"), metric("b"))
	p := w.decide(w.needs(6), Reading{Problem: &Problem{Reason: v1alpha1.ReasonMetricSourceUnavailable, Message: "the endpoint answered with 500"}})
	want(t, p, 6, v1alpha1.ReasonMetricAboveTarget)
	if in := p.Inputs[1]; in.Reason != v1alpha1.ReasonMetricSourceUnavailable || in.Value != nil {
		t.Errorf("input b is %+v, want no value and the reason of its source", in)
	}
}

func TestAnEmptyAnswerIsNoZero(t *testing.T) {
	w := newWorld(t, 20, 2, 50, metric("a"))
	for range 10 {
		want(t, w.after(15*time.Second, noSeries()), 20, v1alpha1.ReasonNoData)
	}
}

func TestAnEmptyAnswerIsZeroWhereThePolicySaysSo(t *testing.T) {
	w := newWorld(t, 20, 2, 50, metric("a", NoData{Action: v1alpha1.NoDataZero, FailureThreshold: 3}))
	delete(w.settings.Config, "maxScaleDownRate")
	for i, desired := range []int32{20, 20, 10, 5, 2, 2} {
		p := w.after(15*time.Second, noSeries())
		if p.Desired != desired {
			t.Fatalf("evaluation %d: got %d, want %d\n%s", i+1, p.Desired, desired, show(p))
		}
		if i >= 2 && i < 5 && (p.Reason != v1alpha1.ReasonNoData || !strings.Contains(p.Message, "noData.policy Zero")) {
			t.Errorf("evaluation %d shrinks with reason %s: %s; want NoData and the name of the setting", i+1, p.Reason, p.Message)
		}
	}
}

func TestNumbersThatAreNoneAreNoData(t *testing.T) {
	for name, x := range map[string]float64{"NaN": math.NaN(), "+Inf": math.Inf(1), "-Inf": math.Inf(-1), "negative": -1} {
		t.Run(name, func(t *testing.T) {
			for field, s := range map[string]scaling.Sample{
				"value": {Value: x, Load: 1, Base: 1}, "load": {Value: 1, Load: x, Base: 1}, "base": {Value: 1, Load: 1, Base: x},
			} {
				w := newWorld(t, 5, 1, 50, metric("a"))
				p := w.decide(Reading{Sample: &s})
				want(t, p, 5, v1alpha1.ReasonNoData)
				if p.Inputs[0].Value != nil {
					t.Errorf("%s: the value %v is on record, want none", field, *p.Inputs[0].Value)
				}
			}
		})
	}
}

func TestHugeValuesDoNotWrap(t *testing.T) {
	for _, x := range []float64{1e10, 1e19, math.MaxFloat64} {
		w := newWorld(t, 3, 1, 20, metric("a"))
		want(t, w.decide(w.needs(x)), 20, v1alpha1.ReasonMetricAboveTarget)
	}
}

func TestAtZeroTheTotalCounts(t *testing.T) {
	w := newWorld(t, 0, 0, 50, metric("a"))
	p := w.decide(w.needs(30))
	want(t, p, 30, v1alpha1.ReasonMetricAboveTarget)
	if got := p.Inputs[0].Value; got == nil || *got != 30 {
		t.Errorf("the value is %s, want the total 30", text(got))
	}
}

func TestAStaleSampleIsNoData(t *testing.T) {
	m := metric("a")
	m.MaxAge = 2 * time.Minute
	w := newWorld(t, 9, 1, 50, m)
	s := scaling.Sample{Time: w.now.Add(-6 * time.Minute), Value: 1.0 / 9, Load: 1, Base: 9}
	p := w.decide(Reading{Sample: &s})
	want(t, p, 9, v1alpha1.ReasonNoData)
	if in := p.Inputs[0]; in.Reason != v1alpha1.ReasonStale || !strings.Contains(in.Message, "6m0s") {
		t.Errorf("input is %s: %s, want Stale with the age", in.Reason, in.Message)
	}
	s.Time = w.now.Add(-2 * time.Minute)
	want(t, w.decide(Reading{Sample: &s}), 1, v1alpha1.ReasonMetricBelowTarget)
}

func TestAFallbackDoesNotSwing(t *testing.T) {
	fallback := NoData{Action: v1alpha1.NoDataFallback, FailureThreshold: 3, Replicas: 10}
	w := newWorld(t, 10, 1, 50, metric("a", fallback))
	w.settings.ScaleDown.StabilizationWindow = 3 * time.Minute
	w.memory = NewMemory(w.now, 10)
	fails, works := noSeries(), func() Reading { return w.needs(2) }
	for range 3 {
		w.after(15*time.Second, fails)
	}
	want(t, w.after(15*time.Second, works()), 10, v1alpha1.ReasonNoData)
	for range 3 {
		want(t, w.after(15*time.Second, fails), 10, v1alpha1.ReasonFallback)
	}
	// It ends after three values in a row, and then waits for a whole window.
	ended := w.now
	for w.current == 10 {
		w.after(15*time.Second, works())
	}
	if waited := w.now.Sub(ended); waited != 3*15*time.Second+3*time.Minute-15*time.Second {
		t.Errorf("the count fell %s after the last failure, want 3 evaluations and a window", waited)
	}
}

func TestAFallbackIsOneProposalAmongOthers(t *testing.T) {
	w := newWorld(t, 8, 1, 50, metric("cpu"), metric("queue", NoData{Action: v1alpha1.NoDataFallback, FailureThreshold: 1, Replicas: 4}))
	want(t, w.decide(w.needs(12), noSeries()), 12, v1alpha1.ReasonMetricAboveTarget)
	want(t, w.decide(w.needs(1), noSeries()), 4, v1alpha1.ReasonFallback)
}

func TestAFallbackLiftsTheTargetFromZero(t *testing.T) {
	w := newWorld(t, 0, 0, 50, metric("a", NoData{Action: v1alpha1.NoDataFallback, FailureThreshold: 3, Replicas: 3}))
	w.settings.ScaleUp.StabilizationWindow = time.Minute
	for _, desired := range []int32{0, 0, 3} {
		if p := w.after(15*time.Second, noSeries()); p.Desired != desired {
			t.Fatalf("got %d, want %d\n%s", p.Desired, desired, show(p))
		}
	}
}

func TestZeroByHandIsLeftAlone(t *testing.T) {
	w := newWorld(t, 0, 1, 10, metric("a"))
	p := w.decide(w.needs(5))
	want(t, p, 0, v1alpha1.ReasonManualZero)
	if p.Inputs[0].Value == nil {
		t.Error("the metric is not on record")
	}
	w.ours = true
	want(t, w.decide(w.needs(0)), 1, v1alpha1.ReasonMinReplicas)
}

func TestARestartForgetsNoWindow(t *testing.T) {
	for name, setUp := range map[string]func(*world){
		"a stabilization window": func(w *world) { w.settings.ScaleDown.StabilizationWindow = time.Minute },
		"the stable window of KPA": func(w *world) {
			w.settings.Algorithm, w.settings.Config, w.settings.Window = builtIn(t, "KPA"), nil, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 12, 1, 50, metric("a"))
			setUp(w)
			w.memory = NewMemory(w.now, 12)
			for range 15 {
				want(t, w.after(2*time.Second, noSeries()), 12, v1alpha1.ReasonNoData)
			}
			start := w.now
			for w.current == 12 {
				w.after(2*time.Second, w.needs(1))
			}
			if waited := w.now.Sub(start); waited < time.Minute || waited > time.Minute+4*time.Second {
				t.Errorf("the count fell %s after the first value, want a whole window", waited)
			}
		})
	}
}
