package resourcescalinggroup

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/test/resourcescalinggroup/rsgtest"
)

// renewSnapshot changes the image of both base workloads, deletes the records and waits for the new snapshot.
func renewSnapshot(w *rsgtest.World, image string) {
	w.T.Helper()
	old := w.Live().Status.Revision
	for _, name := range []string{"llm-prefill", "llm-decode"} {
		rsgtest.Update(w, &appsv1.Deployment{}, w.Base, name, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = image })
	}
	waitDrift(w, map[string]bool{"prefill": true, "decode": true})
	w.Delete(&corev1.ConfigMap{}, w.Namespace, w.Name+"-replica-config")
	w.Delete(&appsv1.ControllerRevision{}, w.Namespace, old)
	w.Until("another snapshot", func(rsg *v1alpha1.ResourceScalingGroup) error {
		if r := rsg.Status.Revision; r == "" || r == old {
			return fmt.Errorf("status.revision is %q", r)
		}
		return nil
	})
}

// checkImages checks that both workloads of a clone run the image.
func checkImages(w *rsgtest.World, id int, want string) {
	w.T.Helper()
	for _, name := range []string{"llm-prefill", "llm-decode"} {
		d := &appsv1.Deployment{}
		w.Read(d, w.Namespace, fmt.Sprintf("prefill-decode-%s-%d", name, id))
		if got := d.Spec.Template.Spec.Containers[0].Image; got != want {
			w.T.Errorf("%s runs %s, want %s", d.Name, got, want)
		}
	}
}

// A group stays half made, since somebody else has the name of its other half, and the snapshot is renewed meanwhile.
// It is not completed from the new one: it makes room for a group that is wholly of it.
func TestHalfMadeGroupOfAGoneSnapshot(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm")
	w.CreateBase(1, 1)
	w.Create(testkit.MakeDeployment(w.Namespace, "prefill-decode-llm-decode-1").Obj())
	w.Create(w.RSG().Replicas(2).Obj())
	refused(w, v1alpha1.ReasonNameConflict, "prefill-decode-llm-decode-1")
	w.Until("the other half of group 1", func(rsg *v1alpha1.ResourceScalingGroup) error {
		if !slices.Contains(rsgtest.GroupIDs(rsg), 1) {
			return errors.New("it is not there")
		}
		return nil
	})

	renewSnapshot(w, "example.org/engine:2")
	w.Settled(2)
	w.Delete(&appsv1.Deployment{}, w.Namespace, "prefill-decode-llm-decode-1")
	w.Settled(2)
	w.HasGroups(groups{0: {1, 1}, 2: {1, 1}})
	checkImages(w, 2, "example.org/engine:2")
	w.Event("Warning", v1alpha1.EventGroupDiscarded, "group 1 lacks Deployment prefill-decode-llm-decode-1")
}

// Groups of an earlier snapshot are whole with the Services that they were made with. One of which something is deleted
// is replaced by a group of the present snapshot.
func TestDamagedGroupOfAGoneSnapshot(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm")
	w.CreateBase(1, 1)
	w.Create(w.RSG().Replicas(3).Obj())
	w.Settled(3)
	before := w.UIDs()
	w.Create(testkit.MakeService(w.Base, "llm-metrics", "llm-prefill"))
	renewSnapshot(w, "example.org/engine:2")
	rsg := w.Settled(3)
	now := w.UIDs()
	for _, id := range []int{1, 2} {
		name := fmt.Sprintf("Deployment prefill-decode-llm-prefill-%d", id)
		if before[name] == "" || now[name] != before[name] {
			t.Errorf("%s has UID %q, and had %q before the snapshot was renewed", name, now[name], before[name])
		}
	}

	w.Delete(&corev1.Service{}, w.Namespace, "llm-decode-prefill-decode-1")
	w.Event("Warning", v1alpha1.EventGroupDiscarded, "group 1 lacks Service llm-decode-prefill-decode-1", rsg.Status.Revision)
	w.Settled(3)
	w.WaitGone(&appsv1.Deployment{}, w.Namespace, "prefill-decode-llm-prefill-1")
	w.WaitGone(&corev1.Service{}, w.Namespace, "llm-prefill-prefill-decode-1")
	checkImages(w, 2, "example.org/engine:1")
	checkImages(w, 3, "example.org/engine:2")
	want := []string{"base/llm-decode", "base/llm-metrics", "base/llm-prefill"}
	for id, services := range map[int][]string{2: {"llm-decode", "llm-prefill"}, 3: {"llm-decode", "llm-metrics", "llm-prefill"}} {
		for _, s := range services {
			want = append(want, fmt.Sprintf("%s-prefill-decode-%d", s, id))
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, w.Services()); diff != "" {
		t.Errorf("Services (-want +got):\n%s", diff)
	}
	if got := slices.Sorted(maps.Keys(w.Workloads())); len(got) != 6 {
		t.Errorf("there are workloads %v, want those of groups 0, 2 and 3", got)
	}
}
