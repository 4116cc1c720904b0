package usage

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/algorithm"
	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

// countOfHPA is the count that a HorizontalPodAutoscaler computes from CPU, in whole thousandths as it does: utilization in
// percent of the request, or a mean per pod. It returns false where it computes none.
func countOfHPA(current, target int32, utilization bool, pods []Pod, samples map[string]PodSample) (int32, bool) {
	milli := func(x float64) int64 { return int64(math.Round(x * 1000)) }
	request := func(p Pod) int64 { q := p.Containers[0].Requests[corev1.ResourceCPU]; return q.MilliValue() }
	use, requests := map[string]int64{}, map[string]int64{}
	var starting, missing []string
	for _, p := range pods {
		requests[p.Name] = request(p)
		s, found := samples[p.Name]
		young := p.Started.Add(5 * time.Minute).After(now)
		switch {
		case p.Deleted, p.Phase == corev1.PodFailed:
		case p.Phase == corev1.PodPending:
			starting = append(starting, p.Name)
		case !found:
			missing = append(missing, p.Name)
		case p.Ready == "",
			young && (p.Ready == corev1.ConditionFalse || s.Time.Before(p.ReadySince.Add(s.Window))),
			!young && p.Ready == corev1.ConditionFalse && p.Started.Add(30*time.Second).After(p.ReadySince):
			starting = append(starting, p.Name)
		default:
			use[p.Name] = milli(s.Value)
		}
	}
	if len(use) == 0 {
		return 0, false
	}
	ratio := func() float64 {
		var used, requested int64
		for name, u := range use {
			used, requested = used+u, requested+requests[name]
		}
		if utilization {
			return float64(used*100/requested) / float64(target)
		}
		return float64(used/int64(len(use))) / float64(target)
	}
	within := func(r float64) bool { return r >= 0.9 && r <= 1.1 }
	first := ratio()
	if len(missing) == 0 && (len(starting) == 0 || first <= 1) {
		if within(first) {
			return current, true
		}
		return int32(math.Ceil(first*float64(len(use)) - 1e-9)), true
	}
	for _, name := range missing {
		switch {
		case first > 1:
			use[name] = 0
		case first < 1 && utilization:
			use[name] = requests[name] * int64(max(100, target)) / 100
		case first < 1:
			use[name] = int64(target)
		}
	}
	if first > 1 {
		for _, name := range starting {
			use[name] = 0
		}
	}
	second := ratio()
	if within(second) || first < 1 && second > 1 || first > 1 && second < 1 {
		return current, true
	}
	count := int32(math.Ceil(second*float64(len(use)) - 1e-9))
	if second < 1 && count > current || second > 1 && count < current {
		return current, true
	}
	return count, true
}

func TestCountsEqualThoseOfAHorizontalPodAutoscaler(t *testing.T) {
	registry := scaling.NewRegistry()
	if err := algorithm.Register(registry); err != nil {
		t.Fatal(err)
	}
	apa, _ := registry.Lookup("APA")
	same, grew, shrank := 0, 0, 0
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 7))
		f := &fleet{}
		level := r.Float64() * 1.5
		for range 1 + r.IntN(12) {
			use := math.Round(level*(0.5+r.Float64())*1000) / 1000
			var how []func(*Pod, *PodSample)
			switch r.IntN(8) {
			case 0:
				use = -1
			case 1:
				how = append(how, pending)
			case 2:
				how = append(how, deleted)
			case 3:
				since := time.Duration(r.IntN(400)) * time.Second
				how = append(how, startedBefore(since+time.Duration(r.IntN(90))*time.Second, since, []corev1.ConditionStatus{"", corev1.ConditionTrue, corev1.ConditionFalse}[r.IntN(3)]))
			}
			how = append(how, func(p *Pod, _ *PodSample) {
				p.Containers[0].Requests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(int64(250*(1+r.IntN(4))), resource.DecimalSI)}
			})
			f.running(use, how...)
		}
		live := 0
		for _, p := range f.pods {
			if !p.Deleted {
				live++
			}
		}
		current := int32(max(1, live+r.IntN(3)-1))
		utilization, target := r.IntN(2) == 0, int32(20+r.IntN(130))
		query := Pods{
			Now: now, Resource: corev1.ResourceCPU, Target: Target{Utilization, float64(target)}, Current: current, Pods: f.pods, Samples: f.samples,
			InitializationPeriod: DefaultInitializationPeriod, ReadinessDelay: DefaultReadinessDelay,
		}
		if !utilization {
			target *= 5
			query.Target = Target{AverageValue, float64(target) / 1000}
		}
		theirs, ok := countOfHPA(current, target, utilization, f.pods, f.samples)
		s, problem := OfPods(query)
		if ok != (problem == nil) {
			t.Fatalf("seed %d: a HorizontalPodAutoscaler computes a count: %v; our problem: %+v", seed, ok, problem)
		}
		if !ok {
			continue
		}
		result, err := apa.CalculateDesiredReplicas(context.Background(), scaling.Input{
			Now: now, CurrentReplicas: current, Config: map[string]string{"maxScaleUpRate": "1000", "maxScaleDownRate": "1000"},
			Metrics: []scaling.Metric{{Target: query.Target.Value, Samples: []scaling.Sample{s}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		// With fewer pods than the count, or more, a HorizontalPodAutoscaler may shrink what is above its target, or grow what
		// is below. We do not.
		if ratio := s.Load / s.Base; ratio > 1.1 {
			theirs = max(theirs, current)
		} else if ratio < 0.9 {
			theirs = min(theirs, current)
		}
		if result.Replicas != theirs {
			t.Fatalf("seed %d: got %d from %+v, and a HorizontalPodAutoscaler computes %d\ncurrent %d, target %+v\n%s", seed, result.Replicas, s, theirs, current, query.Target, f)
		}
		switch {
		case theirs > current:
			grew++
		case theirs < current:
			shrank++
		default:
			same++
		}
	}
	if min(same, grew, shrank) < 300 {
		t.Errorf("%d cases stayed, %d grew and %d shrank: too few of one to say anything", same, grew, shrank)
	}
}

// String lists the pods for a reader of a failed test.
func (f *fleet) String() string {
	var b strings.Builder
	for _, p := range f.pods {
		use := "no sample"
		if s, ok := f.samples[p.Name]; ok {
			use = fmt.Sprintf("uses %v, measured %s ago", s.Value, now.Sub(s.Time))
		}
		q := p.Containers[0].Requests[corev1.ResourceCPU]
		fmt.Fprintf(&b, "%s %s deleted %v, started %s ago, ready %q since %s, requests %s, %s\n", p.Name, p.Phase, p.Deleted, now.Sub(p.Started), p.Ready, now.Sub(p.ReadySince), q.String(), use)
	}
	return b.String()
}
