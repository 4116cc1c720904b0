package model

import (
	"cmp"
	"container/heap"
	"maps"
	"math"
	"slices"
	"strings"
)

// Service is a stream of requests and the pods that serve it.
type Service struct {
	// Name identifies the service.
	Name string
	// Namespace of its pods.
	Namespace string
	// Mixed, or else Prefill and Decode, are the labels that pods of a role carry, all of them. A nil map selects no pod. A
	// pod that more than one of them selects has the first role in the order Mixed, Prefill, Decode.
	Mixed, Prefill, Decode map[string]string
	// Stream says which requests arrive.
	Stream Stream
	// Engine holds the parameters of the pods.
	Engine Engine
	// KeepQueues leaves requests in the queue of the pod that they were sent to, although others have become ready since.
	// Otherwise whatever waits is spread again when a pod becomes ready, as by a gateway that holds requests back.
	KeepQueues bool
}

// role returns the role of a pod in the service, or "" for none.
func (s *Service) role(pod Pod) Role {
	if pod.Namespace != s.Namespace {
		return ""
	}
	for _, candidate := range []struct {
		labels map[string]string
		role   Role
	}{{s.Mixed, Mixed}, {s.Prefill, Prefill}, {s.Decode, Decode}} {
		if candidate.labels != nil && carries(pod.Labels, candidate.labels) {
			return candidate.role
		}
	}
	return ""
}

