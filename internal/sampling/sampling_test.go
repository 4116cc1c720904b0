package sampling

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pd-orchestrator/pd-orchestrator/internal/metricsource"
)

const interval = 15 * time.Second

// reader counts what is sent, and takes as long as it is told to.
type reader struct {
	mu    sync.Mutex
	sent  map[string][]time.Time
	takes map[string]time.Duration
}

func (r *reader) Read(ctx context.Context, request metricsource.Request) (metricsource.Answer, error) {
	r.mu.Lock()
	r.sent[request.Query] = append(r.sent[request.Query], time.Now())
	takes := r.takes[request.Query]
	r.mu.Unlock()
	select {
	case <-ctx.Done():
		return metricsource.Answer{}, &metricsource.Error{Reason: metricsource.MetricSourceUnavailable, Message: "no answer in time"}
	case <-time.After(takes):
		return metricsource.Answer{Value: float64(len(request.Query)), Time: time.Now()}, nil
	}
}

// take returns when a query was sent since the last call.
func (r *reader) take(query string) []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	sent := r.sent[query]
	delete(r.sent, query)
	return sent
}

type bench struct {
	*Sampler
	reader *reader
	queue  workqueue.TypedRateLimitingInterface[reconcile.Request]
	stop   context.CancelFunc
}

// woken are the scalers that are queued.
func (b *bench) woken() []string {
	synctest.Wait()
	var names []string
	for b.queue.Len() > 0 {
		request, _ := b.queue.Get()
		b.queue.Done(request)
		names = append(names, request.Name)
	}
	slices.Sort(names)
	return names
}

// within runs a test in a bubble whose time passes at once, and that ends only when no goroutine is left.
func within(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &reader{sent: map[string][]time.Time{}, takes: map[string]time.Duration{}}
		b := &bench{
			Sampler: New(metricsource.NewShared(metricsource.SharedOptions{Reader: r, Clock: clock.RealClock{}}), clock.RealClock{}),
			reader:  r,
			queue:   workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]()),
		}
		var ctx context.Context
		ctx, b.stop = context.WithCancel(t.Context())
		if err := b.Start(ctx, b.queue); err != nil {
			t.Fatal(err)
		}
		test(t, b)
		b.stop()
		b.queue.ShutDown()
	})
}

func key(name string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: name} }

func asking(queries ...string) Spec {
	spec := Spec{Interval: interval}
	for _, query := range queries {
		spec.Requests = append(spec.Requests, metricsource.Request{Kind: metricsource.Endpoint, URL: "http://prometheus", Query: query})
	}
	return spec
}

func expect(t *testing.T, when string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s %q are queued, want %q", when, got, want)
	}
}

func TestTheFirstRoundIsAtOnceAndTheRestEachInterval(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		t.Helper()
		if _, ok := b.Round(key("a")); ok {
			t.Error("there is a round of a scaler that nobody set")
		}
		start := time.Now()
		b.Set(key("a"), asking("up", "queue"))
		expect(t, "at once", b.woken(), "a")
		round, ok := b.Round(key("a"))
		if !ok || !round.Time.Equal(start) || len(round.Answers) != 2 || round.Answers[0].Answer.Value != 2 || round.Answers[1].Answer.Value != 5 || round.Answers[0].Err != nil {
			t.Errorf("round %+v (%v), want the answers of both in their order", round, ok)
		}
		var rounds []time.Time
		for range 300 {
			time.Sleep(interval / 10)
			for _, name := range b.woken() {
				expect(t, "then", []string{name}, "a")
				round, _ := b.Round(key("a"))
				rounds = append(rounds, round.Time)
				// The controller says again what it wants in each pass.
				b.Set(key("a"), asking("up", "queue"))
			}
		}
		if first := rounds[0].Sub(start); first < interval/2 || first > 3*interval/2 {
			t.Errorf("the second round was %v after the first", first)
		}
		for i := range rounds[1:] {
			if d := rounds[i+1].Sub(rounds[i]); d != interval {
				t.Errorf("rounds %v apart, want %v", d, interval)
			}
		}
		if len(rounds) < 29 || len(b.reader.take("up")) != len(rounds)+1 {
			t.Errorf("%d rounds in 30 intervals", len(rounds))
		}
	})
}

