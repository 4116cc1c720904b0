package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/pd-orchestrator/pd-orchestrator/lab/simulator/trace"
)

var (
	mixedLabels   = map[string]string{"role": "mixed"}
	prefillLabels = map[string]string{"role": "prefill"}
	decodeLabels  = map[string]string{"role": "decode"}
)

func pod(role string, n int) Pod {
	return Pod{
		ID: fmt.Sprintf("%s-%d", role, n), Namespace: "production", Name: fmt.Sprintf("%s-%d", role, n),
		Labels: map[string]string{"role": role}, Ready: true,
	}
}

func addPods(m *Model, role string, count int) {
	for n := range count {
		m.SetPod(pod(role, n))
	}
}

// steadyStream has answers of 100 and prompts of 1000 tokens on average.
func steadyStream(rate float64) Stream {
	return Stream{
		Rate: rate, Seed: 7,
		Prompt: Lengths{Mean: 1000, Shape: Exponential}, Output: Lengths{Mean: 100, Shape: Exponential},
	}
}

func mixedService(stream Stream) Service {
	return Service{Name: "llm", Namespace: "production", Mixed: mixedLabels, Stream: stream, Engine: DefaultEngine()}
}

func splitService(stream Stream) Service {
	return Service{Name: "llm", Namespace: "production", Prefill: prefillLabels, Decode: decodeLabels, Stream: stream, Engine: DefaultEngine()}
}

// queued is the number of requests of a service that do not run.
func queued(s ServiceState) int { return s.QueuedForPrefill + s.QueuedForDecode + s.Waiting }

func TestSingleRequestTakesTheTimeThatTheParametersSay(t *testing.T) {
	// One request: 1000 prompt tokens at 10,000 per second, then 100 more tokens at 30.5 ms each.
	const firstToken, perToken = 0.1, 0.0305
	stream := Stream{Rate: 1, Evenly: true, Prompt: Lengths{Mean: 1000, Shape: Constant}, Output: Lengths{Mean: 101, Shape: Constant}}
	for name, tt := range map[string]struct {
		service Service
		first   string
		last    string
	}{
		"mixed":         {service: mixedService(stream), first: "mixed-0", last: "mixed-0"},
		"disaggregated": {service: splitService(stream), first: "prefill-0", last: "decode-0"},
	} {
		t.Run(name, func(t *testing.T) {
			m := New()
			for _, role := range []string{"mixed", "prefill", "decode"} {
				addPods(m, role, 1)
			}
			m.SetService(tt.service)
			m.Advance(1.5)
			m.StopService("llm", false)
			during, _ := m.Stats(tt.last)
			if during.Running != 1 || during.KVCacheUsage <= 0 {
				t.Errorf("while it runs: running %d, KV cache %g, want 1 and more than 0", during.Running, during.KVCacheUsage)
			}
			m.Advance(10)
			first, _ := m.Stats(tt.first)
			last, _ := m.Stats(tt.last)
			near(t, "time to first token", first.FirstToken.Sum(), firstToken)
			near(t, "latency", last.Latency.Sum(), firstToken+100*perToken)
			near(t, "time per output token", last.PerOutputToken.Sum(), perToken)
			near(t, "inter-token latency", last.InterToken.Sum(), 100*perToken)
			near(t, "KV cache at rest", last.KVCacheUsage, 0)
			for what, pair := range map[string][2]uint64{
				"first tokens":                {first.FirstToken.Count(), 1},
				"prompt tokens":               {first.PromptTokens, 1000},
				"inter-token observations":    {last.InterToken.Count(), 100},
				"requests stopped":            {last.Stopped, 1},
				"observations of queue times": {last.QueueTime.Count(), 1},
			} {
				if pair[0] != pair[1] {
					t.Errorf("%s: %d, want %d", what, pair[0], pair[1])
				}
			}
			if got := generated(m, tt.first, tt.last); got != 101 {
				t.Errorf("generated %d tokens, want 101", got)
			}
			if tt.first != tt.last && first.HandedOver != 1 {
				t.Errorf("handed over %d requests, want 1", first.HandedOver)
			}
		})
	}
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6 {
		t.Errorf("%s: %g, want %g", what, got, want)
	}
}

