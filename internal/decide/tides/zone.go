package tides

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // The zone database is part of the program, since minimal images have none.
)

// zones holds the zones that have been read, by name. A zone takes 10 KB and tens of microseconds to read, and there are a
// few hundred of them; only names of the database get in.
var zones sync.Map

// zoneName is what the names of the IANA database are made of.
var zoneName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$`)

// machineZones are names by which a machine's own database calls its own zone, or variants of others that have no
// place in the database itself: they would mean different things on different machines.
var machineZones = map[string]bool{"local": true, "localtime": true, "posixrules": true, "posix": true, "right": true}

func loadZone(name string) (*time.Location, error) {
	if zone, ok := zones.Load(name); ok {
		return zone.(*time.Location), nil
	}
	const must = "must be a name of the IANA time zone database such as Asia/Shanghai or UTC"
	if name == "" {
		return nil, fmt.Errorf("the time zone is empty: %s, right after the = and followed by a blank", must)
	}
	if !zoneName.MatchString(name) {
		return nil, fmt.Errorf("time zone %q: %s, followed by one blank", name, must)
	}
	first, _, _ := strings.Cut(strings.ToLower(name), "/")
	if machineZones[first] {
		return nil, fmt.Errorf("time zone %q would depend on the machine that the manager runs on: %s", name, must)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("unknown time zone %q: %s", name, must)
	}
	zones.Store(name, zone)
	return zone, nil
}

const (
	secondsPerDay = 24 * 60 * 60
	// widest is more than any zone has ever been off UTC, and more than any transition has ever moved a clock.
	widest = 26 * 60 * 60
)

// Wall clock readings are written as the seconds since 1970 that a clock in UTC with the same reading would show. Moments
// are seconds since 1970 (Unix time).

// offset returns how far the zone's clock is ahead of UTC at a moment, and the moments at which that offset begins and
// ends. Without a beginning or an end these are the least and the greatest int64.
func offset(zone *time.Location, moment int64) (ahead, begin, end int64) {
	at := time.Unix(moment, 0).In(zone)
	_, seconds := at.Zone()
	begin, end = -1<<63, 1<<63-1
	first, last := at.ZoneBounds()
	if !first.IsZero() {
		begin = first.Unix()
	}
	if !last.IsZero() {
		end = last.Unix()
	}
	if end <= moment {
		// Past the last transition that the database lists, package time works one out for each year. It then takes every
		// year for one of 365 days, so that on the last day of a leap year the offset seems to have ended already. It holds
		// to the end of that year, in UTC.
		end = time.Date(at.UTC().Year()+1, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()
	}
	return int64(seconds), begin, end
}

// reached returns the highest reading that the zone's clock has shown up to and at a moment. It is above the present
// reading where the clock has been set back and has not caught up.
func reached(zone *time.Location, moment int64) int64 {
	ahead, begin, _ := offset(zone, moment)
	highest := moment + ahead
	for begin > moment-widest {
		last := begin - 1
		ahead, begin, _ = offset(zone, last)
		highest = max(highest, last+ahead)
	}
	return highest
}

// resolve returns the first moment at which the zone's clock has reached a reading.
func resolve(zone *time.Location, reading int64) int64 {
	for at := reading - widest; ; {
		ahead, _, end := offset(zone, at)
		moment := reading - ahead
		switch {
		case moment <= at:
			// The clock jumped over the reading when this offset began.
			return at
		case moment < end:
			return moment
		}
		at = end
	}
}
