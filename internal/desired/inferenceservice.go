package desired

import (
	"cmp"
	"fmt"
	"regexp"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/condition"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyresolve"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/servingcomponent"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/servingruntime"
)

// readyTypes are the conditions that tell whether a component serves.
var readyTypes = map[string]string{
	servingcomponent.Engine:  v1beta1.ConditionEngineReady,
	servingcomponent.Decoder: v1beta1.ConditionDecoderReady,
	servingcomponent.Router:  v1beta1.ConditionRouterReady,
}

// ServiceObservation is what one pass over an InferenceService saw and did.
type ServiceObservation struct {
	// Choice is the runtime.
	Choice servingruntime.Choice
	// Components are those that the service names, in their order.
	Components []ComponentObservation
}

// ComponentObservation is what one pass saw and did of a component.
type ComponentObservation struct {
	// Component is the component.
	Component ServingComponent
	// URL is the address of its Service, "" while that is not known.
	URL string
	// Workload is the live workload, nil where there is none of ours.
	Workload *unstructured.Unstructured
	// Problem keeps the workload or the Service from being as the spec asks, nil for none.
	Problem *condition.Problem
	// Unknown tells that what the component is scaled by was not found out, since the runtime is missing or the API server
	// does not answer: what was known stays.
	Unknown bool
	// Resolution is what the component is scaled by.
	Resolution policyresolve.Resolution
	// Applied tells whether the autoscaler is as the resolution asks, and why not.
	Applied metav1.Condition
	// Scaler is the live HorizontalPodAutoscaler or ScaledObject of ours, nil where there is none.
	Scaler *unstructured.Unstructured
	// KedaHPA is the HorizontalPodAutoscaler that KEDA made for the ScaledObject, nil where there is none.
	KedaHPA *unstructured.Unstructured
}

// InferenceServiceStatus returns the status of an InferenceService after a pass. The object's own status is the previous
// one.
func InferenceServiceStatus(service *v1beta1.InferenceService, o ServiceObservation, now metav1.Time) v1beta1.InferenceServiceStatus {
	previous := service.Status
	s := v1beta1.InferenceServiceStatus{ObservedGeneration: service.Generation}
	wanted := []metav1.Condition{condition.New(v1beta1.ConditionRuntimeResolved, o.Choice.Resolved, o.Choice.Reason, o.Choice.Message)}
	ready := condition.New(v1beta1.ConditionReady, true, v1beta1.ReasonComponentsReady, "every component serves")
	if len(o.Components) == 0 {
		ready = condition.New(v1beta1.ConditionReady, false, v1beta1.ReasonNoComponents, "spec names no component: add an engine")
	}
	for _, c := range o.Components {
		name := c.Component.Component.Name
		component := c.ready(meta.FindStatusCondition(previous.Conditions, readyTypes[name]), service.Generation)
		wanted = append(wanted, component)
		if component.Status != metav1.ConditionTrue && ready.Status == metav1.ConditionTrue {
			ready = condition.New(v1beta1.ConditionReady, false, component.Reason, name+": "+component.Message)
		}
		status := c.status(policyresolve.Status(previous.Components, name), service.Generation, now)
		switch name {
		case servingcomponent.Engine:
			s.Components.Engine = status
		case servingcomponent.Decoder:
			s.Components.Decoder = status
		default:
			s.Components.Router = status
		}
		if name == servingcomponent.Router || name == servingcomponent.Engine {
			s.URL = status.URL
		}
	}
	wanted = append(wanted, ready)
	s.Conditions = condition.Merge(previous.Conditions, typesOf(previous.Conditions), wanted, service.Generation, now)
	return settled(previous, s)
}

func typesOf(conditions []metav1.Condition) []string {
	types := make([]string, len(conditions))
	for i, c := range conditions {
		types[i] = c.Type
	}
	return types
}

// settled keeps a status in which nothing but a time of the autoscalers differs: KEDA tells anew with each check that a
// trigger is active, which is no news.
func settled(previous, s v1beta1.InferenceServiceStatus) v1beta1.InferenceServiceStatus {
	same := s.DeepCopy()
	for _, name := range []string{servingcomponent.Engine, servingcomponent.Decoder, servingcomponent.Router} {
		before, after := policyresolve.Status(previous.Components, name), policyresolve.Status(same.Components, name)
		if before != nil && before.Autoscaler != nil && after != nil {
			after.Autoscaler.LastScaleTime = before.Autoscaler.LastScaleTime
		}
	}
	if equality.Semantic.DeepEqual(previous, *same) {
		return previous
	}
	return s
}

// Serves reports whether the component serves.
func (c ComponentObservation) Serves() bool { return c.ready(nil, 0).Status == metav1.ConditionTrue }

// ready tells whether the component serves: its workload is as the spec asks, and at least the least number of replicas are
// up to date and available. Before is the condition as it was, nil where there is none.
func (c ComponentObservation) ready(before *metav1.Condition, generation int64) metav1.Condition {
	conditionType := readyTypes[c.Component.Component.Name]
	if c.Problem != nil {
		return condition.New(conditionType, false, c.Problem.Reason, c.Problem.Message)
	}
	if c.Workload == nil {
		return condition.New(conditionType, false, v1beta1.ReasonUnavailable, "the workload is not there yet")
	}
	number := func(path ...string) int64 {
		n, _, _ := unstructured.NestedInt64(c.Workload.Object, path...)
		return n
	}
	available := number("status", "availableReplicas")
	if c.Workload.GetKind() == LeaderWorkerSetKind.Kind {
		available = number("status", "readyReplicas")
	} else if number("status", "observedGeneration") < c.Workload.GetGeneration() {
		if before != nil && before.ObservedGeneration == generation {
			// An annotation, such as the record of what was rendered, makes a generation too, and no new pods.
			return *before
		}
		return condition.New(conditionType, false, v1beta1.ReasonUnavailable, "the pods are not up to date yet")
	}
	least := min(number("spec", "replicas"), int64(max(c.Resolution.MinReplicas, 1)))
	updated := number("status", "updatedReplicas")
	switch {
	case number("spec", "replicas") == 0:
		return condition.New(conditionType, true, v1beta1.ReasonScaledToZero, "the component is scaled to 0 replicas")
	case available < least:
		return condition.New(conditionType, false, v1beta1.ReasonUnavailable, fmt.Sprintf("fewer than %d replicas are available", least))
	case updated < least:
		return condition.New(conditionType, false, v1beta1.ReasonUnavailable, fmt.Sprintf("fewer than %d replicas are up to date", least))
	}
	return condition.New(conditionType, true, v1beta1.ReasonAvailable, fmt.Sprintf("at least %d replicas are available", least))
}

