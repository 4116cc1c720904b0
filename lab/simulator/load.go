package simulator

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pd-orchestrator/pd-orchestrator/lab/simulator/api"
	"github.com/pd-orchestrator/pd-orchestrator/lab/simulator/model"
	"github.com/pd-orchestrator/pd-orchestrator/lab/simulator/trace"
)

// SetLoad puts a valid load into force, in place of the one of its name, and returns it with its defaults filled in.
func (s *Simulator) SetLoad(load api.Load) (api.Load, error) {
	load = withDefaults(load)
	service, err := serviceOf(load)
	if err != nil {
		return api.Load{}, fmt.Errorf("setting load %s: %w", load.Name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
	s.model.SetService(service)
	if i := s.loadNamed(load.Name); i >= 0 {
		s.loads[i] = load
	} else {
		s.loads = append(s.loads, load)
	}
	return load, nil
}

// StopLoad stops the load of a name, or all for "", and returns how many that were. Requests that are in a stopped service
// are served before it goes; with discard they are dropped, also those of services that were stopped before.
func (s *Simulator) StopLoad(name string, discard bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
	for _, service := range s.model.Services() {
		if name == "" || service.Spec.Name == name {
			s.model.StopService(service.Spec.Name, discard)
		}
	}
	kept := slices.DeleteFunc(slices.Clone(s.loads), func(l api.Load) bool { return name == "" || l.Name == name })
	stopped := len(s.loads) - len(kept)
	s.loads = kept
	return stopped
}

// Loads returns the loads in force, the oldest first.
func (s *Simulator) Loads() []api.Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.loads)
}

func (s *Simulator) loadNamed(name string) int {
	return slices.IndexFunc(s.loads, func(l api.Load) bool { return l.Name == name })
}

// State returns the state of all services and pods at present.
func (s *Simulator) State() api.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
	state := api.State{Seconds: s.now().Sub(s.start).Seconds(), Services: []api.ServiceState{}, Pods: []api.PodState{}}
	for _, service := range s.model.Services() {
		state.Services = append(state.Services, serviceState(service))
	}
	for _, pod := range s.pods {
		state.Pods = append(state.Pods, s.podState(pod))
	}
	slices.SortFunc(state.Pods, func(a, b api.PodState) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(a.Address, b.Address))
	})
	return state
}

func (s *Simulator) podState(pod Pod) api.PodState {
	state := api.PodState{
		Namespace: pod.Namespace, Name: pod.Name, Ports: pod.Ports, Running: pod.Running, Ready: pod.Ready,
		Pinned: slices.ContainsFunc(s.pins, func(p api.Pin) bool { return selects(p, pod) }),
	}
	if pod.Address.IsValid() {
		state.Address = pod.Address.String()
	}
	if local, ok := localAddressOf(pod.Address); ok {
		state.MetricsAddress = local.String()
	}
	return state
}

func serviceState(s model.ServiceState) api.ServiceState {
	state := api.ServiceState{
		Name: s.Spec.Name, Namespace: s.Spec.Namespace, Streaming: s.Streaming, Stopped: s.Ending,
		Queued:  api.Queued{Prefill: s.QueuedForPrefill, Decode: s.QueuedForDecode},
		Waiting: s.Waiting, Running: s.Running,
		Arrived: s.Counts.Arrived, Completed: s.Counts.Completed, Rejected: s.Counts.Rejected, Discarded: s.Counts.Discarded,
		ArrivalRate: s.ArrivalRate, CompletionRate: s.CompletionRate,
		PromptTokenRate: s.PromptTokenRate, OutputTokenRate: s.OutputTokenRate,
		Pods: []api.ServicePod{},
	}
	for _, p := range s.Pods {
		state.Pods = append(state.Pods, api.ServicePod{
			Name: p.Pod.Name, Role: string(p.Role), Ready: p.Pod.Ready, Waiting: p.Stats.Waiting, Running: p.Stats.Running,
			KVCacheUsage: p.Stats.KVCacheUsage, PromptTokens: p.Stats.PromptTokens, GenerationTokens: p.Stats.GenerationTokens,
		})
	}
	return state
}

// withDefaults returns the load with every parameter set that applies to it.
func withDefaults(load api.Load) api.Load {
	if load.Trace != "" {
		load.Speed = cmp.Or(load.Speed, new(1.0))
	} else {
		load.Arrivals = cmp.Or(load.Arrivals, api.Poisson)
		load.PromptTokens = lengthsOr(load.PromptTokens, 1024)
		load.OutputTokens = lengthsOr(load.OutputTokens, 128)
	}
	var engine api.Engine
	if load.Engine != nil {
		engine = *load.Engine
	}
	defaults := model.DefaultEngine()
	engine.PrefillTokensPerSecond = cmp.Or(engine.PrefillTokensPerSecond, &defaults.PrefillRate)
	engine.MaxConcurrentPrefills = cmp.Or(engine.MaxConcurrentPrefills, &defaults.MaxPrefills)
	engine.MaxBatchSize = cmp.Or(engine.MaxBatchSize, &defaults.MaxBatch)
	engine.StepSeconds = cmp.Or(engine.StepSeconds, &defaults.StepSeconds)
	engine.StepSecondsPerRequest = cmp.Or(engine.StepSecondsPerRequest, &defaults.StepSecondsPerRequest)
	engine.KVCacheTokens = cmp.Or(engine.KVCacheTokens, &defaults.KVCacheTokens)
	engine.PrefillShare = cmp.Or(engine.PrefillShare, &defaults.PrefillShare)
	load.Engine = &engine
	return load
}

