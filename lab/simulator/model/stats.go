package model

import (
	"iter"
	"slices"
)

// Upper bounds, in seconds, of the buckets in which vLLM counts latencies. The last bucket, +Inf, is implied.
var (
	firstTokenBounds = []float64{
		0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
		1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
	}
	tokenBounds = []float64{
		0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75,
		1, 2.5, 5, 7.5, 10, 20, 40, 80,
	}
	requestBounds = []float64{
		0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30,
		40, 50, 60, 120, 240, 480, 960, 1920, 7680,
	}
)

// Histogram counts observations in buckets with fixed upper bounds.
type Histogram struct {
	bounds []float64
	counts []uint64 // one per bound and one for +Inf; not cumulative
	total  uint64
	sum    float64
}

func newHistogram(bounds []float64) Histogram {
	return Histogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

func (h *Histogram) observe(value float64, times uint64) {
	// A bound is inclusive, as in Prometheus.
	i, _ := slices.BinarySearch(h.bounds, value)
	h.counts[i] += times
	h.total += times
	h.sum += value * float64(times)
}

func (h Histogram) clone() Histogram {
	h.counts = slices.Clone(h.counts)
	return h
}

// Buckets yields each upper bound, ascending and without +Inf, with the number of observations that were at most that bound.
func (h *Histogram) Buckets() iter.Seq2[float64, uint64] {
	return func(yield func(float64, uint64) bool) {
		var below uint64
		for i, bound := range h.bounds {
			below += h.counts[i]
			if !yield(bound, below) {
				return
			}
		}
	}
}

// Count returns the number of observations.
func (h *Histogram) Count() uint64 { return h.total }

// Sum returns the sum of all observations, in their unit.
func (h *Histogram) Sum() float64 { return h.sum }

// Stats is what the engine of one pod reports about itself. Counters and histograms start at zero with the pod.
type Stats struct {
	// Running is the number of requests in the batch, Waiting the number in the pod's own queue.
	Running, Waiting int
	// KVCacheUsage is the fraction of the KV cache that holds tokens, 0 to 1.
	KVCacheUsage float64
	// PromptTokens and GenerationTokens count tokens whose prefill and decode ended here.
	PromptTokens, GenerationTokens uint64
	// Stopped counts requests that ended here with their last token, HandedOver those whose prefill ended here and whose
	// decode is another pod's. An engine in a prefill role sees the latter as requests limited to one token.
	Stopped, HandedOver uint64
	// FirstToken is the time from a request's arrival at the service to its first token, in seconds.
	FirstToken Histogram
	// InterToken is the time between two tokens of one request, in seconds, one observation per token.
	InterToken Histogram
	// PerOutputToken is the mean time per token after the first, in seconds, one observation per request.
	PerOutputToken Histogram
	// Latency is the time from a request's arrival at the service to its end here, in seconds.
	Latency Histogram
	// QueueTime is the time that a request waited for this pod's batch, in the queue of the pod or of the service, in seconds.
	QueueTime Histogram
}

// NewStats returns the statistics of an engine that has served nothing.
func NewStats() Stats {
	return Stats{
		FirstToken:     newHistogram(firstTokenBounds),
		InterToken:     newHistogram(tokenBounds),
		PerOutputToken: newHistogram(tokenBounds),
		Latency:        newHistogram(requestBounds),
		QueueTime:      newHistogram(requestBounds),
	}
}

// countTokens adds decoded tokens, which came at an interval in seconds.
func (s *Stats) countTokens(tokens uint64, interval float64) {
	if tokens > 0 {
		s.GenerationTokens += tokens
		s.InterToken.observe(interval, tokens)
	}
}

func (s Stats) clone() Stats {
	s.FirstToken = s.FirstToken.clone()
	s.InterToken = s.InterToken.clone()
	s.PerOutputToken = s.PerOutputToken.clone()
	s.Latency = s.Latency.clone()
	s.QueueTime = s.QueueTime.clone()
	return s
}
