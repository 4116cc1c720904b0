package scope

import (
	"context"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab"
	"github.com/pd-orchestrator/pd-orchestrator/lab/simulator/api"
	"github.com/pd-orchestrator/pd-orchestrator/test/resourcescalinggroup/rsgtest"
)

// The metric would remove group 1 of three, the annotations group 0, and the ids group 2.
var (
	values      = map[int32]float64{0: 5, 1: 0, 2: 6}
	annotations = map[int32]string{0: "1", 1: "7", 2: "9"}
)

// threeGroups makes a world with three groups whose values Prometheus has.
func threeGroups(t *testing.T, metric v1alpha1.ScaleDownMetric) *rsgtest.World {
	t.Helper()
	w := env.World(t, "llm").OwnMetric()
	w.CreateBase(1, 1)
	rsg := w.RSG().Replicas(3).Metric(w.Metric).Obj()
	if metric.Type != "" {
		metric.Expr = w.Metric
		rsg.Spec.ScalingStrategy.GroupConfig.ScaleDown.Metric = &metric
	}
	w.Create(rsg)
	w.Settled(3)
	w.Annotate(annotations)
	w.Pin(values)
	return w
}

// removed scales down to two and checks who went and why.
func removed(w *rsgtest.World, victim int32, level v1alpha1.ScaleDownLevel, reason string, texts ...string) {
	w.T.Helper()
	w.ScaleTo(2)
	record := w.Settled(2).Status.LastScaleDown
	if record == nil || record.Level != level || record.Reason != reason || !slices.Equal(record.Victims, []int32{victim}) {
		w.T.Fatalf("status.lastScaleDown is %+v, want group %d by %s, reason %q", record, victim, level, reason)
	}
	if level == v1alpha1.LevelMetric {
		w.Condition(v1alpha1.ConditionScaleDownMetric, metav1.ConditionTrue, v1alpha1.ReasonMetricUsed)
		return
	}
	w.Condition(v1alpha1.ConditionScaleDownMetric, metav1.ConditionFalse, reason, texts...)
	w.Event("Warning", v1alpha1.EventScaleDown, append(texts, "fallback to annotation", "0=1 1=7 2=9")...)
}

// Without a label of the ResourceScalingGroup the namespaces tell its series apart, until another one has pods there.
func TestScopeAmbiguous(t *testing.T) {
	manager(t, "timeoutSeconds: 2")
	w := threeGroups(t, v1alpha1.ScaleDownMetric{})
	removed(w, 1, v1alpha1.LevelMetric, "")

	w = threeGroups(t, v1alpha1.ScaleDownMetric{})
	for _, role := range []string{"prefill", "decode"} {
		w.Create(testkit.MakeDeployment(w.Base, "other-"+role).Obj())
	}
	other := testkit.MakeRSG(w.Namespace, "other").Target("prefill", w.Base, "other-prefill").Target("decode", w.Base, "other-decode").GroupName("other")
	w.Create(other.Replicas(2).Obj())
	removed(w, 0, v1alpha1.LevelAnnotation, v1alpha1.ReasonMetricScopeAmbiguous, w.Namespace+"/other", "prometheus.labels.rsg")
}

// A setting names a label that the series do not have.
func TestScopeMismatch(t *testing.T) {
	for name, setting := range map[string]string{
		"the label of the ResourceScalingGroup": "labels: {rsg: rsg_label}",
		"the label of the namespace":            "labels: {namespace: kubernetes_namespace, rsg: rsg_name}",
	} {
		t.Run(name, func(t *testing.T) {
			manager(t, setting)
			w := threeGroups(t, v1alpha1.ScaleDownMetric{})
			removed(w, 0, v1alpha1.LevelAnnotation, v1alpha1.ReasonMetricScopeMismatch, "prometheus.labels.namespace", "prometheus.labels.rsg")
		})
	}
}

// With the label, two ResourceScalingGroups in the same namespaces never read each other's series.
func TestScopeByLabel(t *testing.T) {
	manager(t, "")
	w := threeGroups(t, v1alpha1.ScaleDownMetric{})
	for _, role := range []string{"prefill", "decode"} {
		w.Create(testkit.MakeDeployment(w.Base, "other-"+role).Obj())
	}
	other := w.For(t)
	other.Name = "other"
	w.Create(testkit.MakeRSG(w.Namespace, "other").Target("prefill", w.Base, "other-prefill").Target("decode", w.Base, "other-decode").
		GroupName("other").Replicas(3).Metric(w.Metric).Obj())
	other.Settled(3)
	other.Pin(map[int32]float64{0: 4, 1: 9, 2: 3})
	removed(w, 1, v1alpha1.LevelMetric, "")
	other.ScaleTo(2)
	if record := other.Settled(2).Status.LastScaleDown; record == nil || !slices.Equal(record.Victims, []int32{2}) {
		t.Errorf("status.lastScaleDown of the other is %+v, want group 2", record)
	}
}

// A group's endpoint stops. Its rate has a value for as long as the window holds samples, and is not taken for one of now.
func TestStaleRateOfAStoppedEndpoint(t *testing.T) {
	manager(t, "")
	w := threeGroups(t, v1alpha1.ScaleDownMetric{Type: v1alpha1.MetricCounter, Window: "5m"})
	await(w, "a rate of all groups", "sum by (group_id) (rate(%s[5m]))", func(rates map[int32]float64) bool { return len(rates) == 3 })
	w.PinGroup(1, api.Pin{Fault: api.FaultClose})
	w.Prometheus.WaitValues(w, map[int32]float64{0: 5, 2: 6})
	removed(w, 0, v1alpha1.LevelAnnotation, v1alpha1.ReasonStale, "group 1 has none of now", "prometheus.maxSampleAgeSeconds")
}

// Prometheus cannot see that a series has ended when it was away at that moment, and serves its last sample for minutes.
func TestStaleSampleFromBeforeARestart(t *testing.T) {
	manager(t, "maxSampleAgeSeconds: 10, labels: {rsg: rsg_name}")
	w := threeGroups(t, v1alpha1.ScaleDownMetric{})
	prometheus := env.Lab.Part(lab.Prometheus)
	if err := prometheus.Kill(); err != nil {
		t.Fatal(err)
	}
	w.PinGroup(1, api.Pin{Fault: api.FaultClose})
	if err := prometheus.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(w, "a sample of group 1 that is older than 10 s, and young ones of the others", "time() - min by (group_id) (timestamp(%s))",
		func(ages map[int32]float64) bool { return len(ages) == 3 && ages[0] < 5 && ages[2] < 5 && ages[1] > 11 })
	removed(w, 0, v1alpha1.LevelAnnotation, v1alpha1.ReasonStale, "that of group 1 is ", "prometheus.maxSampleAgeSeconds (10s)")
}

// await asks Prometheus itself, by group, until it gives what is waited for.
func await(w *rsgtest.World, what, query string, there func(map[int32]float64) bool) {
	w.T.Helper()
	testkit.Eventually(w.T, rsgtest.Patience, what, func(ctx context.Context) error {
		got, err := w.Prometheus.ByGroup(ctx, w, query)
		if err != nil {
			return err
		}
		if !there(got) {
			return fmt.Errorf("by group it gives %v", got)
		}
		return nil
	})
}
