package plugin

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	omev1beta1 "github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/plugin/view"
)

// selection is which objects are listed.
type selection struct {
	allNamespaces bool
	selector      string
}

func (o *selection) add(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "of all namespaces")
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", "only objects with these labels, such as app=chat")
}

func (o selection) options(namespace string) ([]client.ListOption, error) {
	selector, err := labels.Parse(o.selector)
	if err != nil {
		return nil, fmt.Errorf("--selector %q: %w", o.selector, err)
	}
	options := []client.ListOption{client.MatchingLabelsSelector{Selector: selector}}
	if !o.allNamespaces {
		options = append(options, client.InNamespace(namespace))
	}
	return options, nil
}

func (s *session) getCommand(use string) *cobra.Command {
	var out output
	var chosen selection
	cmd := &cobra.Command{
		Use:   "get [KIND[,KIND...] [NAME...]]",
		Short: "List what scales here, of all kinds at a glance",
		Long: `List what scales in a namespace. Without a kind, all kinds are listed in one table: what each scales, the count that there is and the
one that is wanted, and whether and why it is not ready.

Kinds: ` + kindNames() + `, or their plurals and short names (rsg, esc, ap, isvc).`,
		Example: strings.ReplaceAll(`  # everything that scales in namespace production
  CMD get -n production

  # AutoscalerPolicies with their digests
  CMD get autoscalerpolicies -o wide

  # the names of all that is in a cluster
  CMD get -A -o name`, "CMD", use),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			return s.get(cmd, args, chosen, out)
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var all []string
			for _, k := range kinds {
				all = append(all, k.names[1])
			}
			return all, cobra.ShellCompDirectiveNoFileComp
		},
	}
	out.add(cmd, formatTable, formatWide, formatJSON, formatYAML, formatName)
	chosen.add(cmd)
	return cmd
}

// wanted reads the kinds and names of a command line.
func wanted(args []string) (asked []kind, names []string, err error) {
	if len(args) == 0 {
		return kinds, nil, nil
	}
	if word, name, found := strings.Cut(args[0], "/"); found {
		k, err := kindOf(word)
		return []kind{k}, append([]string{name}, args[1:]...), err
	}
	for word := range strings.SplitSeq(args[0], ",") {
		if word == "all" {
			return kinds, args[1:], nil
		}
		k, err := kindOf(word)
		if err != nil {
			return nil, nil, err
		}
		asked = append(asked, k)
	}
	return asked, args[1:], nil
}

func (s *session) get(cmd *cobra.Command, args []string, chosen selection, out output) error {
	asked, names, err := wanted(args)
	if err != nil {
		return err
	}
	if len(names) > 0 && (len(asked) > 1 || chosen.allNamespaces) {
		return fmt.Errorf("names go with one kind and one namespace: drop %s, or say which kind and namespace", strings.Join(names, " "))
	}
	if err := s.connect(); err != nil {
		return err
	}
	found, err := s.find(cmd.Context(), asked, names, chosen)
	if err != nil {
		return err
	}
	var all []client.Object
	var lines []view.Line
	for _, l := range found {
		for _, obj := range l.objects {
			lines = append(lines, l.kind.line(obj))
		}
		all = append(all, l.objects...)
	}
	return s.printObjects(asked, all, lines, chosen, out)
}

// find reads the objects of those names, of the one kind that is asked for then, or without names all.
func (s *session) find(ctx context.Context, asked []kind, names []string, chosen selection) ([]listed, error) {
	if len(names) == 0 {
		return s.listAndWarn(ctx, asked, chosen)
	}
	found := listed{kind: asked[0]}
	for _, name := range names {
		obj, err := s.read(ctx, asked[0], name)
		if err != nil {
			return nil, err
		}
		found.objects = append(found.objects, obj)
	}
	return []listed{found}, nil
}

// listAndWarn lists kinds, and warns of what is left out.
func (s *session) listAndWarn(ctx context.Context, asked []kind, chosen selection) ([]listed, error) {
	found, leftOut, err := s.listEach(ctx, asked, chosen)
	for _, text := range leftOut {
		s.warn(text)
	}
	return found, err
}

func (s *session) printObjects(asked []kind, all []client.Object, lines []view.Line, chosen selection, out output) error {
	wide := out.format == formatWide
	switch out.format {
	case formatJSON, formatYAML:
		list, err := s.documents(all)
		if err == nil {
			_, err = out.encode(s.streams.Out, list)
		}
		return err
	case formatName:
		for _, l := range lines {
			if _, err := fmt.Fprintf(s.streams.Out, "%s/%s\n", strings.ToLower(l.Object.Kind), l.Object.Name); err != nil {
				return err
			}
		}
		return nil
	}
	if len(all) == 0 {
		where := "namespace " + s.namespace
		if chosen.allNamespaces {
			where = "any namespace"
		}
		_, err := fmt.Fprintf(s.streams.ErrOut, "No resources found in %s.\n", where)
		return err
	}
	table := view.Lines(lines, chosen.allNamespaces, wide, now())
	if len(asked) == 1 {
		switch asked[0].name {
		case view.KindPolicy:
			table = view.Policies(valuesOf[omev1beta1.AutoscalerPolicy](all), chosen.allNamespaces, wide, now())
		case view.KindService:
			table = view.Services(valuesOf[omev1beta1.InferenceService](all), chosen.allNamespaces, now())
		}
	}
	return table.Print(s.streams.Out, "")
}

// valuesOf are the values behind objects that are all of one type.
func valuesOf[T any](all []client.Object) []T {
	var out []T
	for _, obj := range all {
		out = append(out, *any(obj).(*T))
	}
	return out
}

// documents is a list of objects as kubectl prints it.
func (s *session) documents(all []client.Object) (any, error) {
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{}}}
	for _, obj := range all {
		gvk, err := apiutil.GVKForObject(obj, s.client.Scheme())
		if err != nil {
			return nil, fmt.Errorf("encoding %s: %w", obj.GetName(), err)
		}
		obj.SetManagedFields(nil)
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			return nil, fmt.Errorf("encoding %s: %w", obj.GetName(), err)
		}
		u := unstructured.Unstructured{Object: fields}
		u.SetGroupVersionKind(gvk)
		list.Items = append(list.Items, u)
	}
	if len(list.Items) == 1 {
		return list.Items[0].Object, nil
	}
	return list.UnstructuredContent(), nil
}
