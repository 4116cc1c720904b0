package policyrender

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
)

var engine = Component{Namespace: "llama-demo", Service: "llama", Name: "engine", MinReplicas: 1, MaxReplicas: 4}

func bindings() Bindings {
	return Bindings{
		"cluster-prometheus": {Binding: Binding{ServerAddress: "http://prometheus:9090"}},
		"with-token":         {Binding: Binding{ServerAddress: "http://prometheus:9091", AuthSecretRef: &SecretKey{Name: "bearer", Key: "token"}}},
		"broken":             {Err: errors.New("has no serverAddress")},
	}
}

func prometheus(provider string, metadata map[string]v1beta1.TemplateText) v1beta1.KedaPolicyTrigger {
	return v1beta1.KedaPolicyTrigger{
		Type: "prometheus", ProviderRef: &v1beta1.MetricProviderReference{Name: provider},
		MetricType: v1beta1.TriggerAverageValue, Metadata: metadata,
	}
}

func keda(triggers ...v1beta1.KedaPolicyTrigger) v1beta1.AutoscalerPolicySpec {
	return v1beta1.AutoscalerPolicySpec{Class: v1beta1.PolicyClassKEDA, Keda: &v1beta1.KedaPolicyTemplate{Triggers: triggers}}
}

func queueDepth() v1beta1.AutoscalerPolicySpec {
	spec := keda(prometheus("cluster-prometheus", map[string]v1beta1.TemplateText{
		"query":     `sum(q{namespace="{{ .Namespace }}",isvc="{{ .ISVCName }}",component="{{.Component}}",target="{{- .TargetName -}}"}) % 7`,
		"threshold": "5", "activationThreshold": "{{ .MinReplicas }}{{ .MaxReplicas }}", "ignoreNullValues": "false",
	}))
	spec.Keda.Fallback = &v1beta1.FallbackTemplate{FailureThreshold: 3, Replicas: v1beta1.ReplicaSource{FromComponent: v1beta1.FromMaxReplicas}}
	return spec
}

