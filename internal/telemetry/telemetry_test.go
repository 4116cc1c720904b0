package telemetry

import (
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	elasticscalerv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/pipeline"
	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

// all are the metrics of every component.
type all struct {
	groups   *Metrics
	scalers  *ElasticScaler
	tidals   *Tidal
	policies *AutoscalerPolicy
	registry *prometheus.Registry
}

func newAll(t *testing.T) all {
	t.Helper()
	a := all{registry: prometheus.NewRegistry()}
	var errs [4]error
	a.groups, errs[0] = New(a.registry)
	a.scalers, errs[1] = NewElasticScaler(a.registry)
	a.tidals, errs[2] = NewTidal(a.registry)
	a.policies, errs[3] = NewAutoscalerPolicy(a.registry)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	return a
}

// record has everything happen to objects of a name.
func (a all) record(name string) {
	const namespace = "inference"
	a.groups.SetGroups(namespace, name, 3, 2, 1)
	a.groups.ScaleDownChosen("GroupID", "Stale")
	a.groups.ObjectCreated("Deployment")
	a.groups.ObjectDeleted("Deployment")
	a.groups.PrometheusQuery(time.Second, errors.New("refused"))

	a.scalers.SetReplicas(namespace, name, elasticscalerv1alpha1.ElasticScalerStatus{
		DesiredReplicas: new(int32(3)), CurrentReplicas: new(int32(2)), MinReplicas: new(int32(1)), MaxReplicas: new(int32(9)),
	})
	a.scalers.Decided(namespace, name, plan("queue"), nil, time.Second)
	a.scalers.Scaled(2, 3)
	a.scalers.Read("External", time.Second, errors.New("refused"))
	a.scalers.Signal("accepted", "push")
	a.scalers.SignalsAsked(time.Second, true)

	a.tidals.SetDesired(namespace, name, new(int32(4)))
	a.tidals.Fired(time.Second)
	a.tidals.Scaled()
	a.tidals.SetNext(time.Unix(1, 0))

	a.policies.SetAutoscaler(namespace, name, "engine", &v1beta1.ComponentAutoscaler{Class: v1beta1.ClassHPA}, v1beta1.SourcePolicy)
	a.policies.SetHolding(namespace, name, "engine", true)
	a.policies.HoldBegan(v1beta1.ReasonPolicyNotFound)
	a.policies.Written("Deployment")
}

// plan is a decision on a metric with a value, and one without, that was limited.
func plan(metric string) pipeline.Plan {
	return pipeline.Plan{
		Reason: elasticscalerv1alpha1.ReasonMaxReplicas,
		Inputs: []pipeline.Input{
			{MetricInfo: scaling.MetricInfo{Type: "External", Name: metric}, Value: new(30.0), Target: 10, Proposed: new(int32(3))},
			{MetricInfo: scaling.MetricInfo{Type: "Custom", Name: "missing"}, Target: 10, Reason: elasticscalerv1alpha1.ReasonNoData},
		},
		Steps: []scaling.Step{{Name: pipeline.StepBounds}, {Name: "OfAPlugin"}},
	}
}

func (a all) families(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	list, err := a.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	families := map[string]*dto.MetricFamily{}
	for _, f := range list {
		families[f.GetName()] = f
	}
	return families
}

// values are the series of a counter or gauge, by the values of their labels.
func (a all) values(t *testing.T, name string) map[string]float64 {
	t.Helper()
	values := map[string]float64{}
	for _, m := range a.families(t)[name].GetMetric() {
		var labels []string
		for _, l := range m.GetLabel() {
			labels = append(labels, l.GetValue())
		}
		values[strings.Join(labels, " ")] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
	}
	return values
}

func TestNamesAreAsPrometheusWantsThemAndDocumented(t *testing.T) {
	t.Parallel()
	a := newAll(t)
	a.record("llm")
	families := a.families(t)
	problems, err := promlint.NewWithMetricFamilies(slices.Collect(maps.Values(families))).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint says %v (%v)", problems, err)
	}
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, match := range regexp.MustCompile("(?m)^\\| `(pdo_\\w+)").FindAllStringSubmatch(string(page), -1) {
		documented = append(documented, match[1])
	}
	slices.Sort(documented)
	if diff := cmp.Diff(documented, slices.Sorted(maps.Keys(families))); diff != "" {
		t.Errorf("docs/metrics.md lists other metrics than there are (-docs +code):\n%s", diff)
	}
}

