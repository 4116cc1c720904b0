package policyspec

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
)

// triggers is a policy with these triggers.
func triggers(list ...string) string {
	return `{class: KEDA, keda: {triggers: [` + strings.Join(list, ", ") + `]}}`
}

// asking is a policy with one good trigger but for its query.
func asking(query string) string {
	return triggers(`{type: prometheus, providerRef: {name: p}, metadata: {query: '` + query + `', threshold: "5", ignoreNullValues: "false"}}`)
}

const (
	goodTrigger = `{type: prometheus, providerRef: {name: p}, metricType: AverageValue, metadata: {query: "sum(up)", threshold: "5", ignoreNullValues: "false"}}`
	cpuTrigger  = `{type: cpu, metadata: {value: "60"}}`
)

// hpaPolicy is a policy with one metric.
func hpaPolicy(metric string) string { return `{class: HPA, hpa: {metrics: [` + metric + `]}}` }

func TestValidate(t *testing.T) {
	tests := map[string]struct {
		spec string
		want []string
	}{
		"a good KEDA policy":   {triggers(goodTrigger), nil},
		"a good HPA policy":    {hpaPolicy(`{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}`), nil},
		"an HPA policy of CPU": {`{class: HPA}`, nil},

		"enforcement Required": {`{class: HPA, enforcement: Required}`, []string{"EnforcementRequiredReserved: enforcement Required is reserved; it must be Default or left out"}},
		"KEDA without keda":    {`{class: KEDA}`, []string{"ClassTemplateMismatch: class KEDA requires a keda template"}},
		"KEDA with hpa": {`{class: KEDA, hpa: {}, keda: {triggers: [` + goodTrigger + `]}}`,
			[]string{"ClassTemplateMismatch: class KEDA forbids an hpa template"}},
		"HPA with keda": {`{class: HPA, keda: {triggers: [` + goodTrigger + `]}}`, []string{"ClassTemplateMismatch: class HPA forbids a keda template"}},
		"class of inline blocks": {`{class: External}`,
			[]string{`ClassTemplateMismatch: class "External" is not allowed in policies (External and None are inline-only)`}},
		"no triggers": {triggers(), []string{"KedaTriggersRequired: class=keda requires at least 1 trigger"}},

		"an address of its own": {triggers(`{type: prometheus, providerRef: {name: p}, metadata: {query: up, threshold: "5", ignoreNullValues: "", SERVERaddress: a, authModes: b}}`),
			[]string{
				`ForbiddenMetadataKey: trigger 0: metadata key "SERVERaddress" is provider-owned; bind endpoints via providerRef`,
				`ForbiddenMetadataKey: trigger 0: metadata key "authModes" is provider-owned; bind endpoints via providerRef`,
			}},
		"an address of another type of trigger": {triggers(goodTrigger, `{type: kafka, metadata: {serverAddress: a}}`),
			[]string{`ForbiddenMetadataKey: trigger 1: metadata key "serverAddress" is provider-owned; bind endpoints via providerRef`}},
		"no provider": {triggers(`{type: Prometheus, metadata: {query: up, threshold: "5", ignoreNullValues: "true"}}`),
			[]string{"ProviderRefRequired: trigger 0 (Prometheus): providerRef is required for endpoint trigger types"}},
		"ignoreNullValues left out": {triggers(`{type: prometheus, providerRef: {name: p}, metadata: {query: up, threshold: "5", ignorenullvalues: "true"}}`),
			[]string{`IgnoreNullValuesMustBeExplicit: trigger 0 (prometheus): metadata must have the key ignoreNullValues, since KEDA's default of true turns "no series" into a healthy zero; set it to "false", or to "true" if that is meant`}},
		"a count without metricType": {triggers(`{type: prometheus, queryReturnsDesiredReplicas: true, providerRef: {name: p}, metadata: {query: up, threshold: "1", ignoreNullValues: "false"}}`),
			[]string{"DesiredCountRequiresAverageValue: trigger 0: metricType must be AverageValue with queryReturnsDesiredReplicas; with Value the HorizontalPodAutoscaler computes ceil((metric/threshold) x readyPods), which turns a count of N into N times the pods"}},
		"a count with Value": {triggers(`{type: prometheus, metricType: Value, queryReturnsDesiredReplicas: true, providerRef: {name: p}, metadata: {query: up, threshold: "1", ignoreNullValues: "false"}}`),
			[]string{"DesiredCountRequiresAverageValue: trigger 0: "}},
		"a count with AverageValue": {triggers(`{type: prometheus, metricType: AverageValue, queryReturnsDesiredReplicas: true, providerRef: {name: p}, metadata: {query: up, threshold: "1", ignoreNullValues: "false"}}`), nil},

		"fallback without a source": {`{class: KEDA, keda: {triggers: [` + goodTrigger + `], fallback: {failureThreshold: 1}}}`,
			[]string{"ValueSourceInvalid: keda.fallback.replicas: exactly one of value or fromComponent must be set"}},
		"fallback with two sources": {`{class: KEDA, keda: {triggers: [` + goodTrigger + `], fallback: {failureThreshold: 1, replicas: {value: 1, fromComponent: MinReplicas}}}}`,
			[]string{"ValueSourceInvalid: keda.fallback.replicas: exactly one of value or fromComponent must be set"}},
		"fallback of cpu and memory": {`{class: KEDA, keda: {triggers: [` + cpuTrigger + `], fallback: {failureThreshold: 1, replicas: {value: 1}}}}`,
			[]string{"KedaFallbackIgnored: keda.fallback must go with at least one trigger that is not cpu or memory, or else KEDA ignores it"}},
		"fallback of a formula with a fraction as its target": {`{class: KEDA, keda: {triggers: [` + goodTrigger + `], advanced: {scalingModifiers: {formula: "1", target: "2.5"}}, fallback: {failureThreshold: 1, replicas: {value: 1}}}}`,
			[]string{`KedaFallbackIgnored: keda.advanced.scalingModifiers.target is "2.5", which must be a whole number greater than 0, or else KEDA ignores the fallback`}},
		"fallback of a formula": {`{class: KEDA, keda: {triggers: [` + cpuTrigger + `], advanced: {scalingModifiers: {formula: "1", target: "2"}}, fallback: {failureThreshold: 1, replicas: {value: 1}}}}`, nil},

		"a function": {asking(`{{ printf "up" }}`), []string{`ForbiddenTemplateNode: trigger 0: metadata key "query": forbidden template construct {{printf "up"}}: allowed are .Namespace, .ISVCName,`}},
		"an unknown variable": {asking(`up{a="{{ .Pod }}"}`),
			[]string{`ForbiddenTemplateNode: trigger 0: metadata key "query": forbidden template construct: unknown template variable .Pod: allowed variables are .Namespace, .ISVCName, .Component, .MinReplicas, .MaxReplicas, .TargetName`}},
		"a loop":              {asking(`{{ range .Namespace }}{{ end }}`), []string{"ForbiddenTemplateNode: trigger 0: "}},
		"a broken template":   {asking(`up{a="{{ .Namespace"}`), []string{`ParseError: trigger 0: metadata key "query": `}},
		"templates of others": {triggers(goodTrigger, `{type: kafka, metadata: {a: "{{ .X }}", b: "{{"}}`), []string{`ForbiddenTemplateNode: trigger 1: metadata key "a": `, `ParseError: trigger 1: metadata key "b": `}},

		"no query":             {triggers(`{type: prometheus, providerRef: {name: p}, metadata: {threshold: "5", ignoreNullValues: "false"}}`), []string{"QueryRequired: trigger 0 (prometheus): metadata must have the key query with a PromQL expression"}},
		"a query of blanks":    {asking(" "), []string{"QueryRequired: trigger 0 (prometheus): "}},
		"no threshold":         {triggers(`{type: prometheus, providerRef: {name: p}, metadata: {query: up, ignoreNullValues: "false"}}`), []string{`ThresholdInvalid: trigger 0 (prometheus): metadata key threshold is "", which must be a number greater than 0, such as "5"`}},
		"a rendered threshold": {triggers(`{type: prometheus, providerRef: {name: p}, metadata: {query: up, threshold: "0.{{ .MaxReplicas }}", ignoreNullValues: "false"}}`), nil},
		"a rendered threshold that is no number": {triggers(`{type: prometheus, providerRef: {name: p}, metadata: {query: up, threshold: "{{ .ISVCName }}", ignoreNullValues: "false"}}`),
			[]string{`ThresholdInvalid: trigger 0 (prometheus): metadata key threshold is "sample-isvc"`}},

		"no PromQL":     {asking(`sum(up`), []string{"PromQLInvalid: trigger 0: rendered query does not parse as PromQL: "}},
		"a printf verb": {asking(`sum(up{a="%s"}) % 7`), nil},
		"the trap": {asking(`sum(up{isvc="{{ .ISVCName }}"}) > bool 0 * {{ .MaxReplicas }}`),
			[]string{`PromQLInvalid: trigger 0: comparison "sum(up{isvc=\"sample-isvc\"}) > bool 0 * 4" folds the arithmetic into its threshold ("0 * 4") - parenthesize the comparison, e.g. (sum(...) > bool N) * M`}},
		"the trap with a longer right side": {asking(`sum(up) > bool 0 * 8 * 2`), []string{`PromQLInvalid: trigger 0: comparison "sum(up) > bool 0 * 8 * 2" folds`}},
		"the trap by addition":              {asking(`sum(up) >= bool 0 + 1`), []string{"PromQLInvalid: trigger 0: comparison "}},
		"the trap deep inside":              {asking(`max(sum(up) > bool -(1) * 2 or vector(0)) + 1`), []string{"PromQLInvalid: trigger 0: comparison "}},
		"the comparison in parentheses":     {asking(`(sum(up) > bool 0) * {{ .MaxReplicas }}`), nil},
		"the threshold in parentheses":      {asking(`sum(up) > bool (0 * 8)`), nil},
		"a comparison without bool":         {asking(`sum(up) > 0 * 8`), nil},
		"a right side that reads series":    {asking(`sum(up) > bool 0 * scalar(x)`), nil},

		"Utilization of prometheus": {triggers(`{type: prometheus, metricType: Utilization, providerRef: {name: p}, metadata: {query: up, threshold: "5", ignoreNullValues: "false"}}`),
			[]string{"KedaTriggerInvalid: trigger 0: metricType Utilization must be AverageValue or Value for type prometheus; only cpu and memory have a utilization"}},
		"Value of cpu": {triggers(`{type: cpu, metricType: Value, metadata: {value: "60"}}`), []string{"KedaTriggerInvalid: trigger 0: metricType Value must be Utilization or AverageValue for type cpu"}},

		"behavior of KEDA's HPA": {`{class: KEDA, keda: {triggers: [` + goodTrigger + `], advanced: {horizontalPodAutoscalerConfig: {behavior: {scaleUp: {stabilizationWindowSeconds: 3601}}}}}}`,
			[]string{"HPABehaviorMalformed: keda.advanced.horizontalPodAutoscalerConfig.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 3601: must be from 0 to 3600"}},

		"all findings at once": {triggers(`{type: prometheus, queryReturnsDesiredReplicas: true, metadata: {serverAddress: x, a: "{{ .X }}"}}`, asking("sum(")[len(`{class: KEDA, keda: {triggers: [`):len(asking("sum("))-len(`]}}`)]),
			[]string{"ForbiddenMetadataKey: trigger 0: ", "DesiredCountRequiresAverageValue: trigger 0: ", "IgnoreNullValuesMustBeExplicit: trigger 0 ", "ProviderRefRequired: trigger 0 ",
				"ForbiddenTemplateNode: trigger 0: ", "QueryRequired: trigger 0 ", "ThresholdInvalid: trigger 0 ", "PromQLInvalid: trigger 1: "}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			checkFindings(t, Validate(testkit.FromYAML[v1beta1.AutoscalerPolicySpec](t, tt.spec)), tt.want)
		})
	}
}

