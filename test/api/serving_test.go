package api_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const service = `
apiVersion: ome.io/v1beta1
kind: InferenceService
metadata: {name: varied, namespace: llama-demo}
spec:
  model: {name: llama}
  engine: {minReplicas: 1, maxReplicas: 4}
`

const clusterRuntime = `
apiVersion: ome.io/v1beta1
kind: ClusterServingRuntime
metadata: {name: varied}
spec:
  supportedModelFormats:
  - modelFormat: {name: safetensors}
    modelFramework: {name: transformers}
    autoSelect: true
  engineConfig:
    runner: {name: ome-container, image: "example.org/server:1"}
`

const clusterModel = `
apiVersion: ome.io/v1beta1
kind: ClusterBaseModel
metadata: {name: varied}
spec:
  modelFormat: {name: safetensors}
  storage: {storageUri: "hf://example/model"}
`

// everyComponentField are the fields that an engine of the originals has, with some of its pod spec.
const everyComponentField = `
    minReplicas: 0
    maxReplicas: 2
    minAvailable: 1
    maxUnavailable: 50%
    timeoutSeconds: 60
    containerConcurrency: 8
    canaryTrafficPercent: 10
    scaleTarget: 70
    scaleMetric: cpu
    kedaConfig: {enableKeda: true, promServerAddress: "http://p:9090", customPromQuery: up, scalingThreshold: "5", scalingOperator: GreaterThan, authModes: basic, authenticationRef: {name: a, kind: TriggerAuthentication}}
    labels: {team: a}
    annotations: {autoscaling.keda.sh/paused: "true"}
    deploymentStrategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
    runner: {name: ome-container, image: "example.org/server:1", args: [a], ports: [{containerPort: 8080}], resources: {limits: {nvidia.com/gpu: 1}}}
    containers: [{name: side, image: "example.org/side:1"}]
    initContainers: [{name: first, image: "example.org/first:1"}]
    volumes: [{name: dshm, emptyDir: {medium: Memory}}]
    nodeSelector: {pool: gpu}
    tolerations: [{key: nvidia.com/gpu, operator: Exists}]
    hostIPC: true
`

const everyMultiPodField = everyComponentField + `
    acceleratorOverride: {acceleratorClass: a, policy: BestFit, constraints: {minMemory: 80, architectureFamilies: [hopper]}}
    leader: {runner: {image: "example.org/server:1"}, nodeSelector: {pool: gpu}}
    worker: {size: 3, runner: {image: "example.org/server:1"}, tolerations: [{operator: Exists}]}
`

const everyServiceField = `
apiVersion: ome.io/v1beta1
kind: InferenceService
metadata: {name: everything, namespace: llama-demo}
spec:
  acceleratorSelector: {acceleratorClass: a, policy: Cheapest, constraints: {minMemory: 80, maxMemory: 160, requiredFeatures: [nvlink]}}
  kedaConfig: {enableKeda: true, scalingThreshold: "5"}
  model: {apiGroup: ome.io, kind: BaseModel, name: llama, fineTunedWeights: [w]}
  runtime: {apiGroup: ome.io, kind: ServingRuntime, name: vllm}
  predictor: {minReplicas: 1, containers: [{name: c, image: i}], model: {baseModel: b, runtime: r, storageUri: s}, workerSpec: {size: 1}}
  engine:` + everyMultiPodField + `
  decoder:` + everyMultiPodField + `
  router:` + everyComponentField + `
    config: {POLICY: cache_aware}
`