func TestSeriesGoWithTheirObject(t *testing.T) {
	t.Parallel()
	a := newAll(t)
	a.record("stays")
	want := len(named(a.families(t), "stays"))
	a.record("goes")
	a.groups.ForgetGroups("inference", "goes")
	a.scalers.Forget("inference", "goes")
	a.tidals.Forget("inference", "goes")
	a.policies.Forget("inference", "goes")
	if left := named(a.families(t), "goes"); len(left) > 0 {
		t.Errorf("the objects have gone, and there are still %v", left)
	}
	if left := named(a.families(t), "stays"); len(left) != want || want == 0 {
		t.Errorf("of the objects that stay there are %v, want %d series", left, want)
	}
}

// named are the families of the series that name an object, one for each series.
func named(families map[string]*dto.MetricFamily, object string) []string {
	var names []string
	for name, f := range families {
		for _, m := range f.GetMetric() {
			if slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == "name" && l.GetValue() == object }) {
				names = append(names, name)
			}
		}
	}
	return names
}

// A metric that is renamed, a rule that is taken out and a component that is scaled by something else leave nothing behind.
func TestSeriesGoWithWhatTheyName(t *testing.T) {
	t.Parallel()
	a := newAll(t)
	a.record("llm")
	a.scalers.Decided("inference", "llm", plan("tokens"), plan("queue").Inputs, 0)
	a.scalers.SetReplicas("inference", "llm", elasticscalerv1alpha1.ElasticScalerStatus{DesiredReplicas: new(int32(3))})
	a.tidals.SetDesired("inference", "llm", nil)
	a.policies.SetAutoscaler("inference", "llm", "engine", &v1beta1.ComponentAutoscaler{Class: v1beta1.ClassKEDA}, v1beta1.SourceInline)
	a.policies.SetHolding("inference", "llm", "engine", false)
	for name, want := range map[string]map[string]float64{
		"pdo_elasticscaler_metric_value":          {"tokens llm inference External": 30},
		"pdo_elasticscaler_metric_target":         {"tokens llm inference External": 10, "missing llm inference Custom": 10},
		"pdo_elasticscaler_proposed_replicas":     {"tokens llm inference External": 3},
		"pdo_elasticscaler_max_replicas":          {},
		"pdo_tidal_desired_replicas":              {},
		"pdo_inferenceservice_autoscaler_info":    {"KEDA engine llm inference isvc": 1},
		"pdo_inferenceservice_holding":            {},
		"pdo_elasticscaler_limits_total":          {"Algorithm": 2, "Bounds": 2},
		"pdo_elasticscaler_missing_metrics_total": {"NoData": 2},
	} {
		if diff := cmp.Diff(want, a.values(t, name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Prometheus sees no increase in a counter that it first sees at 1, so what happens seldom must be there before.
func TestSeldomEventsAreCountedFromZero(t *testing.T) {
	t.Parallel()
	a := newAll(t)
	for name, value := range map[string]string{
		"pdo_resourcescalinggroup_scale_downs_total":      "Metric",
		"pdo_resourcescalinggroup_metric_fallbacks_total": "PrometheusUnavailable",
		"pdo_elasticscaler_scale_writes_total":            "down",
		"pdo_tidal_scale_writes_total":                    "",
		"pdo_inferenceservice_holds_total":                "PolicyNotFound",
		"pdo_elasticscaler_signal_request_errors_total":   "",
		"pdo_prometheus_query_errors_total":               "",
	} {
		if got, ok := a.values(t, name)[value]; !ok || got != 0 {
			t.Errorf("%s begins with %v, want 0 for %q", name, a.values(t, name), value)
		}
	}
}
