package desired

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyrender"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyresolve"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/servingcomponent"
)

func readYAML(t *testing.T, text string, into any) {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("reading %s: %v", text, err)
	}
	if err := utiljson.Unmarshal(data, into); err != nil {
		t.Fatalf("reading %s: %v", text, err)
	}
}

// engineOf is the engine of a service llama in namespace demo, with a spec.
func engineOf(t *testing.T, spec string) ServingComponent {
	t.Helper()
	service := &v1beta1.InferenceService{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "llama", UID: "uid"}}
	readYAML(t, spec, &service.Spec)
	return ServingComponent{
		Service: service, Component: servingcomponent.Of(service.Spec, nil)[0],
		Runtime: "vllm", Model: &v1beta1.BaseModelSpec{Vendor: "meta", ModelParameterSize: "1.24B"},
	}
}

func podsOf(t *testing.T, c ServingComponent) servingcomponent.Pods {
	t.Helper()
	pods, err := c.Component.Pods()
	if err != nil {
		t.Fatal(err)
	}
	return pods
}

// checkObject compares all of an object but the digest, which must be there.
func checkObject(t *testing.T, got *unstructured.Unstructured, err error, want string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if len(got.GetAnnotations()[AnnotationApplied]) != 16 {
		t.Errorf("the annotations are %v, want a digest among them", got.GetAnnotations())
	}
	got = got.DeepCopy()
	unstructured.RemoveNestedField(got.Object, "metadata", "annotations", AnnotationApplied)
	var object map[string]any
	readYAML(t, want, &object)
	if diff := cmp.Diff(object, got.Object); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

const (
	componentLabels = `ome.io/inferenceservice: llama, component: engine, serving-runtime: vllm, fine-tuned-serving: "false", base-model-name: m, base-model-type: Serving, team: a`
	commonMeta      = `namespace: demo, ownerReferences: [{apiVersion: ome.io/v1beta1, kind: InferenceService, name: llama, uid: uid, controller: true}],
  labels: {` + componentLabels + `, base-model-size: 1.24B, base-model-vendor: meta, app.kubernetes.io/managed-by: pd-orchestrator}`
	engineSpec = `
model: {name: m}
engine:
  labels: {team: a, component: other}
  annotations: {note: text, autoscaling.keda.sh/paused: "true", ome.io/autoscalerClass: external}
  runner: {image: i, ports: [{containerPort: 9000}, {name: grpc, containerPort: 9001}, {containerPort: 9001, protocol: UDP}]}
  volumes: [{name: v, emptyDir: {}}]
`
)

func TestDeployment(t *testing.T) {
	c := engineOf(t, engineSpec)
	got, err := c.Workload(podsOf(t, c))
	checkObject(t, got, err, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: llama-engine, annotations: {note: text}, `+commonMeta+`}
spec:
  selector: {matchLabels: {app: llama-engine}}
  strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}
  progressDeadlineSeconds: 600
  template:
    metadata: {annotations: {note: text}, labels: {app: llama-engine, `+componentLabels+`}}
    spec:
      containers: [{name: ome-container, image: i, resources: {}, ports: [{containerPort: 9000}, {name: grpc, containerPort: 9001}, {containerPort: 9001, protocol: UDP}]}]
      volumes: [{name: v, emptyDir: {}}]
`)
	service, err := c.ClusterService(podsOf(t, c))
	checkObject(t, service, err, `
apiVersion: v1
kind: Service
metadata: {name: llama-engine, annotations: {}, `+commonMeta+`}
spec:
  selector: {app: llama-engine}
  ports: [{name: port-9000, port: 9000, targetPort: 9000, protocol: TCP}, {name: grpc, port: 9001, targetPort: 9001, protocol: TCP}, {name: port-9001-udp, port: 9001, targetPort: 9001, protocol: UDP}]
`)
	if url := c.URL(podsOf(t, c)); url != "http://llama-engine.demo.svc:9000" {
		t.Errorf("the URL is %s", url)
	}
}

func TestLeaderWorkerSet(t *testing.T) {
	c := engineOf(t, `{model: {name: m, fineTunedWeights: [w]}, engine: {labels: {team: a}, runner: {image: i}, leader: {}, worker: {size: 3, nodeSelector: {a: b}}}}`)
	got, err := c.Workload(podsOf(t, c))
	fineTuned := func(s string) string {
		return strings.ReplaceAll(s, `fine-tuned-serving: "false"`, `fine-tuned-serving: "true"`)
	}
	checkObject(t, got, err, fineTuned(`
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: lws-llama-engine, annotations: {}, `+commonMeta+`}
spec:
  startupPolicy: LeaderCreated
  networkConfig: {subdomainPolicy: Shared}
  rolloutStrategy: {type: RollingUpdate, rollingUpdateConfiguration: {maxUnavailable: 1, maxSurge: 1}}
  leaderWorkerTemplate:
    size: 4
    restartPolicy: RecreateGroupOnPodRestart
    leaderTemplate: {metadata: {annotations: {}, labels: {app: llama-engine, `+componentLabels+`}}, spec: {containers: [{name: ome-container, image: i, resources: {}}]}}
    workerTemplate: {metadata: {annotations: {}, labels: {`+componentLabels+`}}, spec: {nodeSelector: {a: b}, containers: [{name: ome-container, image: i, resources: {}}]}}
