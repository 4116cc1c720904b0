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

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/config"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab"
	"github.com/pd-orchestrator/pd-orchestrator/test/usage"
)

// large is the variable with the number of Tidals of the test in this file. It takes minutes for 10000, of which 1000
// fire together; without it there are few.
const large = "PDO_TIDAL_LARGE"

// each calls do for the numbers below n, several at a time.
func each(w *world, n, atATime int, do func(i int) error) {
	w.Helper()
	var group errgroup.Group
	group.SetLimit(atATime)
	for i := range n {
		group.Go(func() error { return do(i) })
	}
	if err := group.Wait(); err != nil {
		w.Fatal(err)
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

// cpuOfAll is the CPU time of this process, the API server and etcd.
func cpuOfAll(t testing.TB) time.Duration {
	t.Helper()
	sum := cpu(t)
	for _, name := range []string{lab.APIServer, lab.Etcd} {
		used, err := usage.Of(plane.Part(name).PID())
		if err != nil {
			t.Fatal(err)
		}
		sum += used.CPU
	}
	return sum
}

// tally counts what controllers write, and notes when.
type tally struct {
	mu               sync.Mutex
	scales, statuses int
	// recorded is how many of the statuses have the record of a count.
	recorded int
	// lastScale is when the last count was written, and recordedBefore how many records were there by then.
	lastScale      time.Time
	recordedBefore int
}

func (c *tally) wrap(inner client.WithWatch) client.Client {
	return interceptor.NewClient(inner, interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, inner client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
			err := inner.SubResource(sub).Update(ctx, obj, opts...)
			c.mu.Lock()
			defer c.mu.Unlock()
			if sub == "scale" {
				c.scales++
				c.lastScale, c.recordedBefore = time.Now(), c.recorded
				return err
			}
			c.statuses++
			if tidal, ok := obj.(*v1alpha1.Tidal); ok && tidal.Status.LastScale != nil {
				c.recorded++
			}
			return err
		},
	})
}

// taken returns what was counted since the last call.
func (c *tally) taken() (scales, statuses, recordedBefore int, lastScale time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	scales, statuses, recordedBefore, lastScale = c.scales, c.statuses, c.recordedBefore, c.lastScale
	c.scales, c.statuses, c.recorded, c.recordedBefore = 0, 0, 0, 0
	return scales, statuses, recordedBefore, lastScale
}

// waitFor waits until as many counts and records have been written.
func (c *tally) waitFor(t testing.TB, within time.Duration, scales, statuses int) {
	t.Helper()
	testkit.Eventually(t, within, fmt.Sprintf("%d counts and %d records", scales, statuses), func(context.Context) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.scales < scales || c.statuses < statuses {
			return fmt.Errorf("there are %d counts and %d records", c.scales, c.statuses)
		}
		return nil
	})
}