func generated(m *Model, pods ...string) uint64 {
	var total uint64
	seen := map[string]bool{}
	for _, id := range pods {
		if stats, ok := m.Stats(id); ok && !seen[id] {
			total += stats.GenerationTokens
		}
		seen[id] = true
	}
	return total
}

func TestMixedEngineSharesItsTime(t *testing.T) {
	e := newEngine(pod("mixed", 0), 0)
	e.role, e.params = Mixed, DefaultEngine()
	e.prefilling = runHeap{{}, {}}
	alone, _ := e.rates()
	e.decoding = runHeap{{}}
	prefill, decode := e.rates()
	near(t, "prefill of two alone", alone, 5000)
	near(t, "prefill of two beside decode", prefill, 2500)
	near(t, "decode beside prefill", decode, 0.5/0.0305)
}

func TestDecodeStepsGrowWithTheBatch(t *testing.T) {
	e := newEngine(pod("decode", 0), 0)
	e.role, e.params = Decode, DefaultEngine()
	e.decoding = runHeap{{}}
	_, one := e.rates()
	for range 63 {
		e.decoding = append(e.decoding, &request{})
	}
	_, full := e.rates()
	near(t, "step alone", 1/one, 0.0305)
	near(t, "step of a batch of 64", 1/full, 0.062)
}

func TestSameSeedSameRunWhateverTheSteps(t *testing.T) {
	run := func(step float64) []ServiceState {
		m := New()
		addPods(m, "prefill", 2)
		addPods(m, "decode", 3)
		m.SetService(splitService(steadyStream(15)))
		for now := step; now < 60; now += step {
			m.Advance(now)
		}
		m.Advance(60)
		m.DeletePod("decode-1")
		m.Advance(120)
		return m.Services()
	}
	coarse, fine := run(30), run(0.0625)
	if !reflect.DeepEqual(coarse, fine) {
		t.Errorf("states differ:\n%+v\n%+v", coarse, fine)
	}
	if coarse[0].Counts.Completed == 0 {
		t.Error("the run completed no requests, so it shows nothing")
	}
}

func TestAnotherSeedAnotherRun(t *testing.T) {
	completed := map[uint64]bool{}
	for seed := range uint64(5) {
		m := New()
		addPods(m, "mixed", 2)
		stream := steadyStream(5)
		stream.Seed = seed
		m.SetService(mixedService(stream))
		m.Advance(300)
		completed[m.Services()[0].Counts.Completed] = true
	}
	if len(completed) == 1 {
		t.Error("five seeds completed the same number of requests")
	}
}

// TestInvariants plays random changes and checks after each what must always hold.
func TestInvariants(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			m := New()
			spec := splitService(steadyStream(30))
			if seed%2 == 0 {
				spec = mixedService(steadyStream(30))
			}
			spec.KeepQueues = seed%3 == 0
			spec.Engine.KVCacheTokens = 2000 << (seed % 4)
			m.SetService(spec)
			now := 0.0
			for range 150 {
				switch role := []string{"mixed", "prefill", "decode"}[rng.IntN(3)]; rng.IntN(8) {
				case 0, 1:
					m.SetPod(pod(role, rng.IntN(6)))
				case 2:
					m.DeletePod(pod(role, rng.IntN(6)).ID)
				case 3:
					unready := pod(role, rng.IntN(6))
					unready.Ready = false
					m.SetPod(unready)
				case 4:
					spec.Stream.Rate = float64(rng.IntN(60))
					m.SetService(spec)
				case 5:
					spec.Engine.MaxBatch = 1 + rng.IntN(64)
					m.SetService(spec)
				default:
					now += rng.ExpFloat64()
					m.Advance(now)
				}
				checkInvariants(t, m)
			}
			// With pods enough and no new requests everything is served.
			m.StopService("llm", false)
			for _, role := range []string{"mixed", "prefill", "decode"} {
				addPods(m, role, 6)
			}
			m.Advance(now + 1e6)
			if left := m.Services(); len(left) != 0 {
				t.Errorf("the service is not gone after its requests were served: %+v", left)
			}
			for id, e := range m.pods {
				if stats := e.statsAt(m.now); e.reserved != 0 || stats.Running != 0 || stats.Waiting != 0 || stats.KVCacheUsage != 0 {
					t.Errorf("pod %s is not empty: %d tokens reserved, %+v", id, e.reserved, stats)
				}
			}
		})
	}
}

