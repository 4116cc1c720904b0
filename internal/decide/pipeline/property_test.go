package pipeline

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

// bytesSource makes a world out of the bytes of a fuzzer, and of zeros after them.
type bytesSource []byte

func (b *bytesSource) byte() byte {
	if len(*b) == 0 {
		return 0
	}
	x := (*b)[0]
	*b = (*b)[1:]
	return x
}

func (b *bytesSource) below(n int) int { return int(b.byte()) % n }

func (b *bytesSource) int32() int32 {
	var raw [4]byte
	for i := range raw {
		raw[i] = b.byte()
	}
	return int32(binary.LittleEndian.Uint32(raw[:]))
}

// number is any float, and more often an ordinary one.
func (b *bytesSource) number() float64 {
	if b.below(3) > 0 {
		return float64(b.byte()) / 4
	}
	var raw [8]byte
	for i := range raw {
		raw[i] = b.byte()
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(raw[:]))
}

func (b *bytesSource) rules() Rules {
	r := Rules{
		StabilizationWindow: time.Duration(b.byte()) * time.Second,
		SelectPolicy:        []autoscalingv2.ScalingPolicySelect{"", autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect, autoscalingv2.DisabledPolicySelect}[b.below(4)],
	}
	if b.below(3) == 0 {
		r.MaxPodsPerStep = new(b.int32())
	}
	for range b.below(3) {
		p := autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: b.int32(), PeriodSeconds: b.int32()}
		if b.below(2) == 0 {
			p.Type = autoscalingv2.PercentScalingPolicy
		}
		r.Policies = append(r.Policies, p)
	}
	return r
}

func (b *bytesSource) reading() Reading {
	switch b.below(4) {
	case 0:
		return Reading{Problem: &Problem{Reason: v1alpha1.ReasonNoData, Message: "none"}}
	case 1:
		return Reading{}
	}
	return Reading{Sample: &scaling.Sample{Value: b.number(), Load: b.number(), Base: b.number()}}
}

func (b *bytesSource) world(t testing.TB) *world {
	t.Helper()
	t.Helper()
	names := []string{"APA", "KPA", "CEL"}
	name := names[b.below(len(names))]
	current := b.int32()
	if b.below(2) == 0 {
		current %= 100
	}
	w := newWorld(t, max(current, 0), max(b.int32()%100, 0), 0)
	w.settings.MaxReplicas = max(w.settings.MinReplicas+int32(b.byte()), 1)
	w.settings.Algorithm = builtIn(t, name)
	w.settings.Config = map[string]string{"expression": []string{"replicas", "metrics.a.load * 1e300", "metrics.a.value", "1 / 0"}[b.below(4)]}
	w.settings.Window = new(time.Duration(b.byte()) * time.Second)
	w.settings.ScaleUp, w.settings.ScaleDown = b.rules(), b.rules()
	for range 1 + b.below(3) {
		m := metric(string(rune('a' + b.below(2))))
		m.NoData = NoData{
			Action:           []v1alpha1.NoDataAction{"", v1alpha1.NoDataHold, v1alpha1.NoDataIgnore, v1alpha1.NoDataZero, v1alpha1.NoDataFallback}[b.below(5)],
			FailureThreshold: b.int32() % 4, Replicas: max(b.int32(), 0),
		}
		w.settings.Metrics = append(w.settings.Metrics, m)
	}
	w.memory = NewMemory(w.now, w.current)
	return w
}

// usableReading tells whether a decision can use a reading.
func usableReading(r Reading) bool {
	if r.Problem != nil || r.Sample == nil {
		return false
	}
	for _, x := range []float64{r.Sample.Value, r.Sample.Load, r.Sample.Base} {
		if math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
			return false
		}
	}
	return true
}