// checkFindings compares findings with the beginnings of those that are wanted, in their order.
func checkFindings(t *testing.T, got []Finding, want []string) {
	t.Helper()
	ok := len(got) == len(want)
	for i := range want {
		ok = ok && strings.HasPrefix(got[i].String(), want[i])
	}
	if !ok {
		t.Errorf("the findings are\n  %s\nwant them to begin with\n  %s", strings.ReplaceAll(Join(got), "; ", ";\n  "), strings.Join(want, "\n  "))
	}
}

// TestHPAMetrics: each metric that the API server would refuse is found, and none that it would take.
func TestHPAMetrics(t *testing.T) {
	for metric, want := range map[string]string{
		`{type: Resource, resource: {name: cpu, target: {type: AverageValue, averageValue: 500m}}}`:                                                 "",
		`{type: ContainerResource, containerResource: {name: cpu, container: main, target: {type: Utilization, averageUtilization: 60}}}`:           "",
		`{type: Pods, pods: {metric: {name: q}, target: {type: AverageValue, averageValue: "5"}}}`:                                                  "",
		`{type: Object, object: {describedObject: {apiVersion: v1, kind: Service, name: s}, metric: {name: q}, target: {type: Value, value: "5"}}}`: "",
		`{type: External, external: {metric: {name: q, selector: {matchLabels: {a: b}}}, target: {type: AverageValue, averageValue: "5"}}}`:         "",
		`{type: Queue}`: `hpa.metrics[0].type: Invalid value: "Queue": must be Resource, ContainerResource, Pods, Object or External`,
		`{type: ""}`:    `hpa.metrics[0].type: Invalid value: "": must be Resource,`,
		`{type: Pods}`:  "hpa.metrics[0].pods: Required value: must be set for type Pods",
		`{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}, external: {metric: {name: q}, target: {type: Value, value: "5"}}}`: "hpa.metrics[0].external: Forbidden: must be left out for type Resource",
		`{type: Resource, resource: {name: "", target: {type: Utilization, averageUtilization: 60}}}`:                                                                    "hpa.metrics[0].resource.name: Required value",
		`{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 0}}}`:                                                                    "hpa.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0",
		`{type: Resource, resource: {name: cpu, target: {type: Utilization}}}`:                                                                                           "hpa.metrics[0].resource.target: Required value: must have either averageUtilization or averageValue",
		`{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60, averageValue: "1"}}}`:                                                "hpa.metrics[0].resource.target: Required value: must have either",
		`{type: Resource, resource: {name: cpu, target: {type: Percent, averageUtilization: 60}}}`:                                                                       `hpa.metrics[0].resource.target.type: Invalid value: "Percent": must be Utilization, Value or AverageValue`,
		`{type: ContainerResource, containerResource: {name: cpu, container: "", target: {type: Utilization, averageUtilization: 60}}}`:                                  "hpa.metrics[0].containerResource.container: Invalid value",
		`{type: Pods, pods: {metric: {name: ""}, target: {type: AverageValue, averageValue: "5"}}}`:                                                                      "hpa.metrics[0].pods.metric.name: Required value",
		`{type: Pods, pods: {metric: {name: a/b}, target: {type: AverageValue, averageValue: "5"}}}`:                                                                     "hpa.metrics[0].pods.metric.name: Invalid value",
		`{type: Pods, pods: {metric: {name: q}, target: {type: Value, value: "5"}}}`:                                                                                     "hpa.metrics[0].pods.target.averageValue: Required value: must be set for type Pods",
		`{type: Object, object: {describedObject: {kind: "", name: s}, metric: {name: q}, target: {type: Value, value: "5"}}}`:                                           "hpa.metrics[0].object.describedObject.kind: Required value",
		`{type: Object, object: {describedObject: {apiVersion: a/b/c, kind: A, name: s}, metric: {name: q}, target: {type: Value, value: "5"}}}`:                         `hpa.metrics[0].object.describedObject.apiVersion: Invalid value: "a/b/c"`,
		`{type: Object, object: {describedObject: {kind: A, name: s}, metric: {name: q}, target: {type: Value}}}`:                                                        "hpa.metrics[0].object.target: Required value: must have value or averageValue",
		`{type: External, external: {metric: {name: q}, target: {type: Value, value: "0"}}}`:                                                                             `hpa.metrics[0].external.target.value: Invalid value: "0": must be greater than 0`,
		`{type: External, external: {metric: {name: q}, target: {type: Value, value: "1", averageValue: "1"}}}`:                                                          "hpa.metrics[0].external.target: Required value: must have either value or averageValue",
	} {
		t.Run(metric, func(t *testing.T) {
			var all []string
			if want != "" {
				all = []string{"HPAMetricMalformed: " + want}
			}
			checkFindings(t, Validate(testkit.FromYAML[v1beta1.AutoscalerPolicySpec](t, hpaPolicy(metric))), all)
		})
	}
}

