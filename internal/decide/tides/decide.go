package tides

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
)

const (
	// upcomingFirings is how many firings are looked ahead.
	upcomingFirings = 5
	// overlapsShown is how many overlaps of a pair of rules are found.
	overlapsShown = 5
	// clockTolerance is how far a clock may have been set back without a firing on record being undone. It covers
	// corrections, leaders whose clocks differ, and an hour taken off by mistake.
	clockTolerance = time.Hour
	// OverlapHorizon is how far ahead overlaps are looked for: a leap year.
	OverlapHorizon = 366 * 24 * time.Hour
)

// Rule is a rule whose cron expression has been read.
type Rule struct {
	// Name tells it from the others.
	Name string
	// Schedule is when it fires.
	Schedule *Schedule
	// Replicas is the count that is wanted from then on.
	Replicas int32
}

// Problem is what keeps a rule from being used.
type Problem struct {
	// Rule is its name.
	Rule string
	// Reason is ReasonInvalidSchedule or ReasonScheduleNeverFires.
	Reason string
	// Message names the rule, the value and the fix.
	Message string
}

// Firing is a moment at which a rule fires.
type Firing struct {
	// Rule is its name.
	Rule string
	// Time is the moment, in whole seconds.
	Time time.Time
	// Replicas is the count that is wanted from then on.
	Replicas int32
}

// Conflict is a pair of rules that fire at the same moments. The second, which stands later in the list, wins.
type Conflict struct {
	First, Second string
	// Times are the first moments, in UTC: at least one, at most five.
	Times []time.Time
}

// Plan is what a set of rules means at one moment.
type Plan struct {
	// Active is the firing in force: the last one at or before now. Nil where there is no rule.
	Active *Firing
	// Before is the firing that was in force until Active came.
	Before *Firing
	// Upcoming are the next firings after now, the nearest first, at most five. Of rules that fire at the same moment only
	// the one that wins is in it.
	Upcoming []Firing
}

// Compile reads the rules of a Tidal. Those that cannot be used are left out and come back as problems, in the order of
// the list. Of two rules of one name, which only an object written past the schema holds, the first counts.
func Compile(spec v1alpha1.TidalSpec) ([]Rule, []Problem) {
	var rules []Rule
	var problems []Problem
	seen := map[string]bool{}
	for _, r := range spec.Triggers.Times.Rules {
		if seen[r.Name] {
			problems = append(problems, Problem{Rule: r.Name, Reason: v1alpha1.ReasonInvalidSchedule,
				Message: fmt.Sprintf("rule %q: another rule has this name already, and it counts: give this one a name of its own", r.Name)})
			continue
		}
		seen[r.Name] = true
		rule, problem := compile(r)
		if problem != nil {
			problems = append(problems, *problem)
			continue
		}
		rules = append(rules, rule)
	}
	return rules, problems
}

// compile reads a rule. With a problem it cannot be used.
func compile(r v1alpha1.TimeRule) (Rule, *Problem) {
	schedule, err := Parse(r.Cron)
	if err != nil {
		return Rule{}, &Problem{Rule: r.Name, Reason: reasonOf(err), Message: fmt.Sprintf("rule %q: %v", r.Name, err)}
	}
	if r.Replicas == nil || *r.Replicas < 0 {
		return Rule{}, &Problem{Rule: r.Name, Reason: v1alpha1.ReasonInvalidSchedule, Message: fmt.Sprintf("rule %q: replicas must be 0 or more", r.Name)}
	}
	return Rule{Name: r.Name, Schedule: schedule, Replicas: *r.Replicas}, nil
}

func usable(r v1alpha1.TimeRule) bool {
	_, problem := compile(r)
	return problem == nil
}

func reasonOf(err error) string {
	if errors.Is(err, ErrNeverFires) {
		return v1alpha1.ReasonScheduleNeverFires
	}
	return v1alpha1.ReasonInvalidSchedule
}

// Validate returns every finding about the rules of a Tidal that the schema cannot make: expressions that do not parse,
// zones that do not exist, rules that never fire, and names that are not unique. The path is that of the spec.
func Validate(spec v1alpha1.TidalSpec, path *field.Path) field.ErrorList {
	var all field.ErrorList
	rules := path.Child("triggers", "times", "rules")
	seen := map[string]bool{}
	for i, r := range spec.Triggers.Times.Rules {
		if seen[r.Name] {
			all = append(all, field.Duplicate(rules.Index(i).Child("name"), r.Name))
		}
		seen[r.Name] = true
		if _, err := Parse(r.Cron); err != nil {
			all = append(all, field.Invalid(rules.Index(i).Child("cron"), r.Cron, fmt.Sprintf("rule %q: %v", r.Name, err)))
		}
	}
	return all
}

