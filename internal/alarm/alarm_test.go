package alarm

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
)

// settable is a clock that can be set; its timers run on regardless.
type settable struct {
	clock.RealClock
	mu    sync.Mutex
	ahead time.Duration
}

func (c *settable) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.RealClock.Now().Add(c.ahead).Round(0)
}

func (c *settable) move(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += by
}

func key(n int) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: fmt.Sprintf("object-%05d", n)}
}

// within runs a test of an alarm in a bubble whose time passes at once.
func within(t *testing.T, test func(t *testing.T, c *settable, a *Alarm, woken func() []string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &settable{}
		a := New(c, func(time.Time) {})
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		ctx, cancel := context.WithCancel(t.Context())
		if err := a.Start(ctx, queue); err != nil {
			t.Fatal(err)
		}
		test(t, c, a, func() []string {
			synctest.Wait()
			var names []string
			for queue.Len() > 0 {
				request, _ := queue.Get()
				queue.Done(request)
				names = append(names, request.Name)
			}
			return names
		})
		cancel()
		queue.ShutDown()
		synctest.Wait()
	})
}

func expect(t *testing.T, when string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s %q are woken, want %q", when, got, want)
	}
}

func TestAlarmWakesEachAtItsMoment(t *testing.T) {
	within(t, func(t *testing.T, c *settable, a *Alarm, woken func() []string) {
		t.Helper()
		start := c.Now()
		a.Set(key(3), start.Add(3*time.Hour))
		a.Set(key(1), start.Add(time.Hour))
		a.Set(key(2), start.Add(time.Hour))
		a.Set(key(4), start.Add(time.Hour))
		a.Set(key(4), time.Time{})
		a.Set(key(5), start.Add(time.Hour))
		a.Set(key(5), start.Add(2*time.Hour))
		time.Sleep(time.Hour - time.Nanosecond)
		expect(t, "before an hour", woken())
		time.Sleep(time.Nanosecond)
		expect(t, "after an hour", woken(), "object-00001", "object-00002")
		time.Sleep(time.Hour)
		expect(t, "after two", woken(), "object-00005")
		a.Set(key(6), c.Now().Add(-time.Hour))
		expect(t, "one that is late already", woken(), "object-00006")
		time.Sleep(time.Hour)
		expect(t, "after three", woken(), "object-00003")
	})
}

func TestAlarmFollowsAClockThatIsSet(t *testing.T) {
	within(t, func(t *testing.T, c *settable, a *Alarm, woken func() []string) {
		t.Helper()
		a.Set(key(1), c.Now().Add(48*time.Hour))
		a.Set(key(2), c.Now().Add(96*time.Hour))
		c.move(72 * time.Hour)
		time.Sleep(longestSleep)
		expect(t, "a second after days asleep", woken(), "object-00001")
		c.move(-time.Minute)
		time.Sleep(longestSleep)
		expect(t, "a second after the clock was set back", woken(), "object-00002")
	})
}

// BenchmarkAlarmSet is what each pass costs the one timer while 10,000 objects are waiting.
func BenchmarkAlarmSet(b *testing.B) {
	a := New(clock.RealClock{}, func(time.Time) {})
	start := time.Now()
	for n := range 10000 {
		a.Set(key(n), start.Add(time.Duration(n)*time.Second))
	}
	n := 0
	for b.Loop() {
		n = (n + 7919) % 10000
		a.Set(key(n), start.Add(time.Duration(n*31%10000)*time.Second))
	}
}
