package servingspec

import (
	"strings"
	"testing"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyspec"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
)

// checkFindings compares findings with the beginnings of those that are wanted, in their order.
func checkFindings(t *testing.T, got []policyspec.Finding, want []string) {
	t.Helper()
	ok := len(got) == len(want)
	for i := range want {
		ok = ok && strings.HasPrefix(got[i].String(), want[i])
	}
	if !ok {
		t.Errorf("the findings are\n  %s\nwant them to begin with\n  %s", strings.ReplaceAll(policyspec.Join(got), "; ", ";\n  "), strings.Join(want, "\n  "))
	}
}

func TestService(t *testing.T) {
	const triggers = `keda: {triggers: [{type: kafka, metadata: {}}]`
	tests := map[string]struct {
		// spec is that of a service with a model.
		spec        string
		annotations map[string]string
		name        string
		want        []string
	}{
		"the documents' service": {spec: `{engine: {minReplicas: 1, maxReplicas: 4, autoscalerPolicyRef: {name: queue-depth, kind: AutoscalerPolicy}}}`},
		"its inline variant":     {spec: `{engine: {autoscalerPolicyRef: {name: q}, autoscaler: {class: HPA, hpa: {metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}}]}}}}`},

		"a name with a dot": {spec: `{engine: {}}`, name: "a.b", want: []string{`metadata.name "a.b" must consist of lower case letters`}},
		"a name too long":   {spec: `{engine: {}}`, name: strings.Repeat("a", 56), want: []string{"metadata.name "}},

		"a legacy class":                 {spec: `{engine: {}}`, annotations: map[string]string{"ome.io/autoscalerClass": "hpa", "ome.io/metrics": "memory", "ome.io/targetUtilizationPercentage": "100"}},
		"no legacy class":                {spec: `{engine: {}}`, annotations: map[string]string{"ome.io/autoscalerClass": "HPA"}, want: []string{"[HPA] is not a supported autoscaler class type"}},
		"no legacy class on a component": {spec: `{engine: {annotations: {ome.io/autoscalerClass: none}}}`, want: []string{"engine: [none] is not a supported autoscaler class type"}},
		"no legacy metric":               {spec: `{engine: {}}`, annotations: map[string]string{"ome.io/autoscalerClass": "hpa", "ome.io/metrics": "gpu"}, want: []string{"[gpu] is not a supported metric"}},
		"a metric of another class":      {spec: `{engine: {}}`, annotations: map[string]string{"ome.io/autoscalerClass": "keda", "ome.io/metrics": "gpu"}},
		"no percentage":                  {spec: `{engine: {}}`, annotations: map[string]string{"ome.io/targetUtilizationPercentage": "101"}, want: []string{"the target utilization percentage should be a [1-100] integer"}},
		"no percentage on a component":   {spec: `{router: {annotations: {ome.io/targetUtilizationPercentage: "60%"}}}`, want: []string{"router: the target utilization percentage should be a [1-100] integer"}},

		"unknown class":        {spec: `{engine: {autoscaler: {class: KPA}}}`, want: []string{`engine: AutoscalerClassUnknown: class "KPA" must be HPA, KEDA, External or None`}},
		"no class":             {spec: `{engine: {autoscaler: {class: ""}}}`, want: []string{"engine: AutoscalerClassUnknown: "}},
		"no keda":              {spec: `{engine: {autoscaler: {class: KEDA}}}`, want: []string{"engine: KedaTriggersRequired: class=keda requires at least 1 trigger"}},
		"no triggers":          {spec: `{decoder: {autoscaler: {class: KEDA, keda: {triggers: []}}}, engine: {}}`, want: []string{"decoder: KedaTriggersRequired: class=keda requires at least 1 trigger"}},
		"malformed metric":     {spec: `{engine: {autoscaler: {class: HPA, hpa: {metrics: [{type: Pods}]}}}}`, want: []string{"engine: HPAMetricMalformed: autoscaler.hpa.metrics[0].pods: Required value"}},
		"idle at minimum":      {spec: `{engine: {minReplicas: 2, autoscaler: {class: KEDA, ` + triggers + `, idleReplicaCount: 2}}}}`, want: []string{"engine: KedaIdleBelowMin: idleReplicaCount 2 must be less than minReplicas 2"}},
		"idle below minimum":   {spec: `{engine: {minReplicas: 2, autoscaler: {class: KEDA, ` + triggers + `, idleReplicaCount: 1}}}}`},
		"idle without minimum": {spec: `{engine: {autoscaler: {class: KEDA, ` + triggers + `, idleReplicaCount: 5}}}}`},
		"Utilization of kafka": {spec: `{engine: {autoscaler: {class: KEDA, keda: {triggers: [{type: kafka, metricType: Utilization, metadata: {}}]}}}}`,
			want: []string{"engine: KedaTriggerInvalid: autoscaler.keda.triggers[0]: metricType Utilization must be"}},
		"External and None": {spec: `{engine: {autoscaler: {class: External}}, router: {autoscaler: {class: None}}}`},

		"annotation and block": {spec: `{engine: {autoscaler: {class: None}}}`, annotations: map[string]string{"ome.io/autoscalerClass": "hpa"},
			want: []string{"AutoscalerAnnotationConflict: annotation ome.io/autoscalerClass must be removed"}},

		"reserved kind": {spec: `{engine: {autoscalerPolicyRef: {name: p, kind: ClusterAutoscalerPolicy}}}`,
			want: []string{`AutoscalerPolicyRefKindReserved: spec.engine.autoscalerPolicyRef.kind "ClusterAutoscalerPolicy" is not supported (ClusterAutoscalerPolicy is a reserved shape); use AutoscalerPolicy`}},

		"decoder without engine": {spec: `{decoder: {}}`, want: []string{"decoder cannot be specified without engine"}},
		"leader only":            {spec: `{engine: {leader: {}}}`, want: []string{"InvalidLeaderWorkerPairing: LeaderRequiresWorker: spec.engine.leader must go with spec.engine.worker"}},
		"worker only":            {spec: `{engine: {}, decoder: {worker: {}}}`, want: []string{"InvalidLeaderWorkerPairing: WorkerRequiresLeader: spec.decoder.worker must go with spec.decoder.leader"}},
		"no workers":             {spec: `{engine: {leader: {}, worker: {size: 0}}}`, want: []string{"InvalidLeaderWorkerPairing: WorkerSizeMustBePositive: spec.engine.worker.size is 0"}},
		"lean without runners":   {spec: `{model: null, engine: {leader: {}, worker: {}}}`, want: []string{"MultiPodLeanModelNeedsRunner: spec.engine has leader and worker"}},
		"lean with runners":      {spec: `{model: null, engine: {runner: {image: i}, leader: {}, worker: {}}}`},
		"lean with a runtime":    {spec: `{model: null, runtime: {name: r}, engine: {leader: {}, worker: {}}}`},

		"negative minimum":     {spec: `{engine: {minReplicas: -1}}`, want: []string{"engine: minReplicas must be >= 0"}},
		"negative maximum":     {spec: `{router: {maxReplicas: -1}}`, want: []string{"router: maxReplicas must be >= 1"}},
		"minimum over maximum": {spec: `{engine: {minReplicas: 5, maxReplicas: 3}}`, want: []string{"engine: minReplicas 5 must be <= maxReplicas 3"}},

		"zero by default":                 {spec: `{engine: {minReplicas: 0}}`, want: []string{"engine: InvalidScaleToZero: minReplicas 0 must go with an autoscaler of the component's own with class KEDA"}},
		"zero with a policy":              {spec: `{engine: {minReplicas: 0, autoscalerPolicyRef: {name: p}}}`, want: []string{"engine: InvalidScaleToZero: "}},
		"zero with class HPA":             {spec: `{engine: {minReplicas: 0, autoscaler: {class: HPA}}}`, want: []string{"engine: InvalidScaleToZero: "}},
		"zero with class KEDA":            {spec: `{engine: {minReplicas: 0, autoscaler: {class: KEDA, ` + triggers + `}}}}`},
		"zero with the legacy annotation": {spec: `{engine: {minReplicas: 0}}`, annotations: map[string]string{"ome.io/autoscalerClass": "keda"}},
		"zero with another annotation of its own": {spec: `{engine: {minReplicas: 0, annotations: {ome.io/autoscalerClass: hpa}}}`, annotations: map[string]string{"ome.io/autoscalerClass": "keda"},
			want: []string{"engine: InvalidScaleToZero: "}},

		"legacy fields": {spec: `{engine: {scaleTarget: 70, scaleMetric: cpu}}`, want: []string{
			"LegacyAutoscalerFieldsRejected: spec.engine.scaleTarget must be removed; use spec.engine.autoscaler.hpa.metrics",
			"LegacyAutoscalerFieldsRejected: spec.engine.scaleMetric must be removed; use spec.engine.autoscaler.hpa.metrics",
		}},
		"reserved modes":    {spec: `{engine: {}, scalingPolicy: {mode: Proportional}}`, want: []string{`ScalingModeNotImplemented: spec.scalingPolicy.mode "Proportional" is reserved; it must be Independent`}},
		"the mode there is": {spec: `{engine: {}, scalingPolicy: {mode: Independent}}`},

		"unknown fields": {spec: `{engine: {nodeSelectors: {}, runner: {images: i}}}`, want: []string{`spec.engine: strict decoding error: unknown field "nodeSelectors"`, `spec.engine.runner: strict decoding error: unknown field "images"`}},

		"all findings at once": {spec: `{decoder: {minReplicas: 0, scaleTarget: 1, worker: {}, autoscalerPolicyRef: {name: p, kind: ClusterAutoscalerPolicy}, autoscaler: {class: KPA}}}`, annotations: map[string]string{"ome.io/autoscalerClass": "x"},
			want: []string{"[x] is not", "decoder: AutoscalerClassUnknown", "AutoscalerAnnotationConflict", "AutoscalerPolicyRefKindReserved", "decoder cannot be", "InvalidLeaderWorkerPairing", "decoder: InvalidScaleToZero", "LegacyAutoscalerFieldsRejected"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			service := &v1beta1.InferenceService{}
			service.Name, service.Annotations = tt.name, tt.annotations
			service.Spec = testkit.FromYAML[v1beta1.InferenceServiceSpec](t, tt.spec)
			if !strings.Contains(tt.spec, "model: null") {
				service.Spec.Model = &v1beta1.ModelReference{Name: "llama"}
			}
			checkFindings(t, Service(service, true), tt.want)
		})
	}
}