func TestIdenticalQueriesAreSentOncePerRound(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		t.Helper()
		// Created at different times, and asking in a different order.
		for i := range 20 {
			b.Set(key(fmt.Sprint(i)), asking("up", "queue"))
			time.Sleep(700 * time.Millisecond)
		}
		for i := range 20 {
			b.Set(key(fmt.Sprint(20+i)), asking("queue", "up"))
			time.Sleep(700 * time.Millisecond)
		}
		time.Sleep(2 * interval)
		b.reader.take("up")
		b.reader.take("queue")
		b.woken()
		time.Sleep(10 * interval)
		// Two groups of scalers have their moments apart; where that is less than half of an interval, one group takes over
		// the answers of the other.
		for _, query := range []string{"up", "queue"} {
			if n := len(b.reader.take(query)); n < 10 || n > 20 {
				t.Errorf("%q was sent %d times in 10 rounds of 40 scalers", query, n)
			}
		}
		if n := len(b.woken()); n != 40 {
			t.Errorf("%d scalers are queued, want all", n)
		}
	})
}

func TestAnAnswerOfLessThanHalfAnIntervalServesTheOthers(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		t.Helper()
		b.Set(key("a"), asking("a", "shared"))
		b.woken()
		time.Sleep(interval/2 - time.Second)
		b.Set(key("b"), asking("b", "shared"))
		expect(t, "at once", b.woken(), "b")
		if n := len(b.reader.take("shared")); n != 1 {
			t.Errorf("sent %d times, want once", n)
		}
		b.Forget(key("a"))
		b.Forget(key("b"))
		time.Sleep(2 * time.Second)
		b.Set(key("c"), asking("c", "shared"))
		expect(t, "at once", b.woken(), "c")
		if n := len(b.reader.take("shared")); n != 1 {
			t.Errorf("sent %d times, want a fresh answer after half an interval", n)
		}
	})
}

func TestTheLoadIsSpreadOverTheInterval(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		t.Helper()
		const scalers, parts = 1000, 5
		for i := range scalers {
			b.Set(key(fmt.Sprint(i)), asking(fmt.Sprint("query", i)))
		}
		time.Sleep(2 * interval)
		b.woken()
		for part := range parts {
			time.Sleep(interval / parts)
			if n := len(b.woken()); n < scalers/parts/2 || n > scalers/parts*2 {
				t.Errorf("%d of %d scalers in part %d of %d of an interval", n, scalers, part, parts)
			}
		}
	})
}

func TestASlowSourceHoldsUpItsOwnScalersOnly(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		t.Helper()
		b.reader.takes["slow"] = 4 * time.Second
		b.Set(key("slow"), asking("slow"))
		b.Set(key("both"), asking("fast", "slow"))
		b.Set(key("fast"), asking("fast"))
		expect(t, "at once", b.woken(), "fast")
		time.Sleep(4 * time.Second)
		expect(t, "after 4s", b.woken(), "both", "slow")
	})
}

func TestARoundThatRunsIsNotDoubled(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		t.Helper()
		b.reader.takes["slow"] = 4 * time.Second
		spec := asking("slow")
		spec.Interval = time.Second
		b.Set(key("a"), spec)
		time.Sleep(40*time.Second + time.Millisecond)
		b.woken()
		sent := b.reader.take("slow")
		if len(sent) < 8 || len(sent) > 11 {
			t.Errorf("sent %d times in 40s, want one after the other of 4s each", len(sent))
		}
		for i := range sent[1:] {
			if d := sent[i+1].Sub(sent[i]); d < 4*time.Second || d > 5*time.Second {
				t.Errorf("sent %v apart, want 4s and the rest of an interval", d)
			}
		}
	})
}

func TestADeadSourceEndsTheRound(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		t.Helper()
		b.reader.takes["dead"] = time.Hour
		b.Set(key("a"), asking("up", "dead"))
		time.Sleep(5*time.Second - 1)
		expect(t, "before the time-out", b.woken())
		time.Sleep(time.Nanosecond)
		expect(t, "after the time-out", b.woken(), "a")
		round, ok := b.Round(key("a"))
		if !ok || round.Answers[0].Err != nil || round.Answers[1].Err == nil || round.Answers[1].Err.Reason != metricsource.MetricSourceUnavailable {
			t.Errorf("round %+v (%v), want an answer and an error", round, ok)
		}
	})
}

