package tides

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
)

func spec(rules ...string) v1alpha1.TidalSpec {
	var s v1alpha1.TidalSpec
	for _, r := range rules {
		name, rest, _ := strings.Cut(r, "|")
		cron, count, _ := strings.Cut(rest, "|")
		var n int32
		if _, err := fmt.Sscan(count, &n); err != nil {
			panic(err)
		}
		s.Triggers.Times.Rules = append(s.Triggers.Times.Rules, v1alpha1.TimeRule{Name: name, Cron: cron, Replicas: &n})
	}
	return s
}

func compiled(t *testing.T, rules ...string) []Rule {
	t.Helper()
	out, problems := Compile(spec(rules...))
	if len(problems) > 0 {
		t.Fatalf("problems: %v", problems)
	}
	return out
}

func TestDecideSaysWhatIsInForce(t *testing.T) {
	workdays := []string{"up|CRON_TZ=UTC 0 30 6 * * 1-5|10", "down|CRON_TZ=UTC 0 0 20 * * *|2"}
	document := []string{"time1|CRON_TZ=Asia/Shanghai 0 50 16 * * *|3", "time2|CRON_TZ=Asia/Shanghai 0 0 8 * * *|5"}
	cases := map[string]struct {
		rules  []string
		now    string
		active string
		before string
		next   string
	}{
		"Saturday noon: the last to fire was down on Friday": {
			workdays, "2026-06-13T12:00:00Z", "down 2 2026-06-12T20:00:00Z", "up 10 2026-06-12T06:30:00Z", "down 2 2026-06-13T20:00:00Z",
		},
		"Monday morning: up": {
			workdays, "2026-06-15T06:31:00Z", "up 10 2026-06-15T06:30:00Z", "down 2 2026-06-14T20:00:00Z", "down 2 2026-06-15T20:00:00Z",
		},
		"Sunday morning: up does not fire at the weekend": {
			workdays, "2026-06-14T06:31:00Z", "down 2 2026-06-13T20:00:00Z", "down 2 2026-06-12T20:00:00Z", "down 2 2026-06-14T20:00:00Z",
		},
		"the manifest of the document, in the afternoon": {
			document, "2026-06-15T09:00:00Z", "time1 3 2026-06-15T08:50:00Z", "time2 5 2026-06-15T00:00:00Z", "time2 5 2026-06-16T00:00:00Z",
		},
		"inside the hour that daylight saving skipped": {
			[]string{"night|CRON_TZ=America/Los_Angeles 0 30 2 * * *|5", "day|CRON_TZ=America/Los_Angeles 0 9 * * *|8"},
			"2025-03-09T10:00:01Z", "night 5 2025-03-09T10:00:00Z", "day 8 2025-03-08T17:00:00Z", "day 8 2025-03-09T16:00:00Z",
		},
		"at the same moment the later in the list wins": {
			[]string{"first|0 9 * * *|1", "second|0 9 * * *|2", "third|0 9 1 1 *|3"},
			"2026-06-15T12:00:00Z", "second 2 2026-06-15T09:00:00Z", "second 2 2026-06-14T09:00:00Z", "second 2 2026-06-16T09:00:00Z",
		},
		"a rule of the 29th of February is in force for years": {
			[]string{"leap|0 0 29 2 *|4"}, "2027-06-15T12:00:00Z", "leap 4 2024-02-29T00:00:00Z", "leap 4 2020-02-29T00:00:00Z", "leap 4 2028-02-29T00:00:00Z",
		},
		"no rule": {nil, "2026-06-15T12:00:00Z", "", "", ""},
	}
	show := func(f *Firing) string {
		if f == nil {
			return ""
		}
		return fmt.Sprintf("%s %d %s", f.Rule, f.Replicas, f.Time.UTC().Format(time.RFC3339))
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := Decide(compiled(t, tc.rules...), at(t, tc.now))
			next := ""
			if len(p.Upcoming) > 0 {
				next = show(&p.Upcoming[0])
			}
			if got, want := []string{show(p.Active), show(p.Before), next}, []string{tc.active, tc.before, tc.next}; !cmp.Equal(got, want) {
				t.Errorf("active, before and next are %q, want %q", got, want)
			}
		})
	}
}

