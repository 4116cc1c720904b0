// Package usage turns what the sources of metrics say about pods, or about a total, into the sample of one metric: how much
// load there is, measured in replicas of the target. It treats starting, missing, failed and deleted pods as a
// HorizontalPodAutoscaler does.
package usage

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/pipeline"
	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

const (
	// DefaultInitializationPeriod is how long after its start a pod's CPU use is taken with care.
	DefaultInitializationPeriod = 5 * time.Minute
	// DefaultReadinessDelay is how long after its start a pod that is not ready counts as one that has never been.
	DefaultReadinessDelay = 30 * time.Second
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
	return Pod{Name: pod.Name, Unit: unit}
}

// PodSample is the value of a metric for one pod.
type PodSample struct {
	// Value is the use in the base unit of the resource (cores, bytes), or the value of the metric.
	Value float64
	// Time is when it was measured, and Window over which time. Zero where the source does not say.
	Time   time.Time
	Window time.Duration
}

// TargetType says what the target of a metric is compared with.
type TargetType string

// The types of targets.
const (
	// Utilization is the use in percent of the request.
	Utilization TargetType = "Utilization"
	// AverageValue is the value per pod or, of a total, per replica.
	AverageValue TargetType = "AverageValue"
	// Value is the total.
	Value TargetType = "Value"
)

// Target is the value that a metric is to hold.
type Target struct {
	Type TargetType
	// Value is in percent for Utilization. Greater than 0.
	Value float64
}

// Pods is a metric of pods.
type Pods struct {
	// Now is the time of the decision.
	Now time.Time
	// Metric is its name, for messages.
	Metric string
	// Resource is which resource is measured. Empty for a metric of another kind.
	Resource corev1.ResourceName
	// Target is the value to hold.
	Target Target
	// Current is the count that the target of the scaler is asked to have.
	Current int32
	// Pods are all pods of the target.
	Pods []Pod
	// Samples are the values by the name of the pod. Those of other pods are left out.
	Samples map[string]PodSample
	// InitializationPeriod and ReadinessDelay: see DefaultInitializationPeriod and DefaultReadinessDelay.
	InitializationPeriod, ReadinessDelay time.Duration
}

// Total is a metric with one value for the whole target.
type Total struct {
	// Metric is its name, for messages.
	Metric string
	// Target is the value to hold: AverageValue or Value.
	Target Target
	// Total is the value, and Time when it was measured.
	Total float64
	Time  time.Time
	// Current is the count that the target of the scaler is asked to have.
	Current int32
	// Ready is how many replicas are ready: see ReadyUnits. It counts for a target of type Value only.
	Ready float64
}

// OfPods returns the sample of a metric of pods.
func OfPods(p Pods) (scaling.Sample, *pipeline.Problem) {
	return scaling.Sample{Time: p.Now}, nil
}

// OfTotal returns the sample of a metric with one value.
func OfTotal(t Total) (scaling.Sample, *pipeline.Problem) {
	return scaling.Sample{Time: t.Time}, nil
}

// ReadyUnits returns how many replicas the ready pods make up. A pod counts as one part in the number of pods of its replica.
func ReadyUnits(pods []Pod) float64 {
	return float64(len(pods))
}