func (c ComponentObservation) status(before *v1beta1.ComponentStatus, generation int64, now metav1.Time) *v1beta1.ComponentStatus {
	if before == nil {
		before = &v1beta1.ComponentStatus{}
	}
	if c.Unknown {
		return before.DeepCopy()
	}
	target := c.Component.Target()
	return &v1beta1.ComponentStatus{URL: cmp.Or(c.URL, before.URL), ScaleTargetRef: &target, Autoscaler: c.autoscaler(before.Autoscaler, generation, now)}
}

func (c ComponentObservation) autoscaler(before *v1beta1.ComponentAutoscalerStatus, generation int64, now metav1.Time) *v1beta1.ComponentAutoscalerStatus {
	if before == nil {
		before = &v1beta1.ComponentAutoscalerStatus{}
	}
	r := c.Resolution
	s := &v1beta1.ComponentAutoscalerStatus{SpecSource: r.Source, Class: before.Class, Policy: r.Policy, ShadowedPolicyRef: r.Shadowed}
	if r.Autoscaler != nil {
		s.Class = r.Autoscaler.Class
	}
	if r.Rendered() && c.Applied.Status != metav1.ConditionTrue {
		// What stands is what was rendered before.
		s.Policy = before.Policy
	}
	switch s.Class {
	case v1beta1.ClassHPA, v1beta1.ClassKEDA:
		s.ManagedBy = v1beta1.ManagedByOME
	case v1beta1.ClassExternal:
		s.ManagedBy = v1beta1.ManagedByExternal
	case v1beta1.ClassNone:
		s.ManagedBy = v1beta1.ManagedByNone
	}
	wanted := []metav1.Condition{c.Applied}
	if r.Condition != nil {
		wanted = append(wanted, *r.Condition)
	}
	if s.ManagedBy == v1beta1.ManagedByOME && c.Scaler != nil {
		wanted = append(wanted, mirrored(c.Scaler)...)
		c.counts(s)
	}
	s.Conditions = condition.Merge(before.Conditions, typesOf(before.Conditions), wanted, generation, now)
	return s
}

// counts takes over what the HorizontalPodAutoscaler says, once it has said something.
func (c ComponentObservation) counts(s *v1beta1.ComponentAutoscalerStatus) {
	hpa, lastScale := c.Scaler, []string{"status", "lastScaleTime"}
	if c.Scaler.GetKind() == ScaledObjectKind.Kind {
		hpa, lastScale = c.KedaHPA, []string{"status", "lastActiveTime"}
	}
	if text, _, _ := unstructured.NestedString(c.Scaler.Object, lastScale...); text != "" {
		if t, err := time.Parse(time.RFC3339, text); err == nil {
			at := metav1.NewTime(t)
			s.LastScaleTime = &at
		}
	}
	if hpa == nil {
		return
	}
	if said, _, _ := unstructured.NestedSlice(hpa.Object, "status", "conditions"); len(said) == 0 {
		return
	}
	// A count of 0 is left out on the wire.
	count := func(field string) *int32 {
		n, _, _ := unstructured.NestedInt64(hpa.Object, "status", field)
		replicas := int32(n)
		return &replicas
	}
	s.CurrentReplicas, s.DesiredReplicas = count("currentReplicas"), count("desiredReplicas")
}

var (
	// ofPod is the end of messages that name another pod each time.
	ofPod         = regexp.MustCompile(` of Pod \S+`)
	validReason   = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)
	validStatuses = map[metav1.ConditionStatus]bool{metav1.ConditionTrue: true, metav1.ConditionFalse: true, metav1.ConditionUnknown: true}
)

// mirrored are the conditions of a HorizontalPodAutoscaler or ScaledObject, in a form that is valid here: KEDA leaves out
// times, and reasons too.
func mirrored(scaler *unstructured.Unstructured) []metav1.Condition {
	list, _, _ := unstructured.NestedSlice(scaler.Object, "status", "conditions")
	var all []metav1.Condition
	for _, element := range list {
		fields, _ := element.(map[string]any)
		text := func(name string) string {
			s, _ := fields[name].(string)
			return s
		}
		c := metav1.Condition{Type: text("type"), Status: metav1.ConditionStatus(text("status")), Reason: text("reason")}
		c.Message = ofPod.ReplaceAllString(text("message"), " of Pod <name>")
		if c.Type == "" || !validStatuses[c.Status] || c.Type == v1beta1.ConditionAutoscalerResolved || c.Type == v1beta1.ConditionAutoscalerApplied {
			continue
		}
		if !validReason.MatchString(c.Reason) {
			c.Reason = c.Type
		}
		if !validReason.MatchString(c.Reason) {
			c.Reason = "Unknown"
		}
		all = append(all, c)
	}
	return all
}