func TestContinueKeepsWhatIsInForce(t *testing.T) {
	rules := []string{"day|0 8 * * *|10", "night|0 20 * * *|2"}
	recorded := func(rule, time string, replicas int32) *Firing {
		return &Firing{Rule: rule, Time: at(t, time), Replicas: replicas}
	}
	cases := map[string]struct {
		rules    []string
		recorded *Firing
		edited   bool
		now      string
		want     string
	}{
		"nothing on record: the rule that fired last": {
			rules: rules, now: "2026-06-15T11:17:00Z", want: "day 10 2026-06-15T08:00:00Z",
		},
		"days asleep: the rule that fired last, once": {
			rules: rules, recorded: recorded("day", "2026-06-11T08:00:00Z", 10), now: "2026-06-15T21:00:00Z", want: "night 2 2026-06-15T20:00:00Z",
		},
		"the clock is set back by five minutes to before the firing": {
			rules: rules, recorded: recorded("day", "2026-06-15T08:00:00Z", 10), now: "2026-06-15T07:57:00Z", want: "day 10 2026-06-15T08:00:00Z",
		},
		"the clock is set back by two hours: it is night again": {
			rules: rules, recorded: recorded("day", "2026-06-15T08:00:00Z", 10), now: "2026-06-15T06:10:00Z", want: "night 2 2026-06-14T20:00:00Z",
		},
		"the clock is set back, and another rule is edited": {
			rules: []string{"day|0 8 * * *|10", "night|0 20 * * *|3"}, edited: true,
			recorded: recorded("day", "2026-06-15T08:00:00Z", 10), now: "2026-06-15T07:57:00Z", want: "day 10 2026-06-15T08:00:00Z",
		},
		"the clock is set back, and the rule in force has another name": {
			rules: []string{"daytime|0 8 * * *|10", "night|0 20 * * *|2"}, edited: true,
			recorded: recorded("day", "2026-06-15T08:00:00Z", 10), now: "2026-06-15T07:57:00Z", want: "daytime 10 2026-06-15T08:00:00Z",
		},
		"the clock is set back, and the rule in force wants another count": {
			rules: []string{"day|0 8 * * *|12", "night|0 20 * * *|2"}, edited: true,
			recorded: recorded("day", "2026-06-15T08:00:00Z", 10), now: "2026-06-15T07:57:00Z", want: "night 2 2026-06-14T20:00:00Z",
		},
		"the clock is set back, and the rule in force is moved": {
			rules: []string{"day|30 8 * * *|10", "night|0 20 * * *|2"}, edited: true,
			recorded: recorded("day", "2026-06-15T08:00:00Z", 10), now: "2026-06-15T07:57:00Z", want: "night 2 2026-06-14T20:00:00Z",
		},
		"the clock is set back, and the rule in force is taken out": {
			rules: []string{"night|0 20 * * *|2"}, edited: true,
			recorded: recorded("day", "2026-06-15T08:00:00Z", 10), now: "2026-06-15T07:57:00Z", want: "night 2 2026-06-14T20:00:00Z",
		},
		"the clock was years ahead and is right again": {
			rules: rules, recorded: recorded("night", "2031-06-15T20:00:00Z", 2), now: "2026-06-15T12:00:00Z", want: "day 10 2026-06-15T08:00:00Z",
		},
		"the rule is moved to later than now: the one before it": {
			rules: []string{"day|0 12 * * *|10", "night|0 20 * * *|2"}, edited: true,
			recorded: recorded("day", "2026-06-15T11:00:00Z", 10), now: "2026-06-15T11:17:00Z", want: "night 2 2026-06-14T20:00:00Z",
		},
		"schedule and count are edited while in force": {
			rules: []string{"day|0 9 * * *|12", "night|0 20 * * *|2"}, edited: true,
			recorded: recorded("day", "2026-06-15T08:00:00Z", 10), now: "2026-06-15T11:17:00Z", want: "day 12 2026-06-15T09:00:00Z",
		},
		"the rule in force breaks: its count stays": {
			rules: []string{"day|0 8 * * 9|10", "night|0 20 * * *|2"}, edited: true,
			recorded: recorded("day", "2026-06-15T08:00:00Z", 10), now: "2026-06-15T11:17:00Z", want: "day 10 2026-06-15T08:00:00Z",
		},
		"until another one fires": {
			rules:    []string{"day|0 8 * * 9|10", "night|0 20 * * *|2"},
			recorded: recorded("day", "2026-06-15T08:00:00Z", 10), now: "2026-06-15T20:00:00Z", want: "night 2 2026-06-15T20:00:00Z",
		},
		"a rule breaks that is not in force": {
			rules: []string{"day|0 8 * * *|10", "night|0 30 * * *|2"}, edited: true,
			recorded: recorded("day", "2026-06-15T08:00:00Z", 10), now: "2026-06-16T11:17:00Z", want: "day 10 2026-06-16T08:00:00Z",
		},
		"all rules break": {
			rules: []string{"day|CRON_TZ=UTC|10"}, edited: true,
			recorded: recorded("day", "2026-06-15T08:00:00Z", 10), now: "2026-06-16T11:17:00Z", want: "day 10 2026-06-15T08:00:00Z",
		},
		"the rule in force is taken out: the one before it": {
			rules: []string{"night|0 20 * * *|2"}, edited: true,
			recorded: recorded("day", "2026-06-15T08:00:00Z", 10), now: "2026-06-15T11:17:00Z", want: "night 2 2026-06-14T20:00:00Z",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			usable, problems := Compile(spec(tc.rules...))
			f := Continue(Facts{Rules: usable, Problems: problems, Recorded: tc.recorded, SameSpec: !tc.edited, Now: at(t, tc.now)}).Active
			if got := fmt.Sprintf("%s %d %s", f.Rule, f.Replicas, f.Time.UTC().Format(time.RFC3339)); got != tc.want {
				t.Errorf("in force is %s, want %s", got, tc.want)
			}
		})
	}
}

