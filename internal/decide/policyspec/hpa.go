package policyspec

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
)

// HPA returns everything for which the API server would refuse a HorizontalPodAutoscaler with these metrics and this
// behavior, by the rules that it has in Kubernetes 1.28 to 1.37.
func HPA(h *v1beta1.HPAAutoscaler, path *field.Path) []Finding {
	if h == nil {
		return nil
	}
	var errs field.ErrorList
	for i, m := range h.Metrics {
		errs = append(errs, metric(m, path.Child("metrics").Index(i))...)
	}
	return append(of(v1beta1.ReasonHPAMetricMalformed, errs), of(v1beta1.ReasonHPABehaviorMalformed, behavior(h.Behavior, path.Child("behavior")))...)
}

func metric(m autoscalingv2.MetricSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	found := false
	for _, block := range []struct {
		metricType autoscalingv2.MetricSourceType
		name       string
		present    bool
	}{
		{autoscalingv2.ResourceMetricSourceType, "resource", m.Resource != nil},
		{autoscalingv2.ContainerResourceMetricSourceType, "containerResource", m.ContainerResource != nil},
		{autoscalingv2.PodsMetricSourceType, "pods", m.Pods != nil},
		{autoscalingv2.ObjectMetricSourceType, "object", m.Object != nil},
		{autoscalingv2.ExternalMetricSourceType, "external", m.External != nil},
	} {
		switch {
		case m.Type == block.metricType:
			found = true
			if !block.present {
				errs = append(errs, field.Required(path.Child(block.name), "must be set for type "+string(m.Type)))
			}
		case block.present:
			errs = append(errs, field.Forbidden(path.Child(block.name), "must be left out for type "+string(m.Type)))
		}
	}
	if !found {
		return append(errs, field.Invalid(path.Child("type"), m.Type, "must be Resource, ContainerResource, Pods, Object or External"))
	}
	if len(errs) > 0 {
		return errs
	}
	switch m.Type {
	case autoscalingv2.ResourceMetricSourceType:
		at := path.Child("resource")
		errs = append(errs, resourceName(string(m.Resource.Name), at.Child("name"))...)
		errs = append(errs, resourceTarget(m.Resource.Target, at.Child("target"))...)
	case autoscalingv2.ContainerResourceMetricSourceType:
		at := path.Child("containerResource")
		errs = append(errs, resourceName(string(m.ContainerResource.Name), at.Child("name"))...)
		for _, msg := range validation.IsDNS1123Label(m.ContainerResource.Container) {
			errs = append(errs, field.Invalid(at.Child("container"), m.ContainerResource.Container, msg))
		}
		errs = append(errs, resourceTarget(m.ContainerResource.Target, at.Child("target"))...)
	case autoscalingv2.PodsMetricSourceType:
		at := path.Child("pods")
		errs = append(errs, segment(m.Pods.Metric.Name, at.Child("metric", "name"))...)
		errs = append(errs, target(m.Pods.Target, at.Child("target"))...)
		if m.Pods.Target.AverageValue == nil {
			errs = append(errs, field.Required(at.Child("target", "averageValue"), "must be set for type Pods"))
		}
	case autoscalingv2.ObjectMetricSourceType:
		at := path.Child("object")
		errs = append(errs, segment(m.Object.DescribedObject.Kind, at.Child("describedObject", "kind"))...)
		errs = append(errs, segment(m.Object.DescribedObject.Name, at.Child("describedObject", "name"))...)
		if _, err := schema.ParseGroupVersion(m.Object.DescribedObject.APIVersion); err != nil {
			errs = append(errs, field.Invalid(at.Child("describedObject", "apiVersion"), m.Object.DescribedObject.APIVersion, "must be of the form group/version"))
		}
		errs = append(errs, segment(m.Object.Metric.Name, at.Child("metric", "name"))...)
		errs = append(errs, target(m.Object.Target, at.Child("target"))...)
		if m.Object.Target.Value == nil && m.Object.Target.AverageValue == nil {
			errs = append(errs, field.Required(at.Child("target"), "must have value or averageValue"))
		}
	default:
		at := path.Child("external")
		errs = append(errs, segment(m.External.Metric.Name, at.Child("metric", "name"))...)
		errs = append(errs, target(m.External.Target, at.Child("target"))...)
		if (m.External.Target.Value == nil) == (m.External.Target.AverageValue == nil) {
			errs = append(errs, field.Required(at.Child("target"), "must have either value or averageValue"))
		}
	}
	return errs
}