func TestHPABehavior(t *testing.T) {
	for behavior, want := range map[string]string{
		`{scaleUp: {selectPolicy: Disabled}, scaleDown: {stabilizationWindowSeconds: 0, policies: [{type: Percent, value: 10, periodSeconds: 1800}]}}`: "",
		`{scaleDown: {stabilizationWindowSeconds: -1}}`:                        "hpa.behavior.scaleDown.stabilizationWindowSeconds: Invalid value: -1: must be from 0 to 3600",
		`{scaleDown: {selectPolicy: Most}}`:                                    `hpa.behavior.scaleDown.selectPolicy: Invalid value: "Most": must be Max, Min or Disabled`,
		`{scaleUp: {tolerance: "-0.1"}}`:                                       "hpa.behavior.scaleUp.tolerance: Invalid value",
		`{scaleUp: {policies: [{type: Share, value: 1, periodSeconds: 1}]}}`:   `hpa.behavior.scaleUp.policies[0].type: Invalid value: "Share": must be Pods or Percent`,
		`{scaleUp: {policies: [{type: Pods, value: 0, periodSeconds: 1}]}}`:    "hpa.behavior.scaleUp.policies[0].value: Invalid value: 0",
		`{scaleUp: {policies: [{type: Pods, value: 1, periodSeconds: 1801}]}}`: "hpa.behavior.scaleUp.policies[0].periodSeconds: Invalid value: 1801: must be from 1 to 1800",
	} {
		t.Run(behavior, func(t *testing.T) {
			var all []string
			if want != "" {
				all = []string{"HPABehaviorMalformed: " + want}
			}
			checkFindings(t, Validate(testkit.FromYAML[v1beta1.AutoscalerPolicySpec](t, `{class: HPA, hpa: {behavior: `+behavior+`}}`)), all)
		})
	}
}

