package scalerspec

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/yaml"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/algorithm"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/pipeline"
	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

func registry(t testing.TB, others ...scaling.ScalingAlgorithm) *scaling.Registry {
	t.Helper()
	r := scaling.NewRegistry()
	if err := algorithm.Register(r); err != nil {
		t.Fatal(err)
	}
	for _, a := range others {
		if err := r.Register(a); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// parse reads a scaler of namespace ns.
func parse(t testing.TB, manifest string) *v1alpha1.ElasticScaler {
	t.Helper()
	s := &v1alpha1.ElasticScaler{}
	if err := yaml.UnmarshalStrict([]byte(manifest), s); err != nil {
		t.Fatalf("%v\n%s", err, manifest)
	}
	s.Namespace = "ns"
	return s
}

// scaler is one with a MetricsTrigger, whose spec goes on as given, and annotations.
func scaler(t testing.TB, metricsTrigger, spec string, annotations ...string) *v1alpha1.ElasticScaler {
	t.Helper()
	if !strings.Contains(metricsTrigger, "metrics:") {
		metricsTrigger += "\n      metrics: [{type: External, external: {metricsName: qps, target: {type: AverageValue, averageValue: 100}}}]"
	}
	s := parse(t, `
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: engine}
  trigger:
    type: MetricsTrigger
    metricsTrigger:
      `+metricsTrigger+"\n"+spec)
	s.Annotations = map[string]string{}
	for i := 0; i+1 < len(annotations); i += 2 {
		s.Annotations[annotations[i]] = annotations[i+1]
	}
	return s
}

var defaults = Defaults{Interval: 15 * time.Second, MaxAge: 2 * time.Minute}

func resolve(t testing.TB, s *v1alpha1.ElasticScaler) pipeline.Settings {
	t.Helper()
	settings, problem := Resolve(s, registry(t), defaults)
	if problem != nil {
		t.Fatalf("problem %s: %s", problem.Reason, problem.Message)
	}
	return settings
}

func TestDefaults(t *testing.T) {
	s := resolve(t, scaler(t, "scalingAlgorithm: ''", ""))
	if s.Algorithm.Name() != "APA" || s.MinReplicas != 1 || s.MaxReplicas != 10 || s.Window != nil {
		t.Errorf("got %s between %d and %d, window %v", s.Algorithm.Name(), s.MinReplicas, s.MaxReplicas, s.Window)
	}
	if diff := cmp.Diff(pipeline.Rules{StabilizationWindow: 30 * time.Second, SelectPolicy: "Max"}, s.ScaleUp); diff != "" {
		t.Errorf("scale-up (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(pipeline.Rules{StabilizationWindow: 180 * time.Second, SelectPolicy: "Max"}, s.ScaleDown); diff != "" {
		t.Errorf("scale-down (-want +got):\n%s", diff)
	}
	want := []pipeline.Metric{{
		MetricInfo: scaling.MetricInfo{Type: "External", Name: "qps"}, Target: 100, MaxAge: 2 * time.Minute,
		NoData: pipeline.NoData{Action: v1alpha1.NoDataHold, FailureThreshold: 3},
	}}
	if diff := cmp.Diff(want, s.Metrics, cmpopts.IgnoreFields(pipeline.Metric{}, "Key")); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

func TestFieldsGoBeforeAnnotations(t *testing.T) {
	all := []string{
		AnnotationWindow, "45", AnnotationScaleUpWindow, "5", AnnotationScaleDownWindow, "600", AnnotationScaleUpStep, "2", AnnotationScaleDownStep, "1",
	}
	s := resolve(t, scaler(t, "", "", all...))
	if *s.Window != 45*time.Second || s.ScaleUp.StabilizationWindow != 5*time.Second || s.ScaleDown.StabilizationWindow != 10*time.Minute ||
		*s.ScaleUp.MaxPodsPerStep != 2 || *s.ScaleDown.MaxPodsPerStep != 1 {
		t.Errorf("annotations alone give %+v", s)
	}
	s = resolve(t, scaler(t, "", `
  behavior:
    scaleUp: {stabilizationWindowSeconds: 0, tolerance: 50m, selectPolicy: Min, policies: [{type: Pods, value: 4, periodSeconds: 60}]}
`, all...))
	want := pipeline.Rules{
		Tolerance: new(0.05), MaxPodsPerStep: new(int32(2)), SelectPolicy: "Min",
		Policies: []autoscalingv2.HPAScalingPolicy{{Type: "Pods", Value: 4, PeriodSeconds: 60}},
	}
	if diff := cmp.Diff(want, s.ScaleUp); diff != "" {
		t.Errorf("scale-up with both (-want +got):\n%s", diff)
	}
	if s.ScaleDown.StabilizationWindow != 10*time.Minute {
		t.Errorf("scale-down, of which the behavior says nothing, has a window of %s", s.ScaleDown.StabilizationWindow)
	}
	s = resolve(t, scaler(t, "", "", AnnotationWindow, "soon", AnnotationScaleUpWindow, "-3", AnnotationScaleUpStep, "0", AnnotationScaleDownWindow, ""))
	if s.Window != nil || s.ScaleUp.StabilizationWindow != 30*time.Second || s.ScaleUp.MaxPodsPerStep != nil || s.ScaleDown.StabilizationWindow != 180*time.Second {
		t.Errorf("annotations that cannot be read give %+v", s)
	}
}

func TestMetricsAndTheirTargets(t *testing.T) {
	s := resolve(t, scaler(t, `metrics:
      - {type: Resource, resource: {metricsName: cpu, target: {type: Utilization, averageUtilization: 70}}}
      - {type: Resource, resource: {metricsName: memory, target: {type: AverageValue, averageValue: 2Gi}}}
      - {type: External, external: {metric: {name: qps}, target: {type: Value, value: 1500m}}}
      - {type: Custom, custom: {metricsName: waiting, target: {type: AverageValue, averageValue: 3}}, maxAgeSeconds: 30}
      - {type: ExternalServer, externalServer: {endpoint: prometheus:9090, metricsName: queue, query: sum(queue), target: 5}, noData: {policy: Fallback, replicas: 4, failureThreshold: 7}}
      - {type: ExternalServer, externalServer: {endpoint: prometheus:9090, metricsName: queue, query: max(queue), target: 5}, noData: {policy: Zero}}`, ""))
	want := []pipeline.Metric{
		{MetricInfo: scaling.MetricInfo{Type: "Resource", Name: "cpu"}, Target: 70},
		{MetricInfo: scaling.MetricInfo{Type: "Resource", Name: "memory"}, Target: 2 << 30},
		{MetricInfo: scaling.MetricInfo{Type: "External", Name: "qps"}, Target: 1.5},
		{MetricInfo: scaling.MetricInfo{Type: "Custom", Name: "waiting"}, Target: 3, MaxAge: 30 * time.Second},
		{MetricInfo: scaling.MetricInfo{Type: "ExternalServer", Name: "queue"}, Target: 5, NoData: pipeline.NoData{Action: v1alpha1.NoDataFallback, FailureThreshold: 7, Replicas: 4}},
		{MetricInfo: scaling.MetricInfo{Type: "ExternalServer", Name: "queue"}, Target: 5, NoData: pipeline.NoData{Action: v1alpha1.NoDataZero, FailureThreshold: 3}},
	}
	keys := map[string]bool{}
	for i := range want {
		if want[i].MaxAge == 0 {
			want[i].MaxAge = 2 * time.Minute
		}
		if want[i].NoData.Action == "" {
			want[i].NoData = pipeline.NoData{Action: v1alpha1.NoDataHold, FailureThreshold: 3}
		}
		keys[s.Metrics[i].Key] = true
	}
	if diff := cmp.Diff(want, s.Metrics, cmpopts.IgnoreFields(pipeline.Metric{}, "Key")); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	if len(keys) != len(want) {
		t.Errorf("%d metrics have %d keys", len(want), len(keys))
	}
}

func TestKeysTellWhatIsMeasured(t *testing.T) {
	key := func(metric string) string { return resolve(t, scaler(t, "metrics: ["+metric+"]", "")).Metrics[0].Key }
	same := "type: External, external: {metricsName: qps, target: {type: Value, value: "
	if key("{"+same+"1}}}") != key("{"+same+"1000m}}, noData: {policy: Zero}, maxAgeSeconds: 5}") {
		t.Error("another noData and maxAgeSeconds make it another metric")
	}
	if key("{"+same+"1}}}") == key("{"+same+"2}}}") {
		t.Error("with another target it is the same metric")
	}
}

func TestAlgorithmSettings(t *testing.T) {
	s := resolve(t, scaler(t, "scalingAlgorithm: apa\n      algorithmConfig: {upTolerance: 0.25, maxScaleUpRate: '3'}", ""))
	if diff := cmp.Diff(map[string]string{"upTolerance": "0.25", "maxScaleUpRate": "3"}, s.Config); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	for name, tc := range map[string]struct{ trigger, reason, message string }{
		"nobody registered it":    {"scalingAlgorithm: xpa", v1alpha1.ReasonAlgorithmNotRegistered, `no scaling algorithm "xpa" is registered, and the count stays: the registered ones are APA, CEL, KPA, HPA`},
		"a setting out of bounds": {"algorithmConfig: {upTolerance: -1, downTolerance: 9}", v1alpha1.ReasonAlgorithmConfigInvalid, "upTolerance must be a number from 0 to 1000"},
		"an object":               {"algorithmConfig: {upTolerance: {a: 1}}", v1alpha1.ReasonAlgorithmConfigInvalid, "upTolerance must be a string, a number or a boolean"},
		"a list":                  {"algorithmConfig: {upTolerance: [1]}", v1alpha1.ReasonAlgorithmConfigInvalid, "upTolerance must be a string, a number or a boolean"},
		"a target of 0":           {"metrics: [{type: Custom, custom: {metricsName: m, target: {type: Value, value: 0.000}}}]", v1alpha1.ReasonInvalidSpec, `the target of metric "m" must be greater than 0`},
		"no target":               {"metrics: [{type: Custom}]", v1alpha1.ReasonInvalidSpec, "must be greater than 0"},
	} {
		t.Run(name, func(t *testing.T) {
			_, problem := Resolve(scaler(t, tc.trigger, ""), registry(t), defaults)
			if problem == nil || problem.Reason != tc.reason || !strings.Contains(problem.Message, tc.message) {
				t.Errorf("got %+v, want %s with %q", problem, tc.reason, tc.message)
			}
		})
	}
	if _, problem := Resolve(parse(t, "spec: {trigger: {type: MetricsTrigger}}"), registry(t), defaults); problem == nil {
		t.Error("a MetricsTrigger without its block gives no problem")
	}
}

func TestBoundsOf(t *testing.T) {
	for name, tc := range map[string]struct {
		spec        string
		least, most any
	}{
		"left out":                     {"trigger: {type: SignalTrigger}", int32(1), int32(10)},
		"set":                          {"{minReplicas: 0, maxReplicas: 3, trigger: {type: MetricsTrigger}}", int32(0), int32(3)},
		"left out with a StateTrigger": {"trigger: {type: StateTrigger}", nil, nil},
		"half set with a StateTrigger": {"{maxReplicas: 3, trigger: {type: StateTrigger}}", nil, int32(3)},
	} {
		b := BoundsOf(parse(t, "spec:\n  "+strings.ReplaceAll(tc.spec, "\n", "\n  ")).Spec)
		value := func(p *int32) any {
			if p == nil {
				return nil
			}
			return *p
		}
		if value(b.Min) != tc.least || value(b.Max) != tc.most {
			t.Errorf("%s: got %v to %v, want %v to %v", name, value(b.Min), value(b.Max), tc.least, tc.most)
		}
	}
}

func TestNamesOfAlgorithmsAndIntervals(t *testing.T) {
	for given, want := range map[string]string{"": "APA", " ": "APA", "hpa": "HPA", " H P A": "HPA", "xPa ": "xPa", "kpa": "kpa"} {
		if got := AlgorithmName(&v1alpha1.MetricsTrigger{ScalingAlgorithm: given}); got != want {
			t.Errorf("%q is %q, want %q", given, got, want)
		}
	}
	if !IsHPA(scaler(t, "scalingAlgorithm: Hpa", "").Spec) || IsHPA(scaler(t, "", "").Spec) || IsHPA(parse(t, "spec: {trigger: {type: StateTrigger}}").Spec) {
		t.Error("IsHPA is wrong")
	}
	if got := Interval(scaler(t, "", "  intervalSeconds: 7").Spec, defaults); got != 7*time.Second {
		t.Errorf("the interval is %s, want 7s", got)
	}
	if got := Interval(scaler(t, "", "").Spec, defaults); got != 15*time.Second {
		t.Errorf("the interval is %s, want the default", got)
	}
}

// broken is a plug-in that panics, and reads no settings.
type broken struct{}

func (broken) Name() string { return "broken" }

func (broken) CalculateDesiredReplicas(context.Context, scaling.Input) (scaling.Result, error) {
	return scaling.Result{}, nil
}

func (broken) Validate(map[string]string, []scaling.MetricInfo) []error { panic("oh no") }

func TestValidate(t *testing.T) {
	const pods = "metrics: [{type: Resource, resource: {metricsName: cpu, target: {type: Utilization, averageUtilization: 70}}}]"
	query := func(q string) string {
		return "metrics: [{type: ExternalServer, externalServer: {endpoint: p, metricsName: m, target: 5, query: '" + q + "'}}]"
	}
	cases := map[string]struct {
		scaler   *v1alpha1.ElasticScaler
		errors   []string // the path, and what the message holds
		warnings []string // what each holds
	}{
		"nothing to say": {scaler: scaler(t, "", "")},
		"another trigger": {
			scaler: parse(t, "spec: {trigger: {type: StateTrigger}}"),
		},
		"an annotation that is no number": {
			scaler: scaler(t, "", "", AnnotationWindow, "30s"), errors: []string{"metadata.annotations[elasticscaler.io/metrics.windowSeconds]: must be a whole number from 0 to 3600"},
		},
		"an annotation out of bounds": {
			scaler: scaler(t, "", "", AnnotationScaleUpStep, "0", AnnotationScaleDownWindow, "3601"),
			errors: []string{
				"metadata.annotations[elasticscaler.io/behavior.scaleDown.stabilizationWindowSeconds]: must be a whole number from 0 to 3600",
				"metadata.annotations[elasticscaler.io/behavior.scaleUp.maxPodsPerStep]: must be a whole number from 1 to 2147483647",
			},
		},
		"an annotation that is not known":     {scaler: scaler(t, "", "", "elasticscaler.io/metrics.window", "5", "example.com/x", "y"), warnings: []string{"elasticscaler.io/metrics.window is not known"}},
		"an annotation that a field hides":    {scaler: scaler(t, "", "  behavior: {scaleUp: {stabilizationWindowSeconds: 0}}", AnnotationScaleUpWindow, "5", AnnotationScaleDownWindow, "5"), warnings: []string{"annotation elasticscaler.io/behavior.scaleUp.stabilizationWindowSeconds has no effect, since spec.behavior.scaleUp.stabilizationWindowSeconds is set"}},
		"an annotation with HPA":              {scaler: scaler(t, "scalingAlgorithm: HPA", "", AnnotationWindow, "5"), warnings: []string{"has no effect with scalingAlgorithm HPA"}},
		"a tolerance below 0":                 {scaler: scaler(t, "", "  behavior: {scaleUp: {tolerance: -100m}}"), errors: []string{"spec.behavior.scaleUp.tolerance: must be 0 or more"}},
		"two tolerances":                      {scaler: scaler(t, "algorithmConfig: {downTolerance: 0.2}", "  behavior: {scaleDown: {tolerance: 100m}}"), warnings: []string{"spec.trigger.metricsTrigger.algorithmConfig[downTolerance] has no effect, since spec.behavior.scaleDown.tolerance is set"}},
		"a target of 0 in another spelling":   {scaler: scaler(t, "metrics: [{type: External, external: {metricsName: q, target: {type: Value, value: 0.000}}}]", ""), errors: []string{"spec.trigger.metricsTrigger.metrics[0].external.target.value: must be greater than 0"}},
		"a query":                             {scaler: scaler(t, query("sum(rate(requests_total[1m]))"), "")},
		"a query that gives a number":         {scaler: scaler(t, query("scalar(up)"), "")},
		"a query that is none":                {scaler: scaler(t, query("sum(up"), ""), errors: []string{"spec.trigger.metricsTrigger.metrics[0].externalServer.query: must be a PromQL expression"}},
		"a query that gives a range":          {scaler: scaler(t, query("up[5m]"), ""), errors: []string{"must give one number, and gives a range vector"}},
		"a query that gives a text":           {scaler: scaler(t, query("\"up\""), ""), errors: []string{"must give one number, and gives a string"}},
		"to 0 with metrics of pods only":      {scaler: scaler(t, pods, "  minReplicas: 0"), warnings: []string{"spec.minReplicas is 0, and every metric vanishes with the last pod"}},
		"to 0 with another metric":            {scaler: scaler(t, "", "  minReplicas: 0")},
		"an algorithm that nobody registered": {scaler: scaler(t, "scalingAlgorithm: xpa\n      algorithmConfig: {threshold: 0.8, cooldownSeconds: 60}", ""), warnings: []string{`no scaling algorithm "xpa" is registered, and the count stays: the registered ones are APA, broken, CEL, KPA, HPA`}},
		"a setting that is an object":         {scaler: scaler(t, "scalingAlgorithm: xpa\n      algorithmConfig: {threshold: {a: 1}}", ""), errors: []string{"spec.trigger.metricsTrigger.algorithmConfig: threshold must be a string, a number or a boolean"}, warnings: []string{"no scaling algorithm"}},
		"a setting that nothing reads":        {scaler: scaler(t, "algorithmConfig: {uptolerance: 0.2}", ""), warnings: []string{"algorithmConfig[uptolerance] is not read by scalingAlgorithm APA, which reads upTolerance, downTolerance, maxScaleUpRate, maxScaleDownRate"}},
		"a setting that cannot be used":       {scaler: scaler(t, "algorithmConfig: {upTolerance: lots}", ""), errors: []string{"spec.trigger.metricsTrigger.algorithmConfig: upTolerance must be a number"}},
		"an expression of another metric":     {scaler: scaler(t, "scalingAlgorithm: CEL\n      algorithmConfig: {expression: metrics.qpss.value}", ""), errors: []string{`uses metric "qpss", which is none of the metrics qps`}},
		"an expression in brackets":           {scaler: scaler(t, "scalingAlgorithm: CEL\n      algorithmConfig: {expression: '[1, replicas][1]'}", "")},
		"KPA behind a window":                 {scaler: scaler(t, "scalingAlgorithm: kpa", ""), warnings: []string{"KPA answers a burst within its panic window only with spec.behavior.scaleUp.stabilizationWindowSeconds: 0"}},
		"KPA":                                 {scaler: scaler(t, "scalingAlgorithm: kpa", "  behavior: {scaleUp: {stabilizationWindowSeconds: 0}}")},
		"a plug-in that panics":               {scaler: scaler(t, "scalingAlgorithm: broken", ""), errors: []string{"scaling algorithm broken panicked while it checked its settings: oh no"}},
		"HPA":                                 {scaler: scaler(t, "scalingAlgorithm: HPA", "  behavior: {scaleUp: {stabilizationWindowSeconds: 0}}")},
		"HPA with a target elsewhere":         {scaler: elsewhere(scaler(t, "scalingAlgorithm: HPA", "")), errors: []string{"spec.targetRef.namespace: must be the namespace of the ElasticScaler, ns, with scalingAlgorithm HPA"}},
		"HPA with an ExternalServer":          {scaler: scaler(t, "scalingAlgorithm: ' hpa'\n      "+query("up"), ""), errors: []string{"metrics[0].externalServer: a HorizontalPodAutoscaler cannot read one"}},
		"HPA to 0 with metrics of pods":       {scaler: scaler(t, "scalingAlgorithm: HPA\n      "+pods, "  minReplicas: 0"), errors: []string{"spec.minReplicas: must be 1 or more with scalingAlgorithm HPA and no External metric"}, warnings: []string{"every metric vanishes"}},
		"HPA to 0":                            {scaler: scaler(t, "scalingAlgorithm: HPA", "  minReplicas: 0"), warnings: []string{"HPAScaleToZero"}},
		"HPA with settings of another":        {scaler: scaler(t, "scalingAlgorithm: HPA\n      algorithmConfig: {upTolerance: 0.2}", ""), warnings: []string{"algorithmConfig has no effect with scalingAlgorithm HPA"}},
		"a target elsewhere without HPA":      {scaler: elsewhere(scaler(t, "", ""))},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			errs, warnings := Validate(tc.scaler, registry(t, broken{}))
			var got []string
			for _, err := range errs {
				got = append(got, err.Field+": "+err.Detail)
			}
			matches(t, "errors", tc.errors, got)
			matches(t, "warnings", tc.warnings, warnings)
		})
	}
}

func elsewhere(s *v1alpha1.ElasticScaler) *v1alpha1.ElasticScaler {
	s.Spec.TargetRef.Namespace = "other"
	return s
}

func matches(t *testing.T, what string, want, got []string) {
	t.Helper()
	ok := len(want) == len(got)
	for i := range want {
		ok = ok && strings.Contains(got[i], want[i])
	}
	if !ok {
		t.Errorf("%s:\n  %s\nwant\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func FuzzValidate(f *testing.F) {
	f.Add("APA", "upTolerance", "0.1", "30", "sum(up)")
	f.Add("CEL", "expression", "metrics.m.value", "-1", "up[5m]")
	f.Add("kpa", "stableWindowSeconds", "{", "", "")
	r := registry(f)
	f.Fuzz(func(t *testing.T, name, key, value, annotation, query string) {
		s := scaler(t, "metrics: [{type: ExternalServer, externalServer: {endpoint: p, metricsName: m, target: 5}}]", "", AnnotationWindow, annotation)
		trigger := s.Spec.Trigger.MetricsTrigger
		trigger.ScalingAlgorithm, trigger.AlgorithmConfig = name, map[string]v1alpha1.ConfigValue{key: v1alpha1.ConfigValue(value)}
		trigger.Metrics[0].ExternalServer.Query = query
		errs, _ := Validate(s, r)
		settings, problem := Resolve(s, r, defaults)
		if problem != nil && problem.Reason == v1alpha1.ReasonAlgorithmConfigInvalid && len(errs) == 0 && !IsHPA(s.Spec) {
			t.Fatalf("admission has nothing against what the controller refuses: %s", problem.Message)
		}
		if problem == nil && (settings.Window != nil && (*settings.Window < 0 || *settings.Window > time.Hour) || settings.Algorithm == nil) {
			t.Fatalf("resolved to %+v", settings)
		}
	})
}
