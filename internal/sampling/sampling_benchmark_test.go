package sampling

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pd-orchestrator/pd-orchestrator/internal/metricsource"
)

type instant struct{}

func (instant) Read(context.Context, metricsource.Request) (metricsource.Answer, error) {
	return metricsource.Answer{Value: 1}, nil
}

// BenchmarkRound is what one interval of 5,000 scalers with 500 different queries costs: the loop alone, and with the
// queries sent to a server (whose own share is in the figure). Each scaler is queued and set again, as by a controller. It
// takes 15 s a round, and two before the first.
func BenchmarkRound(b *testing.B) {
	const scalers, queries = 5000, 500
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"namespace":"ns"},"value":[1700000000,"5"]}]}}`)
	}))
	defer srv.Close()
	guard, err := metricsource.NewGuard(metricsource.GuardOptions{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		b.Fatal(err)
	}
	for name, source := range map[string]metricsource.Reader{
		"loop": instant{},
		"http": metricsource.NewEndpoints(metricsource.EndpointOptions{Clock: clock.RealClock{}, Guard: guard}),
	} {
		b.Run(name, func(b *testing.B) {
			var sent, failed, rounds atomic.Int64
			s := New(metricsource.NewShared(metricsource.SharedOptions{Reader: source, Clock: clock.RealClock{}, Observe: func(_ string, _ time.Duration, err error) {
				sent.Add(1)
				if err != nil {
					failed.Add(1)
				}
			}}), clock.RealClock{})
			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer queue.ShutDown()
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			if err := s.Start(ctx, queue); err != nil {
				b.Fatal(err)
			}
			specs := map[string]Spec{}
			for i := range scalers {
				name := fmt.Sprint(i)
				specs[name] = Spec{Interval: interval, Requests: []metricsource.Request{{
					Kind: metricsource.Endpoint, URL: srv.URL, Query: fmt.Sprintf(`sum(rate(vllm:request_total{model="m%d"}[1m]))`, i%queries),
				}}}
				s.Set(key(name), specs[name])
			}
			go func() {
				for {
					request, shutdown := queue.Get()
					if shutdown {
						return
					}
					if _, ok := s.Round(request.NamespacedName); ok {
						rounds.Add(1)
					}
					s.Set(request.NamespacedName, specs[request.Name])
					queue.Done(request)
				}
			}()
			time.Sleep(2 * interval)
			sent.Store(0)
			rounds.Store(0)
			before := processorTime(b)
			start := time.Now()
			for b.Loop() {
				time.Sleep(interval)
			}
			intervals := float64(time.Since(start)) / float64(interval)
			b.ReportMetric((processorTime(b)-before).Seconds()*1000/intervals, "cpu-ms/round")
			b.ReportMetric(float64(sent.Load())/intervals, "requests/round")
			b.ReportMetric(float64(rounds.Load())/intervals, "scalers/round")
			b.ReportMetric(0, "ns/op")
			if failed.Load() > 0 {
				b.Errorf("%d requests failed", failed.Load())
			}
		})
	}
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
