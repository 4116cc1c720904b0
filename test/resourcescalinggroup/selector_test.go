package resourcescalinggroup

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/test/resourcescalinggroup/rsgtest"
)

// The selector of the scale subresource matches one pod per counted group, so that whoever multiplies by matched pods
// counts groups.
func TestSelectorMatchesOnePodPerGroup(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm").OneNamespace()
	w.CreateBase(3, 2)
	w.Create(w.RSG().Replicas(3).Obj())
	rsg := w.Settled(3)
	w.Condition(v1alpha1.ConditionScalable, metav1.ConditionTrue, v1alpha1.ReasonSelectorPublished)
	if want := v1alpha1.LabelScaleUnit + "=llm"; rsg.Status.Selector != want {
		t.Fatalf("status.selector is %q, want %q", rsg.Status.Selector, want)
	}
	waitMarked(w, 0, 1, 2)

	// The marked pods of two groups are deleted together. Another ready one of each takes over within a second, as a
	// watch of everything that the selector matches sees it.
	seen := startTakeoverWatch(w)
	victims := marked(t.Context(), w)
	for _, id := range []string{"0", "2"} {
		pod := victims[id][0]
		if err := w.Client.Delete(t.Context(), &pod, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"0", "2"} {
		old := victims[id][0].Name
		took := seen.takeover(id, old)
		t.Logf("group %s: another pod was marked %s after %s was deleted", id, took, old)
		if took > time.Second {
			t.Errorf("group %s was without a marked pod for %s", id, took)
		}
	}
	waitMarked(w, 0, 1, 2)

	// A group that is removed takes its mark along; group 0 at zero has no pod left.
	w.ScaleTo(1)
	w.Settled(1)
	waitMarked(w, 0)
	w.ScaleTo(0)
	w.Settled(0)
	waitMarked(w)
	if got := w.Live().Status.Selector; got != v1alpha1.LabelScaleUnit+"=llm" {
		t.Errorf("status.selector is %q at 0 groups", got)
	}
	w.ScaleTo(2)
	w.Settled(2)
	waitMarked(w, 0, 1)
}

// An autoscaler can be there before the first pod: the scale subresource has its selector from the first status on, also
// while a target is missing.
func TestSelectorIsThereFromTheFirstStatus(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm").OneNamespace()
	stream, err := w.Client.Watch(t.Context(), &v1alpha1.ResourceScalingGroupList{}, client.InNamespace(w.Namespace))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Stop()
	w.Create(w.RSG().Obj())
	for e := range stream.ResultChan() {
		rsg, ok := e.Object.(*v1alpha1.ResourceScalingGroup)
		if !ok {
			t.Fatalf("the watch ended: %v", e.Object)
		}
		if rsg.Status.ObservedGeneration == 0 {
			continue // As it was created.
		}
		if want := v1alpha1.LabelScaleUnit + "=llm"; rsg.Status.Selector != want || rsg.Status.CurrentReplicas == nil {
			t.Errorf("the first status has selector %q, want %q, and currentReplicas %v", rsg.Status.Selector, want, rsg.Status.CurrentReplicas)
		}
		return
	}
}

// A rollout of the user's own workload replaces the marked pod; there is one again as soon as it settles.
func TestSelectorFollowsRollout(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm").OneNamespace()
	w.CreateBase(2, 1)
	w.Create(w.RSG().Replicas(2).Obj())
	w.Settled(2)
	waitMarked(w, 0, 1)
	before := marked(t.Context(), w)["0"][0].UID
	rsgtest.Update(w, &appsv1.Deployment{}, w.Namespace, "llm-prefill", func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Image = "example.org/engine:2"
	})
	testkit.Eventually(t, rsgtest.Patience, "a pod of the new template to be marked", func(ctx context.Context) error {
		pods := marked(ctx, w)["0"]
		if len(pods) != 1 || pods[0].UID == before || pods[0].Spec.Containers[0].Image != "example.org/engine:2" {
			return fmt.Errorf("%d are marked: %v", len(pods), names(pods))
		}
		return nil
	})
	w.Settled(2)
	waitMarked(w, 0, 1)
}