func FuzzDecide(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		seed := make([]byte, 200)
		for i := range seed {
			seed[i] = byte(r.UintN(256))
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b := bytesSource(data)
		w := b.world(t)
		for len(b) > 0 {
			readings := make([]Reading, len(w.settings.Metrics))
			for i := range readings {
				readings[i] = b.reading()
			}
			before, ours := w.current, w.ours
			p := w.after(time.Duration(b.byte())*time.Second, readings...)

			// The bounds hold, but for a target that somebody switched off.
			if off := before == 0 && !ours && w.settings.MinReplicas > 0; off != (p.Reason == v1alpha1.ReasonManualZero) || off && p.Desired != 0 {
				t.Fatalf("a target at %d, set by us: %v, minimum %d\n%s", before, ours, w.settings.MinReplicas, show(p))
			} else if !off && (p.Desired < w.settings.MinReplicas || p.Desired > w.settings.MaxReplicas) {
				t.Fatalf("out of the bounds %d to %d\n%s", w.settings.MinReplicas, w.settings.MaxReplicas, show(p))
			}

			// What is missing lowers nothing, unless a policy says so.
			holds := false
			for i, m := range w.settings.Metrics {
				holds = holds || (m.NoData.Action == "" || m.NoData.Action == v1alpha1.NoDataHold) && !usableReading(readings[i])
			}
			if holds && p.Desired < min(before, w.settings.MaxReplicas) {
				t.Fatalf("a missing metric lowered %d\n%s", before, show(p))
			}

			// What a status holds of it is whole: the steps lead from one to the next, to the result.
			if n := len(p.Steps); len(p.Inputs) != len(readings) || n > 32 || p.Reason == "" || p.Message == "" || n > 0 && p.Steps[n-1].To != p.Desired {
				t.Fatalf("%d inputs, %d steps\n%s", len(p.Inputs), n, show(p))
			}
			for _, in := range p.Inputs {
				if in.Value != nil && !(*in.Value >= 0 && *in.Value <= math.MaxFloat64) || in.Proposed != nil && *in.Proposed < 0 {
					t.Fatalf("an input is no number\n%s", show(p))
				}
			}
			for i, s := range p.Steps {
				if s.From < 0 || s.To < 0 || i > 0 && s.From != p.Steps[i-1].To {
					t.Fatalf("step %d does not follow from the one before\n%s", i, show(p))
				}
			}
		}
	})
}

func TestMoreLoadNeverGivesLess(t *testing.T) {
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 3))
		data := make([]byte, 64)
		for i := range data {
			data[i] = byte(r.UintN(256))
		}
		// Two worlds of the same past, and then of different loads.
		build := func() *world {
			b := bytesSource(data)
			w := b.world(t)
			w.current, w.settings.Metrics = r.Int32N(20), []Metric{metric("a"), metric("b")}
			w.settings.Config = map[string]string{"expression": "metrics.a.load + metrics.b.average"}
			return w
		}
		low := build()
		high := build()
		high.current = low.current
		high.memory, low.memory = NewMemory(epoch, low.current), NewMemory(epoch, low.current)
		for range r.IntN(10) {
			x, y, d := r.Float64()*30, r.Float64()*30, time.Duration(1+r.IntN(30))*time.Second
			low.after(d, low.needs(x), low.needs(y))
			high.after(d, high.needs(x), high.needs(y))
		}
		x, y := r.Float64()*30, r.Float64()*30
		more := x + r.ExpFloat64()
		if p, q := low.decide(low.needs(x), low.needs(y)), high.decide(high.needs(more), high.needs(y)); p.Desired > q.Desired {
			t.Fatalf("seed %d: a load of %v gives %d, and %v gives %d\n%s\n%s", seed, x, p.Desired, more, q.Desired, show(p), show(q))
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	w := newWorld(b, 5, 1, 50, metric("a"), metric("b"))
	w.settings.Window, w.settings.ScaleDown.StabilizationWindow = new(time.Minute), 3*time.Minute
	b.ReportAllocs()
	for i := range b.N {
		w.after(15*time.Second, w.needs(float64(i%40)), w.needs(3))
	}
}