func lengthsOr(lengths *api.Lengths, mean float64) *api.Lengths {
	if lengths == nil {
		return &api.Lengths{Mean: mean, Distribution: string(model.Exponential)}
	}
	filled := *lengths
	if filled.Distribution == string(model.LogNormal) {
		filled.Variation = cmp.Or(filled.Variation, 1)
	}
	return &filled
}

// serviceOf translates a load with defaults for the model.
func serviceOf(load api.Load) (model.Service, error) {
	stream := model.Stream{Seed: load.Seed, Loop: load.Loop}
	if load.Trace != "" {
		recorded, err := trace.Load(load.Trace)
		if err != nil {
			return model.Service{}, err
		}
		stream.Trace, stream.Speed = recorded, *load.Speed
	} else {
		stream.Rate, stream.Evenly = *load.Rate, load.Arrivals == api.Even
		stream.Prompt, stream.Output = lengthsOf(*load.PromptTokens), lengthsOf(*load.OutputTokens)
	}
	return model.Service{
		Name: load.Name, Namespace: load.Namespace, Mixed: load.Selector, Prefill: load.Prefill, Decode: load.Decode,
		Stream: stream, KeepQueues: load.KeepQueues,
		Engine: model.Engine{
			PrefillRate:           *load.Engine.PrefillTokensPerSecond,
			MaxPrefills:           *load.Engine.MaxConcurrentPrefills,
			MaxBatch:              *load.Engine.MaxBatchSize,
			StepSeconds:           *load.Engine.StepSeconds,
			StepSecondsPerRequest: *load.Engine.StepSecondsPerRequest,
			KVCacheTokens:         *load.Engine.KVCacheTokens,
			PrefillShare:          *load.Engine.PrefillShare,
		},
	}, nil
}

func lengthsOf(l api.Lengths) model.Lengths {
	return model.Lengths{Mean: l.Mean, Shape: model.Shape(l.Distribution), Variation: l.Variation}
}

// serviceMetrics serves what the pods cannot show: the queues of the services themselves, which are all there is while no
// pod is ready.
func (s *Simulator) serviceMetrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(serviceCollector{s})
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{DisableCompression: true})
}

type serviceCollector struct{ simulator *Simulator }

var (
	serviceLabels   = []string{"service", "namespace"}
	queuedDesc      = prometheus.NewDesc("simulator_requests_queued", "Requests that wait in the service since no pod of the phase is ready.", append(serviceLabels, "phase"), nil)
	waitingDesc     = prometheus.NewDesc("simulator_requests_waiting", "Requests in the queues of the service's pods.", serviceLabels, nil)
	runningDesc     = prometheus.NewDesc("simulator_requests_running", "Requests in the batches of the service's pods.", serviceLabels, nil)
	arrivedDesc     = prometheus.NewDesc("simulator_requests_arrived_total", "Requests that came to the service.", serviceLabels, nil)
	completedDesc   = prometheus.NewDesc("simulator_requests_completed_total", "Requests that the service has answered.", serviceLabels, nil)
	serviceAllDescs = []*prometheus.Desc{queuedDesc, waitingDesc, runningDesc, arrivedDesc, completedDesc}
)

// Describe sends the descriptions of the service metrics.
func (c serviceCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range serviceAllDescs {
		descs <- desc
	}
}

// Collect sends the present values for every service.
func (c serviceCollector) Collect(metrics chan<- prometheus.Metric) {
	for _, s := range c.simulator.State().Services {
		phases := map[model.Role]int{model.Prefill: s.Queued.Prefill, model.Decode: s.Queued.Decode}
		for phase, queued := range phases {
			metrics <- prometheus.MustNewConstMetric(queuedDesc, prometheus.GaugeValue, float64(queued), s.Name, s.Namespace, string(phase))
		}
		metrics <- prometheus.MustNewConstMetric(waitingDesc, prometheus.GaugeValue, float64(s.Waiting), s.Name, s.Namespace)
		metrics <- prometheus.MustNewConstMetric(runningDesc, prometheus.GaugeValue, float64(s.Running), s.Name, s.Namespace)
		metrics <- prometheus.MustNewConstMetric(arrivedDesc, prometheus.CounterValue, float64(s.Arrived), s.Name, s.Namespace)
		metrics <- prometheus.MustNewConstMetric(completedDesc, prometheus.CounterValue, float64(s.Completed), s.Name, s.Namespace)
	}
}
