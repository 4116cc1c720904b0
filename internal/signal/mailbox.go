package signal

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/signals"
)

const (
	// recordsPerSecond and recordsAtOnce bound how many signals of one endpoint are recorded.
	recordsPerSecond = 1
	recordsAtOnce    = 10
	// recordTimeout is how long the record of one may take.
	recordTimeout = 10 * time.Second
	// recordRetry and recordRetryMost are between which the time grows after which a record is tried again.
	recordRetry     = 500 * time.Millisecond
	recordRetryMost = 30 * time.Second
)

// letter is a message on its way to be recorded.
type letter struct {
	message   signals.Message
	transport Transport
}

// mailbox holds the newest message that is yet to be recorded. Where messages come faster than they can be recorded, or
// the API server is away, it is the newest that counts and not each before it.
type mailbox struct {
	key     types.NamespacedName
	options Options
	enqueue func(types.NamespacedName)
	limit   flowcontrol.RateLimiter
	// full tells that there is something to take.
	full chan struct{}

	mu      sync.Mutex
	waiting *letter
	// settled is the last message that was judged for good.
	settled signals.Message
}

func newMailbox(key types.NamespacedName, o Options, enqueue func(types.NamespacedName)) *mailbox {
	return &mailbox{
		key: key, options: o, enqueue: enqueue, full: make(chan struct{}, 1),
		limit: flowcontrol.NewTokenBucketRateLimiter(recordsPerSecond, recordsAtOnce),
	}
}

// put leaves the letter, unless it says nothing new after the one that waits or the last that was judged. What a poll finds
// again is no news even where another signal was pushed since.
func (b *mailbox) put(next letter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := next.message
	if b.waiting == nil && (m.ID != "" && m.ID == b.settled.ID || next.transport == Poll && m == b.settled) {
		b.options.Observe(signals.Repeated, next.transport)
		return
	}
	b.keepNewer(b.waiting, next)
}

// putBack leaves a letter that was taken and is older than the one that waits.
func (b *mailbox) putBack(taken letter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := b.waiting
	b.waiting = &taken
	if next != nil {
		b.keepNewer(&taken, *next)
	}
}

func (b *mailbox) keepNewer(before *letter, next letter) {
	if before != nil {
		now := b.options.Clock.Now()
		if o := signals.Accept(before.message.Record(now), next.message, now); o.Result != signals.Accepted {
			b.options.Observe(o.Result, next.transport)
			return
		}
		b.options.Observe(signals.Superseded, before.transport)
	}
	b.waiting = &next
	select {
	case b.full <- struct{}{}:
	default:
	}
}

func (b *mailbox) judged(taken letter, outcome signals.Outcome) {
	b.options.Observe(outcome.Result, taken.transport)
	if outcome.Result == signals.Accepted {
		b.enqueue(b.key)
	} else {
		b.options.Log.V(1).Info("A signal changes nothing", "result", outcome.Result, "reason", outcome.Reason)
	}
	if outcome.Result == signals.Future {
		// Its time will come.
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settled = taken.message
}

func (b *mailbox) isWaiting() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting != nil
}

func (b *mailbox) take() *letter {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := b.waiting
	b.waiting = nil
	return taken
}

// deliver has each letter recorded, until the context ends.
func (b *mailbox) deliver(ctx context.Context) {
	backoff := wait.Backoff{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.full:
		}
		for b.isWaiting() {
			if b.limit.Wait(ctx) != nil {
				return
			}
			taken := b.take()
			var outcome signals.Outcome
			err := safely(func() (err error) {
				ctx, cancel := context.WithTimeout(ctx, recordTimeout)
				defer cancel()
				outcome, err = b.options.Acceptor.Accept(ctx, b.key, taken.message)
				return err
			})
			if err == nil {
				b.judged(*taken, outcome)
				backoff = wait.Backoff{}
				continue
			}
			if ctx.Err() != nil {
				return
			}
			if backoff.Duration == 0 {
				backoff = wait.Backoff{Duration: recordRetry, Factor: 2, Jitter: jitter, Steps: 32, Cap: recordRetryMost}
				b.options.Log.Error(err, "Could not record a signal, trying again")
			}
			b.putBack(*taken)
			if sleep(ctx, b.options.Clock, backoff.Step()) != nil {
				return
			}
		}
	}
}
