package lab

import (
	"context"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
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

// metricsServerRules is what metrics-server may do: read pods and nodes, and ask
// who its callers are and what they may.
func metricsServerRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes", "pods"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"extension-apiserver-authentication"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
	}
}

// registerResourceMetrics makes the API server ask metrics-server for what is
// below metrics.k8s.io.
func (l *Lab) registerResourceMetrics(ctx context.Context) error {
	name, namespace, _ := strings.Cut(strings.TrimSuffix(component.MetricsServerHost, ".svc"), ".")
	api := schema.GroupVersion{Group: "metrics.k8s.io", Version: "v1beta1"}
	return l.RegisterAPI(ctx, api, namespace, name, l.cluster.Ports.MetricsServer)
}