func TestKeda(t *testing.T) {
	const triggers = "spec.keda.triggers"
	for block, want := range map[string]string{
		`{triggers: [{type: cpu, metricType: Utilization, metadata: {value: "60"}}]}`:                                   "",
		`{triggers: [{type: prometheus, name: a, metadata: {query: up, threshold: "5"}}, {type: kafka, metadata: {}}]}`: "",
		`{}`: "KedaTriggersRequired: class=keda requires at least 1 trigger",
		`{triggers: [{type: prometheus, metadata: {threshold: "5"}}]}`:                                                                      "QueryRequired: " + triggers + "[0]: metadata must have the key query",
		`{triggers: [{type: prometheus, metadata: {query: up, threshold: "NaN"}}]}`:                                                         "ThresholdInvalid: " + triggers + `[0]: metadata key threshold is "NaN"`,
		`{triggers: [{type: prometheus, metadata: {query: up, threshold: "inf"}}]}`:                                                         "ThresholdInvalid: " + triggers + "[0]: ",
		`{triggers: [{type: prometheus, metadata: {query: up, threshold: "-1"}}]}`:                                                          "ThresholdInvalid: " + triggers + "[0]: ",
		`{triggers: [{type: kafka, metricType: Utilization, metadata: {}}]}`:                                                                "KedaTriggerInvalid: " + triggers + "[0]: metricType Utilization must be AverageValue or Value for type kafka",
		`{triggers: [{type: kafka, name: a, metadata: {}}, {type: kafka, name: a, metadata: {}}]}`:                                          "KedaTriggerInvalid: " + triggers + `[1].name: Duplicate value: "a"`,
		`{triggers: [{type: cron, useCachedMetrics: true, metadata: {}}]}`:                                                                  "KedaTriggerInvalid: " + triggers + "[0].useCachedMetrics: must be left out for type cron",
		`{triggers: [{type: memory, metadata: {}}], fallback: {failureThreshold: 1, replicas: 1}}`:                                          "KedaFallbackIgnored: spec.keda.fallback must go with at least one trigger",
		`{triggers: [{type: kafka, metadata: {}}], fallback: {failureThreshold: 1, replicas: 1, behavior: scalingModifiers}}`:               "KedaFallbackIgnored: spec.keda.fallback.behavior: scalingModifiers must have a formula",
		`{triggers: [{type: kafka, metadata: {}}], advanced: {horizontalPodAutoscalerConfig: {behavior: {scaleUp: {selectPolicy: Most}}}}}`: "HPABehaviorMalformed: spec.keda.advanced.horizontalPodAutoscalerConfig.behavior.scaleUp.selectPolicy",
	} {
		t.Run(block, func(t *testing.T) {
			var all []string
			if want != "" {
				all = []string{want}
			}
			k := testkit.FromYAML[v1beta1.KedaAutoscaler](t, block)
			checkFindings(t, Keda(&k, field.NewPath("spec", "keda")), all)
		})
	}
}

