package groups

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Baselines is the count that a new clone, or a recovered group 0, gives to each target.
type Baselines struct {
	// Counts by target name, each from 1. A target without a usable count is absent.
	Counts map[string]int32
	// Add holds the entries that the replica ConfigMap lacks and should have.
	Add map[string]string
	// Unknown lists the targets of which nothing says how many replicas they should have, in the order of the spec.
	Unknown []string
	// Invalid lists what is wrong with entries of the ConfigMap, in the order of the spec.
	Invalid []string
}

// Complete reports whether every target has a count.
func (b Baselines) Complete() bool { return len(b.Unknown)+len(b.Invalid) == 0 }

// DecideBaselines reads the counts of the replica ConfigMap and fills in what it lacks: from the annotation of a base
// workload that waits at zero, else from the base workload's present count, never 0. What the user wrote in the
// ConfigMap stands, right or wrong.
func DecideBaselines(recorded map[string]string, base []Member) Baselines {
	b := Baselines{Counts: map[string]int32{}, Add: map[string]string{}}
	for _, m := range base {
		if text, ok := recorded[m.Target]; ok {
			n, err := ParseReplicas(text)
			if err != nil {
				b.Invalid = append(b.Invalid, fmt.Sprintf("data[%q] is %q: %v", m.Target, text, err))
				continue
			}
			b.Counts[m.Target] = n
			continue
		}
		n := m.Baseline
		if n == 0 && m.Exists {
			n = m.Desired
		}
		if n == 0 {
			b.Unknown = append(b.Unknown, m.Target)
			continue
		}
		b.Counts[m.Target] = n
		b.Add[m.Target] = strconv.FormatInt(int64(n), 10)
	}
	return b
}

// ParseReplicas reads a replica count: a decimal integer from 1 to 2147483647, blanks around it allowed.
func ParseReplicas(s string) (int32, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 32)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("must be a whole number from 1 to %d, for example \"2\"", math.MaxInt32)
	}
	return int32(n), nil
}
