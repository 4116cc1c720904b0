package elasticscaler

import (
	"fmt"
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab/faulty"
	"github.com/pd-orchestrator/pd-orchestrator/lab/simulator/api"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
)

// page is a metric that is read from a page, with a target per replica.
func page(endpoint, name, target string) v1alpha1.MetricSpec {
	quantity := resource.MustParse(target)
	return v1alpha1.MetricSpec{Type: v1alpha1.ExternalServerMetricType, ExternalServer: &v1alpha1.ExternalServerMetricSource{
		Endpoint: endpoint, MetricsName: name, Target: &quantity,
	}}
}

// What the engines of the pods report reaches the count through the scrapes of a real Prometheus, in a query and as a plain
// selector, of which the age is asked for as well.
func TestTheCountFollowsPrometheus(t *testing.T) {
	t.Parallel()
	for name, query := range map[string]string{
		"by an expression": `sum(queue_depth{namespace="%s"}) or vector(0)`,
		"by a selector":    `queue_depth{namespace="%s"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := env.World(t)
			w.CreateTarget(1)
			gateway := testkit.MakeDeployment(w.Namespace, "gateway").Obj()
			w.Create(gateway)
			waiting := func(n float64) {
				t.Helper()
				if err := env.Simulator.Pin(t.Context(), api.Pin{
					Namespace: w.Namespace, Labels: gateway.Spec.Selector.MatchLabels, Metrics: map[string]api.Value{"queue_depth": api.Value(n)},
				}); err != nil {
					t.Fatal(err)
				}
			}
			waiting(12)
			w.Create(estest.Instant(w.Scaler(estest.Metrics("apa", estest.Query(env.Lab.PrometheusURL(), "queue_depth", fmt.Sprintf(query, w.Namespace), "4")))))
			w.WaitReplicas(3)
			scaler := w.Condition(v1alpha1.ConditionMetricsCollected, metav1.ConditionTrue, v1alpha1.ReasonAllMetricsAvailable)
			if in := scaler.Status.LastDecision.Inputs[0]; in.Target != "4" || in.Time == nil || in.Reason != "" {
				t.Errorf("the input is %+v, want a target of 4, a time and no reason", in)
			}
			waiting(24)
			w.WaitReplicas(6)
			waiting(4)
			w.WaitReplicas(1)
		})
	}
}

// Every page tells 30, which is 15 for each of two replicas.
func TestTheCountFollowsAPage(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		metric string
		answer http.Handler
	}{
		"of Prometheus text, whose samples are summed": {"vllm:num_requests_waiting", faulty.Text(`# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0"} 2e1
vllm:num_requests_waiting{engine="1"} 10
vllm:num_requests_waiting_total 7000
`)},
		"of OpenMetrics": {"queue", faulty.Body("application/openmetrics-text; version=1.0.0; charset=utf-8",
			"# TYPE queue gauge\nqueue{engine=\"0\"} 20\nqueue{engine=\"1\"} 1e1\n# EOF\n")},
		"of text without a type":               {"queue", faulty.Body("", "queue 30\n")},
		"of JSON, by a path":                   {"engine.queue", faulty.JSON(`{"engine": {"queue": 30, "value": 1}, "value": 2}`)},
		"of JSON, under the key value":         {"queue", faulty.JSON(`{"value": 30}`)},
		"of JSON, as a numeric string":         {"queue", faulty.Body("application/vnd.queue+json", `{"queue": "30"}`)},
		"of an answer other than 200, but 2xx": {"queue", faulty.As(http.StatusNonAuthoritativeInfo, "", faulty.Text("queue 30\n"))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := env.World(t)
			server := w.Server(faulty.Options{})
			server.AnswerPath("/stats", tc.answer)
			w.CreateTarget(2)
			paused := estest.Instant(w.Scaler(estest.Metrics("", page(server.URL()+"/stats", tc.metric, "10"))))
			paused.Spec.Paused = new(true)
			w.Create(paused)
			scaler := w.Condition(v1alpha1.ConditionScalingCalculated, metav1.ConditionTrue, v1alpha1.ReasonMetricAboveTarget)
			if in := scaler.Status.LastDecision.Inputs[0]; in.Name != tc.metric || in.Type != "ExternalServer" || in.Value != "15" || *in.ProposedReplicas != 3 {
				t.Errorf("the input is %+v, want 15 per replica and a proposal of 3", in)
			}
			w.Edit(func(s *v1alpha1.ElasticScaler) { s.Spec.Paused = nil })
			w.WaitReplicas(3)
		})
	}
}
