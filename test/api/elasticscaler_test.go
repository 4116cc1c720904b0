package api_test

import (
	"strings"
	"testing"
)

const scalerOnMetrics = `
apiVersion: elasticscaler.io/v1alpha1
kind: ElasticScaler
metadata: {name: varied, namespace: ai-inference}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: vllm}
  minReplicas: 1
  maxReplicas: 10
  trigger:
    type: MetricsTrigger
    metricsTrigger:
      scalingAlgorithm: APA
      metrics:
      - type: Resource
        resource: {metricsName: cpu, target: {type: Utilization, averageUtilization: 70}}
`

const scalerOnState = `
apiVersion: elasticscaler.io/v1alpha1
kind: ElasticScaler
metadata: {name: varied, namespace: ai-inference}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: vllm}
  trigger: {type: StateTrigger}
`

const scalerOnSignal = `
apiVersion: elasticscaler.io/v1alpha1
kind: ElasticScaler
metadata: {name: varied, namespace: ai-inference}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: vllm}
  trigger: {type: SignalTrigger, signalTrigger: {endpoint: "https://signals.example.com/scale"}}
`

// oneMetric is a patch that replaces the metrics by one.
func oneMetric(metric string) string {
	return `{spec: {trigger: {metricsTrigger: {metrics: [` + metric + `]}}}}`
}

