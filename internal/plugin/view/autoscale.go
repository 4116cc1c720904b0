package view

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	omev1beta1 "github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyresolve"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/servingcomponent"
)

// AutoscaleAPIVersion is that of AutoscaleStatusReport, as scripts for `kubectl ome` expect it.
const AutoscaleAPIVersion = "cli.ome.io/v1alpha1"

// States of a component in an AutoscaleStatusReport.
const (
	StateReported    = "Reported"
	StatePartial     = "Partial"
	StateNotReported = "NotReported"
	StateInvalid     = "Invalid"
)

// States of the policy that a component names.
const (
	PolicyCurrent    = "Current"
	PolicyShadowed   = "Shadowed"
	PolicyHeld       = "Held"
	PolicyUnresolved = "Unresolved"
)

// Issues of an AutoscaleStatusReport.
const (
	IssueAutoscalerNotReported  = "AutoscalerNotReported"
	IssueScaleTargetNotReported = "ScaleTargetNotReported"
	IssueScaleTargetInvalid     = "ScaleTargetInvalid"
	IssueClassInvalid           = "ClassInvalid"
	IssueManagedByInvalid       = "ManagedByInvalid"
	IssueOwnershipMismatch      = "OwnershipMismatch"
	IssueSpecSourceInvalid      = "SpecSourceInvalid"
	IssueUnexpectedEvidence     = "UnexpectedScalerEvidence"
	IssueReplicasInvalid        = "ReplicaEvidenceInvalid"
	IssueConditionConflict      = "ConditionConflict"
	IssuePolicyInvalid          = "PolicyEvidenceInvalid"
)

// AutoscaleStatusReport is the autoscaling in effect for each component of an InferenceService.
type AutoscaleStatusReport struct {
	metav1.TypeMeta `json:",inline"`
	Service         Reference            `json:"service"`
	State           string               `json:"state"`
	Components      []AutoscaleComponent `json:"components"`
}

// AutoscaleComponent is the autoscaling in effect for one component. Counts that are not known are absent; 0 is 0.
type AutoscaleComponent struct {
	Name            string                                 `json:"name"`
	State           string                                 `json:"state"`
	Class           string                                 `json:"class,omitempty"`
	ManagedBy       string                                 `json:"managedBy,omitempty"`
	SpecSource      string                                 `json:"specSource,omitempty"`
	PolicyState     string                                 `json:"policyState,omitempty"`
	Policy          string                                 `json:"policy,omitempty"`
	Resolution      *omev1beta1.AutoscalerPolicyProvenance `json:"resolution,omitempty"`
	Target          *omev1beta1.ScaleTargetReference       `json:"target,omitempty"`
	CurrentReplicas *int32                                 `json:"currentReplicas,omitempty"`
	DesiredReplicas *int32                                 `json:"desiredReplicas,omitempty"`
	// Live is what the scale subresource of the target says, where it was asked for.
	Live          *LiveScale         `json:"live,omitempty"`
	LastScaleTime *metav1.Time       `json:"lastScaleTime,omitempty"`
	Conditions    []metav1.Condition `json:"conditions,omitempty"`
	Issues        []string           `json:"issues,omitempty"`
}

// LiveScale is the scale subresource of a workload.
type LiveScale struct {
	Spec   int32 `json:"spec"`
	Status int32 `json:"status"`
	// Error says why it could not be read.
	Error string `json:"error,omitempty"`
}

// Autoscale reports the autoscaling in effect, from the status of the service. live are the scales of the components'
// targets by component, nil where they were not asked for.
func Autoscale(s *omev1beta1.InferenceService, live map[string]LiveScale) *AutoscaleStatusReport {
	r := &AutoscaleStatusReport{TypeMeta: metav1.TypeMeta{APIVersion: AutoscaleAPIVersion, Kind: "AutoscaleStatusReport"}, Service: ReferenceTo(KindService, s), State: StateReported}
	for _, c := range servingcomponent.Of(s.Spec, nil) {
		component := autoscaleComponent(s, c)
		if scale, asked := live[c.Name]; asked {
			component.Live = &scale
		}
		r.Components = append(r.Components, component)
		if component.State != StateReported && r.State != StateInvalid {
			r.State = StatePartial
			if component.State == StateInvalid {
				r.State = StateInvalid
			}
		}
	}
	if s.Status.ObservedGeneration == 0 {
		r.State = "Unavailable"
	}
	return r
}

