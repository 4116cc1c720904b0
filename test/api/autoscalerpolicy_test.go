package api_test

import "testing"

const kedaPolicy = `
apiVersion: ome.io/v1beta1
kind: AutoscalerPolicy
metadata: {name: varied, namespace: llama-demo}
spec:
  class: KEDA
  keda:
    triggers:
    - type: prometheus
      providerRef: {name: cluster-prometheus}
      metricType: AverageValue
      metadata: {query: "sum(up)", threshold: "5", ignoreNullValues: "false"}
    fallback:
      failureThreshold: 3
      replicas: {fromComponent: MaxReplicas}
`

const hpaPolicy = `
apiVersion: ome.io/v1beta1
kind: AutoscalerPolicy
metadata: {name: varied, namespace: llama-demo}
spec:
  class: HPA
  hpa:
    metrics:
    - type: Resource
      resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}
`

// oneTrigger is a patch that replaces the triggers by one.
func oneTrigger(trigger string) string { return `{spec: {keda: {triggers: [` + trigger + `]}}}` }

func TestAutoscalerPolicyRefused(t *testing.T) {
	const (
		class   = "class KEDA requires keda and forbids hpa; class HPA forbids keda"
		trigger = "spec.keda.triggers[0]"
	)
	refuseAll(t, kedaPolicy, []variation{
		{"no spec", `{spec: null}`, []string{"spec: Required value"}},
		{"no class", `{spec: {class: null}}`, []string{"spec.class: Required value"}},
		{"class of inline blocks", `{spec: {class: External}}`, []string{"spec.class", `supported values: "HPA", "KEDA"`}},
		{"class in lower case", `{spec: {class: keda}}`, []string{"spec.class", `supported values: "HPA", "KEDA"`}},
		{"KEDA without keda", `{spec: {keda: null}}`, []string{"spec", class}},
		{"KEDA with hpa", `{spec: {hpa: {}}}`, []string{"spec", class}},
		{"HPA with keda", `{spec: {class: HPA}}`, []string{"spec", class}},
		{"enforcement Required", `{spec: {enforcement: Required}}`, []string{"spec.enforcement", "EnforcementRequiredReserved", "must be Default"}},
		{"unknown enforcement", `{spec: {enforcement: Always}}`, []string{"spec.enforcement", `supported values: "Default", "Required"`}},
		{"no triggers", `{spec: {keda: {triggers: null}}}`, []string{"spec.keda.triggers: Required value"}},
		{"empty triggers", `{spec: {keda: {triggers: []}}}`, []string{"spec.keda.triggers", "at least 1 items"}},
		{"trigger without type", oneTrigger(`{metadata: {a: b}}`), []string{trigger + ".type: Required value"}},
		{"trigger without metadata", oneTrigger(`{type: kafka}`), []string{trigger + ".metadata: Required value"}},
		{"metric type Utilization", oneTrigger(`{type: cpu, metricType: Utilization, metadata: {value: "60"}}`),
			[]string{trigger + ".metricType", `supported values: "AverageValue", "Value"`}},
		{"no provider", oneTrigger(`{type: prometheus, metadata: {query: up, threshold: "5", ignoreNullValues: "false"}}`),
			[]string{trigger + ".providerRef", "ProviderRefRequired", "providerRef is required for endpoint trigger types"}},
		{"no provider, type in capitals", oneTrigger(`{type: Prometheus, metadata: {query: up, threshold: "5", ignoreNullValues: "false"}}`),
			[]string{trigger + ".providerRef", "ProviderRefRequired"}},
		{"provider without name", oneTrigger(`{type: prometheus, providerRef: {}, metadata: {query: up, threshold: "5", ignoreNullValues: "false"}}`),
			[]string{trigger + ".providerRef.name: Required value"}},
		{"ignoreNullValues left out", oneTrigger(`{type: prometheus, providerRef: {name: p}, metadata: {query: up, threshold: "5"}}`),
			[]string{trigger + ".metadata", "IgnoreNullValuesMustBeExplicit", "must have the key ignoreNullValues"}},
		{"no query", oneTrigger(`{type: prometheus, providerRef: {name: p}, metadata: {threshold: "5", ignoreNullValues: "false"}}`),
			[]string{trigger + ".metadata", "QueryRequired", "must have the key query"}},
		{"empty query", oneTrigger(`{type: prometheus, providerRef: {name: p}, metadata: {query: "", threshold: "5", ignoreNullValues: "false"}}`),
			[]string{trigger + ".metadata", "QueryRequired"}},
		{"no threshold", oneTrigger(`{type: prometheus, providerRef: {name: p}, metadata: {query: up, ignoreNullValues: "false"}}`),
			[]string{trigger + ".metadata", "ThresholdInvalid", "number greater than 0"}},
		{"threshold of zero", oneTrigger(`{type: prometheus, providerRef: {name: p}, metadata: {query: up, threshold: "0.0", ignoreNullValues: "false"}}`),
			[]string{trigger + ".metadata", "ThresholdInvalid"}},
		{"threshold of zero with an exponent", oneTrigger(`{type: prometheus, providerRef: {name: p}, metadata: {query: up, threshold: "0e5", ignoreNullValues: "false"}}`),
			[]string{trigger + ".metadata", "ThresholdInvalid"}},
		{"negative threshold", oneTrigger(`{type: prometheus, providerRef: {name: p}, metadata: {query: up, threshold: "-5", ignoreNullValues: "false"}}`),
			[]string{trigger + ".metadata", "ThresholdInvalid"}},
		{"threshold in words", oneTrigger(`{type: prometheus, providerRef: {name: p}, metadata: {query: up, threshold: five, ignoreNullValues: "false"}}`),
			[]string{trigger + ".metadata", "ThresholdInvalid"}},
		{"threshold that is no string", oneTrigger(`{type: prometheus, providerRef: {name: p}, metadata: {query: up, threshold: 5, ignoreNullValues: "false"}}`),
			[]string{trigger + ".metadata.threshold", "must be of type string"}},
		{"an address of its own", oneTrigger(`{type: prometheus, providerRef: {name: p}, metadata: {query: up, threshold: "5", ignoreNullValues: "false", serverAddress: "http://x"}}`),
			[]string{trigger + ".metadata", "ForbiddenMetadataKey", `"serverAddress" is provider-owned`}},
		{"an authentication of its own", oneTrigger(`{type: prometheus, providerRef: {name: p}, metadata: {query: up, threshold: "5", ignoreNullValues: "false", authmodes: basic}}`),
			[]string{trigger + ".metadata", "ForbiddenMetadataKey", `"authModes" is provider-owned`}},
		{"desired count without metricType", oneTrigger(`{type: prometheus, queryReturnsDesiredReplicas: true, providerRef: {name: p}, metadata: {query: up, threshold: "1", ignoreNullValues: "false"}}`),
			[]string{trigger + ".metricType", "DesiredCountRequiresAverageValue", "must be AverageValue"}},
		{"desired count with Value", oneTrigger(`{type: prometheus, metricType: Value, queryReturnsDesiredReplicas: true, providerRef: {name: p}, metadata: {query: up, threshold: "1", ignoreNullValues: "false"}}`),
			[]string{trigger + ".metricType", "DesiredCountRequiresAverageValue"}},
		{"fallback without a source", `{spec: {keda: {fallback: {replicas: {fromComponent: null}}}}}`,
			[]string{"spec.keda.fallback.replicas", "exactly one of value or fromComponent must be set"}},
		{"fallback with two sources", `{spec: {keda: {fallback: {replicas: {value: 3}}}}}`,
			[]string{"spec.keda.fallback.replicas", "exactly one of value or fromComponent must be set"}},
		{"fallback without replicas", `{spec: {keda: {fallback: {replicas: null}}}}`, []string{"spec.keda.fallback.replicas: Required value"}},
		{"fallback from nowhere", `{spec: {keda: {fallback: {replicas: {fromComponent: Current}}}}}`,
			[]string{"spec.keda.fallback.replicas.fromComponent", `supported values: "MaxReplicas", "MinReplicas"`}},
		{"negative fallback", `{spec: {keda: {fallback: {replicas: {fromComponent: null, value: -1}}}}}`,
			[]string{"spec.keda.fallback.replicas.value", "greater than or equal to 0"}},
		{"threshold of failures of zero", `{spec: {keda: {fallback: {failureThreshold: 0}}}}`,
			[]string{"spec.keda.fallback.failureThreshold", "greater than or equal to 1"}},
		{"no threshold of failures", `{spec: {keda: {fallback: {failureThreshold: null}}}}`, []string{"spec.keda.fallback.failureThreshold: Required value"}},
		{"polling without pause", `{spec: {keda: {pollingInterval: 0}}}`, []string{"spec.keda.pollingInterval", "greater than or equal to 1"}},
		{"negative cooldown", `{spec: {keda: {cooldownPeriod: -1}}}`, []string{"spec.keda.cooldownPeriod", "greater than or equal to 0"}},
		{"negative idle count", `{spec: {keda: {idleReplicaCount: -1}}}`, []string{"spec.keda.idleReplicaCount", "greater than or equal to 0"}},
		{"several findings at once", oneTrigger(`{type: prometheus, queryReturnsDesiredReplicas: true, metadata: {serverAddress: x}}`),
			[]string{"ProviderRefRequired", "IgnoreNullValuesMustBeExplicit", "QueryRequired", "ThresholdInvalid", "DesiredCountRequiresAverageValue", "ForbiddenMetadataKey"}},
	})
	refuseAll(t, hpaPolicy, []variation{
		{"metric without its block", `{spec: {hpa: {metrics: [{type: Pods}]}}}`, []string{"spec.hpa.metrics", "HPAMetricMalformed", "must have the block that belongs to its type"}},
		{"metric with another block", `{spec: {hpa: {metrics: [{type: Pods, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]}}}`,
			[]string{"spec.hpa.metrics", "HPAMetricMalformed"}},
		{"unknown metric type", `{spec: {hpa: {metrics: [{type: Queue}]}}}`, []string{"spec.hpa.metrics", "HPAMetricMalformed", "type must be Resource"}},
		{"metric without type", `{spec: {hpa: {metrics: [{resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]}}}`,
			[]string{"spec.hpa.metrics[0].type: Required value"}},
	})
}

