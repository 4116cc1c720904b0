package hpa

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab"
	"github.com/pd-orchestrator/pd-orchestrator/test/resourcescalinggroup/rsgtest"
)

const (
	// turnoverPeriod is how often the pods that stand for two of the groups are deleted; it happens turnovers times.
	turnoverPeriod = 15 * time.Second
	turnovers      = 8
	// takeoverTarget is how soon another pod of a group is to be marked; takeoverBound fails the test, and leaves room
	// for a machine that does other things.
	takeoverTarget = time.Second
	takeoverBound  = 10 * time.Second
)

// Pods come and go while the number of groups is at its maximum and the HPA controller would fall below it if it saw
// fewer pods than groups: eight pods at 1.12 times the target are worth nine groups, ten are worth twelve. The selector
// matches a pod of every group again before the window of 30 s, in which the greatest answer counts, is over.
func TestCountStandsWhileMarkedPodsGo(t *testing.T) {
	t.Parallel()
	const size = 10
	w := env.World(t, "llm").OneNamespace()
	w.Create(
		testkit.MakeService(w.Base, "llm-prefill", "llm-prefill"),
		testkit.MakeService(w.Base, "llm-decode", "llm-decode"),
		testkit.MakeDeployment(w.Base, "llm-decode").Obj(),
	)
	prefill := testkit.MakeDeployment(w.Base, "llm-prefill").Replicas(2).Obj()
	prefill.Spec.Template.Annotations = map[string]string{lab.MemoryAnnotation: "1120Mi"}
	w.Create(prefill)
	w.Create(w.RSG().Replicas(size).Obj())
	w.Settled(size)
	waitUsage(w, prefill.Spec.Template.Annotations, 2*size)

	coverage := watchCoverage(w)
	coverage.waitComplete(size)
	seen := recordCounts(w)
	hpa := makeHPA(w, "llm", groups(w), 1, size, averageMemory("1000Mi"))
	window := int32(30)
	hpa.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: &window}}
	w.Create(hpa)
	atMaximum := func() {
		t.Helper()
		waitHPA(w, "llm", "the HPA controller to want more groups than it may have", func(hpa *autoscalingv2.HorizontalPodAutoscaler) error {
			return hasCondition(hpa, autoscalingv2.ScalingLimited, corev1.ConditionTrue, "TooManyReplicas")
		})
	}
	atMaximum()

	ticker := time.NewTicker(turnoverPeriod)
	defer ticker.Stop()
	for round := range turnovers {
		var victims []corev1.Pod
		for _, id := range []int{2 * round % size, (2*round + 1) % size} {
			victims = append(victims, coverage.pod(strconv.Itoa(id)))
		}
		for _, pod := range victims {
			// Deleted at once, by its UID: a pod that took over meanwhile is another one.
			err := w.Client.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: pod.Name}},
				client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, pod := range victims {
			coverage.waitWithout(pod)
		}
		coverage.waitComplete(size)
		if err := seen.are(size); err != nil {
			t.Fatalf("after round %d: %v", round, err)
		}
		<-ticker.C
	}
	// What the last rounds did would show once the window is over.
	testkit.Consistently(t, time.Duration(window)*time.Second+syncPeriod, "no group goes", func(context.Context) error { return seen.are(size) })
	atMaximum()

	gaps := coverage.gaps()
	slow := slices.DeleteFunc(slices.Clone(gaps), func(gap time.Duration) bool { return gap <= takeoverTarget })
	slices.Sort(gaps)
	t.Logf("%d times the pod that stood for a group went; the group was without one for %v; %d times for more than %s", len(gaps), gaps, len(slow), takeoverTarget)
	if len(gaps) == 0 || gaps[len(gaps)-1] > takeoverBound {
		t.Errorf("groups were without a pod that stands for them for %v, want at most %s", gaps, takeoverBound)
	}
}

// coverage follows, by the API server's own stream of changes, which ready pods the selector matches.
type coverage struct {
	w *rsgtest.World

	mu sync.Mutex
	// matched are the ready pods that the selector matches, by group id.
	matched map[string]map[types.UID]corev1.Pod
	// bare says since when a group has none; periods are those that are over.
	bare    map[string]time.Time
	periods []time.Duration
}

func watchCoverage(w *rsgtest.World) *coverage {
	w.T.Helper()
	stream, err := w.Client.Watch(w.T.Context(), &corev1.PodList{}, client.InNamespace(w.Namespace), client.MatchingLabels{v1alpha1.LabelScaleUnit: w.Name})
	if err != nil {
		w.T.Fatal(err)
	}
	c := &coverage{w: w, matched: map[string]map[types.UID]corev1.Pod{}, bare: map[string]time.Time{}}
	follow(w, stream, func(e watch.Event) {
		if pod, ok := e.Object.(*corev1.Pod); ok {
			c.take(*pod, e.Type == watch.Deleted, time.Now())
		}
	})
	return c
}

// take takes in one change. A pod that is no longer matched is told as deleted.
func (c *coverage) take(pod corev1.Pod, deleted bool, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := pod.Labels[v1alpha1.LabelGroupID]
	had := len(c.matched[id])
	if c.matched[id] == nil {
		c.matched[id] = map[types.UID]corev1.Pod{}
	}
	if deleted || pod.DeletionTimestamp != nil || !isReady(&pod) {
		delete(c.matched[id], pod.UID)
	} else {
		c.matched[id][pod.UID] = pod
	}
	switch has := len(c.matched[id]); {
	case had > 0 && has == 0:
		c.bare[id] = now
	case had == 0 && has > 0 && !c.bare[id].IsZero():
		c.periods = append(c.periods, now.Sub(c.bare[id]).Round(time.Millisecond))
		c.w.T.Logf("group %s: another pod is matched %s after the last one went", id, now.Sub(c.bare[id]).Round(time.Millisecond))
		delete(c.bare, id)
	}
}

// pod returns a pod that is matched for the group.
func (c *coverage) pod(id string) corev1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, pod := range c.matched[id] {
		return pod
	}
	c.w.T.Fatalf("no pod of group %s is matched", id)
	return corev1.Pod{}
}

// waitWithout waits until the pod is not matched.
func (c *coverage) waitWithout(pod corev1.Pod) {
	c.w.T.Helper()
	testkit.Eventually(c.w.T, rsgtest.Patience, "a deleted pod to be gone", func(context.Context) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if _, ok := c.matched[pod.Labels[v1alpha1.LabelGroupID]][pod.UID]; ok {
			return fmt.Errorf("pod %s is matched", pod.Name)
		}
		return nil
	})
}

// waitComplete waits until exactly one ready pod of each of the groups is matched.
func (c *coverage) waitComplete(groups int) {
	c.w.T.Helper()
	testkit.Eventually(c.w.T, rsgtest.Patience, "one ready pod of every group to be matched", func(context.Context) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		for id := range groups {
			if n := len(c.matched[strconv.Itoa(id)]); n != 1 {
				return fmt.Errorf("%d of group %d are", n, id)
			}
		}
		return nil
	})
}

// gaps returns for how long groups were without a matched pod, every time that one was.
func (c *coverage) gaps() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.periods)
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