func autoscaleComponent(s *omev1beta1.InferenceService, c servingcomponent.Component) AutoscaleComponent {
	out := AutoscaleComponent{Name: c.Name, State: StateReported}
	issue := func(code string) { out.Issues = append(out.Issues, code) }
	if ref := c.Own.AutoscalerPolicyRef; ref != nil {
		out.Policy, out.PolicyState = ref.Name, PolicyUnresolved
	}
	status := policyresolve.Status(s.Status.Components, c.Name)
	if status == nil || status.Autoscaler == nil {
		out.State = StateNotReported
		issue(IssueAutoscalerNotReported)
		return out
	}
	a := status.Autoscaler
	out.Class, out.ManagedBy, out.SpecSource = string(a.Class), string(a.ManagedBy), string(a.SpecSource)
	out.CurrentReplicas, out.DesiredReplicas, out.LastScaleTime, out.Conditions = a.CurrentReplicas, a.DesiredReplicas, a.LastScaleTime, a.Conditions
	out.Resolution = a.Policy
	if out.Policy != "" {
		out.PolicyState = policyState(a)
	}
	managers := map[omev1beta1.AutoscalerClass]omev1beta1.AutoscalerManager{
		omev1beta1.ClassHPA: omev1beta1.ManagedByOME, omev1beta1.ClassKEDA: omev1beta1.ManagedByOME,
		omev1beta1.ClassExternal: omev1beta1.ManagedByExternal, omev1beta1.ClassNone: omev1beta1.ManagedByNone,
	}
	manager, known := managers[a.Class]
	knownManager := slices.Contains([]omev1beta1.AutoscalerManager{omev1beta1.ManagedByOME, omev1beta1.ManagedByExternal, omev1beta1.ManagedByNone}, a.ManagedBy)
	switch {
	case !known:
		issue(IssueClassInvalid)
	case !knownManager:
		issue(IssueManagedByInvalid)
	case manager != a.ManagedBy:
		issue(IssueOwnershipMismatch)
	}
	if _, known := sources[a.SpecSource]; !known {
		issue(IssueSpecSourceInvalid)
	}
	if status.ScaleTargetRef == nil {
		issue(IssueScaleTargetNotReported)
	} else if out.Target = status.ScaleTargetRef; out.Target.Kind == "" || out.Target.Name == "" {
		issue(IssueScaleTargetInvalid)
	}
	if known && manager != omev1beta1.ManagedByOME && (a.CurrentReplicas != nil || a.DesiredReplicas != nil) {
		issue(IssueUnexpectedEvidence)
	}
	for _, n := range []*int32{a.CurrentReplicas, a.DesiredReplicas} {
		if n != nil && *n < 0 {
			issue(IssueReplicasInvalid)
			break
		}
	}
	if a.SpecSource == omev1beta1.SourcePolicy && a.Policy == nil && out.PolicyState == PolicyCurrent {
		issue(IssuePolicyInvalid)
	}
	seen := map[string]bool{}
	for _, condition := range a.Conditions {
		if seen[condition.Type] {
			issue(IssueConditionConflict)
			break
		}
		seen[condition.Type] = true
	}
	for _, code := range out.Issues {
		if code == IssueScaleTargetNotReported {
			out.State = StatePartial
			continue
		}
		out.State = StateInvalid
		break
	}
	if out.State == StateReported && manager == omev1beta1.ManagedByOME && (a.CurrentReplicas == nil || a.DesiredReplicas == nil) {
		out.State = StatePartial
	}
	return out
}

// policyState says what becomes of the policy that a component names.
func policyState(a *omev1beta1.ComponentAutoscalerStatus) string {
	c := meta.FindStatusCondition(a.Conditions, omev1beta1.ConditionAutoscalerResolved)
	switch {
	case a.ShadowedPolicyRef != nil:
		return PolicyShadowed
	case c == nil:
		return PolicyUnresolved
	case c.Status == metav1.ConditionTrue:
		return PolicyCurrent
	case a.Policy != nil:
		return PolicyHeld
	}
	return PolicyUnresolved
}

