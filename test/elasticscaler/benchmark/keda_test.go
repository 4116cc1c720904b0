package benchmark

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/lab/faulty"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
)

// compared is the number of targets that both scale.
const compared = 500

// BenchmarkQueriesBesideKEDA reports how many queries a Prometheus gets in 15 seconds for the same 500 targets: from
// ElasticScalers and from KEDA's ScaledObjects, with a query for each target and with one for all. Both look every 15
// seconds; KEDA's operator and, through its metrics adapter, the HPA controller each ask.
func BenchmarkQueriesBesideKEDA(b *testing.B) {
	if err := env.Lab.StartKEDA(b.Context()); err != nil {
		b.Fatal(err)
	}
	for _, queries := range []int{compared, 1} {
		b.Run(fmt.Sprintf("queries=%d", queries), func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(asked(b, queries, elasticScaler), "pdo-queries/round")
				b.ReportMetric(asked(b, queries, scaledObject), "keda-queries/round")
			}
		})
	}
}

// asked makes the targets with a scaler of one sort each, and returns how many queries come in one interval.
func asked(b *testing.B, queries int, scaler func(w *estest.World, name, address, query string) client.Object) float64 {
	b.Helper()
	server, err := faulty.Start(faulty.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	server.Answer(faulty.Vector(faulty.Series{Value: "20"}))
	w := env.World(b)
	var scalers []client.Object
	for i := range compared {
		scalers = append(scalers, scaler(w, fmt.Sprintf("pool-%03d", i), server.URL(), fmt.Sprintf("queue%d", i%queries)))
	}
	var g errgroup.Group
	g.SetLimit(32)
	for _, s := range scalers {
		g.Go(func() error {
			target := pool(w.Namespace, s.GetName())
			if err := w.Client.Create(b.Context(), target); err != nil {
				return err
			}
			// The HPA controller asks for a selector and a count.
			target.Object["status"] = map[string]any{"replicas": int64(2), "selector": "pool=" + s.GetName()}
			if err := w.Client.Status().Update(b.Context(), target); err != nil {
				return err
			}
			return w.Client.Create(b.Context(), s)
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	// Every query has been sent once there were as many in one interval.
	err = wait.PollUntilContextTimeout(b.Context(), interval, patience, false, func(context.Context) (bool, error) {
		n := server.Count("", "")
		server.Forget()
		return n >= queries, nil
	})
	if err != nil {
		b.Fatalf("not all queries are sent: %v", err)
	}
	server.Forget()
	start := time.Now()
	_ = wait.PollUntilContextTimeout(b.Context(), time.Second, 2*measured, false, func(context.Context) (bool, error) {
		return time.Since(start) >= measured, nil
	})
	n := float64(server.Count("", "")) / time.Since(start).Seconds() * interval.Seconds()
	for _, s := range scalers {
		g.Go(func() error { return client.IgnoreNotFound(w.Client.Delete(b.Context(), s)) })
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	return n
}

func elasticScaler(w *estest.World, name, address, query string) client.Object {
	s := w.Scaler(estest.Metrics("APA", estest.Query(address, "queue", query, "10")))
	s.Name = name
	s.Spec.TargetRef = v1alpha1.TargetReference{APIVersion: "benchmark.example/v1", Kind: "Pool", Name: name}
	s.Spec.IntervalSeconds = new(int32(interval / time.Second))
	return s
}

func scaledObject(w *estest.World, name, address, query string) client.Object {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"scaleTargetRef":  map[string]any{"apiVersion": "benchmark.example/v1", "kind": "Pool", "name": name},
		"minReplicaCount": int64(1), "maxReplicaCount": int64(10), "pollingInterval": int64(interval / time.Second),
		"triggers": []any{map[string]any{"type": "prometheus", "metadata": map[string]any{"serverAddress": address, "query": query, "threshold": "10"}}},
	}}}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "keda.sh", Version: "v1alpha1", Kind: "ScaledObject"})
	u.SetNamespace(w.Namespace)
	u.SetName(name)
	return u
}
