package tides

import (
	"math/bits"
	"time"
)

// searchMonths is how many months are looked through for a day that matches. The rarest day is 29 February, which is
// missing for eight years around a century that is no leap year.
const searchMonths = 8*12 + 2

// Next returns the first firing after now.
func (s *Schedule) Next(now time.Time) time.Time {
	return s.at(s.next(now.Unix()))
}

// Previous returns the last firing at or before now.
func (s *Schedule) Previous(now time.Time) time.Time {
	return s.at(s.previous(now.Unix()))
}

// FiresAt reports whether the schedule fires at exactly this second.
func (s *Schedule) FiresAt(moment time.Time) bool { return s.fires(moment.Unix()) }

func (s *Schedule) at(moment int64) time.Time { return time.Unix(moment, 0).In(s.zone) }

func (s *Schedule) next(moment int64) int64 {
	return resolve(s.zone, s.readingAfter(reached(s.zone, moment)))
}

func (s *Schedule) previous(moment int64) int64 {
	return resolve(s.zone, s.readingUpTo(reached(s.zone, moment)))
}

func (s *Schedule) fires(moment int64) bool { return s.previous(moment) == moment }

// everFires reports whether any date matches.
func (s *Schedule) everFires() bool {
	_, ok := s.dayFrom(0)
	return ok
}

// readingAfter returns the lowest matching reading above one.
func (s *Schedule) readingAfter(reading int64) int64 {
	reading++
	day, clock := floorDiv(reading, secondsPerDay)
	if s.matchesDay(day) {
		if t, ok := s.clockFrom(int(clock)); ok {
			return day*secondsPerDay + int64(t)
		}
	}
	day, _ = s.dayFrom(day + 1)
	first, _ := s.clockFrom(0)
	return day*secondsPerDay + int64(first)
}

// readingUpTo returns the highest matching reading at or below one.
func (s *Schedule) readingUpTo(reading int64) int64 {
	day, clock := floorDiv(reading, secondsPerDay)
	if s.matchesDay(day) {
		if t, ok := s.clockUpTo(int(clock)); ok {
			return day*secondsPerDay + int64(t)
		}
	}
	day = s.dayUpTo(day - 1)
	last, _ := s.clockUpTo(secondsPerDay - 1)
	return day*secondsPerDay + int64(last)
}

// clockFrom returns the first matching second of a day at or after one.
func (s *Schedule) clockFrom(clock int) (int, bool) {
	hour, minute, second := clock/3600, clock/60%60, clock%60
	if s.hour>>hour&1 == 1 {
		if s.minute>>minute&1 == 1 {
			if v, ok := lowestFrom(s.second, second); ok {
				return hour*3600 + minute*60 + v, true
			}
		}
		if v, ok := lowestFrom(s.minute, minute+1); ok {
			return hour*3600 + v*60 + lowest(s.second), true
		}
	}
	if v, ok := lowestFrom(uint64(s.hour), hour+1); ok {
		return v*3600 + lowest(s.minute)*60 + lowest(s.second), true
	}
	return 0, false
}

// clockUpTo returns the last matching second of a day at or before one.
func (s *Schedule) clockUpTo(clock int) (int, bool) {
	hour, minute, second := clock/3600, clock/60%60, clock%60
	if s.hour>>hour&1 == 1 {
		if s.minute>>minute&1 == 1 {
			if v, ok := highestUpTo(s.second, second); ok {
				return hour*3600 + minute*60 + v, true
			}
		}
		if v, ok := highestUpTo(s.minute, minute-1); ok {
			return hour*3600 + v*60 + highest(s.second), true
		}
	}
	if v, ok := highestUpTo(uint64(s.hour), hour-1); ok {
		return v*3600 + highest(s.minute)*60 + highest(s.second), true
	}
	return 0, false
}

// Days are counted from 1 January 1970.

// dayFrom returns the first matching day at or after one, and false where no date matches at all.
func (s *Schedule) dayFrom(day int64) (int64, bool) {
	year, month, dom := date(day)
	for range searchMonths {
		length := daysIn(year, month)
		if s.month>>month&1 == 1 {
			for ; dom <= length; dom, day = dom+1, day+1 {
				if s.matchesDate(day, dom) {
					return day, true
				}
			}
		} else {
			day += int64(length - dom + 1)
		}
		dom = 1
		if month++; month > 12 {
			year, month = year+1, 1
		}
	}
	return 0, false
}

// dayUpTo returns the last matching day at or before one.
func (s *Schedule) dayUpTo(day int64) int64 {
	year, month, dom := date(day)
	for range searchMonths {
		if s.month>>month&1 == 1 {
			for ; dom >= 1; dom, day = dom-1, day-1 {
				if s.matchesDate(day, dom) {
					return day
				}
			}
		} else {
			day -= int64(dom)
		}
		if month--; month < 1 {
			year, month = year-1, 12
		}
		dom = daysIn(year, month)
	}
	return day
}

func (s *Schedule) matchesDay(day int64) bool {
	_, month, dom := date(day)
	return s.month>>month&1 == 1 && s.matchesDate(day, dom)
}

// matchesDate tells whether the day fields match a day whose month does.
func (s *Schedule) matchesDate(day int64, dom int) bool {
	// 1 January 1970 was a Thursday.
	_, weekday := floorDiv(day+4, 7)
	inDOM, inDOW := s.dom>>dom&1 == 1, s.dow>>weekday&1 == 1
	if s.anyDOM || s.anyDOW {
		return inDOM && inDOW
	}
	return inDOM || inDOW
}

func date(day int64) (year, month, dom int) {
	y, m, d := time.Unix(day*secondsPerDay, 0).UTC().Date()
	return y, int(m), d
}

func daysIn(year, month int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

func floorDiv(n, by int64) (quotient, remainder int64) {
	quotient, remainder = n/by, n%by
	if remainder < 0 {
		quotient, remainder = quotient-1, remainder+by
	}
	return quotient, remainder
}

func lowest(set uint64) int { return bits.TrailingZeros64(set) }

func highest(set uint64) int { return 63 - bits.LeadingZeros64(set) }

// lowestFrom returns the lowest member at or above least, which is at most 63.
func lowestFrom(set uint64, least int) (int, bool) {
	set &= ^uint64(0) << least
	return lowest(set), set != 0
}

// highestUpTo returns the highest member at or below most, which is from -1 to 62.
func highestUpTo(set uint64, most int) (int, bool) {
	set &= 1<<(most+1) - 1
	return highest(set), set != 0
}