// ValidateUpdate returns the findings of Validate that a change has brought. What was wrong with an expression before (say,
// by a zone that a newer database leaves out) does not stop changes to other parts.
func ValidateUpdate(old, spec v1alpha1.TidalSpec, path *field.Path) field.ErrorList {
	before := map[any]bool{}
	for _, r := range old.Triggers.Times.Rules {
		before[r.Cron] = true
	}
	return slices.DeleteFunc(Validate(spec, path), func(e *field.Error) bool { return e.Type == field.ErrorTypeInvalid && before[e.BadValue] })
}

// Facts is what the firing in force follows from.
type Facts struct {
	// Rules that can be used.
	Rules []Rule
	// Problems of the others.
	Problems []Problem
	// Recorded is the firing that the object's status has as in force, nil where it has none.
	Recorded *Firing
	// SameSpec tells that the record was made from the present spec.
	SameSpec bool
	// Now is the present moment.
	Now time.Time
}

// Continue decides like Decide, with regard to what is in force already. Two things leave that in force: a clock that has
// been set back, by up to an hour, to before it fired, unless an edit has taken that firing away; and the rule having become
// unusable, until another one fires, since a broken rule must not hand its hours to the rule before it.
func Continue(f Facts) Plan {
	now := f.Now
	if r := f.Recorded; r != nil && r.Time.After(now) && r.Time.Sub(now) <= clockTolerance && (f.SameSpec || fires(f.Rules, *r)) {
		now = r.Time
	}
	p := Decide(f.Rules, now)
	if r := f.Recorded; r != nil && slices.ContainsFunc(f.Problems, func(p Problem) bool { return p.Rule == r.Rule }) &&
		(p.Active == nil || !p.Active.Time.After(r.Time)) {
		p.Active, p.Before = r, nil
	}
	return p
}

// fires reports whether a rule fires at the moment of a firing and wants its count. The name does not count: giving the rule
// another one is no firing.
func fires(rules []Rule, f Firing) bool {
	return slices.ContainsFunc(rules, func(r Rule) bool { return r.Replicas == f.Replicas && r.Schedule.FiresAt(f.Time) })
}

// Decide says which rule is in force at a moment and what comes next. Where several fire at the same moment the last of
// them in the list wins. The past is not limited: what fired last is found however long ago that was.
func Decide(rules []Rule, now time.Time) Plan {
	var p Plan
	p.Active = last(rules, now)
	if p.Active == nil {
		return p
	}
	p.Before = last(rules, p.Active.Time.Add(-time.Second))
	next := make([]time.Time, len(rules))
	for i, r := range rules {
		next[i] = r.Schedule.Next(now)
	}
	for range upcomingFirings {
		var f *Firing
		for i, r := range rules {
			if f == nil || !next[i].After(f.Time) {
				f = &Firing{Rule: r.Name, Time: next[i], Replicas: r.Replicas}
			}
		}
		p.Upcoming = append(p.Upcoming, *f)
		for i, r := range rules {
			if !next[i].After(f.Time) {
				next[i] = r.Schedule.Next(f.Time)
			}
		}
	}
	return p
}

// last returns the firing in force at a moment.
func last(rules []Rule, now time.Time) *Firing {
	var f *Firing
	for _, r := range rules {
		if t := r.Schedule.Previous(now); f == nil || !t.Before(f.Time) {
			f = &Firing{Rule: r.Name, Time: t, Replicas: r.Replicas}
		}
	}
	return f
}

// Conflicts returns the pairs of rules that fire at the same moments within 366 days after now, in the order of the list.
// Pairs that want the same count are among them, since the order alone decides which of the two is shown as active.
func Conflicts(rules []Rule, now time.Time) []Conflict {
	return NewCollisions(rules).At(now)
}

// Describe writes conflicts for a condition, as many pairs as fit into most bytes, and how many do not.
func Describe(conflicts []Conflict, most int) string {
	var pairs []string
	size := 0
	for i, c := range conflicts {
		times := make([]string, len(c.Times))
		for j, t := range c.Times {
			times[j] = t.UTC().Format(time.RFC3339)
		}
		pair := fmt.Sprintf("%q and %q fire together at %s, and %q wins", c.First, c.Second, strings.Join(times, ", "), c.Second)
		// Room stays for the note about the rest.
		if size+len(pair) > most-40 {
			pairs = append(pairs, fmt.Sprintf("and %d more pairs", len(conflicts)-i))
			break
		}
		size += len(pair) + len("; ")
		pairs = append(pairs, pair)
	}
	return strings.Join(pairs, "; ")
}
