package rsgtest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
)

// fleetConcurrency is how many members of a fleet are worked on at a time.
const fleetConcurrency = 16

// Fleet is many ResourceScalingGroups of two groups each in one world.
type Fleet struct {
	*World
	// Size is how many there are.
	Size int
	// Roles are the targets of each. There is a Deployment of one replica and a Service for each role and group.
	Roles []string
	// Patience is how long the fleet may take to settle.
	Patience time.Duration
}

// Member is the name of a ResourceScalingGroup of the fleet.
func (f Fleet) Member(i int) string { return "m" + strconv.Itoa(i) }

// Each runs the function for each member, several at a time.
func (f Fleet) Each(do func(name string) error) {
	f.T.Helper()
	var g errgroup.Group
	g.SetLimit(fleetConcurrency)
	for i := range f.Size {
		g.Go(func() error { return do(f.Member(i)) })
	}
	f.must(g.Wait())
}

// CreateAll creates the fleet and waits until it is settled.
func (f Fleet) CreateAll() {
	f.T.Helper()
	f.Each(func(name string) error {
		rsg := testkit.MakeRSG(f.Namespace, name).GroupName(name).Replicas(2)
		for _, role := range f.Roles {
			workload := name + "-" + role
			rsg.Target(role, f.Base, workload)
			for _, obj := range []client.Object{testkit.MakeService(f.Base, workload, workload), testkit.MakeDeployment(f.Base, workload).Obj()} {
				if err := f.Client.Create(f.T.Context(), obj); err != nil {
					return err
				}
			}
		}
		return f.Client.Create(f.T.Context(), rsg.Obj())
	})
	testkit.Eventually(f.T, f.Patience, "the fleet to settle", f.settled)
	objects := 2 * len(f.Roles) * f.Size
	for list, want := range map[client.ObjectList]int{
		&appsv1.DeploymentList{}: objects, &corev1.ServiceList{}: objects, &appsv1.ControllerRevisionList{}: f.Size,
	} {
		f.must(f.Client.List(f.T.Context(), list, client.InNamespace(f.Namespace)))
		if got := meta.LenList(list); got != want {
			f.T.Fatalf("there are %d objects in %T, want %d", got, list, want)
		}
	}
}

func (f Fleet) settled(ctx context.Context) error {
	var list v1alpha1.ResourceScalingGroupList
	if err := f.Client.List(ctx, &list, client.InNamespace(f.Namespace)); err != nil {
		return err
	}
	settled := 0
	var last error
	for i := range list.Items {
		if err := Settled(&list.Items[i], 2); err != nil {
			last = err
			continue
		}
		settled++
	}
	if settled != f.Size {
		return fmt.Errorf("%d of %d are settled; of another: %w", settled, f.Size, last)
	}
	return nil
}

// Rest waits until three seconds have passed without a request that counts: what else is on its way in the cluster
// (events of the scheduler, say) has arrived then.
func (f Fleet) Rest(counts func(Request) bool) {
	f.T.Helper()
	last, err := f.Requests(f.T.Context())
	f.must(err)
	since := time.Now()
	testkit.Eventually(f.T, f.Patience, "the cluster to come to rest", func(ctx context.Context) error {
		now, err := f.Requests(ctx)
		if err != nil {
			return err
		}
		if requests := RequestsBetween(last, now, counts); len(requests) > 0 {
			last, since = now, time.Now()
			return fmt.Errorf("there are still %v", requests)
		}
		if time.Since(since) < 3*time.Second {
			return errors.New("it has not been quiet for long enough")
		}
		return nil
	})
}
