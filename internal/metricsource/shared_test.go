package metricsource

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

// scripted answers by URL, and counts.
type scripted struct {
	mu sync.Mutex
	// sent is how often a URL was asked, running how many are being answered now, and most how many ever were, per host.
	sent, running, most map[string]int
	answer              map[string]func(context.Context) (Answer, error)
}

func (s *scripted) Read(ctx context.Context, r Request) (Answer, error) {
	s.mu.Lock()
	host := r.host()
	s.sent[r.URL]++
	s.running[host]++
	s.most[host] = max(s.most[host], s.running[host])
	answer := s.answer[r.URL]
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running[host]--
	}()
	if answer == nil {
		return Answer{Value: 1}, nil
	}
	return answer(ctx)
}

func (s *scripted) set(url string, answer func(context.Context) (Answer, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer[url] = answer
}

func (s *scripted) count(url string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent[url]
}

func after(d time.Duration, value float64) func(context.Context) (Answer, error) {
	return func(ctx context.Context) (Answer, error) {
		select {
		case <-time.After(d):
			return Answer{Value: value}, nil
		case <-ctx.Done():
			return Answer{}, &Error{Reason: MetricSourceUnavailable, Message: "no answer in time", down: true}
		}
	}
}

func failing(reason string, down bool) func(context.Context) (Answer, error) {
	return func(context.Context) (Answer, error) {
		return Answer{}, &Error{Reason: reason, Message: "it fails", down: down}
	}
}

func at(url string) Request { return Request{Kind: Endpoint, URL: url, Name: "queue"} }

// sharing runs a test in a bubble whose time passes at once.
func sharing(t *testing.T, test func(t *testing.T, s *Shared, source *scripted)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		source := &scripted{sent: map[string]int{}, running: map[string]int{}, most: map[string]int{}, answer: map[string]func(context.Context) (Answer, error){}}
		test(t, NewShared(SharedOptions{Reader: source, Clock: clock.RealClock{}}), source)
	})
}

// many asks for each request in a goroutine, and returns how long that took and the errors.
func many(t *testing.T, s *Shared, requests ...Request) (time.Duration, []error) {
	t.Helper()
	start := time.Now()
	errs := make([]error, len(requests))
	var wg sync.WaitGroup
	for i, r := range requests {
		wg.Go(func() { _, errs[i] = s.Read(t.Context(), r, start) })
	}
	wg.Wait()
	return time.Since(start), errs
}

func noErrors(t *testing.T, errs []error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Errorf("error %v, want an answer", err)
		}
	}
}

func TestTheSameRequestIsSentOnce(t *testing.T) {
	sharing(t, func(t *testing.T, s *Shared, source *scripted) {
		t.Helper()
		source.set("http://a/1", after(time.Second, 7))
		requests := make([]Request, 50)
		for i := range requests {
			requests[i] = at("http://a/1")
		}
		took, errs := many(t, s, requests...)
		noErrors(t, errs)
		if source.count("http://a/1") != 1 || took != time.Second {
			t.Errorf("sent %d times in %v, want once in 1s", source.count("http://a/1"), took)
		}
		sent := time.Now().Add(-time.Second)
		got, err := s.Read(t.Context(), at("http://a/1"), sent)
		if err != nil || got.Value != 7 || source.count("http://a/1") != 1 {
			t.Errorf("answer %+v (%v) after %d requests, want the one that is fresh enough", got, err, source.count("http://a/1"))
		}
		if _, err := s.Read(t.Context(), at("http://a/1"), sent.Add(1)); err != nil || source.count("http://a/1") != 2 {
			t.Errorf("sent %d times (%v), want a second request for what is not fresh enough", source.count("http://a/1"), err)
		}
		// The lack of a value is an answer too.
		source.set("http://a/2", failing(NoData, false))
		start := time.Now()
		for range 3 {
			_, err := s.Read(t.Context(), at("http://a/2"), start)
			expectError(t, err, NoData, "it fails")
		}
		if source.count("http://a/2") != 1 {
			t.Errorf("sent %d times, want once", source.count("http://a/2"))
		}
	})
}

func TestAHostIsAskedFourTimesAtMostAtATime(t *testing.T) {
	sharing(t, func(t *testing.T, s *Shared, source *scripted) {
		t.Helper()
		var slow []Request
		for i := range 12 {
			url := fmt.Sprintf("http://slow/%d", i)
			source.set(url, after(2*time.Second, 1))
			slow = append(slow, at(url))
		}
		var fast time.Duration
		var wg sync.WaitGroup
		wg.Go(func() {
			synctest.Wait()
			took, errs := many(t, s, at("http://fast/1"), at("http://fast/2"))
			noErrors(t, errs)
			fast = took
		})
		took, errs := many(t, s, slow...)
		wg.Wait()
		noErrors(t, errs)
		if took != 6*time.Second || source.most["slow:"] != 4 {
			t.Errorf("12 requests of 2s took %v, %d at a time, want 6s and 4", took, source.most["slow:"])
		}
		if fast != 0 {
			t.Errorf("another host waited %v", fast)
		}
	})
}

