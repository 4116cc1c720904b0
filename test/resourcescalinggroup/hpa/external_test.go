package hpa

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/lab"
)

// An external metric counts no pods, so it scales groups also where the user's own workloads are in another namespace,
// which is what condition Scalable advises there.
func TestGroupsScaleByAnExternalMetric(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm")
	w.CreateBase(2, 1)
	w.Create(w.RSG().Replicas(1).Obj())
	w.Settled(1)
	w.Condition(v1alpha1.ConditionScalable, metav1.ConditionFalse, v1alpha1.ReasonBaseInOtherNamespace, "External")

	external.set(w.Namespace, "queue_length", "30")
	seen := recordCounts(w)
	hpa := makeHPA(w, "llm", groups(w), 1, 5, externalAverage("queue_length", "10"))
	atOnce := int32(0)
	hpa.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: &atOnce}}
	w.Create(hpa)
	seen.wait(1, 3)
	w.Settled(3)
	external.set(w.Namespace, "queue_length", "200")
	seen.wait(1, 3, 5)
	w.Settled(5)
	external.set(w.Namespace, "queue_length", "15")
	seen.wait(1, 3, 5, 2)
	w.Settled(2)
	w.HasGroups(map[int32][2]int32{0: {2, 1}, 1: {2, 1}})
	waitHPA(w, "llm", "the HPA controller to count two groups", func(hpa *autoscalingv2.HorizontalPodAutoscaler) error {
		if hpa.Status.CurrentReplicas != 2 || hpa.Status.DesiredReplicas != 2 {
			return fmt.Errorf("it counts %d groups and wants %d", hpa.Status.CurrentReplicas, hpa.Status.DesiredReplicas)
		}
		return hasCondition(hpa, autoscalingv2.ScalingActive, corev1.ConditionTrue, "ValidMetricFound")
	})
}

// externalAverage is a target per group.
func externalAverage(metric, target string) autoscalingv2.MetricSpec {
	quantity := resource.MustParse(target)
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: metric},
		Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: &quantity},
	}}
}

// externalAPI is the API by which the HPA controller asks for external metrics.
var externalAPI = schema.GroupVersion{Group: "external.metrics.k8s.io", Version: "v1beta1"}

// externalMetrics serves that API.
type externalMetrics struct {
	mu sync.Mutex
	// values are quantities by "<namespace>/<metric>".
	values map[string]string
}

// serveExternalMetrics registers an API server for external metrics, which serves until the process ends.
func serveExternalMetrics(ctx context.Context, l *lab.Lab) (*externalMetrics, error) {
	const service = "external-metrics"
	certPEM, keyPEM, err := l.ServingCertificate(service + "." + lab.ProductNamespace + ".svc")
	if err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("loading the certificate of the external metrics: %w", err)
	}
	m := &externalMetrics{values: map[string]string{}}
	server := httptest.NewUnstartedServer(m)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	port := server.Listener.Addr().(*net.TCPAddr).Port
	return m, l.RegisterAPI(ctx, externalAPI, lab.ProductNamespace, service, port)
}

func (m *externalMetrics) set(namespace, metric, value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[namespace+"/"+metric] = value
}

// ServeHTTP answers discovery, and .../namespaces/<namespace>/<metric>.
func (m *externalMetrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	path, found := strings.CutPrefix(r.URL.Path, "/apis/"+externalAPI.String()+"/namespaces/")
	if !found {
		_ = json.NewEncoder(w).Encode(metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: externalAPI.String(),
		})
		return
	}
	m.mu.Lock()
	value, known := m.values[path]
	m.mu.Unlock()
	items := []any{}
	if known {
		_, metric, _ := strings.Cut(path, "/")
		items = append(items, map[string]any{"metricName": metric, "metricLabels": map[string]string{}, "timestamp": metav1.Now(), "value": value})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": "ExternalMetricValueList", "apiVersion": externalAPI.String(), "metadata": map[string]any{}, "items": items,
	})
}
