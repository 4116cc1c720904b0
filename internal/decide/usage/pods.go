package usage

import (
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/pipeline"
	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

const (
	// DefaultInitializationPeriod is how long after its start a pod's use is taken with care.
	DefaultInitializationPeriod = 5 * time.Minute
	// DefaultReadinessDelay is how soon after its start a pod must have become not ready to count as one that has never been
	// ready.
	DefaultReadinessDelay = 30 * time.Second
)

// Pods is a metric of pods.
type Pods struct {
	// Now is the time of the decision.
	Now time.Time
	// Metric is its name, for messages.
	Metric string
	// Resource is which resource is measured. Empty for a metric of another kind, of which some pods of a replica may have
	// none: a replica of which one pod has a value is then known by it.
	Resource corev1.ResourceName
	// Target is the value to hold.
	Target Target
	// Current is the count that the target of the scaler is asked to have.
	Current int32
	// Pods are all pods of the target.
	Pods []Pod
	// Samples are the values by the name of the pod. Those of other pods are left out, and those that are not finite, or
	// negative, count as missing.
	Samples map[string]PodSample
	// InitializationPeriod and ReadinessDelay: see DefaultInitializationPeriod and DefaultReadinessDelay.
	InitializationPeriod, ReadinessDelay time.Duration
}

// PodSample is the value of a metric for one pod.
type PodSample struct {
	// Value is the use in the base unit of the resource (cores, bytes), or the value of the metric.
	Value float64
	// Time is when it was measured, and Window over which time. Zero where the source does not say.
	Time   time.Time
	Window time.Duration
}

// class is how a pod takes part in a decision.
type class int

const (
	// counted pods carry the load.
	counted class = iota
	// starting pods carry none yet.
	starting
	// missing pods carry a load that is not known.
	missing
)

// member is a pod that takes part.
type member struct {
	pod   *Pod
	class class
	// value is its use, and full what its use would be at the target.
	value, full float64
	// weight is which part of a replica of the target it is.
	weight float64
}

// OfPods returns the sample of a metric of pods, in the way of a HorizontalPodAutoscaler. Pods that are deleted or have ended
// take no part. The others are, in this order: starting while they are pending; missing without a sample; starting until they
// are ready; and otherwise counted. The value and the ratio of use to target are those of the counted pods. Where that ratio
// is below 1 missing pods are then added at their full use, and where it is above 1 missing and starting ones at none; a ratio
// that these carry to the other side of 1 counts as 1.
//
// A pod is one part in as many as its replica of the target has pods, so that Load and Base are counted in replicas.
func OfPods(p Pods) (scaling.Sample, *pipeline.Problem) {
	if p.Current == 0 {
		return noData("the target is at 0, and %s has no value without pods", p.Metric)
	}
	members := p.members()
	if problem := p.fill(members); problem != nil {
		return scaling.Sample{}, problem
	}
	var t totals
	at, count := p.Now, map[class]int{}
	for _, m := range members {
		count[m.class]++
		if m.class != counted {
			continue
		}
		t.add(m, m.value)
		if measured := p.Samples[m.pod.Name].Time; !measured.IsZero() && measured.Before(at) {
			at = measured
		}
	}
	if count[counted] == 0 {
		return noData("no pod has a value for %s: %d have none, %d are starting", p.Metric, count[missing], count[starting])
	}
	if t.full == 0 {
		return noData("the pods with a value for %s request none of it: give their containers a request above 0", p.Metric)
	}
	s := scaling.Sample{Time: at, Value: p.level(t)}
	ratio := s.Value / p.Target.Value
	corrected := ratio
	if ratio != 1 && count[missing] > 0 || ratio > 1 && count[starting] > 0 {
		for _, m := range members {
			switch {
			case m.class == missing && ratio < 1:
				t.add(m, p.assumed(m.full))
			case m.class != counted && ratio > 1:
				t.add(m, 0)
			}
		}
		corrected = p.level(t) / p.Target.Value
		if (ratio < 1) != (corrected < 1) || (ratio > 1) != (corrected > 1) {
			corrected = 1
		}
	}
	s.Load, s.Base = corrected*t.weight, t.weight
	return checked(s, p.Metric)
}

// totals are sums over members.
type totals struct {
	used, full, weight float64
	pods               int
}

func (t *totals) add(m member, used float64) {
	t.used, t.full, t.weight, t.pods = t.used+used, t.full+m.full, t.weight+m.weight, t.pods+1
}

// assumed is the use of a pod that is not known, where it might keep others from being removed: all that it requests, or
// what the target asks for where that is more.
func (p *Pods) assumed(full float64) float64 {
	if p.Target.Type == Utilization && p.Target.Value < 100 {
		return full * 100 / p.Target.Value
	}
	return full
}

// level is what compares with the target, with the precision of a HorizontalPodAutoscaler: whole percents, and thousandths
// of the mean.
func (p *Pods) level(t totals) float64 {
	switch p.Target.Type {
	case Utilization:
		return wholeParts(t.used / t.full * p.Target.Value)
	case AverageValue:
		return wholeParts(t.used/float64(t.pods)*1000) / 1000
	case Value:
	}
	return t.used
}

// wholeParts rounds down, and takes what an error of floating point has made too small for what it was.
func wholeParts(x float64) float64 { return math.Floor(x * (1 + 1e-12)) }

// fill works out what the use of each member would be at the target.
func (p *Pods) fill(members []member) *pipeline.Problem {
	for i := range members {
		m := &members[i]
		switch p.Target.Type {
		case AverageValue:
			m.full = p.Target.Value
		case Value:
			m.full = p.Target.Value / float64(len(members))
		case Utilization:
			request, lacks, ok := m.pod.request(p.Resource)
			if !ok {
				return missingRequest(m.pod.Name, lacks, p.Resource)
			}
			m.full = request * p.Target.Value / 100
		}
	}
	return nil
}

func missingRequest(pod, container string, resource corev1.ResourceName) *pipeline.Problem {
	at := fmt.Sprintf("pod %s", pod)
	if container != "" {
		at = fmt.Sprintf("container %s of pod %s", container, pod)
	}
	return &pipeline.Problem{Reason: v1alpha1.ReasonMissingRequest,
		Message: fmt.Sprintf("%s has no request for %s, so that its utilization is unknown: set resources.requests.%s, or use a target of type AverageValue", at, resource, resource)}
}

// members sorts the pods that take part into classes, and gives each its weight.
func (p *Pods) members() []member {
	members := make([]member, 0, len(p.Pods))
	known := map[string]bool{}
	for i := range p.Pods {
		pod := &p.Pods[i]
		if pod.Deleted || pod.Phase == corev1.PodFailed || pod.Phase == corev1.PodSucceeded {
			continue
		}
		m := member{pod: pod}
		s, ok := p.Samples[pod.Name]
		switch {
		case pod.Phase == corev1.PodPending:
			m.class = starting
		case !ok || !usable(s.Value):
			m.class = missing
		case p.starting(pod, s):
			m.class = starting
		default:
			m.value = s.Value
			known[pod.Unit] = pod.Unit != ""
		}
		members = append(members, m)
	}
	if p.Resource == "" {
		members = withoutSilent(members, known)
	}
	size := map[string]int{}
	for _, m := range members {
		size[m.pod.Unit]++
	}
	for i := range members {
		members[i].weight = 1
		if unit := members[i].pod.Unit; unit != "" {
			members[i].weight = 1 / float64(size[unit])
		}
	}
	return members
}

// withoutSilent leaves out the pods without a value of replicas that have one by another pod.
func withoutSilent(members []member, known map[string]bool) []member {
	kept := members[:0]
	for _, m := range members {
		if m.class == counted || !known[m.pod.Unit] {
			kept = append(kept, m)
		}
	}
	return kept
}

// ReadyUnits returns how many replicas the pods that run and are ready make up. A pod is one part in as many as its replica
// has pods, of which those that are deleted or have ended do not count.
func ReadyUnits(pods []Pod) float64 {
	size := map[string]int{}
	var live []*Pod
	for i := range pods {
		if pod := &pods[i]; !pod.Deleted && pod.Phase != corev1.PodFailed && pod.Phase != corev1.PodSucceeded {
			live = append(live, pod)
			size[pod.Unit]++
		}
	}
	var ready float64
	for _, pod := range live {
		if pod.Phase != corev1.PodRunning || pod.Ready != corev1.ConditionTrue {
			continue
		}
		if pod.Unit == "" {
			ready++
		} else {
			ready += 1 / float64(size[pod.Unit])
		}
	}
	return ready
}