func TestAChangedScalerIsReadAtOnce(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		t.Helper()
		b.Set(key("a"), asking("up"))
		b.woken()
		b.Set(key("a"), asking("queue"))
		if round, ok := b.Round(key("a")); ok {
			t.Errorf("round %+v of requests that are no more", round)
		}
		expect(t, "at once", b.woken(), "a")
		if round, _ := b.Round(key("a")); len(round.Answers) != 1 || round.Answers[0].Answer.Value != 5 {
			t.Errorf("round %+v, want the answer of the present request", round)
		}

		// While a round of what was asked before is running.
		b.reader.takes["slow"] = 4 * time.Second
		b.Set(key("a"), asking("slow"))
		synctest.Wait()
		b.Set(key("a"), asking("up"))
		expect(t, "at once", b.woken(), "a")
		time.Sleep(5 * time.Second)
		expect(t, "when the old round would have ended", b.woken())
		if round, _ := b.Round(key("a")); len(round.Answers) != 1 || round.Answers[0].Answer.Value != 2 {
			t.Errorf("round %+v, want the answer of the present request", round)
		}
	})
}

func TestTheCallerMayChangeItsRequestsLater(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		t.Helper()
		spec := asking("up")
		b.Set(key("a"), spec)
		b.woken()
		spec.Requests[0].Query = "queue"
		b.Set(key("a"), spec)
		expect(t, "after a change", b.woken(), "a")
	})
}

func TestNowAsksForARoundOutOfTurn(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		t.Helper()
		spec := asking("up")
		b.Set(key("a"), spec)
		b.woken()
		for _, now := range []bool{false, true, false} {
			time.Sleep(time.Millisecond)
			spec.Now = now
			b.Set(key("a"), spec)
			if woken := b.woken(); (len(woken) == 1) != now {
				t.Errorf("with now %v, %q are queued", now, woken)
			}
		}
		b.reader.takes["slow"] = 2 * time.Second
		spec = asking("slow")
		b.Set(key("a"), spec)
		synctest.Wait()
		spec.Now = true
		b.Set(key("a"), spec)
		running := time.Now()
		time.Sleep(2*time.Second + 1)
		expect(t, "after the round that was running", b.woken(), "a")
		if round, _ := b.Round(key("a")); !round.Time.Equal(running.Add(2 * time.Second)) {
			t.Errorf("the last round began %v after the call, want one right after that which was running", round.Time.Sub(running))
		}
	})
}

func TestTheIntervalMayChange(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		t.Helper()
		spec := asking("up")
		spec.Interval = time.Hour
		b.Set(key("a"), spec)
		b.woken()
		spec.Interval = time.Second
		b.Set(key("a"), spec)
		time.Sleep(2 * time.Second)
		expect(t, "after an interval", b.woken(), "a")
	})
}

func TestAForgottenScalerIsQueuedNoMore(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		t.Helper()
		b.reader.takes["slow"] = 4 * time.Second
		b.Set(key("a"), asking("up"))
		b.Set(key("b"), asking("slow"))
		expect(t, "at once", b.woken(), "a")
		b.Forget(key("a"))
		b.Forget(key("b"))
		b.Forget(key("c"))
		time.Sleep(3 * interval)
		expect(t, "after they were forgotten", b.woken())
		if _, ok := b.Round(key("a")); ok || len(b.scalers) != 0 {
			t.Errorf("%d scalers are remembered", len(b.scalers))
		}
	})
}

func TestAStopEndsWhatIsRunning(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		t.Helper()
		b.reader.takes["dead"] = time.Hour
		for i := range 10 {
			b.Set(key(fmt.Sprint(i)), asking("dead", "up"))
		}
		synctest.Wait()
		start := time.Now()
		b.stop()
		expect(t, "after a stop", b.woken())
		if time.Since(start) != 0 {
			t.Errorf("the stop took %v", time.Since(start))
		}
	})
}

func TestAScalerThatAsksNothingIsQueuedAllTheSame(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		t.Helper()
		b.Set(key("a"), Spec{Interval: interval})
		expect(t, "at once", b.woken(), "a")
		time.Sleep(2 * interval)
		expect(t, "after an interval", b.woken(), "a")
	})
}
