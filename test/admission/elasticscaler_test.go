package admission

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
)

const (
	scaler = `
apiVersion: elasticscaler.io/v1alpha1
kind: ElasticScaler
metadata:
  name: scaler
  annotations: {elasticscaler.io/metrics.windowSeconds: "60"}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: llm, namespace: here}
  minReplicas: 1
  maxReplicas: 8
  trigger:
    type: MetricsTrigger
    metricsTrigger:
      scalingAlgorithm: APA
      algorithmConfig: {maxScaleUpRate: 2}
      metrics:
      - {type: ExternalServer, externalServer: {endpoint: "prometheus.monitoring:9090", metricsName: queue, query: "sum(queue)", target: "10"}}
`
	serverMetric   = `{type: ExternalServer, externalServer: {endpoint: "prometheus.monitoring:9090", metricsName: queue, query: "sum(queue)", target: "10"}}`
	externalMetric = `{type: External, external: {metricsName: queue, target: {type: AverageValue, averageValue: "10"}}}`
	cpuMetric      = `{type: Resource, resource: {metricsName: cpu, target: {type: Utilization, averageUtilization: 70}}}`
	window         = `{elasticscaler.io/metrics.windowSeconds: "60"}`
	config         = `algorithmConfig: {maxScaleUpRate: 2}`
	targetOfScaler = `{apiVersion: apps/v1, kind: Deployment, name: llm, namespace: here}`
	// scalerDenied begins what the API server says for the webhook.
	scalerDenied = `admission webhook "elasticscaler.elasticscaler.io" denied the request: ElasticScaler.elasticscaler.io "scaler" is invalid: `
)

// scalerIn reads the manifest of an ElasticScaler into a namespace, that of its target too unless other words say another.
func scalerIn(t *testing.T, namespace string, replace ...string) *unstructured.Unstructured {
	t.Helper()
	text := scaler
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(text, replace[i]) {
			t.Fatalf("the manifest has no %q to replace", replace[i])
		}
		text = strings.Replace(text, replace[i], replace[i+1], 1)
	}
	return manifest(t, namespace, strings.ReplaceAll(text, "namespace: here", "namespace: "+namespace))
}