func TestServiceWithoutPolicies(t *testing.T) {
	service := &v1beta1.InferenceService{Spec: testkit.FromYAML[v1beta1.InferenceServiceSpec](t, `{model: {name: m}, engine: {autoscalerPolicyRef: {name: queue-depth, kind: ClusterAutoscalerPolicy}}, router: {}}`)}
	checkFindings(t, Service(service, false), []string{`AutoscalerPolicyFeatureDisabled: spec.engine.autoscalerPolicyRef references "queue-depth" but the AutoscalerPolicy feature is not enabled on this cluster; remove the ref or enable the feature`})
}

func TestRuntime(t *testing.T) {
	for spec, want := range map[string]string{
		`{}`: "",
		`{engineConfig: {autoscaler: {class: HPA}}, routerConfig: {autoscaler: {class: External}}}`: "",
		`{engineConfig: {minReplicas: 0}}`:                                             "",
		`{engineConfig: {autoscalerPolicyRef: {name: p}}}`:                             "engineConfig: autoscalerPolicyRef is not supported on serving runtimes; policy refs attach on the InferenceService only",
		`{decoderConfig: {autoscalerPolicyRef: {name: p}}}`:                            "decoderConfig: autoscalerPolicyRef is not supported on serving runtimes; policy refs attach on the InferenceService only",
		`{routerConfig: {autoscalerPolicyRef: {name: p}}}`:                             "routerConfig: autoscalerPolicyRef is not supported on serving runtimes; policy refs attach on the InferenceService only",
		`{engineConfig: {autoscaler: {class: KEDA}}}`:                                  "engineConfig: KedaTriggersRequired: class=keda requires at least 1 trigger",
		`{decoderConfig: {autoscaler: {class: KPA}}}`:                                  "decoderConfig: AutoscalerClassUnknown: ",
		`{routerConfig: {autoscaler: {class: HPA, hpa: {metrics: [{type: Object}]}}}}`: "routerConfig: HPAMetricMalformed: ",
		`{engineConfig: {minReplicas: 1, autoscaler: {class: KEDA, keda: {idleReplicaCount: 1, triggers: [{type: kafka, metadata: {}}]}}}}`: "engineConfig: KedaIdleBelowMin: ",
	} {
		var all []string
		if want != "" {
			all = []string{want}
		}
		checkFindings(t, Runtime(testkit.FromYAML[v1beta1.ServingRuntimeSpec](t, spec)), all)
	}
}

