package view

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	tidalv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/tides"
)

// Next is what comes.
type Next struct {
	metav1.TypeMeta `json:",inline"`
	Firings         []Firing       `json:"firings,omitempty"`
	Groups          []RemovalOrder `json:"groups,omitempty"`
}

// Firing is a firing of a Tidal.
type Firing struct {
	Tidal     Reference   `json:"tidal"`
	Target    Reference   `json:"target"`
	Time      metav1.Time `json:"time"`
	Rule      string      `json:"rule"`
	Replicas  int32       `json:"replicas"`
	Suspended bool        `json:"suspended,omitempty"`
}

// RemovalOrder is the order in which the groups of a ResourceScalingGroup would go.
type RemovalOrder struct {
	Group Reference `json:"group"`
	// Order are the ids, the first to go first.
	Order []int32                            `json:"order"`
	Level autoscalingv1alpha1.ScaleDownLevel `json:"level"`
	Why   string                             `json:"why"`
	// Values were compared, by id.
	Values []autoscalingv1alpha1.GroupValue `json:"values,omitempty"`
	// MetricReason is a reason of condition ScaleDownMetric where a metric is configured.
	MetricReason  string `json:"metricReason,omitempty"`
	MetricMessage string `json:"metricMessage,omitempty"`
}

// Firings computes the next firings of Tidals from their rules, the nearest first, at most some.
func Firings(all []tidalv1alpha1.Tidal, now time.Time, most int) []Firing {
	var out []Firing
	for i := range all {
		t := &all[i]
		rules, _ := tides.Compile(t.Spec)
		target := Reference{Kind: t.Spec.TargetRef.Kind, Namespace: t.Spec.TargetRef.Namespace, Name: t.Spec.TargetRef.Name}
		for moment, n := now, 0; n < most; {
			upcoming := tides.Decide(rules, moment).Upcoming
			if len(upcoming) == 0 {
				break
			}
			for _, f := range upcoming {
				out = append(out, Firing{Tidal: ReferenceTo(KindTidal, t), Target: target, Time: metav1.NewTime(f.Time), Rule: f.Rule, Replicas: f.Replicas, Suspended: tides.Suspended(t)})
				moment = f.Time
				n++
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Firing) int { return a.Time.Compare(b.Time.Time) })
	return out[:min(most, len(out))]
}

// Print writes what comes for people.
func (n *Next) Print(w io.Writer, style Style, now time.Time, namespaces bool) error {
	p := &printer{w: w}
	if len(n.Firings) > 0 {
		p.line("%s", style.Bold("Coming firings"))
		table := Table{Columns: []string{"TIME", "IN", "TIDAL", "RULE", "REPLICAS", "SCALES"}}
		for _, f := range n.Firings {
			name := f.Tidal.Name
			if namespaces {
				name = f.Tidal.Namespace + "/" + name
			}
			count := fmt.Sprint(f.Replicas)
			if f.Suspended {
				count += " (suspended)"
			}
			table.Add(f.Time.UTC().Format(time.RFC3339), Age(now, f.Time.Time), name, f.Rule, count, f.Target.String())
		}
		p.table(table)
	}
	for i, g := range n.Groups {
		if i > 0 || len(n.Firings) > 0 {
			p.line("")
		}
		p.line("%s", style.Bold(g.Group.String()))
		if len(g.Order) == 0 {
			p.line("  It has no group that could go.")
			continue
		}
		p.line("  Group %d would go first: %s.", g.Order[0], strings.TrimSuffix(g.Why, "."))
		if g.MetricReason != "" && g.MetricReason != autoscalingv1alpha1.ReasonMetricUsed {
			p.line("  %s", style.Bad("The metric does not decide: "+g.MetricReason+": "+g.MetricMessage))
		}
		values := map[int32]string{}
		for _, v := range g.Values {
			values[v.ID] = v.Value
		}
		table := Table{Columns: []string{"ORDER", "GROUP", "VALUE"}}
		for place, id := range g.Order {
			table.Add(fmt.Sprint(place+1), fmt.Sprint(id), values[id])
		}
		p.table(table)
	}
	if len(n.Firings) == 0 && len(n.Groups) == 0 {
		p.line("Nothing is due: there is no Tidal with rules, and no ResourceScalingGroup with groups, here.")
	}
	return p.err
}
