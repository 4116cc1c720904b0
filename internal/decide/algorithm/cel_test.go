package algorithm

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

func newTestCEL(t testing.TB) *celAlgorithm {
	t.Helper()
	c, err := newCEL()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCELComputesTheCount(t *testing.T) {
	c := newTestCEL(t)
	in := scaling.Input{
		Now: now, CurrentReplicas: 4, MinReplicas: 1, MaxReplicas: 20, Window: 30 * time.Second,
		Metrics: []scaling.Metric{metric("qps", 4, 99, 3, 5), metric("vllm:waiting", 4, 2), metric("gone", 4)},
	}
	for expression, want := range map[string]int32{
		"7":                                     7,
		"7.2":                                   8,
		"replicas * 2":                          8,
		"double(replicas) * 0.8":                4,
		"min + max":                             21,
		"metrics.qps.value / 100.0":             5,
		"metrics.qps.load":                      5,
		"metrics.qps.base":                      4,
		"metrics.qps.average / 100.0":           4,
		"metrics.qps.averageLoad":               4,
		"metrics.qps.target":                    100,
		`metrics["vllm:waiting"].load`:          2,
		`"gone" in metrics ? 1 : 2`:             2,
		"has(metrics.gone) ? 1 : 3":             3,
		"has(metrics.qps) ? 1 : 3":              1,
		"metrics.qps.load > 4 ? replicas : min": 4,
		"math.greatest(metrics.qps.load, metrics['vllm:waiting'].load * 4.0)": 8,
		"math.least(replicas + 1, max)":                                       5,
		"now.getHours('Asia/Shanghai') == 20 ? 6 : 1":                         6,
		"metrics.map(m, metrics[m].load).exists(l, l > 4.5) ? 9 : 1":          9,
		"size(metrics)": 2,
		"1e300":         2147483647,
	} {
		t.Run(expression, func(t *testing.T) {
			in := in
			in.Config = map[string]string{"expression": expression}
			for _, err := range c.Validate(in.Config, infos(in.Metrics)) {
				t.Errorf("validation: %v", err)
			}
			r := calculate(t, c, in)
			if r.Replicas != want {
				t.Errorf("got %d, want %d", r.Replicas, want)
			}
		})
	}
}

func TestExpressionsOfTheDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../../docs/scaling-decision.md")
	if err != nil {
		t.Fatal(err)
	}
	c := newTestCEL(t)
	metrics := []scaling.MetricInfo{{Name: "qps"}, {Name: "queue"}, {Name: "gpu"}}
	found, fenced := 0, false
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if expression, indented := strings.CutPrefix(strings.TrimRight(line, "\n"), "    "); indented && !fenced {
			found++
			for _, err := range c.Validate(map[string]string{"expression": expression}, metrics) {
				t.Errorf("%s: %v", expression, err)
			}
		}
	}
	if found < 3 {
		t.Errorf("%d expressions were found, want the three of the page", found)
	}
}

func infos(metrics []scaling.Metric) []scaling.MetricInfo {
	var out []scaling.MetricInfo
	for _, m := range metrics {
		out = append(out, m.MetricInfo)
	}
	return out
}

func TestCELRefusesAtAdmission(t *testing.T) {
	c := newTestCEL(t)
	metrics := []scaling.MetricInfo{{Name: "qps"}, {Name: "cpu"}}
	loops := "metrics.all(a, metrics.all(b, metrics.all(c, metrics.all(d, a + b + c != d)))) ? 1 : 2"
	for expression, want := range map[string]string{
		"":                     "expression must be set",
		"replicas +":           "expression is no valid CEL expression",
		"replica":              "line 1, column 1: undeclared reference to 'replica'",
		"metrics.qps.vale":     "undefined field 'vale'",
		"metrics.qps":          "must give an int or a double",
		"'five'":               "must give an int or a double, and gives string",
		"true":                 "must give an int or a double, and gives bool",
		"dyn(5)":               "must give an int or a double, and gives dyn",
		"5u":                   "must give an int or a double, and gives uint",
		"replicas * 1.5":       "found no matching overload for '_*_'",
		"metrics.qpss.value":   `uses metric "qpss", which is none of the metrics qps, cpu`,
		"metrics['x'].value":   `uses metric "x", which is none`,
		"'x' in metrics?1:2":   `uses metric "x", which is none`,
		"has(metrics.x)?1:2":   `uses metric "x", which is none`,
		loops:                  "may cost too much",
		"1" + nested(70, "+1"): "expression",
		strings.Repeat("1+", maxExpression) + "1": "expression",
	} {
		t.Run(expression[:min(len(expression), 40)], func(t *testing.T) {
			errs := c.Validate(map[string]string{"expression": expression}, metrics)
			if len(errs) != 1 || !strings.Contains(errs[0].Error(), want) {
				t.Errorf("got %v, want one error with %q", errs, want)
			}
		})
	}
	for _, junk := range []string{strings.Repeat("@#$ ", 1000), strings.Repeat("has(a.b)&&", 400) + "true ? 1 : 2"} {
		errs := c.Validate(map[string]string{"expression": junk}, metrics)
		if len(errs) != 1 || len(errs[0].Error()) > 1000 || !strings.Contains(errs[0].Error(), "more") {
			t.Errorf("an expression full of errors gives %d errors; want one that names the first few: %.2000s", len(errs), errs)
		}
	}
	errs := c.Validate(map[string]string{"expression": "1"}, []scaling.MetricInfo{{Name: "a"}, {Name: "a"}})
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), `"a" is the name of several`) {
		t.Errorf("two metrics of one name give %v", errs)
	}
}

