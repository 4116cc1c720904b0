// Package benchmark measures what many ElasticScalers cost. Run it with: go test -run=NONE -bench=. -benchtime=1x
package benchmark

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/lab"
	"github.com/pd-orchestrator/pd-orchestrator/lab/faulty"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
	"github.com/pd-orchestrator/pd-orchestrator/test/usage"
)

const (
	scalers  = 5000
	interval = 15 * time.Second
	measured = 60 * time.Second
	patience = 10 * time.Minute
)

var env *estest.Env

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		os.Exit(m.Run()) // No benchmark is asked for, so no lab is needed.
	}
	os.Exit(estest.Main(m, &env, lab.Options{WithoutMetrics: true}, func(ctx context.Context, e *estest.Env) error {
		if err := e.Client.Create(ctx, poolCRD()); err != nil {
			return err
		}
		return e.StartManager(ctx, "")
	}))
}

// BenchmarkManyScalers evaluates 5,000 ElasticScalers every 15 seconds: once with a query for each, and once with 500 queries
// for all. It reports cores, memory, queries per round, and for comparison the cores of the API server in the same time.
// Targets are of a kind that no controller works on.
func BenchmarkManyScalers(b *testing.B) {
	for _, queries := range []int{scalers, 500} {
		b.Run(fmt.Sprintf("queries=%d", queries), func(b *testing.B) {
			for b.Loop() {
				many(b, queries)
			}
		})
	}
}

func many(b *testing.B, queries int) {
	b.Helper()
	server, err := faulty.Start(faulty.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	server.Answer(faulty.Scalar("20"))
	w := env.World(b)
	var g errgroup.Group
	g.SetLimit(32)
	for i := range scalers {
		g.Go(func() error {
			name := fmt.Sprintf("pool-%04d", i)
			if err := w.Client.Create(b.Context(), pool(w.Namespace, name)); err != nil {
				return err
			}
			scaler := w.Scaler(estest.Metrics("APA", estest.Query(server.URL(), "queue", fmt.Sprintf("scalar(queue%d)", i%queries), "10")))
			scaler.Name = name
			scaler.Spec.TargetRef = v1alpha1.TargetReference{APIVersion: "benchmark.example/v1", Kind: "Pool", Name: name}
			scaler.Spec.IntervalSeconds = new(int32(interval / time.Second))
			return w.Client.Create(b.Context(), scaler)
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(b.Context(), time.Second, patience, true, func(ctx context.Context) (bool, error) {
		var list v1alpha1.ElasticScalerList
		// Of all namespaces: those of a run before are on their way out, which costs something too.
		if err := w.Client.List(ctx, &list); err != nil {
			return false, err
		}
		if len(list.Items) != scalers {
			return false, nil
		}
		decided := 0
		for i := range list.Items {
			if list.Items[i].Status.DesiredReplicas != nil {
				decided++
			}
		}
		return decided == scalers, nil
	})
	if err != nil {
		b.Fatalf("not all scalers have decided: %v", err)
	}
	apiServer := env.Lab.Part(lab.APIServer)
	before, beforeAPI := use(b, env.Manager), use(b, apiServer)
	server.Forget()
	start := time.Now()
	_ = wait.PollUntilContextTimeout(b.Context(), time.Second, 2*measured, false, func(context.Context) (bool, error) {
		return time.Since(start) >= measured, nil
	})
	took := time.Since(start).Seconds()
	after, afterAPI := use(b, env.Manager), use(b, apiServer)
	b.ReportMetric((after.CPU-before.CPU).Seconds()/took, "cores")
	b.ReportMetric((afterAPI.CPU-beforeAPI.CPU).Seconds()/took, "apiserver-cores")
	b.ReportMetric(float64(after.Resident)/(1<<20), "MiB")
	b.ReportMetric(float64(server.Count("", ""))/took*interval.Seconds(), "queries/round")
}

func use(b *testing.B, part *lab.Part) usage.Usage {
	b.Helper()
	u, err := usage.Of(part.PID())
	if err != nil {
		b.Fatal(err)
	}
	return u
}

// pool is a target with two replicas that exist only on paper.
func pool(namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"replicas": int64(2)},
	}}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "benchmark.example", Version: "v1", Kind: "Pool"})
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func poolCRD() *apiextensionsv1.CustomResourceDefinition {
	integer := apiextensionsv1.JSONSchemaProps{Type: "integer"}
	object := func(properties map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: properties}
	}
	root := object(map[string]apiextensionsv1.JSONSchemaProps{
		"spec":   object(map[string]apiextensionsv1.JSONSchemaProps{"replicas": integer}),
		"status": object(map[string]apiextensionsv1.JSONSchemaProps{"replicas": integer, "selector": {Type: "string"}}),
	})
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "pools.benchmark.example"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "benchmark.example",
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "pools", Singular: "pool", Kind: "Pool", ListKind: "PoolList"},
			Scope: apiextensionsv1.NamespaceScoped,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &root},
				Subresources: &apiextensionsv1.CustomResourceSubresources{
					Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
					Scale: &apiextensionsv1.CustomResourceSubresourceScale{
						SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas", LabelSelectorPath: new(".status.selector"),
					},
				},
			}},
		},
	}
}
