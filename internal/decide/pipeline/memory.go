package pipeline

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

const (
	// maxStabilization is the longest stabilization window, and maxPeriod the longest period of a rate, that an object may
	// ask for. What is older is forgotten.
	maxStabilization = time.Hour
	maxPeriod        = 30 * time.Minute
	// maxSamples is how many samples of a metric are kept: in a long window of a short interval every few of them.
	maxSamples = 1000
)

// Memory is what decisions for one scaler remember from one to the next. It is not safe for concurrent use. It is bounded,
// and lost with the process.
type Memory struct {
	metrics map[string]*metricMemory
	// lowest and highest are the extremes of past recommendations.
	lowest, highest extremes
	// ups and downs are the changes of the count.
	ups, downs []change

	// state is the algorithm's, as long as it is the same one with the same settings and metrics.
	state     any
	algorithm string
	config    map[string]string
	keys      []string
}

// metricMemory is what is remembered of one metric.
type metricMemory struct {
	samples []scaling.Sample
	// good and bad count the evaluations in a row with and without a value. One of them is 0.
	good, bad int32
	// lost tells that the noData policy has taken effect.
	lost bool
}

// change is a change of the count of the target.
type change struct {
	at time.Time
	by int32
}

// NewMemory returns the memory of a scaler that is seen for the first time, or again after a restart. The present count
// counts as the recommendation so far, so that another one must stand for a whole window.
func NewMemory(now time.Time, current int32) *Memory {
	m := &Memory{metrics: map[string]*metricMemory{}}
	m.lowest.better = func(a, b int32) bool { return a < b }
	m.highest.better = func(a, b int32) bool { return a > b }
	m.lowest.add(now, current)
	m.highest.add(now, current)
	return m
}

// Recorded tells that the count of the target was changed: what rates count. It is called after a successful write.
func (m *Memory) Recorded(now time.Time, from, to int32) {
	switch {
	case to > from:
		m.ups = append(forget(m.ups, now), change{now, to - from})
	case to < from:
		m.downs = append(forget(m.downs, now), change{now, from - to})
	}
}

func forget(changes []change, now time.Time) []change {
	return slices.DeleteFunc(changes, func(c change) bool { return now.Sub(c.at) > maxPeriod })
}

// sum adds up the changes within a period.
func sum(changes []change, now time.Time, period time.Duration) int64 {
	var n int64
	for _, c := range changes {
		if c.at.After(now.Add(-period)) {
			n += int64(c.by)
		}
	}
	return n
}

// prepare drops what the settings have made obsolete, and returns the memories of the metrics in their order.
func (m *Memory) prepare(s *Settings) []*metricMemory {
	keys := make([]string, len(s.Metrics))
	seen := map[string]int{}
	for i, metric := range s.Metrics {
		// A metric that stands in the list twice has two histories.
		keys[i] = metric.Key + "#" + strconv.Itoa(seen[metric.Key])
		seen[metric.Key]++
	}
	if name := s.Algorithm.Name(); m.algorithm != name || !maps.Equal(m.config, s.Config) || !slices.Equal(m.keys, keys) {
		m.state, m.algorithm, m.config, m.keys = nil, name, maps.Clone(s.Config), keys
		maps.DeleteFunc(m.metrics, func(key string, _ *metricMemory) bool { return !slices.Contains(keys, key) })
	}
	memories := make([]*metricMemory, len(keys))
	for i, key := range keys {
		if m.metrics[key] == nil {
			m.metrics[key] = &metricMemory{}
		}
		memories[i] = m.metrics[key]
	}
	return memories
}

// observe counts whether an evaluation found a value, and reports whether the noData policy is in effect.
func (m *metricMemory) observe(found bool, threshold int32) bool {
	if found {
		m.good, m.bad = min(m.good+1, threshold), 0
	} else {
		m.good, m.bad = 0, min(m.bad+1, threshold)
	}
	if m.bad >= threshold {
		m.lost = true
	}
	if m.good >= threshold {
		m.lost = false
	}
	return m.lost
}

// keep adds a sample and forgets those that have left the window.
func (m *metricMemory) keep(s scaling.Sample, window time.Duration) {
	m.samples = slices.DeleteFunc(m.samples, func(old scaling.Sample) bool { return !old.Time.After(s.Time.Add(-window)) || old.Time.After(s.Time) })
	if n := len(m.samples); n > 1 && m.samples[n-1].Time.Sub(m.samples[n-2].Time) < window/maxSamples {
		m.samples = m.samples[:n-1]
	}
	m.samples = append(m.samples, s)
}

// extremes finds the best of the values of a window without keeping all of them: only those that no later one is as good
// as, of which each is better than the next.
type extremes struct {
	better func(a, b int32) bool
	kept   []recommendation
}

type recommendation struct {
	at    time.Time
	value int32
}

func (e *extremes) add(now time.Time, value int32) {
	e.kept = slices.DeleteFunc(e.kept, func(r recommendation) bool { return now.Sub(r.at) > maxStabilization })
	for n := len(e.kept); n > 0 && !e.better(e.kept[n-1].value, value); n-- {
		e.kept = e.kept[:n-1]
	}
	e.kept = append(e.kept, recommendation{now, value})
}

// best returns the best value of a window and of the present one.
func (e *extremes) best(now time.Time, window time.Duration, present int32) int32 {
	for _, r := range e.kept {
		if r.at.After(now.Add(-window)) {
			if e.better(r.value, present) {
				return r.value
			}
			break
		}
	}
	return present
}
