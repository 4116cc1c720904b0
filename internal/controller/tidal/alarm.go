package tidal

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

// alarm wakes objects at their moments with one timer for all of them. It is a source of the controller.
type alarm struct {
	clock clock.WithTicker
	// next is told the nearest moment whenever it changes, the zero time where there is none.
	next func(time.Time)

	mu      sync.Mutex
	entries map[types.NamespacedName]*alarmEntry
	queue   alarmHeap
	changed chan struct{}
}

type alarmEntry struct {
	key   types.NamespacedName
	at    time.Time
	place int
}

func newAlarm(c clock.WithTicker, next func(time.Time)) *alarm {
	return &alarm{clock: c, next: next, entries: map[types.NamespacedName]*alarmEntry{}, changed: make(chan struct{}, 1)}
}

// Set wakes an object at a moment, in place of the one that was set before; the zero time wakes it no more.
func (a *alarm) Set(key types.NamespacedName, at time.Time) {
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
		entry = &alarmEntry{key: key, at: at}
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
func (a *alarm) nearest() time.Time {
	if len(a.queue) == 0 {
		return time.Time{}
	}
	return a.queue[0].at
}

// Start feeds the queue until the context ends. It is called once.
func (a *alarm) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	go a.run(ctx, queue)
	return nil
}

func (a *alarm) run(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	timer := a.clock.NewTimer(longestSleep)
	defer timer.Stop()
	last := a.clock.Now().Round(0)
	for {
		now := a.clock.Now().Round(0) // Without the reading of the clock that nobody sets.
		due, sleep := a.due(now, now.Before(last.Add(-longestSleep)))
		last = now
		for _, key := range due {
			queue.Add(reconcile.Request{NamespacedName: key})
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
func (a *alarm) due(now time.Time, all bool) ([]types.NamespacedName, time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var due []types.NamespacedName
	for len(a.queue) > 0 && (all || !a.queue[0].at.After(now)) {
		entry := heap.Pop(&a.queue).(*alarmEntry)
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

// alarmHeap is ordered by time, then by name, so that the order of firings does not depend on chance.
type alarmHeap []*alarmEntry

func (h alarmHeap) Len() int { return len(h) }

func (h alarmHeap) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].key.String() < h[j].key.String()
}

func (h alarmHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *alarmHeap) Push(x any) {
	entry := x.(*alarmEntry)
	entry.place = len(*h)
	*h = append(*h, entry)
}

func (h *alarmHeap) Pop() any {
	old := *h
	entry := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return entry
}
