package tides

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNextAndPrevious(t *testing.T) {
	cases := map[string]struct {
		cron     string
		now      string
		previous string
		next     string
	}{
		"a firing at this very second is the previous one": {
			cron: "0 9 * * *", now: "2026-06-15T09:00:00Z", previous: "2026-06-15T09:00:00Z", next: "2026-06-16T09:00:00Z",
		},
		"a skipped hour fires at the first moment after it": {
			cron: "CRON_TZ=America/Los_Angeles 0 30 2 * * *", now: "2025-03-09T10:00:01Z",
			previous: "2025-03-09T10:00:00Z", next: "2025-03-10T09:30:00Z",
		},
		"before the skipped hour that moment is next": {
			cron: "CRON_TZ=America/Los_Angeles 0 30 2 * * *", now: "2025-03-09T08:00:00Z",
			previous: "2025-03-08T10:30:00Z", next: "2025-03-09T10:00:00Z",
		},
		"a skipped hour with many firings has one": {
			cron: "CRON_TZ=America/Los_Angeles */10 2 * * *", now: "2025-03-09T10:00:00Z",
			previous: "2025-03-09T10:00:00Z", next: "2025-03-10T09:00:00Z",
		},
		"a repeated hour fires the first time": {
			cron: "CRON_TZ=America/Los_Angeles 30 1 * * *", now: "2025-11-02T09:30:00Z", // the second 01:30
			previous: "2025-11-02T08:30:00Z", next: "2025-11-03T09:30:00Z",
		},
		"every ten minutes rests through the repeat": {
			cron: "CRON_TZ=America/Los_Angeles */10 * * * *", now: "2025-11-02T08:50:00Z",
			previous: "2025-11-02T08:50:00Z", next: "2025-11-02T10:00:00Z",
		},
		"half an hour is skipped on Lord Howe": {
			cron: "CRON_TZ=Australia/Lord_Howe 15 2 * * *", now: "2025-10-04T15:30:00Z",
			previous: "2025-10-04T15:30:00Z", next: "2025-10-05T15:15:00Z",
		},
		"and repeated": {
			cron: "CRON_TZ=Australia/Lord_Howe 45 1 * * *", now: "2025-04-05T15:20:00Z",
			previous: "2025-04-05T14:45:00Z", next: "2025-04-06T15:15:00Z",
		},
		"Dublin's winter time is the negative one": {
			cron: "CRON_TZ=Europe/Dublin 30 1 * * *", now: "2025-03-30T01:00:00Z",
			previous: "2025-03-30T01:00:00Z", next: "2025-03-31T00:30:00Z",
		},
		"Kiritimati is a day ahead": {
			cron: "CRON_TZ=Pacific/Kiritimati 0 0 1 1 *", now: "2025-12-31T10:00:00Z",
			previous: "2025-12-31T10:00:00Z", next: "2026-12-31T10:00:00Z",
		},
		"Apia skipped 30 December 2011": {
			cron: "CRON_TZ=Pacific/Apia 0 9 30 12 *", now: "2011-12-30T12:00:00Z",
			previous: "2011-12-30T10:00:00Z", next: "2012-12-29T19:00:00Z",
		},
		"midnight that does not exist": {
			cron: "CRON_TZ=Africa/Cairo @daily", now: "2024-04-25T21:59:59Z",
			previous: "2024-04-24T22:00:00Z", next: "2024-04-25T22:00:00Z",
		},
		"29 February is found over three years": {
			cron: "0 0 29 2 *", now: "2027-06-01T00:00:00Z", previous: "2024-02-29T00:00:00Z", next: "2028-02-29T00:00:00Z",
		},
		"and over eight": {
			cron: "0 0 29 2 *", now: "2101-01-01T00:00:00Z", previous: "2096-02-29T00:00:00Z", next: "2104-02-29T00:00:00Z",
		},
		"the 31st of every month comes in seven of them": {
			cron: "0 0 31 * *", now: "2026-02-15T00:00:00Z", previous: "2026-01-31T00:00:00Z", next: "2026-03-31T00:00:00Z",
		},
		"both day fields: either is enough (the Monday)": {
			cron: "0 9 13 * 1", now: "2026-06-14T00:00:00Z", previous: "2026-06-13T09:00:00Z", next: "2026-06-15T09:00:00Z",
		},
		"both day fields: either is enough (the 15th is a Monday, once)": {
			cron: "0 0 9 15 * 1", now: "2026-06-15T00:00:00Z", previous: "2026-06-08T09:00:00Z", next: "2026-06-15T09:00:00Z",
		},
		"a day field with a step is restricted": {
			cron: "0 9 */10 * 1", now: "2026-06-15T09:00:00Z", previous: "2026-06-15T09:00:00Z", next: "2026-06-21T09:00:00Z",
		},
		"a fraction of a second before": {
			cron: "0 9 * * *", now: "2026-06-15T08:59:59.999999999Z", previous: "2026-06-14T09:00:00Z", next: "2026-06-15T09:00:00Z",
		},
		"before 1970": {
			cron: "0 9 * * *", now: "1969-12-31T23:59:59Z", previous: "1969-12-31T09:00:00Z", next: "1970-01-01T09:00:00Z",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := must(t, tc.cron)
			now, err := time.Parse(time.RFC3339Nano, tc.now)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := s.Previous(now), at(t, tc.previous); !got.Equal(want) {
				t.Errorf("previous is %v, want %v", got.UTC(), want)
			}
			if got, want := s.Next(now), at(t, tc.next); !got.Equal(want) {
				t.Errorf("next is %v, want %v", got.UTC(), want)
			}
		})
	}
}