const everyRuntimeField = `
apiVersion: ome.io/v1beta1
kind: ServingRuntime
metadata: {name: everything, namespace: llama-demo}
spec:
  containers: [{name: c, image: "example.org/server:1"}]
  hostIPC: true
  acceleratorRequirements: {acceleratorClasses: [a], minMemory: 80, requiredFeatures: [nvlink]}
  annotations: {a: b}
  labels: {a: b}
  disabled: true
  modelSizeRange: {min: 1B, max: 70B}
  protocolVersions: [openAI]
  supportedModelFormats:
  - name: llama
    version: "1"
    modelFormat: {name: safetensors, version: 1.0.0, operator: Equal, weight: 1}
    modelFramework: {name: transformers, version: 4.43.0, operator: GreaterThan, weight: 2}
    modelType: llama
    modelArchitecture: LlamaForCausalLM
    quantization: fp8
    autoSelect: true
    priority: 2
    acceleratorConfig: {h100: {minMemoryPerBillionParams: 2, tensorParallelismOverride: {tensorParallelSize: 8}, environmentOverride: {A: b}, runtimeArgsOverride: [c]}}
    diffusionPipeline: {className: c, transformer: {library: l, type: t}}
  workers: {size: 1, containers: [{name: c, image: i}], labels: {a: b}}
  engineConfig:` + everyMultiPodField + `
  decoderConfig:` + everyMultiPodField + `
  routerConfig:` + everyComponentField + `
    config: {POLICY: cache_aware}
`

const everyModelField = `
apiVersion: ome.io/v1beta1
kind: BaseModel
metadata: {name: everything, namespace: llama-demo}
spec:
  additionalMetadata: {a: b}
  apiCapabilities: [chat]
  compartmentID: c
  diffusionPipeline: {className: c, vae: {library: l, type: t}}
  disabled: false
  displayName: Llama
  maxTokens: 4096
  modelArchitecture: LlamaForCausalLM
  modelCapabilities: [TEXT_GENERATION]
  modelConfiguration: {hidden: {size: 1}}
  modelFormat: {name: safetensors, version: 1.0.0, operator: Equal, weight: 1}
  modelFramework: {name: transformers, version: 4.43.0}
  modelParameterSize: 1.24B
  modelType: llama
  quantization: fp8
  servingMode: [On-demand]
  vendor: meta
  version: "1"
  storage:
    storageUri: hf://meta-llama/Llama-3.2-1B-Instruct
    path: /models/llama
    schemaPath: s
    key: k
    parameters: {a: b}
    downloadPolicy: ReuseIfExists
    nodeSelector: {pool: gpu}
    nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}
`

// TestServingKindsTakeEveryField: what the originals take is stored whole, fields of pod specs included, and passes through
// the Go types without loss.
func TestServingKindsTakeEveryField(t *testing.T) {
	scheme := newScheme(t)
	for name, manifest := range map[string]string{"service": everyServiceField, "runtime": everyRuntimeField, "model": everyModelField} {
		t.Run(name, func(t *testing.T) {
			object := parse(t, manifest)
			stored, err := create(t.Context(), object, true)
			if err != nil {
				t.Fatalf("refused: %v", err)
			}
			checkStored(t, object.Object["spec"], stored.Object["spec"], "spec")
			checkRoundTrip(t, scheme, stored)
		})
	}
}

// checkStored checks that everything that was sent is there; defaults may stand beside it.
func checkStored(t *testing.T, sent, stored any, path string) {
	t.Helper()
	switch sent := sent.(type) {
	case map[string]any:
		got, _ := stored.(map[string]any)
		for key, value := range sent {
			checkStored(t, value, got[key], path+"."+key)
		}
	case []any:
		got, _ := stored.([]any)
		for i, value := range sent {
			var element any
			if i < len(got) {
				element = got[i]
			}
			checkStored(t, value, element, path+"[]")
		}
	default:
		if stored == nil {
			t.Errorf("%s is lost", path)
		}
	}
}

