// Package alarm wakes objects at their moments.
package alarm

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// longestSleep is how long the alarm sleeps at most. A timer counts on a clock that nobody sets, and that stands still
// while the machine is suspended, so the wall clock is looked at this often.
const longestSleep = time.Second

// Alarm wakes objects at their moments with one timer for all of them.
type Alarm struct {
	clock clock.WithTicker
	next  func(time.Time)

	mu      sync.Mutex
	entries map[types.NamespacedName]*waiter
	queue   waiters
	changed chan struct{}
}

type waiter struct {
	key   types.NamespacedName
	at    time.Time
	place int
}

// New returns an Alarm that nothing is set in. next is told the nearest moment whenever it changes, the zero time where
// there is none.
func New(c clock.WithTicker, next func(time.Time)) *Alarm {
	return &Alarm{clock: c, next: next, entries: map[types.NamespacedName]*waiter{}, changed: make(chan struct{}, 1)}
}

// Set wakes an object at a moment, in place of the one that was set before; the zero time wakes it no more.
func (a *Alarm) Set(key types.NamespacedName, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.nearest()
	entry := a.entries[key]
	switch {
	case at.IsZero() && entry == nil:
	case at.IsZero():
		heap.Remove(&a.queue, entry.place)
		delete(a.entries, key)
	case entry == nil:
		entry = &waiter{key: key, at: at}
		a.entries[key] = entry
		heap.Push(&a.queue, entry)
	default:
		entry.at = at
		heap.Fix(&a.queue, entry.place)
	}
	if after := a.nearest(); !after.Equal(before) {
		a.next(after)
		select {
		case a.changed <- struct{}{}:
		default:
		}
	}
}

// nearest is the next moment, the zero time where there is none. The lock is held.
func (a *Alarm) nearest() time.Time {
	if len(a.queue) == 0 {
		return time.Time{}
	}
	return a.queue[0].at
}

// Start wakes objects by putting them into the queue of a controller, whose source the alarm then is, until the context
// ends. Either it or Run is called, once.
func (a *Alarm) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	go a.Run(ctx, func(key types.NamespacedName) { queue.Add(reconcile.Request{NamespacedName: key}) })
	return nil
}

// Run calls wake for each object at its moment, until the context ends. No other is woken before wake returns.
func (a *Alarm) Run(ctx context.Context, wake func(types.NamespacedName)) {
	timer := a.clock.NewTimer(longestSleep)
	defer timer.Stop()
	last := a.clock.Now().Round(0)
	for {
		now := a.clock.Now().Round(0) // Without the reading of the clock that nobody sets.
		due, sleep := a.due(now, now.Before(last.Add(-longestSleep)))
		last = now
		for _, key := range due {
			wake(key)
		}
		if !timer.Stop() {
			select {
			case <-timer.C():
			default:
			}
		}
		timer.Reset(sleep)
		select {
		case <-ctx.Done():
			return
		case <-a.changed:
		case <-timer.C():
		}
	}
}

// due takes out the objects whose moment has come, and says how long to sleep. When the clock has been set back all are
// due, since other rules may be in force at the moment that it shows now.
func (a *Alarm) due(now time.Time, all bool) ([]types.NamespacedName, time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var due []types.NamespacedName
	for len(a.queue) > 0 && (all || !a.queue[0].at.After(now)) {
		entry := heap.Pop(&a.queue).(*waiter)
		delete(a.entries, entry.key)
		due = append(due, entry.key)
	}
	if len(due) > 0 {
		a.next(a.nearest())
	}
	if len(a.queue) == 0 {
		return due, longestSleep
	}
	return due, min(a.queue[0].at.Sub(now), longestSleep)
}

// waiters is ordered by time, then by name, so that the order of firings does not depend on chance.
type waiters []*waiter

func (h waiters) Len() int { return len(h) }

func (h waiters) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].key.String() < h[j].key.String()
}

func (h waiters) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *waiters) Push(x any) {
	entry := x.(*waiter)
	entry.place = len(*h)
	*h = append(*h, entry)
}

func (h *waiters) Pop() any {
	old := *h
	entry := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return entry
}
