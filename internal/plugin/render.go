package plugin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	omev1beta1 "github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyrender"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyresolve"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/servingcomponent"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/servingruntime"
	"github.com/pd-orchestrator/pd-orchestrator/internal/desired"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
	"github.com/pd-orchestrator/pd-orchestrator/internal/plugin/view"
	"github.com/pd-orchestrator/pd-orchestrator/internal/serving"
)

// renderOptions are the flags of render.
type renderOptions struct {
	out       output
	component string
	policy    string
	file      string
	managers  string
}

const formatDiff = "diff"

func (s *session) renderCommand(use string) *cobra.Command {
	var o renderOptions
	cmd := &cobra.Command{
		Use:   "render INFERENCESERVICE",
		Short: "Show the ScaledObject or HPA that a component gets, as a diff against the live one",
		Long: `Show the ScaledObject or HorizontalPodAutoscaler that the settings in effect give each component of an InferenceService, as a diff
against the live one. With --policy or --filename, show what another policy, or an edited one, would give it before anything is changed.

Nothing is written. The metric providers are read from the ConfigMap in the managers' namespace.`,
		Example: strings.ReplaceAll(`  # what does the service get now?
  CMD render chat -n production -o yaml

  # what would this edit of a policy do to it?
  CMD render chat -n production --filename policy.yaml

  # what would it get from another policy?
  CMD render chat -n production --component decoder --policy queue-depth`, "CMD", use),
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: s.completeObjects(view.KindService),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.out.check(); err != nil {
				return err
			}
			if o.policy != "" && o.file != "" {
				return fmt.Errorf("--policy %s and --filename %s exclude each other: the file names its policy", o.policy, o.file)
			}
			_, obj, err := s.named(cmd.Context(), args, view.KindService)
			if err != nil {
				return err
			}
			return s.render(cmd.Context(), obj.(*omev1beta1.InferenceService), o)
		},
	}
	cmd.Flags().StringVar(&o.component, "component", "", "only this component: engine, decoder or router")
	cmd.Flags().StringVar(&o.policy, "policy", "", "as if the component named this AutoscalerPolicy")
	cmd.Flags().StringVarP(&o.file, "filename", "f", "", "as if the component named the AutoscalerPolicy in this file")
	cmd.Flags().StringVar(&o.managers, "manager-namespace", "scaling-system", "namespace of the managers, which has the ConfigMap of metric providers")
	o.out.add(cmd, formatDiff, formatYAML, formatJSON)
	return cmd
}

// surroundings is what renders depend on beside the service.
type surroundings struct {
	policies, keda bool
	bindings       policyrender.Bindings
	runtime        *servingruntime.Runtime
	model          *omev1beta1.BaseModelSpec
}

func (s *session) surroundings(ctx context.Context, service *omev1beta1.InferenceService, managers string) (surroundings, error) {
	var around surroundings
	served := func(gvk schema.GroupVersionKind) (bool, error) {
		_, err := s.client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
		if meta.IsNoMatchError(err) {
			return false, nil
		}
		return err == nil, err
	}
	var err error
	if around.policies, err = served(omev1beta1.GroupVersion.WithKind(view.KindPolicy)); err != nil {
		return around, err
	}
	if around.keda, err = served(desired.ScaledObjectKind); err != nil {
		return around, err
	}
	var providers corev1.ConfigMap
	if err := s.client.Get(ctx, types.NamespacedName{Namespace: managers, Name: policyrender.ProvidersConfigMap}, &providers); err != nil && !apierrors.IsNotFound(err) {
		return around, fmt.Errorf("reading the metric providers from ConfigMap %s/%s (--manager-namespace): %w", managers, policyrender.ProvidersConfigMap, err)
	}
	around.bindings = policyrender.ReadBindings(providers.Data)
	question, err := serving.Question(ctx, s.client, service)
	if err != nil {
		return around, err
	}
	around.runtime, around.model = servingruntime.Choose(question).Runtime, question.Model
	return around, nil
}

func (s *session) render(ctx context.Context, service *omev1beta1.InferenceService, o renderOptions) error {
	around, err := s.surroundings(ctx, service, o.managers)
	if err != nil {
		return err
	}
	var spec *omev1beta1.ServingRuntimeSpec
	runtimeName := ""
	if around.runtime != nil {
		spec, runtimeName = &around.runtime.Spec, around.runtime.Name
	}
	components := servingcomponent.Of(service.Spec, spec)
	if o.component != "" {
		components = slices.DeleteFunc(components, func(c servingcomponent.Component) bool { return c.Name != o.component })
		if len(components) == 0 {
			return fmt.Errorf("--component %q: the service has no such component", o.component)
		}
	}
	var documents []map[string]any
	for _, c := range components {
		c, policy, err := s.policyFor(ctx, service, c, o)
		if err != nil {
			return err
		}
		target := desired.ServingComponent{Service: service, Component: c, Runtime: runtimeName, Model: around.model}
		wanted, live, err := s.rendered(ctx, target, policy, around)
		if err != nil {
			return err
		}
		if wanted == nil {
			continue
		}
		if o.out.format != formatDiff {
			documents = append(documents, wanted.Object)
			continue
		}
		if err := s.printDiff(c.Name, wanted, live); err != nil {
			return err
		}
	}
	for i, document := range documents {
		if i > 0 && o.out.format == formatYAML {
			if _, err := fmt.Fprintln(s.streams.Out, "---"); err != nil {
				return err
			}
		}
		if _, err := o.out.encode(s.streams.Out, document); err != nil {
			return err
		}
	}
	return nil
}

