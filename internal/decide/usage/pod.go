package usage

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Pod is what the decision knows of a pod.
type Pod struct {
	// Name tells it from the others of the target.
	Name string
	// Unit is the replica of the target that it belongs to, such as a group. Empty: the pod is a replica of its own.
	Unit string
	// Deleted tells that it is being deleted.
	Deleted bool
	// Phase is its phase.
	Phase corev1.PodPhase
	// Ready is the status of its condition Ready, empty where it has none, and ReadySince the last transition of that.
	Ready      corev1.ConditionStatus
	ReadySince time.Time
	// Started is when it was started. Zero where it was not.
	Started time.Time
	// Containers are its containers and its sidecars, which are restartable init containers.
	Containers []Container
	// Requests are those of the pod as a whole, where it has its own. Nil: its containers' count.
	Requests corev1.ResourceList
}

// Container is a container of a pod.
type Container struct {
	Name     string
	Requests corev1.ResourceList
}

// FromPod returns what the decision knows of a pod that belongs to a replica of the target. It shares the lists of requests.
func FromPod(pod *corev1.Pod, unit string) Pod {
	p := Pod{Name: pod.Name, Unit: unit, Deleted: pod.DeletionTimestamp != nil, Phase: pod.Status.Phase}
	if pod.Status.StartTime != nil {
		p.Started = pod.Status.StartTime.Time
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			p.Ready, p.ReadySince = c.Status, c.LastTransitionTime.Time
		}
	}
	for _, c := range pod.Spec.Containers {
		p.Containers = append(p.Containers, Container{c.Name, c.Resources.Requests})
	}
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			p.Containers = append(p.Containers, Container{c.Name, c.Resources.Requests})
		}
	}
	if pod.Spec.Resources != nil && len(pod.Spec.Resources.Requests) > 0 {
		p.Requests = wholeRequests(p.Containers, pod.Spec.Resources.Requests, pod.Spec.Overhead)
	}
	return p
}

// wholeRequests are the requests of a pod that has its own: they go before those of its containers, and its overhead comes
// on top.
func wholeRequests(containers []Container, own, overhead corev1.ResourceList) corev1.ResourceList {
	requests := corev1.ResourceList{}
	for _, c := range containers {
		add(requests, c.Requests)
	}
	maps.Copy(requests, own)
	add(requests, overhead)
	return requests
}

func add(to, other corev1.ResourceList) {
	for name, q := range other {
		sum := q.DeepCopy()
		sum.Add(to[name])
		to[name] = sum
	}
}

// request returns what a pod requests of a resource. Where it is missing it returns the name of the container that lacks it,
// empty for a pod with requests of its own.
func (p *Pod) request(name corev1.ResourceName) (amount float64, lacks string, ok bool) {
	if p.Requests != nil {
		q, ok := p.Requests[name]
		return q.AsApproximateFloat64(), "", ok
	}
	var sum resource.Quantity
	for _, c := range p.Containers {
		q, ok := c.Requests[name]
		if !ok {
			return 0, c.Name, false
		}
		sum.Add(q)
	}
	return sum.AsApproximateFloat64(), "", true
}

// starting reports whether a pod has not become ready yet, by the rules that a HorizontalPodAutoscaler has for CPU. Within
// the initialization period a pod counts from its becoming ready on and, for CPU, only with a sample that lies wholly after
// that. Later a pod counts unless it has never been ready, which is taken from its being not ready since shortly after its
// start: one that lost its readiness may have lost it to the very load that is measured.
func (p *Pods) starting(pod *Pod, s PodSample) bool {
	if pod.Ready == "" || pod.Started.IsZero() {
		return true
	}
	unready := pod.Ready == corev1.ConditionFalse
	if pod.Started.Add(p.InitializationPeriod).After(p.Now) {
		early := p.Resource == corev1.ResourceCPU && s.Time.Before(pod.ReadySince.Add(s.Window))
		return unready || early
	}
	return unready && pod.Started.Add(p.ReadinessDelay).After(pod.ReadySince)
}
