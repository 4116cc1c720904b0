package component

import (
	"fmt"
	"time"
)

// CustomMetricsHost is the name for which the server of custom metrics has a
// certificate.
const CustomMetricsHost = "custom-metrics.kube-system.svc"

// customMetricsRelist is how often the server looks for new names of metrics.
// Values are always asked for anew.
const customMetricsRelist = 2 * time.Second

// customMetricsMaxAge is for how long a name is known after its last series.
const customMetricsMaxAge = time.Minute

// CustomMetricsServer serves what Prometheus has on pods as
// custom.metrics.k8s.io and external.metrics.k8s.io.
func (c Cluster) CustomMetricsServer() Component {
	kubeconfig := c.Kubeconfig(CustomMetricsName)
	rules := File{Path: c.Config("custom-metrics.yaml"), Content: customMetricsConfig}
	return Component{
		Name:   CustomMetricsName,
		Binary: c.Binaries["prometheus-adapter"],
		Args: []string{
			"--lister-kubeconfig=" + kubeconfig,
			"--authentication-kubeconfig=" + kubeconfig,
			"--authorization-kubeconfig=" + kubeconfig,
			"--bind-address=" + loopback,
			fmt.Sprintf("--secure-port=%d", c.Ports.CustomMetrics),
			"--tls-cert-file=" + c.PKI("custom-metrics.crt"),
			"--tls-private-key-file=" + c.PKI("custom-metrics.key"),
			fmt.Sprintf("--prometheus-url=http://%s:%d", loopback, c.Ports.Prometheus),
			"--config=" + rules.Path,
			fmt.Sprintf("--metrics-relist-interval=%s", customMetricsRelist),
			fmt.Sprintf("--metrics-max-age=%s", customMetricsMaxAge),
			fmt.Sprintf("--client-qps=%g", c.Tuning.ControllerQPS),
			fmt.Sprintf("--client-burst=%d", c.Tuning.ControllerBurst),
		},
		Files:       []File{rules},
		ReadyURL:    fmt.Sprintf("https://%s:%d/readyz", loopback, c.Ports.CustomMetrics),
		After:       []string{APIServerName, PrometheusName},
		StopTimeout: stopTimeout,
	}
}

// customMetricsConfig gives gauges by their own names and counters as rates,
// both per pod, per namespace, and as external metrics. Histograms are left
// out: one number would not do them justice.
const customMetricsConfig = `rules:
- seriesQuery: &gauges '{job="pods",namespace!="",pod!="",__name__!~"up|scrape_.*|.*_(total|bucket|sum|count|created)"}'
  resources: &resources
    overrides:
      namespace: {resource: namespace}
      pod: {resource: pod}
  metricsQuery: sum by (<<.GroupBy>>) (<<.Series>>{<<.LabelMatchers>>})
- seriesQuery: &counters '{job="pods",namespace!="",pod!="",__name__=~".*_total"}'
  resources: *resources
  name: &perSecond
    matches: ^(.*)_total$
    as: ${1}_per_second
  metricsQuery: sum by (<<.GroupBy>>) (rate(<<.Series>>{<<.LabelMatchers>>}[30s]))
externalRules:
- seriesQuery: *gauges
  resources: &namespaced
    overrides:
      namespace: {resource: namespace}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>})
- seriesQuery: *counters
  resources: *namespaced
  name: *perSecond
  metricsQuery: sum(rate(<<.Series>>{<<.LabelMatchers>>}[30s]))
`
