package estest

import (
	"context"
	"fmt"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Series returns the sum of those series of a gauge or counter of the manager that have all the labels, and whether there
// are any.
func (e *Env) Series(ctx context.Context, name string, labels map[string]string) (sum float64, found bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.MetricsURL, nil)
	if err != nil {
		return 0, false, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, false, fmt.Errorf("reading the manager's metrics: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		return 0, false, fmt.Errorf("parsing the manager's metrics: %w", err)
	}
	for _, m := range families[name].GetMetric() {
		if hasLabels(m, labels) {
			sum, found = sum+m.GetCounter().GetValue()+m.GetGauge().GetValue(), true
		}
	}
	return sum, found, nil
}

func hasLabels(m *dto.Metric, labels map[string]string) bool {
	matched := 0
	for _, pair := range m.GetLabel() {
		if value, ok := labels[pair.GetName()]; ok && value == pair.GetValue() {
			matched++
		}
	}
	return matched == len(labels)
}