// shown lists the firings in (after, until] by watching the clock of the zone second by second: a reading fires when the
// clock first shows it or jumps over it, and one moment is one firing.
func shown(s *Schedule, after, until int64) []int64 {
	var out []int64
	highest := reachedSlowly(s.zone, after)
	for moment := after + 1; moment <= until; moment++ {
		_, ahead := time.Unix(moment, 0).In(s.zone).Zone()
		reading := moment + int64(ahead)
		fires := false
		for r := highest + 1; r <= reading; r++ {
			if day, clock := floorDiv(r, secondsPerDay); s.matchesDay(day) && s.matchesMinute(clock/60) && s.second>>(clock%60)&1 == 1 {
				fires = true
			}
		}
		if fires {
			out = append(out, moment)
		}
		highest = max(highest, reading)
	}
	return out
}

func reachedSlowly(zone *time.Location, moment int64) int64 {
	highest := int64(-1 << 62)
	for m := moment - 3*3600; m <= moment; m++ {
		_, ahead := time.Unix(m, 0).In(zone).Zone()
		highest = max(highest, m+int64(ahead))
	}
	return highest
}

func TestFiringsAroundTransitionsEqualTheClockWatched(t *testing.T) {
	transitions := map[string]string{
		"America/Los_Angeles": "2025-03-09T10:00:00Z", "Europe/Berlin": "2025-10-26T01:00:00Z", "Australia/Lord_Howe": "2025-04-05T15:00:00Z",
		"Antarctica/Troll": "2025-03-30T01:00:00Z", "Africa/Casablanca": "2025-02-23T02:00:00Z", "Asia/Pyongyang": "2018-05-04T15:00:00Z",
		"America/Caracas": "2016-05-01T07:00:00Z", "Pacific/Apia": "2011-12-30T10:00:00Z", "Europe/Istanbul": "2016-09-06T21:00:00Z",
	}
	crons := []string{"*/7 * * * *", "30 * * * *", "15,45 0-3 * * *", "0 0 * * *", "20 30 1,2 * * *", "0 0 0 30 12 *"}
	for zone, text := range transitions {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			transition := at(t, text).Unix()
			after, until := transition-5*3600, transition+5*3600
			for _, cron := range crons {
				s := must(t, "CRON_TZ="+zone+" "+cron)
				want := shown(s, after, until)
				var forwards, backwards []int64
				for m := s.next(after); m <= until; m = s.next(m) {
					forwards = append(forwards, m)
				}
				for m := s.previous(until); m > after; m = s.previous(m - 1) {
					backwards = append(backwards, m)
				}
				slices.Reverse(backwards)
				if diff := cmp.Diff(want, forwards); diff != "" {
					t.Errorf("%q forwards (-watched +found):\n%s", cron, diff)
				}
				if diff := cmp.Diff(want, backwards); diff != "" {
					t.Errorf("%q backwards (-watched +found):\n%s", cron, diff)
				}
			}
		})
	}
}

