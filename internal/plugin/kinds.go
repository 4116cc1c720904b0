package plugin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	elasticscalerv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	omev1beta1 "github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	tidalv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/plugin/view"
)

// kind is a kind that can be named on the command line.
type kind struct {
	name string
	// names are those by which users call it: singular, plural, short.
	names []string
	make  func() client.Object
	list  func() client.ObjectList
	line  func(client.Object) view.Line
}

var kinds = []kind{
	{
		view.KindGroup, []string{"resourcescalinggroup", "resourcescalinggroups", "rsg"},
		func() client.Object { return &autoscalingv1alpha1.ResourceScalingGroup{} },
		func() client.ObjectList { return &autoscalingv1alpha1.ResourceScalingGroupList{} },
		func(o client.Object) view.Line { return view.GroupLine(o.(*autoscalingv1alpha1.ResourceScalingGroup)) },
	},
	{
		view.KindScaler, []string{"elasticscaler", "elasticscalers", "esc", "es"},
		func() client.Object { return &elasticscalerv1alpha1.ElasticScaler{} },
		func() client.ObjectList { return &elasticscalerv1alpha1.ElasticScalerList{} },
		func(o client.Object) view.Line { return view.ScalerLine(o.(*elasticscalerv1alpha1.ElasticScaler)) },
	},
	{
		view.KindTidal, []string{"tidal", "tidals"},
		func() client.Object { return &tidalv1alpha1.Tidal{} },
		func() client.ObjectList { return &tidalv1alpha1.TidalList{} },
		func(o client.Object) view.Line { return view.TidalLine(o.(*tidalv1alpha1.Tidal)) },
	},
	{
		view.KindPolicy, []string{"autoscalerpolicy", "autoscalerpolicies", "ap"},
		func() client.Object { return &omev1beta1.AutoscalerPolicy{} },
		func() client.ObjectList { return &omev1beta1.AutoscalerPolicyList{} },
		func(o client.Object) view.Line { return view.PolicyLine(o.(*omev1beta1.AutoscalerPolicy)) },
	},
	{
		view.KindService, []string{"inferenceservice", "inferenceservices", "isvc"},
		func() client.Object { return &omev1beta1.InferenceService{} },
		func() client.ObjectList { return &omev1beta1.InferenceServiceList{} },
		func(o client.Object) view.Line { return view.ServiceLine(o.(*omev1beta1.InferenceService)) },
	},
}

// kindNames are the names that help texts list.
func kindNames() string {
	var all []string
	for _, k := range kinds {
		all = append(all, k.names[0])
	}
	return strings.Join(all, ", ")
}

// kindOf finds a kind by any of its names. A group after a dot, as in tidals.tidal.io, is accepted.
func kindOf(word string) (kind, error) {
	name, _, _ := strings.Cut(strings.ToLower(word), ".")
	for _, k := range kinds {
		if slices.Contains(k.names, name) {
			return k, nil
		}
	}
	return kind{}, fmt.Errorf("unknown kind %q: must be one of %s", word, kindNames())
}

// objectOf reads KIND/NAME or KIND NAME. Where only one kind makes sense, its name may stand alone.
func objectOf(args []string, only string) (kind, string, error) {
	var word, name string
	switch {
	case len(args) == 2:
		word, name = args[0], args[1]
	case len(args) == 1 && strings.Contains(args[0], "/"):
		word, name, _ = strings.Cut(args[0], "/")
	case len(args) == 1 && only != "":
		word, name = only, args[0]
	default:
		return kind{}, "", fmt.Errorf("name one object as KIND/NAME, with KIND one of %s", kindNames())
	}
	k, err := kindOf(word)
	switch {
	case err != nil:
		return k, "", err
	case name == "":
		return k, "", fmt.Errorf("%q has no name after the kind", strings.Join(args, " "))
	case only != "" && k.name != only:
		return k, "", fmt.Errorf("%s is not an %s", strings.Join(args, " "), only)
	}
	return k, name, nil
}

// named connects, and reads the object that the arguments name.
func (s *session) named(ctx context.Context, args []string, only string) (kind, client.Object, error) {
	k, name, err := objectOf(args, only)
	if err != nil {
		return k, nil, err
	}
	if err := s.connect(); err != nil {
		return k, nil, err
	}
	obj, err := s.read(ctx, k, name)
	return k, obj, err
}

// read gets one object of a kind.
func (s *session) read(ctx context.Context, k kind, name string) (client.Object, error) {
	obj := k.make()
	if err := s.client.Get(ctx, types.NamespacedName{Namespace: s.namespace, Name: name}, obj); err != nil {
		return nil, err
	}
	return obj, nil
}

// listAll lists the objects of a kind in the namespace, or in all.
func (s *session) listAll(ctx context.Context, k kind, selection selection) ([]client.Object, error) {
	list := k.list()
	options, err := selection.options(s.namespace)
	if err != nil {
		return nil, err
	}
	if err := s.client.List(ctx, list, options...); err != nil {
		return nil, err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", k.names[1], err)
	}
	var all []client.Object
	for _, item := range items {
		all = append(all, item.(client.Object))
	}
	return all, nil
}

// listed is what was found of a kind.
type listed struct {
	kind    kind
	objects []client.Object
}

// listEach lists kinds. Of several, one that the cluster does not have is left out, since a component that is switched off has no CRDs,
// and so is one that the user may not list, of which a text says so. Without the right to list any of them that is the error.
func (s *session) listEach(ctx context.Context, asked []kind, chosen selection) (all []listed, leftOut []string, err error) {
	var refused error
	for _, k := range asked {
		found, err := s.listAll(ctx, k, chosen)
		switch {
		case meta.IsNoMatchError(err) && len(asked) > 1:
			continue
		case apierrors.IsForbidden(err):
			refused = err
			leftOut = append(leftOut, fmt.Sprintf("without %s: %v", k.names[1], err))
			continue
		case err != nil:
			return nil, nil, err
		}
		all = append(all, listed{k, found})
	}
	if len(all) == 0 {
		return nil, nil, refused
	}
	return all, leftOut, nil
}

// completeObjects completes KIND/NAME from the cluster.
func (s *session) completeObjects(allowed ...string) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 || s.connect() != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var all []string
		for _, k := range kinds {
			if len(allowed) > 0 && !slices.Contains(allowed, k.name) {
				continue
			}
			// What cannot be listed is not offered.
			found, _ := s.listAll(cmd.Context(), k, selection{})
			for _, obj := range found {
				if candidate := k.names[0] + "/" + obj.GetName(); strings.HasPrefix(candidate, word) {
					all = append(all, candidate)
				}
			}
		}
		return all, cobra.ShellCompDirectiveNoFileComp
	}
}
