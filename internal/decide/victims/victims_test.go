package victims

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/utils/ptr"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
)

func plain(ids ...int32) []Candidate {
	var out []Candidate
	for _, id := range ids {
		out = append(out, Candidate{ID: id})
	}
	return out
}

func annotated(values map[int32]string, ids ...int32) []Candidate {
	out := plain(ids...)
	for i := range out {
		if v, ok := values[out[i].ID]; ok {
			out[i].Annotation = &v
		}
	}
	return out
}

func used(values map[int32]float64) Ranking {
	return Ranking{Values: values, Reason: v1alpha1.ReasonMetricUsed}
}

var down = Ranking{Reason: v1alpha1.ReasonPrometheusUnavailable, Message: "prometheus query failed"}

func TestChoose(t *testing.T) {
	cases := map[string]struct {
		n          int
		candidates []Candidate
		order      v1alpha1.Order
		metric     Ranking
		victims    []int32
		level      v1alpha1.ScaleDownLevel
		why        string
	}{
		"the lowest values go first in ascending order": {
			n: 2, candidates: plain(0, 1, 2, 3), order: v1alpha1.OrderAscending, metric: used(map[int32]float64{0: 1, 1: 5, 2: 2, 3: 9}),
			victims: []int32{0, 2}, level: v1alpha1.LevelMetric,
		},
		"the highest go first in descending order": {
			n: 2, candidates: plain(0, 1, 2, 3), order: v1alpha1.OrderDescending, metric: used(map[int32]float64{0: 1, 1: 5, 2: 2, 3: 9}),
			victims: []int32{3, 1}, level: v1alpha1.LevelMetric,
		},
		"ties go to the higher id, in either order": {
			n: 2, candidates: plain(0, 1, 2), order: v1alpha1.OrderDescending, metric: used(map[int32]float64{0: 4, 1: 4, 2: 4}),
			victims: []int32{2, 1}, level: v1alpha1.LevelMetric,
		},
		"values of groups that are gone are ignored": {
			n: 1, candidates: plain(1, 2), order: v1alpha1.OrderAscending, metric: used(map[int32]float64{1: 3, 2: 5, 7: 0}),
			victims: []int32{1}, level: v1alpha1.LevelMetric,
		},
		"the document's annotations": {
			n: 3, candidates: annotated(map[int32]string{0: "10", 1: "5", 2: "1"}, 0, 1, 2), order: v1alpha1.OrderAscending,
			victims: []int32{2, 1, 0}, level: v1alpha1.LevelAnnotation,
		},
		"without a metric answer the annotations decide": {
			n: 1, candidates: annotated(map[int32]string{0: "1", 1: " 5.5 ", 2: "9"}, 0, 1, 2), order: v1alpha1.OrderAscending, metric: down,
			victims: []int32{0}, level: v1alpha1.LevelAnnotation, why: "fallback to annotation",
		},
		"half of the annotations are none": {
			n: 2, candidates: annotated(map[int32]string{0: "1", 1: "5"}, 0, 1, 2), order: v1alpha1.OrderAscending, metric: down,
			victims: []int32{2, 1}, level: v1alpha1.LevelGroupID, why: "fallback to max group-id",
		},
		"an annotation that is no number is none": {
			n: 1, candidates: annotated(map[int32]string{0: "1", 1: "NaN"}, 0, 1), order: v1alpha1.OrderAscending,
			victims: []int32{1}, level: v1alpha1.LevelGroupID, why: `"NaN"`,
		},
		"by id group 0 goes last": {
			n: 3, candidates: plain(0, 1, 2), order: v1alpha1.OrderAscending,
			victims: []int32{2, 1, 0}, level: v1alpha1.LevelGroupID,
		},
		"incomplete clones go before any ranking": {
			n: 2, candidates: []Candidate{{ID: 0}, {ID: 1, Incomplete: true}, {ID: 2}, {ID: 3, Incomplete: true}}, metric: used(map[int32]float64{0: 1, 2: 2}),
			victims: []int32{3, 1}, level: v1alpha1.LevelIncomplete,
		},
		"and the ranking decides about the rest": {
			n: 2, candidates: []Candidate{{ID: 0}, {ID: 1, Incomplete: true}, {ID: 2}}, order: v1alpha1.OrderAscending, metric: used(map[int32]float64{0: 1, 2: 2}),
			victims: []int32{1, 0}, level: v1alpha1.LevelMetric,
		},
		"an incomplete group 0 is ranked like any other": {
			n: 1, candidates: []Candidate{{ID: 0, Incomplete: true}, {ID: 1}}, order: v1alpha1.OrderAscending, metric: used(map[int32]float64{0: 5, 1: 2}),
			victims: []int32{1}, level: v1alpha1.LevelMetric,
		},
		"more than there are takes all": {
			n: 9, candidates: plain(0, 1), victims: []int32{1, 0}, level: v1alpha1.LevelGroupID,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Choose(tc.n, tc.candidates, tc.order, tc.metric)
			if diff := cmp.Diff(tc.victims, got.Victims); diff != "" {
				t.Errorf("victims (-want +got):\n%s", diff)
			}
			if got.Level != tc.level {
				t.Errorf("level %s, want %s", got.Level, tc.level)
			}
			if !strings.Contains(got.Why, tc.why) {
				t.Errorf("why %q, want it to have %q", got.Why, tc.why)
			}
		})
	}
}

