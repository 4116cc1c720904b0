package tidal

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab"
)

// large is the variable that lets the test of this file run, with the number of Tidals in it: 10000 takes minutes. It
// reports figures that no test judges.
const large = "PDO_TIDAL_LARGE"

// createMany creates n objects, several at a time.
func (w *world) createMany(n int, object func(i int) client.Object) {
	w.Helper()
	errs := make([]error, n)
	next := make(chan int)
	var wait sync.WaitGroup
	for range 16 {
		wait.Go(func() {
			for i := range next {
				errs[i] = api.Create(w.Context(), object(i))
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			w.Fatal(err)
		}
	}
}

func cpu(t testing.TB) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// lateness returns how many firings were written, and the bounds between which the latest of them was late.
func (w *world) lateness() (count uint64, over, under float64) {
	w.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "pdo_tidal_firing_lateness_seconds" {
			continue
		}
		h := f.GetMetric()[0].GetHistogram()
		for _, b := range h.GetBucket() {
			if b.GetCumulativeCount() == h.GetSampleCount() {
				return h.GetSampleCount(), over, b.GetUpperBound()
			}
			over = b.GetUpperBound()
		}
		return h.GetSampleCount(), over, -1
	}
	return 0, 0, 0
}

// Not parallel: it reports times.
func TestManyTidals(t *testing.T) {
	all, err := strconv.Atoi(os.Getenv(large))
	if err != nil {
		t.Skipf("set %s=10000 to measure as many Tidals", large)
	}
	together := min(all, 1000)
	// Nothing but the count of the targets is to change.
	if err := plane.Part(lab.ControllerManager).Stop(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := plane.Part(lab.ControllerManager).Start(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	w := newWorld(t, "2026-06-15T12:00:00Z")
	started := time.Now()
	w.createMany(together, func(i int) client.Object {
		return testkit.MakeDeployment(w.namespace, fmt.Sprintf("llm-%04d", i)).Replicas(0).Obj()
	})
	w.createMany(all, func(i int) client.Object {
		ref := v1alpha1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: w.namespace, Name: fmt.Sprintf("llm-%04d", i)}
		rules := []string{
			fmt.Sprintf("a|CRON_TZ=Asia/Shanghai 0 %d 8 * * 1-5|1", i%60), "b|CRON_TZ=Asia/Shanghai 0 30 23 * * 1-5|2", "c|CRON_TZ=Asia/Shanghai 0 0 1 * * 1-5|3",
			"d|CRON_TZ=Asia/Shanghai 0 0 2 * * 1-5|4", "e|CRON_TZ=America/New_York 0 3 * * 1-5|5", "f|CRON_TZ=America/New_York 0 2 * * 1-5|6",
			"g|CRON_TZ=Europe/Berlin 0 3 1 * *|7", "h|CRON_TZ=Europe/Berlin 30 2 * * *|8", "i|0 11 * * *|9",
			// The thousand with a target fire together at 13:00, the others at different minutes of the evening.
			"j|0 13 * * *|10",
		}
		if i >= together {
			rules[9] = fmt.Sprintf("j|%d 18 * * *|10", i%60)
		}
		tidal := w.makeTidal(fmt.Sprintf("tide-%05d", i), ref, rules...)
		if i >= together {
			return w.bind(tidal, "missing")
		}
		return tidal
	})
	t.Logf("created in %.0f s", time.Since(started).Seconds())

	started = time.Now()
	before := cpu(t)
	w.start()
	wanting := func(ctx context.Context) error {
		var list v1alpha1.TidalList
		if err := api.List(ctx, &list, client.InNamespace(w.namespace)); err != nil {
			return err
		}
		missing := 0
		for _, item := range list.Items {
			if item.Status.ObservedGeneration == nil || item.Labels == nil && item.Status.LastScale == nil {
				missing++
			}
		}
		if missing > 0 {
			return fmt.Errorf("%d of %d are without a status", missing, len(list.Items))
		}
		return nil
	}
	testkit.Eventually(t, 10*time.Minute, "a status of each", func(ctx context.Context) error {
		<-time.After(time.Second) // The list is large.
		return wanting(ctx)
	})
	t.Logf("%d Tidals of 10 rules have their status after %.1f s, with %.1f s of CPU", all, time.Since(started).Seconds(), (cpu(t) - before).Seconds())

	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	before, started = cpu(t), time.Now()
	<-time.After(30 * time.Second)
	t.Logf("between firings they use %.2f %% of a core; the heap of this process has %d MB", 100*(cpu(t)-before).Seconds()/time.Since(started).Seconds(), memory.HeapAlloc>>20)

	w.setTime("2026-06-15T12:59:58Z")
	firing := time.Date(2026, 6, 15, 13, 0, 0, 0, time.UTC)
	var scaled time.Duration
	testkit.Eventually(t, 2*time.Minute, "the counts", func(ctx context.Context) error {
		var list appsv1.DeploymentList
		if err := api.List(ctx, &list, client.InNamespace(w.namespace)); err != nil {
			return err
		}
		n := 0
		for _, d := range list.Items {
			if *d.Spec.Replicas == 10 {
				n++
			}
		}
		if n < together {
			<-time.After(250 * time.Millisecond)
			return fmt.Errorf("%d", n)
		}
		scaled = w.clock.Now().Sub(firing)
		return nil
	})
	testkit.Eventually(t, time.Minute, "the records", wanting)
	count, over, under := w.lateness()
	t.Logf("%d firings of one second: all counts were there after at most %.1f s; lateness metric: %d firings, the latest between %.2f and %.2f s", together, scaled.Seconds(), count, over, under)
}
