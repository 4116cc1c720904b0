package benchmark

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/test/resourcescalinggroup/rsgtest"
)

const (
	groups = 100
	// concurrency of the plain client is that with which the controller creates groups.
	concurrency = 16
	patience    = 10 * time.Minute
)

// BenchmarkScaleUp compares 1 to 100 groups of 2 Deployments with one replica and 2 Services with a plain client that
// creates the same objects. It reports the seconds until all pods are ready, and their ratio.
func BenchmarkScaleUp(b *testing.B) {
	for b.Loop() {
		plain := plainClient(b)
		ours := scaleUp(b)
		b.ReportMetric(plain.Seconds(), "plain-s")
		b.ReportMetric(ours.Seconds(), "rsg-s")
		b.ReportMetric(ours.Seconds()/plain.Seconds(), "ratio")
	}
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

// plainClient times a program that does nothing but create the same objects.
func plainClient(b *testing.B) time.Duration {
	b.Helper()
	w := env.World(b, "plain").OneNamespace()
	config := rest.CopyConfig(env.Lab.AdminConfig())
	config.QPS = -1 // No limit of its own.
	c, err := client.New(config, client.Options{Scheme: env.Client.Scheme()})
	if err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	var g errgroup.Group
	g.SetLimit(concurrency)
	for id := 1; id < groups; id++ {
		g.Go(func() error {
			for _, target := range []string{"prefill", "decode"} {
				name := fmt.Sprintf("%s-%d", target, id)
				for _, obj := range []client.Object{testkit.MakeService(w.Namespace, name, name), testkit.MakeDeployment(w.Namespace, name).Replicas(1).Obj()} {
					if err := c.Create(b.Context(), obj); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	waitReady(b, w, 2*(groups-1))
	return time.Since(start)
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
