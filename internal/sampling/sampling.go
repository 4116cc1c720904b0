// Package sampling is the one loop in which the metrics of all scalers are read.
package sampling

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pd-orchestrator/pd-orchestrator/internal/alarm"
	"github.com/pd-orchestrator/pd-orchestrator/internal/metricsource"
)

// Spec is what is read for one scaler, and how often.
type Spec struct {
	// Requests of one round. The load is spread by the first: scalers with the same one are evaluated at the same time.
	Requests []metricsource.Request
	// Interval between two rounds, above 0.
	Interval time.Duration
	// Now asks for a round at once, beside those that are due.
	Now bool
}

// Round is what a scaler's requests were answered.
type Round struct {
	// Time when the round began.
	Time time.Time
	// Answers in the order of the requests.
	Answers []Result
}

// Result is one answer or the lack of one.
type Result struct {
	Answer metricsource.Answer
	// Err is nil where there is an answer.
	Err *metricsource.Error
}

// Source answers a request with what is not older than the given time.
type Source interface {
	Read(ctx context.Context, r metricsource.Request, notBefore time.Time) (metricsource.Answer, error)
}

// longestReuse bounds how old an answer may be that a round takes over from another scaler's: half of the usual interval.
const longestReuse = 7500 * time.Millisecond

// Sampler reads the metrics of all scalers. It is a source of the controller: a scaler is queued when a round of it is
// complete.
type Sampler struct {
	source Source
	clock  clock.WithTicker
	seed   maphash.Seed
	// alarm is set for scalers that no round is running for.
	alarm *alarm.Alarm

	mu      sync.Mutex
	scalers map[types.NamespacedName]*scaler
}

type scaler struct {
	spec Spec
	// running is nil where no round is.
	running *running
	// last is nil before the first round.
	last *Round
}

type running struct {
	cancel context.CancelFunc
	// again says that a further round is due at once.
	again bool
}

// New returns a Sampler, normally over a metricsource.Shared.
func New(source Source, c clock.WithTicker) *Sampler {
	return &Sampler{
		source:  source,
		clock:   c,
		seed:    maphash.MakeSeed(),
		alarm:   alarm.New(c, func(time.Time) {}),
		scalers: map[types.NamespacedName]*scaler{},
	}
}

// Set says what is read for a scaler from now on. The first round of a new scaler, and of one whose requests changed, is
// due at once; the same spec again changes nothing.
func (s *Sampler) Set(key types.NamespacedName, spec Spec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sc := s.scalers[key]
	if sc == nil {
		sc = &scaler{}
		s.scalers[key] = sc
	}
	now := spec.Now || sc.last == nil && sc.running == nil
	if !slices.Equal(sc.spec.Requests, spec.Requests) {
		sc.stop()
		sc.last = nil
		sc.spec.Requests = slices.Clone(spec.Requests)
		now = true
	}
	changed := sc.spec.Interval != spec.Interval
	sc.spec.Interval = spec.Interval
	switch {
	case now && sc.running != nil:
		sc.running.again = true
	case now:
		s.alarm.Set(key, s.clock.Now())
	case changed && sc.running == nil:
		s.alarm.Set(key, s.next(sc.spec, sc.last))
	}
}

// Forget ends the reading for a scaler. A round that is running ends unheard.
func (s *Sampler) Forget(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sc := s.scalers[key]; sc != nil {
		sc.stop()
		delete(s.scalers, key)
	}
}

// Round is the last complete round of the scaler's present requests, false where none is complete yet. What it holds must
// not be changed.
func (s *Sampler) Round(key types.NamespacedName) (Round, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sc := s.scalers[key]; sc != nil && sc.last != nil {
		return *sc.last, true
	}
	return Round{}, false
}

// Start reads until the context ends. It is called once.
func (s *Sampler) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	go s.alarm.Run(ctx, func(key types.NamespacedName) { s.begin(ctx, key, queue) })
	return nil
}

// begin starts a round of a scaler, without waiting for it.
func (s *Sampler) begin(ctx context.Context, key types.NamespacedName, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sc := s.scalers[key]
	// It may be forgotten, or woken twice when it was set just as it was woken.
	if sc == nil || sc.running != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	sc.running = &running{cancel: cancel}
	spec, round := sc.spec, &Round{Time: s.clock.Now()}
	go func() {
		defer cancel()
		round.Answers = s.read(ctx, spec, round.Time)
		if s.complete(ctx, key, round) {
			queue.Add(reconcile.Request{NamespacedName: key})
		}
	}()
}

// read asks for everything at the same time, so that a slow source does not hold up the others.
func (s *Sampler) read(ctx context.Context, spec Spec, now time.Time) []Result {
	notBefore := now.Add(-min(spec.Interval/2, longestReuse))
	results := make([]Result, len(spec.Requests))
	var wg sync.WaitGroup
	for i, request := range spec.Requests {
		wg.Go(func() {
			answer, err := s.source.Read(ctx, request, notBefore)
			results[i] = Result{Answer: answer, Err: metricsource.AsError(err)}
		})
	}
	wg.Wait()
	return results
}

// complete records a round and sets the alarm for the next one. It is false for a round that nobody wants any more, whose
// context has ended.
func (s *Sampler) complete(ctx context.Context, key types.NamespacedName, round *Round) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return false
	}
	sc := s.scalers[key]
	at := s.next(sc.spec, round)
	if sc.running.again {
		at = s.clock.Now()
	}
	sc.running, sc.last = nil, round
	s.alarm.Set(key, at)
	return true
}

// stop ends a round that is running, if there is one.
func (sc *scaler) stop() {
	if sc.running != nil {
		sc.running.cancel()
		sc.running = nil
	}
}

// next is when the round after the given one is due. The moments of scalers with the same first request and interval are
// the same, whenever they were created, so that they share its answer; those of different ones are spread over the
// interval. A moment that is near to a round out of turn is left out.
func (s *Sampler) next(spec Spec, last *Round) time.Time {
	interval := max(spec.Interval, time.Millisecond)
	after := s.clock.Now()
	// Counted from now, since last may be ahead of a clock that was set back.
	after = after.Add(max(0, min(last.Time.Add(interval/2).Sub(after), interval/2)))
	var offset int64
	if len(spec.Requests) > 0 {
		offset = int64(maphash.Comparable(s.seed, spec.Requests[0]) % uint64(interval))
	}
	return time.Unix(0, after.UnixNano()-(after.UnixNano()-offset)%int64(interval)).Add(interval)
}
