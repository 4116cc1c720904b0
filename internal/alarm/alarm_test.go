package alarm

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// bed is an alarm that runs on a clock which the test sets.
type bed struct {
	*Alarm
	clock *clocktesting.FakeClock
	// woken are the names of those woken since the last look, and next the moments that were told.
	woken []string
	next  []time.Time
}

// inBed runs a test with an alarm, which ends with it.
func inBed(t *testing.T, test func(*bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bed{clock: clocktesting.NewFakeClock(start)}
		b.Alarm = New(b.clock, func(at time.Time) { b.next = append(b.next, at) })
		ctx, cancel := context.WithCancel(t.Context())
		go b.Run(ctx, func(key types.NamespacedName) { b.woken = append(b.woken, key.Name) })
		synctest.Wait()
		test(b)
		cancel()
		synctest.Wait()
	})
}

func key(name string) types.NamespacedName { return types.NamespacedName{Namespace: "n", Name: name} }

// at sets the clock to so many seconds after the start, and returns who is woken.
func (b *bed) at(seconds int) []string {
	b.clock.SetTime(start.Add(time.Duration(seconds) * time.Second))
	synctest.Wait()
	woken := b.woken
	b.woken = nil
	return woken
}

func (b *bed) set(name string, seconds int) {
	b.Set(key(name), start.Add(time.Duration(seconds)*time.Second))
}

func check(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: woken were %v, want %v", what, got, want)
	}
}

func TestEachIsWokenAtItsMoment(t *testing.T) {
	t.Parallel()
	inBed(t, func(b *bed) {
		b.set("late", 9)
		b.set("b", 3)
		b.set("a", 3)
		b.set("soon", 1)
		check(t, "before the first", b.at(0), nil)
		check(t, "at the first", b.at(1), []string{"soon"})
		check(t, "two of one moment, by name", b.at(3), []string{"a", "b"})
		check(t, "nobody twice", b.at(8), nil)
		check(t, "the last", b.at(20), []string{"late"})
	})
}

func TestAMomentCanBeMovedAndTakenBack(t *testing.T) {
	t.Parallel()
	inBed(t, func(b *bed) {
		b.set("moved", 2)
		b.set("moved", 7)
		b.set("hurried", 60)
		b.set("hurried", 4)
		b.set("gone", 3)
		b.Set(key("gone"), time.Time{})
		b.Set(key("never there"), time.Time{})
		check(t, "at the old moments", b.at(3), nil)
		check(t, "sooner", b.at(4), []string{"hurried"})
		check(t, "later", b.at(7), []string{"moved"})
	})
}

// A moment that has passed already is a moment that has come.
func TestAPastMomentWakesAtOnce(t *testing.T) {
	t.Parallel()
	inBed(t, func(b *bed) {
		b.set("past", -5)
		check(t, "at once", b.at(0), []string{"past"})
	})
}

// With the clock set back other rules may be in force, so that everybody looks again.
func TestAClockThatIsSetBackWakesAll(t *testing.T) {
	t.Parallel()
	inBed(t, func(b *bed) {
		b.set("a", 100)
		b.set("b", 200)
		check(t, "forwards", b.at(50), nil)
		b.clock.SetTime(start.Add(-time.Hour))
		// The clock is looked at when the longest sleep is over; it fires as the clock passes that again.
		b.set("c", -4000)
		synctest.Wait()
		slices.Sort(b.woken)
		check(t, "back", b.woken, []string{"a", "b", "c"})
	})
}

func TestTheNearestMomentIsTold(t *testing.T) {
	t.Parallel()
	inBed(t, func(b *bed) {
		b.set("b", 9)
		b.set("a", 5)
		b.set("c", 7)
		b.at(5)
		b.Set(key("c"), time.Time{})
		b.Set(key("b"), time.Time{})
		var got []int
		for _, at := range b.next {
			if at.IsZero() {
				got = append(got, -1)
				continue
			}
			got = append(got, int(at.Sub(start)/time.Second))
		}
		if want := []int{9, 5, 7, 9, -1}; !slices.Equal(got, want) {
			t.Errorf("told were the seconds %v, want %v", got, want)
		}
	})
}
