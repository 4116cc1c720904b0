package component

import (
	"fmt"
	"time"
)

// Prometheus discovers the pods in the API server and scrapes them at the
// simulator, and scrapes the product's managers at their own addresses.
func (c Cluster) Prometheus() Component {
	config := File{Path: c.Config("prometheus.yaml"), Content: c.prometheusConfig()}
	return Component{
		Name:   PrometheusName,
		Binary: c.Binaries["prometheus"],
		Args: []string{
			"--config.file=" + config.Path,
			"--storage.tsdb.path=" + c.Data(PrometheusName),
			"--storage.tsdb.retention.time=1d",
			fmt.Sprintf("--web.listen-address=%s:%d", loopback, c.Ports.Prometheus),
			"--query.lookback-delta=" + promDuration(c.Tuning.LookbackDelta),
			// New pods are to be scraped within a second or two.
			"--scrape.discovery-reload-interval=1s",
			"--log.level=warn",
		},
		Files:       []File{config},
		ReadyURL:    fmt.Sprintf("http://%s:%d/-/ready", loopback, c.Ports.Prometheus),
		After:       []string{APIServerName},
		StopTimeout: stopTimeout,
	}
}

// ManagerTarget returns the file that tells Prometheus of the manager whose
// metrics are at an address. It has the labels that the operator of Prometheus
// and the chart's ServiceMonitor give the pods of a component; "all" is a
// component here.
func (c Cluster) ManagerTarget(part, address, component, namespace string) File {
	return File{Path: c.Config(managerTargets + part + ".json"), Content: fmt.Sprintf(
		`[{"targets": [%q], "labels": {"controller_component": %q, "namespace": %q, "pod": %q, "container": "manager", "endpoint": "metrics"}}]`+"\n",
		address, component, namespace, part)}
}

// managerTargets begins the names of files that ManagerTarget returns.
const managerTargets = "scrape-"

// prometheusConfig scrapes every running pod that declares a port, and the
// managers.
//
// Discovery yields one target per declared port. All targets of a pod are
// relabelled to the same address and parameters, and Prometheus scrapes equal
// targets once; so the port is passed on only where the pod's annotation names
// one, and the simulator answers for the pod otherwise.
func (c Cluster) prometheusConfig() string {
	interval := promDuration(c.Tuning.ScrapeInterval)
	return fmt.Sprintf(`global:
  scrape_interval: %[1]s
  scrape_timeout: %[1]s
  evaluation_interval: %[1]s
scrape_configs:
- job_name: pods
  metrics_path: /metrics
  fallback_scrape_protocol: PrometheusText0.0.4
  kubernetes_sd_configs:
  - role: pod
    kubeconfig_file: %[2]q
  relabel_configs:
  - source_labels: [__meta_kubernetes_pod_phase]
    regex: Running
    action: keep
  - source_labels: [__meta_kubernetes_pod_container_init]
    regex: "true"
    action: drop
  - source_labels: [__meta_kubernetes_pod_container_port_number, __meta_kubernetes_pod_annotation_prometheus_io_port]
    regex: ;
    action: drop
  - source_labels: [__meta_kubernetes_pod_ip]
    regex: 10\.1\.\d+\.\d+
    action: keep
  - source_labels: [__meta_kubernetes_pod_ip]
    regex: 10\.(1\.\d+\.\d+)
    target_label: __address__
    replacement: 127.${1}:%[3]d
  - source_labels: [__meta_kubernetes_pod_annotation_prometheus_io_port]
    regex: (.+)
    target_label: __param_port
  - source_labels: [__meta_kubernetes_pod_ip]
    target_label: instance
  - source_labels: [__meta_kubernetes_namespace]
    target_label: namespace
  - source_labels: [__meta_kubernetes_pod_name]
    target_label: pod
  - target_label: group_id
    replacement: "0"
  - source_labels: [__meta_kubernetes_pod_label_rsg_io_group_id]
    regex: (.+)
    target_label: group_id
  - source_labels: [__meta_kubernetes_pod_label_rsg_io_name]
    target_label: rsg_name
  - source_labels: [__meta_kubernetes_pod_label_ome_io_inferenceservice]
    target_label: inferenceservice
  - source_labels: [__meta_kubernetes_pod_label_component]
    target_label: component
- job_name: managers
  # What a manager says of an object has the object's namespace, and not that of
  # the manager's pod.
  honor_labels: true
  file_sd_configs:
  - files: [%[4]q]
`, interval, c.Kubeconfig(PrometheusName), c.Ports.Simulator, c.Config(managerTargets+"*.json"))
}

// promDuration writes a duration in whole milliseconds: Prometheus does not
// read "1m0s" or fractions.
func promDuration(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }
