// Package policyresolve answers which settings a component of an InferenceService is scaled by. There are five places where
// they may stand, of which the first that has any decides, and is taken whole:
//
//	isvc     the component's own autoscaler
//	policy   the AutoscalerPolicy that the component names
//	runtime  the autoscaler in the runtime's template
//	legacy   annotations of an earlier release; not for components with leader and worker
//	default  CPU use of 80 percent
//
// A policy that is named and cannot be used does not hand over to the next: the component holds. It keeps what the policy
// last rendered to, with the bounds of the moment, and where it never did, what there is.
package policyresolve

import (
	"fmt"
	"strconv"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyrender"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyspec"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/servingcomponent"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/servingspec"
)

// Facts are what the settings of a component are found from.
type Facts struct {
	// Service is the service that the component is of.
	Service *v1beta1.InferenceService
	// Component is the component.
	Component servingcomponent.Component
	// PoliciesServed tells that there are AutoscalerPolicies on this cluster.
	PoliciesServed bool
	// Policy is the one that the component names, nil where it does not exist.
	Policy *v1beta1.AutoscalerPolicy
	// KedaServed tells that there are ScaledObjects on this cluster.
	KedaServed bool
	// Bindings are the metric providers of this cluster.
	Bindings policyrender.Bindings
	// LastGood is what a policy last rendered to for this component, nil where none did.
	LastGood *v1beta1.ComponentAutoscaler
}

// Resolution is what a component is scaled by.
type Resolution struct {
	// Source says where the settings stand. While the component holds it is policy.
	Source v1beta1.AutoscalerSource
	// Autoscaler is what to dispatch, nil to leave what there is alone.
	Autoscaler *v1beta1.ComponentAutoscaler
	// MinReplicas and MaxReplicas are the bounds to dispatch it with.
	MinReplicas, MaxReplicas int32
	// Hold says why the policy cannot be used, nil where it can or none decides.
	Hold *Hold
	// Policy is the render that Autoscaler comes from, nil where it comes from none; while the component holds, the one
	// before.
	Policy *v1beta1.AutoscalerPolicyProvenance
	// Shadowed is the policy that the component's own autoscaler outranks, nil where it outranks none.
	Shadowed *v1beta1.ShadowedAutoscalerPolicy
	// Condition is AutoscalerResolved, nil for a component that names no policy.
	Condition *metav1.Condition
}

// Hold is why a component holds.
type Hold struct {
	// Reason is that of condition AutoscalerResolved.
	Reason string
	// Detail says what is wrong.
	Detail string
	// Begins tells that the component did not hold for this reason before.
	Begins bool
}

// Rendered reports whether the settings were rendered from the policy just now.
func (r Resolution) Rendered() bool { return r.Source == v1beta1.SourcePolicy && r.Hold == nil }

// Resolve finds the settings of a component.
func Resolve(f Facts) Resolution {
	r := Resolution{}
	r.MinReplicas, r.MaxReplicas = f.Component.Bounds()
	own := f.Component.Own
	switch template := f.Component.Template; {
	case own.Autoscaler != nil:
		r.Source, r.Autoscaler = v1beta1.SourceInline, own.Autoscaler.DeepCopy()
		if ref := own.AutoscalerPolicyRef; ref != nil {
			r.Shadowed = &v1beta1.ShadowedAutoscalerPolicy{Name: ref.Name}
			if rendered, hold := render(f, r); hold == nil || hold.Reason == v1beta1.ReasonClassUnavailable {
				r.Shadowed.PortableDigest, r.Shadowed.WouldRenderDigest = rendered.portable, rendered.Digest
			}
			r.Condition = resolved(metav1.ConditionTrue, v1beta1.ReasonInlinePrecedence, "inline autoscaler block outranks the policy ref")
		}
	case own.AutoscalerPolicyRef != nil:
		policy(f, &r)
	case template != nil && template.Autoscaler != nil:
		r.Source, r.Autoscaler = v1beta1.SourceRuntime, template.Autoscaler.DeepCopy()
	default:
		if r.Autoscaler = legacy(f); r.Autoscaler != nil {
			r.Source = v1beta1.SourceLegacy
		} else {
			r.Source, r.Autoscaler = v1beta1.SourceDefault, &v1beta1.ComponentAutoscaler{Class: v1beta1.ClassHPA}
		}
	}
	return r
}

func resolved(status metav1.ConditionStatus, reason, message string) *metav1.Condition {
	return &metav1.Condition{Type: v1beta1.ConditionAutoscalerResolved, Status: status, Reason: reason, Message: message}
}

func policy(f Facts, r *Resolution) {
	r.Source = v1beta1.SourcePolicy
	rendered, hold := render(f, *r)
	if hold == nil {
		r.Autoscaler = &rendered.Autoscaler
		r.Policy = &v1beta1.AutoscalerPolicyProvenance{
			Name: f.Policy.Name, ObservedGeneration: f.Policy.Generation,
			PortableDigest: rendered.portable, ResolvedDigest: rendered.Digest,
		}
		r.Condition = resolved(metav1.ConditionTrue, v1beta1.ReasonRenderedFromPolicy, "")
		return
	}
	r.Hold, r.Autoscaler = hold, f.LastGood.DeepCopy()
	hold.Begins = true
	if before := f.before(); before != nil {
		r.Policy = before.Policy.DeepCopy()
		c := meta.FindStatusCondition(before.Conditions, v1beta1.ConditionAutoscalerResolved)
		hold.Begins = c == nil || c.Status != metav1.ConditionFalse || c.Reason != hold.Reason
	}
	r.Condition = resolved(metav1.ConditionFalse, hold.Reason, "holding last-known-good scaler: "+hold.Detail)
}

