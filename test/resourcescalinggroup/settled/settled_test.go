package settled

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
	w := rsgtest.Fleet{World: env.World(t, "llm").OneNamespace(), Size: fleet, Roles: []string{"prefill", "decode"}, Patience: fleetPatience}
	w.CreateAll()
	before := w.UIDs()

	// What is counted is the manager's: Kubernetes' own controllers, such as the garbage collector, read the same objects.
	for _, part := range []interface{ Stop() error }{env.Manager, env.Lab.Part(lab.ControllerManager)} {
		if err := part.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	w.Rest(isWrite)
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
	touch(w)
	w.Rest(isWrite)
	start = requests(t)
	touch(w)
	waitFor(t, quiet)
	end = requests(t)
	writes := rsgtest.RequestsBetween(start, end, isWrite)
	if want := map[rsgtest.Request]int{{Verb: "PATCH", Resource: "resourcescalinggroups"}: fleet}; !maps.Equal(want, writes) {
		t.Errorf("writes around %d touches: %v, want %v", fleet, writes, want)
	}

	// Nothing that was made is anybody's to collect: a garbage collector that starts anew finds all of it in order.
	if err := env.Lab.Part(lab.ControllerManager).Start(t.Context()); err != nil {
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

// touch changes something of each member that nothing is decided by.
func touch(f rsgtest.Fleet) {
	f.T.Helper()
	f.Each(func(name string) error {
		rsg := &v1alpha1.ResourceScalingGroup{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name}}
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"example.org/touched":"%d"}}}`, time.Now().UnixNano())
		return f.Client.Patch(f.T.Context(), rsg, client.RawPatch(types.MergePatchType, []byte(patch)))
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
