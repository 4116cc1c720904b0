package monitoring

import (
	"context"
	"fmt"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	autoscalingv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab/faulty"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
	"github.com/pd-orchestrator/pd-orchestrator/test/resourcescalinggroup/rsgtest"
)

// story is a namespace in which everything happens that there are metrics of.
type story struct {
	*estest.World
	// load is what the groups are scaled by, and broken a source that always fails.
	load, broken *faulty.Server
	signals      *faulty.Signals
}

// play plays the story, and returns when it is on record in Prometheus.
func play(t *testing.T) *story {
	t.Helper()
	w := env.World(t)
	s := &story{World: w, load: w.Server(faulty.Options{}), broken: w.Server(faulty.Options{})}
	s.seldom()
	s.groups()
	s.blind()
	s.policies()
	for _, happened := range []string{
		`pdo_resourcescalinggroup_scale_downs_total{level="Metric"} > 0`,
		`pdo_resourcescalinggroup_metric_fallbacks_total{reason="GroupMissing"} > 0`,
		`pdo_elasticscaler_scale_writes_total{direction="up"} > 0`,
		`pdo_elasticscaler_scale_writes_total{direction="down"} > 0`,
		`pdo_elasticscaler_decisions_total{reason="Fallback"} > 0`,
		`pdo_elasticscaler_limits_total{step="NoData"} > 0`,
		`pdo_elasticscaler_missing_metrics_total{reason="MetricSourceUnavailable"} > 0`,
		`pdo_elasticscaler_metric_read_errors_total > 0`,
		`pdo_elasticscaler_signals_total{result="accepted"} > 0`,
		`pdo_elasticscaler_signal_request_seconds_count > 0`,
		`pdo_tidal_firing_lateness_seconds_count > 0`,
		`pdo_tidal_scale_writes_total > 0`,
		`pdo_inferenceservice_holds_total{reason="PolicyNotFound"} > 0`,
		fmt.Sprintf(`pdo_inferenceservice_holding{namespace=%q, name="held", component="engine"} == 1`, w.Namespace),
		fmt.Sprintf(`pdo_inferenceservice_autoscaler_info{namespace=%q, name="resolved", component="engine", class="HPA", source="policy"}`, w.Namespace),
	} {
		found(t, happened)
	}
	// What has been counted once before the first scrape has no rate: the listener asks again.
	s.signals.Cut()
	found(t, `increase(pdo_elasticscaler_signal_request_seconds_count[15m]) > 0`)
	return s
}

// seldom begins what takes its time: a Tidal whose rules fire every ten seconds, a scaler whose only metric cannot be read,
// so that its noData policy takes it to its maximum, and one that follows signals.
func (s *story) seldom() {
	s.T.Helper()
	for _, name := range []string{"by-clock", "by-fallback", "by-signal"} {
		s.Create(testkit.MakeDeployment(s.Namespace, name).Obj())
	}
	s.apply(`
apiVersion: tidal.io/v1alpha1
kind: Tidal
metadata: {name: by-clock}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, namespace: {ns}, name: by-clock}
  triggers:
    times:
      rules:
      - {name: high, cron: "0/10 * * * * *", replicas: 2}
      - {name: low, cron: "5/10 * * * * *", replicas: 1}
`)

	s.broken.Answer(faulty.Status(503, "out of order"))
	metric := estest.Query(s.broken.URL(), "lost", "lost", "10")
	metric.NoData = &v1alpha1.NoDataPolicy{Policy: v1alpha1.NoDataFallback, FailureThreshold: new(int32(1)), Replicas: new(int32(2))}
	fallback := s.scaler("by-fallback", estest.Metrics("", metric))
	fallback.Spec.MaxReplicas = new(int32(2))
	s.Create(fallback)

	s.signals = faulty.NewSignals(faulty.Lines)
	s.load.AnswerPath("/signals", s.signals)
	s.Create(s.scaler("by-signal", v1alpha1.Trigger{
		Type: v1alpha1.SignalTriggerType, SignalTrigger: &v1alpha1.SignalTrigger{Endpoint: s.load.URL() + "/signals"},
	}))
	s.Connected(s.signals)
	s.signals.Send(faulty.Message{Data: `{"signal": "ScaleUp", "id": "1"}`})
}

