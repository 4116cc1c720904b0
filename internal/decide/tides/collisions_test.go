package tides

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCollisionsFollowTheTime(t *testing.T) {
	rules := compiled(t, "daily|0 9 * * *|1", "every|*/20 * * * *|2", "shanghai|CRON_TZ=Asia/Shanghai 0 17 * * *|3", "never|30 7 * * *|4", "seconds|* * * * * *|5")
	c := NewCollisions(rules)
	now := at(t, "2026-06-15T08:59:50Z")
	for range 2000 {
		if diff := cmp.Diff(Conflicts(rules, now), c.At(now)); diff != "" {
			t.Fatalf("at %v (-all anew +remembered):\n%s", now, diff)
		}
		now = now.Add(97 * time.Second)
	}
	// A clock that is set back makes moments that have passed come again.
	now = now.Add(-30 * time.Hour)
	if diff := cmp.Diff(Conflicts(rules, now), c.At(now)); diff != "" {
		t.Errorf("after the clock was set back (-all anew +remembered):\n%s", diff)
	}
}

func TestCollisionsAreLookedForWhenTheyHaveChanged(t *testing.T) {
	c := NewCollisions(compiled(t, "a|0 9 * * *|1", "b|0 9 1 * *|2", "c|30 10 * * *|3", "d|30 10 * * *|4"))
	searches := func(now string, want int) {
		t.Helper()
		before := c.searches
		c.At(at(t, now))
		if got := c.searches - before; got != want {
			t.Errorf("at %s %d pairs are looked at, want %d", now, got, want)
		}
	}
	searches("2026-06-15T08:00:00Z", 6)
	searches("2026-06-15T08:00:00Z", 0)
	searches("2026-06-15T09:30:00Z", 0)
	// c and d have met, a and b will in July.
	searches("2026-06-15T10:30:00Z", 1)
	searches("2026-06-15T10:30:01Z", 0)
	// The horizon has moved by a day.
	searches("2026-06-16T08:00:00Z", 6)
}

// What comes into sight only with the horizon is found a day later at most.
func TestCollisionsBeyondTheHorizonComeIntoSight(t *testing.T) {
	c := NewCollisions(compiled(t, "new-year|0 0 1 1 *|1", "leap|0 0 29 2 *|2", "noon|0 12 29 2 *|3", "half|0 12,13 29 2 *|4"))
	if got := c.At(at(t, "2026-06-15T00:00:00Z")); got != nil {
		t.Errorf("%v within a year", got)
	}
	if got := c.At(at(t, "2027-02-28T12:00:00Z")); len(got) != 1 || got[0].First != "noon" || !got[0].Times[0].Equal(at(t, "2028-02-29T12:00:00Z")) {
		t.Errorf("collisions are %v, want those of noon in the leap year", got)
	}
	if got := c.At(at(t, "2028-02-29T12:00:00Z")); len(got) != 0 {
		t.Errorf("collisions are %v after the last", got)
	}
}
