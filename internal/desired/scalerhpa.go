package desired

import (
	"cmp"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
)

// The label by which others see who made an object.
const (
	labelManagedBy = "app.kubernetes.io/managed-by"
	managedBy      = "pd-orchestrator"
)

// ScalerHPA is the HorizontalPodAutoscaler that an ElasticScaler with scalingAlgorithm HPA stands behind: of its name, in
// its namespace, with its bounds, metrics and behavior. The scaler owns it, so that it goes with the scaler.
func ScalerHPA(scaler *v1alpha1.ElasticScaler, target schema.GroupVersionKind, minReplicas, maxReplicas int32) *autoscalingv2ac.HorizontalPodAutoscalerApplyConfiguration {
	spec := autoscalingv2ac.HorizontalPodAutoscalerSpec().
		WithScaleTargetRef(autoscalingv2ac.CrossVersionObjectReference().
			WithAPIVersion(target.GroupVersion().String()).WithKind(target.Kind).WithName(scaler.Spec.TargetRef.Name)).
		WithMinReplicas(minReplicas).
		WithMaxReplicas(maxReplicas)
	for _, m := range scaler.Spec.Trigger.MetricsTrigger.Metrics {
		if metric := hpaMetric(m); metric != nil {
			spec.WithMetrics(metric)
		}
	}
	if b := scaler.Spec.Behavior; b != nil {
		spec.WithBehavior(hpaBehavior(b))
	}
	return autoscalingv2ac.HorizontalPodAutoscaler(scaler.Name, scaler.Namespace).
		WithLabels(map[string]string{labelManagedBy: managedBy}).
		WithOwnerReferences(metav1ac.OwnerReference().
			WithAPIVersion(v1alpha1.GroupVersion.String()).WithKind("ElasticScaler").
			WithName(scaler.Name).WithUID(scaler.UID).WithController(true).WithBlockOwnerDeletion(true)).
		WithSpec(spec)
}

func hpaMetric(m v1alpha1.MetricSpec) *autoscalingv2ac.MetricSpecApplyConfiguration {
	switch {
	case m.Resource != nil:
		return autoscalingv2ac.MetricSpec().WithType(autoscalingv2.ResourceMetricSourceType).
			WithResource(autoscalingv2ac.ResourceMetricSource().
				WithName(corev1.ResourceName(m.Resource.MetricsName)).WithTarget(hpaTarget(m.Resource.Target)))
	case m.External != nil:
		name := m.External.MetricsName
		if m.External.Metric != nil {
			name = cmp.Or(name, m.External.Metric.Name)
		}
		return autoscalingv2ac.MetricSpec().WithType(autoscalingv2.ExternalMetricSourceType).
			WithExternal(autoscalingv2ac.ExternalMetricSource().
				WithMetric(hpaMetricIdentifier(name, m.External.Selector)).WithTarget(hpaTarget(m.External.Target)))
	case m.Custom != nil:
		return autoscalingv2ac.MetricSpec().WithType(autoscalingv2.PodsMetricSourceType).
			WithPods(autoscalingv2ac.PodsMetricSource().
				WithMetric(hpaMetricIdentifier(m.Custom.MetricsName, m.Custom.Selector)).WithTarget(hpaTarget(m.Custom.Target)))
	}
	return nil
}

func hpaMetricIdentifier(name string, s *metav1.LabelSelector) *autoscalingv2ac.MetricIdentifierApplyConfiguration {
	identifier := autoscalingv2ac.MetricIdentifier().WithName(name)
	if s == nil {
		return identifier
	}
	selector := metav1ac.LabelSelector().WithMatchLabels(s.MatchLabels)
	for _, e := range s.MatchExpressions {
		selector.WithMatchExpressions(metav1ac.LabelSelectorRequirement().WithKey(e.Key).WithOperator(e.Operator).WithValues(e.Values...))
	}
	return identifier.WithSelector(selector)
}

func hpaTarget(t v1alpha1.MetricTarget) *autoscalingv2ac.MetricTargetApplyConfiguration {
	target := autoscalingv2ac.MetricTarget().WithType(autoscalingv2.MetricTargetType(t.Type))
	set := func(q *resource.Quantity, with func(resource.Quantity) *autoscalingv2ac.MetricTargetApplyConfiguration) {
		if q != nil {
			with(*q)
		}
	}
	set(t.Value, target.WithValue)
	set(t.AverageValue, target.WithAverageValue)
	if t.AverageUtilization != nil {
		target.WithAverageUtilization(*t.AverageUtilization)
	}
	return target
}

func hpaBehavior(b *autoscalingv2.HorizontalPodAutoscalerBehavior) *autoscalingv2ac.HorizontalPodAutoscalerBehaviorApplyConfiguration {
	behavior := autoscalingv2ac.HorizontalPodAutoscalerBehavior()
	if b.ScaleUp != nil {
		behavior.WithScaleUp(hpaRules(b.ScaleUp))
	}
	if b.ScaleDown != nil {
		behavior.WithScaleDown(hpaRules(b.ScaleDown))
	}
	return behavior
}

func hpaRules(r *autoscalingv2.HPAScalingRules) *autoscalingv2ac.HPAScalingRulesApplyConfiguration {
	rules := autoscalingv2ac.HPAScalingRules()
	if r.StabilizationWindowSeconds != nil {
		rules.WithStabilizationWindowSeconds(*r.StabilizationWindowSeconds)
	}
	if r.SelectPolicy != nil {
		rules.WithSelectPolicy(*r.SelectPolicy)
	}
	if r.Tolerance != nil {
		rules.WithTolerance(*r.Tolerance)
	}
	for _, p := range r.Policies {
		rules.WithPolicies(autoscalingv2ac.HPAScalingPolicy().WithType(p.Type).WithValue(p.Value).WithPeriodSeconds(p.PeriodSeconds))
	}
	return rules
}
