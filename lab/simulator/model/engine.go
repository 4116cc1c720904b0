package model

import (
	"container/heap"
	"math"
	"slices"
)

// Role is the part of a request's work that a pod does.
type Role string

const (
	// Prefill pods compute the prompt and the first token, then hand the request to a decode pod.
	Prefill Role = "prefill"
	// Decode pods generate the tokens after the first.
	Decode Role = "decode"
	// Mixed pods do both, as engines without disaggregation do.
	Mixed Role = "mixed"
)

// Engine holds the parameters of the engines of a service, which are all alike.
type Engine struct {
	// PrefillRate is how many prompt tokens per second an engine computes, above 0, shared by all prompts that it computes at a time.
	PrefillRate float64
	// MaxPrefills is how many prompts an engine computes at a time, at least 1.
	MaxPrefills int
	// MaxBatch is how many requests an engine runs at a time, prefill and decode together, at least 1.
	MaxBatch int
	// StepSeconds is the time that a decode step would take with an empty batch, above 0. Each step gives every decoding request one token.
	StepSeconds float64
	// StepSecondsPerRequest is what each request in the batch adds to a decode step, at least 0.
	StepSecondsPerRequest float64
	// KVCacheTokens is how many tokens the KV cache holds, at least 1.
	KVCacheTokens int
	// PrefillShare is the part of its time, above 0 and below 1, that a mixed engine gives to prefill while it has both kinds of work.
	PrefillShare float64
}

// DefaultEngine returns the parameters that hold where none are given. They are of the order that the Splitwise paper (ISCA
// 2024, section III) measured for a 70-billion-parameter model on one eight-GPU server: a decode step takes about twice as
// long at a batch of 64 as alone, and prefill is bound by computation, so that its rate in tokens hardly depends on the batch.
func DefaultEngine() Engine {
	return Engine{
		PrefillRate:           10_000,
		MaxPrefills:           4,
		MaxBatch:              64,
		StepSeconds:           0.030,
		StepSecondsPerRequest: 0.0005,
		KVCacheTokens:         131_072,
		PrefillShare:          0.5,
	}
}

// request is one request on its way through a service.
type request struct {
	number  uint64  // order of arrival at the service
	arrived float64 // when it came to the service
	queued  float64 // when it began to wait for the engine of its present phase

	context int // tokens that the KV cache has to hold: the prompt and what was generated so far
	left    int // tokens still to generate
	output  int // tokens to generate in total

	firstTokenAt float64
	hasFirst     bool

	// While it runs: the engine's progress when its phase began and will end, in tokens, and the place in the heap.
	began, ends float64
}

// runHeap orders running requests by their end.
type runHeap []*request

