package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	autoscalingv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	tidalv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/config"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/victims"
	"github.com/pd-orchestrator/pd-orchestrator/internal/desired"
	"github.com/pd-orchestrator/pd-orchestrator/internal/metricsource"
	"github.com/pd-orchestrator/pd-orchestrator/internal/plugin/view"
	"github.com/pd-orchestrator/pd-orchestrator/internal/ranking"
)

// prometheusFlags say how the user reaches Prometheus.
type prometheusFlags struct{ config.Prometheus }

func (f *prometheusFlags) add(cmd *cobra.Command) {
	f.Prometheus = config.Default().Prometheus
	// As the chart sets it.
	f.Labels.RSG = "rsg_name"
	flags := cmd.Flags()
	flags.StringVar(&f.Address, "prometheus", os.Getenv("PROMETHEUS_URL"), "base URL of Prometheus as reached from here, such as http://localhost:9090 (default $PROMETHEUS_URL)")
	flags.StringVar(&f.BearerTokenFile, "prometheus-token-file", "", "file with a bearer token for Prometheus")
	flags.StringVar(&f.CAFile, "prometheus-ca-file", "", "file with PEM certificates to trust for Prometheus")
	flags.StringVar(&f.Labels.Namespace, "prometheus-namespace-label", f.Labels.Namespace, "label with a pod's namespace, as the manager's prometheus.labels.namespace")
	flags.StringVar(&f.Labels.RSG, "prometheus-rsg-label", f.Labels.RSG, "label with the name of a pod's ResourceScalingGroup, as the manager's prometheus.labels.rsg; empty for none")
}

// source is Prometheus, nil where none was named.
func (f *prometheusFlags) source() (metricsource.Querier, error) {
	if f.Address == "" {
		return nil, nil
	}
	return metricsource.NewPrometheus(metricsource.PrometheusOptions{
		Address: f.Address, BearerTokenFile: f.BearerTokenFile, CAFile: f.CAFile, Timeout: f.Timeout(),
	})
}

// asker ranks groups as the manager does, with what the user has named.
func (s *session) asker(f prometheusFlags, metrics metricsource.Querier) ranking.Asker {
	return ranking.Asker{Metrics: metrics, Settings: f.Prometheus, Groups: s.client, Workloads: s.client, Now: now}
}

func (s *session) nextCommand(use string) *cobra.Command {
	var out output
	var prometheus prometheusFlags
	var chosen selection
	var firings int
	cmd := &cobra.Command{
		Use:   "next [tidal/NAME | rsg/NAME]",
		Short: "Say what comes next: the firings of Tidals, and the group that would go first",
		Long: `Say what comes next: the coming firings of Tidals, computed from their rules, and for each ResourceScalingGroup the order in which its
groups would go if it were scaled down now, and why.

The order is decided as the manager decides it. Where a group has scaleDown.metric this needs Prometheus: name it as it is reached from
here, through a port-forward say. Without it the order is that of the annotations and ids, and the output says so.`,
		Example: strings.ReplaceAll(`  # what is due in namespace production
  CMD next -n production

  # which group would go first?
  kubectl port-forward -n monitoring service/prometheus 9090 &
  CMD next rsg/prefill-decode -n scaling-system --prometheus http://localhost:9090`, "CMD", use),
		Args:              cobra.MaximumNArgs(2),
		ValidArgsFunction: s.completeObjects(view.KindTidal, view.KindGroup),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			if firings < 1 || firings > 1000 {
				return fmt.Errorf("--firings %d must be from 1 to 1000", firings)
			}
			metrics, err := prometheus.source()
			if err != nil {
				return fmt.Errorf("--prometheus: %w", err)
			}
			if err := s.connect(); err != nil {
				return err
			}
			groups, tidals, err := s.whatComes(cmd.Context(), args, chosen)
			if err != nil {
				return err
			}
			report := &view.Next{Firings: view.Firings(tidals, now(), firings)}
			report.APIVersion, report.Kind = view.APIVersion, "Next"
			asker := s.asker(prometheus, metrics)
			for i := range groups {
				order, err := nextGroup(cmd.Context(), &groups[i], asker)
				if err != nil && len(groups) > 1 {
					// The others can be told.
					s.warn(fmt.Sprintf("the order in which groups of %s would go: %v", view.ReferenceTo(view.KindGroup, &groups[i]), err))
					continue
				} else if err != nil {
					return err
				}
				report.Groups = append(report.Groups, *order)
			}
			return s.show(out, report, func(w io.Writer, style view.Style) error { return report.Print(w, style, now(), chosen.allNamespaces) })
		},
	}
	cmd.Flags().IntVar(&firings, "firings", 10, "how many firings, from 1 to 1000")
	prometheus.add(cmd)
	chosen.add(cmd)
	out.add(cmd, formatTable, formatJSON, formatYAML)
	return cmd
}