`))
	if target := c.Target(); target.Name != "lws-llama-engine" || target.Kind != "LeaderWorkerSet" {
		t.Errorf("the target is %v", target)
	}
	service, err := c.ClusterService(podsOf(t, c))
	checkObject(t, service, err, fineTuned(`
apiVersion: v1
kind: Service
metadata: {name: llama-engine, annotations: {}, `+commonMeta+`}
spec: {selector: {app: llama-engine}, ports: [{name: http, port: 8080, targetPort: 8080, protocol: TCP}]}
`))
}

func TestOwnStrategy(t *testing.T) {
	c := engineOf(t, `{engine: {runner: {image: i}, deploymentStrategy: {type: Recreate}}}`)
	got, err := c.Workload(podsOf(t, c))
	if err != nil {
		t.Fatal(err)
	}
	if s, _, _ := unstructured.NestedMap(got.Object, "spec", "strategy"); !cmp.Equal(s, map[string]any{"type": "Recreate"}) {
		t.Errorf("the strategy is %v", s)
	}
}

// TestWorkloadsFollowTheirTemplateOnly: pods are replaced when their template changes, so that it must not change for
// words to autoscalers, or for what a model is described by.
func TestWorkloadsFollowTheirTemplateOnly(t *testing.T) {
	template := func(c ServingComponent) any {
		u, err := c.Workload(podsOf(t, c))
		if err != nil {
			t.Fatal(err)
		}
		fields, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "template")
		return fields
	}
	before := engineOf(t, `{model: {name: m}, engine: {runner: {image: i}}}`)
	after := engineOf(t, `{model: {name: m}, engine: {minReplicas: 2, runner: {image: i}, autoscaler: {class: None}, annotations: {autoscaling.keda.sh/paused: "true", ome.io/targetUtilizationPercentage: "60"}}}`)
	after.Model = &v1beta1.BaseModelSpec{Vendor: "other", ModelParameterSize: "3B"}
	if diff := cmp.Diff(template(before), template(after)); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

func TestLabelsThatAreNone(t *testing.T) {
	c := engineOf(t, `{engine: {runner: {image: i}}}`)
	c.Runtime, c.Model = strings.Repeat("r", 64), &v1beta1.BaseModelSpec{Vendor: "Meta Inc."}
	got, err := c.Workload(podsOf(t, c))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"serving-runtime", "base-model-vendor", "base-model-size", "base-model-name"} {
		if value, ok := got.GetLabels()[key]; ok {
			t.Errorf("label %s is %q, want none", key, value)
		}
	}
}

// resolved is a resolution with a block and the bounds 1 and 4.
func resolved(t *testing.T, block string) policyresolve.Resolution {
	t.Helper()
	a := &v1beta1.ComponentAutoscaler{}
	readYAML(t, block, a)
	return policyresolve.Resolution{Autoscaler: a, MinReplicas: 1, MaxReplicas: 4}
}

func TestHPA(t *testing.T) {
	c := engineOf(t, engineSpec)
	got, err := c.Autoscaler(resolved(t, `{class: HPA, hpa: {behavior: {scaleDown: {stabilizationWindowSeconds: 300}}}}`))
	checkObject(t, got, err, `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: llama-engine, annotations: {note: text, autoscaling.keda.sh/paused: "true", ome.io/autoscalerClass: hpa, validations.keda.sh/hpa-ownership: "false"}, `+commonMeta+`}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: llama-engine}
  minReplicas: 1
  maxReplicas: 4
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]
  behavior: {scaleDown: {stabilizationWindowSeconds: 300}}
`)
}

func TestScaledObject(t *testing.T) {
	c := engineOf(t, engineSpec)
	got, err := c.Autoscaler(resolved(t, `
class: KEDA
keda:
  triggers: [{type: prometheus, metricType: AverageValue, metadata: {query: q, threshold: "5"}, authenticationRef: {name: a}}]
  advanced: {restoreToOriginalReplicaCount: true}
  pollingInterval: 5
  cooldownPeriod: 0
  idleReplicaCount: 0
  fallback: {failureThreshold: 3, replicas: 4}
`))
	checkObject(t, got, err, `
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: scaledobject-llama-engine, annotations: {note: text, autoscaling.keda.sh/paused: "true", ome.io/autoscalerClass: keda}, `+commonMeta+`}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: llama-engine}
  minReplicaCount: 1
  maxReplicaCount: 4
  triggers: [{type: prometheus, metricType: AverageValue, metadata: {query: q, threshold: "5"}, authenticationRef: {name: a}}]
  advanced: {restoreToOriginalReplicaCount: true}
  pollingInterval: 5
  cooldownPeriod: 0
  idleReplicaCount: 0
  fallback: {failureThreshold: 3, replicas: 4}