func TestScalerRefusals(t *testing.T) {
	ns := namespaces(t, "scalers")[0]
	ratio := manifest(t, ns, inplace)
	ratio.SetName("ratio")
	must(t, suite.admin.Create(t.Context(), ratio))
	const metrics = "spec.trigger.metricsTrigger.metrics"
	cases := map[string]struct {
		replace []string
		want    []string
	}{
		// What takes a parser, or an algorithm.
		"a query that is none": {
			[]string{`"sum(queue)"`, `"sum(queue"`},
			[]string{scalerDenied, metrics + `[0].externalServer.query: Invalid value: "sum(queue": must be a PromQL expression: `},
		},
		"a query of a range": {
			[]string{`"sum(queue)"`, `"queue[5m]"`},
			[]string{scalerDenied, metrics + `[0].externalServer.query: Invalid value: "queue[5m]": must give one number, and gives a range vector; wrap it, for example in rate(...)`},
		},
		"a target of 0 in another spelling": {
			[]string{`target: "10"`, `target: "0e3"`},
			[]string{scalerDenied, metrics + `[0].externalServer.target: Invalid value: 0: must be greater than 0`},
		},
		"a setting out of its range": {
			[]string{config, "algorithmConfig: {maxScaleUpRate: 0.5, downTolerance: 7}"},
			[]string{scalerDenied, "spec.trigger.metricsTrigger.algorithmConfig: Invalid value", "maxScaleUpRate", "downTolerance"},
		},
		"an expression that is none": {
			[]string{"scalingAlgorithm: APA", "scalingAlgorithm: cel", config, `algorithmConfig: {expression: "metrics['queue'].value /"}`},
			[]string{scalerDenied, "algorithmConfig: Invalid value: expression is no valid CEL expression"},
		},
		"an expression of another type": {
			[]string{"scalingAlgorithm: APA", "scalingAlgorithm: CEL", config, `algorithmConfig: {expression: "metrics['queue'].value > 1.0"}`},
			[]string{scalerDenied, "expression must give an int or a double, and gives bool"},
		},
		"an expression on a metric that is not there": {
			[]string{"scalingAlgorithm: APA", "scalingAlgorithm: CEL", config, `algorithmConfig: {expression: "metrics['tokens'].value"}`},
			[]string{scalerDenied, `expression uses metric "tokens", which is none of the metrics queue`},
		},
		"an annotation that is no number": {
			[]string{`"60"`, `"a minute"`},
			[]string{scalerDenied, `metadata.annotations[elasticscaler.io/metrics.windowSeconds]: Invalid value: "a minute": must be a whole number from 0 to 3600`},
		},
		"a tolerance below 0": {
			[]string{"  minReplicas: 1", "  behavior: {scaleUp: {tolerance: \"-100m\"}}\n  minReplicas: 1"},
			[]string{scalerDenied, `spec.behavior.scaleUp.tolerance: Invalid value: "-100m": must be 0 or more`},
		},
		// What an HPA cannot do.
		"an HPA of another namespace": {
			[]string{"scalingAlgorithm: APA", "scalingAlgorithm: HPA", serverMetric, cpuMetric, "namespace: here", "namespace: elsewhere"},
			[]string{scalerDenied, `spec.targetRef.namespace: Invalid value: "elsewhere": must be the namespace of the ElasticScaler, ` + ns + `, with scalingAlgorithm HPA`},
		},
		"an HPA to 0 by usage": {
			[]string{"scalingAlgorithm: APA", "scalingAlgorithm: hpa", serverMetric, cpuMetric, "minReplicas: 1", "minReplicas: 0"},
			[]string{scalerDenied, `spec.minReplicas: Invalid value: 0: must be 1 or more with scalingAlgorithm HPA and no External metric`},
		},
		// What other objects show.
		"a kind without a count": {
			[]string{"apiVersion: apps/v1, kind: Deployment", "apiVersion: v1, kind: ConfigMap"},
			[]string{scalerDenied, `spec.targetRef.kind: Invalid value: "ConfigMap": must be a kind with a scale subresource, such as Deployment, StatefulSet or ResourceScalingGroup; ConfigMap has none, so its count cannot be set`},
		},
		"a kind of no namespace": {
			[]string{"apiVersion: apps/v1, kind: Deployment", "apiVersion: v1, kind: node"},
			[]string{scalerDenied, `spec.targetRef.kind: Invalid value: "node"`, `Node has none`},
		},
		"a group that follows a ratio": {
			[]string{targetOfScaler, "{kind: resourcescalinggroup, name: ratio}"},
			[]string{scalerDenied, `spec.targetRef: Invalid value: "ResourceScalingGroup ` + ns + `/ratio": is of type InplaceScaling and has no group count to scale: ` +
				`target the workload of its leader instead, or a ResourceScalingGroup of type GroupReplication`},
		},
		"a kind that nobody serves, in another namespace": {
			[]string{targetOfScaler, "{apiVersion: example.org/v1, kind: Thing, name: llm, namespace: elsewhere}"},
			[]string{scalerDenied, `spec.targetRef: Forbidden: is in another namespace, and the API server serves no kind Thing in example.org/v1, so nobody can say who may scale it`},
		},
		// What the schema says, with the webhook too.
		"a target that is a node's":      {[]string{"kind: Deployment", "kind: DaemonSet"}, []string{"spec.targetRef.kind", "this kind has none"}},
		"a target that is a scaler":      {[]string{"kind: Deployment", "kind: ScaledObject"}, []string{"spec.targetRef.kind", "and not a scaler"}},
		"an HPA on an endpoint":          {[]string{"scalingAlgorithm: APA", "scalingAlgorithm: HPA"}, []string{metrics, "metrics must not have type ExternalServer with scalingAlgorithm HPA"}},
		"bounds that leave no room":      {[]string{"maxReplicas: 8", "maxReplicas: 1", "minReplicas: 1", "minReplicas: 2"}, []string{"spec.minReplicas", "minReplicas must be less than or equal to maxReplicas"}},
		"a trigger without its block":    {[]string{"type: MetricsTrigger", "type: SignalTrigger"}, []string{"spec.trigger.signalTrigger", "signalTrigger must be set when type is SignalTrigger", "metricsTrigger must be left out"}},
		"an endpoint with a password":    {[]string{"prometheus.monitoring:9090", "https://me:secret@prometheus.monitoring"}, []string{metrics + "[0].externalServer.endpoint", "without user name and password"}},
		"a fallback without its count":   {[]string{`target: "10"}}`, `target: "10"}, noData: {policy: Fallback}}`}, []string{metrics + "[0].noData.replicas", "replicas must be set when policy is Fallback"}},
		"the target of another type":     {[]string{serverMetric, strings.Replace(cpuMetric, "type: Utilization, averageUtilization: 70", "type: Value, value: 1", 1)}, []string{metrics + "[0].resource.target.type", "type must be Utilization or AverageValue for a Resource metric"}},
		"a metric of another type":       {[]string{"{type: ExternalServer", "{type: External"}, []string{metrics + "[0].external", "external must be set when type is External"}},
		"a Tidal without a StateTrigger": {[]string{"apiVersion: apps/v1, kind: Deployment", "kind: tidal"}, []string{"spec.targetRef", "only with trigger.type StateTrigger"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			obj := scalerIn(t, ns, tc.replace...)
			refused(t, suite.admin.Create(t.Context(), obj.DeepCopy()), tc.want...)
			refused(t, suite.admin.Create(t.Context(), obj.DeepCopy(), client.DryRunAll), tc.want...)
		})
	}
}

