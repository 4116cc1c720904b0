package tides

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func must(t testing.TB, expression string) *Schedule {
	t.Helper()
	s, err := Parse(expression)
	if err != nil {
		t.Fatalf("Parse(%q): %v", expression, err)
	}
	return s
}

func at(t testing.TB, text string) time.Time {
	t.Helper()
	moment, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return moment
}

func TestParseReadsTheSameMomentsInEverySpelling(t *testing.T) {
	cases := map[string][]string{
		"seconds default to 0": {
			"CRON_TZ=Asia/Shanghai 0 9 * * 1-5", "CRON_TZ=Asia/Shanghai 0 0 9 * * 1-5", "TZ=Asia/Shanghai 0 9 * * 1-5",
			"CRON_TZ=Asia/Shanghai   0  9 *  * 1-5  ",
		},
		"days of the week by name, in any case":     {"0 0 9 * * MON-FRI", "0 9 * * mon-fri", "0 9 * * 1-5", "0 9 * * Mon,TUE,wed,THU,fri"},
		"a name with an h is no request for a hash": {"0 9 * 3 4", "0 9 * MAR THU"},
		"months by name":                        {"0 0 1 JAN,jul *", "0 0 1 1,7 *"},
		"no zone is UTC":                        {"50 16 * * *", "0 50 16 * * *", "CRON_TZ=UTC 50 16 * * *", "TZ=UTC 0 50 16 * * *"},
		"a question mark restricts nothing":     {"0 0 9 ? * 1", "0 0 9 * * 1"},
		"a value with a step counts to the end": {"0 0/15 * * * *", "*/15 * * * *", "0,15,30,45 * * * *"},
		"a step over days of the week ends on Saturday": {
			"0 9 * * 1/3", "0 9 * * 1,4",
		},
		"@daily is midnight":       {"@daily", "@midnight", "@Daily", "0 0 * * *", "0 0 0 ? * *"},
		"@weekly is Sunday":        {"@weekly", "0 0 * * 0", "0 0 * * SUN"},
		"@monthly is the first":    {"@monthly", "0 0 1 * *"},
		"@yearly is 1 January":     {"@yearly", "@annually", "0 0 1 1 *"},
		"@hourly is on the hour":   {"@hourly", "0 * * * *"},
		"leading zeros are no sin": {"00 09 * * *", "0 9 * * *"},
		"a step of one is no step": {"*/1 */1 * * *", "* * * * *"},
	}
	for name, spellings := range cases {
		t.Run(name, func(t *testing.T) {
			want := must(t, spellings[0])
			for _, spelling := range spellings[1:] {
				got := must(t, spelling)
				if *got != *want {
					t.Errorf("%q is %+v, %q is %+v", spellings[0], *want, spelling, *got)
				}
			}
		})
	}
}