// groups has an ElasticScaler take a ResourceScalingGroup to three groups and back to one, ranked by a metric of the pods.
func (s *story) groups() {
	s.T.Helper()
	const name, load = "groups", "sum(load)"
	answer := func(value string) { s.load.AnswerQuery(load, faulty.Vector(faulty.Series{Value: value})) }
	answer("10")
	s.Create(
		testkit.MakeService(s.Namespace, "prefill", "prefill"), testkit.MakeDeployment(s.Namespace, "prefill").Obj(),
		testkit.MakeRSG(s.Namespace, name).GroupName("pd").Replicas(1).Target("prefill", s.Namespace, "prefill").Metric(rsgtest.Metric).Obj(),
	)
	s.settled(name, 1)
	scaler := s.scaler(name, estest.Metrics("", estest.Query(s.load.URL(), "load", load, "10")))
	scaler.Spec.TargetRef = v1alpha1.TargetReference{APIVersion: autoscalingv1alpha1.GroupVersion.String(), Kind: "ResourceScalingGroup", Name: name}
	s.Create(scaler)
	answer("30")
	s.settled(name, 3)
	found(s.T, fmt.Sprintf(`count(count by (group_id) (%s{namespace=%q, rsg_name=%q})) == 3`, rsgtest.Metric, s.Namespace, name))
	answer("10")
	s.settled(name, 1)
}

// blind removes a group whose metric does not exist, so that the highest id decides.
func (s *story) blind() {
	s.T.Helper()
	rsg := testkit.MakeRSG(s.Namespace, "blind").GroupName("blind").Replicas(2).Target("gateway", s.Namespace, "gateway").Metric("no_such_metric").Obj()
	s.Create(testkit.MakeDeployment(s.Namespace, "gateway").Obj(), rsg)
	s.settled(rsg.Name, 2)
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: rsg.Name}, Spec: autoscalingv1.ScaleSpec{Replicas: 1}}
	if err := s.Client.SubResource("scale").Update(s.T.Context(), rsg, client.WithSubResourceBody(scale)); err != nil {
		s.T.Fatal(err)
	}
	s.settled(rsg.Name, 1)
}

// policies attaches two services to two policies, and takes one of the policies away.
func (s *story) policies() {
	s.T.Helper()
	for _, name := range []string{"resolved", "held"} {
		s.apply(strings.ReplaceAll(`
apiVersion: ome.io/v1beta1
kind: AutoscalerPolicy
metadata: {name: NAME, annotations: {ome.io/allow-in-use-delete: "true"}}
spec:
  class: HPA
  hpa:
    metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]
`, "NAME", name))
		s.apply(strings.ReplaceAll(`
apiVersion: ome.io/v1beta1
kind: InferenceService
metadata: {name: NAME}
spec:
  engine:
    minReplicas: 1
    maxReplicas: 4
    autoscalerPolicyRef: {name: NAME}
    runner: {name: engine, image: example.org/engine:1, ports: [{containerPort: 8000}], resources: {requests: {cpu: "1"}}}
`, "NAME", name))
		found(s.T, fmt.Sprintf(`pdo_inferenceservice_autoscaler_info{namespace=%q, name=%q, source="policy"}`, s.Namespace, name))
	}
	policy := &unstructured.Unstructured{}
	policy.SetAPIVersion("ome.io/v1beta1")
	policy.SetKind("AutoscalerPolicy")
	policy.SetNamespace(s.Namespace)
	policy.SetName("held")
	if err := s.Client.Delete(s.T.Context(), policy); err != nil {
		s.T.Fatal(err)
	}
}

// scaler returns an ElasticScaler of the Deployment of its name, from 1 to 3 replicas, that follows its trigger at once.
func (s *story) scaler(name string, trigger v1alpha1.Trigger) *v1alpha1.ElasticScaler {
	scaler := estest.Instant(s.Scaler(trigger))
	scaler.Name, scaler.Spec.TargetRef.Name, scaler.Spec.MaxReplicas = name, name, new(int32(3))
	return scaler
}

func (s *story) settled(name string, groups int32) {
	s.T.Helper()
	testkit.Eventually(s.T, estest.Patience, fmt.Sprintf("%s to have %d groups", name, groups), func(ctx context.Context) error {
		rsg := &autoscalingv1alpha1.ResourceScalingGroup{}
		if err := s.Client.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: name}, rsg); err != nil {
			return err
		}
		return rsgtest.Settled(rsg, groups)
	})
}

// apply applies a manifest in the namespace of the story, which is {ns} in it.
func (s *story) apply(manifest string) {
	s.T.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(manifest, "{ns}", s.Namespace)), &u.Object); err != nil {
		s.T.Fatalf("reading the manifest: %v\n%s", err, manifest)
	}
	u.SetNamespace(s.Namespace)
	if err := s.Client.Apply(s.T.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("story"), client.ForceOwnership); err != nil {
		s.T.Fatalf("applying the manifest: %v\n%s", err, manifest)
	}
}