func resourceName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "must name a resource, such as cpu")}
	}
	return nil
}

func resourceTarget(t autoscalingv2.MetricTarget, path *field.Path) field.ErrorList {
	errs := target(t, path)
	if (t.AverageUtilization == nil) == (t.AverageValue == nil) {
		errs = append(errs, field.Required(path, "must have either averageUtilization or averageValue"))
	}
	return errs
}

// segment checks what becomes a part of the path of a request for metrics.
func segment(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "must not be empty")}
	}
	var errs field.ErrorList
	for _, msg := range content.IsPathSegmentName(name) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	return errs
}

func target(t autoscalingv2.MetricTarget, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch t.Type {
	case autoscalingv2.UtilizationMetricType, autoscalingv2.ValueMetricType, autoscalingv2.AverageValueMetricType:
	default:
		errs = append(errs, field.Invalid(path.Child("type"), t.Type, "must be Utilization, Value or AverageValue"))
	}
	for _, q := range []struct {
		name  string
		value *resource.Quantity
	}{{"value", t.Value}, {"averageValue", t.AverageValue}} {
		if q.value != nil && q.value.Sign() <= 0 {
			errs = append(errs, field.Invalid(path.Child(q.name), q.value.String(), "must be greater than 0"))
		}
	}
	if u := t.AverageUtilization; u != nil && *u < 1 {
		errs = append(errs, field.Invalid(path.Child("averageUtilization"), *u, "must be greater than 0"))
	}
	return errs
}

func behavior(b *autoscalingv2.HorizontalPodAutoscalerBehavior, path *field.Path) field.ErrorList {
	if b == nil {
		return nil
	}
	return append(rules(b.ScaleUp, path.Child("scaleUp")), rules(b.ScaleDown, path.Child("scaleDown"))...)
}

func rules(r *autoscalingv2.HPAScalingRules, path *field.Path) field.ErrorList {
	if r == nil {
		return nil
	}
	var errs field.ErrorList
	if s := r.StabilizationWindowSeconds; s != nil && (*s < 0 || *s > 3600) {
		errs = append(errs, field.Invalid(path.Child("stabilizationWindowSeconds"), *s, "must be from 0 to 3600"))
	}
	if p := r.SelectPolicy; p != nil && *p != autoscalingv2.MaxChangePolicySelect && *p != autoscalingv2.MinChangePolicySelect && *p != autoscalingv2.DisabledPolicySelect {
		errs = append(errs, field.Invalid(path.Child("selectPolicy"), *p, "must be Max, Min or Disabled"))
	}
	if t := r.Tolerance; t != nil && t.Sign() < 0 {
		errs = append(errs, field.Invalid(path.Child("tolerance"), t.String(), "must be 0 or more"))
	}
	for i, p := range r.Policies {
		at := path.Child("policies").Index(i)
		if p.Type != autoscalingv2.PodsScalingPolicy && p.Type != autoscalingv2.PercentScalingPolicy {
			errs = append(errs, field.Invalid(at.Child("type"), p.Type, "must be Pods or Percent"))
		}
		if p.Value <= 0 {
			errs = append(errs, field.Invalid(at.Child("value"), p.Value, "must be greater than 0"))
		}
		if p.PeriodSeconds <= 0 || p.PeriodSeconds > 1800 {
			errs = append(errs, field.Invalid(at.Child("periodSeconds"), p.PeriodSeconds, "must be from 1 to 1800"))
		}
	}
	return errs
}
