package v1beta1

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

// TestSpecKeepsItsJSONForm: two clusters compare policies by a digest of the spec's JSON form, so that a field that is
// moved, renamed or written where it was left out breaks the comparison.
func TestSpecKeepsItsJSONForm(t *testing.T) {
	queueDepth := func(threshold TemplateText) AutoscalerPolicySpec {
		return kedaSpec(KedaPolicyTrigger{
			Metadata: map[string]TemplateText{
				"query":            `sum(vllm:num_requests_waiting{namespace="{{ .Namespace }}",inferenceservice="{{ .ISVCName }}",component="{{ .Component }}"})`,
				"threshold":        threshold,
				"ignoreNullValues": "false",
			},
		})
	}
	percent, seconds := int32(60), int32(300)
	tests := map[string]struct {
		spec AutoscalerPolicySpec
		want string
	}{
		"queue-depth, threshold 5": {queueDepth("5"), "340d54163f8f"},
		"queue-depth, threshold 8": {queueDepth("8"), "abb4127be888"},
		"scale-to-max": {kedaSpec(KedaPolicyTrigger{
			QueryReturnsDesiredReplicas: true,
			Metadata: map[string]TemplateText{
				"query":            `((sum(vllm:num_requests_running{namespace="{{ .Namespace }}",inferenceservice="{{ .ISVCName }}",component="{{ .Component }}"}) > bool 0) * {{ .MaxReplicas }})`,
				"threshold":        "1",
				"ignoreNullValues": "false",
			},
		}), "4d85da22cbb6"},
		"cpu-60": {AutoscalerPolicySpec{
			Enforcement: EnforcementDefault,
			Class:       PolicyClassHPA,
			HPA: &HPAAutoscaler{
				Metrics: []autoscalingv2.MetricSpec{{
					Type: autoscalingv2.ResourceMetricSourceType,
					Resource: &autoscalingv2.ResourceMetricSource{
						Name:   corev1.ResourceCPU,
						Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent},
					},
				}},
				Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{
					ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: &seconds},
				},
			},
		}, "6647db99e933"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			text, err := json.Marshal(tt.spec)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprintf("%x", sha256.Sum256(text))[:12]; got != tt.want {
				t.Errorf("the digest is %s, want %s, of\n%s", got, tt.want, text)
			}
		})
	}
}

func kedaSpec(trigger KedaPolicyTrigger) AutoscalerPolicySpec {
	trigger.Type = "prometheus"
	trigger.ProviderRef = &MetricProviderReference{Name: "cluster-prometheus"}
	trigger.MetricType = TriggerAverageValue
	return AutoscalerPolicySpec{
		Enforcement: EnforcementDefault,
		Class:       PolicyClassKEDA,
		Keda: &KedaPolicyTemplate{
			Triggers: []KedaPolicyTrigger{trigger},
			Fallback: &FallbackTemplate{FailureThreshold: 3, Replicas: ReplicaSource{FromComponent: FromMaxReplicas}},
		},
	}
}
