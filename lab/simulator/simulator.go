// Package simulator stands in for the inference engines of a lab's pods: for every pod that Kubernetes says is running it
// serves metrics under vLLM's names, taken from a model of the engines' queues or held at values that a test chooses.
//
// One listener serves all pods. It listens on every loopback address and knows a pod by the address that a connection was
// made to: 127.b.c.d is the pod with the address 10.b.c.d. Connections from anywhere but loopback are dropped.
package simulator

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/pd-orchestrator/pd-orchestrator/lab/simulator/api"
	"github.com/pd-orchestrator/pd-orchestrator/lab/simulator/model"
)

// Simulator holds the pods, the pins and the model behind them. Its methods may be called from several goroutines.
type Simulator struct {
	now   func() time.Time
	start time.Time

	mu        sync.Mutex
	pods      map[string]Pod // by UID
	byAddress map[netip.Addr][]string
	pins      pins
	model     *model.Model
	loads     []api.Load // with defaults, by age; those of stopped services are gone
}

// New returns a simulator without pods. now is the clock that moves the model.
func New(now func() time.Time) *Simulator {
	return &Simulator{
		now:       now,
		start:     now(),
		pods:      map[string]Pod{},
		byAddress: map[netip.Addr][]string{},
		model:     model.New(),
	}
}

// Advance brings the model up to the present. Every other method does so where it matters; calling this now and then keeps
// the work that is left for them small.
func (s *Simulator) Advance() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
}

func (s *Simulator) advance() { s.model.Advance(s.now().Sub(s.start).Seconds()) }

// SetPod adds a pod, or replaces what is known of the pod with that UID.
func (s *Simulator) SetPod(pod Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.pods[pod.UID]; ok {
		s.forgetAddress(old)
	}
	s.pods[pod.UID] = pod
	if pod.Address.IsValid() {
		s.byAddress[pod.Address] = append(s.byAddress[pod.Address], pod.UID)
	}
	s.advance()
	if !pod.Running {
		s.model.DeletePod(pod.UID)
		return
	}
	s.model.SetPod(model.Pod{ID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Labels: pod.Labels, Ready: pod.Ready})
}

// DeletePod forgets a pod. One that is not known is no error.
func (s *Simulator) DeletePod(uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod, ok := s.pods[uid]
	if !ok {
		return
	}
	s.forgetAddress(pod)
	delete(s.pods, uid)
	s.advance()
	s.model.DeletePod(uid)
}

func (s *Simulator) forgetAddress(pod Pod) {
	left := slices.DeleteFunc(s.byAddress[pod.Address], func(uid string) bool { return uid == pod.UID })
	if len(left) == 0 {
		delete(s.byAddress, pod.Address)
		return
	}
	s.byAddress[pod.Address] = left
}

// scrape returns the running pod with an address, its statistics and what is pinned on it. ok is false when no pod with
// that address runs. Of several, as when an address is used again before the old pod is gone, the youngest counts.
func (s *Simulator) scrape(address netip.Addr) (pod Pod, stats model.Stats, pin pinned, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, uid := range s.byAddress[address] {
		if candidate := s.pods[uid]; candidate.Running && (!ok || candidate.Created >= pod.Created) {
			pod, ok = candidate, true
		}
	}
	if !ok {
		return Pod{}, model.Stats{}, pinned{}, false
	}
	s.advance()
	stats, _ = s.model.Stats(pod.UID)
	return pod, stats, s.pins.on(pod), true
}

// Pin puts a valid pin into force.
func (s *Simulator) Pin(pin api.Pin) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pins = s.pins.add(pin)
}

// Unpin takes away the pins with a selector, or all for nil, and returns how many that were.
func (s *Simulator) Unpin(selector *api.Selector) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if selector == nil {
		removed := len(s.pins)
		s.pins = nil
		return removed
	}
	var removed int
	s.pins, removed = s.pins.remove(*selector)
	return removed
}

// Pins returns the pins in force, oldest first.
func (s *Simulator) Pins() []api.Pin {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.pins)
}