func TestElasticScalerRefused(t *testing.T) {
	// Kubernetes 1.28 joins the path of a second finding to that of the first.
	second := ""
	if strings.HasPrefix(kubernetesVersion, "1.28.") {
		second = "averageUtilization."
	}
	const metric = "spec.trigger.metricsTrigger.metrics[0]"
	refuseAll(t, scalerOnMetrics, []variation{
		{"no spec", `{spec: null}`, []string{"spec: Required value"}},
		{"no target", `{spec: {targetRef: null}}`, []string{"spec.targetRef: Required value"}},
		{"target without kind", `{spec: {targetRef: {kind: null}}}`, []string{"spec.targetRef.kind: Required value"}},
		{"target without name", `{spec: {targetRef: {name: null}}}`, []string{"spec.targetRef.name: Required value"}},
		{"target with empty name", `{spec: {targetRef: {name: ""}}}`, []string{"spec.targetRef.name", "at least 1 chars long"}},
		{"target is an ElasticScaler", `{spec: {targetRef: {apiVersion: elasticscaler.io/v1alpha1, kind: ElasticScaler}}}`,
			[]string{"spec.targetRef.kind", "must be one that has a scale subresource", "name the workload"}},
		{"target is an HPA", `{spec: {targetRef: {kind: horizontalpodautoscaler}}}`, []string{"spec.targetRef.kind", "not a scaler"}},
		{"target is a DaemonSet", `{spec: {targetRef: {kind: DaemonSet}}}`, []string{"spec.targetRef.kind", "this kind has none"}},
		{"target is a Tidal without a StateTrigger", `{spec: {targetRef: {apiVersion: tidal.io/v1alpha1, kind: Tidal}}}`,
			[]string{"spec.targetRef", "must name the workload", "StateTrigger"}},
		{"bounds the wrong way round", `{spec: {minReplicas: 11}}`,
			[]string{"spec.minReplicas", "must be less than or equal to maxReplicas", "lower minReplicas or raise maxReplicas"}},
		{"lower bound above the default upper one", `{spec: {minReplicas: 20, maxReplicas: null}}`,
			[]string{"spec.minReplicas", "at most 10", "set maxReplicas"}},
		{"negative lower bound", `{spec: {minReplicas: -1}}`, []string{"spec.minReplicas", "greater than or equal to 0"}},
		{"upper bound of zero", `{spec: {minReplicas: 0, maxReplicas: 0}}`, []string{"spec.maxReplicas", "greater than or equal to 1"}},
		{"bound that is no number", `{spec: {maxReplicas: "10"}}`, []string{"spec.maxReplicas", "must be of type integer"}},
		{"no trigger", `{spec: {trigger: null}}`, []string{"spec.trigger: Required value"}},
		{"trigger without type", `{spec: {trigger: {type: null}}}`, []string{"spec.trigger.type: Required value"}},
		{"unknown trigger", `{spec: {trigger: {type: CronTrigger}}}`,
			[]string{"spec.trigger.type", `supported values: "MetricsTrigger", "StateTrigger", "SignalTrigger"`}},
		{"type without its block", `{spec: {trigger: {metricsTrigger: null}}}`,
			[]string{"spec.trigger.metricsTrigger", "must be set when type is MetricsTrigger"}},
		{"block of another type", `{spec: {trigger: {signalTrigger: {endpoint: "https://x.example.com"}}}}`,
			[]string{"spec.trigger.signalTrigger", "must be left out unless type is SignalTrigger"}},
		{"state block beside metrics", `{spec: {trigger: {stateTrigger: {}}}}`,
			[]string{"spec.trigger.stateTrigger", "must be left out unless type is StateTrigger"}},
		{"metrics block beside state", `{spec: {trigger: {type: StateTrigger}}}`,
			[]string{"spec.trigger.metricsTrigger", "must be left out unless type is MetricsTrigger"}},
		{"no metrics", `{spec: {trigger: {metricsTrigger: {metrics: null}}}}`, []string{"metricsTrigger.metrics: Required value"}},
		{"empty metrics", `{spec: {trigger: {metricsTrigger: {metrics: []}}}}`, []string{"metricsTrigger.metrics", "at least 1 items"}},
		{"unknown metric type", oneMetric(`{type: Pods}`),
			[]string{metric + ".type", `supported values: "Resource", "External", "ExternalServer", "Custom"`}},
		{"metric without its block", oneMetric(`{type: Custom}`), []string{metric + ".custom", "must be set when type is Custom"}},
		{"metric with another block", oneMetric(`{type: Custom, resource: {metricsName: cpu, target: {type: Utilization, averageUtilization: 70}}}`),
			[]string{metric + ".resource", "left out otherwise"}},
		{"metric with two blocks", oneMetric(`{type: Resource, resource: {metricsName: cpu, target: {type: Utilization, averageUtilization: 70}}, externalServer: {endpoint: "https://x.example.com", metricsName: q, target: 1}}`),
			[]string{metric + ".externalServer", "left out otherwise"}},
		{"metric without name", oneMetric(`{type: Resource, resource: {target: {type: Utilization, averageUtilization: 70}}}`),
			[]string{metric + ".resource.metricsName: Required value"}},
		{"metric without target", oneMetric(`{type: Resource, resource: {metricsName: cpu}}`),
			[]string{metric + ".resource.target: Required value"}},
		{"unknown target type", oneMetric(`{type: Resource, resource: {metricsName: cpu, target: {type: Percent, averageUtilization: 70}}}`),
			[]string{metric + ".resource.target.type", `supported values: "Utilization", "Value", "AverageValue"`}},
		{"target value of another type", oneMetric(`{type: Resource, resource: {metricsName: cpu, target: {type: Utilization, averageValue: 500m}}}`),
			[]string{metric + ".resource.target.averageUtilization", "must be set when type is Utilization", metric + ".resource.target." + second + "averageValue", "left out otherwise"}},
		{"total of a resource", oneMetric(`{type: Resource, resource: {metricsName: cpu, target: {type: Value, value: 5}}}`),
			[]string{metric + ".resource.target.type", "must be Utilization or AverageValue"}},
		{"utilization of an external metric", oneMetric(`{type: External, external: {metricsName: qps, target: {type: Utilization, averageUtilization: 70}}}`),
			[]string{metric + ".external.target.type", "must be Value or AverageValue"}},
		{"utilization of a custom metric", oneMetric(`{type: Custom, custom: {metricsName: qps, target: {type: Utilization, averageUtilization: 70}}}`),
			[]string{metric + ".custom.target.type", "must be AverageValue or Value"}},
		{"utilization of zero", oneMetric(`{type: Resource, resource: {metricsName: cpu, target: {type: Utilization, averageUtilization: 0}}}`),
			[]string{metric + ".resource.target.averageUtilization", "greater than or equal to 1"}},
		{"target of zero", oneMetric(`{type: External, external: {metricsName: qps, target: {type: AverageValue, averageValue: "0"}}}`),
			[]string{metric + ".external.target.averageValue", "must be greater than 0"}},
		{"target of zero milli", oneMetric(`{type: External, external: {metricsName: qps, target: {type: Value, value: 0m}}}`),
			[]string{metric + ".external.target.value", "must be greater than 0"}},
		{"negative target as an integer", oneMetric(`{type: External, external: {metricsName: qps, target: {type: AverageValue, averageValue: -5}}}`),
			[]string{metric + ".external.target.averageValue", "must be greater than 0"}},
		{"negative target as a string", oneMetric(`{type: ExternalServer, externalServer: {endpoint: "https://x.example.com", metricsName: q, target: "-5"}}`),
			[]string{metric + ".externalServer.target", "must be greater than 0"}},
		{"target that is no quantity", oneMetric(`{type: External, external: {metricsName: qps, target: {type: AverageValue, averageValue: "ten"}}}`),
			[]string{metric + ".external.target.averageValue"}},
		{"external metric without name", oneMetric(`{type: External, external: {target: {type: AverageValue, averageValue: 5}}}`),
			[]string{metric + ".external.metricsName", "must be set to the name of the metric"}},
		{"external metric with two names", oneMetric(`{type: External, external: {metricsName: a, metric: {name: b}, target: {type: AverageValue, averageValue: 5}}}`),
			[]string{metric + ".external.metricsName", "must be equal to metric.name"}},
		{"endpoint of another scheme", oneMetric(`{type: ExternalServer, externalServer: {endpoint: "ftp://x.example.com", metricsName: q, target: 1}}`),
			[]string{metric + ".externalServer.endpoint", "must be a host with optional port and path"}},
		{"endpoint with a password", oneMetric(`{type: ExternalServer, externalServer: {endpoint: "https://me:secret@x.example.com/q", metricsName: q, target: 1}}`),
			[]string{metric + ".externalServer.endpoint", "without user name and password"}},
		{"endpoint with a blank", oneMetric(`{type: ExternalServer, externalServer: {endpoint: "https://x.example.com/a b", metricsName: q, target: 1}}`),
			[]string{metric + ".externalServer.endpoint", "must be a host"}},
		{"unknown protocol", oneMetric(`{type: ExternalServer, externalServer: {endpoint: x.example.com, protocol: grpc, metricsName: q, target: 1}}`),
			[]string{metric + ".externalServer.protocol", `supported values: "http", "https"`}},
		{"HPA with an endpoint of its own", `{spec: {trigger: {metricsTrigger: {scalingAlgorithm: hpa, metrics: [{type: ExternalServer, externalServer: {endpoint: x.example.com, metricsName: q, target: 1}}]}}}}`,
			[]string{"metricsTrigger.metrics", "must not have type ExternalServer with scalingAlgorithm HPA"}},
		{"HPA with the total of a custom metric", `{spec: {trigger: {metricsTrigger: {scalingAlgorithm: HPA, metrics: [{type: Custom, custom: {metricsName: q, target: {type: Value, value: 5}}}]}}}}`,
			[]string{"metricsTrigger.metrics", "custom.target.type must be AverageValue"}},
		{"HPA with noData", `{spec: {trigger: {metricsTrigger: {scalingAlgorithm: HPA, metrics: [{type: External, noData: {policy: Zero}, external: {metricsName: q, target: {type: Value, value: 5}}}]}}}}`,
			[]string{"metricsTrigger.metrics", "noData and maxAgeSeconds must be left out"}},
		{"fallback without a count", oneMetric(`{type: External, noData: {policy: Fallback}, external: {metricsName: q, target: {type: Value, value: 5}}}`),
			[]string{metric + ".noData.replicas", "must be set when policy is Fallback"}},
		{"count without fallback", oneMetric(`{type: External, noData: {policy: Hold, replicas: 3}, external: {metricsName: q, target: {type: Value, value: 5}}}`),
			[]string{metric + ".noData.replicas", "left out otherwise"}},
		{"noData without policy", oneMetric(`{type: External, noData: {failureThreshold: 3}, external: {metricsName: q, target: {type: Value, value: 5}}}`),
			[]string{metric + ".noData.policy: Required value"}},
		{"unknown noData policy", oneMetric(`{type: External, noData: {policy: AsZero}, external: {metricsName: q, target: {type: Value, value: 5}}}`),
			[]string{metric + ".noData.policy", `supported values: "Hold", "Ignore", "Zero", "Fallback"`}},
		{"failure threshold of zero", oneMetric(`{type: External, noData: {policy: Hold, failureThreshold: 0}, external: {metricsName: q, target: {type: Value, value: 5}}}`),
			[]string{metric + ".noData.failureThreshold", "greater than or equal to 1"}},
		{"negative fallback", oneMetric(`{type: External, noData: {policy: Fallback, replicas: -1}, external: {metricsName: q, target: {type: Value, value: 5}}}`),
			[]string{metric + ".noData.replicas", "greater than or equal to 0"}},
		{"age of zero", oneMetric(`{type: External, maxAgeSeconds: 0, external: {metricsName: q, target: {type: Value, value: 5}}}`),
			[]string{metric + ".maxAgeSeconds", "greater than or equal to 1"}},
		{"interval of zero", `{spec: {intervalSeconds: 0}}`, []string{"spec.intervalSeconds", "greater than or equal to 1"}},
		{"interval of a day", `{spec: {intervalSeconds: 86400}}`, []string{"spec.intervalSeconds", "less than or equal to 3600"}},
		{"stabilization of two hours", `{spec: {behavior: {scaleDown: {stabilizationWindowSeconds: 7200}}}}`,
			[]string{"spec.behavior", "stabilizationWindowSeconds must be between 0 and 3600"}},
		{"unknown selectPolicy", `{spec: {behavior: {scaleUp: {selectPolicy: Most}}}}`, []string{"spec.behavior", "selectPolicy must be Max, Min or Disabled"}},
		{"rate policy without period", `{spec: {behavior: {scaleUp: {policies: [{type: Pods, value: 4, periodSeconds: 0}]}}}}`,
			[]string{"spec.behavior", "periodSeconds between 1 and 1800"}},
		{"rate policy of unknown type", `{spec: {behavior: {scaleDown: {policies: [{type: Groups, value: 4, periodSeconds: 60}]}}}}`,
			[]string{"spec.behavior", "must have type Pods or Percent"}},
		{"too many settings", `{spec: {trigger: {metricsTrigger: {algorithmConfig: ` + manySettings(65) + `}}}}`,
			[]string{"metricsTrigger.algorithmConfig", "at most 64 items"}},
	})
}