// policyFor returns the policy that a component is rendered with, and the component as it names it.
func (s *session) policyFor(ctx context.Context, service *omev1beta1.InferenceService, c servingcomponent.Component, o renderOptions) (servingcomponent.Component, *omev1beta1.AutoscalerPolicy, error) {
	policy := &omev1beta1.AutoscalerPolicy{}
	name := o.policy
	if o.file != "" {
		text, err := os.ReadFile(o.file)
		if err != nil {
			return c, nil, fmt.Errorf("--filename: %w", err)
		}
		if err := yaml.UnmarshalStrict(text, policy); err != nil {
			return c, nil, fmt.Errorf("--filename %s holds no AutoscalerPolicy: %w", o.file, err)
		}
		if policy.Kind != view.KindPolicy {
			return c, nil, fmt.Errorf("--filename %s holds a %s, must hold one AutoscalerPolicy", o.file, policy.Kind)
		}
		name = cmp.Or(policy.Name, "policy")
	}
	if name != "" {
		// As if the component named it, and nothing outranked it.
		c.Own.Autoscaler = nil
		c.Own.AutoscalerPolicyRef = &omev1beta1.AutoscalerPolicyReference{Name: name}
	}
	if o.file != "" || c.Own.AutoscalerPolicyRef == nil {
		if o.file == "" {
			policy = nil
		}
		return c, policy, nil
	}
	err := s.client.Get(ctx, types.NamespacedName{Namespace: service.Namespace, Name: c.Own.AutoscalerPolicyRef.Name}, policy)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return c, nil, nil
	}
	return c, policy, err
}

// rendered returns the autoscaler that a component gets, nil for none, and the live object of its name, nil for none.
func (s *session) rendered(ctx context.Context, c desired.ServingComponent, policy *omev1beta1.AutoscalerPolicy, around surroundings) (wanted, live *unstructured.Unstructured, err error) {
	note := func(format string, args ...any) {
		_, _ = fmt.Fprintf(s.streams.ErrOut, c.Component.Name+": "+format+"\n", args...)
	}
	ref := c.Target()
	workload, err := s.live(ctx, schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind), c.Service.Namespace, ref.Name)
	if err != nil {
		return nil, nil, err
	}
	resolution := policyresolve.Resolve(policyresolve.Facts{
		Service: c.Service, Component: c.Component, PoliciesServed: around.policies, Policy: policy,
		KedaServed: around.keda, Bindings: around.bindings, LastGood: desired.LastGood(workload),
	})
	if hold := resolution.Hold; hold != nil {
		note("it holds (%s): %s", hold.Reason, hold.Detail)
	}
	if resolution.Autoscaler == nil {
		note("no policy has rendered for it before, so that what there is stands")
		return nil, nil, nil
	}
	wanted, err = c.Autoscaler(resolution)
	if err != nil {
		note("%v", err)
		return nil, nil, nil
	}
	if wanted == nil {
		note("class %s asks for no autoscaler", resolution.Autoscaler.Class)
		return nil, nil, nil
	}
	live, err = s.live(ctx, wanted.GroupVersionKind(), wanted.GetNamespace(), wanted.GetName())
	return wanted, live, err
}

// live reads an object, nil where there is none.
func (s *session) live(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	u := kube.NewWorkload(gvk)
	err := s.client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, u)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	return u, err
}

// printDiff compares an autoscaler with the live one in the fields that are written.
func (s *session) printDiff(component string, wanted, live *unstructured.Unstructured) error {
	name := wanted.GetKind() + " " + wanted.GetNamespace() + "/" + wanted.GetName()
	// The digest tells one render from another, and people nothing.
	unmarked := wanted.DeepCopy()
	unstructured.RemoveNestedField(unmarked.Object, "metadata", "annotations", desired.AnnotationApplied)
	after, err := yaml.Marshal(unmarked.Object)
	if err != nil {
		return err
	}
	var before []byte
	if live != nil {
		if before, err = yaml.Marshal(view.Within(live.Object, unmarked.Object)); err != nil {
			return err
		}
	}
	diff := udiff.Unified("live", "rendered", string(before), string(after))
	if diff == "" {
		_, err = fmt.Fprintf(s.streams.Out, "%s: %s is as rendered\n", component, name)
		return err
	}
	head := fmt.Sprintf("%s: %s would change", component, name)
	if live == nil {
		head = fmt.Sprintf("%s: %s would be made", component, name)
	}
	style := s.style()
	lines := []string{head}
	for line := range strings.SplitSeq(strings.TrimSuffix(diff, "\n"), "\n") {
		switch {
		case strings.HasPrefix(line, "+"):
			line = style.Good(line)
		case strings.HasPrefix(line, "-"):
			line = style.Bad(line)
		}
		lines = append(lines, line)
	}
	_, err = fmt.Fprintln(s.streams.Out, strings.Join(lines, "\n"))
	return err
}

// fromMap reads a typed value from the fields of an object, as the API server would decode it.
func fromMap(fields map[string]any, into any) error {
	text, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}