// passes is how many passes the controllers of this process have made.
func passes(t testing.TB) float64 {
	t.Helper()
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() == "controller_runtime_reconcile_total" {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// bare is how long it takes to do nothing but read and write the counts of n Deployments, as many at a time as a
// controller does.
func (w *world) bare(n int) time.Duration {
	w.Helper()
	restConfig := plane.AdminConfig()
	restConfig.QPS, restConfig.Burst = config.Default().Client.QPS, config.Default().Client.Burst
	c, err := client.New(restConfig, client.Options{Scheme: scheme})
	if err != nil {
		w.Fatal(err)
	}
	started := time.Now()
	each(w, n, config.Default().ConcurrentReconciles, func(i int) error {
		d := kube.NewWorkload(appsv1.SchemeGroupVersion.WithKind("Deployment"))
		d.SetNamespace(w.namespace)
		d.SetName(fmt.Sprintf("llm-%04d", i))
		if _, err := kube.ReadScale(w.Context(), c, d); err != nil {
			return err
		}
		return kube.Scale(w.Context(), c, d, 1)
	})
	return time.Since(started)
}

// Not parallel: it compares times, and the passes of all controllers are counted.
func TestManyTidals(t *testing.T) {
	all := 300
	if text := os.Getenv(large); text != "" {
		var err error
		if all, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	together := min(all*2/3, 1000)
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
	each(w, together, 16, func(i int) error {
		return api.Create(t.Context(), testkit.MakeDeployment(w.namespace, fmt.Sprintf("llm-%04d", i)).Replicas(0).Obj())
	})
	each(w, all, 16, func(i int) error {
		rules := []string{
			fmt.Sprintf("a|CRON_TZ=Asia/Shanghai 0 %d 8 * * 1-5|1", i%60), "b|CRON_TZ=Asia/Shanghai 0 30 23 * * 1-5|2", "c|CRON_TZ=Asia/Shanghai 0 0 1 * * 1-5|3",
			"d|CRON_TZ=Asia/Shanghai 0 0 2 * * 1-5|4", "e|CRON_TZ=America/New_York 0 3 * * 1-5|5", "f|CRON_TZ=America/New_York 0 2 * * 1-5|6",
			"g|CRON_TZ=Europe/Berlin 0 3 1 * *|7", "h|CRON_TZ=Europe/Berlin 30 2 * * *|8", "i|0 11 * * *|9",
			// Those with a target fire together at 13:00, the others at different minutes of the evening.
			"j|0 13 * * *|10",
		}
		if i >= together {
			rules[9] = fmt.Sprintf("j|%d 18 * * *|10", i%60)
		}
		tidal := w.makeTidal(fmt.Sprintf("tide-%05d", i), w.on(appsv1.SchemeGroupVersion.WithKind("Deployment"), fmt.Sprintf("llm-%04d", i)), rules...)
		if i >= together {
			w.bind(tidal, "missing")
		}
		return api.Create(t.Context(), tidal)
	})
	t.Logf("created in %.0f s", time.Since(started).Seconds())

	counted := &tally{}
	w.wrap = counted.wrap
	started = time.Now()
	before := cpu(t)
	w.start()
	counted.waitFor(t, 10*time.Minute, together, all)
	t.Logf("%d Tidals of 10 rules have their status after %.1f s, with %.1f s of CPU", all, time.Since(started).Seconds(), (cpu(t) - before).Seconds())

	// Between firings nothing is looked at, and nothing is written.
	idle := 5 * time.Second
	if all > 1000 {
		idle = 30 * time.Second
	}
	testkit.Eventually(t, time.Minute, "all passes to be over", func(context.Context) error {
		n := passes(t)
		<-time.After(time.Second)
		if more := passes(t) - n; more > 0 {
			return fmt.Errorf("%v passes in a second", more)
		}
		return nil
	})
	scales, statuses, recordedBefore, _ := counted.taken()
	if scales != together || statuses != all {
		t.Errorf("%d counts and %d statuses were written, want %d and %d: one each", scales, statuses, together, all)
	}
	if recordedBefore > together/10 {
		t.Errorf("at the start %d records were written before the last count, so that targets waited for them", recordedBefore)
	}
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	madeBefore := passes(t)
	before, started = cpu(t), time.Now()
	<-time.After(idle)
	used := 100 * (cpu(t) - before).Seconds() / time.Since(started).Seconds()
	t.Logf("between firings they use %.2f %% of a core; the heap of this process has %d MB", used, memory.HeapAlloc>>20)
	if scales, statuses, _, _ := counted.taken(); scales+statuses > 0 || passes(t) > madeBefore {
		t.Errorf("between firings there are %v passes, %d counts and %d records", passes(t)-madeBefore, scales, statuses)
	}
	if all >= 10000 && used > 1 {
		t.Errorf("between firings they use %.2f %% of a core", used)
	}

	bare := w.bare(together)
	w.setTime("2026-06-15T12:59:58Z")
	firing := time.Now().Add(time.Date(2026, 6, 15, 13, 0, 0, 0, time.UTC).Sub(w.clock.Now()))
	before = cpuOfAll(t)
	counted.waitFor(t, 2*time.Minute, together, 0)
	work := cpuOfAll(t) - before
	counted.waitFor(t, 2*time.Minute, together, together)
	scales, statuses, recordedBefore, last := counted.taken()
	late := last.Sub(firing)
	bare = max(bare, w.bare(together)) // The machine may have been busier at one of the two.
	t.Logf("%d firings of one second: all counts were there after %.2f s and %.2f s of CPU, the API server's and etcd's too; to read and write as many counts and nothing else takes %.2f s",
		together, late.Seconds(), work.Seconds(), bare.Seconds())
	if scales != together || statuses != together {
		t.Errorf("%d counts and %d records, want %d of each", scales, statuses, together)
	}
	if recordedBefore > together/10 {
		t.Errorf("%d records were written before the last count, so that targets waited for them", recordedBefore)
	}
	if count, over := w.lateness(); count != uint64(together) || over > late.Seconds() {
		t.Errorf("the metric of lateness has %d firings, and the latest was later than %.2f s: want %d, the latest %.2f s late", count, over, together, late.Seconds())
	}
}
