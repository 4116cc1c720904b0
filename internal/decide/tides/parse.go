// Package tides decides which rule of a clock is in force: it reads cron expressions, finds their firings forwards and
// backwards over daylight saving, and says which rule fired last, which one fires next and which ones collide.
//
// A firing is a reading of the wall clock of the rule's time zone. It becomes a moment by one rule: the first moment at
// which that clock has reached the reading. So a reading that daylight saving skips fires once, at the first moment after
// the gap, and one that it repeats fires once, the first time that it comes.
package tides

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	cron "github.com/netresearch/go-cron"
)

// MaxCronLength is the longest cron expression that is read, in bytes.
const MaxCronLength = 512

// ErrNeverFires is wrapped by the error of an expression that no date matches, such as 30 February.
var ErrNeverFires = errors.New("it never fires")

// example ends the messages about the shape of an expression.
const example = "for example CRON_TZ=Asia/Shanghai 0 9 * * 1-5"

// parser reads the fields. It never sees the zone: its own reading of the prefix falls back to the zone of the machine.
// DowOrDom makes either of the two day fields enough, which is what cron means by restricting both.
var parser = cron.MustNewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor | cron.DowOrDom)

// wildcard is the bit by which the parser marks a field that restricts nothing.
const wildcard = 1 << 63

// cronField is what one field of an expression may hold.
type cronField struct {
	name        string
	least, most int
	names       []string
	hint        string
}

var fields = [6]cronField{
	{name: "seconds", most: 59},
	{name: "minutes", most: 59},
	{name: "hours", most: 23, hint: "; midnight is hour 0"},
	{name: "day of month", least: 1, most: 31, hint: "; for the last day of a month list its number with the months that have it, such as 0 0 31 1,3,5,7,8,10,12 *"},
	{name: "month", least: 1, most: 12, names: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{name: "day of week", most: 6, names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}, hint: "; Sunday is 0"},
}

var descriptors = []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}

// entry is one element of a field's list: a value, a range or a wildcard, with an optional step.
var entry = regexp.MustCompile(`^(?:([*?])|([0-9]{1,4}|[a-z]+)(?:-([0-9]{1,4}|[a-z]+))?)(?:/([0-9]{1,4}))?$`)

// Schedule is a cron expression that has been read. It is immutable and safe for concurrent use. The zero value is not
// usable; call Parse.
type Schedule struct {
	zone           *time.Location
	second, minute uint64
	hour, dom      uint32
	month          uint16
	dow            uint8
	// anyDOM and anyDOW tell that the field restricts nothing. Where both are restricted either is enough.
	anyDOM, anyDOW bool
}

// Zone is the time zone of the schedule.
func (s *Schedule) Zone() *time.Location { return s.zone }

// Parse reads a cron expression: five fields (minute, hour, day of month, month, day of week), six with seconds first, or
// a descriptor such as @daily, after an optional CRON_TZ=<zone> or TZ=<zone> and a blank. Without a zone the fields are in
// UTC. Months and days of the week may be names in any case, ? is *, and 5/15 counts from 5 to the end of the field.
//
// The error names the value that is wrong and how to put it right. It wraps ErrNeverFires where the expression is well
// formed and no date matches it. No input makes Parse panic.
func Parse(expression string) (s *Schedule, err error) {
	if len(expression) > MaxCronLength {
		return nil, fmt.Errorf("the expression has %d characters: must be at most %d, %s", len(expression), MaxCronLength, example)
	}
	zone, rest, err := splitZone(expression)
	if err != nil {
		return nil, err
	}
	text, err := checkShape(rest)
	if err != nil {
		return nil, err
	}
	defer func() {
		// A panic of the parser is one rule's bad luck. Left alone it would end the pass of the whole object, for ever.
		if r := recover(); r != nil {
			s, err = nil, fmt.Errorf("%q cannot be read (%v): must be five or six fields, %s", rest, r, example)
		}
	}()
	read, err := parser.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%q cannot be read: %w; must be five or six fields, %s", rest, err, example)
	}
	spec, ok := read.(*cron.SpecSchedule)
	if !ok || len(spec.DomConstraints)+len(spec.DowConstraints) > 0 || spec.Year != nil {
		return nil, fmt.Errorf("%q has no fixed moments to count from: write the hours and minutes as fields, %s", rest, example)
	}
	s = &Schedule{
		zone:   zone,
		second: spec.Second &^ wildcard,
		minute: spec.Minute &^ wildcard,
		hour:   uint32(spec.Hour &^ wildcard),
		dom:    uint32(spec.Dom &^ wildcard),
		month:  uint16(spec.Month &^ wildcard),
		dow:    uint8(cron.NormalizeDOW(spec.Dow &^ wildcard)),
		anyDOM: spec.Dom&wildcard != 0,
		anyDOW: spec.Dow&wildcard != 0,
	}
	if !s.everFires() {
		return nil, fmt.Errorf("%q: %w, since none of the days of the month that it names exists in any of its months: name a day that exists, such as 28 for the end of February", rest, ErrNeverFires)
	}
	return s, nil
}

