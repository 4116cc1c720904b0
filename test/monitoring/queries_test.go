package monitoring

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
)

const (
	chart = "../../charts/pd-orchestrator"
	// window is wider than the story is long, so that what happened in it has a rate.
	window = "15m"
)

// dashboard is what a dashboard of Grafana asks.
type dashboard struct {
	Panels []struct {
		Title   string
		Targets []struct{ RefID, Expr, LegendFormat string }
	}
	Templating struct {
		List []struct{ Name, Type, Query, AllValue string }
	}
}

// alert is one of the alerts.
type alert struct {
	Alert, Expr string
	Annotations map[string]string
}

func TestDashboardsAndAlerts(t *testing.T) {
	s := play(t)
	t.Run("dashboards", s.dashboards)
	t.Run("alerts", s.alerts)
	t.Run("an object that is gone has no series", s.gone)
	t.Run("the alert on what does not run", notRunning)
}

func (s *story) dashboards(t *testing.T) {
	files, err := filepath.Glob(chart + "/files/dashboards/*.json")
	if err != nil || len(files) < 2 {
		t.Fatalf("there are the dashboards %v (%v), want two", files, err)
	}
	for _, file := range files {
		var d dashboard
		if err := json.Unmarshal([]byte(text(t, file)), &d); err != nil {
			t.Fatal(err)
		}
		values := map[string]string{"__rate_interval": window}
		for _, v := range d.Templating.List {
			if v.Type != "query" {
				continue
			}
			t.Run(filepath.Base(file)+"/$"+v.Name, func(t *testing.T) {
				s.variable(t, replace(t, v.Query, values))
			})
			// Of All, which is what a dashboard opens with, that of the story.
			values[v.Name] = v.AllValue
			if v.Name == "namespace" {
				values[v.Name] = s.Namespace
			}
		}
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				t.Run(filepath.Base(file)+"/"+p.Title+"/"+target.RefID, func(t *testing.T) {
					series := found(t, replace(t, target.Expr, values))
					for _, label := range matches(`\{\{\s*(\w+)\s*\}\}`, target.LegendFormat) {
						if slices.ContainsFunc(series, func(one *model.Sample) bool { return one.Metric[model.LabelName(label)] == "" }) {
							t.Errorf("the legend %q names label %s, which a series of %s does not have: %v", target.LegendFormat, label, target.Expr, series)
						}
					}
					selectors(t, replace(t, target.Expr, values))
				})
			}
		}
	}
}

// variable runs what a variable of a dashboard is filled by: label_values(selector, label).
func (s *story) variable(t *testing.T, query string) {
	t.Helper()
	call := regexp.MustCompile(`^label_values\((.*), *(\w+)\)$`).FindStringSubmatch(query)
	if call == nil {
		t.Fatalf("the variable's query is %q, want label_values(selector, label)", query)
	}
	values := map[string]bool{}
	for _, one := range found(t, call[1]) {
		values[string(one.Metric[model.LabelName(call[2])])] = true
	}
	want := []string{s.Namespace}
	if call[2] == "name" {
		want = []string{"groups", "by-clock", "by-fallback", "resolved"}
	}
	for _, value := range want {
		if !values[value] {
			t.Errorf("%s has the values %v, not %q", query, values, value)
		}
	}
}

// Where all is well an alert returns nothing, so that an empty answer proves nothing. What an alert compares is a name and
// its labels that Prometheus has to know: each selector of the expression has to have series by itself, and a label that it
// sums by or tells of has to be on one of them. What the story gives reason for has to fire as well.
func (s *story) alerts(t *testing.T) {
	fires := map[string]bool{"PDOMetricReadErrors": true, "PDOAtMaximum": true, "PDOScaleDownWithoutMetrics": true, "PDOPolicyHeld": true}
	for _, rule := range alerts(t) {
		t.Run(rule.Alert, func(t *testing.T) {
			due := fires[rule.Alert]
			delete(fires, rule.Alert)
			selectors(t, rule.Expr)
			if due {
				found(t, rule.Expr)
			}
			for _, annotation := range rule.Annotations {
				for _, label := range matches(`\$labels\.(\w+)`, annotation) {
					if !slices.Contains(groupings(t, rule.Expr), label) {
						t.Errorf("%q tells of label %s, which the result of %s does not have", annotation, label, rule.Expr)
					}
				}
			}
		})
	}
	if len(fires) > 0 {
		t.Errorf("there are no alerts %v", fires)
	}
}

// gone deletes what the series of the story name, and waits until there are none.
func (s *story) gone(t *testing.T) {
	for kind, apiVersion := range map[string]string{
		"ResourceScalingGroup": "autoscaling.openfuyao.com/v1alpha1", "ElasticScaler": "elasticscaler.io/v1alpha1",
		"Tidal": "tidal.io/v1alpha1", "InferenceService": "ome.io/v1beta1",
	} {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion(apiVersion)
		u.SetKind(kind)
		if err := s.Client.DeleteAllOf(t.Context(), u, client.InNamespace(s.Namespace)); err != nil {
			t.Fatal(err)
		}
	}
	query := fmt.Sprintf(`{__name__=~"pdo_.*", namespace=%q}`, s.Namespace)
	testkit.Eventually(t, estest.Patience, "no series of "+query, func(ctx context.Context) error {
		series, err := instant(ctx, query)
		if err == nil && len(series) > 0 {
			err = fmt.Errorf("there are %v", series)
		}
		return err
	})
}