func checkInvariants(t *testing.T, m *Model) {
	t.Helper()
	for _, s := range m.services {
		state := s.state(m.now)
		counts := state.Counts
		if inside := queued(state) + state.Running; inside != s.inside ||
			counts.Arrived != counts.Completed+counts.Rejected+counts.Discarded+uint64(inside) {
			t.Fatalf("requests are lost or doubled: %d inside, %d counted inside, %+v", s.inside, inside, counts)
		}
	}
	for id, e := range m.pods {
		stats := e.statsAt(m.now)
		limit := max(e.params.MaxBatch, 0)
		if e.reserved < 0 || e.reserved > e.params.KVCacheTokens || stats.KVCacheUsage < 0 || stats.KVCacheUsage > 1 || stats.Running > limit {
			t.Fatalf("pod %s leaves its bounds: %d of %d tokens reserved, %+v", id, e.reserved, e.params.KVCacheTokens, stats)
		}
		if len(e.prefilling) > max(e.params.MaxPrefills, 0) {
			t.Fatalf("pod %s computes %d prompts at a time", id, len(e.prefilling))
		}
		if e.due < m.now {
			t.Fatalf("pod %s has an event at %g that was not run by %g", id, e.due, m.now)
		}
	}
}

func TestLittlesLaw(t *testing.T) {
	for name, spec := range map[string]Service{
		"mixed":         mixedService(steadyStream(8)),
		"disaggregated": splitService(steadyStream(8)),
	} {
		t.Run(name, func(t *testing.T) {
			m := New()
			for _, role := range []string{"mixed", "prefill", "decode"} {
				addPods(m, role, 2)
			}
			m.SetService(spec)
			const warmUp, end = 200, 2200
			m.Advance(warmUp)
			before := m.Services()[0]
			var area float64
			for now := warmUp + 1.0; now <= end; now++ {
				m.Advance(now)
				state := m.Services()[0]
				area += float64(queued(state) + state.Running)
			}
			after := m.Services()[0]
			inside := area / (end - warmUp)
			rate := float64(after.Counts.Arrived-before.Counts.Arrived) / (end - warmUp)
			latency := meanLatency(after)
			if want := rate * latency; math.Abs(inside-want) > 0.05*want {
				t.Errorf("%.2f requests in the service on average, want %.2f/s x %.2f s = %.2f", inside, rate, latency, want)
			}
		})
	}
}

// meanLatency is that of the requests that ended at decode or mixed pods.
func meanLatency(s ServiceState) float64 {
	var sum float64
	var count uint64
	for _, p := range s.Pods {
		if p.Role != Prefill {
			sum += p.Stats.Latency.Sum()
			count += p.Stats.Latency.Count()
		}
	}
	return sum / float64(count)
}

