package victims

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
)

// GroupIDLabel is the label of a series that says which group it is of.
const GroupIDLabel = "group_id"

// Scope narrows a query to the series of one ResourceScalingGroup. A matcher is added only to selectors that do not
// name its label themselves.
type Scope struct {
	// NamespaceLabel is the label with a pod's namespace, "" to leave it out.
	NamespaceLabel string
	// Namespaces in which the group has pods.
	Namespaces []string
	// RSGLabel is the label with the name of a pod's ResourceScalingGroup, "" to leave it out.
	RSGLabel string
	// RSG is the name of the ResourceScalingGroup.
	RSG string
	// OrAbsent also takes series that lack the labels, and still none of another ResourceScalingGroup. It tells a scope
	// that names labels which nothing sets from a metric that is missing.
	OrAbsent bool
	// ReplicaLabels tell the members of a pair of Prometheus servers apart; their series are counted once.
	ReplicaLabels []string
}

// Query is what to ask Prometheus for one ranking.
type Query struct {
	// Value gives one value per group.
	Value string
	// Age gives, per group, the Unix time in seconds of the oldest sample behind the value. It is "" when expr is more
	// than one selector, since an instant query's own time says nothing of the samples; Prometheus' look-back decides then.
	Age string
}

// BuildQuery wraps the metric's expression in its aggregation by group and narrows it to the scope. A Gauge is
// aggregated as it is, a Counter or Histogram as its rate over the window.
func BuildQuery(metric v1alpha1.ScaleDownMetric, scope Scope) (Query, error) {
	p := parser.NewParser(parser.Options{})
	inner, err := p.ParseExpr(metric.Expr)
	if err != nil {
		return Query{}, fmt.Errorf("scaleDown.metric.expr %q is no PromQL expression: %w", metric.Expr, err)
	}
	narrow(inner, scope)
	value, aggregator := inner.String(), metric.Aggregator
	if metric.Type == v1alpha1.MetricCounter || metric.Type == v1alpha1.MetricHistogram {
		if _, err := model.ParseDuration(metric.Window); err != nil {
			return Query{}, fmt.Errorf("scaleDown.metric.window is %q: must be a Prometheus duration, for example 2m", metric.Window)
		}
		value = fmt.Sprintf("rate(%s[%s])", value, metric.Window)
		if aggregator == "" {
			aggregator = v1alpha1.AggregatorSum
		}
	} else if aggregator == "" {
		aggregator = v1alpha1.AggregatorAvg
	}
	if len(scope.ReplicaLabels) > 0 {
		value = fmt.Sprintf("max without (%s) (%s)", strings.Join(scope.ReplicaLabels, ", "), value)
	}
	q := Query{Value: fmt.Sprintf("%s by (%s) (%s)", aggregator, GroupIDLabel, value)}
	if _, err := p.ParseExpr(q.Value); err != nil {
		return Query{}, fmt.Errorf("scaleDown.metric.expr %q gives %q, which is no PromQL expression: %w", metric.Expr, q.Value, err)
	}
	if _, ok := inner.(*parser.VectorSelector); ok {
		q.Age = fmt.Sprintf("min by (%s) (timestamp(%s))", GroupIDLabel, inner.String())
	}
	return q, nil
}

func narrow(expr parser.Expr, scope Scope) {
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		if scope.NamespaceLabel != "" && len(scope.Namespaces) > 0 && !names(selector, scope.NamespaceLabel) {
			add(selector, labels.MatchRegexp, scope.NamespaceLabel, scope.anyOf(scope.Namespaces...))
		}
		if scope.RSGLabel != "" && !names(selector, scope.RSGLabel) {
			if scope.OrAbsent {
				add(selector, labels.MatchRegexp, scope.RSGLabel, scope.anyOf(scope.RSG))
			} else {
				add(selector, labels.MatchEqual, scope.RSGLabel, scope.RSG)
			}
		}
		return nil
	})
}

