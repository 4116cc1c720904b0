// Package victims decides which groups a scale-down removes: by the values of a Prometheus query, else by an
// annotation, else by the highest id. One source decides a whole choice, and only when it has a usable value for every
// candidate; half of an answer is never mixed with half of another.
package victims

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
)

// Candidate is a group that could be removed.
type Candidate struct {
	// ID of the group.
	ID int32
	// Incomplete is true for a clone of which something is missing.
	Incomplete bool
	// Annotation is the value of autoscaling.rsg.metric.values on the group's first workload, nil where there is none.
	Annotation *string
}

// Ranking is the answer of the metric: usable when Reason is ReasonMetricUsed.
type Ranking struct {
	// Values by group id. Groups that are no candidates are ignored.
	Values map[int32]float64
	// Reason is a reason of the condition ScaleDownMetric, "" when no metric is configured.
	Reason string
	// Message says in a sentence what was wrong, for the user.
	Message string
}

// Choice is which groups go, and why.
type Choice struct {
	// Victims in the order of removal.
	Victims []int32
	// Level that ranked them.
	Level v1alpha1.ScaleDownLevel
	// Values that were compared, by ascending id. Empty at LevelGroupID.
	Values []Value
	// Why says in words what led to the level.
	Why string
}

// Value is the value that a group was ranked by.
type Value struct {
	ID    int32
	Value float64
}

// Choose picks n of the candidates. Incomplete clones go first, the highest id first: they serve nobody, and they have
// no metric yet. The others are ranked by the first level that has a finite value for all of them. Ties go to the
// higher id. At the last level group 0 goes last.
func Choose(n int, candidates []Candidate, order v1alpha1.Order, metric Ranking) Choice {
	candidates = slices.Clone(candidates)
	slices.SortFunc(candidates, func(a, b Candidate) int { return cmp.Compare(b.ID, a.ID) })
	n = min(n, len(candidates))
	c := Choice{Level: v1alpha1.LevelIncomplete, Why: "groups that were never complete go first"}
	complete := candidates[:0:0]
	for _, g := range candidates {
		if g.Incomplete && g.ID != 0 {
			if len(c.Victims) < n {
				c.Victims = append(c.Victims, g.ID)
			}
			continue
		}
		complete = append(complete, g)
	}
	if len(c.Victims) == n {
		return c
	}

	var values map[int32]float64
	values, c.Level, c.Why = rank(complete, metric)
	slices.SortStableFunc(complete, func(a, b Candidate) int {
		if values == nil {
			return cmp.Compare(lastIfZero(a.ID), lastIfZero(b.ID))
		}
		if order == v1alpha1.OrderDescending {
			return cmp.Compare(values[b.ID], values[a.ID])
		}
		return cmp.Compare(values[a.ID], values[b.ID])
	})
	for _, g := range complete[:n-len(c.Victims)] {
		c.Victims = append(c.Victims, g.ID)
	}
	for _, g := range complete {
		if v, ok := values[g.ID]; ok {
			c.Values = append(c.Values, Value{ID: g.ID, Value: v})
		}
	}
	slices.SortFunc(c.Values, func(a, b Value) int { return cmp.Compare(a.ID, b.ID) })
	return c
}

func lastIfZero(id int32) int {
	if id == 0 {
		return 1
	}
	return 0
}

func rank(candidates []Candidate, metric Ranking) (map[int32]float64, v1alpha1.ScaleDownLevel, string) {
	var why []string
	if metric.Reason == v1alpha1.ReasonMetricUsed {
		return metric.Values, v1alpha1.LevelMetric, "every candidate has a value from Prometheus"
	}
	if metric.Reason != "" {
		why = append(why, metric.Message, "fallback to annotation")
	}
	values := map[int32]float64{}
	var bad []string
	for _, g := range candidates {
		if g.Annotation == nil {
			bad = append(bad, fmt.Sprintf("group %d has no annotation %s", g.ID, v1alpha1.AnnotationMetricValue))
			continue
		}
		v, err := ParseAnnotation(*g.Annotation)
		if err != nil {
			bad = append(bad, fmt.Sprintf("group %d: %v", g.ID, err))
			continue
		}
		values[g.ID] = v
	}
	if len(bad) == 0 {
		return values, v1alpha1.LevelAnnotation, strings.Join(append(why, "every candidate has the annotation"), "; ")
	}
	slices.Reverse(bad)
	return nil, v1alpha1.LevelGroupID, strings.Join(append(why, abbreviated(bad), "fallback to max group-id"), "; ")
}

// ParseAnnotation reads the value of autoscaling.rsg.metric.values: a finite decimal number, blanks around it allowed.
func ParseAnnotation(s string) (float64, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("annotation %s is %q: must be a finite number, for example \"10\"", v1alpha1.AnnotationMetricValue, s)
	}
	return v, nil
}

// abbreviated joins the first findings and says how many more there are.
func abbreviated(findings []string) string {
	const most = 3
	if len(findings) <= most {
		return strings.Join(findings, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(findings[:most], ", "), len(findings)-most)
}