func (h runHeap) Len() int { return len(h) }
func (h runHeap) Less(i, j int) bool {
	if h[i].ends != h[j].ends {
		return h[i].ends < h[j].ends
	}
	return h[i].number < h[j].number
}
func (h runHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push is for package heap.
func (h *runHeap) Push(r any) { *h = append(*h, r.(*request)) }

// Pop is for package heap.
func (h *runHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}

// engine is the engine of one pod.
//
// Between two changes of its batch every prefill progresses at one common rate, and so does every decode. So the engine
// keeps one count of progress per phase, in tokens per request, and a request ends when that count has grown by the tokens
// it needs. The cost is a few heap operations per request, however many tokens it has.
type engine struct {
	pod    Pod
	role   Role
	params Engine

	at         float64 // when the counts below were brought up to date
	prefilled  float64 // prompt tokens that a request prefilling since the beginning would have had computed
	decoded    float64 // tokens that a request decoding since the beginning would have got
	prefilling runHeap
	decoding   runHeap
	waiting    []*request
	reserved   int     // KV cache tokens promised to running requests
	fraction   float64 // part of a generated token that is not counted yet

	sent    uint64  // number, in the service, of the last request sent here
	due     float64 // time of the next end of a phase; +Inf when nothing runs
	dueHeap int     // place in the service's heap of engines; -1 outside
	stats   Stats
}

func newEngine(pod Pod, now float64) *engine {
	return &engine{pod: pod, at: now, due: math.Inf(1), dueHeap: -1, stats: NewStats()}
}

func (e *engine) load() int { return len(e.waiting) + len(e.prefilling) + len(e.decoding) }

// rates returns the progress per second of each prefill and of each decode, in tokens.
func (e *engine) rates() (prefill, decode float64) {
	prefills, decodes := len(e.prefilling), len(e.decoding)
	prefillTime, decodeTime := 1.0, 1.0
	if prefills > 0 && decodes > 0 {
		prefillTime = e.params.PrefillShare
		decodeTime = 1 - prefillTime
	}
	if prefills > 0 {
		prefill = prefillTime * e.params.PrefillRate / float64(prefills)
	}
	if decodes > 0 {
		decode = decodeTime / (e.params.StepSeconds + e.params.StepSecondsPerRequest*float64(decodes))
	}
	return prefill, decode
}

// progress brings the counts up to date.
func (e *engine) progress(now float64) {
	prefill, decode := e.rates()
	elapsed := now - e.at
	e.at = now
	e.prefilled += prefill * elapsed
	e.decoded += decode * elapsed
	if decode > 0 {
		var whole uint64
		whole, e.fraction = e.generated(decode, elapsed)
		e.stats.countTokens(whole, 1/decode)
	}
}

// generated returns how many whole tokens the decoding requests got in a time at a given rate per request, and the part of
// a token that is left over.
func (e *engine) generated(rate, elapsed float64) (whole uint64, fraction float64) {
	tokens, fraction := math.Modf(e.fraction + float64(len(e.decoding))*rate*elapsed)
	return uint64(tokens), fraction
}

// plan finds the time of the next end of a phase.
func (e *engine) plan() {
	prefill, decode := e.rates()
	e.due = math.Inf(1)
	if len(e.prefilling) > 0 {
		e.due = e.at + max(0, e.prefilling[0].ends-e.prefilled)/prefill
	}
	if len(e.decoding) > 0 {
		e.due = min(e.due, e.at+max(0, e.decoding[0].ends-e.decoded)/decode)
	}
}

// finish ends the phase that is due and returns its request: one whose prefill ended, or one whose decode did. The engine is at its due time afterwards.
func (e *engine) finish() (prefilled, decoded *request) {
	prefill, decode := e.rates()
	now := e.due
	// The phase is chosen as plan chose it, so that rounding cannot leave an event due for ever.
	prefillDue := len(e.prefilling) > 0 && e.at+max(0, e.prefilling[0].ends-e.prefilled)/prefill <= now
	e.progress(now)
	if prefillDue {
		r := heap.Pop(&e.prefilling).(*request)
		e.prefilled = max(e.prefilled, r.ends)
		e.stats.PromptTokens += uint64(r.context)
		e.stats.GenerationTokens++
		if !r.hasFirst {
			r.hasFirst, r.firstTokenAt = true, now
			e.stats.FirstToken.observe(now-r.arrived, 1)
		}
		r.left--
		r.context++
		if r.left > 0 && e.role == Mixed {
			e.decode(r)
			return nil, nil
		}
		e.release(r)
		if r.left > 0 {
			// The engine's part of the request is done; vLLM's prefill engines count it as a request limited to one token.
			e.stats.HandedOver++
			e.stats.Latency.observe(now-r.arrived, 1)
			return r, nil
		}
		e.end(r, now)
		return nil, r
	}
	r := heap.Pop(&e.decoding).(*request)
	e.decoded = max(e.decoded, r.ends)
	if len(e.decoding) == 0 && e.fraction > 0.5 {
		// Whole requests are whole tokens; what is missing is rounding.
		e.stats.countTokens(1, 1/decode)
	}
	if len(e.decoding) == 0 {
		e.fraction = 0
	}
	r.context += r.left
	r.left = 0
	e.release(r)
	e.end(r, now)
	return nil, r
}

func (e *engine) end(r *request, now float64) {
	e.stats.Stopped++
	e.stats.Latency.observe(now-r.arrived, 1)
	if r.output > 1 {
		e.stats.PerOutputToken.observe((now-r.firstTokenAt)/float64(r.output-1), 1)
	}
}

// need is what the KV cache must have free to admit a request. The engine reserves what the request will have grown to, so
// that it never has to preempt one. A request larger than the cache is cut to it, since it could not run anywhere.
func (e *engine) need(r *request) int {
	tokens := r.context + 1
	if e.role != Prefill {
		tokens = r.context + r.left
	}
	return min(tokens, e.params.KVCacheTokens)
}

func (e *engine) release(r *request) {
	// Context and left add up to the same number all along, so this is what was reserved.
	tokens := r.context + r.left
	if e.role == Prefill {
		tokens = r.context
	}
	e.reserved -= min(tokens, e.params.KVCacheTokens)
}

// admit starts waiting requests, first come first served, as far as batch and KV cache allow. The first that does not fit holds up the others, as in vLLM.
func (e *engine) admit(now float64) {
	e.progress(now)
	for len(e.waiting) > 0 {
		r := e.waiting[0]
		if len(e.prefilling)+len(e.decoding) >= e.params.MaxBatch || e.reserved+e.need(r) > e.params.KVCacheTokens {
			break
		}
		if e.role != Decode && len(e.prefilling) >= e.params.MaxPrefills {
			break
		}
		e.waiting[0] = nil
		e.waiting = e.waiting[1:]
		e.reserved += e.need(r)
		e.stats.QueueTime.observe(now-r.queued, 1)
		if e.role == Decode {
			e.decode(r)
			continue
		}
		if len(e.prefilling) == 0 {
			e.prefilled = 0
		}
		r.began = e.prefilled
		r.ends = r.began + float64(r.context)
		heap.Push(&e.prefilling, r)
	}
	e.plan()
}

func (e *engine) decode(r *request) {
	if len(e.decoding) == 0 {
		e.decoded = 0
	}
	r.began = e.decoded
	r.ends = r.began + float64(r.left)
	heap.Push(&e.decoding, r)
}

// takeWaiting empties the engine's queue.
func (e *engine) takeWaiting() []*request {
	waiting := e.waiting
	e.waiting = nil
	return waiting
}

// evict takes everything off the engine. Running requests lose their KV cache: their prompt, and what was generated so far,
// has to be prefilled again.
func (e *engine) evict(now float64) (waiting, running []*request) {
	e.progress(now)
	for _, r := range e.decoding {
		got := min(max(int(e.decoded-r.began), 0), r.left-1)
		r.context += got
		r.left -= got
	}
	running = slices.Concat(e.prefilling, e.decoding)
	e.prefilling, e.decoding, e.reserved, e.fraction = nil, nil, 0, 0
	e.plan()
	return e.takeWaiting(), running
}

// statsAt returns the statistics at a time that is not before the engine's last change and not after its next.
func (e *engine) statsAt(now float64) Stats {
	stats := e.stats.clone()
	stats.Running = len(e.prefilling) + len(e.decoding)
	stats.Waiting = len(e.waiting)
	_, decode := e.rates()
	elapsed := max(0, now-e.at)
	if decode > 0 {
		whole, _ := e.generated(decode, elapsed)
		stats.countTokens(whole, 1/decode)
	}
	var held float64
	for _, r := range e.prefilling {
		held += float64(r.context)
	}
	for _, r := range e.decoding {
		held += float64(r.context) + e.decoded + decode*elapsed - r.began
	}
	if e.params.KVCacheTokens > 0 {
		stats.KVCacheUsage = min(max(held/float64(e.params.KVCacheTokens), 0), 1)
	}
	return stats
}
