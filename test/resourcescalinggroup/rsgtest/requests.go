package rsgtest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Request is what the API server's own counter of requests, apiserver_request_total, tells requests apart by.
type Request struct{ Verb, Resource, Subresource string }

func (r Request) String() string {
	return strings.TrimSuffix(r.Verb+" "+r.Resource+"/"+r.Subresource, "/")
}

// IsWrite reports whether the request changes something.
func (r Request) IsWrite() bool { return !slices.Contains([]string{"GET", "LIST", "WATCH"}, r.Verb) }

// Requests returns how many requests of each sort the API server has had since it was started.
func (e *Env) Requests(ctx context.Context) (map[Request]int, error) {
	stream, err := e.Kubernetes.Discovery().RESTClient().Get().AbsPath("/metrics").Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the API server's metrics: %w", err)
	}
	defer func() { _ = stream.Close() }()
	families, err := parseMetrics(stream)
	if err != nil {
		return nil, err
	}
	family := families["apiserver_request_total"]
	if family == nil {
		return nil, fmt.Errorf("the API server has no apiserver_request_total")
	}
	out := map[Request]int{}
	for _, metric := range family.Metric {
		labels := map[string]string{}
		for _, pair := range metric.Label {
			labels[pair.GetName()] = pair.GetValue()
		}
		out[Request{labels["verb"], labels["resource"], labels["subresource"]}] += int(metric.GetCounter().GetValue())
	}
	return out, nil
}

// RequestsBetween returns what came between two answers of Requests, of the sorts that keep accepts.
func RequestsBetween(before, after map[Request]int, keep func(Request) bool) map[Request]int {
	out := map[Request]int{}
	for r, n := range after {
		if n -= before[r]; n != 0 && keep(r) {
			out[r] = n
		}
	}
	return out
}

// Total sums up counters and gauges of the manager's own metrics, over all their labels.
func (m *Manager) Total(ctx context.Context, names ...string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.MetricsURL, nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, fmt.Errorf("reading the manager's metrics: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	families, err := parseMetrics(resp.Body)
	if err != nil {
		return 0, err
	}
	total := 0.0
	for _, name := range names {
		for _, metric := range families[name].GetMetric() {
			total += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	return total, nil
}

func parseMetrics(text io.Reader) (map[string]*dto.MetricFamily, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return nil, fmt.Errorf("parsing metrics: %w", err)
	}
	return families, nil
}