func TestAllFindingsAboutAScalerComeInOneAnswer(t *testing.T) {
	ns := namespaces(t, "scalers")[0]
	err := suite.admin.Create(t.Context(), scalerIn(t, ns,
		`"sum(queue)"`, `"sum(queue"`, `"60"`, `"-1"`, "maxScaleUpRate: 2", "maxScaleUpRate: 0", "apiVersion: apps/v1, kind: Deployment", "apiVersion: v1, kind: ConfigMap"))
	want := "metadata.annotations[elasticscaler.io/metrics.windowSeconds] spec.trigger.metricsTrigger.metrics[0].externalServer.query " +
		"spec.trigger.metricsTrigger.algorithmConfig spec.targetRef.kind"
	if got := causes(t, err); got != want {
		t.Errorf("causes are of %s, want %s", got, want)
	}
}

// An HPA that the API server would refuse is tried before the scaler is stored, and leaves nothing. Whether one may go to 0
// is up to the API server.
func TestTheHPAOfAScalerIsTried(t *testing.T) {
	ns := namespaces(t, "scalers")[0]
	must(t, suite.admin.Create(t.Context(), testkit.MakeDeployment(ns, "llm").Obj()))
	quantity := "10"
	byHand := &unstructured.Unstructured{}
	byHand.SetAPIVersion("autoscaling/v2")
	byHand.SetKind("HorizontalPodAutoscaler")
	byHand.SetNamespace(ns)
	byHand.SetName("by-hand")
	byHand.Object["spec"] = map[string]any{
		"minReplicas": int64(0), "maxReplicas": int64(8),
		"scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "llm"},
		"metrics": []any{map[string]any{"type": "External", "external": map[string]any{
			"metric": map[string]any{"name": "queue"}, "target": map[string]any{"type": "AverageValue", "averageValue": quantity},
		}}},
	}
	possible := suite.admin.Create(t.Context(), byHand, client.DryRunAll) == nil
	toZero := scalerIn(t, ns, "scalingAlgorithm: APA", "scalingAlgorithm: HPA", config, "algorithmConfig: {}", serverMetric, externalMetric, "minReplicas: 1", "minReplicas: 0")
	if err := suite.admin.Create(t.Context(), toZero.DeepCopy(), client.DryRunAll); possible {
		must(t, err)
	} else {
		refused(t, err, scalerDenied, "spec: Forbidden: the HorizontalPodAutoscaler that scalingAlgorithm HPA stands for is refused: spec.minReplicas: ")
	}
	// A name of a metric that no path can have.
	slash := scalerIn(t, ns, "scalingAlgorithm: APA", "scalingAlgorithm: HPA", config, "algorithmConfig: {}", serverMetric, strings.Replace(externalMetric, "queue", "queue/depth", 1))
	refused(t, suite.admin.Create(t.Context(), slash), scalerDenied, "spec: Forbidden: the HorizontalPodAutoscaler that scalingAlgorithm HPA stands for is refused: spec.metrics[0].external.metric.name: ", "may not contain '/'")
	var hpas autoscalingv2.HorizontalPodAutoscalerList
	must(t, suite.admin.List(t.Context(), &hpas, client.InNamespace(ns)))
	if len(hpas.Items) > 0 {
		t.Errorf("the trial left %d HPAs", len(hpas.Items))
	}
}