// The choice depends on the values alone, never on the order in which candidates come.
func TestChooseIsAFunctionOfTheValues(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		values := map[int32]float64{}
		var candidates []Candidate
		for id := range int32(1 + rng.IntN(9)) {
			values[id] = float64(rng.IntN(4))
			candidates = append(candidates, Candidate{ID: id, Incomplete: rng.IntN(5) == 0, Annotation: ptr.To("3")})
		}
		n := rng.IntN(len(candidates) + 1)
		want := Choose(n, candidates, v1alpha1.OrderAscending, used(values))
		rng.Shuffle(len(candidates), func(i, j int) { candidates[i], candidates[j] = candidates[j], candidates[i] })
		got := Choose(n, candidates, v1alpha1.OrderAscending, used(values))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d: another order of candidates gave another choice:\n%s", seed, diff)
		}
		if len(got.Victims) != n || len(slices.Compact(slices.Sorted(slices.Values(got.Victims)))) != n {
			t.Fatalf("seed %d: %d victims wanted, got %v", seed, n, got.Victims)
		}
	}
}

func TestBuildQuery(t *testing.T) {
	scope := Scope{NamespaceLabel: "namespace", Namespaces: []string{"a.b", "prod"}, RSGLabel: "rsg_name", RSG: "llm"}
	cases := map[string]struct {
		metric v1alpha1.ScaleDownMetric
		scope  Scope
		value  string
		age    string
		err    string
	}{
		"a gauge, averaged by default": {
			metric: v1alpha1.ScaleDownMetric{Expr: "vllm:num_requests_running", Type: v1alpha1.MetricGauge},
			value:  `avg by (group_id) (vllm:num_requests_running)`,
			age:    `min by (group_id) (timestamp(vllm:num_requests_running))`,
		},
		"no type is a gauge": {
			metric: v1alpha1.ScaleDownMetric{Expr: "demo"}, value: `avg by (group_id) (demo)`, age: `min by (group_id) (timestamp(demo))`,
		},
		"a counter is summed as its rate": {
			metric: v1alpha1.ScaleDownMetric{Expr: "demo_counter", Type: v1alpha1.MetricCounter, Window: "5m"},
			value:  `sum by (group_id) (rate(demo_counter[5m]))`, age: `min by (group_id) (timestamp(demo_counter))`,
		},
		"a histogram with another aggregator": {
			metric: v1alpha1.ScaleDownMetric{Expr: "h_sum", Type: v1alpha1.MetricHistogram, Window: "1h30m", Aggregator: v1alpha1.AggregatorMax},
			value:  `max by (group_id) (rate(h_sum[1h30m]))`, age: `min by (group_id) (timestamp(h_sum))`,
		},
		"a window on a gauge is ignored": {
			metric: v1alpha1.ScaleDownMetric{Expr: "demo", Type: v1alpha1.MetricGauge, Window: "2m", Aggregator: v1alpha1.AggregatorMin},
			value:  `min by (group_id) (demo)`, age: `min by (group_id) (timestamp(demo))`,
		},
		"an expression of two selectors has no age": {
			metric: v1alpha1.ScaleDownMetric{Expr: "a + on(pod) b"}, value: `avg by (group_id) (a + on (pod) b)`,
		},
		"every selector is narrowed to the group's namespaces and name": {
			metric: v1alpha1.ScaleDownMetric{Expr: `a{x="1"} + b`}, scope: scope,
			value: `avg by (group_id) (a{namespace=~"a\\.b|prod",rsg_name="llm",x="1"} + b{namespace=~"a\\.b|prod",rsg_name="llm"})`,
		},
		"or to those and to series without the labels": {
			metric: v1alpha1.ScaleDownMetric{Expr: "a"},
			scope:  Scope{NamespaceLabel: "namespace", Namespaces: []string{"prod"}, RSGLabel: "rsg_name", RSG: "l.m", OrAbsent: true},
			value:  `avg by (group_id) (a{namespace=~"prod|",rsg_name=~"l\\.m|"})`, age: `min by (group_id) (timestamp(a{namespace=~"prod|",rsg_name=~"l\\.m|"}))`,
		},
		"but not by a label that it names itself": {
			metric: v1alpha1.ScaleDownMetric{Expr: `a{namespace="other"}`}, scope: scope,
			value: `avg by (group_id) (a{namespace="other",rsg_name="llm"})`, age: `min by (group_id) (timestamp(a{namespace="other",rsg_name="llm"}))`,
		},
		"the series of a pair of servers count once": {
			metric: v1alpha1.ScaleDownMetric{Expr: "c", Type: v1alpha1.MetricCounter, Window: "1m"}, scope: Scope{ReplicaLabels: []string{"replica", "prometheus"}},
			value: `sum by (group_id) (max without (replica, prometheus) (rate(c[1m])))`, age: `min by (group_id) (timestamp(c))`,
		},
		"no PromQL":                            {metric: v1alpha1.ScaleDownMetric{Expr: "a{"}, err: `scaleDown.metric.expr "a{"`},
		"an injected closing bracket":          {metric: v1alpha1.ScaleDownMetric{Expr: "a) or (b"}, err: "no PromQL"},
		"a counter of an expression":           {metric: v1alpha1.ScaleDownMetric{Expr: "a + b", Type: v1alpha1.MetricCounter, Window: "5m"}, err: "no PromQL"},
		"a window that is no duration":         {metric: v1alpha1.ScaleDownMetric{Expr: "a", Type: v1alpha1.MetricCounter, Window: "5 minutes"}, err: "scaleDown.metric.window"},
		"a scalar cannot be aggregated":        {metric: v1alpha1.ScaleDownMetric{Expr: "scalar(a)"}, err: "no PromQL"},
		"a window with an injected expression": {metric: v1alpha1.ScaleDownMetric{Expr: "a", Type: v1alpha1.MetricCounter, Window: "5m]) or (b[5m"}, err: "scaleDown.metric.window"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := BuildQuery(tc.metric, tc.scope)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("error %v, want one with %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(Query{Value: tc.value, Age: tc.age}, got); diff != "" {
				t.Errorf("query (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRank(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	at := func(ago time.Duration) float64 { return float64(now.Add(-ago).UnixMilli()) / 1000 }
	cases := map[string]struct {
		candidates []Candidate
		samples    []Sample
		times      []Sample
		values     map[int32]float64
		reason     string
		message    string
	}{
		"one value per candidate": {
			candidates: plain(0, 1), samples: []Sample{{"0", 3}, {"1", 5}, {"9", 0}},
			values: map[int32]float64{0: 3, 1: 5}, reason: v1alpha1.ReasonMetricUsed,
		},
		"a series without the label is of group 0": {
			candidates: plain(0, 1), samples: []Sample{{"", 3}, {"1", 5}},
			values: map[int32]float64{0: 3, 1: 5}, reason: v1alpha1.ReasonMetricUsed,
		},
		"but not beside one that is": {
			candidates: plain(0, 1), samples: []Sample{{"", 3}, {"0", 4}, {"1", 5}}, reason: v1alpha1.ReasonMultipleSeries, message: "group 0",
		},
		"a label that is no id is of nobody": {
			candidates: plain(0), samples: []Sample{{"0", 3}, {"a", 5}}, values: map[int32]float64{0: 3}, reason: v1alpha1.ReasonMetricUsed,
		},
		"an incomplete clone needs no value": {
			candidates: []Candidate{{ID: 0}, {ID: 1, Incomplete: true}}, samples: []Sample{{"0", 3}},
			values: map[int32]float64{0: 3}, reason: v1alpha1.ReasonMetricUsed,
		},
		"an empty answer":  {candidates: plain(0, 1), reason: v1alpha1.ReasonGroupMissing, message: "group 0, group 1"},
		"a group missing":  {candidates: plain(0, 1), samples: []Sample{{"0", 3}}, reason: v1alpha1.ReasonGroupMissing, message: "group 1"},
		"not a number":     {candidates: plain(0), samples: []Sample{{"0", math.NaN()}}, reason: v1alpha1.ReasonNotFinite, message: "NaN"},
		"infinite":         {candidates: plain(0), samples: []Sample{{"0", math.Inf(1)}}, reason: v1alpha1.ReasonNotFinite, message: "+Inf"},
		"a sample too old": {candidates: plain(0), samples: []Sample{{"0", 3}}, times: []Sample{{"0", at(6 * time.Minute)}}, reason: v1alpha1.ReasonStale, message: "6m0s old"},
		"a value without a sample of now, as a rate has for a while after its series has ended": {
			candidates: plain(0, 1), samples: []Sample{{"0", 3}, {"1", 0}}, times: []Sample{{"0", at(0)}},
			reason: v1alpha1.ReasonStale, message: "prometheus.maxSampleAgeSeconds (2m0s): group 1 has none of now",
		},
		"no age at all": {candidates: plain(0), samples: []Sample{{"0", 3}}, times: []Sample{}, reason: v1alpha1.ReasonStale, message: "group 0"},
		"a sample just in time": {
			candidates: plain(0), samples: []Sample{{"0", 3}}, times: []Sample{{"0", at(2 * time.Minute)}},
			values: map[int32]float64{0: 3}, reason: v1alpha1.ReasonMetricUsed,
		},
		"many findings are cut short": {candidates: plain(0, 1, 2, 3, 4), reason: v1alpha1.ReasonGroupMissing, message: "and 2 more"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Rank(tc.candidates, tc.samples, tc.times, now, 2*time.Minute)
			if got.Reason != tc.reason || !strings.Contains(got.Message, tc.message) {
				t.Errorf("%s: %q, want %s with %q", got.Reason, got.Message, tc.reason, tc.message)
			}
			if diff := cmp.Diff(tc.values, got.Values, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzParseAnnotation(f *testing.F) {
	for _, s := range []string{"10", "10.5", " 10 ", "NaN", "", "1e400", "-3", "0x1p-2", "Inf"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := ParseAnnotation(s)
		if err == nil && (math.IsNaN(v) || math.IsInf(v, 0)) {
			t.Errorf("%q was read as %v", s, v)
		}
	})
}

func FuzzBuildQuery(f *testing.F) {
	f.Add("vllm:num_requests_running", "2m")
	f.Add("a{b=~\"c\"} / on(x) d", "1h")
	f.Fuzz(func(t *testing.T, expr, window string) {
		for _, kind := range []v1alpha1.MetricType{v1alpha1.MetricGauge, v1alpha1.MetricCounter} {
			q, err := BuildQuery(v1alpha1.ScaleDownMetric{Expr: expr, Type: kind, Window: window}, Scope{RSGLabel: "rsg_name", RSG: "a"})
			if err == nil && !strings.Contains(q.Value, "by (group_id)") {
				t.Errorf("%q gave %q, which is not by group", expr, q.Value)
			}
		}
	})
}