func TestWarnings(t *testing.T) {
	for spec, want := range map[string]string{
		triggers(goodTrigger): "",
		`{class: HPA}`:        "",
		`{class: KEDA, keda: {triggers: [{type: kafka, metricType: Value, metadata: {}}], fallback: {failureThreshold: 1, replicas: {value: 1}}}}`:     "trigger 0 (kafka): with metricType Value KEDA computes the fallback from the ready pods",
		triggers(`{type: kafka, providerRef: {name: p}, metadata: {}}`):                                                                                "trigger 0 (kafka): providerRef has no effect",
		`{class: KEDA, keda: {triggers: [` + goodTrigger + `], advanced: {horizontalPodAutoscalerConfig: {name: mine}}}}`:                              `advanced.horizontalPodAutoscalerConfig.name "mine" is one name`,
		triggers(`{type: prometheus, queryReturnsDesiredReplicas: true, providerRef: {name: p}, metadata: {query: "sum(up) > bool 0 * scalar(x)"}}`):   `trigger 0: comparison "sum(up) > bool 0 * scalar(x)" takes the arithmetic`,
		triggers(`{type: prometheus, providerRef: {name: p}, metadata: {query: "sum(up) > bool 0 * scalar(x)"}}`):                                      "",
		triggers(`{type: prometheus, queryReturnsDesiredReplicas: true, providerRef: {name: p}, metadata: {query: "(sum(up) > bool 0) * scalar(x)"}}`): "",
	} {
		checkWarnings(t, spec, Warnings(testkit.FromYAML[v1beta1.AutoscalerPolicySpec](t, spec)), want)
	}
}