func TestRenderFillsInTheComponent(t *testing.T) {
	got, err := Render("queue-depth", queueDepth(), engine, bindings())
	if err != nil {
		t.Fatal(err)
	}
	want := v1beta1.ComponentAutoscaler{Class: v1beta1.ClassKEDA, Keda: &v1beta1.KedaAutoscaler{
		Triggers: []v1beta1.KedaTrigger{{
			Type: "prometheus", MetricType: autoscalingv2.AverageValueMetricType,
			Metadata: map[string]v1beta1.TriggerText{
				"query":     `sum(q{namespace="llama-demo",isvc="llama",component="engine",target="llama-engine"}) % 7`,
				"threshold": "5", "activationThreshold": "14", "ignoreNullValues": "false", "serverAddress": "http://prometheus:9090",
			},
		}},
		Fallback: &v1beta1.KedaFallback{FailureThreshold: 3, Replicas: 4},
	}}
	if diff := cmp.Diff(want, got.Autoscaler); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRenderAuthenticatesByTheBinding(t *testing.T) {
	spec := keda(prometheus("with-token", nil), prometheus("with-token", nil), prometheus("cluster-prometheus", nil),
		v1beta1.KedaPolicyTrigger{Type: "kafka", Metadata: map[string]v1beta1.TemplateText{"topic": "{{ .ISVCName }}"}})
	got, err := Render("p", spec, engine, bindings())
	if err != nil {
		t.Fatal(err)
	}
	trigger := got.Autoscaler.Keda.Triggers[0]
	if trigger.Metadata["authModes"] != "bearer" || trigger.AuthenticationRef == nil || trigger.AuthenticationRef.Name != "ome-metric-provider-with-token" || trigger.AuthenticationRef.Kind != "" {
		t.Errorf("the trigger of a provider with a token is %+v", trigger)
	}
	if plain := got.Autoscaler.Keda.Triggers[2]; plain.AuthenticationRef != nil || plain.Metadata["authModes"] != "" {
		t.Errorf("the trigger of a provider without a token authenticates itself: %+v", plain)
	}
	if kafka := got.Autoscaler.Keda.Triggers[3]; len(kafka.Metadata) != 1 || kafka.Metadata["topic"] != "llama" {
		t.Errorf("the trigger that asks no endpoint has metadata %v", kafka.Metadata)
	}
	want := []Authentication{{"ome-metric-provider-with-token", SecretKey{Name: "bearer", Key: "token"}}}
	if diff := cmp.Diff(want, Authentications(got.Autoscaler, bindings())); diff != "" {
		t.Errorf("authentications (-want +got):\n%s", diff)
	}
	if all := Authentications(got.Autoscaler, Bindings{}); len(all) > 0 {
		t.Errorf("a binding that is gone still authenticates by %v", all)
	}
}

func TestRenderCopiesHPA(t *testing.T) {
	seconds := int32(300)
	hpa := &v1beta1.HPAAutoscaler{Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: &seconds}}}
	got, err := Render("p", v1beta1.AutoscalerPolicySpec{Class: v1beta1.PolicyClassHPA, HPA: hpa}, engine, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(v1beta1.ComponentAutoscaler{Class: v1beta1.ClassHPA, HPA: hpa}, got.Autoscaler); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRenderRefuses(t *testing.T) {
	metadata := func(key string, value v1beta1.TemplateText) v1beta1.AutoscalerPolicySpec {
		return keda(prometheus("cluster-prometheus", map[string]v1beta1.TemplateText{key: value}))
	}
	idle, one := int32(1), int32(1)
	tests := map[string]struct {
		spec    v1beta1.AutoscalerPolicySpec
		change  func(*v1beta1.AutoscalerPolicySpec)
		maximum int32
		want    string
	}{
		"provider that is not bound": {spec: keda(prometheus("other", nil)), want: `policy p: trigger 0 (prometheus): metric provider "other" is not bound on this cluster`},
		"provider whose binding is broken": {spec: keda(prometheus("broken", nil)),
			want: `policy p: trigger 0 (prometheus): the binding of metric provider "broken" on this cluster has no serverAddress`},
		"no provider": {spec: keda(v1beta1.KedaPolicyTrigger{Type: "Prometheus"}), want: "policy p: trigger 0 (Prometheus): providerRef is required for endpoint trigger types"},
		"no ceiling":  {spec: queueDepth(), maximum: -1, want: "component engine has effective maxReplicas 0; policy rendering requires a positive ceiling"},
		"an address of its own": {spec: metadata("ServerAddress", "http://x"),
			want: `policy p: trigger 0 (prometheus): metadata key "ServerAddress" is provider-owned; bind endpoints via providerRef`},
		"unknown variable": {spec: metadata("query", "{{ .Foo }}"),
			want: `policy p: trigger 0 (prometheus): metadata key "query": forbidden template construct: unknown template variable .Foo: allowed variables are .Namespace,`},
		"broken template": {spec: metadata("query", "{{ .Namespace"), want: `policy p: trigger 0 (prometheus): metadata key "query": 1: unclosed action`},
		"class of inline blocks": {spec: v1beta1.AutoscalerPolicySpec{Class: "External"},
			want: `policy p: class "External" is not allowed in policies (External and None are inline-only)`},
		"KEDA without keda": {spec: v1beta1.AutoscalerPolicySpec{Class: v1beta1.PolicyClassKEDA}, want: "policy p: class KEDA requires a keda template"},
		"idle count that is the minimum": {spec: queueDepth(), change: func(s *v1beta1.AutoscalerPolicySpec) { s.Keda.IdleReplicaCount = &idle },
			want: "policy p: idleReplicaCount 1 must be less than minReplicas 1 of component engine"},
		"HPA of the component's name": {spec: queueDepth(), change: func(s *v1beta1.AutoscalerPolicySpec) {
			s.Keda.Advanced = &v1beta1.KedaAdvancedConfig{HorizontalPodAutoscalerConfig: &v1beta1.KedaHorizontalPodAutoscalerConfig{Name: "llama-engine"}}
		}, want: `policy p: advanced.horizontalPodAutoscalerConfig.name "llama-engine" must differ from the name of component engine`},
		"fallback without a source": {spec: queueDepth(), change: func(s *v1beta1.AutoscalerPolicySpec) { s.Keda.Fallback.Replicas = v1beta1.ReplicaSource{} },
			want: "policy p: fallback: exactly one of value or fromComponent must be set"},
		"fallback with two sources": {spec: queueDepth(), change: func(s *v1beta1.AutoscalerPolicySpec) { s.Keda.Fallback.Replicas.Value = &one },
			want: "policy p: fallback: exactly one of value or fromComponent must be set"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.change != nil {
				tt.change(&tt.spec)
			}
			c := engine
			if tt.maximum != 0 {
				c.MaxReplicas = 0
			}
			got, err := Render("p", tt.spec, c, bindings())
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %+v and error %v, want the error %s", got, err, tt.want)
			}
		})
	}
}

