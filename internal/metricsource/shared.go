package metricsource

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	defaultTimeout     = 5 * time.Second
	defaultConcurrency = 4
	// A request waits this many time-outs at most for others of its host to end.
	patience = 3
	// minBackoff is the first pause after a failure, each further one doubles it up to maxBackoff.
	minBackoff, maxBackoff = time.Second, time.Minute
	// spared is how many failures in a row a host may have before all that ask it pause: with an answer in between, it is
	// one request that the host cannot bear, and that one pauses alone.
	spared = 2
	// kept is how long what nobody asks for is remembered: longer than any pause.
	kept = 2 * maxBackoff
)

// SharedOptions says how requests are shared and limited.
type SharedOptions struct {
	// Reader is asked.
	Reader Reader
	// Clock tells how old an answer is.
	Clock clock.PassiveClock
	// Timeout of one request; 0 is 5 s.
	Timeout time.Duration
	// Concurrency is how many requests one host, or one metrics API, has to answer at the same time; 0 is 4.
	Concurrency int
	// Observe is called after each request that was sent, with its kind, how long it took and its error. It may be called
	// by several goroutines at a time. Optional.
	Observe func(kind string, took time.Duration, err error)
}

// Shared asks a Reader on behalf of many: the same request is sent once, no host is asked more at a time than it is
// meant to bear, and one that does not answer is left alone for a while.
type Shared struct {
	options SharedOptions

	mu       sync.Mutex
	requests map[Request]*request
	hosts    map[string]*host
	swept    time.Time
}

// request is what is known of a request.
type request struct {
	host *host
	// used is when it was last asked for.
	used time.Time
	// running is being answered; nil where nothing is.
	running *flight
	// last is what came of it before; nil where nothing did.
	last *flight
	backoff
}

// flight is one answer for all who ask at the same time.
type flight struct {
	cancel  context.CancelFunc
	waiting int
	done    chan struct{}
	// The rest is set once done is closed. sent is the zero time where nothing was sent.
	sent   time.Time
	answer Answer
	err    error
}

// host is what is limited as one.
type host struct {
	slots chan struct{}
	// requests that are remembered for it.
	requests int
	backoff
}

// backoff holds requests back after failures.
type backoff struct {
	failures int
	until    time.Time
	err      error
}

// NewShared returns a Shared.
func NewShared(o SharedOptions) *Shared {
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Concurrency == 0 {
		o.Concurrency = defaultConcurrency
	}
	if o.Observe == nil {
		o.Observe = func(string, time.Duration, error) {}
	}
	return &Shared{options: o, requests: map[Request]*request{}, hosts: map[string]*host{}}
}

// Read returns what the last such request led to, if it was sent at the given time or later, and otherwise what one leads
// to that runs already or is now sent. After a failure of the source the error stands for a while without a request.
func (s *Shared) Read(ctx context.Context, r Request, notBefore time.Time) (Answer, error) {
	s.mu.Lock()
	now := s.options.Clock.Now()
	s.sweep(now)
	q := s.request(r)
	q.used = now
	if last := q.last; last != nil && !last.sent.Before(notBefore) {
		s.mu.Unlock()
		return last.answer, last.err
	}
	if err := held(q, now); err != nil {
		s.mu.Unlock()
		return Answer{}, err
	}
	f := q.running
	if f == nil {
		f = &flight{done: make(chan struct{})}
		// It goes on for the others when the first one leaves.
		var flying context.Context
		flying, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
		q.running = f
		go s.fly(flying, r, q, f)
	}
	f.waiting++
	s.mu.Unlock()

	select {
	case <-f.done:
		return f.answer, f.err
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.waiting--; f.waiting == 0 && q.running == f {
		f.cancel()
		q.running = nil
	}
	return Answer{}, AsError(ctx.Err())
}

// fly sends the request when it is its turn, and remembers what it led to.
func (s *Shared) fly(ctx context.Context, r Request, q *request, f *flight) {
	defer f.cancel()
	if f.err = s.wait(ctx, q.host); f.err == nil {
		// The next one has its turn once it can know what became of this one.
		defer func() { <-q.host.slots }()
		f.answer, f.err = s.send(ctx, r, q, f)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(f.done)
	if q.running != f {
		return // Nobody waits for it any more, which is why it failed.
	}
	q.running = nil
	if f.sent.IsZero() {
		return
	}
	q.last = f
	if err := AsError(f.err); err != nil && err.down {
		now := s.options.Clock.Now()
		q.fail(now, f.err, 0)
		q.host.fail(now, f.err, spared)
		return
	}
	q.backoff, q.host.backoff = backoff{}, backoff{}
}

// wait takes one of the host's slots.
func (s *Shared) wait(ctx context.Context, h *host) error {
	ctx, stop := context.WithTimeout(ctx, patience*s.options.Timeout)
	defer stop()
	select {
	case h.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return &Error{Reason: MetricSourceUnavailable, Message: fmt.Sprintf("no answer in time: %d requests to the same host were running all the while", s.options.Concurrency)}
	}
}

// send asks, unless those before it found the host dead.
func (s *Shared) send(ctx context.Context, r Request, q *request, f *flight) (Answer, error) {
	s.mu.Lock()
	start := s.options.Clock.Now()
	err := held(q, start)
	s.mu.Unlock()
	if err != nil {
		return Answer{}, err
	}
	f.sent = start
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	answer, err := s.options.Reader.Read(ctx, r)
	s.options.Observe(string(r.Kind), s.options.Clock.Since(start), err)
	return answer, err
}

// held is the error that stands for a request that must not be sent yet. The lock is held.
func held(q *request, now time.Time) error {
	for _, b := range []*backoff{&q.backoff, &q.host.backoff} {
		if now.Before(b.until) {
			return b.err
		}
	}
	return nil
}

// fail begins a pause, unless there were no more failures in a row than are spared.
func (b *backoff) fail(now time.Time, err error, spared int) {
	b.failures++
	b.err = err
	if n := b.failures - spared; n > 0 {
		b.until = now.Add(min(minBackoff<<min(n-1, 10), maxBackoff))
	}
}

// request finds what is known of a request. The lock is held.
func (s *Shared) request(r Request) *request {
	q := s.requests[r]
	if q != nil {
		return q
	}
	name := r.host()
	h := s.hosts[name]
	if h == nil {
		h = &host{slots: make(chan struct{}, s.options.Concurrency)}
		s.hosts[name] = h
	}
	h.requests++
	q = &request{host: h}
	s.requests[r] = q
	return q
}

// sweep forgets what nobody asked for of late. The lock is held.
func (s *Shared) sweep(now time.Time) {
	if now.Sub(s.swept) < kept/2 {
		return
	}
	s.swept = now
	for r, q := range s.requests {
		if q.running != nil || now.Sub(q.used) < kept {
			continue
		}
		delete(s.requests, r)
		if q.host.requests--; q.host.requests == 0 {
			delete(s.hosts, r.host())
		}
	}
}
