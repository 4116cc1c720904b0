// Package model simulates services of LLM inference engines: requests arrive in a stream, wait, have their prompt
// computed (prefill) and their answer generated token by token (decode) in continuous batches, on pods that come and go.
//
// The package is pure. Time is a number of seconds since a start that the caller chooses and never goes back; nothing
// happens but in calls; with the same calls and seeds everything happens again in the same way, in however many steps
// Advance goes through the time.
//
// Assumptions, so that figures from the model are read for what they are:
//   - Prefill is bound by computation: the prompts that an engine computes at a time share a fixed rate in tokens.
//   - Decode is bound by memory traffic: a step takes a fixed time and a little more for each request in the batch, and
//     gives each one token. Requests join and leave the batch at any time (continuous batching).
//   - A request is admitted when the batch has room and the KV cache has room for all that it will grow to. There is no
//     preemption and no prefix cache.
//   - Handing a request from prefill to decode takes no time and keeps no KV cache on the prefill pod.
//   - Between two events the batch is constant, and so progress is linear: single steps are not simulated.
//   - A request whose pod goes away is prefilled again, with what had been generated, by another pod.
package model

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
)

// Pod is a pod as far as the model is concerned.
type Pod struct {
	// ID is unique among all pods of all times.
	ID        string
	Namespace string
	Name      string
	Labels    map[string]string
	// Ready pods are sent requests. A pod that is not keeps and serves those that it has.
	Ready bool
}

func (p Pod) equal(other Pod) bool {
	return p.ID == other.ID && p.Namespace == other.Namespace && p.Name == other.Name && p.Ready == other.Ready &&
		maps.Equal(p.Labels, other.Labels)
}

// Model is a set of pods and of services that run on them. A pod is in the oldest service that selects it, or in none.
// It is not safe for concurrent use.
type Model struct {
	now      float64
	pods     map[string]*engine
	services []*service // by age
	home     map[*engine]*service
}

// New returns an empty model at time 0.
func New() *Model {
	return &Model{pods: map[string]*engine{}, home: map[*engine]*service{}}
}

// Advance runs the model up to a time. An earlier time than the last one changes nothing.
func (m *Model) Advance(now float64) {
	if now <= m.now {
		return
	}
	for _, s := range m.services {
		s.advance(now)
	}
	m.now = now
	ended := slices.DeleteFunc(slices.Clone(m.services), func(s *service) bool { return !s.ending || s.inside > 0 })
	for _, s := range ended {
		m.remove(s)
	}
}

// SetPod adds a pod, or changes the labels and readiness of the one with its ID.
func (m *Model) SetPod(pod Pod) {
	e, ok := m.pods[pod.ID]
	if !ok {
		e = newEngine(pod, m.now)
		m.pods[pod.ID] = e
		m.assign(e)
		return
	}
	if e.pod.equal(pod) {
		return
	}
	becameReady := pod.Ready && !e.pod.Ready
	e.pod = pod
	before := m.home[e]
	m.assign(e)
	if s := m.home[e]; becameReady && s != nil && s == before {
		s.respread(m.now)
	}
}

// DeletePod removes a pod and everything that it reported. One that is not known is no error.
func (m *Model) DeletePod(id string) {
	e, ok := m.pods[id]
	if !ok {
		return
	}
	delete(m.pods, id)
	if s := m.home[e]; s != nil {
		delete(m.home, e)
		s.leave(m.now, e)
	}
}

// SetService begins a service, or changes the one of that name. A change of the stream begins the new stream and leaves
// requests, queues and counts as they are; a change of pods or engines begins running requests again.
func (m *Model) SetService(spec Service) {
	for _, s := range m.services {
		if s.spec.Name != spec.Name {
			continue
		}
		pods := s.spec.samePods(&spec)
		s.ending = false
		s.spec = spec
		if !pods {
			m.vacate(s)
		}
		s.setStream(spec.Stream, m.now)
		m.settle()
		return
	}
	s := &service{spec: spec, began: m.now}
	s.setStream(spec.Stream, m.now)
	m.services = append(m.services, s)
	m.settle()
}

