// Package hpa tests ElasticScalers with Kubernetes' own metrics APIs: those whose algorithm is HPA, which the HPA controller
// carries out, and those of the manager that read what metrics-server and an adapter of Prometheus serve.
package hpa

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab"
	"github.com/pd-orchestrator/pd-orchestrator/lab/simulator/api"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
)

// parallel is how many tests run at once, whatever the number of cores: nearly all of their time they wait for metrics.
const parallel = "12"

// metricsPatience is how long the metrics of pods may take: metrics-server shows a change after two of its rounds of 10 s.
const metricsPatience = 2 * estest.Patience

var env *estest.Env

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", parallel); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	options := lab.Options{With: []string{lab.MetricsServer, lab.CustomMetrics}, HPASyncPeriod: time.Second}
	os.Exit(estest.Main(m, &env, options, func(ctx context.Context, e *estest.Env) error {
		return e.StartManager(ctx, "")
	}))
}

// external is a metric of the external metrics API, with a target per replica.
func external(name, target string) v1alpha1.MetricSpec {
	quantity := resource.MustParse(target)
	return v1alpha1.MetricSpec{Type: v1alpha1.ExternalMetricType, External: &v1alpha1.ExternalMetricSource{
		MetricsName: name, Target: v1alpha1.MetricTarget{Type: v1alpha1.AverageValueMetricType, AverageValue: &quantity},
	}}
}

// custom is a metric of the target's pods, with a target for their mean.
func custom(name, target string) v1alpha1.MetricSpec {
	quantity := resource.MustParse(target)
	return v1alpha1.MetricSpec{Type: v1alpha1.CustomMetricType, Custom: &v1alpha1.CustomMetricSource{
		MetricsName: name, Target: v1alpha1.MetricTarget{Type: v1alpha1.AverageValueMetricType, AverageValue: &quantity},
	}}
}

// utilization is a target for CPU in percent of what the pods request.
func utilization(percent int32) v1alpha1.MetricSpec {
	return v1alpha1.MetricSpec{Type: v1alpha1.ResourceMetricType, Resource: &v1alpha1.ResourceMetricSource{
		MetricsName: "cpu", Target: v1alpha1.MetricTarget{Type: v1alpha1.UtilizationMetricType, AverageUtilization: &percent},
	}}
}

// memory is a target per pod.
func memory(target string) v1alpha1.MetricSpec {
	quantity := resource.MustParse(target)
	return v1alpha1.MetricSpec{Type: v1alpha1.ResourceMetricType, Resource: &v1alpha1.ResourceMetricSource{
		MetricsName: "memory", Target: v1alpha1.MetricTarget{Type: v1alpha1.AverageValueMetricType, AverageValue: &quantity},
	}}
}

// by is a scaler without windows, of the manager's own algorithms and of HPAs.
func by(w *estest.World, algorithm string, metrics ...v1alpha1.MetricSpec) *v1alpha1.ElasticScaler {
	scaler := w.Scaler(estest.Metrics(algorithm, metrics...))
	scaler.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{
		ScaleUp:   &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: new(int32(0))},
		ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: new(int32(0))},
	}
	metav1.SetMetaDataAnnotation(&scaler.ObjectMeta, "elasticscaler.io/metrics.windowSeconds", "0")
	return scaler
}

// useAlgorithm changes the algorithm.
func useAlgorithm(w *estest.World, algorithm string) {
	w.T.Helper()
	w.Edit(func(s *v1alpha1.ElasticScaler) { s.Spec.Trigger.MetricsTrigger.ScalingAlgorithm = algorithm })
}

// gateway is a Deployment whose pod serves a metric that counts no pods of the target.
type gateway struct {
	w      *estest.World
	metric string
	labels map[string]string
}

// serve begins to serve a metric with a value. Its name is the world's own, since the metrics APIs know a name once any
// namespace has it.
func serve(w *estest.World, value float64) *gateway {
	w.T.Helper()
	d := testkit.MakeDeployment(w.Namespace, "gateway").Obj()
	g := &gateway{w: w, metric: metricOf(w), labels: d.Spec.Selector.MatchLabels}
	g.set(value)
	w.Create(d)
	return g
}

func metricOf(w *estest.World) string { return "queue_" + w.Namespace[len("scaler-"):] }

func (g *gateway) set(value float64) {
	g.w.T.Helper()
	pin(g.w, g.labels, g.metric, value)
}

// pin sets a metric of pods.
func pin(w *estest.World, labels map[string]string, metric string, value float64) {
	w.T.Helper()
	if err := env.Simulator.Pin(w.T.Context(), api.Pin{Namespace: w.Namespace, Labels: labels, Metrics: map[string]api.Value{metric: api.Value(value)}}); err != nil {
		w.T.Fatal(err)
	}
}

// use sets what the pods with labels use, once there are that many.
func use(w *estest.World, labels map[string]string, pods int, usage map[string]string) {
	w.T.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": usage}})
	if err != nil {
		w.T.Fatal(err)
	}
	var list corev1.PodList
	testkit.Eventually(w.T, estest.Patience, fmt.Sprintf("%d pods", pods), func(ctx context.Context) error {
		list = corev1.PodList{}
		if err := w.Client.List(ctx, &list, client.InNamespace(w.Namespace), client.MatchingLabels(labels)); err != nil {
			return err
		}
		if len(list.Items) != pods {
			return fmt.Errorf("there are %d", len(list.Items))
		}
		return nil
	})
	for i := range list.Items {
		if err := w.Client.Patch(w.T.Context(), &list.Items[i], client.RawPatch(types.MergePatchType, patch)); err != nil {
			w.T.Fatal(err)
		}
	}
}

// hpaOf waits until the check accepts the HPA of the scaler's name.
func hpaOf(w *estest.World, what string, check func(*autoscalingv2.HorizontalPodAutoscaler) error) *autoscalingv2.HorizontalPodAutoscaler {
	w.T.Helper()
	hpa := &autoscalingv2.HorizontalPodAutoscaler{}
	testkit.Eventually(w.T, estest.Patience, what, func(ctx context.Context) error {
		*hpa = autoscalingv2.HorizontalPodAutoscaler{}
		if err := w.Client.Get(ctx, types.NamespacedName{Namespace: w.Namespace, Name: w.Name}, hpa); err != nil {
			return err
		}
		return check(hpa)
	})
	return hpa
}

func isThere(*autoscalingv2.HorizontalPodAutoscaler) error { return nil }

// noHPA waits until there is no HPA of the scaler's name.
func noHPA(w *estest.World) {
	w.T.Helper()
	testkit.Eventually(w.T, estest.Patience, "the HPA to go", func(ctx context.Context) error {
		err := w.Client.Get(ctx, types.NamespacedName{Namespace: w.Namespace, Name: w.Name}, &autoscalingv2.HorizontalPodAutoscaler{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is there"), err)
	})
}