func TestMoreReplicasShorterQueue(t *testing.T) {
	for name, service := range map[string]func(Stream) Service{"mixed": mixedService, "disaggregated": splitService} {
		t.Run(name, func(t *testing.T) {
			last := math.MaxInt
			for _, replicas := range []int{1, 2, 4, 8} {
				m := New()
				for _, role := range []string{"mixed", "prefill", "decode"} {
					addPods(m, role, replicas)
				}
				m.SetService(service(steadyStream(30)))
				m.Advance(300)
				state := m.Services()[0]
				got := queued(state)
				if got > last || (replicas == 1 && got < 1000) || (replicas == 8 && got > 20) {
					t.Errorf("%d replicas leave %d requests waiting, fewer left %d", replicas, got, last)
				}
				last = got
			}
		})
	}
}

func TestPodsThatBecomeReadyShareTheQueue(t *testing.T) {
	for name, tt := range map[string]struct {
		keep bool
		want func(old, added int) bool
	}{
		"spread again":        {keep: false, want: func(old, added int) bool { return old > 0 && math.Abs(float64(old-added)) <= 64 }},
		"left where they are": {keep: true, want: func(old, added int) bool { return old > 100 && added == 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			m := New()
			addPods(m, "mixed", 1)
			spec := mixedService(steadyStream(40))
			spec.KeepQueues = tt.keep
			m.SetService(spec)
			m.Advance(60)
			starting := pod("mixed", 1)
			starting.Ready = false
			m.SetPod(starting)
			if stats, _ := m.Stats("mixed-1"); stats.Waiting+stats.Running != 0 {
				t.Errorf("a pod that is not ready has requests: %+v", stats)
			}
			m.SetPod(pod("mixed", 1))
			old, _ := m.Stats("mixed-0")
			added, _ := m.Stats("mixed-1")
			if !tt.want(old.Waiting, added.Waiting) {
				t.Errorf("%d wait at the old pod and %d at the new one", old.Waiting, added.Waiting)
			}
		})
	}
}

func TestRequestsWaitInTheServiceWhileThereIsNoPod(t *testing.T) {
	m := New()
	m.SetService(splitService(steadyStream(10)))
	m.Advance(10)
	before := m.Services()[0]
	if before.QueuedForPrefill == 0 || uint64(before.QueuedForPrefill) != before.Counts.Arrived {
		t.Errorf("%d of %d requests wait for a prefill pod, want all", before.QueuedForPrefill, before.Counts.Arrived)
	}
	addPods(m, "prefill", 4)
	m.Advance(40)
	if state := m.Services()[0]; state.QueuedForPrefill != 0 || state.QueuedForDecode == 0 {
		t.Errorf("with prefill pods only, %d wait for prefill and %d for decode", state.QueuedForPrefill, state.QueuedForDecode)
	}
	addPods(m, "decode", 8)
	m.StopService("llm", false)
	m.Advance(1000)
	if services := m.Services(); len(services) != 0 {
		t.Errorf("the queue is not drained: %+v", services)
	}
}

func TestRequestsOfADeletedPodAreServedByOthers(t *testing.T) {
	m := New()
	addPods(m, "mixed", 2)
	m.SetService(mixedService(steadyStream(20)))
	m.Advance(20)
	lost, _ := m.Stats("mixed-0")
	if lost.Running == 0 {
		t.Fatal("the pod to delete runs nothing")
	}
	m.DeletePod("mixed-0")
	if _, ok := m.Stats("mixed-0"); ok {
		t.Error("the deleted pod still has statistics")
	}
	m.StopService("llm", false)
	arrived := m.Services()[0].Counts.Arrived
	var last ServiceState
	for now := 21.0; len(m.Services()) > 0 && now < 1000; now++ {
		last = m.Services()[0]
		m.Advance(now)
	}
	if len(m.Services()) > 0 || last.Counts.Arrived != arrived {
		t.Errorf("requests are left: %+v", m.Services())
	}
	// A pod of the same name that comes later begins at zero.
	m.SetPod(pod("mixed", 0))
	if stats, _ := m.Stats("mixed-0"); stats.PromptTokens != 0 || stats.Latency.Count() != 0 {
		t.Errorf("a new pod begins with %+v", stats)
	}
}

