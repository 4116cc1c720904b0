package usage

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

var now = time.Date(2026, 6, 15, 12, 0, 0, 0, time.UTC)

// fleet builds the pods of a target and their samples.
type fleet struct {
	pods    []Pod
	samples map[string]PodSample
}

// running adds a pod that has been ready for an hour, with a request of one core and a use; a negative use is none.
func (f *fleet) running(use float64, change ...func(*Pod, *PodSample)) *fleet {
	p := Pod{
		Name: fmt.Sprint("pod-", len(f.pods)), Phase: corev1.PodRunning,
		Ready: corev1.ConditionTrue, ReadySince: now.Add(-time.Hour), Started: now.Add(-61 * time.Minute),
		Containers: []Container{{Name: "engine", Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}},
	}
	s := PodSample{Value: use, Time: now.Add(-10 * time.Second), Window: 20 * time.Second}
	for _, c := range change {
		c(&p, &s)
	}
	if f.samples == nil {
		f.samples = map[string]PodSample{}
	}
	f.pods = append(f.pods, p)
	if use >= 0 {
		f.samples[p.Name] = s
	}
	return f
}

func (f *fleet) group(unit string, uses ...float64) *fleet {
	for _, use := range uses {
		f.running(use, func(p *Pod, _ *PodSample) { p.Unit = unit })
	}
	return f
}

func pending(p *Pod, _ *PodSample)  { p.Phase, p.Ready, p.Started = corev1.PodPending, "", time.Time{} }
func failed(p *Pod, _ *PodSample)   { p.Phase = corev1.PodFailed }
func deleted(p *Pod, _ *PodSample)  { p.Deleted = true }
func finished(p *Pod, _ *PodSample) { p.Phase = corev1.PodSucceeded }

// startedBefore makes a pod that started some time ago and whose readiness has been what it is since some time.
func startedBefore(started, since time.Duration, ready corev1.ConditionStatus) func(*Pod, *PodSample) {
	return func(p *Pod, _ *PodSample) {
		p.Started, p.ReadySince, p.Ready = now.Add(-started), now.Add(-since), ready
	}
}

func measuredBefore(d time.Duration) func(*Pod, *PodSample) {
	return func(_ *Pod, s *PodSample) { s.Time = now.Add(-d) }
}