// A target has one ElasticScaler, however the two name it.
func TestASecondScalerOfATargetIsRefused(t *testing.T) {
	ns := namespaces(t, "scalers")[0]
	must(t, suite.admin.Create(t.Context(), testkit.MakeDeployment(ns, "llm").Obj()))
	must(t, suite.admin.Create(t.Context(), testkit.MakeDeployment(ns, "other").Obj()))
	first := scalerIn(t, ns)
	must(t, suite.admin.Create(t.Context(), first))
	named := func(name string, replace ...string) *unstructured.Unstructured {
		second := scalerIn(t, ns, replace...)
		second.SetName(name)
		return second
	}
	taken := `spec.targetRef: Invalid value: "Deployment llm": is scaled by ElasticScaler ` + ns + `/scaler already, and a target has one: change that one, or delete it first`
	// The first one is found in a cache.
	refused(t, eventually(t, func() error { return suite.admin.Create(t.Context(), named("second"), client.DryRunAll) }, "accepted"), taken)
	refused(t, suite.admin.Create(t.Context(), named("second", targetOfScaler, "{kind: deployment, name: llm}")),
		`"deployment llm": is scaled by ElasticScaler `+ns+`/scaler already`)
	second := named("second", "name: llm", "name: other")
	must(t, suite.admin.Create(t.Context(), second.DeepCopy()))
	move := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"llm","namespace":"`+ns+`"}}}`))
	refused(t, suite.admin.Patch(t.Context(), second.DeepCopy(), move), taken)
	// It may be changed itself, and makes room when it goes.
	must(t, suite.admin.Patch(t.Context(), first.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"maxReplicas":9}}`))))
	must(t, suite.admin.Delete(t.Context(), first))
	must(t, suite.admin.Patch(t.Context(), second.DeepCopy(), move))
}

// Without apiVersion the kind alone must tell the target.
func TestAKindOfSeveralGroupsNeedsItsGroup(t *testing.T) {
	ns := namespaces(t, "scalers")[0]
	for _, group := range []string{"a.example.org", "b.example.org"} {
		crd := manifest(t, "", `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: engines.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {kind: Engine, listKind: EngineList, plural: engines}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    subresources: {scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
`, "GROUP", group)
		must(t, suite.admin.Create(t.Context(), crd))
		t.Cleanup(func() { must(t, suite.admin.Delete(context.WithoutCancel(t.Context()), crd)) })
	}
	bare := scalerIn(t, ns, "apiVersion: apps/v1, kind: Deployment", "kind: engine")
	testkit.Eventually(t, 3*soon, "a refusal, once both kinds are known", func(ctx context.Context) error {
		err := suite.admin.Create(ctx, bare.DeepCopy(), client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "spec.targetRef.apiVersion: Required value: ") || !strings.Contains(err.Error(), "a.example.org/v1 and b.example.org/v1") {
			return fmt.Errorf("the answer is %w", err)
		}
		return nil
	})
	must(t, suite.admin.Create(t.Context(), scalerIn(t, ns, "apiVersion: apps/v1, kind: Deployment", "apiVersion: a.example.org/v1, kind: engine"), client.DryRunAll))
}