`)
}

// TestTriggersWithoutSettings: KEDA's schema wants the metadata of a trigger even where there is nothing in it.
func TestTriggersWithoutSettings(t *testing.T) {
	got, err := engineOf(t, `{engine: {}}`).Autoscaler(resolved(t, `{class: KEDA, keda: {triggers: [{type: kafka, metadata: {}}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	triggers, _, _ := unstructured.NestedSlice(got.Object, "spec", "triggers")
	if diff := cmp.Diff([]any{map[string]any{"type": "kafka", "metadata": map[string]any{}}}, triggers); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLongNames: KEDA puts the name of a ScaledObject and of its HorizontalPodAutoscaler into labels.
func TestLongNames(t *testing.T) {
	c := engineOf(t, `{engine: {}}`)
	c.Service.Name = strings.Repeat("a", 50) + "bcdef"
	got, err := c.Autoscaler(resolved(t, `{class: KEDA, keda: {triggers: [{type: kafka, metadata: {}}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ := unstructured.NestedString(got.Object, "spec", "advanced", "horizontalPodAutoscalerConfig", "name")
	for of, name := range map[string]string{"ScaledObject": got.GetName(), "HPA": name} {
		if len(name) != 63 || !strings.HasSuffix(name, "bcdef-engine") {
			t.Errorf("the %s is named %q (%d characters), want 63 with the end of the component's name", of, name, len(name))
		}
	}
	own, err := c.Autoscaler(resolved(t, `{class: KEDA, keda: {triggers: [{type: kafka, metadata: {}}], advanced: {horizontalPodAutoscalerConfig: {name: mine}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if name, _, _ := unstructured.NestedString(own.Object, "spec", "advanced", "horizontalPodAutoscalerConfig", "name"); name != "mine" {
		t.Errorf("the HPA is named %q, want mine", name)
	}
}

func TestNoAutoscaler(t *testing.T) {
	c := engineOf(t, `{engine: {}}`)
	for block, want := range map[string]string{
		`{class: External}`:                   "",
		`{class: None}`:                       "",
		`{class: KEDA}`:                       "KEDA autoscaler requires at least one trigger",
		`{class: KEDA, keda: {triggers: []}}`: "KEDA autoscaler requires at least one trigger",
		`{class: KPA}`:                        `class "KPA" must be HPA, KEDA, External or None`,
	} {
		got, err := c.Autoscaler(resolved(t, block))
		if got != nil || want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s gives %v and error %v, want error %q", block, got, err, want)
		}
	}
	r := resolved(t, `{class: HPA}`)
	r.MinReplicas = 0
	if got, err := c.Autoscaler(r); got != nil || err == nil || err.Error() != "minReplicas=0 requires typed KEDA with at least one trigger" {
		t.Errorf("class HPA from 0 replicas gives %v and error %v", got, err)
	}
}

// TestDigestTellsWhatIsGone: a field that is no longer wanted changes the digest, or else nobody would take it off.
func TestDigestTellsWhatIsGone(t *testing.T) {
	c := engineOf(t, `{engine: {}}`)
	digest := func(block string) string {
		u, err := c.Autoscaler(resolved(t, block))
		if err != nil {
			t.Fatal(err)
		}
		return u.GetAnnotations()[AnnotationApplied]
	}
	with := digest(`{class: KEDA, keda: {triggers: [{type: kafka, metadata: {}}], pollingInterval: 5}}`)
	without := digest(`{class: KEDA, keda: {triggers: [{type: kafka, metadata: {}}]}}`)
	if with == without || without != digest(`{class: KEDA, keda: {triggers: [{type: kafka, metadata: {}}]}}`) {
		t.Errorf("the digests are %s with a field and %s without", with, without)
	}
}

func TestTriggerAuthentication(t *testing.T) {
	got, err := TriggerAuthentication("demo", policyrender.Authentication{Name: "ome-metric-provider-p", Secret: policyrender.SecretKey{Name: "bearer", Key: "token"}})
	checkObject(t, got, err, `
apiVersion: keda.sh/v1alpha1
kind: TriggerAuthentication
metadata: {name: ome-metric-provider-p, namespace: demo, annotations: {}, labels: {app.kubernetes.io/managed-by: pd-orchestrator}}
spec: {secretTargetRef: [{parameter: bearerToken, name: bearer, key: token}]}
`)
	if !IsOwnTriggerAuthentication(got) || IsOwnTriggerAuthentication(&unstructured.Unstructured{Object: map[string]any{}}) {
		t.Error("our own TriggerAuthentication is not told from others")
	}
}
