package tides

import (
	"slices"
	"time"
)

// horizonStep is how far the horizon may have moved before pairs that did not fire together within it are looked at again.
const horizonStep = 24 * time.Hour

// Collisions finds the Conflicts of one set of rules again and again as time goes by. Of the pairs that it has found it
// looks only at those anew whose first moment has passed, since to look at all pairs of a hundred rules takes a second. It
// is not safe for concurrent use.
type Collisions struct {
	rules []Rule
	// searched is when all pairs were looked at.
	searched time.Time
	// pairs are the places in the list of those that were found.
	pairs [][2]int
	found []Conflict
	// searches counts the pairs that were looked at.
	searches int
}

// NewCollisions returns the collisions of a set of rules, which it does not look for yet.
func NewCollisions(rules []Rule) *Collisions { return &Collisions{rules: rules} }

// At returns what Conflicts returns, with a horizon that may have been drawn up to a day before. The result is not to be
// changed.
func (c *Collisions) At(now time.Time) []Conflict {
	if age := now.Sub(c.searched); c.searched.IsZero() || age < 0 || age >= horizonStep {
		c.searchAll(now)
		return c.found
	}
	if slices.ContainsFunc(c.found, func(f Conflict) bool { return !f.Times[0].After(now) }) {
		c.searchPassed(now)
	}
	return c.found
}

func (c *Collisions) searchAll(now time.Time) {
	c.searched, c.pairs, c.found = now, nil, nil
	for i := range c.rules {
		for j := i + 1; j < len(c.rules); j++ {
			c.search(i, j, now)
		}
	}
}

func (c *Collisions) searchPassed(now time.Time) {
	pairs, found := c.pairs, c.found
	c.pairs, c.found = nil, make([]Conflict, 0, len(found))
	for k, f := range found {
		if i, j := pairs[k][0], pairs[k][1]; f.Times[0].After(now) {
			c.keep(i, j, f.Times)
		} else {
			c.search(i, j, now)
		}
	}
}

func (c *Collisions) search(i, j int, now time.Time) {
	c.searches++
	if times := Overlaps(c.rules[i].Schedule, c.rules[j].Schedule, now, now.Add(OverlapHorizon), overlapsShown); len(times) > 0 {
		c.keep(i, j, times)
	}
}

func (c *Collisions) keep(i, j int, times []time.Time) {
	c.pairs = append(c.pairs, [2]int{i, j})
	c.found = append(c.found, Conflict{First: c.rules[i].Name, Second: c.rules[j].Name, Times: times})
}
