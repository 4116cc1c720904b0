package algorithm

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

// autoscaled runs KPA with a sample every two seconds, and writes what it recommends.
type autoscaled struct {
	now     time.Time
	current int32
	samples []scaling.Sample
	state   any
}

func (a *autoscaled) tick(t *testing.T, load float64) int32 {
	t.Helper()
	a.now = a.now.Add(2 * time.Second)
	a.samples = append(a.samples, scaling.Sample{Time: a.now, Value: load, Load: load, Base: float64(a.current)})
	r := calculate(t, kpa{}, scaling.Input{
		Now: a.now, CurrentReplicas: a.current, Window: time.Minute, State: a.state,
		Metrics: []scaling.Metric{{MetricInfo: scaling.MetricInfo{Name: "concurrency"}, Target: 1, Samples: a.samples}},
	})
	a.state, a.current = r.State, r.Replicas
	return r.Replicas
}

// until ticks until the count is another one, and returns how long that took.
func (a *autoscaled) until(t *testing.T, load float64) (time.Duration, int32) {
	t.Helper()
	start, before := a.now, a.current
	for range 1000 {
		if a.tick(t, load) != before {
			break
		}
	}
	return a.now.Sub(start), a.current
}

func TestKPAPanicsAndCalmsDown(t *testing.T) {
	a := &autoscaled{now: now, current: 1}
	for range 30 {
		if got := a.tick(t, 1); got != 1 {
			t.Fatalf("a steady load gives %d, want 1", got)
		}
	}
	// A burst is answered within the panic window of 6 s, and not with the mean of a minute.
	var up []int32
	for range 4 {
		up = append(up, a.tick(t, 10))
	}
	if diff := cmp.Diff([]int32{4, 7, 10, 10}, up); diff != "" {
		t.Errorf("counts of a burst (-want +got):\n%s", diff)
	}
	// In panic nothing shrinks, until a stable window has passed since the first of these, when the load was last above twice
	// what the replicas could carry.
	took, count := a.until(t, 2)
	if took += 6 * time.Second; took < time.Minute || took > 66*time.Second || count >= 10 {
		t.Errorf("after the burst the count went to %d after %s, want less than 10 after a stable window", count, took)
	}
	if a.current > 6 || a.current < 2 {
		t.Errorf("the count fell to %d, want the mean of the window, and at least half of 10", a.current)
	}
}

func TestKPAHoldsWithoutMemory(t *testing.T) {
	a := &autoscaled{now: now, current: 12}
	took, count := a.until(t, 1)
	if took < time.Minute || took > 66*time.Second || count != 6 {
		t.Errorf("without memory the count went to %d after %s, want 6 (by the rate) once a stable window was seen", count, took)
	}
	a = &autoscaled{now: now, current: 1}
	if took, count := a.until(t, 0); took != 2*time.Second || count != 0 {
		t.Errorf("a single replica without load went to %d after %s, want 0 at once", count, took)
	}
}

func TestKPALimits(t *testing.T) {
	in := scaling.Input{CurrentReplicas: 4, Window: time.Minute, Config: map[string]string{"maxScaleUpRate": "1.5"}, State: make(kpaState, 1)}
	in.Metrics = []scaling.Metric{metric("a", 4, 7)}
	if r := calculate(t, kpa{}, in); r.Replicas != 6 || steps(r) != "AlgorithmRate 7>6 ScaleUpLimit" {
		t.Errorf("got %d with steps %q, want 6, limited by the rate", r.Replicas, steps(r))
	}
	in.Metrics = []scaling.Metric{metric("a", 5, 1)}
	if r := calculate(t, kpa{}, in); r.Replicas != 2 || steps(r) != "AlgorithmRate 1>2 ScaleDownLimit" {
		t.Errorf("got %d with steps %q, want half of the 5 that carry the load, rounded down", r.Replicas, steps(r))
	}
	in.Config = nil
	in.Metrics = []scaling.Metric{metric("a", 4, 1, 1, 1, 8)}
	r := calculate(t, kpa{}, in)
	if r.Replicas != 8 || steps(r) != "Panic 3>8 Panic" {
		t.Errorf("got %d with steps %q, want the 8 of the panic window", r.Replicas, steps(r))
	}
	in.Metrics, in.State = []scaling.Metric{metric("a", 4, 1, 1, 8, 1)}, r.State
	if r := calculate(t, kpa{}, in); r.Replicas != 8 {
		t.Errorf("in panic the count went to %d, want 8 as before", r.Replicas)
	}
}

func TestKPALeavesTheStateItWasGiven(t *testing.T) {
	before := kpaState{{since: now.Add(-time.Second), peak: 3}}
	in := scaling.Input{CurrentReplicas: 3, Window: time.Minute, State: before, Metrics: []scaling.Metric{metric("a", 3, 30)}}
	calculate(t, kpa{}, in)
	if before[0].peak != 3 || !before[0].since.Equal(now.Add(-time.Second)) {
		t.Errorf("the state that went in has become %+v", before[0])
	}
}

func TestWindowOfKPA(t *testing.T) {
	for want, config := range map[time.Duration]map[string]string{
		time.Minute:     nil,
		2 * time.Minute: {"stableWindowSeconds": "120"},
	} {
		if got := (kpa{}).Window(config); got != want {
			t.Errorf("with %v: %s, want %s", config, got, want)
		}
	}
	if got := (kpa{}).Window(map[string]string{"stableWindowSeconds": "soon"}); got != time.Minute {
		t.Errorf("with a setting that cannot be used: %s, want a minute", got)
	}
}
