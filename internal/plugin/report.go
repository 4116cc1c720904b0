package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	elasticscalerv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	tidalv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/metricsource"
	"github.com/pd-orchestrator/pd-orchestrator/internal/plugin/view"
)

// reportFirings is how many firings a report shows.
const reportFirings = 20

// plotPoints is how many points a line of a plot has.
const plotPoints = 240

func (s *session) reportCommand(use string) *cobra.Command {
	var prometheus prometheusFlags
	var chosen selection
	var file string
	var since time.Duration
	cmd := &cobra.Command{
		Use:   "report [KIND/NAME]",
		Short: "Write a page about a namespace or an object: who scales what, decisions, plots, what comes next",
		Long: `Write a page about a namespace, or about one object: who scales what, the tree of each object down to its pods, the last decision and what is
wrong, counts and metric values over time as plots, and what comes next.

The page is one HTML file without scripts that loads nothing, to be kept, mailed, or attached to an incident. The plots come from the
managers' metrics in Prometheus: name it as it is reached from here.`,
		Example: strings.ReplaceAll(`  CMD report -n production --prometheus http://localhost:9090 --file report.html

  CMD report esc/chat-decode -n production --since 6h > report.html`, "CMD", use),
		Args:              cobra.MaximumNArgs(2),
		ValidArgsFunction: s.completeObjects(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if since < time.Minute || since > 30*24*time.Hour {
				return fmt.Errorf("--since %s must be from 1m to 720h", since)
			}
			if err := s.connect(); err != nil {
				return err
			}
			r, err := s.report(cmd.Context(), args, chosen, prometheus, since)
			if err != nil {
				return err
			}
			if file == "" {
				return r.HTML(s.streams.Out)
			}
			return writeFile(file, r.HTML)
		},
	}
	cmd.Flags().StringVar(&file, "file", "", "file to write, instead of standard output")
	cmd.Flags().DurationVar(&since, "since", time.Hour, "how far back the plots go, from 1m to 720h")
	prometheus.add(cmd)
	chosen.add(cmd)
	return cmd
}

