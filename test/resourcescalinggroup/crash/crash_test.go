package crash

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	simulator "github.com/pd-orchestrator/pd-orchestrator/lab/simulator/api"
	"github.com/pd-orchestrator/pd-orchestrator/test/resourcescalinggroup/rsgtest"
)

// mostWrites bounds the loops; an operation that takes more writes than this has run away.
const mostWrites = 80

// The manager dies after the k-th write of a scale-down by metric, and of the scale-up that follows, for every k. A
// fresh start ends at the same groups: the victims on record where there is a record, else the same by the same values;
// the survivor is never touched.
func TestKilledWhileScaling(t *testing.T) {
	w := env.World(t, "llm")
	w.CreateBase(1, 2)
	w.Create(w.RSG().Replicas(3).Metric(rsgtest.Metric).Obj())
	w.Settled(3)
	survivor := survivorUIDs(w)
	all := map[int32][2]int32{0: {1, 2}, 1: {1, 2}, 2: {1, 2}}

	downDone, upDone := false, false
	for k := 1; !downDone || !upDone; k++ {
		if k > mostWrites {
			t.Fatalf("more than %d writes", mostWrites)
		}
		w.Pin(map[int32]float64{0: 1, 1: 9, 2: 2})
		ok := t.Run(fmt.Sprintf("down, after write %d", k), func(t *testing.T) {
			w := w.For(t)
			before := w.Live().Status.LastScaleDown
			cut := scaleAndKill(w, k, 1)
			downDone = downDone || !cut
			if record := w.Live().Status.LastScaleDown; cut && record != nil && !cmp.Equal(record, before) {
				// Now that the victims are on record, other values must not matter any more.
				w.PinGroup(1, simulator.Pin{Metrics: map[string]simulator.Value{rsgtest.Metric: 0}})
				waitValue(w, 1, 0)
			}
			restart(w)
			rsg := w.Settled(1)
			w.HasGroups(map[int32][2]int32{0: {0, 0}, 1: {1, 2}})
			victims := slices.Sorted(slices.Values(rsg.Status.LastScaleDown.Victims))
			if diff := cmp.Diff([]int32{0, 2}, victims); diff != "" {
				t.Errorf("victims (-want +got):\n%s", diff)
			}
		}) && t.Run(fmt.Sprintf("up, after write %d", k), func(t *testing.T) {
			w := w.For(t)
			cut := scaleAndKill(w, k, 3)
			upDone = upDone || !cut
			restart(w)
			w.Settled(3)
			w.HasGroups(all)
			checkNoBaselineAnnotation(w)
			checkRecords(w)
		})
		if !ok {
			break
		}
		if diff := cmp.Diff(survivor, survivorUIDs(w)); diff != "" {
			t.Fatalf("group 1, which is never a victim (-before +after):\n%s", diff)
		}
	}
	checkHealthy(t)
}

// The manager dies after the k-th write from the creation of a ResourceScalingGroup on, for every k.
func TestKilledWhileAdopting(t *testing.T) {
	cut := true
	for k := 1; cut; k++ {
		if k > mostWrites {
			t.Fatalf("more than %d writes", mostWrites)
		}
		ok := t.Run(fmt.Sprintf("after write %d", k), func(t *testing.T) {
			w := env.World(t, "llm")
			w.CreateBase(1, 2)
			api.after(k)
			w.Create(w.RSG().Replicas(2).Obj())
			cut = killedOrSettled(w, 2)
			restart(w)
			w.Settled(2)
			w.HasGroups(map[int32][2]int32{0: {1, 2}, 1: {1, 2}})
			checkRecords(w)
		})
		if !ok {
			break
		}
	}
	checkHealthy(t)
}

// scaleAndKill scales and waits until the manager is dead, or done before its k-th write.
func scaleAndKill(w *rsgtest.World, k int, groups int32) (cut bool) {
	w.T.Helper()
	api.after(k)
	w.ScaleTo(groups)
	return killedOrSettled(w, groups)
}

func killedOrSettled(w *rsgtest.World, groups int32) (cut bool) {
	w.T.Helper()
	dead := api.done()
	testkit.Eventually(w.T, rsgtest.Patience, "the manager to die or to be done", func(ctx context.Context) error {
		select {
		case <-dead:
			cut = true
			return nil
		default:
		}
		return w.IsSettled(ctx, groups)
	})
	if cut {
		w.T.Logf("died after %s", api.lastWrite())
	}
	return cut
}

// restart starts the manager again where it was killed.
func restart(w *rsgtest.World) {
	w.T.Helper()
	if !api.reset() {
		return
	}
	if err := env.Manager.Start(w.T.Context()); err != nil {
		w.T.Fatal(err)
	}
}

func waitValue(w *rsgtest.World, id int32, value float64) {
	w.T.Helper()
	testkit.Eventually(w.T, rsgtest.Patience, "Prometheus to have the new value", func(ctx context.Context) error {
		got, err := w.Prometheus.ValuesByGroup(ctx, w)
		if err == nil && got[id] != value {
			err = fmt.Errorf("values by group are %v", got)
		}
		return err
	})
}

// survivorUIDs returns the UIDs of everything in group 1.
func survivorUIDs(w *rsgtest.World) map[string]types.UID {
	w.T.Helper()
	all := w.UIDs()
	maps.DeleteFunc(all, func(key string, _ types.UID) bool {
		return !strings.Contains(key, "-prefill-1") && !strings.Contains(key, "-decode-1")
	})
	if len(all) != 2+2+2+3 {
		w.T.Fatalf("group 1 consists of %d objects: %v", len(all), all)
	}
	return all
}

func checkNoBaselineAnnotation(w *rsgtest.World) {
	w.T.Helper()
	testkit.Eventually(w.T, rsgtest.Patience, "the annotations of group 0 to be gone", func(ctx context.Context) error {
		for _, name := range []string{"llm-prefill", "llm-decode"} {
			d := &appsv1.Deployment{}
			if err := w.Exists(ctx, d, w.Base, name); err != nil {
				return err
			}
			if value, ok := d.Annotations[v1alpha1.AnnotationBaselineReplicas]; ok {
				return fmt.Errorf("%s still says %q", name, value)
			}
		}
		return nil
	})
}

// checkRecords checks that there is one snapshot, which the status names, and one ConfigMap with the right counts.
func checkRecords(w *rsgtest.World) {
	w.T.Helper()
	rsg := w.Live()
	var revisions appsv1.ControllerRevisionList
	if err := w.Client.List(w.T.Context(), &revisions, client.InNamespace(w.Namespace)); err != nil {
		w.T.Fatal(err)
	}
	if len(revisions.Items) != 1 || revisions.Items[0].Name != rsg.Status.Revision || !metav1.IsControlledBy(&revisions.Items[0], rsg) {
		w.T.Errorf("there are %d snapshots, the status names %q", len(revisions.Items), rsg.Status.Revision)
	}
	cm := &corev1.ConfigMap{}
	w.Read(cm, w.Namespace, w.Name+"-replica-config")
	if diff := cmp.Diff(map[string]string{"prefill": "1", "decode": "2"}, cm.Data); diff != "" {
		w.T.Errorf("data of the replica ConfigMap (-want +got):\n%s", diff)
	}
}

func checkHealthy(t *testing.T) {
	t.Helper()
	if err := env.Manager.Healthy(); err != nil {
		t.Error(err)
	}
}