// marked returns the pods that the selector matches, by group id.
func marked(ctx context.Context, w *rsgtest.World) map[string][]corev1.Pod {
	pods, err := w.Pods(ctx, map[string]string{v1alpha1.LabelScaleUnit: w.Name})
	if err != nil {
		return nil
	}
	out := map[string][]corev1.Pod{}
	for _, pod := range pods {
		id := pod.Labels[v1alpha1.LabelGroupID]
		out[id] = append(out[id], pod)
	}
	return out
}

// waitMarked waits until exactly one ready pod of the first target of each of the groups is marked, and no other pod.
func waitMarked(w *rsgtest.World, ids ...int) {
	w.T.Helper()
	testkit.Eventually(w.T, rsgtest.Patience, fmt.Sprintf("one marked pod in each of the groups %v", ids), func(ctx context.Context) error {
		all := marked(ctx, w)
		if len(all) != len(ids) {
			return fmt.Errorf("%d groups have marked pods", len(all))
		}
		for _, id := range ids {
			pods := all[fmt.Sprint(id)]
			if len(pods) != 1 {
				return fmt.Errorf("group %d has the marked pods %v", id, names(pods))
			}
			if pods[0].Labels["app"] != "llm-prefill" || !ready(&pods[0]) {
				return fmt.Errorf("marked pod %s is of %s, ready: %t", pods[0].Name, pods[0].Labels["app"], ready(&pods[0]))
			}
		}
		return nil
	})
}

func names(pods []corev1.Pod) []string {
	var out []string
	for _, pod := range pods {
		out = append(out, pod.Name)
	}
	return out
}

func ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// takeoverWatch measures, from the API server's own stream of changes, how long no live pod of a group is marked.
type takeoverWatch struct {
	w      *rsgtest.World
	events chan podEvent
}

type podEvent struct {
	at   time.Time
	pod  *corev1.Pod
	gone bool
}

func startTakeoverWatch(w *rsgtest.World) *takeoverWatch {
	w.T.Helper()
	stream, err := w.Client.Watch(w.T.Context(), &corev1.PodList{}, client.InNamespace(w.Namespace), client.MatchingLabelsSelector{
		Selector: labels.SelectorFromSet(labels.Set{v1alpha1.LabelScaleUnit: w.Name}),
	})
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(stream.Stop)
	t := &takeoverWatch{w: w, events: make(chan podEvent, 1000)}
	go func() {
		for e := range stream.ResultChan() {
			if pod, ok := e.Object.(*corev1.Pod); ok {
				t.events <- podEvent{at: time.Now(), pod: pod, gone: e.Type == watch.Deleted || pod.DeletionTimestamp != nil}
			}
		}
		close(t.events)
	}()
	return t
}

// takeover waits until another ready pod of the group is marked than the old one, and returns how long the group was
// without one.
func (t *takeoverWatch) takeover(id, old string) time.Duration {
	t.w.T.Helper()
	timer := time.NewTimer(rsgtest.Patience)
	defer timer.Stop()
	var lost, found time.Time
	var others []podEvent
	defer func() {
		for _, e := range others {
			t.events <- e
		}
	}()
	for {
		select {
		case e, open := <-t.events:
			if !open {
				t.w.T.Fatal("the watch ended")
			}
			switch {
			case e.pod.Labels[v1alpha1.LabelGroupID] != id:
				others = append(others, e)
				continue
			case e.pod.Name == old && e.gone && lost.IsZero():
				lost = e.at
			case e.pod.Name != old && !e.gone && ready(e.pod) && found.IsZero():
				found = e.at
			}
			if !lost.IsZero() && !found.IsZero() {
				return max(0, found.Sub(lost))
			}
		case <-timer.C:
			t.w.T.Fatalf("no other pod of group %s was marked in %s", id, rsgtest.Patience)
		}
	}
}