// StopService ends the stream of a service and reports whether there is one. What is in the service is still served, and
// then the service is gone; with discard it is dropped at once.
func (m *Model) StopService(name string, discard bool) bool {
	i := slices.IndexFunc(m.services, func(s *service) bool { return s.spec.Name == name })
	if i < 0 {
		return false
	}
	s := m.services[i]
	s.ending, s.streams = true, false
	if discard {
		s.discard(m.now)
	}
	if s.inside == 0 {
		m.remove(s)
	}
	return true
}

// remove takes a service out of the model and gives its pods to the services that they belong to now.
func (m *Model) remove(s *service) {
	m.services = slices.DeleteFunc(m.services, func(other *service) bool { return other == s })
	m.vacate(s)
	m.settle()
}

// vacate takes all pods from a service.
func (m *Model) vacate(s *service) {
	engines := slices.Concat(s.entry, s.decode)
	for _, e := range engines {
		delete(m.home, e)
	}
	s.leave(m.now, engines...)
}

// settle puts every pod where it belongs.
func (m *Model) settle() {
	for _, id := range slices.Sorted(maps.Keys(m.pods)) {
		m.assign(m.pods[id])
	}
}

// assign puts a pod into the service and role that it belongs to.
func (m *Model) assign(e *engine) {
	var home *service
	var role Role
	for _, s := range m.services {
		if role = s.spec.role(e.pod); role != "" {
			home = s
			break
		}
	}
	before := m.home[e]
	if before == home && e.role == role {
		return
	}
	if before != nil {
		delete(m.home, e)
		before.leave(m.now, e)
	}
	if home != nil {
		m.home[e] = home
		home.join(e, role, m.now)
	}
}

// Stats returns what the engine of a pod reports at the time of the last Advance; ok is false for a pod that is not known.
func (m *Model) Stats(id string) (stats Stats, ok bool) {
	e, ok := m.pods[id]
	if !ok {
		return Stats{}, false
	}
	return e.statsAt(m.now), true
}

// PodState is the state of a pod in a service.
type PodState struct {
	Pod   Pod
	Role  Role
	Stats Stats
}

// ServiceState is the state of a service.
type ServiceState struct {
	Spec Service
	// Streaming is true while requests are still to arrive.
	Streaming bool
	// Ending is true once the service was stopped and only serves what is left.
	Ending bool
	// QueuedForPrefill and QueuedForDecode are requests that no ready pod could take.
	QueuedForPrefill, QueuedForDecode int
	// Waiting and Running are the sums over the pods.
	Waiting, Running int
	Counts           Counts
	// ArrivalRate, CompletionRate and the token rates are per second, over the last ten full seconds or since the service began.
	ArrivalRate, CompletionRate, PromptTokenRate, OutputTokenRate float64
	// Pods in order of namespace and name.
	Pods []PodState
}

// Services returns the state of all services at the time of the last Advance, the oldest first.
func (m *Model) Services() []ServiceState {
	states := make([]ServiceState, len(m.services))
	for i, s := range m.services {
		states[i] = s.state(m.now)
	}
	return states
}

func (s *service) state(now float64) ServiceState {
	state := ServiceState{
		Spec: s.spec, Streaming: s.streams, Ending: s.ending,
		QueuedForPrefill: len(s.waitingEntry), QueuedForDecode: len(s.waitingDecode), Counts: s.counts,
	}
	for _, e := range slices.Concat(s.entry, s.decode) {
		pod := PodState{Pod: e.pod, Role: e.role, Stats: e.statsAt(now)}
		state.Pods = append(state.Pods, pod)
		state.Waiting += pod.Stats.Waiting
		state.Running += pod.Stats.Running
	}
	slices.SortFunc(state.Pods, func(a, b PodState) int { return compareNames(a.Pod, b.Pod) })

	this := int64(now)
	first := max(this-rateWindow, int64(math.Ceil(s.began)))
	if seconds := float64(this - first); seconds > 0 {
		for _, sample := range s.recent {
			if sample.second < first || sample.second >= this {
				continue
			}
			state.ArrivalRate += float64(sample.counts.Arrived) / seconds
			state.CompletionRate += float64(sample.counts.Completed) / seconds
			state.PromptTokenRate += float64(sample.counts.PromptTokens) / seconds
			state.OutputTokenRate += float64(sample.counts.OutputTokens) / seconds
		}
	}
	return state
}

func compareNames(a, b Pod) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
}