// before is the status of the component's autoscaler as it was last written, nil where there is none.
func (f Facts) before() *v1beta1.ComponentAutoscalerStatus {
	if c := Status(f.Service.Status.Components, f.Component.Name); c != nil {
		return c.Autoscaler
	}
	return nil
}

// Status returns the status of a component, nil where there is none.
func Status(s v1beta1.ComponentStatuses, component string) *v1beta1.ComponentStatus {
	switch component {
	case servingcomponent.Engine:
		return s.Engine
	case servingcomponent.Decoder:
		return s.Decoder
	}
	return s.Router
}

type rendered struct {
	policyrender.Rendered
	portable string
}

// render renders the policy that the component names, or says why it cannot be used. With ClassUnavailable the render is
// there all the same.
func render(f Facts, r Resolution) (rendered, *Hold) {
	hold := func(reason, format string, args ...any) (rendered, *Hold) {
		return rendered{}, &Hold{Reason: reason, Detail: fmt.Sprintf(format, args...)}
	}
	ref := f.Component.Own.AutoscalerPolicyRef
	if !f.PoliciesServed {
		return hold(v1beta1.ReasonPolicyNotFound, "the AutoscalerPolicy feature is not enabled on this cluster")
	}
	if ref.Kind != "" && ref.Kind != v1beta1.RefKindAutoscalerPolicy {
		return hold(v1beta1.ReasonPolicyInvalid, "unsupported policy kind %q (ClusterAutoscalerPolicy is reserved)", ref.Kind)
	}
	if f.Policy == nil {
		return hold(v1beta1.ReasonPolicyNotFound, "AutoscalerPolicy %q not found in namespace %s", ref.Name, f.Service.Namespace)
	}
	if findings := policyspec.Validate(f.Policy.Spec); len(findings) > 0 {
		return hold(v1beta1.ReasonPolicyInvalid, "policy %s: %s", ref.Name, policyspec.Join(findings))
	}
	out, err := policyrender.Render(ref.Name, f.Policy.Spec, policyrender.Component{
		Namespace: f.Service.Namespace, Service: f.Service.Name, Name: f.Component.Name,
		MinReplicas: r.MinReplicas, MaxReplicas: r.MaxReplicas,
	}, f.Bindings)
	if err != nil {
		return hold(v1beta1.ReasonPolicyInvalid, "%v", err)
	}
	portable, err := policyrender.PortableDigest(f.Policy.Spec)
	if err != nil {
		return hold(v1beta1.ReasonPolicyInvalid, "policy %s: %v", ref.Name, err)
	}
	done := rendered{out, portable}
	if out.Autoscaler.Class == v1beta1.ClassKEDA && !f.KedaServed {
		return done, &Hold{Reason: v1beta1.ReasonClassUnavailable, Detail: fmt.Sprintf("policy %q renders class KEDA but the KEDA CRDs are not installed", ref.Name)}
	}
	return done, nil
}

// legacy reads the annotations of an earlier release, those of the component before those of the service. A value that has
// no meaning counts as none.
func legacy(f Facts) *v1beta1.ComponentAutoscaler {
	if f.Component.MultiPod() {
		return nil
	}
	value := func(key string) (string, bool) {
		if text, ok := f.Component.Own.Annotations[key]; ok {
			return text, ok
		}
		text, ok := f.Service.Annotations[key]
		return text, ok
	}
	class, _ := value(v1beta1.AnnotationAutoscalerClass)
	text, _ := value(v1beta1.AnnotationTargetUtilization)
	percent, err := strconv.ParseInt(text, 10, 32)
	utilization := err == nil && percent >= 1 && percent <= 100
	switch {
	case class == servingspec.LegacyExternal:
		return &v1beta1.ComponentAutoscaler{Class: v1beta1.ClassExternal}
	case class == servingspec.LegacyKEDA:
		return &v1beta1.ComponentAutoscaler{Class: v1beta1.ClassKEDA}
	case utilization:
		return &v1beta1.ComponentAutoscaler{Class: v1beta1.ClassHPA, HPA: &v1beta1.HPAAutoscaler{Metrics: CPU(int32(percent))}}
	case class == servingspec.LegacyHPA:
		return &v1beta1.ComponentAutoscaler{Class: v1beta1.ClassHPA}
	}
	return nil
}

// DefaultUtilization is the CPU use, in percent of the request, that a HorizontalPodAutoscaler without metrics holds.
const DefaultUtilization = 80

// CPU are the metrics of a HorizontalPodAutoscaler that holds a CPU use, in percent of the request.
func CPU(percent int32) []autoscalingv2.MetricSpec {
	return []autoscalingv2.MetricSpec{{
		Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{
			Name:   corev1.ResourceCPU,
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent},
		},
	}}
}