func TestUpcomingIsWhatWillBeInForce(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		var rules []Rule
		for i := range 1 + r.IntN(5) {
			_, s := someSchedule(t, r)
			rules = append(rules, Rule{Name: fmt.Sprint("rule", i), Schedule: s, Replicas: r.Int32N(20)})
		}
		now := at(t, "2025-01-01T00:00:00Z").Add(time.Duration(r.Int64N(int64(OverlapHorizon))))
		p := Decide(rules, now)
		if p.Active.Time.After(now) || !p.Before.Time.Before(p.Active.Time) || len(p.Upcoming) != upcomingFirings {
			t.Fatalf("plan at %v: %+v", now, p)
		}
		before := now
		for _, f := range p.Upcoming {
			if !f.Time.After(before) {
				t.Fatalf("upcoming at %v is not in order: %+v", now, p.Upcoming)
			}
			// In the second before it fires nothing else has, and from that second on it is in force.
			if then := Decide(rules, f.Time); then.Active.Rule != f.Rule || !then.Active.Time.Equal(f.Time) {
				t.Fatalf("at %v %+v is in force, and %+v was announced", f.Time, then.Active, f)
			}
			if then := Decide(rules, f.Time.Add(-time.Second)); then.Active.Time.After(before) {
				t.Fatalf("%+v fires between %v and %v, unannounced", then.Active, before, f.Time)
			}
			before = f.Time
		}
	}
}

func TestCompileKeepsTheSiblingsOfABrokenRule(t *testing.T) {
	rules, problems := Compile(spec("a|CRON_TZ=UTC|1", "b|0 9 * * *|2", "c|0 0 30 2 *|3", "b|0 10 * * *|4", "d|0 11 * * *|5"))
	var names []string
	for _, r := range rules {
		names = append(names, r.Name)
	}
	if !cmp.Equal(names, []string{"b", "d"}) {
		t.Errorf("usable rules are %q", names)
	}
	want := []string{v1alpha1.ReasonInvalidSchedule, v1alpha1.ReasonScheduleNeverFires, v1alpha1.ReasonInvalidSchedule}
	var got []string
	for i, p := range problems {
		got = append(got, p.Reason)
		if name := []string{`rule "a"`, `rule "c"`, `rule "b"`}[i]; !strings.HasPrefix(p.Message, name) {
			t.Errorf("message %q does not begin with %s", p.Message, name)
		}
	}
	if !cmp.Equal(got, want) {
		t.Errorf("reasons are %q, want %q", got, want)
	}
}

func TestValidateReturnsAllFindings(t *testing.T) {
	all := Validate(spec("a|CRON_TZ=UTC|1", "b|0 9 * * *|2", "b|CRON_TZ=Asia/Chongqin 0 9 * * *|3"), field.NewPath("spec"))
	var got []string
	for _, e := range all {
		got = append(got, string(e.Type)+" "+e.Field)
	}
	want := []string{
		"FieldValueInvalid spec.triggers.times.rules[0].cron",
		"FieldValueDuplicate spec.triggers.times.rules[2].name",
		"FieldValueInvalid spec.triggers.times.rules[2].cron",
	}
	if !cmp.Equal(got, want) {
		t.Errorf("findings are %q, want %q: %v", got, want, all)
	}
}

