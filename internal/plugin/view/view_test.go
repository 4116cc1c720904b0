package view

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	elasticscalerv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	omev1beta1 "github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	tidalv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestTroubles(t *testing.T) {
	t.Parallel()
	condition := func(conditionType string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: message}
	}
	for name, tc := range map[string]struct {
		kind       string
		conditions []metav1.Condition
		want       []string
	}{
		"all well": {KindGroup, []metav1.Condition{condition("Ready", "True", "Reconciled", ""), condition("Paused", "True", "Paused", "")}, nil},
		"bad when true": {KindGroup, []metav1.Condition{condition("BaselineUnknown", "True", "FoundAtZero", "m"), condition("SelectorOverlap", "False", "x", "m")},
			[]string{"BaselineUnknown is True (FoundAtZero): m"}},
		"not decided yet": {KindGroup, []metav1.Condition{condition("ScaleDownMetric", "Unknown", "NoDecisionYet", "m")}, nil},
		"the summary says the same": {KindScaler, []metav1.Condition{condition("Ready", "False", "NoData", "no value"), condition("MetricsCollected", "False", "NoData", "queue: no value")},
			[]string{"MetricsCollected is False (NoData): queue: no value"}},
		"the summary says more": {KindScaler, []metav1.Condition{condition("Ready", "False", "Conflict", "a"), condition("MetricsCollected", "False", "NoData", "b")},
			[]string{"Ready is False (Conflict): a", "MetricsCollected is False (NoData): b"}},
		"a Tidal on its way":      {KindTidal, []metav1.Condition{condition("Ready", "False", "Scaling", "m"), condition("Progressing", "True", "Scaling", "m")}, nil},
		"rules that overlap":      {KindTidal, []metav1.Condition{condition("RuleConflict", "True", "RulesOverlap", "m")}, []string{"RuleConflict is True (RulesOverlap): m"}},
		"a policy without users":  {KindPolicy, []metav1.Condition{condition("InUse", "False", "NoConsumers", "m")}, nil},
		"KEDA has fallen back":    {KindService, []metav1.Condition{condition("Fallback", "True", "r", "m"), condition("Active", "False", "r", "m"), condition("ScalingLimited", "True", "r", "m")}, []string{"Fallback is True (r): m"}},
		"a component that holds":  {KindService, []metav1.Condition{condition("AutoscalerResolved", "False", "PolicyNotFound", "m")}, []string{"AutoscalerResolved is False (PolicyNotFound): m"}},
		"a condition not known":   {KindService, []metav1.Condition{condition("Ready", "Unknown", "r", "m")}, []string{"Ready is Unknown (r): m"}},
		"a scaler that is paused": {KindScaler, []metav1.Condition{condition("Paused", "True", "Paused", "m"), condition("MetricsCollected", "False", "Paused", "m")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, trouble := range Troubles(tc.kind, "", tc.conditions) {
				got = append(got, trouble.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("troubles (-want +got):\n%s", diff)
			}
		})
	}
}

// TestExplainPrintsWhatItEncodes: the text has every sentence that the JSON has.
func TestExplainPrintsWhatItEncodes(t *testing.T) {
	t.Parallel()
	at := metav1.NewTime(noon.Add(-3 * time.Minute))
	e := ExplainScaler(&elasticscalerv1alpha1.ElasticScaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s", Generation: 2},
		Spec: elasticscalerv1alpha1.ElasticScalerSpec{
			TargetRef: elasticscalerv1alpha1.TargetReference{Kind: "Deployment", Name: "web"},
			Trigger:   elasticscalerv1alpha1.Trigger{Type: elasticscalerv1alpha1.MetricsTriggerType},
		},
		Status: elasticscalerv1alpha1.ElasticScalerStatus{
			ObservedGeneration: new(int64(1)), MinReplicas: new(int32(1)), MaxReplicas: new(int32(10)),
			LastDecision: &elasticscalerv1alpha1.Decision{
				Time: &at, Algorithm: "APA", CurrentReplicas: new(int32(3)), DesiredReplicas: new(int32(10)), Reason: "MetricAboveTarget", Message: "queue is above its target.",
				Inputs: []elasticscalerv1alpha1.DecisionInput{{Type: "ExternalServer", Name: "queue", Value: "90", Target: "5", ProposedReplicas: new(int32(18)), Time: &at}},
				Steps:  []elasticscalerv1alpha1.DecisionStep{{Name: "Bounds", From: new(int32(18)), To: new(int32(10)), Reason: "MaxReplicas", Message: "the most is 10"}},
			},
		},
	}, noon)
	var text bytes.Buffer
	if err := e.Print(&text, Style{}, noon); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"ElasticScaler n/s\n", "What follows was made from generation 1 of the spec, which is at 2", "It scales Deployment web by MetricsTrigger, to between 1 and 10 replicas.",
		"Last decision, 3m ago, by APA", "From 3 to 10: MetricAboveTarget. queue is above its target.", "Bounds made 10 of 18: MaxReplicas. the most is 10",
		"ExternalServer   queue   90      5        18         0s", "Nothing is wrong.",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, text.String())
		}
	}
	encoded, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var decoded Explanation
	if err := json.Unmarshal(encoded, &decoded); err != nil {
		t.Fatal(err)
	}
	for _, s := range append(decoded.Summary, decoded.Sections[0].Lines...) {
		if !strings.Contains(text.String(), s) {
			t.Errorf("the text lacks %q", s)
		}
	}
}