// splitZone takes the zone off the front.
func splitZone(expression string) (*time.Location, string, error) {
	prefix := ""
	for _, p := range []string{"CRON_TZ=", "TZ="} {
		if strings.HasPrefix(expression, p) {
			prefix = p
			break
		}
	}
	if prefix == "" {
		return time.UTC, strings.Trim(expression, " "), nil
	}
	name, rest, found := strings.Cut(expression[len(prefix):], " ")
	if !found {
		return nil, "", fmt.Errorf("%q has no fields after the time zone: must be %s<zone>, a blank and five or six fields, %s", expression, prefix, example)
	}
	zone, err := loadZone(name)
	if err != nil {
		return nil, "", err
	}
	return zone, strings.Trim(rest, " "), nil
}

// checkShape refuses what the parser takes in another sense than ours, and returns the text to give to it. The parser
// takes a 7 for Sunday, so that 1/3 holds a Sunday too; it lets ranges run over the end of a field, with steps that then
// go astray; it takes the H of THU for a request to choose a value by hash; and it takes an empty list element for none.
func checkShape(text string) (string, error) {
	lower := strings.ToLower(text)
	if strings.HasPrefix(lower, "@") {
		if strings.HasPrefix(lower, "@every") {
			return "", fmt.Errorf("%q has no fixed moment to count from: write the hours or minutes as fields, such as 0 */2 * * * for every two hours", text)
		}
		for _, d := range descriptors {
			if lower == d {
				return lower, nil
			}
		}
		return "", fmt.Errorf("%q is no descriptor: must be one of %s, or five or six fields, %s", text, strings.Join(descriptors, ", "), example)
	}
	parts := strings.FieldsFunc(lower, func(r rune) bool { return r == ' ' })
	given := fields[:]
	switch len(parts) {
	case 6:
	case 5:
		given = fields[1:]
	default:
		return "", fmt.Errorf("%q has %d fields: must be five (minute, hour, day of month, month, day of week) or six with seconds first, %s", text, len(parts), example)
	}
	for i, part := range parts {
		f := given[i]
		elements := strings.Split(part, ",")
		for j, element := range elements {
			normal, err := f.check(element)
			if err != nil {
				return "", fmt.Errorf("%s %q: %w", f.name, part, err)
			}
			elements[j] = normal
		}
		parts[i] = strings.Join(elements, ",")
	}
	return strings.Join(parts, " "), nil
}

// check checks one element and returns it as the parser is to read it.
func (f cronField) check(element string) (string, error) {
	m := entry.FindStringSubmatch(element)
	if m == nil {
		return "", fmt.Errorf("%q cannot be read: must be *, a value, a range such as %d-%d, or one of these with a step such as */2%s", element, f.least, f.most, f.hint)
	}
	star, low, high, step := m[1], m[2], m[3], m[4]
	from, to := f.least, f.most
	var err error
	if star == "" {
		if from, err = f.value(low); err != nil {
			return "", err
		}
		switch {
		case high != "":
			if to, err = f.value(high); err != nil {
				return "", err
			}
			if from > to {
				return "", fmt.Errorf("range %q runs over the end of the field: write it as two, %s-%d,%d-%s", element, low, f.most, f.least, high)
			}
		case step == "":
			return fmt.Sprint(from), nil
		}
	}
	if step == "" {
		if star != "" {
			return star, nil
		}
		return fmt.Sprintf("%d-%d", from, to), nil
	}
	n := atoi(step)
	switch {
	case n == 0:
		return "", fmt.Errorf("step %q: must be from 1", element)
	case n == 1 && star != "":
		return star, nil
	case n > to-from && n > 1:
		return "", fmt.Errorf("step %q is longer than its range, so that only %d would match: write %d, or a step from 1 to %d", element, from, from, max(to-from, 1))
	}
	return fmt.Sprintf("%d-%d/%d", from, to, n), nil
}

// value reads a number or a name of the field.
func (f cronField) value(text string) (int, error) {
	for i, name := range f.names {
		if text == name {
			return f.least + i, nil
		}
	}
	allowed := fmt.Sprintf("from %d to %d", f.least, f.most)
	if len(f.names) > 0 {
		allowed += fmt.Sprintf(" or %s to %s", strings.ToUpper(f.names[0]), strings.ToUpper(f.names[len(f.names)-1]))
	}
	if text[0] < '0' || text[0] > '9' {
		return 0, fmt.Errorf("%q is no value: must be %s%s", text, allowed, f.hint)
	}
	n := atoi(text)
	if n < f.least || n > f.most {
		return 0, fmt.Errorf("%s is out of range: must be %s%s", text, allowed, f.hint)
	}
	return n, nil
}

// atoi reads at most four digits.
func atoi(digits string) int {
	n := 0
	for _, d := range digits {
		n = 10*n + int(d-'0')
	}
	return n
}