func TestInterruptedRequestGeneratesEachTokenOnce(t *testing.T) {
	m := New()
	addPods(m, "mixed", 1)
	m.SetService(mixedService(Stream{Rate: 1, Evenly: true, Prompt: Lengths{Mean: 1000, Shape: Constant}, Output: Lengths{Mean: 101, Shape: Constant}}))
	m.Advance(1.5)
	m.StopService("llm", false)
	m.Advance(2.5)
	before, _ := m.Stats("mixed-0")
	m.DeletePod("mixed-0")
	m.SetPod(pod("mixed", 1))
	m.Advance(100)
	after, _ := m.Stats("mixed-1")
	if total := before.GenerationTokens + after.GenerationTokens; total != 101 {
		t.Errorf("generated %d + %d tokens, want 101 in all", before.GenerationTokens, after.GenerationTokens)
	}
	if after.FirstToken.Count() != 0 {
		t.Error("the second pod counted a first token that the request already had")
	}
	if after.PromptTokens != 1000+before.GenerationTokens {
		t.Errorf("the second pod prefilled %d tokens, want 1000 and the %d generated", after.PromptTokens, before.GenerationTokens)
	}
}

func TestStopping(t *testing.T) {
	m := New()
	m.SetService(mixedService(steadyStream(10)))
	m.Advance(5)
	if m.StopService("other", false) {
		t.Error("a service that does not exist was stopped")
	}
	m.StopService("llm", false)
	m.Advance(10)
	state := m.Services()[0]
	if !state.Ending || state.Streaming || state.QueuedForPrefill != int(state.Counts.Arrived) {
		t.Errorf("a stopped service must keep its queue and take nothing new: %+v", state)
	}
	m.StopService("llm", true)
	if len(m.Services()) != 0 {
		t.Error("a discarded service is still there")
	}
}

func TestPodBelongsToTheOldestServiceThatSelectsIt(t *testing.T) {
	m := New()
	addPods(m, "mixed", 1)
	first, second := mixedService(steadyStream(10)), mixedService(steadyStream(10))
	second.Name = "second"
	m.SetService(first)
	m.SetService(second)
	m.Advance(5)
	if states := m.Services(); len(states[0].Pods) != 1 || len(states[1].Pods) != 0 {
		t.Errorf("pods: %v and %v", states[0].Pods, states[1].Pods)
	}
	m.StopService("llm", true)
	if states := m.Services(); len(states) != 1 || len(states[0].Pods) != 1 || states[0].QueuedForPrefill != 0 {
		t.Errorf("the pod did not move to the service that is left: %+v", states)
	}
	relabelled := pod("mixed", 0)
	relabelled.Labels = decodeLabels
	m.SetPod(relabelled)
	if states := m.Services(); len(states[0].Pods) != 0 || states[0].QueuedForPrefill == 0 {
		t.Errorf("a pod that is no longer selected must leave its requests behind: %+v", states)
	}
}

func TestNewStreamKeepsTheQueue(t *testing.T) {
	m := New()
	addPods(m, "mixed", 1)
	m.SetService(mixedService(steadyStream(40)))
	m.Advance(60)
	before := m.Services()[0]
	m.SetService(mixedService(steadyStream(0)))
	after := m.Services()[0]
	if after.Streaming || queued(after) != queued(before) || after.Running != before.Running || after.Counts != before.Counts {
		t.Errorf("the new stream changed more than the stream:\n%+v\n%+v", before, after)
	}
}

func TestRatesAreThoseOfTheLastSeconds(t *testing.T) {
	m := New()
	addPods(m, "mixed", 8)
	stream := steadyStream(10)
	stream.Evenly = true
	m.SetService(mixedService(stream))
	m.Advance(60.5)
	state := m.Services()[0]
	near(t, "arrival rate", state.ArrivalRate, 10)
	if state.CompletionRate < 7 || state.CompletionRate > 13 {
		t.Errorf("completion rate %g, want about 10", state.CompletionRate)
	}
	m.SetService(mixedService(steadyStream(0)))
	m.Advance(90.5)
	near(t, "arrival rate after the end", m.Services()[0].ArrivalRate, 0)
}

