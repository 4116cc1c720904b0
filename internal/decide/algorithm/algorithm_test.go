package algorithm

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

var now = time.Date(2026, 6, 15, 12, 0, 0, 0, time.UTC)

// samples are loads that are 15 s apart, the last of which is the present one.
func samples(base float64, loads ...float64) []scaling.Sample {
	var out []scaling.Sample
	for i, load := range loads {
		at := now.Add(-time.Duration(len(loads)-1-i) * 15 * time.Second)
		out = append(out, scaling.Sample{Time: at, Value: load * 100, Load: load, Base: base})
	}
	return out
}

func metric(name string, base float64, loads ...float64) scaling.Metric {
	return scaling.Metric{MetricInfo: scaling.MetricInfo{Name: name}, Target: 100, Samples: samples(base, loads...), Missing: len(loads) == 0}
}

func calculate(t testing.TB, a scaling.ScalingAlgorithm, in scaling.Input) scaling.Result {
	t.Helper()
	if in.Now.IsZero() {
		in.Now = now
	}
	r, err := a.CalculateDesiredReplicas(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func proposals(r scaling.Result) string {
	var out []string
	for _, p := range r.PerMetric {
		if p == nil {
			out = append(out, "none")
		} else {
			out = append(out, fmt.Sprint(*p))
		}
	}
	return strings.Join(out, " ")
}

func steps(r scaling.Result) string {
	var out []string
	for _, s := range r.Steps {
		out = append(out, fmt.Sprintf("%s %d>%d %s", s.Name, s.From, s.To, s.Reason))
	}
	return strings.Join(out, ", ")
}

func TestRoundingForgivesFloatingPoint(t *testing.T) {
	for name, tc := range map[string]struct {
		got, want int32
	}{
		"three at a third of 100 each": {ceil(3 * (100.0 / 3)), 100},
		"0.07 times 100":               {ceil(0.07 * 100), 7},
		"a tenth too much":             {ceil(7.1), 8},
		"a thousandth too much":        {ceil(7.001), 8},
		"nothing":                      {ceil(0), 0},
		"next to nothing":              {ceil(0.01), 1},
		"down, a whole number missed":  {floor(2.9999999999), 3},
		"down":                         {floor(2.99), 2},
		"NaN":                          {ceil(math.NaN()), 0},
		"infinite":                     {ceil(math.Inf(1)), math.MaxInt32},
		"minus infinite":               {floor(math.Inf(-1)), 0},
		"huge":                         {ceil(1e300), math.MaxInt32},
		"negative":                     {ceil(-5), 0},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: got %d, want %d", name, tc.got, tc.want)
		}
	}
}

func TestAPA(t *testing.T) {
	cases := map[string]struct {
		current  int32
		window   time.Duration
		config   map[string]string
		up, down *float64
		metrics  []scaling.Metric
		want     int32
		steps    string
	}{
		"above the tolerance":                       {current: 10, metrics: []scaling.Metric{metric("a", 10, 11.2)}, want: 12},
		"at the upper edge of the tolerance":        {current: 10, metrics: []scaling.Metric{metric("a", 10, 11)}, want: 10, steps: "Tolerance 11>10 WithinTolerance"},
		"at the lower edge of the tolerance":        {current: 10, metrics: []scaling.Metric{metric("a", 10, 9)}, want: 10, steps: "Tolerance 9>10 WithinTolerance"},
		"below the tolerance":                       {current: 10, metrics: []scaling.Metric{metric("a", 10, 8.2)}, want: 9},
		"doubled at most":                           {current: 3, metrics: []scaling.Metric{metric("a", 3, 40)}, want: 6, steps: "AlgorithmRate 40>6 ScaleUpLimit"},
		"halved at most, rounded down":              {current: 5, metrics: []scaling.Metric{metric("a", 5, 0.5)}, want: 2, steps: "AlgorithmRate 1>2 ScaleDownLimit"},
		"1 goes to 0":                               {current: 1, metrics: []scaling.Metric{metric("a", 1, 0)}, want: 0},
		"from 0 no rate applies":                    {current: 0, metrics: []scaling.Metric{metric("a", 0, 40)}, want: 40},
		"from 0 no tolerance applies":               {current: 0, metrics: []scaling.Metric{metric("a", 0, 0.05)}, want: 1},
		"from 0 without load":                       {current: 0, metrics: []scaling.Metric{metric("a", 0, 0)}, want: 0},
		"the mean of the window":                    {current: 10, window: 45 * time.Second, metrics: []scaling.Metric{metric("a", 10, 99, 10, 14, 18)}, want: 14},
		"a window of 0 is the newest only":          {current: 10, metrics: []scaling.Metric{metric("a", 10, 99, 10, 14, 18)}, want: 18},
		"the newest counts even if it is old":       {current: 10, metrics: []scaling.Metric{{Samples: []scaling.Sample{{Time: now.Add(-time.Hour), Load: 14, Base: 10}}}}, want: 14},
		"the highest proposal wins":                 {current: 10, metrics: []scaling.Metric{metric("a", 10, 5), metric("b", 10, 14), metric("c", 10, 12)}, want: 14},
		"a missing metric proposes nothing":         {current: 10, metrics: []scaling.Metric{metric("a", 10, 5), metric("b", 10)}, want: 5},
		"few carry the load: not below the present": {current: 10, metrics: []scaling.Metric{metric("a", 4, 6)}, want: 10, steps: "PresentCapacity 6>10 MetricAboveTarget"},
		"many carry the load: not above the present": {
			current: 10, metrics: []scaling.Metric{metric("a", 20, 12)}, want: 10, steps: "PresentCapacity 12>10 MetricBelowTarget",
		},
		"surge pods at the same load": {current: 10, metrics: []scaling.Metric{metric("a", 13, 10)}, want: 10},
		"settings": {
			current: 10, config: map[string]string{"upTolerance": "0", "maxScaleUpRate": "1.1"}, metrics: []scaling.Metric{metric("a", 10, 15)}, want: 11, steps: "AlgorithmRate 15>11 ScaleUpLimit",
		},
		"a slow rate of few replicas does not shrink them": {
			current: 2, config: map[string]string{"maxScaleUpRate": "1"}, metrics: []scaling.Metric{metric("a", 2, 15)}, want: 2, steps: "AlgorithmRate 15>2 ScaleUpLimit",
		},
		"tolerances of the behavior": {
			current: 10, config: map[string]string{"upTolerance": "0.5", "downTolerance": "0.5"}, up: new(0.05), down: new(0.05), metrics: []scaling.Metric{metric("a", 10, 10.6)}, want: 11,
		},
		"replicas at the target that nothing carried": {current: 4, metrics: []scaling.Metric{metric("a", 0, 6)}, want: 6},
		"a ratio to the target without a base":        {current: 4, metrics: []scaling.Metric{metric("a", 0, 4.2)}, want: 4, steps: "Tolerance 5>4 WithinTolerance"},
		"a huge load":                                 {current: 10, config: map[string]string{"maxScaleUpRate": "2147483647"}, metrics: []scaling.Metric{metric("a", 10, 1e300)}, want: math.MaxInt32},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := calculate(t, apa{}, scaling.Input{
				CurrentReplicas: tc.current, Window: tc.window, Config: tc.config, UpTolerance: tc.up, DownTolerance: tc.down, Metrics: tc.metrics,
			})
			if r.Replicas != tc.want || steps(r) != tc.steps {
				t.Errorf("got %d with steps %q (%s), want %d with steps %q", r.Replicas, steps(r), proposals(r), tc.want, tc.steps)
			}
		})
	}
}