func TestElasticScalerOnStateRefused(t *testing.T) {
	refuseAll(t, scalerOnState, []variation{
		{"bounds the wrong way round", `{spec: {minReplicas: 3, maxReplicas: 2}}`, []string{"spec.minReplicas", "must be less than or equal to maxReplicas"}},
		{"pattern for namespaces", `{spec: {trigger: {stateTrigger: {sourceNamespaces: ["team-*"]}}}}`,
			[]string{"spec.trigger.stateTrigger.sourceNamespaces[0]", "patterns are not supported"}},
		{"empty namespace", `{spec: {trigger: {stateTrigger: {sourceNamespaces: [""]}}}}`,
			[]string{"spec.trigger.stateTrigger.sourceNamespaces[0]"}},
		{"namespace twice", `{spec: {trigger: {stateTrigger: {sourceNamespaces: [a, a]}}}}`,
			[]string{"spec.trigger.stateTrigger.sourceNamespaces[1]", "Duplicate value"}},
	})
}

func TestElasticScalerOnSignalRefused(t *testing.T) {
	refuseAll(t, scalerOnSignal, []variation{
		{"no block", `{spec: {trigger: {signalTrigger: null}}}`, []string{"spec.trigger.signalTrigger", "must be set when type is SignalTrigger"}},
		{"no endpoint", `{spec: {trigger: {signalTrigger: {endpoint: null}}}}`, []string{"spec.trigger.signalTrigger.endpoint: Required value"}},
		{"empty endpoint", `{spec: {trigger: {signalTrigger: {endpoint: ""}}}}`, []string{"spec.trigger.signalTrigger.endpoint"}},
		{"endpoint of another scheme", `{spec: {trigger: {signalTrigger: {endpoint: "ws://x.example.com"}}}}`,
			[]string{"spec.trigger.signalTrigger.endpoint", "must be a host with optional port and path"}},
		{"unknown protocol", `{spec: {trigger: {signalTrigger: {protocol: HTTPS}}}}`,
			[]string{"spec.trigger.signalTrigger.protocol", `supported values: "http", "https"`}},
		{"secret without key", `{spec: {trigger: {signalTrigger: {tokenSecretRef: {name: token}}}}}`,
			[]string{"spec.trigger.signalTrigger.tokenSecretRef.key: Required value"}},
		{"secret without name", `{spec: {trigger: {signalTrigger: {caSecretRef: {key: ca.crt}}}}}`,
			[]string{"spec.trigger.signalTrigger.caSecretRef.name: Required value"}},
		{"secret in another namespace", `{spec: {trigger: {signalTrigger: {tokenSecretRef: {name: other/token, key: token}}}}}`,
			[]string{"spec.trigger.signalTrigger.tokenSecretRef.name", "must be the name of a Secret"}},
		{"key with a slash", `{spec: {trigger: {signalTrigger: {tokenSecretRef: {name: token, key: a/b}}}}}`,
			[]string{"spec.trigger.signalTrigger.tokenSecretRef.key", "must be a key of a Secret"}},
		{"CA for plain http", `{spec: {trigger: {signalTrigger: {endpoint: "HTTP://x.example.com", caSecretRef: {name: ca, key: ca.crt}}}}}`,
			[]string{"spec.trigger.signalTrigger.caSecretRef", "must be left out when the endpoint is plain http"}},
		{"CA for the protocol http", `{spec: {trigger: {signalTrigger: {endpoint: x.example.com, protocol: http, caSecretRef: {name: ca, key: ca.crt}}}}}`,
			[]string{"spec.trigger.signalTrigger.caSecretRef", "must be left out when the endpoint is plain http"}},
	})
}