func TestScalerWarnings(t *testing.T) {
	ns := namespaces(t, "scalers")[0]
	for _, name := range []string{"free", "scaled"} {
		must(t, suite.admin.Create(t.Context(), testkit.MakeDeployment(ns, name).Obj()))
	}
	for name, target := range map[string]string{"by-usage": "scaled", "scaler": "elsewhere"} {
		must(t, suite.admin.Create(t.Context(), &autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: target}, MaxReplicas: 3,
			},
		}))
	}
	free := []string{"name: llm", "name: free"}
	cases := map[string]struct {
		replace []string
		want    []string
	}{
		"a Deployment of its own": {free, nil},
		"a target that is not there": {
			nil, []string{`spec.targetRef: Deployment ` + ns + `/llm does not exist yet, so nothing is scaled until it does; or correct the reference`},
		},
		"a kind that nobody serves": {
			[]string{"apiVersion: apps/v1, kind: Deployment", "apiVersion: example.org/v1, kind: Thing"},
			[]string{`spec.targetRef: the API server serves no kind Thing in example.org/v1, so nothing is scaled until its CRD is installed; or correct the reference`},
		},
		"a bare kind that nobody serves": {
			[]string{"apiVersion: apps/v1, kind: Deployment", "kind: Thing"}, []string{`spec.targetRef: `, `Thing`, `nothing is scaled until its CRD is installed`},
		},
		"an algorithm that nobody registered": {
			append([]string{"scalingAlgorithm: APA", "scalingAlgorithm: xpa"}, free...),
			[]string{`spec.trigger.metricsTrigger.scalingAlgorithm: no scaling algorithm "xpa" is registered, and the count stays: the registered ones are APA, CEL, KPA, HPA`},
		},
		"a setting that the algorithm does not read": {
			append([]string{config, "algorithmConfig: {threshold: 0.8}"}, free...),
			[]string{`spec.trigger.metricsTrigger.algorithmConfig[threshold] is not read by scalingAlgorithm APA, which reads upTolerance`},
		},
		"an annotation that nobody reads": {
			append([]string{"metrics.windowSeconds", "metrics.windowMinutes"}, free...),
			[]string{`annotation elasticscaler.io/metrics.windowMinutes is not known, and has no effect; the known ones are `},
		},
		"an annotation that the spec hides": {
			append([]string{"metrics.windowSeconds", "behavior.scaleDown.stabilizationWindowSeconds", "  minReplicas: 1", "  behavior: {scaleDown: {stabilizationWindowSeconds: 10}}\n  minReplicas: 1"}, free...),
			[]string{`annotation elasticscaler.io/behavior.scaleDown.stabilizationWindowSeconds has no effect, since spec.behavior.scaleDown.stabilizationWindowSeconds is set`},
		},
		"an annotation that an HPA does not read": {
			append([]string{"scalingAlgorithm: APA", "scalingAlgorithm: HPA", serverMetric, cpuMetric}, free...),
			[]string{
				`annotation elasticscaler.io/metrics.windowSeconds has no effect with scalingAlgorithm HPA; use spec.behavior`,
				`spec.trigger.metricsTrigger.algorithmConfig has no effect with scalingAlgorithm HPA`,
				`metadata.name: a HorizontalPodAutoscaler of the name scaler exists and is not this scaler's`,
			},
		},
		"nothing that starts the target": {
			append([]string{serverMetric, cpuMetric, "minReplicas: 1", "minReplicas: 0"}, free...),
			[]string{`spec.minReplicas is 0, and every metric vanishes with the last pod, so that nothing starts the target again`},
		},
		"an HPA on the target": {
			[]string{"name: llm", "name: scaled"},
			[]string{`spec.targetRef: HorizontalPodAutoscaler ` + ns + `/by-usage scales this target and has the first right to its count, so this scaler writes nothing until that is gone`},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			warns(t, func() *unstructured.Unstructured { return scalerIn(t, ns, tc.replace...) }, tc.want...)
		})
	}
}

// TestTheWriterOfAScalerMustHaveTheRightToScaleTheTarget is the access rule, with real users.
func TestTheWriterOfAScalerMustHaveTheRightToScaleTheTarget(t *testing.T) {
	names := namespaces(t, "dev", "prod")
	dev, prod := names[0], names[1]
	alice, bob := "alice-"+dev, "bob-"+dev
	writer := right("elasticscaler.io", "elasticscalers", "get", "create", "update", "patch", "delete")
	for _, name := range []string{alice, bob} {
		grant(t, person(name), dev, writer)
	}
	as, other := user(t, alice), user(t, bob)
	elsewhere := func() *unstructured.Unstructured { return scalerIn(t, dev, "namespace: here", "namespace: "+prod) }
	needs := func(user string) string {
		return `spec.targetRef: Forbidden: is in another namespace, where user "` + user + `" must be allowed to: ` +
			`update deployments.apps/scale "llm" in namespace ` + prod + `; ask for that right, or put the ElasticScaler beside its target`
	}
	missing := as.Create(t.Context(), elsewhere())
	refused(t, missing, scalerDenied+needs(alice))
	must(t, suite.admin.Create(t.Context(), testkit.MakeDeployment(prod, "llm").Replicas(10).Obj()))
	if there := as.Create(t.Context(), elsewhere()); there == nil || there.Error() != missing.Error() {
		t.Errorf("the answer tells whether the target exists:\n%v\nbefore it did:\n%v", there, missing)
	}
	grant(t, person(alice), prod, right("apps", "deployments", "get", "update", "patch"))
	refused(t, as.Create(t.Context(), elsewhere(), client.DryRunAll), needs(alice))
	grant(t, person(alice), prod, right("apps", "deployments/scale", "update"))
	testkit.Eventually(t, soon, "alice to be admitted, since rights are cached for a moment", func(ctx context.Context) error { return as.Create(ctx, elsewhere()) })
	// What is admitted is acted on: there are more replicas than the bounds allow.
	testkit.Eventually(t, soon, "the count in the other namespace", func(ctx context.Context) error {
		d := &appsv1.Deployment{}
		if err := suite.admin.Get(ctx, types.NamespacedName{Namespace: prod, Name: "llm"}, d); err != nil {
			return err
		}
		if n := *d.Spec.Replicas; n != 8 {
			return fmt.Errorf("%d replicas, want 8", n)
		}
		return nil
	})
	// Every change of the spec asks its own writer, and no other change does.
	obj := elsewhere()
	patch := func(c client.Client, text string) error {
		return c.Patch(t.Context(), obj.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)))
	}
	refused(t, patch(other, `{"spec":{"maxReplicas":9}}`), needs(bob))
	must(t, patch(as, `{"spec":{"maxReplicas":9}}`))
	must(t, patch(other, `{"metadata":{"labels":{"team":"b"}}}`))
	must(t, other.Delete(t.Context(), obj.DeepCopy()))
}