var someZones = []string{"UTC", "Asia/Shanghai", "Asia/Kathmandu", "America/New_York", "Europe/London", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Cairo", "Antarctica/Troll", "Pacific/Kiritimati"}

func someSchedule(t testing.TB, r *rand.Rand) (string, *Schedule) {
	t.Helper()
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	cron := "CRON_TZ=" + pick(someZones...) + " " +
		pick("0", "0", "0", "30", "*/20") + " " +
		pick("0", "30", "*/5", "2/5", "0,30", "17") + " " +
		pick("*", "0", "2", "9", "1,2,3", "*/6", "8-18") + " " +
		pick("*", "*", "*", "1", "29", "31", "*/10") + " " +
		pick("*", "*", "2", "3,10", "12") + " " +
		pick("*", "*", "1-5", "0", "6,0")
	s, err := Parse(cron)
	if err != nil {
		return someSchedule(t, r)
	}
	return cron, s
}

func seconds(moments []time.Time) []int64 {
	var out []int64
	for _, m := range moments {
		out = append(out, m.Unix())
	}
	return out
}

func TestOverlapsEqualFiringsCompared(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		textA, a := someSchedule(t, r)
		textB, b := someSchedule(t, r)
		after := at(t, "2025-01-01T00:00:00Z").Unix() + r.Int64N(366*secondsPerDay)
		until := after + 45*secondsPerDay
		var want []time.Time
		for m, n := a.next(after), b.next(after); m <= until && n <= until && len(want) < overlapsShown; {
			switch {
			case m < n:
				m = a.next(m)
			case n < m:
				n = b.next(n)
			default:
				want = append(want, time.Unix(m, 0).UTC())
				m, n = a.next(m), b.next(n)
			}
		}
		far := overlapSearch{a: a, b: b, after: after, until: until, limit: overlapsShown}
		far.far()
		got := Overlaps(a, b, time.Unix(after, 0), time.Unix(until, 0), overlapsShown)
		if diff := cmp.Diff(seconds(want), far.found); diff != "" {
			t.Errorf("%q and %q after %v, day by day (-compared +found):\n%s", textA, textB, time.Unix(after, 0).UTC(), diff)
		}
		if diff := cmp.Diff(want, got, cmp.Transformer("len", func(ts []time.Time) []string {
			out := []string{}
			for _, x := range ts {
				out = append(out, x.Format(time.RFC3339))
			}
			return out
		})); diff != "" {
			t.Errorf("%q and %q after %v (-compared +found):\n%s", textA, textB, time.Unix(after, 0).UTC(), diff)
		}
	}
}

func TestOverlapsOfMeanTimes(t *testing.T) {
	// Until 1972 Monrovia was 44 minutes and 30 seconds behind UTC.
	a, b := must(t, "CRON_TZ=Africa/Monrovia 30 15 9 * * *"), must(t, "0 0 10 * * *")
	after, until := at(t, "1960-01-01T00:00:00Z"), at(t, "1960-01-03T00:00:00Z")
	got := Overlaps(a, b, after, until, 5)
	far := overlapSearch{a: a, b: b, after: after.Unix(), until: until.Unix(), limit: 5}
	far.far()
	want := []time.Time{at(t, "1960-01-01T10:00:00Z").UTC(), at(t, "1960-01-02T10:00:00Z").UTC()}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("overlaps (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(seconds(want), far.found); diff != "" {
		t.Errorf("overlaps day by day (-want +got):\n%s", diff)
	}
}

func TestTheLastDayOfALeapYear(t *testing.T) {
	s := *must(t, "CRON_TZ=Australia/Adelaide 30 12 * * *")
	s.zone = toolchainZone(t, "Australia/Adelaide")
	now := at(t, "2048-12-31T00:00:00Z")
	if got, want := s.Next(now), at(t, "2048-12-31T02:00:00Z"); !got.Equal(want) {
		t.Errorf("next is %v, want %v", got.UTC(), want)
	}
	if got, want := s.Previous(now), at(t, "2048-12-30T02:00:00Z"); !got.Equal(want) {
		t.Errorf("previous is %v, want %v", got.UTC(), want)
	}
}