func TestKedaWarnings(t *testing.T) {
	const fallback = `{triggers: [{type: kafka, metadata: {}}], fallback: {failureThreshold: 1, replicas: 3}}`
	for _, tt := range []struct {
		block   string
		minimum int32
		want    string
	}{
		{fallback, 1, ""},
		{fallback, 0, "keda.fallback: KEDA does not start a component from 0 replicas"},
		{`{idleReplicaCount: 0, triggers: [{type: kafka, metadata: {}}], fallback: {failureThreshold: 1, replicas: 3}}`, 1, "keda.fallback: KEDA does not start"},
		{`{triggers: [{type: kafka, metadata: {}}], fallback: {failureThreshold: 1, replicas: 0}}`, 0, ""},
		{`{triggers: [{type: kafka, metricType: Value, metadata: {}}], fallback: {failureThreshold: 1, replicas: 3}}`, 1, "keda.triggers[0]: with metricType Value"},
		{`{triggers: [{type: kafka, metricType: Value, metadata: {}}]}`, 0, ""},
	} {
		k := testkit.FromYAML[v1beta1.KedaAutoscaler](t, tt.block)
		checkWarnings(t, tt.block, KedaWarnings(&k, field.NewPath("keda"), tt.minimum), tt.want)
	}
}

func checkWarnings(t *testing.T, of string, got []string, want string) {
	t.Helper()
	if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], want)) {
		t.Errorf("the warnings of %s are %q, want one that begins with %q", of, got, want)
	}
}

// FuzzQuery: no query brings the parser or the check down.
func FuzzQuery(f *testing.F) {
	for _, text := range []string{"up", "sum(up) > bool 0 * 8 * 2", "(a > bool 1) * 2", "a > bool -1 + (2 ^ 3)", "max_over_time(up[5m:1m] @ end())", `{"a.b"}`} {
		f.Add(text)
	}
	f.Fuzz(func(_ *testing.T, text string) {
		query(text)
		foldedSeries(text)
	})
}