func TestFallbackSources(t *testing.T) {
	seven := int32(7)
	for want, source := range map[int32]v1beta1.ReplicaSource{
		1: {FromComponent: v1beta1.FromMinReplicas}, 4: {FromComponent: v1beta1.FromMaxReplicas}, 7: {Value: &seven},
	} {
		spec := queueDepth()
		spec.Keda.Fallback.Replicas = source
		got, err := Render("p", spec, engine, bindings())
		if err != nil || got.Autoscaler.Keda.Fallback.Replicas != want {
			t.Errorf("source %+v gives %+v (%v), want %d replicas", source, got.Autoscaler.Keda, err, want)
		}
	}
}

// TestDigests: the portable digest follows the spec, and the digest of a render also the bounds and the binding.
func TestDigests(t *testing.T) {
	portable := func(spec v1beta1.AutoscalerPolicySpec) string {
		d, err := PortableDigest(spec)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	render := func(spec v1beta1.AutoscalerPolicySpec, c Component, b Bindings) string {
		r, err := Render("p", spec, c, b)
		if err != nil {
			t.Fatal(err)
		}
		return r.Digest
	}
	same, other := queueDepth(), queueDepth()
	same.Enforcement = v1beta1.EnforcementDefault
	other.Keda.Triggers[0].Metadata["threshold"] = "8"
	wide, unnamed := engine, engine
	wide.MaxReplicas, unnamed.Service = 8, "lama"
	token := bindings()
	token["cluster-prometheus"] = BoundProvider{Binding: Binding{ServerAddress: "http://prometheus:9090", AuthSecretRef: &SecretKey{Name: "bearer", Key: "token"}}}
	renewed := bindings()
	renewed["cluster-prometheus"] = BoundProvider{Binding: Binding{ServerAddress: "http://prometheus:9090", AuthSecretRef: &SecretKey{Name: "bearer-2", Key: "token"}}}

	if portable(queueDepth()) != portable(same) {
		t.Error("enforcement left out and written out give different portable digests")
	}
	if portable(queueDepth()) == portable(other) {
		t.Error("another threshold gives the same portable digest")
	}
	first := render(queueDepth(), engine, bindings())
	if again := render(queueDepth(), engine, bindings()); again != first {
		t.Errorf("the same render gives %s and %s", first, again)
	}
	for what, got := range map[string]string{
		"another threshold": render(other, engine, bindings()),
		"another bound":     render(queueDepth(), wide, bindings()),
		"another name":      render(queueDepth(), unnamed, bindings()),
		"authentication":    render(queueDepth(), engine, token),
	} {
		if got == first {
			t.Errorf("%s gives the same digest of the render", what)
		}
	}
	if render(queueDepth(), engine, token) != render(queueDepth(), engine, renewed) {
		t.Error("the name of a Secret is part of the digest")
	}
}

// TestPortableDigestVectors: digests of the documents' policies, computed elsewhere from the same rule.
func TestPortableDigestVectors(t *testing.T) {
	text := func(threshold string) string {
		return `{"class":"KEDA","keda":{"triggers":[{"type":"prometheus","providerRef":{"name":"cluster-prometheus"},"metricType":"AverageValue",
			"metadata":{"query":"sum(vllm:num_requests_waiting{namespace=\"{{ .Namespace }}\",inferenceservice=\"{{ .ISVCName }}\",component=\"{{ .Component }}\"})","threshold":"` + threshold + `","ignoreNullValues":"false"}}],
			"fallback":{"failureThreshold":3,"replicas":{"fromComponent":"MaxReplicas"}}}}`
	}
	for want, text := range map[string]string{
		"pv1:340d54163f8f": text("5"),
		"pv1:abb4127be888": text("8"),
		"pv1:4d85da22cbb6": `{"class":"KEDA","keda":{"triggers":[{"type":"prometheus","providerRef":{"name":"cluster-prometheus"},"metricType":"AverageValue","queryReturnsDesiredReplicas":true,
			"metadata":{"query":"((sum(vllm:num_requests_running{namespace=\"{{ .Namespace }}\",inferenceservice=\"{{ .ISVCName }}\",component=\"{{ .Component }}\"}) > bool 0) * {{ .MaxReplicas }})","threshold":"1","ignoreNullValues":"false"}}],
			"fallback":{"failureThreshold":3,"replicas":{"fromComponent":"MaxReplicas"}}}}`,
		"pv1:6647db99e933": `{"class":"HPA","hpa":{"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":60}}}],"behavior":{"scaleDown":{"stabilizationWindowSeconds":300}}}}`,
	} {
		var spec v1beta1.AutoscalerPolicySpec
		if err := json.Unmarshal([]byte(text), &spec); err != nil {
			t.Fatal(err)
		}
		if got, err := PortableDigest(spec); got != want || err != nil {
			t.Errorf("the digest is %s (%v), want %s, of\n%s", got, err, want, text)
		}
	}
}

func TestTemplatesAreTextAndVariablesOnly(t *testing.T) {
	for _, text := range []string{
		"{{ .Foo }}", "{{ .Namespace.Name }}", "{{ . }}", "{{ $ }}", "{{ printf \"%s\" .Namespace }}", "{{ .Namespace | html }}", "{{ len .Namespace }}",
		"{{ if .Namespace }}a{{ end }}", "{{ range .Namespace }}a{{ end }}", "{{ with .Namespace }}a{{ end }}", "{{ $x := .Namespace }}", "{{ 1 }}", `{{ "a" }}`, "{{ true }}",
		`{{ define "x" }}a{{ end }}`, `{{ template "x" }}`, `{{ block "x" . }}a{{ end }}`, "{{/* a comment */}}", "{{ .namespace }}", "{{ (.Namespace) }}",
	} {
		if _, err := Parse(text); !errors.Is(err, ErrForbidden) {
			t.Errorf("Parse(%q) gives %v, want ErrForbidden", text, err)
		} else if !strings.Contains(err.Error(), ".Namespace, .ISVCName, .Component, .MinReplicas, .MaxReplicas, .TargetName") {
			t.Errorf("the error of %q does not name the variables: %v", text, err)
		}
	}
	for _, text := range []string{"{{", "{{ .Namespace", "{{ }}", "{{ .Namespace } }", "{{ end }}", "{{ \"a }}"} {
		if _, err := Parse(text); err == nil || errors.Is(err, ErrForbidden) {
			t.Errorf("Parse(%q) gives %v, want an error of syntax", text, err)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	for _, text := range []string{"", "a % 7 %s", "{{ .Namespace }}-{{.MaxReplicas}}", "{{- .Component -}} }}", "{{ if .Namespace }}{{ end }}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		template, err := Parse(text)
		if err != nil {
			return
		}
		got := template.Render(Variables{Namespace: "ns"})
		if !strings.Contains(text, "{{") && got != text {
			t.Errorf("text without variables is rendered to %q from %q", got, text)
		}
	})
}

func TestReadBindings(t *testing.T) {
	got := ReadBindings(map[string]string{
		"good":     "serverAddress: http://prometheus.monitoring.svc:9090\n",
		"token":    "serverAddress: https://prometheus/api\nauthSecretRef: {name: bearer, key: token}\nheaders: {X-Scope-OrgID: a}\n",
		"empty":    "",
		"nothing":  "authSecretRef: {name: bearer, key: token}",
		"typo":     "serverAddress: http://p\nauthSecret: {name: bearer, key: token}",
		"scheme":   "serverAddress: p:9090",
		"nameless": "serverAddress: http://p\nauthSecretRef: {key: token}",
		"keyless":  "serverAddress: http://p\nauthSecretRef: {name: bearer}",
		"text":     "http://p",
	})
	for name, want := range map[string]string{
		"good": "", "token": "", "empty": "has no serverAddress", "nothing": "has no serverAddress", "typo": `unknown field "authSecret"`, "scheme": "must be an http or https URL",
		"nameless": "must be the name of a Secret", "keyless": "must be the name of a Secret", "text": "cannot be read",
	} {
		switch err := got[name].Err; {
		case want == "" && err != nil:
			t.Errorf("binding %s: %v", name, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("binding %s has error %v, want one with %q", name, err, want)
		}
	}
	if got["token"].AuthSecretRef == nil || got["token"].AuthSecretRef.Key != "token" {
		t.Errorf("the binding with a token is %+v", got["token"])
	}
}
