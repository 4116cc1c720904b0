package tides

import (
	"math/bits"
	"time"
)

// Overlaps returns the first moments in (after, until] at which both schedules fire, at most limit of them.
//
// It does not step through firings: two schedules of 1,440 firings a day that never meet would cost half a million steps
// each. Between two transitions of their zones one clock runs a constant distance ahead of the other, so the hours and
// minutes at which both fire are the same on every day, and only days are stepped through. Schedules
// that meet all the time have done so within a few firings, before that is worth its while.
func Overlaps(a, b *Schedule, after, until time.Time, limit int) []time.Time {
	o := overlapSearch{a: a, b: b, after: after.Unix(), until: until.Unix(), limit: limit}
	if !o.near() {
		o.far()
	}
	out := make([]time.Time, len(o.found))
	for i, moment := range o.found {
		out[i] = time.Unix(moment, 0).UTC()
	}
	return out
}

// nearSteps is how many firings are compared before days are searched.
const nearSteps = 32

type overlapSearch struct {
	a, b         *Schedule
	after, until int64
	limit        int
	found        []int64
}

// near steps from firing to firing, and reports whether that has found all.
func (o *overlapSearch) near() bool {
	m, n := o.a.next(o.after), o.b.next(o.after)
	for range nearSteps {
		if m > o.until || n > o.until || o.done() {
			return true
		}
		switch {
		case m < n:
			m = o.a.next(n - 1)
		case n < m:
			n = o.b.next(m - 1)
		default:
			o.found = append(o.found, m)
			m, n = o.a.next(m), o.b.next(n)
		}
	}
	o.found = nil
	return false
}

// far searches day by day.
func (o *overlapSearch) far() {
	for at := o.after; at <= o.until && !o.done(); {
		aheadA, beginA, endA := offset(o.a.zone, at)
		aheadB, beginB, endB := offset(o.b.zone, at)
		if at == beginA || at == beginB {
			// Readings that the gap at this moment skipped fire now, whatever the fields say of now.
			o.add(at)
		}
		end := min(endA, endB, o.until+1)
		o.between(at, end, aheadA, aheadB)
		at = end
	}
}

func (o *overlapSearch) done() bool { return len(o.found) >= o.limit }

// add notes a moment if both schedules really fire then: in a repeated hour the fields match twice.
func (o *overlapSearch) add(moment int64) {
	if moment <= o.after || len(o.found) > 0 && o.found[len(o.found)-1] >= moment {
		return
	}
	if o.a.fires(moment) && o.b.fires(moment) {
		o.found = append(o.found, moment)
	}
}

// minuteOfDay is a minute at which both schedules match, in the reading of the first, with the seconds at which they do.
type minuteOfDay struct {
	start   int64
	seconds uint64
	// carry is how many days the second reading is ahead: -1, 0 or 1.
	carry int64
}

// between searches the moments from begin to before end, during which both offsets are constant.
func (o *overlapSearch) between(begin, end, aheadA, aheadB int64) {
	minutes := o.minutes(aheadB - aheadA)
	if len(minutes) == 0 {
		return
	}
	first, _ := floorDiv(begin+aheadA, secondsPerDay)
	last, _ := floorDiv(end-1+aheadA, secondsPerDay)
	for day := first; day <= last && !o.done(); day++ {
		if !o.a.matchesDay(day) {
			continue
		}
		var matches [3]bool
		for carry := range int64(3) {
			matches[carry] = o.b.matchesDay(day + carry - 1)
		}
		for _, m := range minutes {
			if !matches[m.carry+1] {
				continue
			}
			for seconds := m.seconds; seconds != 0 && !o.done(); seconds &= seconds - 1 {
				moment := day*secondsPerDay + m.start + int64(bits.TrailingZeros64(seconds)) - aheadA
				if moment >= begin && moment < end {
					o.add(moment)
				}
			}
		}
	}
}

// minutes lists the minutes of a day at which both schedules match while the second clock is distance ahead of the first.
func (o *overlapSearch) minutes(distance int64) []minuteOfDay {
	whole, odd := floorDiv(distance, 60)
	seconds := o.a.second & o.b.second
	if odd == 0 && seconds == 0 {
		return nil
	}
	var out []minuteOfDay
	for hours := uint64(o.a.hour); hours != 0; hours &= hours - 1 {
		for minutes := o.a.minute; minutes != 0; minutes &= minutes - 1 {
			minute := int64(bits.TrailingZeros64(hours)*60 + bits.TrailingZeros64(minutes))
			if odd == 0 {
				carry, other := floorDiv(minute+whole, secondsPerDay/60)
				if o.b.matchesMinute(other) {
					out = append(out, minuteOfDay{start: minute * 60, seconds: seconds, carry: carry})
				}
				continue
			}
			// Local mean times, which ended long ago, are no whole minutes apart.
			for seconds := o.a.second; seconds != 0; seconds &= seconds - 1 {
				start := minute*60 + int64(bits.TrailingZeros64(seconds))
				carry, other := floorDiv(start+distance, secondsPerDay)
				if o.b.matchesMinute(other/60) && o.b.second>>(other%60)&1 == 1 {
					out = append(out, minuteOfDay{start: start, seconds: 1, carry: carry})
				}
			}
		}
	}
	return out
}

func (s *Schedule) matchesMinute(minute int64) bool {
	return s.hour>>(minute/60)&1 == 1 && s.minute>>(minute%60)&1 == 1
}