func TestNobodyWaitsForeverForItsTurn(t *testing.T) {
	sharing(t, func(t *testing.T, s *Shared, source *scripted) {
		t.Helper()
		// Each is just fast enough to be no failure.
		var slow []Request
		for i := range 20 {
			url := fmt.Sprintf("http://slow/%d", i)
			source.set(url, after(5*time.Second-1, 1))
			slow = append(slow, at(url))
		}
		took, errs := many(t, s, slow...)
		failed := 0
		for _, err := range errs {
			if err != nil {
				expectError(t, err, MetricSourceUnavailable, "4 requests to the same host")
				failed++
			}
		}
		// Four at 0, 5, 10 and 15 s, which are nanoseconds early.
		if failed != 4 || took > 20*time.Second {
			t.Errorf("%d had no turn in %v, want 4 in less than 20s", failed, took)
		}
	})
}

func TestWhatDoesNotAnswerIsLeftAloneForAWhile(t *testing.T) {
	sharing(t, func(t *testing.T, s *Shared, source *scripted) {
		t.Helper()
		source.set("http://dead/1", failing(MetricSourceUnavailable, true))
		start := time.Now()
		var sent []time.Duration
		for time.Since(start) < 5*time.Minute {
			before := source.count("http://dead/1")
			asked := time.Now()
			_, err := s.Read(t.Context(), at("http://dead/1"), asked)
			expectError(t, err, MetricSourceUnavailable, "it fails")
			if !time.Now().Equal(asked) {
				t.Errorf("an error took %v", time.Since(asked))
			}
			if source.count("http://dead/1") > before {
				sent = append(sent, time.Since(start))
			}
			time.Sleep(time.Second)
		}
		// 1, 2, 4 ... 32 s after each other, then a minute.
		want := []time.Duration{0, 1, 3, 7, 15, 31, 63, 123, 183, 243}
		for i := range want {
			want[i] *= time.Second
		}
		if fmt.Sprint(sent) != fmt.Sprint(want) {
			t.Errorf("sent after %v, want after %v", sent, want)
		}
		// A success ends it all.
		source.set("http://dead/1", nil)
		time.Sleep(maxBackoff)
		if _, err := s.Read(t.Context(), at("http://dead/1"), time.Now()); err != nil {
			t.Fatal(err)
		}
		source.set("http://dead/1", failing(MetricSourceUnavailable, true))
		for i := range 2 {
			time.Sleep(minBackoff)
			before := source.count("http://dead/1")
			_, _ = s.Read(t.Context(), at("http://dead/1"), time.Now())
			if source.count("http://dead/1") == before {
				t.Errorf("request %d after a success was held back", i)
			}
		}
	})
}

func TestADeadHostCostsLittle(t *testing.T) {
	sharing(t, func(t *testing.T, s *Shared, source *scripted) {
		t.Helper()
		var dead []Request
		for i := range 500 {
			url := fmt.Sprintf("http://dead/%d", i)
			source.set(url, after(time.Hour, 1))
			dead = append(dead, at(url))
		}
		took, errs := many(t, s, dead...)
		for _, err := range errs {
			expectError(t, err, MetricSourceUnavailable, "no answer in time")
		}
		sent := 0
		for _, r := range dead {
			sent += source.count(r.URL)
		}
		// The first failures are spared, so that as many more may be sent.
		if took > 2*defaultTimeout || sent > defaultConcurrency+spared {
			t.Errorf("500 requests to a dead host took %v and sent %d, want two time-outs at most, and %d", took, sent, defaultConcurrency+spared)
		}
		// The pause is that of so many failures, and not of five hundred.
		for _, pause := range []time.Duration{0, minBackoff << (defaultConcurrency - 1)} {
			time.Sleep(pause)
			i := slices.IndexFunc(dead, func(r Request) bool { return source.count(r.URL) == 0 })
			_, _ = many(t, s, dead[i])
			if again := source.count(dead[i].URL) == 1; again != (pause > 0) {
				t.Errorf("sent %v after the failures: %v", pause, again)
			}
		}
	})
}

