package plugin

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"

	omev1beta1 "github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyresolve"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/servingcomponent"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
	"github.com/pd-orchestrator/pd-orchestrator/internal/plugin/view"
)

func (s *session) autoscaleCommand(use string) *cobra.Command {
	var out output
	var liveScale bool
	cmd := &cobra.Command{
		Use:   "autoscale [status|explain] INFERENCESERVICE",
		Short: "Show the autoscaling in effect for each component of an InferenceService",
		Long: `Show the autoscaling in effect for each component of an InferenceService, and which source supplied it: the component itself (isvc), a
policy, the runtime, annotations (legacy), or the default.

POLICY-STATE is Current (the policy decides), Held (it cannot be used, and what it last rendered to stands), Shadowed (the component's
own autoscaler outranks it), or Unresolved. With explain, the same in words, with what is wrong.`,
		Example: strings.ReplaceAll(`  CMD autoscale chat -n production
  CMD autoscale status chat -o wide
  CMD autoscale explain chat`, "CMD", use),
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: s.completeObjects(view.KindService),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			mode := "status"
			if len(args) == 2 {
				mode, args = args[0], args[1:]
			}
			if mode != "status" && mode != "explain" {
				return fmt.Errorf("unknown word %q before the name: must be status or explain", mode)
			}
			k, obj, err := s.named(cmd.Context(), args, view.KindService)
			if err != nil {
				return err
			}
			if mode == "explain" {
				e, err := s.explain(cmd.Context(), k, obj)
				if err != nil {
					return err
				}
				return s.showExplanation(out, e)
			}
			return s.autoscaleStatus(cmd.Context(), obj.(*omev1beta1.InferenceService), liveScale, out)
		},
	}
	cmd.Flags().BoolVar(&liveScale, "live-scale", false, "also read the scale of each component's workload")
	out.add(cmd, formatTable, formatWide, formatJSON, formatYAML)
	return cmd
}

func (s *session) autoscaleStatus(ctx context.Context, service *omev1beta1.InferenceService, liveScale bool, out output) error {
	var live map[string]view.LiveScale
	if liveScale {
		live = s.liveScales(ctx, service)
	}
	report := view.Autoscale(service, live)
	if done, err := out.encode(s.streams.Out, report); done {
		return err
	}
	if out.format == formatWide {
		return report.Wide().Print(s.streams.Out, "")
	}
	return report.Table().Print(s.streams.Out, "")
}

// liveScales reads the scale subresources of the components' workloads.
func (s *session) liveScales(ctx context.Context, service *omev1beta1.InferenceService) map[string]view.LiveScale {
	scales := map[string]view.LiveScale{}
	for _, c := range servingcomponent.Of(service.Spec, nil) {
		status := policyresolve.Status(service.Status.Components, c.Name)
		if status == nil || status.ScaleTargetRef == nil {
			continue
		}
		ref := status.ScaleTargetRef
		workload := kube.NewWorkload(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
		workload.SetNamespace(service.Namespace)
		workload.SetName(ref.Name)
		scale, err := kube.ReadScale(ctx, s.client, workload)
		if err != nil {
			scales[c.Name] = view.LiveScale{Error: err.Error()}
			continue
		}
		scales[c.Name] = view.LiveScale{Spec: scale.Spec.Replicas, Status: scale.Status.Replicas}
	}
	return scales
}