func TestADryRunOfAScalerLeavesNothing(t *testing.T) {
	ns := namespaces(t, "scalers")[0]
	must(t, suite.admin.Create(t.Context(), testkit.MakeDeployment(ns, "llm").Replicas(10).Obj()))
	dry := scalerIn(t, ns)
	must(t, suite.admin.Create(t.Context(), dry.DeepCopy(), client.DryRunAll))
	if err := suite.admin.Get(t.Context(), client.ObjectKeyFromObject(dry), dry.DeepCopy()); !apierrors.IsNotFound(err) {
		t.Errorf("after a dry run the ElasticScaler is there: %v", err)
	}
	// One that is created later on another target is through its pass, which the dry run would have had before. The bounds
	// alone lower its count.
	must(t, suite.admin.Create(t.Context(), testkit.MakeDeployment(ns, "later").Replicas(10).Obj()))
	later := scalerIn(t, ns, "name: llm", "name: later")
	later.SetName("later")
	must(t, suite.admin.Create(t.Context(), later))
	count := func(name string) int32 {
		d := &appsv1.Deployment{}
		must(t, suite.admin.Get(t.Context(), types.NamespacedName{Namespace: ns, Name: name}, d))
		return *d.Spec.Replicas
	}
	testkit.Eventually(t, soon, "the later one to be scaled", func(context.Context) error {
		if n := count("later"); n != 8 {
			return fmt.Errorf("it has %d replicas", n)
		}
		return nil
	})
	if n := count("llm"); n != 10 {
		t.Errorf("the target of the dry run has %d replicas", n)
	}
	// Another scaler may have the target of the dry run.
	other := scalerIn(t, ns)
	other.SetName("other")
	must(t, suite.admin.Create(t.Context(), other))
}

func TestWithoutTheWebhookOfScalersTheSchemaHoldsAndNothingElseIsStored(t *testing.T) {
	ns := namespaces(t, "down")[0]
	stored := scalerIn(t, ns)
	must(t, suite.admin.Create(t.Context(), stored.DeepCopy()))
	another := scalerIn(t, ns, "name: llm", "name: other")
	another.SetName("another")
	scalers.whileStopped(t, func() {
		const unreachable = `failed calling webhook "elasticscaler.elasticscaler.io"`
		refused(t, suite.admin.Create(t.Context(), another.DeepCopy()), unreachable)
		refused(t, suite.admin.Patch(t.Context(), stored.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"paused":true}}`))), unreachable)
		refused(t, suite.admin.Create(t.Context(), scalerIn(t, ns, "kind: Deployment", "kind: DaemonSet")), "this kind has none")
		// What is not ours to admit goes on.
		must(t, suite.admin.Patch(t.Context(), stored.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))))
		must(t, suite.admin.Status().Patch(t.Context(), stored.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"observedGeneration":1}}`))))
		must(t, suite.admin.Delete(t.Context(), stored.DeepCopy()))
	})
	must(t, suite.admin.Create(t.Context(), another))
}
