package desired

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/condition"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyrender"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyresolve"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/servingruntime"
)

var (
	before = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	now    = metav1.NewTime(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))
)

func live(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	readYAML(t, text, &u.Object)
	return u
}

const availableDeployment = `{kind: Deployment, metadata: {generation: 2}, spec: {replicas: 3}, status: {observedGeneration: 2, availableReplicas: 3, updatedReplicas: 3}}`

// observedEngine is an engine that serves, scaled by a ScaledObject.
func observedEngine(t *testing.T) (*v1beta1.InferenceService, ComponentObservation) {
	t.Helper()
	c := engineOf(t, `{engine: {minReplicas: 1, maxReplicas: 4}}`)
	c.Service.Generation = 5
	r := resolved(t, `{class: KEDA}`)
	r.Source = v1beta1.SourcePolicy
	r.Policy = &v1beta1.AutoscalerPolicyProvenance{Name: "q", ObservedGeneration: 2}
	r.Condition = &metav1.Condition{Type: v1beta1.ConditionAutoscalerResolved, Status: metav1.ConditionTrue, Reason: v1beta1.ReasonRenderedFromPolicy}
	return c.Service, ComponentObservation{
		Component: c, URL: "http://llama-engine.demo.svc:8080", Workload: live(t, availableDeployment), Resolution: r,
		Applied: condition.New(v1beta1.ConditionAutoscalerApplied, true, v1beta1.ReasonApplied, ""),
		Scaler:  live(t, `{kind: ScaledObject, status: {lastActiveTime: "2026-01-01T12:00:00Z", conditions: [{type: Ready, status: "True"}, {type: Active, status: "False", reason: ScalerNotActive, message: m}, {type: Odd, status: maybe}]}}`),
		KedaHPA: live(t, `{status: {desiredReplicas: 2, conditions: [{type: ScalingActive, status: "True"}]}}`),
	}
}

func statusOf(service *v1beta1.InferenceService, c ...ComponentObservation) v1beta1.InferenceServiceStatus {
	return InferenceServiceStatus(service, ServiceObservation{Choice: servingruntime.Choice{Resolved: true, Reason: "RuntimeSelected", Message: "m"}, Components: c}, now)
}