func TestAutoscaleIssues(t *testing.T) {
	t.Parallel()
	two, none := int32(2), int32(0)
	ref := &omev1beta1.ScaleTargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "s-engine"}
	for name, tc := range map[string]struct {
		status *omev1beta1.ComponentStatus
		state  string
		issues []string
	}{
		"nothing is reported": {nil, StateNotReported, []string{IssueAutoscalerNotReported}},
		"all is reported": {&omev1beta1.ComponentStatus{ScaleTargetRef: ref, Autoscaler: &omev1beta1.ComponentAutoscalerStatus{
			Class: "HPA", ManagedBy: "ome", SpecSource: "isvc", CurrentReplicas: &two, DesiredReplicas: &none}}, StateReported, nil},
		"counts are missing": {&omev1beta1.ComponentStatus{ScaleTargetRef: ref, Autoscaler: &omev1beta1.ComponentAutoscalerStatus{
			Class: "HPA", ManagedBy: "ome", SpecSource: "isvc"}}, StatePartial, nil},
		"the target is missing": {&omev1beta1.ComponentStatus{Autoscaler: &omev1beta1.ComponentAutoscalerStatus{
			Class: "External", ManagedBy: "external", SpecSource: "isvc"}}, StatePartial, []string{IssueScaleTargetNotReported}},
		"an owner that does not fit": {&omev1beta1.ComponentStatus{ScaleTargetRef: ref, Autoscaler: &omev1beta1.ComponentAutoscalerStatus{
			Class: "None", ManagedBy: "ome", SpecSource: "isvc"}}, StateInvalid, []string{IssueOwnershipMismatch}},
		"words that nobody knows": {&omev1beta1.ComponentStatus{ScaleTargetRef: ref, Autoscaler: &omev1beta1.ComponentAutoscalerStatus{
			Class: "VPA", ManagedBy: "ome", SpecSource: "moon"}}, StateInvalid, []string{IssueClassInvalid, IssueSpecSourceInvalid}},
		"counts of nobody": {&omev1beta1.ComponentStatus{ScaleTargetRef: ref, Autoscaler: &omev1beta1.ComponentAutoscalerStatus{
			Class: "None", ManagedBy: "none", SpecSource: "isvc", CurrentReplicas: &two}}, StateInvalid, []string{IssueUnexpectedEvidence}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &omev1beta1.InferenceService{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
			s.Spec.Engine = &omev1beta1.ComponentSpec{}
			s.Status.ObservedGeneration = 1
			s.Status.Components.Engine = tc.status
			got := Autoscale(s, nil).Components[0]
			if got.State != tc.state {
				t.Errorf("the state is %s, want %s", got.State, tc.state)
			}
			if diff := cmp.Diff(tc.issues, got.Issues); diff != "" {
				t.Errorf("issues (-want +got):\n%s", diff)
			}
		})
	}
}