func TestProposalsOfEachMetric(t *testing.T) {
	in := scaling.Input{CurrentReplicas: 10, Metrics: []scaling.Metric{metric("a", 10, 6), metric("b", 10), metric("c", 10, 14)}, Window: time.Minute}
	for _, a := range []scaling.ScalingAlgorithm{apa{}, kpa{}} {
		if got := proposals(calculate(t, a, in)); got != "6 none 14" && got != "10 none 14" {
			t.Errorf("%s: the metrics propose %s, want 6 none 14, or what holds", a.Name(), got)
		}
	}
}

func TestSettingsThatCannotBeUsed(t *testing.T) {
	c, err := newCEL()
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		algorithm scaling.Validator
		config    map[string]string
		errs      []string
	}{
		"APA without settings": {apa{}, nil, nil},
		"APA with all settings": {
			apa{}, map[string]string{"upTolerance": "0.2", "downTolerance": " 0 ", "maxScaleUpRate": "3", "maxScaleDownRate": "1"}, nil,
		},
		"APA with bad settings": {
			apa{}, map[string]string{"upTolerance": "-0.1", "downTolerance": "1.5", "maxScaleUpRate": "0.5", "maxScaleDownRate": "NaN"},
			[]string{
				`upTolerance must be a number from 0 to 1000, and is "-0.1"`, `downTolerance must be a number from 0 to 1, and is "1.5"`,
				`maxScaleUpRate must be a number from 1 to 2147483647, and is "0.5"`, `maxScaleDownRate must be a number from 1 to 2147483647, and is "NaN"`,
			},
		},
		"APA with a word":      {apa{}, map[string]string{"upTolerance": "some"}, []string{`upTolerance must be a number from 0 to 1000, and is "some"`}},
		"APA with infinity":    {apa{}, map[string]string{"maxScaleUpRate": "Inf"}, []string{`maxScaleUpRate must be a number from 1 to 2147483647, and is "Inf"`}},
		"KPA without settings": {kpa{}, nil, nil},
		"KPA with bad settings": {
			kpa{}, map[string]string{"stableWindowSeconds": "5", "panicWindowPercentage": "0", "panicThresholdPercentage": "100", "maxScaleUpRate": "1", "maxScaleDownRate": "1"},
			[]string{
				`stableWindowSeconds must be a number from 6 to 3600, and is "5"`, `panicWindowPercentage must be a number from 1 to 100, and is "0"`,
				`panicThresholdPercentage must be a number from 110 to 1000, and is "100"`, `maxScaleUpRate must be a number from 1.01 to 2147483647, and is "1"`,
				`maxScaleDownRate must be a number from 1.01 to 2147483647, and is "1"`,
			},
		},
		"CEL without an expression": {c, nil, []string{"expression must be set to the expression that computes the count"}},
		"CEL with an expression":    {c, map[string]string{"expression": "replicas + 1"}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, err := range tc.algorithm.Validate(tc.config, nil) {
				got = append(got, err.Error())
			}
			for i := range got {
				if i < len(tc.errs) && strings.HasPrefix(got[i], tc.errs[i]) {
					got[i] = tc.errs[i]
				}
			}
			if diff := cmp.Diff(tc.errs, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if len(tc.errs) == 0 {
				return
			}
			in := scaling.Input{Now: now, CurrentReplicas: 3, Config: tc.config, Window: time.Minute, Metrics: []scaling.Metric{metric("a", 3, 4)}}
			if r, err := tc.algorithm.(scaling.ScalingAlgorithm).CalculateDesiredReplicas(context.Background(), in); err == nil {
				t.Errorf("it calculates %d with these settings, want an error", r.Replicas)
			}
		})
	}
}

func TestRegisterRefusesATakenName(t *testing.T) {
	r := scaling.NewRegistry()
	if err := Register(r); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"APA", "CEL", "KPA"}, r.Names()); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if err := Register(r); err == nil || !strings.Contains(err.Error(), `"APA" is registered already`) {
		t.Errorf("registering again gives %v, want an error that names APA", err)
	}
}