func notRunning(t *testing.T) {
	all := alerts(t)
	i := slices.IndexFunc(all, func(a alert) bool { return a.Alert == "PDOControllerNotRunning" })
	if i < 0 {
		t.Fatal("there is no such alert")
	}
	expr := all[i].Expr
	if series, err := instant(t.Context(), expr); err != nil || len(series) > 0 {
		t.Fatalf("while the manager runs there is %v (%v)", series, err)
	}
	if err := env.Manager.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, one := range found(t, expr) {
		if one.Metric["controller_component"] == "" {
			t.Errorf("the alert does not say what is down: %v", one)
		}
	}
	if err := env.Manager.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Each alert says what is wrong, and leads to a heading that exists.
func TestAlertsLeadToTheirRunbook(t *testing.T) {
	const pages = "https://github.com/pd-orchestrator/pd-orchestrator/blob/main/"
	for _, a := range alerts(t) {
		for _, name := range []string{"summary", "description", "runbook_url"} {
			if a.Annotations[name] == "" {
				t.Errorf("%s has no %s", a.Alert, name)
			}
		}
		page, anchor, _ := strings.Cut(strings.TrimPrefix(a.Annotations["runbook_url"], pages), "#")
		if anchor != strings.ToLower(a.Alert) || !regexp.MustCompile(`(?m)^#+ `+a.Alert+`$`).MatchString(text(t, "../../"+page)) {
			t.Errorf("the runbook of %s is %s, which is no heading of its name", a.Alert, a.Annotations["runbook_url"])
		}
	}
}

// What the lab's Prometheus does with a manager is what the chart asks the operator of Prometheus for: without these two
// settings the queries above would find nothing on a cluster.
func TestTheChartScrapesAsTheLabDoes(t *testing.T) {
	monitor, _, _ := strings.Cut(text(t, chart+"/templates/monitoring.yaml"), "podMonitor.enabled")
	for _, setting := range []string{"honorLabels: true", "targetLabel: controller_component"} {
		if !strings.Contains(monitor, setting) {
			t.Errorf("the ServiceMonitor has no %s", setting)
		}
	}
}

func alerts(t *testing.T) []alert {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []alert }
	}
	if err := yaml.Unmarshal([]byte(text(t, chart+"/files/alerts.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	var all []alert
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("there are no alerts")
	}
	return all
}

// found waits until a query has a finite value, and returns the series.
func found(tb testing.TB, query string) model.Vector {
	tb.Helper()
	var series model.Vector
	testkit.Eventually(tb, estest.Patience, "a series of "+query, func(ctx context.Context) (err error) {
		series, err = instant(ctx, query)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(series, func(one *model.Sample) bool {
			return !math.IsNaN(float64(one.Value)) && !math.IsInf(float64(one.Value), 0)
		}) {
			return fmt.Errorf("there are %v", series)
		}
		return nil
	})
	return series
}

// instant asks the lab's Prometheus.
func instant(ctx context.Context, query string) (model.Vector, error) {
	c, err := api.NewClient(api.Config{Address: env.Lab.PrometheusURL()})
	if err != nil {
		return nil, err
	}
	value, _, _, err := promv1.NewAPI(c).Query(ctx, query, time.Now())
	if err != nil {
		return nil, fmt.Errorf("asking for %s: %w", query, err)
	}
	series, ok := value.(model.Vector)
	if !ok {
		return nil, fmt.Errorf("%s is a %s, want a vector", query, value.Type())
	}
	return series, nil
}

// selectors fails unless each selector of a query has series by itself, and each label that the query groups by is on one of
// them.
func selectors(t *testing.T, query string) {
	t.Helper()
	labels := map[string]bool{}
	inspect(t, query, func(node parser.Node) {
		if selector, ok := node.(*parser.VectorSelector); ok {
			// Without offset and range, and with the name among the matchers.
			for _, one := range found(t, (&parser.VectorSelector{LabelMatchers: selector.LabelMatchers}).String()) {
				for label := range one.Metric {
					labels[string(label)] = true
				}
			}
		}
	})
	for _, label := range groupings(t, query) {
		if !labels[label] {
			t.Errorf("%s groups by label %s, which none of its series has", query, label)
		}
	}
}

// groupings are the labels that a query groups by.
func groupings(t *testing.T, query string) []string {
	t.Helper()
	var labels []string
	inspect(t, query, func(node parser.Node) {
		if e, ok := node.(*parser.AggregateExpr); ok && !e.Without {
			labels = append(labels, e.Grouping...)
		}
	})
	return labels
}

func inspect(t *testing.T, query string, visit func(parser.Node)) {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		t.Fatalf("%s does not parse: %v", query, err)
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		visit(node)
		return nil
	})
}

// replace puts the values of variables into a query of a dashboard.
func replace(t *testing.T, query string, values map[string]string) string {
	t.Helper()
	return regexp.MustCompile(`\$(\w+)`).ReplaceAllStringFunc(query, func(variable string) string {
		value, ok := values[variable[1:]]
		if !ok {
			t.Fatalf("%s has the variable %s, which the dashboard does not have", query, variable)
		}
		return value
	})
}

// matches returns what the group of an expression finds in a text.
func matches(expression, in string) []string {
	var all []string
	for _, match := range regexp.MustCompile(expression).FindAllStringSubmatch(in, -1) {
		all = append(all, match[1])
	}
	return all
}

func text(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
