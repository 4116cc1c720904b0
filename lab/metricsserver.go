package lab

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pd-orchestrator/pd-orchestrator/lab/internal/component"
)

// What each simulated pod uses is set by these annotations on it, as Kubernetes
// quantities, where the lab runs MetricsServer. They hold for each of its
// containers; without them a container uses 1m of CPU and 1Mi of memory. Usage
// cannot be zero, since metrics-server takes that for a failed measurement.
const (
	CPUAnnotation    = component.CPUAnnotation
	MemoryAnnotation = component.MemoryAnnotation
)

// registerResourceMetrics makes the API server ask metrics-server for what is
// below metrics.k8s.io.
func (l *Lab) registerResourceMetrics(ctx context.Context) error {
	api := schema.GroupVersion{Group: "metrics.k8s.io", Version: "v1beta1"}
	return l.registerHost(ctx, api, component.MetricsServerHost, l.cluster.Ports.MetricsServer)
}