func TestParseRefusesWithTheFix(t *testing.T) {
	cases := map[string]struct {
		cron string
		want string // part of the message
	}{
		"a zone and nothing else":                {"CRON_TZ=UTC", "has no fields after the time zone"},
		"an empty zone and nothing else":         {"CRON_TZ=", "has no fields after the time zone"},
		"an empty zone and a blank":              {"CRON_TZ= ", "the time zone is empty"},
		"an empty zone before fields":            {"CRON_TZ= 0 50 16 * * *", "the time zone is empty"},
		"prefix upon prefix":                     {"TZ=TZ=TZ=", "has no fields after the time zone"},
		"prefix upon prefix and fields":          {"TZ=TZ=UTC 0 9 * * *", `time zone "TZ=UTC": must be a name`},
		"a misspelt zone":                        {"CRON_TZ=Asia/Chongqin 0 9 * * *", `unknown time zone "Asia/Chongqin": must be a name of the IANA`},
		"the zone of the machine":                {"CRON_TZ=Local 0 9 * * *", "would depend on the machine"},
		"the zone file of the machine":           {"CRON_TZ=localtime 0 9 * * *", "would depend on the machine"},
		"leap seconds counted":                   {"CRON_TZ=right/Asia/Shanghai 0 9 * * *", "would depend on the machine"},
		"a path out of the database":             {"CRON_TZ=../../etc/passwd 0 9 * * *", "must be a name of the IANA"},
		"a tab after the zone":                   {"CRON_TZ=UTC\t0 9 * * *", `time zone "UTC\t0": must be a name of the IANA`},
		"a tab between fields":                   {"CRON_TZ=UTC 0\t9 * * *", "has 4 fields"},
		"lower-case prefix":                      {"cron_tz=UTC 0 9 * * *", "seconds \"cron_tz=utc\""},
		"512 stars":                              {strings.Repeat("*", 512), "has 1 fields: must be five"},
		"513 stars":                              {strings.Repeat("*", 513), "must be at most 512"},
		"nothing":                                {"", "has 0 fields"},
		"four fields":                            {"9 * * *", "has 4 fields: must be five (minute, hour, day of month, month, day of week) or six"},
		"seven fields":                           {"0 0 9 * * * 2026", "has 7 fields"},
		"@every":                                 {"@every 1h", "has no fixed moment to count from"},
		"@every after a zone":                    {"CRON_TZ=UTC @every 1h30m", "has no fixed moment to count from"},
		"@reboot":                                {"@reboot", "is no descriptor: must be one of @yearly"},
		"Sunday as 7":                            {"0 0 9 * * 7", "7 is out of range: must be from 0 to 6 or SUN to SAT; Sunday is 0"},
		"hour 24":                                {"0 24 * * *", "24 is out of range: must be from 0 to 23; midnight is hour 0"},
		"minute 60":                              {"60 * * * *", "60 is out of range: must be from 0 to 59"},
		"day 0":                                  {"0 0 0 * *", "0 is out of range: must be from 1 to 31"},
		"month 13":                               {"0 0 1 13 *", "13 is out of range: must be from 1 to 12 or JAN to DEC"},
		"the last day":                           {"0 0 L * *", `"l" is no value: must be from 1 to 31; for the last day of a month list`},
		"the third Friday":                       {"0 0 * * FRI#3", `"fri#3" cannot be read`},
		"the nearest weekday":                    {"0 0 15W * *", `"15w" cannot be read`},
		"a hash":                                 {"H 0 * * *", `"h" is no value`},
		"a range that runs over the end":         {"0 22-2 * * *", `range "22-2" runs over the end of the field: write it as two, 22-23,0-2`},
		"a range over the weekend":               {"0 9 * * FRI-MON", "write it as two, fri-6,0-mon"},
		"step 0":                                 {"*/0 * * * *", "must be from 1"},
		"a step longer than the field":           {"*/90 * * * *", "so that only 0 would match: write 0, or a step from 1 to 59"},
		"an empty element":                       {"1,,2 * * * *", "cannot be read"},
		"a negative number":                      {"-5 * * * *", "cannot be read"},
		"a huge number":                          {"99999999999999999999 * * * *", "cannot be read"},
		"30 February":                            {"CRON_TZ=UTC 0 0 0 30 2 *", "never fires"},
		"31 in short months only":                {"0 0 31 2,4,6,9,11 *", "never fires"},
		"a month name in the field for weekdays": {"0 9 * * JAN", `"jan" is no value: must be from 0 to 6 or SUN to SAT`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(tc.cron)
			if err == nil {
				t.Fatalf("Parse(%q) accepts it", tc.cron)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("message %q does not say %q", err, tc.want)
			}
			if got, want := errors.Is(err, ErrNeverFires), tc.want == "never fires"; got != want {
				t.Errorf("errors.Is(err, ErrNeverFires) is %v", got)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"CRON_TZ=Asia/Shanghai 0 50 16 * * *", "TZ=UTC */5 9-17 * * MON-FRI", "@daily", "@every 1h", "CRON_TZ=UTC", "TZ=", "TZ=TZ=TZ=",
		"0 0 30 2 *", "0 0 29 2 *", "0 9 13 * 5", "* * * * * *", "CRON_TZ=Australia/Lord_Howe 15 2 * * *", "1/3 */7 ? JAN-MAR,DEC 0",
	} {
		f.Add(seed, int64(1_700_000_000))
	}
	f.Fuzz(func(t *testing.T, expression string, seconds int64) {
		s, err := Parse(expression)
		if err != nil {
			if s != nil || err.Error() == "" {
				t.Fatalf("a refusal has a message and no schedule: %v, %v", s, err)
			}
			return
		}
		// From the year 1800 to 2200.
		now := time.Unix(-5_364_662_400+(seconds%12_622_780_800+12_622_780_800)%12_622_780_800, 0)
		next, previous := s.Next(now), s.Previous(now)
		if !next.After(now) || previous.After(now) {
			t.Fatalf("%q at %v: next %v, previous %v", expression, now, next, previous)
		}
		if again := s.Previous(next); !again.Equal(next) {
			t.Fatalf("%q: the firing before or at its firing %v is %v", expression, next, again)
		}
		if back := s.Next(previous); !back.Equal(next) {
			t.Fatalf("%q at %v: previous %v, the one after it %v, next %v", expression, now, previous, back, next)
		}
	})
}
