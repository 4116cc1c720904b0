package simulator

import (
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"

	"github.com/pd-orchestrator/pd-orchestrator/lab/simulator/model"
)

// defaultModelName is the model_name label of pods without ModelNameKey.
const defaultModelName = "simulated"

// finishedReasonStop and the two after it are the values of the label finished_reason.
const (
	finishedReasonStop   = "stop"
	finishedReasonLength = "length"
	finishedReasonAbort  = "abort"
)

// metric describes one metric family of vLLM's. Exactly one of gauge, counter, finished and histogram is set.
type metric struct {
	name string
	help string

	gauge     func(*model.Stats) float64
	counter   func(*model.Stats) uint64
	finished  func(*model.Stats) map[string]uint64
	histogram func(*model.Stats) *model.Histogram
}

// engineMetrics are the families that every pod serves. Names, types, labels and buckets are those of vLLM's V1 engine
// (vllm/v1/metrics/loggers.py); gpu_cache_usage_perc and time_per_output_token_seconds are the names that it used before
// 0.9 and 0.11 and then kept for some releases beside the new ones.
var engineMetrics = []metric{
	{name: "vllm:num_requests_running", help: "Requests in the engine's batch.",
		gauge: func(s *model.Stats) float64 { return float64(s.Running) }},
	{name: "vllm:num_requests_waiting", help: "Requests in the engine's queue.",
		gauge: func(s *model.Stats) float64 { return float64(s.Waiting) }},
	{name: "vllm:kv_cache_usage_perc", help: "Fraction of the KV cache in use, 0 to 1.",
		gauge: func(s *model.Stats) float64 { return s.KVCacheUsage }},
	{name: "vllm:gpu_cache_usage_perc", help: "Older name of vllm:kv_cache_usage_perc.",
		gauge: func(s *model.Stats) float64 { return s.KVCacheUsage }},
	{name: "vllm:num_preemptions_total", help: "Requests preempted for want of KV cache. Always 0: the model reserves before it admits.",
		counter: func(*model.Stats) uint64 { return 0 }},
	{name: "vllm:prompt_tokens_total", help: "Prompt tokens prefilled.",
		counter: func(s *model.Stats) uint64 { return s.PromptTokens }},
	{name: "vllm:generation_tokens_total", help: "Tokens generated.",
		counter: func(s *model.Stats) uint64 { return s.GenerationTokens }},
	{name: "vllm:request_success_total", help: "Requests finished, by reason.",
		finished: func(s *model.Stats) map[string]uint64 {
			return map[string]uint64{finishedReasonStop: s.Stopped, finishedReasonLength: s.HandedOver, finishedReasonAbort: 0}
		}},
	{name: "vllm:time_to_first_token_seconds", help: "Time from arrival to first token.",
		histogram: func(s *model.Stats) *model.Histogram { return &s.FirstToken }},
	{name: "vllm:inter_token_latency_seconds", help: "Time between two tokens of a request.",
		histogram: func(s *model.Stats) *model.Histogram { return &s.InterToken }},
	{name: "vllm:time_per_output_token_seconds", help: "Older name of vllm:inter_token_latency_seconds.",
		histogram: func(s *model.Stats) *model.Histogram { return &s.InterToken }},
	{name: "vllm:request_time_per_output_token_seconds", help: "Mean time per output token of a request.",
		histogram: func(s *model.Stats) *model.Histogram { return &s.PerOutputToken }},
	{name: "vllm:e2e_request_latency_seconds", help: "Time from arrival to the end of a request.",
		histogram: func(s *model.Stats) *model.Histogram { return &s.Latency }},
	{name: "vllm:request_queue_time_seconds", help: "Time that a request waited before it ran.",
		histogram: func(s *model.Stats) *model.Histogram { return &s.QueueTime }},
}

// pinFix says why a metric of that name cannot be pinned and what to do instead; it is empty for a name that can.
func pinFix(name string) string {
	for _, m := range engineMetrics {
		if m.histogram == nil {
			continue
		}
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			if name == m.name+suffix {
				return m.name + " is a histogram, which cannot be held at one number: list it under \"absent\" to leave it out, or pin a gauge or a counter"
			}
		}
	}
	return ""
}

// exposition returns the families that a pod serves, sorted by name: the engine's, with the pins in place of its own
// values, and then pinned names that the engine does not have, as gauges.
func exposition(stats *model.Stats, modelName string, p pinned) []*dto.MetricFamily {
	labels := []*dto.LabelPair{
		{Name: new("engine"), Value: new("0")},
		{Name: new("model_name"), Value: new(modelName)},
	}
	families := make([]*dto.MetricFamily, 0, len(engineMetrics)+len(p.values))
	known := make(map[string]bool, len(engineMetrics))
	for i := range engineMetrics {
		m := &engineMetrics[i]
		known[m.name] = true
		if p.absent[m.name] {
			continue
		}
		value, held := p.values[m.name]
		families = append(families, m.family(stats, labels, value, held))
	}
	for name, value := range p.values {
		if known[name] || p.absent[name] {
			continue
		}
		families = append(families, &dto.MetricFamily{
			Name:   new(name),
			Help:   new("Set by a pin."),
			Type:   dto.MetricType_GAUGE.Enum(),
			Metric: []*dto.Metric{{Label: labels, Gauge: &dto.Gauge{Value: new(value)}}},
		})
	}
	slices.SortFunc(families, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
	return families
}

func (m *metric) family(stats *model.Stats, labels []*dto.LabelPair, value float64, held bool) *dto.MetricFamily {
	family := &dto.MetricFamily{Name: &m.name, Help: &m.help}
	switch {
	case m.gauge != nil:
		if !held {
			value = m.gauge(stats)
		}
		family.Type = dto.MetricType_GAUGE.Enum()
		family.Metric = []*dto.Metric{{Label: labels, Gauge: &dto.Gauge{Value: &value}}}
	case m.counter != nil:
		if !held {
			value = float64(m.counter(stats))
		}
		family.Type = dto.MetricType_COUNTER.Enum()
		family.Metric = []*dto.Metric{{Label: labels, Counter: &dto.Counter{Value: &value}}}
	case m.finished != nil:
		family.Type = dto.MetricType_COUNTER.Enum()
		counts := m.finished(stats)
		for _, reason := range []string{finishedReasonAbort, finishedReasonLength, finishedReasonStop} {
			count := float64(counts[reason])
			if held {
				// The pin is the family's sum, so that sum() over the pod gives the pinned value.
				count = 0
				if reason == finishedReasonStop {
					count = value
				}
			}
			family.Metric = append(family.Metric, &dto.Metric{
				Label:   []*dto.LabelPair{labels[0], {Name: new("finished_reason"), Value: new(reason)}, labels[1]},
				Counter: &dto.Counter{Value: new(count)},
			})
		}
	case m.histogram != nil:
		family.Type = dto.MetricType_HISTOGRAM.Enum()
		h := m.histogram(stats)
		bounds, counts := h.Bounds(), h.Cumulative()
		buckets := make([]dto.Bucket, len(bounds))
		pointers := make([]*dto.Bucket, len(bounds))
		for i := range bounds {
			buckets[i].UpperBound = &bounds[i]
			buckets[i].CumulativeCount = &counts[i]
			pointers[i] = &buckets[i]
		}
		family.Metric = []*dto.Metric{{Label: labels, Histogram: &dto.Histogram{
			SampleCount: new(h.Count()), SampleSum: new(h.Sum()), Bucket: pointers,
		}}}
	}
	return family
}
