package plugin

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	elasticscalerv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	omev1beta1 "github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	tidalv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/plugin/view"
)

// shownEvents is how many events an explanation has.
const shownEvents = 8

func (s *session) explainCommand(use string) *cobra.Command {
	var out output
	var check bool
	cmd := &cobra.Command{
		Use:   "explain KIND/NAME",
		Short: "Say in words what an object last decided and why, and what is wrong",
		Long: `Say in words what an object wants, what it last decided and why (its inputs, what each proposed, what limited the count, which groups
went in which order), what is wrong with it, and its last events.

Kinds: ` + kindNames() + `.`,
		Example: strings.ReplaceAll(`  # why does this scaler not scale?
  CMD explain elasticscaler/chat-decode -n production

  # in a script: exit code 2 while something is wrong
  CMD explain rsg/prefill-decode -n scaling-system --check`, "CMD", use),
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: s.completeObjects(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			k, obj, err := s.named(cmd.Context(), args, "")
			if err != nil {
				return err
			}
			e, err := s.explain(cmd.Context(), k, obj)
			if err != nil {
				return err
			}
			if err = s.showExplanation(out, e); err == nil && check && len(e.Troubles) > 0 {
				return errUnmet
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "end with exit code 2 if something is wrong")
	out.add(cmd, formatTable, formatJSON, formatYAML)
	return cmd
}

func (s *session) showExplanation(out output, e *view.Explanation) error {
	return s.show(out, e, func(w io.Writer, style view.Style) error { return e.Print(w, style, now()) })
}

// explain reads what belongs to the explanation of an object.
func (s *session) explain(ctx context.Context, k kind, obj client.Object) (*view.Explanation, error) {
	var e *view.Explanation
	switch o := obj.(type) {
	case *autoscalingv1alpha1.ResourceScalingGroup:
		e = view.ExplainGroup(o, now())
	case *elasticscalerv1alpha1.ElasticScaler:
		e = view.ExplainScaler(o, now())
	case *tidalv1alpha1.Tidal:
		e = view.ExplainTidal(o, now())
	case *omev1beta1.AutoscalerPolicy:
		var services omev1beta1.InferenceServiceList
		err := s.client.List(ctx, &services, client.InNamespace(o.Namespace))
		switch {
		case apierrors.IsForbidden(err), meta.IsNoMatchError(err):
			s.warn(fmt.Sprintf("the services that may name the policy could not be read: %v", err))
		case err != nil:
			return nil, fmt.Errorf("listing the services that may name the policy: %w", err)
		}
		e = view.ExplainPolicy(o, services.Items, err == nil)
	case *omev1beta1.InferenceService:
		e = view.ExplainService(o, now())
	}
	var err error
	if e.Events, err = s.events(ctx, k, obj); err != nil {
		// An explanation without events is better than none.
		s.warn(fmt.Sprintf("the events could not be read: %v", err))
	}
	return e, nil
}

// events reads the events in the core API, which has the same ones as events.k8s.io: those Kubernetes' role view has at all times.
func (s *session) events(ctx context.Context, k kind, obj client.Object) ([]view.Event, error) {
	var list corev1.EventList
	err := s.client.List(ctx, &list, client.InNamespace(obj.GetNamespace()), client.MatchingFields{"involvedObject.kind": k.name, "involvedObject.name": obj.GetName()})
	return view.Events(list.Items, shownEvents), err
}
