package settled

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab"
	"github.com/pd-orchestrator/pd-orchestrator/test/resourcescalinggroup/rsgtest"
)

const (
	fleet = 100
	// quiet is how long nothing may be written after the manager has looked at everything.
	quiet = 10 * time.Second
	// fleetPatience is how long the fleet may take to settle: 400 pods on a busy machine.
	fleetPatience = 4 * time.Minute
)

// watched are the resources of which not one may be written while nothing changes.
var watched = []string{
	"resourcescalinggroups", "elasticscalers", "tidals", "autoscalerpolicies",
	"deployments", "replicasets", "statefulsets", "services", "configmaps", "controllerrevisions", "pods", "events",
}

// 100 ResourceScalingGroups of 2 groups with 2 Deployments and 2 Services each are at rest. A manager that starts anew
// looks at all of them and writes nothing, as the API server itself counts requests.
func TestNoWriteAtRest(t *testing.T) {
	w := env.World(t, "llm").OneNamespace()
	createFleet(w)
	waitFleet(w)
	before := w.UIDs()

	if err := env.Manager.Stop(); err != nil {
		t.Fatal(err)
	}
	waitNoWrites(t)
	start := requests(t)
	if err := env.Manager.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitReconciled(t, fleet)
	afterList := requests(t)
	// The manager is idle by now; the window shows that it stays so.
	waitFor(t, quiet)
	end := requests(t)

	if writes := rsgtest.RequestsBetween(start, end, isWrite); len(writes) > 0 {
		t.Errorf("writes since the manager was started again: %v", writes)
	}
	t.Logf("requests from the start of the manager until it had looked at everything: %v", rsgtest.RequestsBetween(start, afterList, everything))
	t.Logf("requests in the %s after that: %v", quiet, rsgtest.RequestsBetween(afterList, end, everything))
	if reads := rsgtest.RequestsBetween(afterList, end, func(r rsgtest.Request) bool { return r.Verb == "GET" && isWatched(r) }); len(reads) > 0 {
		t.Errorf("live reads at rest: %v", reads)
	}

	// A touch of every object that changes nothing it asks for leads to no write either, but its own.
	touchFleet(w)
	waitNoWrites(t)
	start = requests(t)
	touchFleet(w)
	waitFor(t, quiet)
	end = requests(t)
	writes := rsgtest.RequestsBetween(start, end, isWrite)
	if want := map[rsgtest.Request]int{{Verb: "PATCH", Resource: "resourcescalinggroups"}: fleet}; !maps.Equal(want, writes) {
		t.Errorf("writes around %d touches: %v, want %v", fleet, writes, want)
	}

	// Nothing that was made is anybody's to collect: a garbage collector that starts anew finds all of it in order.
	if err := env.Lab.Part(lab.ControllerManager).Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitFor(t, quiet)
	if diff := cmp.Diff(before, w.UIDs()); diff != "" {
		t.Errorf("what there is (-before +after):\n%s", diff)
	}
	if err := env.Manager.Healthy(); err != nil {
		t.Error(err)
	}
}

func baseName(i int) string { return fmt.Sprintf("m%d", i) }

func createFleet(w *rsgtest.World) {
	w.T.Helper()
	err := inParallel(fleet, func(i int) error {
		name := baseName(i)
		rsg := testkit.MakeRSG(w.Namespace, name).GroupName(name).Replicas(2)
		for _, role := range []string{"prefill", "decode"} {
			workload := name + "-" + role
			rsg.Target(role, w.Base, workload)
			for _, obj := range []client.Object{
				testkit.MakeService(w.Base, workload, workload),
				testkit.MakeDeployment(w.Base, workload).Obj(),
			} {
				if err := w.Client.Create(w.T.Context(), obj); err != nil {
					return err
				}
			}
		}
		return w.Client.Create(w.T.Context(), rsg.Obj())
	})
	if err != nil {
		w.T.Fatal(err)
	}
}