// whatComes reads what the arguments name: one object, or all.
func (s *session) whatComes(ctx context.Context, args []string, chosen selection) (groups []autoscalingv1alpha1.ResourceScalingGroup, tidals []tidalv1alpha1.Tidal, err error) {
	asked := slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return k.name != view.KindGroup && k.name != view.KindTidal })
	var names []string
	if len(args) > 0 {
		k, name, err := objectOf(args, "")
		if err != nil {
			return nil, nil, err
		}
		if k.name != view.KindGroup && k.name != view.KindTidal {
			return nil, nil, fmt.Errorf("%s has no next: name a tidal or a resourcescalinggroup", k.names[0])
		}
		asked, names = []kind{k}, []string{name}
	}
	found, err := s.find(ctx, asked, names, chosen)
	for _, l := range found {
		for _, obj := range l.objects {
			switch o := obj.(type) {
			case *autoscalingv1alpha1.ResourceScalingGroup:
				if len(names) > 0 || o.Spec.ScalingStrategy.Type != autoscalingv1alpha1.InplaceScaling {
					groups = append(groups, *o)
				}
			case *tidalv1alpha1.Tidal:
				tidals = append(tidals, *o)
			}
		}
	}
	return groups, tidals, err
}

// nextGroup orders the groups of a ResourceScalingGroup as a scale-down of all of them would.
func nextGroup(ctx context.Context, g *autoscalingv1alpha1.ResourceScalingGroup, asker ranking.Asker) (*view.RemovalOrder, error) {
	order := &view.RemovalOrder{Group: view.ReferenceTo(view.KindGroup, g)}
	if g.Spec.ScalingStrategy.Type == autoscalingv1alpha1.InplaceScaling {
		return nil, errors.New("it has strategy InplaceScaling, and so no groups to remove")
	}
	var candidates []victims.Candidate
	for _, status := range g.Status.Groups {
		if status.Phase != autoscalingv1alpha1.GroupRemoving && status.Phase != autoscalingv1alpha1.GroupAtZero {
			candidates = append(candidates, victims.Candidate{ID: status.ID, Incomplete: status.ID != 0 && status.Phase == autoscalingv1alpha1.GroupCreating})
		}
	}
	if len(candidates) == 0 {
		return order, nil
	}
	choice, ranked, err := asker.Choose(ctx, g, len(candidates), candidates)
	if err != nil {
		return nil, err
	}
	if asker.Metrics == nil && ranked.Reason != "" {
		ranked.Message = "this command was not told of Prometheus: pass --prometheus to rank as the manager does"
	}
	order.Order, order.Level, order.Why, order.MetricReason, order.MetricMessage = choice.Victims, choice.Level, choice.Why, ranked.Reason, ranked.Message
	for _, v := range choice.Values {
		order.Values = append(order.Values, autoscalingv1alpha1.GroupValue{ID: v.ID, Value: desired.FormatValue(v.Value)})
	}
	return order, nil
}