func TestQueueIsBounded(t *testing.T) {
	m := New()
	m.SetService(mixedService(Stream{Rate: 100_000, Evenly: true, Prompt: Lengths{Mean: 1, Shape: Constant}, Output: Lengths{Mean: 1, Shape: Constant}}))
	m.Advance(10.5)
	state := m.Services()[0]
	if state.QueuedForPrefill != maxInService || state.Counts.Rejected == 0 {
		t.Errorf("%d wait, %d were rejected", state.QueuedForPrefill, state.Counts.Rejected)
	}
	checkInvariants(t, m)
}

func TestReplay(t *testing.T) {
	for _, name := range trace.Names() {
		t.Run(name, func(t *testing.T) {
			recorded, err := trace.Load(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, speed := range []float64{1, 10} {
				source := Stream{Trace: recorded, Speed: speed, Seed: 3}.source(100)
				got := make([]trace.Bin, len(recorded.Bins))
				last := 0.0
				for a, ok := source.next(); ok; a, ok = source.next() {
					if a.at < last || a.prompt < 1 || a.output < 1 {
						t.Fatalf("arrival %+v after one at %g", a, last)
					}
					last = a.at
					bin := &got[int((a.at-100)*speed/recorded.BinSeconds)]
					bin.Requests++
					bin.PromptTokens += a.prompt
					bin.OutputTokens += a.output
				}
				for i, want := range recorded.Bins {
					// Each request's tokens are rounded, and are at least 1.
					slack := float64(want.Requests)
					if got[i].Requests != want.Requests ||
						math.Abs(float64(got[i].PromptTokens-want.PromptTokens)) > slack ||
						math.Abs(float64(got[i].OutputTokens-want.OutputTokens)) > slack {
						t.Fatalf("bin %d at speed %g: got %+v, want %+v", i, speed, got[i], want)
					}
				}
			}
		})
	}
}

func TestReplayLoops(t *testing.T) {
	short := &trace.Trace{BinSeconds: 10, Bins: []trace.Bin{{Requests: 2, PromptTokens: 20, OutputTokens: 4}, {}}, PromptQuantiles: []float64{1, 100}, OutputQuantiles: []float64{1, 5}}
	source := Stream{Trace: short, Speed: 10, Loop: true}.source(0)
	for i := range 100 {
		a, ok := source.next()
		if round := float64(i / 2); !ok || a.at < 2*round || a.at > 2*round+1 {
			t.Fatalf("arrival %d at %g (more: %v), want it in the second from %g", i, a.at, ok, 2*round)
		}
	}
	empty := &trace.Trace{BinSeconds: 10, Bins: make([]trace.Bin, 3)}
	if _, ok := (Stream{Trace: empty, Speed: 1, Loop: true}).source(0).next(); ok {
		t.Error("an empty trace gave a request")
	}
}

func TestLengthsHaveTheirMean(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, lengths := range []Lengths{
		{Mean: 500, Shape: Constant},
		{Mean: 500, Shape: Exponential},
		{Mean: 500, Shape: LogNormal, Variation: 0.5},
		{Mean: 500, Shape: LogNormal, Variation: 2},
	} {
		const draws = 200_000
		sum := 0.0
		for range draws {
			sum += float64(lengths.draw(rng))
		}
		if mean := sum / draws; math.Abs(mean-500) > 15 {
			t.Errorf("%+v: mean %g, want 500", lengths, mean)
		}
	}
}

func BenchmarkThousandBusyPods(b *testing.B) {
	m := New()
	addPods(m, "mixed", 1000)
	m.SetService(mixedService(steadyStream(4000)))
	m.Advance(30)
	now := 30.0
	for b.Loop() {
		now++
		m.Advance(now)
	}
}
