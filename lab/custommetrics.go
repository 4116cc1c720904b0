package lab

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pd-orchestrator/pd-orchestrator/lab/internal/component"
)

// externalMetrics has one server at a time: KEDA's adapter where KEDA was
// started, and else CustomMetrics.
var externalMetrics = schema.GroupVersion{Group: "external.metrics.k8s.io", Version: "v1beta1"}

// registerCustomMetrics makes the API server ask CustomMetrics for custom and
// external metrics.
func (l *Lab) registerCustomMetrics(ctx context.Context) error {
	const group = "custom.metrics.k8s.io"
	for _, api := range []schema.GroupVersion{{Group: group, Version: "v1beta1"}, {Group: group, Version: "v1beta2"}, externalMetrics} {
		if err := l.registerHost(ctx, api, component.CustomMetricsHost, l.cluster.Ports.CustomMetrics); err != nil {
			return err
		}
	}
	return nil
}
