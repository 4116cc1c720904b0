package pipeline

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/algorithm"
	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

var epoch = time.Date(2026, 6, 15, 12, 0, 0, 0, time.UTC)

// world is a target, a scaler and the time.
type world struct {
	t        testing.TB
	now      time.Time
	current  int32
	ours     bool
	settings Settings
	memory   *Memory
}

// newWorld returns a world in which nothing delays or limits a decision, after the memory of the beginning has gone.
func newWorld(t testing.TB, current, least, most int32, metrics ...Metric) *world {
	t.Helper()
	return &world{
		t: t, now: epoch, current: current,
		settings: Settings{
			Algorithm: builtIn(t, "APA"), Config: map[string]string{"maxScaleUpRate": "1000", "maxScaleDownRate": "1000"},
			Window: new(time.Duration(0)), MinReplicas: least, MaxReplicas: most, Metrics: metrics,
		},
		memory: NewMemory(epoch.Add(-time.Hour), current),
	}
}

var builtIns = sync.OnceValues(func() (*scaling.Registry, error) {
	r := scaling.NewRegistry()
	return r, algorithm.Register(r)
})

func builtIn(t testing.TB, name string) scaling.ScalingAlgorithm {
	t.Helper()
	r, err := builtIns()
	if err != nil {
		t.Fatal(err)
	}
	a, ok := r.Lookup(name)
	if !ok {
		t.Fatalf("no algorithm %s", name)
	}
	return a
}

// metric is one with a target of 1 per replica, so that its total is the count that it needs.
func metric(name string, noData ...NoData) Metric {
	m := Metric{MetricInfo: scaling.MetricInfo{Type: "External", Name: name}, Key: name, Target: 1}
	if len(noData) > 0 {
		m.NoData = noData[0]
	}
	return m
}

func (w *world) needs(total float64) Reading {
	s := scaling.Sample{Time: w.now, Value: total, Load: total, Base: float64(w.current)}
	if w.current > 0 {
		s.Value /= float64(w.current)
	}
	return Reading{Sample: &s}
}

func noSeries() Reading {
	return Reading{Problem: &Problem{Reason: v1alpha1.ReasonNoData, Message: "the query gives no series"}}
}

// decide decides once, without writing.
func (w *world) decide(readings ...Reading) Plan {
	w.t.Helper()
	return Decide(context.Background(), Facts{
		Now: w.now, Target: scaling.Target{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "ns", Name: "engine"},
		Current: w.current, ZeroIsOurs: w.ours, Settings: w.settings, Readings: readings,
	}, w.memory)
}

// after decides after a time, and writes the result.
func (w *world) after(d time.Duration, readings ...Reading) Plan {
	w.t.Helper()
	w.now = w.now.Add(d)
	p := w.decide(readings...)
	if p.Desired != w.current {
		w.memory.Recorded(w.now, w.current, p.Desired)
		w.current, w.ours = p.Desired, true
	}
	return p
}

// want checks the outcome.
func want(t testing.TB, p Plan, desired int32, reason string) {
	t.Helper()
	if p.Desired != desired || p.Reason != reason {
		t.Errorf("got %d %s, want %d %s\n%s", p.Desired, p.Reason, desired, reason, show(p))
	}
}

// show writes a plan for a reader of a failed test.
func show(p Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "desired %d, recommended %d, calculated %v, %s: %s, err %v\n", p.Desired, p.Recommended, p.Calculated, p.Reason, p.Message, p.Err)
	for _, in := range p.Inputs {
		fmt.Fprintf(&b, "  input %s: value %s, proposed %s, %s: %s\n", in.Name, text(in.Value), text(in.Proposed), in.Reason, in.Message)
	}
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "  step %s: %d to %d, %s: %s\n", s.Name, s.From, s.To, s.Reason, s.Message)
	}
	return b.String()
}

func text[T any](p *T) string {
	if p == nil {
		return "none"
	}
	return fmt.Sprint(*p)
}

func steps(p Plan) string {
	var out []string
	for _, s := range p.Steps {
		out = append(out, fmt.Sprintf("%s %d>%d %s", s.Name, s.From, s.To, s.Reason))
	}
	return strings.Join(out, ", ")
}

func pods(n, seconds int32) autoscalingv2.HPAScalingPolicy {
	return autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: n, PeriodSeconds: seconds}
}

func percent(n, seconds int32) autoscalingv2.HPAScalingPolicy {
	return autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: n, PeriodSeconds: seconds}
}