// A count of 0 is shown as 0, and a status of an earlier spec is not shown at all.
func TestPolicies(t *testing.T) {
	t.Parallel()
	policy := func(observed int64) omev1beta1.AutoscalerPolicy {
		return omev1beta1.AutoscalerPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "p", Generation: 2, CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour))},
			Spec:       omev1beta1.AutoscalerPolicySpec{Class: "KEDA"},
			Status: omev1beta1.AutoscalerPolicyStatus{ObservedGeneration: observed, PortableDigest: "pv1:0", Conditions: []metav1.Condition{
				{Type: "Ready", Status: "True", Reason: "TemplatesValid", ObservedGeneration: observed}, {Type: "InUse", Status: "False", Reason: "NoConsumers", ObservedGeneration: observed},
			}},
		}
	}
	got := Policies([]omev1beta1.AutoscalerPolicy{policy(2), policy(1), policy(0)}, false, true, noon).Rows
	want := [][]string{
		{"p", "KEDA", "True", "0", "60m", "pv1:0", "TemplatesValid", "False", "Current"},
		{"p", "KEDA", "Unknown", "-", "60m", "-", "-", "Unknown", "Stale"},
		{"p", "KEDA", "Unknown", "-", "60m", "-", "-", "Unknown", "Unobserved"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// Firings of several Tidals are in the order of time, and each goes on beyond what one look at its rules gives.
func TestFirings(t *testing.T) {
	t.Parallel()
	tidal := func(name, cron string) tidalv1alpha1.Tidal {
		out := tidalv1alpha1.Tidal{ObjectMeta: metav1.ObjectMeta{Name: name}}
		out.Spec.Triggers.Times.Rules = []tidalv1alpha1.TimeRule{{Name: "r", Cron: cron, Replicas: new(int32(2))}}
		return out
	}
	got := Firings([]tidalv1alpha1.Tidal{tidal("daily", "0 0 * * *"), tidal("hourly", "30 * * * *"), tidal("broken", "x")}, noon, 14)
	if len(got) != 14 {
		t.Fatalf("there are %d firings, want 14", len(got))
	}
	for i, f := range got {
		want := noon.Add(30*time.Minute + time.Duration(i)*time.Hour)
		switch {
		case i == 12:
			want = noon.Add(12 * time.Hour)
		case i > 12:
			want = want.Add(-time.Hour)
		}
		if !f.Time.Equal(&metav1.Time{Time: want}) {
			t.Errorf("firing %d is at %s, want %s", i, f.Time, want)
		}
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	at := func(minutes int) metav1.MicroTime {
		return metav1.NewMicroTime(noon.Add(time.Duration(minutes) * time.Minute))
	}
	got := Events([]corev1.Event{
		{Reason: "Old", EventTime: at(1)},
		{Reason: "Series", EventTime: at(0), Series: &corev1.EventSeries{Count: 7, LastObservedTime: at(9)}},
		{Reason: "Legacy", Count: 3, LastTimestamp: metav1.NewTime(noon.Add(5 * time.Minute))},
	}, 2)
	if len(got) != 2 || got[0].Reason != "Series" || got[0].Count != 7 || got[1].Reason != "Legacy" || got[1].Count != 3 {
		t.Errorf("the events are %+v, want Series 7 times, then Legacy 3 times", got)
	}
}

func TestWithin(t *testing.T) {
	t.Parallel()
	wanted := map[string]any{"a": map[string]any{"b": 1}, "list": []any{map[string]any{"x": 1}}, "absent": 1}
	live := map[string]any{"a": map[string]any{"b": 2, "server": 3}, "list": []any{map[string]any{"x": 5, "more": 1}}, "other": 1}
	want := map[string]any{"a": map[string]any{"b": 2}, "list": []any{map[string]any{"x": 5}}}
	if diff := cmp.Diff(want, Within(live, wanted)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"list": []any{1, 2}}, Within(map[string]any{"list": []any{1, 2}}, map[string]any{"list": []any{1}})); diff != "" {
		t.Errorf("a list of another length is shown whole (-want +got):\n%s", diff)
	}
}

// FuzzPlot: whatever the values are, the drawing holds no number that a browser cannot read, and text is escaped.
func FuzzPlot(f *testing.F) {
	f.Add(1.0, 2.0, "a<b>")
	f.Add(math.NaN(), math.Inf(1), `"`)
	f.Add(0.0, -1.0, "&")
	f.Add(1e308, 5e-324, "")
	f.Fuzz(func(t *testing.T, a, b float64, name string) {
		times := []time.Time{noon, noon.Add(time.Minute), noon.Add(2 * time.Minute)}
		for _, steps := range []bool{false, true} {
			svg := string(Plot{Title: name, From: noon, To: noon.Add(time.Hour), Lines: []PlotLine{{Name: name, Times: times, Values: []float64{a, b, a}, Steps: steps}}}.SVG())
			if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
				t.Errorf("%g, %g: the drawing has a number that is none:\n%s", a, b, svg)
			}
		}
	})
}

func TestPlotLeavesGaps(t *testing.T) {
	t.Parallel()
	times := []time.Time{noon, noon.Add(time.Minute), noon.Add(2 * time.Minute), noon.Add(3 * time.Minute)}
	p := Plot{From: noon, To: noon.Add(3 * time.Minute), Lines: []PlotLine{{Times: times, Values: []float64{1, math.NaN(), 2, 3}, Steps: true}}}
	if got := strings.Count(string(p.SVG()), "M"); got != 2 {
		t.Errorf("the line begins %d times, want 2: a gap is no zero", got)
	}
	if (Plot{}).Empty() == false || p.Empty() {
		t.Error("only a plot without values is empty")
	}
}

// A page of hostile words stays a page.
func TestReportEscapes(t *testing.T) {
	t.Parallel()
	evil := `<script>alert(1)</script>`
	g := &autoscalingv1alpha1.ResourceScalingGroup{ObjectMeta: metav1.ObjectMeta{Name: "g"}}
	e := ExplainGroup(g, noon)
	e.Summary = append(e.Summary, evil)
	e.Events = []Event{{Note: evil}}
	r := &Report{Title: evil, Made: noon, Notes: []string{evil}, Objects: []ReportObject{{Explanation: e, Tree: &Node{Children: []*Node{{Role: evil, State: evil}}},
		Plots: []Plot{{Title: evil, From: noon, To: noon.Add(1), Lines: []PlotLine{{Name: evil, Times: []time.Time{noon}, Values: []float64{1}}}}}}}}
	var page bytes.Buffer
	if err := r.HTML(&page); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(page.String(), "<script") {
		t.Errorf("the page has a script:\n%s", page.String())
	}
	if n := strings.Count(page.String(), "&lt;script&gt;"); n < 7 {
		t.Errorf("the words are shown %d times, want at least 7", n)
	}
}
