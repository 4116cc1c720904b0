package policyresolve

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyrender"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/servingcomponent"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
)

const (
	kedaSpec = `{class: KEDA, keda: {triggers: [{type: prometheus, providerRef: {name: p}, metadata: {query: 'sum(q{c="{{ .Component }}"})', threshold: "5", ignoreNullValues: "false"}}], fallback: {failureThreshold: 3, replicas: {fromComponent: MaxReplicas}}}}`
	trapSpec = `{class: KEDA, keda: {triggers: [{type: prometheus, providerRef: {name: p}, metadata: {query: "sum(q) > bool 0 * 8", threshold: "5", ignoreNullValues: "false"}}]}}`
	inline   = `autoscaler: {class: HPA, hpa: {metrics: []}}`
	ref      = `autoscalerPolicyRef: {name: q}`
)

// facts are of a cluster in which everything is there, and of a service with the spec.
func facts(t *testing.T, spec, runtime, policy string) Facts {
	t.Helper()
	service := &v1beta1.InferenceService{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "llama"}, Spec: testkit.FromYAML[v1beta1.InferenceServiceSpec](t, spec)}
	f := Facts{
		Service: service, PoliciesServed: true, KedaServed: true,
		Bindings: policyrender.Bindings{"p": {Binding: policyrender.Binding{ServerAddress: "http://p"}}},
	}
	var r *v1beta1.ServingRuntimeSpec
	if runtime != "" {
		spec := testkit.FromYAML[v1beta1.ServingRuntimeSpec](t, runtime)
		r = &spec
	}
	f.Component = servingcomponent.Of(service.Spec, r)[0]
	if policy != "" {
		f.Policy = &v1beta1.AutoscalerPolicy{ObjectMeta: metav1.ObjectMeta{Name: "q", Generation: 7}, Spec: testkit.FromYAML[v1beta1.AutoscalerPolicySpec](t, policy)}
	}
	return f
}