func TestOneRequestThatIsTooMuchDoesNotHoldUpTheOthers(t *testing.T) {
	sharing(t, func(t *testing.T, s *Shared, source *scripted) {
		t.Helper()
		source.set("http://a/heavy", failing(MetricSourceUnavailable, true))
		for range 20 {
			_, errs := many(t, s, at("http://a/heavy"))
			expectError(t, errs[0], MetricSourceUnavailable, "it fails")
			took, errs := many(t, s, at("http://a/light"))
			noErrors(t, errs)
			if took != 0 {
				t.Errorf("took %v", took)
			}
			time.Sleep(time.Second)
		}
		if n := source.count("http://a/heavy"); n != 5 {
			t.Errorf("sent %d times in 20s, want it alone to be held back: 5", n)
		}
	})
}

func TestAMistakeOfTheUserHoldsNothingBack(t *testing.T) {
	sharing(t, func(t *testing.T, s *Shared, source *scripted) {
		t.Helper()
		for _, reason := range []string{NoData, MultipleSeries, WrongResultType, MetricNotFound, EndpointForbidden} {
			source.set("http://a/1", failing(reason, false))
			for range 5 {
				before := source.count("http://a/1")
				_, err := s.Read(t.Context(), at("http://a/1"), time.Now())
				expectError(t, err, reason, "it fails")
				if source.count("http://a/1") != before+1 {
					t.Errorf("a request after %s was held back", reason)
				}
				time.Sleep(time.Millisecond)
			}
		}
	})
}

func TestARequestLivesAsLongAsSomebodyWaits(t *testing.T) {
	sharing(t, func(t *testing.T, s *Shared, source *scripted) {
		t.Helper()
		ended := false
		source.set("http://a/1", func(ctx context.Context) (Answer, error) {
			answer, err := after(3*time.Second, 7)(ctx)
			ended = ctx.Err() != nil
			return answer, err
		})
		first, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := s.Read(first, at("http://a/1"), time.Now()); err == nil {
				t.Error("the first had an answer after it left")
			}
		})
		wg.Go(func() {
			time.Sleep(time.Millisecond)
			if got, err := s.Read(t.Context(), at("http://a/1"), time.Now()); err != nil || got.Value != 7 {
				t.Errorf("answer %+v (%v), want the one that the first asked for", got, err)
			}
		})
		wg.Wait()
		if source.count("http://a/1") != 1 || ended {
			t.Errorf("sent %d times, ended early: %v, want once", source.count("http://a/1"), ended)
		}

		start := time.Now()
		alone, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		_, err := s.Read(alone, at("http://a/1"), start)
		synctest.Wait()
		if err == nil || !ended || time.Since(start) != time.Second {
			t.Errorf("error %v, ended early: %v after %v, want an end when the last one leaves", err, ended, time.Since(start))
		}
		// That was no failure of the source.
		if got, err := s.Read(t.Context(), at("http://a/1"), time.Now()); err != nil || got.Value != 7 {
			t.Errorf("answer %+v (%v) after one was given up", got, err)
		}
	})
}

func TestWhatNobodyAsksForIsForgotten(t *testing.T) {
	sharing(t, func(t *testing.T, s *Shared, _ *scripted) {
		t.Helper()
		for i := range 1000 {
			if _, err := s.Read(t.Context(), at(fmt.Sprintf("http://host-%d/", i)), time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		for range 5 {
			time.Sleep(time.Minute)
			if _, err := s.Read(t.Context(), at("http://host-1/"), time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		if len(s.requests) != 1 || len(s.hosts) != 1 {
			t.Errorf("%d requests and %d hosts are remembered, want 1", len(s.requests), len(s.hosts))
		}
	})
}

func TestEachRequestIsObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &scripted{sent: map[string]int{}, running: map[string]int{}, most: map[string]int{}, answer: map[string]func(context.Context) (Answer, error){
			"http://a/1": after(2*time.Second, 1), "http://a/2": after(time.Hour, 1),
		}}
		var mu sync.Mutex
		var observed []string
		s := NewShared(SharedOptions{Reader: source, Clock: clock.RealClock{}, Timeout: 3 * time.Second, Observe: func(kind string, took time.Duration, err error) {
			mu.Lock()
			defer mu.Unlock()
			observed = append(observed, fmt.Sprintf("%s %v %v", kind, took, err))
		}})
		_, _ = many(t, s, at("http://a/1"), at("http://a/1"), at("http://a/2"))
		want := []string{"ExternalServer 2s <nil>", "ExternalServer 3s no answer in time"}
		if fmt.Sprint(observed) != fmt.Sprint(want) {
			t.Errorf("observed %q, want %q", observed, want)
		}
	})
}
