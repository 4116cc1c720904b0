package component

import (
	"fmt"
	"time"
)

// What each simulated pod uses is set by these annotations on it, as
// Kubernetes quantities. They hold for each of its containers.
const (
	CPUAnnotation    = "lab.pd-orchestrator.io/cpu"
	MemoryAnnotation = "lab.pd-orchestrator.io/memory"
)

// MetricsServerHost is the name for which metrics-server has a certificate: the
// aggregator asks for that of the Service, also where it leads to localhost.
const MetricsServerHost = "metrics-server.kube-system.svc"

// metricResolution is how often metrics-server reads the usage of the nodes:
// the shortest interval that it takes.
const metricResolution = 10 * time.Second

// resourceMetricsPath is where kwok serves what the kubelet of a node would
// serve at /metrics/resource.
const resourceMetricsPath = "/metrics/nodes/%s/metrics/resource"

// ResourceMetricsPathAnnotation tells metrics-server the path at which it finds
// a node's usage.
const ResourceMetricsPathAnnotation = "metrics.k8s.io/resource-metrics-path"

// ResourceMetricsPath returns the value of that annotation for a node.
func ResourceMetricsPath(node string) string { return fmt.Sprintf(resourceMetricsPath, node) }

// MetricsServer serves the simulated usage of pods and nodes as
// metrics.k8s.io.
func (c Cluster) MetricsServer() Component {
	kubeconfig := c.Kubeconfig(MetricsServerName)
	return Component{
		Name:   MetricsServerName,
		Binary: c.Binaries["metrics-server"],
		Args: []string{
			"--kubeconfig=" + kubeconfig,
			"--authentication-kubeconfig=" + kubeconfig,
			"--authorization-kubeconfig=" + kubeconfig,
			"--bind-address=" + loopback,
			fmt.Sprintf("--secure-port=%d", c.Ports.MetricsServer),
			"--tls-cert-file=" + c.PKI("metrics-server.crt"),
			"--tls-private-key-file=" + c.PKI("metrics-server.key"),
			"--kubelet-certificate-authority=" + c.PKI("ca.crt"),
			"--kubelet-preferred-address-types=InternalIP",
			// kwok answers for all kubelets.
			fmt.Sprintf("--kubelet-port=%d", c.Ports.Kwok),
			"--kubelet-request-timeout=5s",
			fmt.Sprintf("--metric-resolution=%s", metricResolution),
		},
		// Not /readyz, which waits for usage, and so for two rounds and a pod.
		ReadyURL:    fmt.Sprintf("https://%s:%d/livez", loopback, c.Ports.MetricsServer),
		After:       []string{APIServerName, KwokName},
		StopTimeout: stopTimeout,
	}
}

// usageConfig makes kwok simulate the usage of pods and serve it as kubelets
// do.
//
// metrics-server skips a container whose counter is at zero. The counters
// start a little above it, so that usage is known after two rounds, not three.
func usageConfig() string {
	return fmt.Sprintf(`apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterResourceUsage
metadata:
  name: annotations
spec:
  usages:
  - usage:
      cpu:
        expression: |
          %[1]q in pod.metadata.annotations ? Quantity(pod.metadata.annotations[%[1]q]) : Quantity("1m")
      memory:
        expression: |
          %[2]q in pod.metadata.annotations ? Quantity(pod.metadata.annotations[%[2]q]) : Quantity("1Mi")
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Metric
metadata:
  name: resource
spec:
  path: %[3]q
  metrics:
  - name: container_cpu_usage_seconds_total
    dimension: container
    kind: counter
    labels:
    - {name: container, value: container.name}
    - {name: namespace, value: pod.metadata.namespace}
    - {name: pod, value: pod.metadata.name}
    value: pod.CumulativeUsage("cpu", container.name) + 0.001
  - name: container_memory_working_set_bytes
    dimension: container
    kind: gauge
    labels:
    - {name: container, value: container.name}
    - {name: namespace, value: pod.metadata.namespace}
    - {name: pod, value: pod.metadata.name}
    value: pod.Usage("memory", container.name)
  - name: node_cpu_usage_seconds_total
    dimension: node
    kind: counter
    value: node.CumulativeUsage("cpu") + 0.001
  - name: node_memory_working_set_bytes
    dimension: node
    kind: gauge
    value: node.Usage("memory")
`, CPUAnnotation, MemoryAnnotation, fmt.Sprintf(resourceMetricsPath, "{nodeName}"))
}