// Table has one row per fact and one column per component.
func (r *AutoscaleStatusReport) Table() Table {
	t := Table{Columns: []string{"FIELD", "SERVICE"}}
	for _, c := range r.Components {
		t.Columns = append(t.Columns, strings.ToUpper(c.Name))
	}
	row := func(field, service string, of func(AutoscaleComponent) string) {
		cells := []string{field, service}
		for _, c := range r.Components {
			cells = append(cells, of(c))
		}
		t.Add(cells...)
	}
	anyLive, kinds := false, map[string]bool{}
	for _, c := range r.Components {
		anyLive = anyLive || c.Live != nil
		kinds[c.Class] = true
	}
	row("STATE", r.State, func(c AutoscaleComponent) string { return c.State })
	row("CLASS", "", func(c AutoscaleComponent) string { return c.Class })
	row("MANAGED-BY", "", func(c AutoscaleComponent) string { return c.ManagedBy })
	row("SPEC-SOURCE", "", func(c AutoscaleComponent) string { return c.SpecSource })
	row("POLICY-STATE", "", func(c AutoscaleComponent) string { return c.PolicyState })
	row("POLICY", "", func(c AutoscaleComponent) string { return c.Policy })
	row("TARGET-KIND", "", func(c AutoscaleComponent) string { return target(c).Kind })
	row("TARGET-NAME", "", func(c AutoscaleComponent) string { return target(c).Name })
	row("TARGET-EVIDENCE", "", func(c AutoscaleComponent) string { return evidence(c.Target != nil) })
	row("CURRENT", "", func(c AutoscaleComponent) string { return count(c.CurrentReplicas) })
	row("DESIRED", "", func(c AutoscaleComponent) string { return count(c.DesiredReplicas) })
	row("REPLICA-EVIDENCE", "", func(c AutoscaleComponent) string {
		return evidence(c.CurrentReplicas != nil && c.DesiredReplicas != nil)
	})
	if anyLive {
		row("LIVE-SPEC", "", func(c AutoscaleComponent) string {
			return live(c, func(s LiveScale) string { return fmt.Sprint(s.Spec) })
		})
		row("LIVE-STATUS", "", func(c AutoscaleComponent) string {
			return live(c, func(s LiveScale) string { return fmt.Sprint(s.Status) })
		})
	}
	row("LAST-SCALE", "", func(c AutoscaleComponent) string { return moment(c.LastScaleTime) })
	row("COND-EVIDENCE", "", func(c AutoscaleComponent) string { return evidence(len(c.Conditions) > 0) })
	if kinds[string(omev1beta1.ClassHPA)] || !kinds[string(omev1beta1.ClassKEDA)] {
		conditionRows(row, map[string]string{"ABLE-TO-SCALE": "AbleToScale", "SCALING-ACTIVE": "ScalingActive", "SCALING-LIMITED": "ScalingLimited"})
	}
	if kinds[string(omev1beta1.ClassKEDA)] {
		conditionRows(row, map[string]string{"READY": "Ready", "ACTIVE": "Active", "FALLBACK": "Fallback", "PAUSED": "Paused"})
	}
	row("ISSUES", "", func(c AutoscaleComponent) string { return strings.Join(c.Issues, ",") })
	return t
}

// conditionOrder is that of the rows of conditions.
var conditionOrder = []string{"ABLE-TO-SCALE", "SCALING-ACTIVE", "SCALING-LIMITED", "READY", "ACTIVE", "FALLBACK", "PAUSED"}

func conditionRows(row func(string, string, func(AutoscaleComponent) string), types map[string]string) {
	for _, field := range conditionOrder {
		if conditionType, shown := types[field]; shown {
			row(field, "", func(c AutoscaleComponent) string {
				if found := meta.FindStatusCondition(c.Conditions, conditionType); found != nil {
					return string(found.Status)
				}
				return ""
			})
		}
	}
}

// Wide has one row per component, with what its policy rendered to.
func (r *AutoscaleStatusReport) Wide() Table {
	t := Table{Columns: []string{"COMPONENT", "STATE", "CLASS", "SPEC-SOURCE", "POLICY-STATE", "POLICY", "GENERATION", "PORTABLE-DIGEST", "RESOLVED-DIGEST", "TARGET", "CURRENT", "DESIRED", "ISSUES"}}
	for _, c := range r.Components {
		generation, portable, resolved := "", "", ""
		if p := c.Resolution; p != nil {
			generation, portable, resolved = fmt.Sprint(p.ObservedGeneration), p.PortableDigest, p.ResolvedDigest
		}
		name := ""
		if c.Target != nil {
			name = c.Target.Kind + "/" + c.Target.Name
		}
		t.Add(c.Name, c.State, c.Class, c.SpecSource, c.PolicyState, c.Policy, generation, portable, resolved, name, count(c.CurrentReplicas), count(c.DesiredReplicas), strings.Join(c.Issues, ","))
	}
	return t
}

func target(c AutoscaleComponent) omev1beta1.ScaleTargetReference {
	if c.Target == nil {
		return omev1beta1.ScaleTargetReference{}
	}
	return *c.Target
}

func evidence(there bool) string {
	if there {
		return StateReported
	}
	return StateNotReported
}

func live(c AutoscaleComponent, text func(LiveScale) string) string {
	switch {
	case c.Live == nil:
		return ""
	case c.Live.Error != "":
		return "error: " + c.Live.Error
	}
	return text(*c.Live)
}
