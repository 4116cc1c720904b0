package api

// State is the answer to GET /state.
type State struct {
	// Seconds since the simulator started.
	Seconds float64 `json:"seconds"`
	// Services are the loads and the requests in them, the oldest first.
	Services []ServiceState `json:"services"`
	// Pods are all pods that the simulator knows, by namespace and name.
	Pods []PodState `json:"pods"`
}

// ServiceState is the state of the service behind a load.
type ServiceState struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	// Streaming is true while requests are still to arrive: not at rate 0, nor after the end of a trace, nor once stopped.
	Streaming bool `json:"streaming"`
	// Stopped is true from DELETE /load until the last request is served; then the service is gone.
	Stopped bool `json:"stopped"`
	// Queued are requests that wait in the service, since no pod of that role is ready. It is the signal for scaling from zero.
	Queued Queued `json:"queued"`
	// Waiting and Running are the requests at pods, in their queues and in their batches.
	Waiting int `json:"waiting"`
	Running int `json:"running"`
	// Arrived = Completed + Rejected + Discarded + the requests that are queued, waiting and running.
	Arrived   uint64 `json:"arrived"`
	Completed uint64 `json:"completed"`
	// Rejected came while a million requests were in the service.
	Rejected uint64 `json:"rejected"`
	// Discarded were dropped by DELETE /load?discard=true.
	Discarded uint64 `json:"discarded"`
	// Rates per second over the last ten seconds: requests that arrived and were completed, and the tokens of the latter.
	ArrivalRate     float64 `json:"arrivalRate"`
	CompletionRate  float64 `json:"completionRate"`
	PromptTokenRate float64 `json:"promptTokenRate"`
	OutputTokenRate float64 `json:"outputTokenRate"`
	// Pods of the service by namespace and name.
	Pods []ServicePod `json:"pods"`
}

// Queued are requests that no pod has.
type Queued struct {
	// Prefill also counts requests for mixed pods.
	Prefill int `json:"prefill"`
	Decode  int `json:"decode"`
}

// Total returns the requests of both phases.
func (q Queued) Total() int { return q.Prefill + q.Decode }

// ServicePod is the state of a pod in a service.
type ServicePod struct {
	Name string `json:"name"`
	// Role is mixed, prefill or decode.
	Role  string `json:"role"`
	Ready bool   `json:"ready"`
	// Waiting and Running are requests in the pod's queue and batch.
	Waiting int `json:"waiting"`
	Running int `json:"running"`
	// KVCacheUsage is a fraction, 0 to 1.
	KVCacheUsage float64 `json:"kvCacheUsage"`
	// PromptTokens and GenerationTokens count since the pod began.
	PromptTokens     uint64 `json:"promptTokens"`
	GenerationTokens uint64 `json:"generationTokens"`
}

// PodState is what the simulator knows of a pod.
type PodState struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Address is the pod's own; MetricsAddress is the loopback address at which the simulator answers for it.
	Address        string  `json:"address,omitempty"`
	MetricsAddress string  `json:"metricsAddress,omitempty"`
	Ports          []int32 `json:"ports,omitempty"`
	Running        bool    `json:"running"`
	Ready          bool    `json:"ready"`
	// Pinned is true when a pin matches the pod.
	Pinned bool `json:"pinned"`
}