func TestWarnings(t *testing.T) {
	for spec, want := range map[string]string{
		`{engine: {minReplicas: 1}}`: "",
		`{acceleratorSelector: {}, kedaConfig: {}, predictor: {}, engine: {timeoutSeconds: 1, acceleratorOverride: {}}, decoder: {acceleratorOverride: {}, minAvailable: 1, maxUnavailable: 1}, router: {kedaConfig: {}, containerConcurrency: 1, canaryTrafficPercent: 1}}`: "spec.acceleratorSelector, spec.kedaConfig, spec.predictor, spec.engine.timeoutSeconds, spec.decoder.minAvailable, spec.decoder.maxUnavailable, " +
			"spec.router.containerConcurrency, spec.router.canaryTrafficPercent, spec.router.kedaConfig, spec.engine.acceleratorOverride, spec.decoder.acceleratorOverride: accepted, and without effect here",
		`{engine: {minReplicas: 0, autoscaler: {class: KEDA, keda: {triggers: [{type: kafka, metadata: {}}], fallback: {failureThreshold: 1, replicas: 3}}}}}`: "spec.engine.autoscaler.keda.fallback: KEDA does not start a component from 0 replicas",
	} {
		got := Warnings(&v1beta1.InferenceService{Spec: testkit.FromYAML[v1beta1.InferenceServiceSpec](t, spec)})
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], want)) {
			t.Errorf("the warnings of %s are %q, want one that begins with %q", spec, got, want)
		}
	}
}
