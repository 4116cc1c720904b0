package simulator

import (
	"maps"
	"slices"
	"strconv"
	"strings"

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

// contentType is that of appendExposition: version 0.0.4 of Prometheus' text format.
const contentType = "text/plain; version=0.0.4; charset=utf-8"

// appendExposition appends what a pod serves: the engine's families, with the pins in place of its own values, and then
// pinned names that the engine does not have, as gauges.
//
// It writes the text itself, since a lab of a thousand pods is scraped a thousand times a second: building and encoding
// generic families takes several times as long.
func appendExposition(b []byte, stats *model.Stats, modelName string, p pinned) []byte {
	labels := `engine="0",model_name="` + labelEscaper.Replace(modelName) + `"`
	for i := range engineMetrics {
		m := &engineMetrics[i]
		if p.absent[m.name] {
			continue
		}
		value, held := p.values[m.name]
		b = m.append(b, stats, labels, value, held)
	}
	for _, name := range slices.Sorted(maps.Keys(p.values)) {
		if !slices.ContainsFunc(engineMetrics, func(m metric) bool { return m.name == name }) {
			b = appendHeader(b, name, "Set by a pin.", "gauge")
			b = appendSample(b, name, labels, p.values[name])
		}
	}
	return b
}

// labelEscaper escapes a label's value for the text format.
var labelEscaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// append appends one family; held says that value takes the place of the engine's own.
func (m *metric) append(b []byte, stats *model.Stats, labels string, value float64, held bool) []byte {
	switch {
	case m.gauge != nil:
		if !held {
			value = m.gauge(stats)
		}
		b = appendHeader(b, m.name, m.help, "gauge")
		return appendSample(b, m.name, labels, value)
	case m.counter != nil:
		if !held {
			value = float64(m.counter(stats))
		}
		b = appendHeader(b, m.name, m.help, "counter")
		return appendSample(b, m.name, labels, value)
	case m.finished != nil:
		b = appendHeader(b, m.name, m.help, "counter")
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
			b = appendSample(b, m.name, labels+`,finished_reason="`+reason+`"`, count)
		}
		return b
	default:
		b = appendHeader(b, m.name, m.help, "histogram")
		return appendHistogram(b, m.name, labels, m.histogram(stats))
	}
}

func appendHistogram(b []byte, name, labels string, h *model.Histogram) []byte {
	bucket := func(le string, count uint64) {
		b = append(b, name...)
		b = append(b, "_bucket{"...)
		b = append(b, labels...)
		b = append(b, `,le="`...)
		b = append(b, le...)
		b = append(b, `"} `...)
		b = strconv.AppendUint(b, count, 10)
		b = append(b, '\n')
	}
	for bound, count := range h.Buckets() {
		var le [32]byte
		bucket(string(strconv.AppendFloat(le[:0], bound, 'g', -1, 64)), count)
	}
	bucket("+Inf", h.Count())
	b = appendSample(b, name+"_sum", labels, h.Sum())
	return appendSample(b, name+"_count", labels, float64(h.Count()))
}

func appendHeader(b []byte, name, help, kind string) []byte {
	b = append(b, "# HELP "...)
	b = append(b, name...)
	b = append(b, ' ')
	b = append(b, help...)
	b = append(b, "\n# TYPE "...)
	b = append(b, name...)
	b = append(b, ' ')
	b = append(b, kind...)
	return append(b, '\n')
}

func appendSample(b []byte, name, labels string, value float64) []byte {
	b = append(b, name...)
	b = append(b, '{')
	b = append(b, labels...)
	b = append(b, "} "...)
	b = strconv.AppendFloat(b, value, 'g', -1, 64)
	return append(b, '\n')
}