func TestInferenceServiceRefused(t *testing.T) {
	refuseAll(t, service, []variation{
		{"name that is no Service's", `{metadata: {name: "1st"}}`, []string{"metadata.name must consist of lower case letters"}},
		{"name with a dot", `{metadata: {name: "a.b"}}`, []string{"metadata.name must consist of lower case letters"}},
		{"name too long for a Service of a component", `{metadata: {name: "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcd"}}`, []string{"at most 55 characters"}},
		{"model without name", `{spec: {model: {name: null}}}`, []string{"spec.model.name: Required value"}},
		{"runtime without name", `{spec: {runtime: {}}}`, []string{"spec.runtime.name: Required value"}},
		{"negative minimum", `{spec: {engine: {minReplicas: -1}}}`, []string{"spec.engine.minReplicas", "minReplicas must be >= 0"}},
		{"negative maximum", `{spec: {engine: {maxReplicas: -1}}}`, []string{"spec.engine.maxReplicas", "maxReplicas must be >= 1"}},
		{"minimum above maximum", `{spec: {engine: {minReplicas: 5}}}`, []string{"spec.engine.minReplicas", "must be <= maxReplicas"}},
		{"the same of a router", `{spec: {router: {minReplicas: 5, maxReplicas: 3}}}`, []string{"spec.router.minReplicas", "must be <= maxReplicas"}},
		{"reference without name", `{spec: {engine: {autoscalerPolicyRef: {}}}}`, []string{"spec.engine.autoscalerPolicyRef.name: Required value"}},
		{"reference to an unknown kind", `{spec: {engine: {autoscalerPolicyRef: {name: p, kind: Policy}}}}`,
			[]string{"spec.engine.autoscalerPolicyRef.kind", `supported values: "AutoscalerPolicy", "ClusterAutoscalerPolicy"`}},
		{"autoscaler without class", `{spec: {engine: {autoscaler: {}}}}`, []string{"spec.engine.autoscaler.class: Required value"}},
		{"autoscaler of an unknown class", `{spec: {engine: {autoscaler: {class: KPA}}}}`,
			[]string{"spec.engine.autoscaler.class", `supported values: "HPA", "KEDA", "External", "None"`}},
		{"class KEDA without keda", `{spec: {engine: {autoscaler: {class: KEDA}}}}`, []string{"spec.engine.autoscaler.keda", "KedaTriggersRequired: class=keda requires at least 1 trigger"}},
		{"class KEDA without triggers", `{spec: {engine: {autoscaler: {class: KEDA, keda: {triggers: []}}}}}`, []string{"spec.engine.autoscaler.keda.triggers", "at least 1 items"}},
		{"malformed metric", `{spec: {decoder: {autoscaler: {class: HPA, hpa: {metrics: [{type: Pods}]}}}}}`, []string{"spec.decoder.autoscaler.hpa.metrics", "HPAMetricMalformed"}},
		{"unknown metric type of a trigger", `{spec: {engine: {autoscaler: {class: KEDA, keda: {triggers: [{type: cpu, metricType: Percent, metadata: {}}]}}}}}`,
			[]string{"spec.engine.autoscaler.keda.triggers[0].metricType", `supported values: "AverageValue", "Value", "Utilization"`}},
		{"unknown fallback", `{spec: {engine: {autoscaler: {class: KEDA, keda: {triggers: [{type: kafka, metadata: {}}], fallback: {failureThreshold: 1, replicas: 1, behavior: grow}}}}}}`,
			[]string{"spec.engine.autoscaler.keda.fallback.behavior"}},
		{"unknown scaling mode", `{spec: {scalingPolicy: {mode: Linked}}}`, []string{"spec.scalingPolicy.mode"}},
		{"unknown scale metric", `{spec: {engine: {scaleMetric: qps}}}`, []string{"spec.engine.scaleMetric", `supported values: "cpu", "memory", "concurrency", "rps"`}},
	})
}

func TestInferenceServiceAccepted(t *testing.T) {
	acceptAll(t, service, []variation{
		{"the smallest", `{spec: {engine: {minReplicas: null, maxReplicas: null}}}`, nil},
		{"longest name", `{metadata: {name: "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabc"}}`, nil},
		{"minimum without maximum", `{spec: {engine: {minReplicas: 5, maxReplicas: 0}}}`, nil},
		{"reserved kind, which admission refuses", `{spec: {engine: {autoscalerPolicyRef: {name: p, kind: ClusterAutoscalerPolicy}}}}`, nil},
		{"class External", `{spec: {engine: {autoscaler: {class: External}}}}`, nil},
		{"class None", `{spec: {engine: {autoscaler: {class: None}}}}`, nil},
		{"class HPA without settings", `{spec: {engine: {autoscaler: {class: HPA}}}}`, nil},
		{"class KEDA with everything", `{spec: {engine: {autoscaler: {class: KEDA, keda: {pollingInterval: 5, cooldownPeriod: 0, idleReplicaCount: 0, advanced: {restoreToOriginalReplicaCount: true}, fallback: {failureThreshold: 0, replicas: 0, behavior: currentReplicas}, triggers: [{type: cpu, name: c, metricType: Utilization, metadata: {value: "60"}}, {type: prometheus, name: p, useCachedMetrics: true, metadata: {}, authenticationRef: {name: a, kind: ClusterTriggerAuthentication}}]}}}}}`, nil},
	})
}