func TestStatusOfAServiceThatServes(t *testing.T) {
	service, c := observedEngine(t)
	got := statusOf(service, c)
	zero, two := int32(0), int32(2)
	lastActive := metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	at := func(conditionType string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: message, ObservedGeneration: 5, LastTransitionTime: now}
	}
	want := v1beta1.InferenceServiceStatus{
		ObservedGeneration: 5,
		URL:                c.URL,
		Conditions: []metav1.Condition{
			at("EngineReady", "True", "Available", "at least 1 replicas are available"),
			at("Ready", "True", "ComponentsReady", "every component serves"),
			at("RuntimeResolved", "True", "RuntimeSelected", "m"),
		},
		Components: v1beta1.ComponentStatuses{Engine: &v1beta1.ComponentStatus{
			URL:            c.URL,
			ScaleTargetRef: &v1beta1.ScaleTargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "llama-engine"},
			Autoscaler: &v1beta1.ComponentAutoscalerStatus{
				Class: "KEDA", ManagedBy: "ome", SpecSource: "policy", CurrentReplicas: &zero, DesiredReplicas: &two, LastScaleTime: &lastActive,
				Policy: &v1beta1.AutoscalerPolicyProvenance{Name: "q", ObservedGeneration: 2},
				Conditions: []metav1.Condition{
					at("Active", "False", "ScalerNotActive", "m"),
					at("AutoscalerApplied", "True", "Applied", ""),
					at("AutoscalerResolved", "True", "RenderedFromPolicy", ""),
					at("Ready", "True", "Ready", ""),
				},
			},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestStatusOfASettledService: a pass that finds nothing new gives the status that is there, times included.
func TestStatusOfASettledService(t *testing.T) {
	service, c := observedEngine(t)
	service.Status = statusOf(service, c)
	for i := range service.Status.Conditions {
		service.Status.Conditions[i].LastTransitionTime = before
	}
	want := *service.Status.DeepCopy()
	c.Scaler = live(t, `{kind: ScaledObject, status: {lastActiveTime: "2026-01-01T23:00:00Z", conditions: [{type: Active, status: "False", reason: ScalerNotActive, message: m}, {type: Ready, status: "True"}]}}`)
	if diff := cmp.Diff(want, statusOf(service, c)); diff != "" {
		t.Errorf("a trigger that is active again is news (-want +got):\n%s", diff)
	}
	c.Scaler = live(t, `{kind: ScaledObject, status: {lastActiveTime: "2026-01-01T23:00:00Z", conditions: [{type: Active, status: "True", reason: ScalerActive}]}}`)
	got := statusOf(service, c).Components.Engine.Autoscaler
	if got.LastScaleTime.Hour() != 23 || meta.FindStatusCondition(got.Conditions, "Ready") != nil {
		t.Errorf("with news the status is %+v", got)
	}
}

func TestReadyOfAComponent(t *testing.T) {
	tests := map[string]struct {
		workload string
		problem  *condition.Problem
		least    int32
		want     string
	}{
		"available":      {availableDeployment, nil, 2, "True Available"},
		"scaled up":      {`{kind: Deployment, metadata: {generation: 1}, spec: {replicas: 9}, status: {observedGeneration: 1, availableReplicas: 3, updatedReplicas: 9}}`, nil, 2, "True Available"},
		"below minimum":  {`{kind: Deployment, metadata: {generation: 1}, spec: {replicas: 9}, status: {observedGeneration: 1, availableReplicas: 1, updatedReplicas: 9}}`, nil, 2, "False Unavailable"},
		"not yet scaled": {`{kind: Deployment, metadata: {generation: 1}, spec: {replicas: 1}, status: {observedGeneration: 1, availableReplicas: 1, updatedReplicas: 1}}`, nil, 2, "True Available"},
		"rolling":        {`{kind: Deployment, metadata: {generation: 1}, spec: {replicas: 3}, status: {observedGeneration: 1, availableReplicas: 3, updatedReplicas: 1}}`, nil, 2, "False Unavailable"},
		"not observed":   {`{kind: Deployment, metadata: {generation: 2}, spec: {replicas: 3}, status: {observedGeneration: 1, availableReplicas: 3, updatedReplicas: 3}}`, nil, 2, "False Unavailable"},
		"at zero":        {`{kind: Deployment, metadata: {generation: 1}, spec: {replicas: 0}, status: {observedGeneration: 1}}`, nil, 0, "True ScaledToZero"},
		"groups":         {`{kind: LeaderWorkerSet, metadata: {generation: 1}, spec: {replicas: 2}, status: {readyReplicas: 2, updatedReplicas: 2}}`, nil, 2, "True Available"},
		"groups missing": {`{kind: LeaderWorkerSet, metadata: {generation: 1}, spec: {replicas: 2}, status: {readyReplicas: 1, updatedReplicas: 2}}`, nil, 2, "False Unavailable"},
		"no workload":    {"", nil, 1, "False Unavailable"},
		"with a problem": {availableDeployment, &condition.Problem{Reason: "InvalidSpec", Message: "m"}, 1, "False InvalidSpec"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			service, c := observedEngine(t)
			c.Workload, c.Problem, c.Resolution.MinReplicas = nil, tt.problem, tt.least
			if tt.workload != "" {
				c.Workload = live(t, tt.workload)
			}
			s := statusOf(service, c)
			for _, conditionType := range []string{"EngineReady", "Ready"} {
				got := meta.FindStatusCondition(s.Conditions, conditionType)
				text := string(got.Status) + " " + got.Reason
				if conditionType == "Ready" && got.Status == metav1.ConditionTrue {
					text = tt.want
				}
				if text != tt.want {
					t.Errorf("%s is %s: %s, want %s", conditionType, text, got.Message, tt.want)
				}
			}
		})
	}
}

// TestReadyWaitsForNewsOfANewSpecOnly: what was known of the same spec stands until the Deployment's controller has seen an
// annotation, which makes a generation of the Deployment too.
func TestReadyWaitsForNewsOfANewSpecOnly(t *testing.T) {
	service, c := observedEngine(t)
	service.Status = statusOf(service, c)
	c.Workload = live(t, `{kind: Deployment, metadata: {generation: 3}, spec: {replicas: 3}, status: {observedGeneration: 2, availableReplicas: 3, updatedReplicas: 3}}`)
	if diff := cmp.Diff(service.Status.Conditions, statusOf(service, c).Conditions); diff != "" {
		t.Errorf("of the same spec (-before +after):\n%s", diff)
	}
	service.Generation++
	if got := meta.FindStatusCondition(statusOf(service, c).Conditions, "EngineReady"); got.Status != metav1.ConditionFalse {
		t.Errorf("of a new spec EngineReady is %+v", got)
	}
}

func TestStatusWithoutComponents(t *testing.T) {
	service, _ := observedEngine(t)
	s := statusOf(service)
	if got := meta.FindStatusCondition(s.Conditions, "Ready"); got.Status != metav1.ConditionFalse || got.Reason != "NoComponents" {
		t.Errorf("Ready is %+v", got)
	}
}

// TestProvenanceIsOfWhatStands: what was rendered and could not be applied is not what the live autoscaler came from.
func TestProvenanceIsOfWhatStands(t *testing.T) {
	service, c := observedEngine(t)
	service.Status = statusOf(service, c)
	c.Resolution.Policy = &v1beta1.AutoscalerPolicyProvenance{Name: "q", ObservedGeneration: 3}
	c.Applied = condition.New(v1beta1.ConditionAutoscalerApplied, false, v1beta1.ReasonRefused, "m")
	if got := statusOf(service, c).Components.Engine.Autoscaler.Policy.ObservedGeneration; got != 2 {
		t.Errorf("after a refusal the provenance is of generation %d, want 2", got)
	}
	c.Resolution.Policy = nil
	c.Resolution.Hold, c.Resolution.Policy, c.Resolution.Autoscaler = &policyresolve.Hold{}, &v1beta1.AutoscalerPolicyProvenance{Name: "earlier"}, nil
	got := statusOf(service, c).Components.Engine.Autoscaler
	if got.Policy.Name != "earlier" || got.Class != "KEDA" || got.ManagedBy != "ome" || got.SpecSource != "policy" {
		t.Errorf("while it holds the status is %+v", got)
	}
}

func TestStatusOfClassesWithoutAutoscaler(t *testing.T) {
	for class, want := range map[v1beta1.AutoscalerClass]v1beta1.AutoscalerManager{"External": "external", "None": "none"} {
		service, c := observedEngine(t)
		c.Resolution.Autoscaler.Class = class
		got := statusOf(service, c).Components.Engine.Autoscaler
		if got.ManagedBy != want || got.CurrentReplicas != nil || len(got.Conditions) != 2 {
			t.Errorf("class %s has the status %+v", class, got)
		}
	}
}

func TestMirroredMessagesDoNotChange(t *testing.T) {
	hpa := live(t, `{status: {conditions: [{type: ScalingActive, status: "False", reason: "Failed Get", message: "missing request for cpu in container c of Pod llama-engine-7d9-abc"}]}}`)
	want := []metav1.Condition{{Type: "ScalingActive", Status: "False", Reason: "ScalingActive", Message: "missing request for cpu in container c of Pod <name>"}}
	if diff := cmp.Diff(want, mirrored(hpa)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAutoscalerPolicyStatus(t *testing.T) {
	const good = `{class: KEDA, keda: {triggers: [{type: prometheus, providerRef: {name: p}, metadata: {query: up, threshold: "5", ignoreNullValues: "false"}}]}}`
	bound := policyrender.ReadBindings(map[string]string{"p": "serverAddress: http://p"})
	tests := map[string]struct {
		spec     string
		bindings policyrender.Bindings
		uses     int
		ready    string
		inUse    string
	}{
		"valid and used":   {good, bound, 2, "True TemplatesValid templates validate and every referenced metric provider is bound", "True Attached 2 component(s) reference this policy"},
		"valid and unused": {`{class: HPA}`, nil, 0, "True TemplatesValid templates validate and every referenced metric provider is bound", "False NoConsumers no component references this policy"},
		"not bound":        {good, nil, 0, `False ProviderUnknown metric provider "p" is not bound in the operator configuration`, "False NoConsumers no component references this policy"},
		"bound wrongly":    {good, policyrender.ReadBindings(map[string]string{"p": ""}), 0, `False ProviderUnknown the binding of metric provider "p" in the operator configuration has no serverAddress`, "False NoConsumers no component references this policy"},
		"invalid":          {`{class: KEDA, enforcement: Required}`, nil, 1, "False EnforcementRequiredReserved enforcement Required is reserved; it must be Default or left out", "True Attached 1 component(s) reference this policy"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			policy := &v1beta1.AutoscalerPolicy{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
			readYAML(t, tt.spec, &policy.Spec)
			got := AutoscalerPolicyStatus(policy, tt.bindings, tt.uses, now)
			for conditionType, want := range map[string]string{"Ready": tt.ready, "InUse": tt.inUse} {
				c := meta.FindStatusCondition(got.Conditions, conditionType)
				if text := string(c.Status) + " " + c.Reason + " " + c.Message; text != want || c.ObservedGeneration != 3 {
					t.Errorf("%s is %q of generation %d, want %q of 3", conditionType, text, c.ObservedGeneration, want)
				}
			}
			if digest, _ := policyrender.PortableDigest(policy.Spec); got.PortableDigest != digest || got.ObservedGeneration != 3 || got.AttachedComponents != int32(tt.uses) {
				t.Errorf("the status is %+v", got)
			}
			policy.Status = got
			if again := AutoscalerPolicyStatus(policy, tt.bindings, tt.uses, metav1.NewTime(now.Add(time.Hour))); !cmp.Equal(got, again) {
				t.Errorf("the same again differs (-first +second):\n%s", cmp.Diff(got, again))
			}
		})
	}
}
