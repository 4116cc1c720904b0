package kube

import (
	"fmt"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TargetKey names an object that is scaled, by the words of a reference to it. The version does not count, nor does the
// case of the kind.
func TargetKey(apiVersion, kind, namespace, name string) string {
	group := apiVersion
	if gv, err := schema.ParseGroupVersion(apiVersion); err == nil {
		group = gv.Group
	}
	return strings.ToLower(kind) + "." + group + "/" + namespace + "/" + name
}

// WithoutGroup turns a TargetKey into that of the same object in a reference that leaves the apiVersion out.
func WithoutGroup(key string) string {
	kind, rest, _ := strings.Cut(key, "/")
	kind, _, _ = strings.Cut(kind, ".")
	return kind + "./" + rest
}

// HPATarget is the TargetKey of what an HPA scales.
func HPATarget(hpa *autoscalingv2.HorizontalPodAutoscaler) string {
	ref := hpa.Spec.ScaleTargetRef
	return TargetKey(ref.APIVersion, ref.Kind, hpa.Namespace, ref.Name)
}

// DescribeScaler names who scales by an HPA: its owner where it has one, since KEDA's ScaledObjects and ElasticScalers
// work through an HPA of theirs.
func DescribeScaler(hpa *autoscalingv2.HorizontalPodAutoscaler) string {
	if owner := metav1.GetControllerOf(hpa); owner != nil {
		return fmt.Sprintf("%s %s/%s", owner.Kind, hpa.Namespace, owner.Name)
	}
	return fmt.Sprintf("HorizontalPodAutoscaler %s/%s", hpa.Namespace, hpa.Name)
}