// nested puts an expression into parentheses.
func nested(n int, s string) string {
	for range n {
		s = "+(1" + s + ")"
	}
	return s
}

func TestCELFailsWithWords(t *testing.T) {
	c := newTestCEL(t)
	for expression, want := range map[string]string{
		"metrics.gone.value":        `needs metric "gone", which has no value now`,
		"metrics['gone'].value":     `needs metric "gone", which has no value now`,
		"1 / (replicas - replicas)": "division by zero",
		"0.0 / 0.0":                 "gave NaN, which is no count",
		"1.0 / 0.0":                 "gave +Inf, which is no count",
		"replicas - 10":             "gave -6, which is no count: it must be finite and 0 or more",
		"9223372036854775807 + 1":   "overflow",
	} {
		t.Run(expression, func(t *testing.T) {
			in := scaling.Input{Now: now, CurrentReplicas: 4, Config: map[string]string{"expression": expression}, Metrics: []scaling.Metric{metric("qps", 4, 1), metric("gone", 4)}}
			r, err := c.CalculateDesiredReplicas(context.Background(), in)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %d, %v; want an error with %q", r.Replicas, err, want)
			}
		})
	}
}

func TestCELEndsWithItsContext(t *testing.T) {
	c := newTestCEL(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var many []scaling.Metric
	for i := range 100 {
		many = append(many, metric(fmt.Sprint("m", i), 4, 1))
	}
	in := scaling.Input{Now: now, CurrentReplicas: 4, Metrics: many, Config: map[string]string{"expression": "metrics.all(a, metrics.all(b, replicas > 0)) ? 1 : 2"}}
	if _, err := c.CalculateDesiredReplicas(ctx, in); err == nil {
		t.Error("an evaluation whose context has ended gives a count, want an error")
	}
	if r := calculate(t, c, in); r.Replicas != 1 {
		t.Errorf("the same with time gives %d, want 1", r.Replicas)
	}
}

func TestCELKeepsPrograms(t *testing.T) {
	c := newTestCEL(t)
	in := scaling.Input{Now: now, CurrentReplicas: 4, Config: map[string]string{"expression": "replicas"}, Metrics: []scaling.Metric{metric("qps", 4, 1)}}
	first := calculate(t, c, in).State
	if again := calculate(t, c, in).State; again != first {
		t.Error("another scaler with the same expression gets a program of its own")
	}
	for i := range programsKept {
		in.Config = map[string]string{"expression": fmt.Sprint("replicas + ", i)}
		calculate(t, c, in)
	}
	if n := c.programs.Len(); n != programsKept {
		t.Errorf("%d programs are kept, want %d", n, programsKept)
	}
	// The state of the scaler keeps its program even then.
	in.Config, in.State = map[string]string{"expression": "replicas"}, first
	if again := calculate(t, c, in).State; again != first {
		t.Error("a scaler has lost its program to others")
	}
	in.Config = map[string]string{"expression": "replicas + 1"}
	if r := calculate(t, c, in); r.Replicas != 5 {
		t.Errorf("with another expression the old program gave %d, want 5", r.Replicas)
	}
}

func FuzzCEL(f *testing.F) {
	c := newTestCEL(f)
	for _, s := range []string{"metrics.a.value", "has(metrics.a) ? 1 : 2", "math.greatest(replicas, 3)", "now.getHours()", "metrics.map(x, metrics[x].load)[0]", "'\x00'", "((("} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		config := map[string]string{"expression": expression}
		refused := len(c.Validate(config, []scaling.MetricInfo{{Name: "a"}})) > 0
		r, err := c.CalculateDesiredReplicas(context.Background(), scaling.Input{Now: now, CurrentReplicas: 4, Config: config, Metrics: []scaling.Metric{metric("a", 4, 1)}})
		if err == nil && r.Replicas < 0 {
			t.Fatalf("%q gave %d", expression, r.Replicas)
		}
		if err == nil && refused && !strings.Contains(expression, "metrics") {
			t.Fatalf("%q is refused at admission, and gives %d", expression, r.Replicas)
		}
	})
}