func carries(labels, wanted map[string]string) bool {
	for key, value := range wanted {
		if got, ok := labels[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// samePods reports whether the two services select the same pods for the same roles and run them alike.
func (s *Service) samePods(other *Service) bool {
	same := func(a, b map[string]string) bool { return (a == nil) == (b == nil) && maps.Equal(a, b) }
	return s.Namespace == other.Namespace && s.Engine == other.Engine &&
		same(s.Mixed, other.Mixed) && same(s.Prefill, other.Prefill) && same(s.Decode, other.Decode)
}

// maxInService bounds the requests in a service, so that a stream without pods cannot take all memory. Requests beyond are rejected.
const maxInService = 1_000_000

// Counts are numbers of requests of a service since it began.
// Arrived = Completed + Rejected + Discarded + those that are still in the service.
type Counts struct {
	Arrived, Completed, Rejected, Discarded uint64
	// PromptTokens and OutputTokens are the tokens of the completed requests.
	PromptTokens, OutputTokens uint64
}

// rateWindow is the time over which rates are taken, in seconds.
const rateWindow = 10

// sample is what was counted in one second.
type sample struct {
	second int64
	counts Counts
}

// service is a service at work.
type service struct {
	spec     Service
	source   source
	upcoming arrival
	streams  bool // upcoming is to come
	ending   bool // stopped; only what is left is served

	entry  []*engine // prefill and mixed pods, in order of arrival
	decode []*engine // decode pods, in order of arrival
	due    dueHeap   // the engines of both

	// Requests that no ready pod could take, in order of arrival.
	waitingEntry, waitingDecode []*request

	arrivals uint64 // requests numbered so far
	sent     uint64 // requests sent to pods so far
	counts   Counts
	inside   int // requests in the service
	recent   [rateWindow + 1]sample
	began    float64
}

// setStream begins a stream, in place of what was left of another.
func (s *service) setStream(stream Stream, now float64) {
	s.spec.Stream = stream
	s.source = stream.source(now)
	s.upcoming, s.streams = s.source.next()
}

// next returns the time of the next event, +Inf for none.
func (s *service) next() float64 {
	next := math.Inf(1)
	if s.streams {
		next = s.upcoming.at
	}
	if len(s.due) > 0 {
		next = min(next, s.due[0].due)
	}
	return next
}

// advance runs all events up to now.
func (s *service) advance(now float64) {
	for {
		next := s.next()
		if next > now || math.IsInf(next, 1) {
			return
		}
		if len(s.due) > 0 && s.due[0].due <= next {
			s.finish(s.due[0])
			continue
		}
		s.arrive(s.upcoming)
		s.upcoming, s.streams = s.source.next()
	}
}

func (s *service) arrive(a arrival) {
	recent := s.count(a.at)
	s.counts.Arrived++
	recent.Arrived++
	if s.inside >= maxInService {
		s.counts.Rejected++
		return
	}
	s.inside++
	s.arrivals++
	s.waitingEntry = append(s.waitingEntry, &request{
		number: s.arrivals, arrived: a.at, queued: a.at, context: a.prompt, left: a.output, output: a.output,
	})
	s.dispatch(a.at)
}

func (s *service) finish(e *engine) {
	now := e.due
	prefilled, done := e.finish()
	if done != nil {
		s.inside--
		recent := s.count(now)
		for _, counts := range []*Counts{&s.counts, recent} {
			counts.Completed++
			counts.OutputTokens += uint64(done.output)
			// The context has grown by the output.
			counts.PromptTokens += uint64(max(0, done.context-done.output))
		}
	}
	e.admit(now)
	s.rank(e)
	if prefilled != nil {
		prefilled.queued = now
		s.waitingDecode = append(s.waitingDecode, prefilled)
		s.dispatch(now)
	}
}

// count returns the counts of the second that now is in.
func (s *service) count(now float64) *Counts {
	second := int64(now)
	slot := &s.recent[second%int64(len(s.recent))]
	if slot.second != second {
		*slot = sample{second: second}
	}
	return &slot.counts
}

// dispatch sends what waits in the service to the ready pods with the fewest requests.
func (s *service) dispatch(now float64) {
	s.waitingEntry = s.spread(s.waitingEntry, s.entry, now)
	s.waitingDecode = s.spread(s.waitingDecode, s.decode, now)
}

// spread gives each request to the ready engine with the least load, of equals the one that has waited longest for a request, and returns the
// requests that are left because there is no such engine.
func (s *service) spread(waiting []*request, engines []*engine, now float64) []*request {
	if len(waiting) == 0 {
		return waiting
	}
	if len(waiting) == 1 {
		// The usual case, and the one that has to be fast.
		least := ranked{}
		for _, e := range engines {
			if candidate := (ranked{e, e.load()}); e.pod.Ready && (least.engine == nil || candidate.compare(least) < 0) {
				least = candidate
			}
		}
		if least.engine == nil {
			return waiting
		}
		s.send(waiting[0], least.engine, now)
		return waiting[:0]
	}
	var ready loadHeap
	for _, e := range engines {
		if e.pod.Ready {
			ready = append(ready, ranked{e, e.load()})
		}
	}
	if len(ready) == 0 {
		return waiting
	}
	heap.Init(&ready)
	for _, r := range waiting {
		s.send(r, ready[0].engine, now)
		ready[0].load++
		heap.Fix(&ready, 0)
	}
	return nil
}

func (s *service) send(r *request, e *engine, now float64) {
	s.sent++
	e.sent = s.sent
	e.waiting = append(e.waiting, r)
	e.admit(now)
	s.rank(e)
}

// respread takes back what waits at the pods and spreads it again.
func (s *service) respread(now float64) {
	if !s.spec.KeepQueues {
		for _, e := range s.entry {
			s.waitingEntry = append(s.waitingEntry, e.takeWaiting()...)
		}
		for _, e := range s.decode {
			s.waitingDecode = append(s.waitingDecode, e.takeWaiting()...)
		}
		slices.SortFunc(s.waitingEntry, byNumber)
		slices.SortFunc(s.waitingDecode, byNumber)
	}
	s.dispatch(now)
}

func byNumber(a, b *request) int { return cmp.Compare(a.number, b.number) }

// join adds an engine, which begins empty.
func (s *service) join(e *engine, role Role, now float64) {
	e.role, e.params = role, s.spec.Engine
	if role == Decode {
		s.decode = append(s.decode, e)
	} else {
		s.entry = append(s.entry, e)
	}
	heap.Push(&s.due, e)
	if e.pod.Ready {
		s.respread(now)
	}
}

// leave takes engines away. Their requests begin again, in front of those that came after them.
func (s *service) leave(now float64, engines ...*engine) {
	gone := func(e *engine) bool { return slices.Contains(engines, e) }
	s.entry = slices.DeleteFunc(s.entry, gone)
	s.decode = slices.DeleteFunc(s.decode, gone)
	for _, e := range engines {
		if e.dueHeap >= 0 {
			heap.Remove(&s.due, e.dueHeap)
		}
		// What only waited for decode still has its KV cache where it was prefilled; what ran has lost it.
		waiting, running := e.evict(now)
		if e.role == Decode {
			s.waitingDecode = append(s.waitingDecode, waiting...)
		} else {
			s.waitingEntry = append(s.waitingEntry, waiting...)
		}
		for _, r := range running {
			r.queued = now
		}
		s.waitingEntry = append(s.waitingEntry, running...)
		e.role = ""
	}
	slices.SortFunc(s.waitingEntry, byNumber)
	slices.SortFunc(s.waitingDecode, byNumber)
	s.dispatch(now)
}

// discard drops all requests.
func (s *service) discard(now float64) {
	for _, e := range slices.Concat(s.entry, s.decode) {
		e.evict(now)
		s.rank(e)
	}
	s.waitingEntry, s.waitingDecode = nil, nil
	s.counts.Discarded += uint64(s.inside)
	s.inside = 0
}

func (s *service) rank(e *engine) {
	if e.dueHeap >= 0 {
		heap.Fix(&s.due, e.dueHeap)
	}
}

// dueHeap orders engines by the time of their next event. Engines of equal time keep an order by pod, so that a run can be repeated.
type dueHeap []*engine

func (h dueHeap) Len() int { return len(h) }
func (h dueHeap) Less(i, j int) bool {
	if h[i].due != h[j].due {
		return h[i].due < h[j].due
	}
	return h[i].pod.ID < h[j].pod.ID
}
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].dueHeap, h[j].dueHeap = i, j
}

// Push is for package heap.
func (h *dueHeap) Push(e any) {
	e.(*engine).dueHeap = len(*h)
	*h = append(*h, e.(*engine))
}

// Pop is for package heap.
func (h *dueHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	last.dueHeap = -1
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}

// ranked is an engine with the load by which it is chosen.
type ranked struct {
	engine *engine
	load   int
}

func (r ranked) compare(other ranked) int {
	if r.load != other.load {
		return cmp.Compare(r.load, other.load)
	}
	if r.engine.sent != other.engine.sent {
		return cmp.Compare(r.engine.sent, other.engine.sent)
	}
	return strings.Compare(r.engine.pod.ID, other.engine.pod.ID)
}

type loadHeap []ranked

func (h loadHeap) Len() int           { return len(h) }
func (h loadHeap) Less(i, j int) bool { return h[i].compare(h[j]) < 0 }
func (h loadHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push is for package heap.
func (h *loadHeap) Push(r any) { *h = append(*h, r.(ranked)) }

// Pop is for package heap.
func (h *loadHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