func TestServingRuntimeRefused(t *testing.T) {
	const reference = "autoscalerPolicyRef is not supported on serving runtimes; policy refs attach on the InferenceService only"
	refuseAll(t, clusterRuntime, []variation{
		{"format without modelFormat", `{spec: {supportedModelFormats: [{modelFramework: {name: a}}]}}`, []string{"spec.supportedModelFormats[0].modelFormat: Required value"}},
		{"format without modelFramework", `{spec: {supportedModelFormats: [{modelFormat: {name: a}}]}}`, []string{"spec.supportedModelFormats[0].modelFramework: Required value"}},
		{"format without name", `{spec: {supportedModelFormats: [{modelFormat: {}, modelFramework: {name: a}}]}}`, []string{"spec.supportedModelFormats[0].modelFormat.name: Required value"}},
		{"priority of zero", `{spec: {supportedModelFormats: [{modelFormat: {name: a}, modelFramework: {name: a}, priority: 0}]}}`,
			[]string{"spec.supportedModelFormats[0].priority", "greater than or equal to 1"}},
		{"policy of an engine", `{spec: {engineConfig: {autoscalerPolicyRef: {name: p}}}}`, []string{reference}},
		{"policy of a decoder", `{spec: {decoderConfig: {autoscalerPolicyRef: {name: p}}}}`, []string{reference}},
		{"policy of a router", `{spec: {routerConfig: {autoscalerPolicyRef: {name: p}}}}`, []string{reference}},
		{"minimum above maximum", `{spec: {engineConfig: {minReplicas: 5, maxReplicas: 3}}}`, []string{"spec.engineConfig.minReplicas", "must be <= maxReplicas"}},
		{"autoscaler of an unknown class", `{spec: {engineConfig: {autoscaler: {class: KPA}}}}`, []string{"spec.engineConfig.autoscaler.class"}},
	})
}

func TestBaseModelRefused(t *testing.T) {
	refuseAll(t, clusterModel, []variation{
		{"no storage", `{spec: {storage: null}}`, []string{"spec.storage: Required value"}},
		{"no address of the files", `{spec: {storage: {storageUri: null}}}`, []string{"spec.storage.storageUri: Required value"}},
		{"format without name", `{spec: {modelFormat: {name: null}}}`, []string{"spec.modelFormat.name: Required value"}},
		{"unknown download policy", `{spec: {storage: {downloadPolicy: Never}}}`, []string{"spec.storage.downloadPolicy", `supported values: "AlwaysDownload", "ReuseIfExists"`}},
	})
}

func TestInferenceServiceDefaults(t *testing.T) {
	stored, err := create(t.Context(), vary(t, service, `{spec: {runtime: {name: r}, engine: {autoscalerPolicyRef: {name: p}}, scalingPolicy: {}}}`), true)
	if err != nil {
		t.Fatal(err)
	}
	checkFields(t, stored.Object, map[string]string{
		"spec.model.kind": "ClusterBaseModel", "spec.model.apiGroup": "ome.io",
		"spec.runtime.kind": "ClusterServingRuntime", "spec.runtime.apiGroup": "ome.io",
		"spec.engine.autoscalerPolicyRef.kind": "AutoscalerPolicy",
		"spec.scalingPolicy.mode":              "Independent",
	})
}

func checkFields(t *testing.T, object map[string]any, want map[string]string) {
	t.Helper()
	for path, value := range want {
		if got, _, _ := unstructured.NestedString(object, strings.Split(path, ".")...); got != value {
			t.Errorf("%s is %q, want %q", path, got, value)
		}
	}
}