func TestAutoscalerPolicyAccepted(t *testing.T) {
	acceptAll(t, kedaPolicy, []variation{
		{"enforcement Default", `{spec: {enforcement: Default}}`, nil},
		{"no fallback", `{spec: {keda: {fallback: null}}}`, nil},
		{"fallback to a number", `{spec: {keda: {fallback: {replicas: {fromComponent: null, value: 0}}}}}`, nil},
		{"fallback to the minimum", `{spec: {keda: {fallback: {replicas: {fromComponent: MinReplicas}}}}}`, nil},
		{"times and counts", `{spec: {keda: {pollingInterval: 15, cooldownPeriod: 0, idleReplicaCount: 0}}}`, nil},
		{"advanced", `{spec: {keda: {advanced: {restoreToOriginalReplicaCount: true, scalingModifiers: {formula: "a + b", target: "5", activationTarget: "1", metricType: Value}, horizontalPodAutoscalerConfig: {name: mine, behavior: {scaleDown: {stabilizationWindowSeconds: 60}}}}}}}`, nil},
		{"empty advanced", `{spec: {keda: {advanced: {}}}}`, nil},
		{"trigger of another type", oneTrigger(`{type: kafka, metadata: {topic: "{{ .ISVCName }}"}}`), nil},
		{"trigger without settings", oneTrigger(`{type: custom, metadata: {}}`), nil},
		{"threshold from a variable", oneTrigger(`{type: prometheus, providerRef: {name: p}, metadata: {query: up, threshold: "{{ .MaxReplicas }}", ignoreNullValues: "true"}}`), nil},
		{"threshold below one", oneTrigger(`{type: prometheus, providerRef: {name: p}, metadata: {query: up, threshold: "0.05", ignoreNullValues: "true"}}`), nil},
		{"threshold with an exponent", oneTrigger(`{type: prometheus, providerRef: {name: p}, metadata: {query: up, threshold: "1e-3", ignoreNullValues: "true"}}`), nil},
		{"desired count declared false", oneTrigger(`{type: prometheus, queryReturnsDesiredReplicas: false, providerRef: {name: p}, metadata: {query: up, threshold: "5", ignoreNullValues: "true"}}`), nil},
	})
	acceptAll(t, hpaPolicy, []variation{
		{"no settings at all", `{spec: {hpa: null}}`, nil},
		{"behavior only", `{spec: {hpa: {metrics: null, behavior: {scaleUp: {selectPolicy: Max}}}}}`, nil},
		{"each type of metric", `{spec: {hpa: {metrics: [{type: ContainerResource, containerResource: {name: cpu, container: main, target: {type: Utilization, averageUtilization: 60}}}, {type: Pods, pods: {metric: {name: q}, target: {type: AverageValue, averageValue: 5}}}, {type: Object, object: {describedObject: {kind: Service, name: s}, metric: {name: q}, target: {type: Value, value: 5}}}, {type: External, external: {metric: {name: q}, target: {type: Value, value: 5}}}]}}}`, nil},
	})
}

func TestAutoscalerPolicyDefaults(t *testing.T) {
	stored, err := create(t.Context(), vary(t, hpaPolicy, `{}`), true)
	if err != nil {
		t.Fatal(err)
	}
	if got := stored.Object["spec"].(map[string]any)["enforcement"]; got != "Default" {
		t.Errorf("spec.enforcement is %v by default, want Default", got)
	}
}