// writeFile writes a file whole or not at all.
func writeFile(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".report-*")
	if err != nil {
		return fmt.Errorf("--file: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	if err := errors.Join(write(f), f.Chmod(0o644), f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}

func (s *session) report(ctx context.Context, args []string, chosen selection, prometheus prometheusFlags, since time.Duration) (*view.Report, error) {
	metrics, err := prometheus.source()
	if err != nil {
		return nil, fmt.Errorf("--prometheus: %w", err)
	}
	made := now()
	r := &view.Report{Made: made, Title: "Scaling in namespace " + s.namespace}
	if chosen.allNamespaces {
		r.Title = "Scaling in all namespaces"
	}
	objects, asked, leftOut, err := s.reported(ctx, args, chosen)
	if err != nil {
		return nil, err
	}
	for _, text := range leftOut {
		r.Notes = append(r.Notes, strings.ToUpper(text[:1])+text[1:]+".")
	}
	if len(args) > 0 {
		r.Title = "Scaling of " + view.ReferenceTo(asked[0].name, objects[0]).String()
	}
	if metrics == nil {
		r.Notes = append(r.Notes, "Without plots, since no Prometheus was named: pass --prometheus.")
	}
	asker := s.asker(prometheus, metrics)
	var lines []view.Line
	var tidals []tidalv1alpha1.Tidal
	grown := s.forest(true)
	for i, obj := range objects {
		lines = append(lines, asked[i].line(obj))
		e, err := s.explain(ctx, asked[i], obj)
		if err != nil {
			return nil, err
		}
		tree, err := grown.tree(ctx, asked[i], obj)
		if err != nil {
			return nil, err
		}
		o := view.ReportObject{Explanation: e, Tree: tree}
		if metrics != nil {
			if o.Plots, err = plots(ctx, metrics.(*metricsource.Prometheus), obj, made.Add(-since), made); err != nil {
				r.Notes = append(r.Notes, fmt.Sprintf("Without plots of %s: %v.", e.Object, err))
			}
		}
		switch known := obj.(type) {
		case *tidalv1alpha1.Tidal:
			tidals = append(tidals, *known)
		case *autoscalingv1alpha1.ResourceScalingGroup:
			if known.Spec.ScalingStrategy.Type != autoscalingv1alpha1.InplaceScaling {
				if order, err := nextGroup(ctx, known, asker); err != nil {
					r.Notes = append(r.Notes, fmt.Sprintf("Without the order in which groups of %s would go: %v.", e.Object, err))
				} else {
					r.Next.Groups = append(r.Next.Groups, *order)
				}
			}
		}
		r.Objects = append(r.Objects, o)
	}
	r.Next.Firings = view.Firings(tidals, made, reportFirings)
	r.Lines = view.Lines(lines, chosen.allNamespaces, true, made)
	return r, nil
}

// reported reads the objects of a report, each with its kind, and says what is left out.
func (s *session) reported(ctx context.Context, args []string, chosen selection) (all []client.Object, asked []kind, leftOut []string, err error) {
	if len(args) > 0 {
		k, obj, err := s.named(ctx, args, "")
		return []client.Object{obj}, []kind{k}, nil, err
	}
	found, leftOut, err := s.listEach(ctx, kinds, chosen)
	for _, l := range found {
		for _, obj := range l.objects {
			all, asked = append(all, obj), append(asked, l.kind)
		}
	}
	return all, asked, leftOut, err
}

// plotted is what a plot shows of an object: a query for each line. NAME and NAMESPACE stand for the object's.
type plotted struct {
	title string
	// lines are the queries by the name in the legend. With label set, each series of a query is a line of its own, named by
	// that label.
	lines [][2]string
	label string
	steps bool
}

func plotsOf(obj client.Object) []plotted {
	switch obj.(type) {
	case *autoscalingv1alpha1.ResourceScalingGroup:
		return []plotted{{title: "Groups", steps: true, label: "state", lines: [][2]string{{"groups", `max by (state) (pdo_resourcescalinggroup_groups{OBJECT})`}}}}
	case *elasticscalerv1alpha1.ElasticScaler:
		return []plotted{
			{title: "Replicas", steps: true, lines: [][2]string{
				{"current", `max(pdo_elasticscaler_current_replicas{OBJECT})`}, {"desired", `max(pdo_elasticscaler_desired_replicas{OBJECT})`},
				{"at least", `max(pdo_elasticscaler_min_replicas{OBJECT})`}, {"at most", `max(pdo_elasticscaler_max_replicas{OBJECT})`},
			}},
			{title: "Metric values", label: "metric", lines: [][2]string{{"value", `max by (metric) (pdo_elasticscaler_metric_value{OBJECT})`}, {"target", `max by (metric) (pdo_elasticscaler_metric_target{OBJECT})`}}},
			{title: "What each metric proposes", label: "metric", steps: true, lines: [][2]string{{"", `max by (metric) (pdo_elasticscaler_proposed_replicas{OBJECT})`}}},
		}
	case *tidalv1alpha1.Tidal:
		return []plotted{{title: "Replicas that the rule in force wants", steps: true, lines: [][2]string{{"desired", `max(pdo_tidal_desired_replicas{OBJECT})`}}}}
	}
	return nil
}

func plots(ctx context.Context, metrics *metricsource.Prometheus, obj client.Object, from, to time.Time) ([]view.Plot, error) {
	matchers := fmt.Sprintf("namespace=%q,name=%q", obj.GetNamespace(), obj.GetName())
	var all []view.Plot
	for _, what := range plotsOf(obj) {
		plot := view.Plot{Title: what.title, From: from, To: to}
		for _, line := range what.lines {
			series, err := metrics.Range(ctx, strings.ReplaceAll(line[1], "OBJECT", matchers), from, to, to.Sub(from)/plotPoints)
			if err != nil {
				return nil, err
			}
			for _, s := range series {
				l := view.PlotLine{Name: strings.TrimSpace(s.Labels[what.label] + " " + line[0]), Steps: what.steps}
				for _, p := range s.Points {
					l.Times, l.Values = append(l.Times, p.Time), append(l.Values, p.Value)
				}
				plot.Lines = append(plot.Lines, l)
			}
		}
		all = append(all, plot)
	}
	return all, nil
}