func touchFleet(w *rsgtest.World) {
	w.T.Helper()
	err := inParallel(fleet, func(i int) error {
		rsg := &v1alpha1.ResourceScalingGroup{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: baseName(i)}}
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"example.org/touched":"%d"}}}`, time.Now().UnixNano())
		return w.Client.Patch(w.T.Context(), rsg, client.RawPatch(types.MergePatchType, []byte(patch)))
	})
	if err != nil {
		w.T.Fatal(err)
	}
}

func inParallel(n int, do func(int) error) error {
	errs := make([]error, n)
	var group sync.WaitGroup
	slots := make(chan struct{}, 16)
	for i := range n {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			errs[i] = do(i)
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func waitFleet(w *rsgtest.World) {
	w.T.Helper()
	testkit.Eventually(w.T, fleetPatience, "the fleet to settle", func(ctx context.Context) error {
		var list v1alpha1.ResourceScalingGroupList
		if err := w.Client.List(ctx, &list, client.InNamespace(w.Namespace)); err != nil {
			return err
		}
		settled := 0
		var last error
		for i := range list.Items {
			if err := rsgtest.Settled(&list.Items[i], 2); err != nil {
				last = err
				continue
			}
			settled++
		}
		if settled != fleet {
			return fmt.Errorf("%d of %d are settled; of another: %w", settled, fleet, last)
		}
		return nil
	})
	for list, want := range map[client.ObjectList]int{
		&appsv1.DeploymentList{}: 4 * fleet, &corev1.ServiceList{}: 4 * fleet, &appsv1.ControllerRevisionList{}: fleet,
	} {
		if err := w.Client.List(w.T.Context(), list, client.InNamespace(w.Namespace)); err != nil {
			w.T.Fatal(err)
		}
		if got := lenOf(list); got != want {
			w.T.Fatalf("there are %d objects in %T, want %d", got, list, want)
		}
	}
}

func lenOf(list client.ObjectList) int {
	switch l := list.(type) {
	case *appsv1.DeploymentList:
		return len(l.Items)
	case *corev1.ServiceList:
		return len(l.Items)
	case *appsv1.ControllerRevisionList:
		return len(l.Items)
	}
	return -1
}

// waitNoWrites waits until a second has passed without a write: what else is on its way in the cluster (events of the
// scheduler, say) has arrived then.
func waitNoWrites(t *testing.T) {
	t.Helper()
	last, since := requests(t), time.Now()
	testkit.Eventually(t, fleetPatience, "the cluster to come to rest", func(context.Context) error {
		now := requests(t)
		if writes := rsgtest.RequestsBetween(last, now, isWrite); len(writes) > 0 {
			last, since = now, time.Now()
			return fmt.Errorf("there are still writes: %v", writes)
		}
		if time.Since(since) < 3*time.Second {
			return errors.New("it has not been quiet for long enough")
		}
		return nil
	})
}

// waitReconciled waits until the manager has looked at n objects since it started, and has nothing left to look at.
func waitReconciled(t *testing.T, n float64) {
	t.Helper()
	testkit.Eventually(t, fleetPatience, "the manager to have looked at everything", func(ctx context.Context) error {
		done, err := env.Manager.Total(ctx, "controller_runtime_reconcile_total")
		if err != nil {
			return err
		}
		waiting, err := env.Manager.Total(ctx, "workqueue_depth", "controller_runtime_active_workers")
		if err != nil {
			return err
		}
		if done < n || waiting > 0 {
			return fmt.Errorf("it has made %v passes, and %v wait or run", done, waiting)
		}
		return nil
	})
}

// waitFor lets time pass in which something must not happen.
func waitFor(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

func everything(rsgtest.Request) bool { return true }

func isWatched(r rsgtest.Request) bool { return slices.Contains(watched, r.Resource) }

func isWrite(r rsgtest.Request) bool { return isWatched(r) && r.IsWrite() }

func requests(t *testing.T) map[rsgtest.Request]int {
	t.Helper()
	all, err := env.Requests(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}