// TestElasticScalerAccepted holds what the original CRD takes, and what the fields beyond it allow.
func TestElasticScalerAccepted(t *testing.T) {
	acceptAll(t, scalerOnMetrics, []variation{
		{"no bounds", `{spec: {minReplicas: null, maxReplicas: null}}`, nil},
		{"only an upper bound", `{spec: {minReplicas: null, maxReplicas: 100}}`, nil},
		{"lower bound of zero", `{spec: {minReplicas: 0}}`, nil},
		{"equal bounds", `{spec: {minReplicas: 4, maxReplicas: 4}}`, nil},
		{"whole ObjectReference", `{spec: {targetRef: {namespace: ai-inference, uid: 2ea9, resourceVersion: "12", fieldPath: spec}}}`, nil},
		{"target without apiVersion", `{spec: {targetRef: {apiVersion: null}}}`, nil},
		{"chart values: kind and algorithm in lower case", `{spec: {targetRef: {apiVersion: autoscaling.openfuyao.com/v1alpha1, kind: resourcescalinggroup, name: rsg}, trigger: {metricsTrigger: {scalingAlgorithm: apa}}}}`, nil},
		{"a Tidal of another group", `{spec: {targetRef: {apiVersion: example.com/v1, kind: Tidal}}}`, nil},
		{"no algorithm", `{spec: {trigger: {metricsTrigger: {scalingAlgorithm: null}}}}`, nil},
		{"empty algorithm", `{spec: {trigger: {metricsTrigger: {scalingAlgorithm: ""}}}}`, nil},
		{"settings as strings, numbers and booleans", `{spec: {trigger: {metricsTrigger: {algorithmConfig: {a: "0.8", b: 0.8, c: 60, d: true, e: -1, f: ""}}}}}`, nil},
		{"External by metricsName, with a selector", oneMetric(`{type: External, external: {metricsName: qps, selector: {matchLabels: {a: b}, matchExpressions: [{key: c, operator: Exists}]}, target: {type: Value, value: 1500m}}}`), nil},
		{"External with the same name twice", oneMetric(`{type: External, external: {metricsName: qps, metric: {name: qps}, target: {type: AverageValue, averageValue: "0.5"}}}`), nil},
		{"Custom", oneMetric(`{type: Custom, custom: {metricsName: "vllm:num_requests_waiting", target: {type: AverageValue, averageValue: 2}}}`), nil},
		{"Custom with a total", oneMetric(`{type: Custom, custom: {metricsName: q, target: {type: Value, value: "+1.5e3"}}}`), nil},
		{"ExternalServer, a host and a port", oneMetric(`{type: ExternalServer, externalServer: {endpoint: "prometheus.monitoring.svc:9090", protocol: http, metricsName: q, query: "sum(rate(q[2m]))", target: "0.05"}}`), nil},
		{"ExternalServer, a URL", oneMetric(`{type: ExternalServer, externalServer: {endpoint: "https://x.example.com:8443/metrics?format=json", metricsName: q, target: "100"}}`), nil},
		{"ExternalServer, IPv6", oneMetric(`{type: ExternalServer, externalServer: {endpoint: "http://[fd00::1]:9090", metricsName: q, target: 1}}`), nil},
		{"ExternalServer, IPv4 alone", oneMetric(`{type: ExternalServer, externalServer: {endpoint: 10.0.0.7, metricsName: q, target: 1}}`), nil},
		{"HPA, memory per pod", `{spec: {trigger: {metricsTrigger: {scalingAlgorithm: HPA, metrics: [{type: Resource, resource: {metricsName: memory, target: {type: AverageValue, averageValue: 2Gi}}}]}}}}`, nil},
		{"noData and age", oneMetric(`{type: External, maxAgeSeconds: 60, noData: {policy: Fallback, failureThreshold: 3, replicas: 0}, external: {metricsName: q, target: {type: Value, value: 5}}}`), nil},
		{"each noData policy", `{spec: {trigger: {metricsTrigger: {metrics: [{type: External, noData: {policy: Hold}, external: {metricsName: q, target: {type: Value, value: 5}}}, {type: External, noData: {policy: Ignore}, external: {metricsName: q, target: {type: Value, value: 5}}}, {type: External, noData: {policy: Zero}, external: {metricsName: q, target: {type: Value, value: 5}}}]}}}}`, nil},
		{"behavior", `{spec: {behavior: {scaleUp: {stabilizationWindowSeconds: 0, selectPolicy: Max, policies: [{type: Pods, value: 4, periodSeconds: 15}, {type: Percent, value: 100, periodSeconds: 15}]}, scaleDown: {stabilizationWindowSeconds: 300, selectPolicy: Disabled, tolerance: "0.05"}}}}`, nil},
		{"interval and pause", `{spec: {intervalSeconds: 2, paused: true}}`, nil},
		{"cron-like names in annotations", `{metadata: {annotations: {"elasticscaler.io/behavior.scaleUp.stabilizationWindowSeconds": "30"}}}`, nil},
	})
	acceptAll(t, scalerOnState, []variation{
		{"no block", `{}`, nil},
		{"empty block", `{spec: {trigger: {stateTrigger: {}}}}`, nil},
		{"lower bound above ten", `{spec: {minReplicas: 20}}`, nil},
		{"source namespaces", `{spec: {trigger: {stateTrigger: {sourceNamespaces: [team-a, b]}}}}`, nil},
		{"the Tidal as target", `{spec: {targetRef: {apiVersion: tidal.io/v1alpha1, kind: Tidal, name: day}}}`, nil},
	})
	acceptAll(t, scalerOnSignal, []variation{
		{"no bounds", `{}`, nil},
		{"on and off", `{spec: {minReplicas: 0, maxReplicas: 1}}`, nil},
		{"host without scheme", `{spec: {trigger: {signalTrigger: {endpoint: "signals.svc:8080/scale"}}}}`, nil},
		{"token and CA", `{spec: {trigger: {signalTrigger: {tokenSecretRef: {name: signals, key: token}, caSecretRef: {name: signals, key: ca.crt}}}}}`, nil},
	})
}

// TestElasticScalerDefaults: bounds have no default in the schema, since those of a StateTrigger are absent.
func TestElasticScalerDefaults(t *testing.T) {
	stored, err := create(t.Context(), vary(t, scalerOnSignal, `{}`), true)
	if err != nil {
		t.Fatal(err)
	}
	spec, _ := stored.Object["spec"].(map[string]any)
	for _, field := range []string{"minReplicas", "maxReplicas", "behavior", "paused", "intervalSeconds"} {
		if value, set := spec[field]; set {
			t.Errorf("spec.%s got a default of %v, want none", field, value)
		}
	}
	signal := spec["trigger"].(map[string]any)["signalTrigger"].(map[string]any)
	if signal["protocol"] != "https" {
		t.Errorf("spec.trigger.signalTrigger.protocol is %v by default, want https", signal["protocol"])
	}
}