// anyOf is a regular expression for one of the values, or for an absent label too. A label that is absent is empty.
func (s Scope) anyOf(values ...string) string {
	quoted := make([]string, len(values), len(values)+1)
	for i, v := range values {
		quoted[i] = regexp.QuoteMeta(v)
	}
	if s.OrAbsent {
		quoted = append(quoted, "")
	}
	return strings.Join(quoted, "|")
}

func names(s *parser.VectorSelector, label string) bool {
	return slices.ContainsFunc(s.LabelMatchers, func(m *labels.Matcher) bool { return m.Name == label })
}

// add cannot fail: an equality takes any value, and the expressions are made of quoted names.
func add(s *parser.VectorSelector, t labels.MatchType, name, value string) {
	s.LabelMatchers = append(s.LabelMatchers, labels.MustNewMatcher(t, name, value))
}

// Sample is one series of an answer.
type Sample struct {
	// GroupID is the value of the label group_id, "" where the series has none.
	GroupID string
	// Value of the series.
	Value float64
}

// Rank turns an answer into a ranking of the candidates: one finite value for each, and none behind which a sample is
// older than maxAge. A rate has a value for as long as its window holds samples, also after their series has ended; that
// such a group has no time says so. A series without group_id counts for group 0, since nothing labels pods that were
// there before. Pass nil times where none could be asked for.
func Rank(candidates []Candidate, samples, times []Sample, now time.Time, maxAge time.Duration) Ranking {
	values, doubled := byGroup(samples)
	oldest, _ := byGroup(times)
	var missing, several, notFinite, stale []string
	r := Ranking{Values: map[int32]float64{}, Reason: v1alpha1.ReasonMetricUsed}
	for _, c := range candidates {
		if c.Incomplete && c.ID != 0 {
			continue
		}
		v, ok := values[c.ID]
		name := "group " + strconv.Itoa(int(c.ID))
		switch {
		case !ok:
			missing = append(missing, name)
		case doubled[c.ID]:
			several = append(several, name)
		case math.IsNaN(v) || math.IsInf(v, 0):
			notFinite = append(notFinite, fmt.Sprintf("%s is %v", name, v))
		default:
			r.Values[c.ID] = v
		}
		if t, known := oldest[c.ID]; !known && times != nil {
			stale = append(stale, name+" has none of now")
		} else if age := now.Sub(time.UnixMilli(int64(t * 1000))); known && age > maxAge {
			stale = append(stale, fmt.Sprintf("that of %s is %s old", name, age.Round(time.Second)))
		}
	}
	switch {
	case len(several) > 0:
		return unusable(v1alpha1.ReasonMultipleSeries, "the query returned several series for "+abbreviated(several))
	case len(missing) > 0:
		return unusable(v1alpha1.ReasonGroupMissing, "the query returned no series with "+GroupIDLabel+" for "+abbreviated(missing))
	case len(notFinite) > 0:
		return unusable(v1alpha1.ReasonNotFinite, "the query returned no finite value: "+abbreviated(notFinite))
	case len(stale) > 0:
		return unusable(v1alpha1.ReasonStale, fmt.Sprintf("samples must not be older than prometheus.maxSampleAgeSeconds (%s): %s", maxAge, abbreviated(stale)))
	}
	return r
}

func unusable(reason, message string) Ranking { return Ranking{Reason: reason, Message: message} }

// byGroup indexes the series by group id and notes the groups with more than one. Labels that are no id are of nobody.
func byGroup(samples []Sample) (values map[int32]float64, doubled map[int32]bool) {
	values, doubled = map[int32]float64{}, map[int32]bool{}
	for _, s := range samples {
		text := s.GroupID
		if text == "" {
			text = "0"
		}
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			continue
		}
		id := int32(n)
		if _, seen := values[id]; seen {
			doubled[id] = true
		}
		values[id] = s.Value
	}
	return values, doubled
}