func TestValidateUpdateLetsStandWhatStoodBefore(t *testing.T) {
	old := spec("a|CRON_TZ=Nowhere 0 9 * * *|1", "b|0 9 * * *|2")
	got := func(rules ...string) (fields []string) {
		for _, e := range ValidateUpdate(old, spec(rules...), field.NewPath("spec")) {
			fields = append(fields, e.Field)
		}
		return fields
	}
	if f := got("b|0 9 * * *|2", "renamed|CRON_TZ=Nowhere 0 9 * * *|3"); f != nil {
		t.Errorf("findings about %q, want none: no expression is new", f)
	}
	if f := got("a|CRON_TZ=Nowhere 0 9 * * *|1", "b|CRON_TZ=Nowhere 0 10 * * *|2", "a|0 9 * * *|1"); !cmp.Equal(f, []string{"spec.triggers.times.rules[1].cron", "spec.triggers.times.rules[2].name"}) {
		t.Errorf("findings about %q, want the new expression and the second name", f)
	}
}

func TestConflictsNameEachPairWithItsFirstMoments(t *testing.T) {
	now := at(t, "2026-06-15T12:00:00Z")
	rules := compiled(t,
		"daily|0 9 * * *|1", "monthly|0 9 1 * *|2", "other|30 9 * * *|3",
		"shanghai|CRON_TZ=Asia/Shanghai 0 17 1 7 *|4")
	conflicts := Conflicts(rules, now)
	var got []string
	for _, c := range conflicts {
		got = append(got, fmt.Sprintf("%s %s %d", c.First, c.Second, len(c.Times)))
	}
	if want := []string{"daily monthly 5", "daily shanghai 1", "monthly shanghai 1"}; !cmp.Equal(got, want) {
		t.Errorf("pairs are %q, want %q", got, want)
	}
	text := Describe(conflicts, 32768)
	if want := `"daily" and "monthly" fire together at 2026-07-01T09:00:00Z, 2026-08-01T09:00:00Z, 2026-09-01T09:00:00Z, 2026-10-01T09:00:00Z, 2026-11-01T09:00:00Z, and "monthly" wins; "daily" and "shanghai"`; !strings.HasPrefix(text, want) {
		t.Errorf("message is %q", text)
	}
	if short := Describe(conflicts, 250); len(short) > 250 || !strings.HasSuffix(short, "; and 2 more pairs") {
		t.Errorf("short message is %q (%d bytes)", short, len(short))
	}
	if got := Conflicts(compiled(t, "even|0 */2 * * * *|1", "odd|0 1/2 * * * *|2"), now); got != nil {
		t.Errorf("minutes that never meet conflict: %v", got)
	}
}

// tenRules are like those that people write.
var tenRules = []string{
	"a|CRON_TZ=Asia/Shanghai 0 0 8 * * 1-5|20", "b|CRON_TZ=Asia/Shanghai 0 30 11 * * 1-5|30", "c|CRON_TZ=Asia/Shanghai 0 0 14 * * 1-5|25",
	"d|CRON_TZ=Asia/Shanghai 0 0 18 * * 1-5|15", "e|CRON_TZ=Asia/Shanghai 0 0 22 * * *|5", "f|CRON_TZ=Asia/Shanghai 0 0 10 * * 0,6|10",
	"g|CRON_TZ=America/New_York 0 9 * * 1-5|12", "h|CRON_TZ=America/New_York 0 17 * * 1-5|8", "i|CRON_TZ=Europe/Berlin 0 3 1 * *|2", "j|CRON_TZ=Europe/Berlin 30 2 * * *|3",
}

func BenchmarkCompileTenRules(b *testing.B) {
	s := spec(tenRules...)
	for b.Loop() {
		Compile(s)
	}
}

func BenchmarkDecideTenRules(b *testing.B) {
	rules, _ := Compile(spec(tenRules...))
	now := at(b, "2026-06-15T12:00:00Z")
	for b.Loop() {
		Decide(rules, now)
	}
}

func BenchmarkConflictsTenRules(b *testing.B) {
	rules, _ := Compile(spec(tenRules...))
	now := at(b, "2026-06-15T12:00:00Z")
	for b.Loop() {
		Conflicts(rules, now)
	}
}

func BenchmarkConflictsHundredDenseRules(b *testing.B) {
	var texts []string
	for i := range 100 {
		texts = append(texts, fmt.Sprintf("r%d|CRON_TZ=%s %d */%d * * * *|1", i, someZones[i%len(someZones)], i%60, 2+i%7))
	}
	rules, _ := Compile(spec(texts...))
	now := at(b, "2026-06-15T12:00:00Z")
	for b.Loop() {
		Conflicts(rules, now)
	}
}

func BenchmarkPreviousOfALeapDay(b *testing.B) {
	s := must(b, "0 0 29 2 *")
	now := at(b, "2103-12-31T00:00:00Z")
	for b.Loop() {
		s.Previous(now)
	}
}