func TestPods(t *testing.T) {
	cases := map[string]struct {
		fleet    *fleet
		target   Target
		resource corev1.ResourceName
		want     scaling.Sample
	}{
		"utilization": {
			(&fleet{}).running(0.9).running(0.7), Target{Utilization, 50}, corev1.ResourceCPU, scaling.Sample{Value: 80, Load: 3.2, Base: 2},
		},
		"utilization in whole percents, rounded down": {
			(&fleet{}).running(0.779), Target{Utilization, 70}, corev1.ResourceCPU, scaling.Sample{Value: 77, Load: 1.1, Base: 1},
		},
		"a value per pod": {
			(&fleet{}).running(30).running(10), Target{AverageValue, 10}, "", scaling.Sample{Value: 20, Load: 4, Base: 2},
		},
		"a value per pod in thousandths, rounded down": {
			(&fleet{}).running(10).running(10).running(0), Target{AverageValue, 10}, "", scaling.Sample{Value: 6.666, Load: 1.9998, Base: 3},
		},
		"the total over the pods": {
			(&fleet{}).running(30).running(10), Target{Value, 20}, "", scaling.Sample{Value: 40, Load: 4, Base: 2},
		},

		// Pods that do not carry load.
		"deleted, failed and finished pods take no part": {
			(&fleet{}).running(0.8).running(9, deleted).running(9, failed).running(9, finished), Target{Utilization, 40}, corev1.ResourceCPU,
			scaling.Sample{Value: 80, Load: 2, Base: 1},
		},
		"a missing pod counts as idle while the others are above the target": {
			(&fleet{}).running(0.8).running(-1), Target{Utilization, 50}, corev1.ResourceCPU, scaling.Sample{Value: 80, Load: 2, Base: 2},
		},
		"a missing pod counts as fully used while the others are below": {
			(&fleet{}).running(0.2).running(-1), Target{Utilization, 80}, corev1.ResourceCPU, scaling.Sample{Value: 20, Load: 1.5, Base: 2},
		},
		"a missing pod counts as at a target of more than 100 percent while the others are below": {
			(&fleet{}).running(1).running(-1), Target{Utilization, 200}, corev1.ResourceCPU, scaling.Sample{Value: 100, Load: 1.5, Base: 2},
		},
		"a missing pod counts as at the target per pod while the others are below": {
			(&fleet{}).running(2).running(-1), Target{AverageValue, 10}, "", scaling.Sample{Value: 2, Load: 1.2, Base: 2},
		},
		"a missing pod has its share of a total while the others are below": {
			(&fleet{}).running(2).running(-1), Target{Value, 20}, "", scaling.Sample{Value: 2, Load: 1.2, Base: 2},
		},
		"a missing pod that turns growth into shrinking stops it": {
			(&fleet{}).running(0.8).running(-1).running(-1), Target{Utilization, 50}, corev1.ResourceCPU, scaling.Sample{Value: 80, Load: 3, Base: 3},
		},
		"a missing pod that turns shrinking into growth stops it": {
			(&fleet{}).running(0.1).running(-1).running(-1), Target{Utilization, 40}, corev1.ResourceCPU, scaling.Sample{Value: 10, Load: 3, Base: 3},
		},
		"a missing pod at exactly the target changes nothing": {
			(&fleet{}).running(0.5).running(-1), Target{Utilization, 50}, corev1.ResourceCPU, scaling.Sample{Value: 50, Load: 1, Base: 1},
		},
		"a value that is no number is missing": {
			(&fleet{}).running(8).running(math.Inf(1)), Target{AverageValue, 5}, "", scaling.Sample{Value: 8, Load: 2, Base: 2},
		},
		"a pending pod counts as idle while the others are above the target": {
			(&fleet{}).running(0.9).running(-1, pending), Target{Utilization, 40}, corev1.ResourceCPU, scaling.Sample{Value: 90, Load: 2.25, Base: 2},
		},
		"a pending pod is left out while the others are below": {
			(&fleet{}).running(0.2).running(-1, pending), Target{Utilization, 40}, corev1.ResourceCPU, scaling.Sample{Value: 20, Load: 0.5, Base: 1},
		},

		// Starting pods.
		"a young pod that is not ready is starting": {
			(&fleet{}).running(0.2).running(0.9, startedBefore(4*time.Minute, 4*time.Minute, corev1.ConditionFalse)), Target{Utilization, 40}, corev1.ResourceCPU,
			scaling.Sample{Value: 20, Load: 0.5, Base: 1},
		},
		"a young pod that was ready once is starting": {
			(&fleet{}).running(0.2).running(0.9, startedBefore(4*time.Minute, time.Minute, corev1.ConditionFalse)), Target{Utilization, 40}, corev1.ResourceCPU,
			scaling.Sample{Value: 20, Load: 0.5, Base: 1},
		},
		"a young pod whose CPU was measured before it was ready is starting": {
			(&fleet{}).running(0.2).running(0.9, startedBefore(4*time.Minute, 25*time.Second, corev1.ConditionTrue), measuredBefore(10*time.Second)), Target{Utilization, 40}, corev1.ResourceCPU,
			scaling.Sample{Value: 20, Load: 0.5, Base: 1},
		},
		"a young pod whose CPU was measured since it is ready counts": {
			(&fleet{}).running(0.2).running(0.9, startedBefore(4*time.Minute, 40*time.Second, corev1.ConditionTrue), measuredBefore(10*time.Second)), Target{Utilization, 50}, corev1.ResourceCPU,
			scaling.Sample{Value: 55, Load: 2.2, Base: 2},
		},
		"of another metric the time does not matter": {
			(&fleet{}).running(2).running(9, startedBefore(4*time.Minute, 25*time.Second, corev1.ConditionTrue), measuredBefore(10*time.Second)), Target{AverageValue, 5}, "",
			scaling.Sample{Value: 5.5, Load: 2.2, Base: 2},
		},
		"another metric of a young pod that is not ready is left out": {
			(&fleet{}).running(2).running(9, startedBefore(4*time.Minute, 4*time.Minute, corev1.ConditionFalse)), Target{AverageValue, 4}, "",
			scaling.Sample{Value: 2, Load: 0.5, Base: 1},
		},
		"an old pod that has never been ready is starting": {
			(&fleet{}).running(0.2).running(0.9, startedBefore(time.Hour, time.Hour-10*time.Second, corev1.ConditionFalse)), Target{Utilization, 40}, corev1.ResourceCPU,
			scaling.Sample{Value: 20, Load: 0.5, Base: 1},
		},
		"an old pod that lost its readiness counts": {
			(&fleet{}).running(0.2).running(0.8, startedBefore(time.Hour, time.Minute, corev1.ConditionFalse)), Target{Utilization, 25}, corev1.ResourceCPU,
			scaling.Sample{Value: 50, Load: 4, Base: 2},
		},
		"a pod without a word on its readiness is starting": {
			(&fleet{}).running(0.2).running(0.9, startedBefore(time.Hour, 0, "")), Target{Utilization, 40}, corev1.ResourceCPU,
			scaling.Sample{Value: 20, Load: 0.5, Base: 1},
		},

		// Groups of pods.
		"pods are no groups": {
			(&fleet{}).group("0", 1.6, 1.6, 1.6, 1.6).group("1", 1.6, 1.6, 1.6, 1.6), Target{Utilization, 80}, corev1.ResourceCPU, scaling.Sample{Value: 160, Load: 4, Base: 2},
		},
		"groups of different size": {
			(&fleet{}).group("0", 6, 6).group("1", 6, 6, 6, 6), Target{AverageValue, 3}, "", scaling.Sample{Value: 6, Load: 4, Base: 2},
		},
		"a missing pod is a part of its group": {
			(&fleet{}).group("0", 0.2, 0.2).group("1", 0.2, -1), Target{Utilization, 50}, corev1.ResourceCPU, scaling.Sample{Value: 20, Load: 1.6, Base: 2},
		},
		"a group with a metric of one pod is known by it": {
			(&fleet{}).group("0", 6, -1, -1).group("1", 2, -1, -1), Target{AverageValue, 8}, "", scaling.Sample{Value: 4, Load: 1, Base: 2},
		},
		"a group without a metric is missing": {
			(&fleet{}).group("0", 4, -1).group("1", -1, -1), Target{AverageValue, 8}, "", scaling.Sample{Value: 4, Load: 1.666, Base: 2},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, problem := OfPods(Pods{
				Now: now, Metric: "m", Resource: tc.resource, Target: tc.target, Current: 2, Pods: tc.fleet.pods, Samples: tc.fleet.samples,
				InitializationPeriod: DefaultInitializationPeriod, ReadinessDelay: DefaultReadinessDelay,
			})
			if problem != nil {
				t.Fatalf("problem %s: %s", problem.Reason, problem.Message)
			}
			got.Time = time.Time{}
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateApprox(0, 0.001)); diff != "" {
				t.Errorf("sample (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodsWithoutAValue(t *testing.T) {
	noRequest := func(p *Pod, _ *PodSample) { p.Containers = append(p.Containers, Container{Name: "sidecar"}) }
	cases := map[string]struct {
		fleet   *fleet
		current int32
		reason  string
		message string
	}{
		"no pods":                    {&fleet{}, 2, v1alpha1.ReasonNoData, "no pod has a value for cpu: 0 have none, 0 are starting"},
		"a target at 0":              {(&fleet{}).running(1), 0, v1alpha1.ReasonNoData, "the target is at 0"},
		"only starting and missing":  {(&fleet{}).running(-1).running(1, pending).running(1, pending), 2, v1alpha1.ReasonNoData, "1 have none, 2 are starting"},
		"a request that is missing":  {(&fleet{}).running(1).running(1, noRequest), 2, v1alpha1.ReasonMissingRequest, "container sidecar of pod pod-1 has no request for cpu"},
		"a request of a pod that is": {(&fleet{}).running(1).running(1, noRequest, pending), 2, v1alpha1.ReasonMissingRequest, "container sidecar of pod pod-1 has no request for cpu"},
		"a pod with other requests of its own": {
			(&fleet{}).running(1, func(p *Pod, _ *PodSample) {
				p.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
			}),
			2, v1alpha1.ReasonMissingRequest, "pod pod-0 has no request for cpu",
		},
		"requests of 0": {
			(&fleet{}).running(1, func(p *Pod, _ *PodSample) { p.Requests = corev1.ResourceList{corev1.ResourceCPU: {}} }),
			2, v1alpha1.ReasonNoData, "request none of it",
		},
		"values that overflow":      {(&fleet{}).running(math.MaxFloat64).running(math.MaxFloat64), 2, v1alpha1.ReasonNoData, "too large"},
		"only values that are none": {(&fleet{}).running(math.Inf(1)), 2, v1alpha1.ReasonNoData, "1 have none"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, problem := OfPods(Pods{
				Now: now, Metric: "cpu", Resource: corev1.ResourceCPU, Target: Target{Utilization, 50}, Current: tc.current, Pods: tc.fleet.pods, Samples: tc.fleet.samples,
				InitializationPeriod: DefaultInitializationPeriod, ReadinessDelay: DefaultReadinessDelay,
			})
			if problem == nil || problem.Reason != tc.reason || !strings.Contains(problem.Message, tc.message) {
				t.Errorf("got %+v and problem %+v, want %s with %q", got, problem, tc.reason, tc.message)
			}
		})
	}
	// A pod that takes no part needs no request, and neither does a target that is no utilization.
	f := (&fleet{}).running(1).running(1, noRequest, deleted)
	for _, target := range []Target{{Utilization, 50}, {AverageValue, 0.5}} {
		if _, problem := OfPods(Pods{Now: now, Resource: corev1.ResourceCPU, Target: target, Current: 1, Pods: f.pods, Samples: f.samples}); problem != nil {
			t.Errorf("%s: problem %s: %s", target.Type, problem.Reason, problem.Message)
		}
	}
}

func TestTheOldestSampleGivesTheTime(t *testing.T) {
	f := (&fleet{}).running(1, measuredBefore(20*time.Second)).running(1, measuredBefore(50*time.Second)).running(1, deleted, measuredBefore(time.Hour))
	s, problem := OfPods(Pods{Now: now, Target: Target{AverageValue, 1}, Current: 2, Pods: f.pods, Samples: f.samples})
	if problem != nil || !s.Time.Equal(now.Add(-50*time.Second)) {
		t.Errorf("the time is %s ago, want 50s (%v)", now.Sub(s.Time), problem)
	}
}

func TestTotals(t *testing.T) {
	cases := map[string]struct {
		total Total
		want  scaling.Sample
	}{
		"per replica":                         {Total{Target: Target{AverageValue, 100}, Total: 550, Current: 5}, scaling.Sample{Value: 110, Load: 5.5, Base: 5}},
		"per replica at 0 is the total":       {Total{Target: Target{AverageValue, 10}, Total: 30}, scaling.Sample{Value: 30, Load: 3}},
		"as it is":                            {Total{Target: Target{Value, 100}, Total: 150, Current: 5, Ready: 4}, scaling.Sample{Value: 150, Load: 6, Base: 4}},
		"as it is at 0":                       {Total{Target: Target{Value, 100}, Total: 150}, scaling.Sample{Value: 150, Load: 1.5}},
		"nothing":                             {Total{Target: Target{AverageValue, 100}, Current: 5}, scaling.Sample{Base: 5}},
		"ready pods do not count per replica": {Total{Target: Target{AverageValue, 100}, Total: 500, Current: 5, Ready: 1}, scaling.Sample{Value: 100, Load: 5, Base: 5}},
		"huge":                                {Total{Target: Target{AverageValue, 1}, Total: 1e19, Current: 5}, scaling.Sample{Value: 2e18, Load: 1e19, Base: 5}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.total.Time, tc.want.Time = now, now
			got, problem := OfTotal(tc.total)
			if problem != nil {
				t.Fatalf("problem %s: %s", problem.Reason, problem.Message)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("sample (-want +got):\n%s", diff)
			}
		})
	}
	for name, total := range map[string]Total{
		"NaN":              {Total: math.NaN(), Target: Target{AverageValue, 1}, Current: 1},
		"infinite":         {Total: math.Inf(1), Target: Target{AverageValue, 1}, Current: 1},
		"negative":         {Total: -1, Target: Target{AverageValue, 1}, Current: 1},
		"overflow":         {Total: math.MaxFloat64, Target: Target{AverageValue, 0.001}, Current: 1},
		"nothing is ready": {Total: 5, Target: Target{Value, 1}, Current: 1},
	} {
		if got, problem := OfTotal(total); problem == nil || problem.Reason != v1alpha1.ReasonNoData {
			t.Errorf("%s: got %+v, %+v, want NoData", name, got, problem)
		}
	}
}

func TestReadyUnits(t *testing.T) {
	notReady := func(p *Pod, _ *PodSample) { p.Ready = corev1.ConditionFalse }
	f := (&fleet{}).running(1).running(1).running(1, notReady).running(1, pending).running(1, deleted).running(1, failed)
	if got := ReadyUnits(f.pods); got != 2 {
		t.Errorf("%v units are ready, want 2", got)
	}
	f = (&fleet{}).group("a", 1, 1).group("b", 1, 1, 1, 1)
	f.pods[5].Ready, f.pods[0].Deleted = corev1.ConditionFalse, true
	if got := ReadyUnits(f.pods); got != 1.75 {
		t.Errorf("%v units are ready, want the whole of a, which has one pod left, and 3/4 of b", got)
	}
}

func TestFromPod(t *testing.T) {
	cpu := func(s string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(s)}}
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "engine-0", DeletionTimestamp: &metav1.Time{Time: now}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "engine", Resources: cpu("2")}},
			InitContainers: []corev1.Container{
				{Name: "load", Resources: cpu("9")},
				{Name: "proxy", Resources: cpu("500m"), RestartPolicy: new(corev1.ContainerRestartPolicyAlways)},
			},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, StartTime: &metav1.Time{Time: now.Add(-time.Hour)},
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
				{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Time{Time: now.Add(-time.Minute)}},
			},
		},
	}
	got := FromPod(pod, "7")
	want := Pod{
		Name: "engine-0", Unit: "7", Deleted: true, Phase: corev1.PodRunning, Started: now.Add(-time.Hour),
		Ready: corev1.ConditionFalse, ReadySince: now.Add(-time.Minute),
		Containers: []Container{{"engine", cpu("2").Requests}, {"proxy", cpu("500m").Requests}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pod (-want +got):\n%s", diff)
	}
	check := func(resource corev1.ResourceName, amount float64, lacks string) {
		t.Helper()
		got, container, ok := got.request(resource)
		if got != amount || container != lacks || ok != (lacks == "") {
			t.Errorf("the request for %s is %v, %v, lacking in %q; want %v, lacking in %q", resource, got, ok, container, amount, lacks)
		}
	}
	check(corev1.ResourceCPU, 2.5, "")
	check(corev1.ResourceMemory, 0, "engine")

	// Requests of the pod as a whole go before those of its containers, and the overhead comes on top.
	pod.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("4Gi")}}
	pod.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	got = FromPod(pod, "")
	check(corev1.ResourceCPU, 2.75, "")
	check(corev1.ResourceMemory, 5<<30, "")
	if q := pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU]; q.String() != "2" {
		t.Errorf("the request of the container has become %s", q.String())
	}
}
