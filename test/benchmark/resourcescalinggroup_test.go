package benchmark

import (
	"context"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/clone"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
	"github.com/pd-orchestrator/pd-orchestrator/test/resourcescalinggroup/rsgtest"
)

const (
	groups = 100
	// concurrency of the plain client is that with which the controller creates groups.
	concurrency = 16
	patience    = 10 * time.Minute
)

// BenchmarkScaleUp compares 1 to 100 groups of 2 Deployments with one replica and 2 Services with a plain client that
// creates the same objects. It reports the seconds until all pods are ready, and their ratio, as medians of the rounds:
// on a machine that does other work as well, ask for several (-benchtime=3x).
func BenchmarkScaleUp(b *testing.B) {
	var plain, ours, ratio []float64
	for b.Loop() {
		p, o := plainClient(b).Seconds(), scaleUp(b).Seconds()
		plain, ours, ratio = append(plain, p), append(ours, o), append(ratio, o/p)
	}
	b.ReportMetric(median(plain), "plain-s")
	b.ReportMetric(median(ours), "rsg-s")
	b.ReportMetric(median(ratio), "ratio")
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// scaleUp times the controller.
func scaleUp(b *testing.B) time.Duration {
	b.Helper()
	w := env.World(b, "bench").OneNamespace()
	w.CreateBase(1, 1)
	w.Create(w.RSG().Replicas(1).Obj())
	w.Settled(1)
	start := time.Now()
	w.ScaleTo(groups)
	waitReady(b, w, 2*groups)
	took := time.Since(start)
	w.Settled(groups)
	return took
}

// plainClient times a program that does nothing but create the same objects, which are made beforehand.
func plainClient(b *testing.B) time.Duration {
	b.Helper()
	w := env.World(b, "plain").OneNamespace()
	w.CreateBase(1, 1)
	waitReady(b, w, 2)
	objects := copies(b, w)
	config := rest.CopyConfig(env.Lab.AdminConfig())
	config.QPS = -1 // No limit of its own.
	c, err := client.New(config, client.Options{Scheme: env.Client.Scheme()})
	if err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	var g errgroup.Group
	g.SetLimit(concurrency)
	for _, group := range objects {
		g.Go(func() error {
			for _, obj := range group {
				if err := c.Create(b.Context(), obj); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	waitReady(b, w, 2*groups)
	return time.Since(start)
}

// copies returns the objects that the controller would make of the world's base, group by group.
func copies(b *testing.B, w *rsgtest.World) [][]client.Object {
	b.Helper()
	kind, err := clone.KindOf("apps/v1", "Deployment")
	if err != nil {
		b.Fatal(err)
	}
	var bases []clone.Base
	for _, name := range []string{"llm-prefill", "llm-decode"} {
		base := kube.NewWorkload(kind.GroupVersionKind)
		w.Read(base, w.Base, name)
		bases = append(bases, clone.Base{Name: name, Kind: kind, Workload: base})
	}
	var services corev1.ServiceList
	if err := w.Client.List(b.Context(), &services, client.InNamespace(w.Base)); err != nil {
		b.Fatal(err)
	}
	snapshot, _ := clone.TakeSnapshot(bases, services.Items)
	all := make([][]client.Object, groups-1)
	for i := range all {
		services, workloads, err := snapshot.Build(clone.Group{
			Owner: clone.OwnerOf(w.RSG().Obj()), ID: int32(i + 1), Kinds: []clone.Kind{kind, kind}, Replicas: []int32{1, 1}, Revision: w.Name,
		})
		if err != nil {
			b.Fatal(err)
		}
		for _, svc := range services {
			all[i] = append(all[i], svc)
		}
		for _, workload := range workloads {
			all[i] = append(all[i], workload)
		}
	}
	return all
}

// waitReady waits until so many Deployments have an available replica. It looks four times a second, so that looking does
// not cost what is measured.
func waitReady(b *testing.B, w *rsgtest.World, want int) {
	b.Helper()
	ready := 0
	err := wait.PollUntilContextTimeout(b.Context(), 250*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		var list appsv1.DeploymentList
		if err := w.Client.List(ctx, &list, client.InNamespace(w.Namespace)); err != nil {
			return false, err
		}
		ready = 0
		for i := range list.Items {
			if list.Items[i].Status.AvailableReplicas > 0 {
				ready++
			}
		}
		return ready >= want, nil
	})
	if err != nil {
		b.Fatalf("%d of %d Deployments are available: %v", ready, want, err)
	}
}