// TestPrecedence: the first place that has settings decides, and its block is taken whole.
func TestPrecedence(t *testing.T) {
	const runtime = `{engineConfig: {autoscaler: {class: KEDA, keda: {triggers: [{type: kafka, metadata: {}}]}}}}`
	legacyHPA := map[string]string{"ome.io/autoscalerClass": "hpa"}
	tests := map[string]struct {
		engine, runtime string
		annotations     map[string]string
		source          v1beta1.AutoscalerSource
		want            string
	}{
		"everything":       {inline + ", " + ref, runtime, legacyHPA, "isvc", `{class: HPA, hpa: {metrics: []}}`},
		"without inline":   {ref, runtime, legacyHPA, "policy", `{class: KEDA, keda: {triggers: [{type: prometheus, metadata: {query: 'sum(q{c="engine"})', threshold: "5", ignoreNullValues: "false", serverAddress: "http://p"}}], fallback: {failureThreshold: 3, replicas: 3}}}`},
		"without a policy": {"", runtime, legacyHPA, "runtime", `{class: KEDA, keda: {triggers: [{type: kafka, metadata: {}}]}}`},
		"annotations":      {"", "", legacyHPA, "legacy", `{class: HPA}`},
		"nothing":          {"", "", nil, "default", `{class: HPA}`},

		"legacy utilization":               {"", "", map[string]string{"ome.io/targetUtilizationPercentage": "60"}, "legacy", `{class: HPA, hpa: {metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]}}`},
		"legacy utilization of hpa":        {"", "", map[string]string{"ome.io/autoscalerClass": "hpa", "ome.io/targetUtilizationPercentage": "60"}, "legacy", `{class: HPA, hpa: {metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]}}`},
		"legacy external":                  {"", "", map[string]string{"ome.io/autoscalerClass": "external", "ome.io/targetUtilizationPercentage": "60"}, "legacy", `{class: External}`},
		"legacy keda":                      {"", "", map[string]string{"ome.io/autoscalerClass": "keda"}, "legacy", `{class: KEDA}`},
		"the component's annotation":       {"annotations: {ome.io/autoscalerClass: external}", "", legacyHPA, "legacy", `{class: External}`},
		"annotations without meaning":      {"", "", map[string]string{"ome.io/autoscalerClass": "kpa", "ome.io/targetUtilizationPercentage": "101"}, "default", `{class: HPA}`},
		"annotations of leader and worker": {"leader: {}, worker: {}", "", legacyHPA, "default", `{class: HPA}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := facts(t, "{engine: {"+tt.engine+"}}", tt.runtime, kedaSpec)
			f.Service.Annotations = tt.annotations
			got := Resolve(f)
			want := testkit.FromYAML[v1beta1.ComponentAutoscaler](t, tt.want)
			if diff := cmp.Diff(&want, got.Autoscaler); got.Source != tt.source || diff != "" {
				t.Errorf("the source is %s, want %s (-want +got):\n%s", got.Source, tt.source, diff)
			}
			if hasRef := strings.Contains(tt.engine, ref); (got.Condition != nil) != hasRef {
				t.Errorf("AutoscalerResolved is %v on a component with engine {%s}", got.Condition, tt.engine)
			}
		})
	}
}

func TestRenderedFromPolicy(t *testing.T) {
	got := Resolve(facts(t, "{engine: {minReplicas: 2, maxReplicas: 4, "+ref+"}}", "", kedaSpec))
	if !got.Rendered() || got.Hold != nil || got.Shadowed != nil || got.MinReplicas != 2 || got.MaxReplicas != 4 {
		t.Errorf("the resolution is %+v", got)
	}
	checkCondition(t, got, metav1.ConditionTrue, "RenderedFromPolicy", "")
	if p := got.Policy; p == nil || p.Name != "q" || p.ObservedGeneration != 7 || !strings.HasPrefix(p.PortableDigest, "pv1:") || !strings.HasPrefix(p.ResolvedDigest, "rv1:") {
		t.Errorf("the provenance is %+v", got.Policy)
	}
}

func checkCondition(t *testing.T, got Resolution, status metav1.ConditionStatus, reason, message string) {
	t.Helper()
	c := got.Condition
	if c == nil || c.Type != "AutoscalerResolved" || c.Status != status || c.Reason != reason || c.Message != message {
		t.Errorf("the condition is %+v, want AutoscalerResolved %s, %s: %s", c, status, reason, message)
	}
}

// TestInlineShadowsThePolicy: the policy is rendered all the same, so that its digest is the one that it has once the
// component's own autoscaler is gone.
func TestInlineShadowsThePolicy(t *testing.T) {
	got := Resolve(facts(t, "{engine: {"+inline+", "+ref+"}}", "", kedaSpec))
	checkCondition(t, got, metav1.ConditionTrue, "InlinePrecedence", "inline autoscaler block outranks the policy ref")
	after := Resolve(facts(t, "{engine: {"+ref+"}}", "", kedaSpec))
	want := &v1beta1.ShadowedAutoscalerPolicy{Name: "q", PortableDigest: after.Policy.PortableDigest, WouldRenderDigest: after.Policy.ResolvedDigest}
	if diff := cmp.Diff(want, got.Shadowed); diff != "" || got.Policy != nil || got.Hold != nil {
		t.Errorf("policy %v, hold %v, shadowed (-want +got):\n%s", got.Policy, got.Hold, diff)
	}

	withoutKeda := facts(t, "{engine: {"+inline+", "+ref+"}}", "", kedaSpec)
	withoutKeda.KedaServed = false
	if diff := cmp.Diff(want, Resolve(withoutKeda).Shadowed); diff != "" {
		t.Errorf("without KEDA (-want +got):\n%s", diff)
	}

	for name, f := range map[string]Facts{
		"missing": facts(t, "{engine: {"+inline+", "+ref+"}}", "", ""),
		"invalid": facts(t, "{engine: {"+inline+", "+ref+"}}", "", trapSpec),
	} {
		got := Resolve(f)
		if diff := cmp.Diff(&v1beta1.ShadowedAutoscalerPolicy{Name: "q"}, got.Shadowed); diff != "" || got.Source != "isvc" || got.Autoscaler == nil {
			t.Errorf("a policy that is %s: source %s, autoscaler %v, shadowed (-want +got):\n%s", name, got.Source, got.Autoscaler, diff)
		}
	}
}

// TestHolds: a policy that cannot be used never hands over to the runtime, the annotations or the default.
func TestHolds(t *testing.T) {
	tests := map[string]struct {
		engine, policy string
		change         func(*Facts)
		reason, detail string
	}{
		"no policies on this cluster": {ref, kedaSpec, func(f *Facts) { f.PoliciesServed = false }, "PolicyNotFound", "the AutoscalerPolicy feature is not enabled on this cluster"},
		"missing":                     {ref, "", nil, "PolicyNotFound", `AutoscalerPolicy "q" not found in namespace ns`},
		"reserved kind": {"autoscalerPolicyRef: {name: q, kind: ClusterAutoscalerPolicy}", kedaSpec, nil, "PolicyInvalid",
			`unsupported policy kind "ClusterAutoscalerPolicy" (ClusterAutoscalerPolicy is reserved)`},
		"a finding of admission": {ref, trapSpec, nil, "PolicyInvalid",
			`policy q: PromQLInvalid: trigger 0: comparison "sum(q) > bool 0 * 8" folds the arithmetic into its threshold ("0 * 8") - parenthesize the comparison, e.g. (sum(...) > bool N) * M`},
		"provider not bound": {ref, kedaSpec, func(f *Facts) { f.Bindings = nil }, "PolicyInvalid",
			`policy q: trigger 0 (prometheus): metric provider "p" is not bound on this cluster`},
		"KEDA not installed": {ref, kedaSpec, func(f *Facts) { f.KedaServed = false }, "ClassUnavailable", `policy "q" renders class KEDA but the KEDA CRDs are not installed`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := facts(t, "{engine: {minReplicas: 2, maxReplicas: 9, "+tt.engine+"}}", `{engineConfig: {autoscaler: {class: External}}}`, tt.policy)
			f.Service.Annotations = map[string]string{"ome.io/autoscalerClass": "external"}
			if tt.change != nil {
				tt.change(&f)
			}
			got := Resolve(f)
			checkCondition(t, got, metav1.ConditionFalse, tt.reason, "holding last-known-good scaler: "+tt.detail)
			want := Resolution{Source: "policy", MinReplicas: 2, MaxReplicas: 9, Hold: &Hold{tt.reason, tt.detail, true}, Condition: got.Condition}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("without a record (-want +got):\n%s", diff)
			}

			record := &v1beta1.ComponentAutoscaler{Class: v1beta1.ClassNone}
			before := &v1beta1.AutoscalerPolicyProvenance{Name: "earlier", ObservedGeneration: 3}
			f.LastGood = record
			f.Service.Status.Components.Engine = &v1beta1.ComponentStatus{Autoscaler: &v1beta1.ComponentAutoscalerStatus{
				Policy: before, Conditions: []metav1.Condition{*resolved(metav1.ConditionFalse, tt.reason, "")},
			}}
			got = Resolve(f)
			want.Autoscaler, want.Policy, want.Hold.Begins = record, before, false
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("with a record, and holding already (-want +got):\n%s", diff)
			}
			f.Service.Status.Components.Engine.Autoscaler.Conditions[0].Reason = "Other"
			if got = Resolve(f); !got.Hold.Begins {
				t.Error("a hold for another reason does not begin")
			}
		})
	}
}

func TestUses(t *testing.T) {
	spec := testkit.FromYAML[v1beta1.InferenceServiceSpec](t, `{router: {autoscalerPolicyRef: {name: a}}, engine: {autoscalerPolicyRef: {name: a, kind: AutoscalerPolicy}}, decoder: {autoscalerPolicyRef: {name: b, kind: ClusterAutoscalerPolicy}}}`)
	if diff := cmp.Diff([]Use{{"engine", "a"}, {"router", "a"}}, Uses(spec)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
