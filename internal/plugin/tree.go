package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	elasticscalerv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	omev1beta1 "github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	tidalv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/clone"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyresolve"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/servingcomponent"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/tides"
	"github.com/pd-orchestrator/pd-orchestrator/internal/desired"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
	"github.com/pd-orchestrator/pd-orchestrator/internal/plugin/view"
)

func (s *session) treeCommand(use string) *cobra.Command {
	var out output
	var withoutPods bool
	cmd := &cobra.Command{
		Use:   "tree KIND/NAME",
		Short: "Draw an object with all that it scales, down to pods and Services",
		Long: `Draw an object with what belongs to it: a ResourceScalingGroup with its groups, their workloads, pods and Services; an ElasticScaler
with what drives it and what it scales; a Tidal with its scaler or target; an InferenceService with its components, their workloads and
autoscalers; an AutoscalerPolicy with the components that name it.`,
		Example:           strings.ReplaceAll(`  CMD tree rsg/prefill-decode -n scaling-system`, "CMD", use),
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
			root, err := s.forest(!withoutPods).tree(cmd.Context(), k, obj)
			if err != nil {
				return err
			}
			return s.show(out, root, root.Print)
		},
	}
	cmd.Flags().BoolVar(&withoutPods, "without-pods", false, "leave pods out")
	out.add(cmd, formatTable, formatJSON, formatYAML)
	return cmd
}

// forest grows trees. What it has read of a namespace it reads once.
type forest struct {
	client client.Client
	// served finds what kind a reference names.
	served   *kube.Kinds
	pods     bool
	podsOf   map[string][]corev1.Pod
	services map[string][]corev1.Service
	// path are the objects above, so that two that point at each other end.
	path []view.Reference
}

// forest is one to grow trees of what the session may read.
func (s *session) forest(pods bool) *forest {
	return &forest{client: s.client, served: kube.NewKinds(s.discovery, clock.RealClock{}), pods: pods}
}

const (
	// noRight is the state of what is there for others to read.
	noRight = "you may not read it"
	// noKind is the state of what cannot be there, since the CRD of its kind is not installed.
	noKind = "the cluster does not have this kind"
)

// state is a line's Ready in a few words.
func state(l view.Line) (string, bool) {
	reason, _, _ := strings.Cut(l.Why, ": ")
	if l.Ready == "True" {
		return "ready", false
	}
	return "not ready: " + reason, true
}

func (f *forest) tree(ctx context.Context, k kind, obj client.Object) (*view.Node, error) {
	node := &view.Node{Object: view.ReferenceTo(k.name, obj)}
	node.State, node.Trouble = state(k.line(obj))
	if slices.Contains(f.path, node.Object) {
		return node, nil
	}
	f.path = append(f.path, node.Object)
	defer func() { f.path = f.path[:len(f.path)-1] }()
	var err error
	switch o := obj.(type) {
	case *autoscalingv1alpha1.ResourceScalingGroup:
		err = f.group(ctx, node, o)
	case *elasticscalerv1alpha1.ElasticScaler:
		err = f.scaler(ctx, node, o)
	case *tidalv1alpha1.Tidal:
		err = f.tidal(ctx, node, o)
	case *omev1beta1.AutoscalerPolicy:
		err = f.policy(ctx, node, o)
	case *omev1beta1.InferenceService:
		err = f.service(ctx, node, o)
	}
	return node, err
}

func (f *forest) group(ctx context.Context, node *view.Node, g *autoscalingv1alpha1.ResourceScalingGroup) error {
	if g.Spec.ScalingStrategy.Type == autoscalingv1alpha1.InplaceScaling {
		for _, t := range g.Spec.TargetResources {
			if err := f.target(ctx, node, g, t, 0, "target "+t.Name); err != nil {
				return err
			}
		}
		return nil
	}
	for _, status := range g.Status.Groups {
		child := node.Add(&view.Node{
			Role: fmt.Sprintf("group %d", status.ID), State: strings.ToLower(string(status.Phase)),
			Trouble: status.Phase == autoscalingv1alpha1.GroupCreating,
		})
		if status.Value != "" {
			child.State += ", last ranked by " + status.Value
		}
		for _, t := range g.Spec.TargetResources {
			if err := f.target(ctx, child, g, t, status.ID, t.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// target adds the workload of a target in a group, with its Services.
func (f *forest) target(ctx context.Context, parent *view.Node, g *autoscalingv1alpha1.ResourceScalingGroup, t autoscalingv1alpha1.TargetResource, id int32, role string) error {
	ref, wrong := resolved(t)
	if wrong != "" {
		parent.Add(&view.Node{Object: view.Reference{Kind: t.ResourceRef.Kind, Namespace: t.ResourceRef.Namespace, Name: t.ResourceRef.Name}, Role: role, State: wrong, Trouble: true})
		return nil
	}
	namespace, name := cmp.Or(t.ResourceRef.Namespace, g.Namespace), ref.Name
	if id != 0 {
		namespace, name = g.Namespace, clone.OwnerOf(g).WorkloadName(ref.Name, id)
	}
	return f.workload(ctx, parent, ref.Kind.GroupVersionKind, types.NamespacedName{Namespace: namespace, Name: name}, role)
}

// resolved finds the workload that a target names, or says what is wrong with the reference.
func resolved(t autoscalingv1alpha1.TargetResource) (clone.Ref, string) {
	ref, err := clone.Resolve(t.ResourceRef)
	if err != nil {
		return ref, err.Error()
	}
	return ref, ""
}

// workloadKind says how workloads of a kind are read, for those kinds of which that is known.
func workloadKind(gvk schema.GroupVersionKind) (clone.Kind, bool) {
	k, err := clone.KindOf(gvk.GroupVersion().String(), gvk.Kind)
	return k, err == nil
}

// workload adds a workload with its pods and the Services that lead to them. What is missing is shown as missing.
func (f *forest) workload(ctx context.Context, parent *view.Node, gvk schema.GroupVersionKind, key types.NamespacedName, role string) error {
	node := parent.Add(&view.Node{Object: view.Reference{Kind: gvk.Kind, Namespace: key.Namespace, Name: key.Name}, Role: role})
	u := kube.NewWorkload(gvk)
	if err := f.client.Get(ctx, key, u); err != nil {
		return unread(node, err)
	}
	k, known := workloadKind(gvk)
	if !known {
		return nil
	}
	available, wanted := k.Available(u), clone.Replicas(u)
	node.State, node.Trouble = fmt.Sprintf("%d/%d ready", available, wanted), available < wanted
	if u.GetDeletionTimestamp() != nil {
		node.State += ", terminating"
	}
	if trouble := clone.Trouble(u); trouble != "" {
		node.State, node.Trouble = node.State+": "+trouble, true
	}
	services, err := f.servicesFor(ctx, k, u)
	if err != nil {
		if err := unread(node.Add(&view.Node{Role: "Services"}), err); err != nil {
			return err
		}
	}
	for _, name := range services {
		node.Add(&view.Node{Object: view.Reference{Kind: "Service", Namespace: key.Namespace, Name: name}})
	}
	if !f.pods {
		return nil
	}
	pods, err := f.podsFor(ctx, u)
	if err != nil {
		return unread(node.Add(&view.Node{Role: "pods"}), err)
	}
	for i := range pods {
		child := node.Add(&view.Node{Object: view.Reference{Kind: "Pod", Namespace: key.Namespace, Name: pods[i].Name}})
		child.State, child.Trouble = podState(&pods[i])
	}
	return nil
}

// unread has a node say why there is nothing to say of it. Other errors than these are returned.
func unread(node *view.Node, err error) error {
	switch {
	case apierrors.IsNotFound(err):
		node.State, node.Trouble = "missing", true
	case apierrors.IsForbidden(err):
		node.State = noRight
	case meta.IsNoMatchError(err), errors.Is(err, kube.ErrKindNotFound):
		node.State, node.Trouble = noKind, true
	case errors.Is(err, kube.ErrKindAmbiguous):
		node.State, node.Trouble = err.Error(), true
	default:
		return err
	}
	return nil
}

func podState(pod *corev1.Pod) (string, bool) {
	switch {
	case pod.DeletionTimestamp != nil:
		return "terminating", false
	case kube.PodReady(pod):
		return "ready", false
	}
	for _, c := range append(slices.Clone(pod.Status.InitContainerStatuses), pod.Status.ContainerStatuses...) {
		if w := c.State.Waiting; w != nil && w.Reason != "" {
			return strings.ToLower(string(pod.Status.Phase)) + ": " + w.Reason, true
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return "pending: " + c.Message, true
		}
	}
	return strings.ToLower(string(pod.Status.Phase)) + ", not ready", true
}

// belongs reports whether a pod is one of a workload's. Its selector does not tell: that of a group's base takes the pods of
// the clones too.
func belongs(pod *corev1.Pod, u *unstructured.Unstructured) bool {
	owner := metav1.GetControllerOf(pod)
	switch {
	case u.GetKind() == desired.LeaderWorkerSetKind.Kind:
		return pod.Labels["leaderworkerset.sigs.k8s.io/name"] == u.GetName()
	case owner == nil:
		return false
	case u.GetKind() == desired.DeploymentKind.Kind:
		// Its ReplicaSets are named so (https://kubernetes.io/docs/concepts/workloads/controllers/deployment/).
		return owner.Kind == "ReplicaSet" && owner.Name == u.GetName()+"-"+pod.Labels["pod-template-hash"]
	}
	return owner.Kind == u.GetKind() && owner.Name == u.GetName()
}

// podsFor are the pods of a workload, in the order of their names.
func (f *forest) podsFor(ctx context.Context, u *unstructured.Unstructured) ([]corev1.Pod, error) {
	namespace := u.GetNamespace()
	if _, read := f.podsOf[namespace]; !read {
		var list corev1.PodList
		if err := f.client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
		if f.podsOf == nil {
			f.podsOf = map[string][]corev1.Pod{}
		}
		f.podsOf[namespace] = list.Items
	}
	var all []corev1.Pod
	for i := range f.podsOf[namespace] {
		if pod := &f.podsOf[namespace][i]; belongs(pod, u) {
			all = append(all, *pod)
		}
	}
	slices.SortFunc(all, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// servicesFor names the Services whose selector takes the pods of a workload.
func (f *forest) servicesFor(ctx context.Context, k clone.Kind, u *unstructured.Unstructured) ([]string, error) {
	namespace := u.GetNamespace()
	if _, read := f.services[namespace]; !read {
		var list corev1.ServiceList
		if err := f.client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
		if f.services == nil {
			f.services = map[string][]corev1.Service{}
		}
		f.services[namespace] = list.Items
	}
	var names []string
	for _, svc := range f.services[namespace] {
		if len(svc.Spec.Selector) == 0 {
			continue
		}
		selector := labels.SelectorFromSet(svc.Spec.Selector)
		if slices.ContainsFunc(k.TemplateLabels(u), func(set map[string]string) bool { return selector.Matches(labels.Set(set)) }) {
			names = append(names, svc.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

func (f *forest) scaler(ctx context.Context, node *view.Node, s *elasticscalerv1alpha1.ElasticScaler) error {
	// Only Tidals of these may drive it.
	sources := []string{s.Namespace}
	if t := s.Spec.Trigger.StateTrigger; t != nil {
		for _, namespace := range t.SourceNamespaces {
			sources = append(sources, string(namespace))
		}
	}
	slices.Sort(sources)
	for _, namespace := range slices.Compact(sources) {
		var list tidalv1alpha1.TidalList
		if err := f.client.List(ctx, &list, client.InNamespace(namespace)); meta.IsNoMatchError(err) {
			break
		} else if err != nil {
			if err := unread(node.Add(&view.Node{Role: "Tidals of " + namespace}), err); err != nil {
				return fmt.Errorf("looking for Tidals that drive it: %w", err)
			}
		}
		for i := range list.Items {
			if key, bound := tides.Scaler(&list.Items[i]); bound == 2 && key == client.ObjectKeyFromObject(s) {
				child := &view.Node{Object: view.ReferenceTo(view.KindTidal, &list.Items[i]), Role: "driven by"}
				child.State, child.Trouble = state(view.TidalLine(&list.Items[i]))
				node.Add(child)
			}
		}
	}
	ref := s.Spec.TargetRef
	key := types.NamespacedName{Namespace: cmp.Or(ref.Namespace, s.Namespace), Name: ref.Name}
	if strings.EqualFold(ref.Kind, view.KindTidal) {
		// What it scales is the target of the Tidal.
		tidal := &tidalv1alpha1.Tidal{}
		if err := f.client.Get(ctx, key, tidal); err != nil {
			return unread(node.Add(&view.Node{Object: view.Reference{Kind: view.KindTidal, Namespace: key.Namespace, Name: key.Name}, Role: "scales what is scaled by"}), err)
		}
		to := tidal.Spec.TargetRef
		return f.reference(ctx, node, to.APIVersion, to.Kind, types.NamespacedName{Namespace: cmp.Or(to.Namespace, tidal.Namespace), Name: to.Name})
	}
	return f.reference(ctx, node, ref.APIVersion, ref.Kind, key)
}

// reference adds what a scaler scales, of the kind that the managers understand by the words of the reference.
func (f *forest) reference(ctx context.Context, node *view.Node, apiVersion, kindName string, key types.NamespacedName) error {
	found, err := f.served.FindNamed(apiVersion, kindName)
	if err != nil {
		return unread(node.Add(&view.Node{Object: view.Reference{Kind: kindName, Namespace: key.Namespace, Name: key.Name}, Role: "scales"}), err)
	}
	i := slices.IndexFunc(kinds, func(k kind) bool {
		gvk, err := f.client.GroupVersionKindFor(k.make())
		return err == nil && gvk.GroupKind() == found.GroupKind()
	})
	if i < 0 {
		return f.workload(ctx, node, found.GroupVersionKind, key, "scales")
	}
	obj := kinds[i].make()
	if err := f.client.Get(ctx, key, obj); err != nil {
		return unread(node.Add(&view.Node{Object: view.Reference{Kind: found.Kind, Namespace: key.Namespace, Name: key.Name}, Role: "scales"}), err)
	}
	child, err := f.tree(ctx, kinds[i], obj)
	if err != nil {
		return err
	}
	child.Role = "scales"
	node.Add(child)
	return nil
}

func (f *forest) tidal(ctx context.Context, node *view.Node, t *tidalv1alpha1.Tidal) error {
	if key, bound := tides.Scaler(t); bound == 2 {
		return f.reference(ctx, node, elasticscalerv1alpha1.GroupVersion.String(), view.KindScaler, key)
	}
	ref := t.Spec.TargetRef
	return f.reference(ctx, node, ref.APIVersion, ref.Kind, types.NamespacedName{Namespace: cmp.Or(ref.Namespace, t.Namespace), Name: ref.Name})
}

func (f *forest) policy(ctx context.Context, node *view.Node, p *omev1beta1.AutoscalerPolicy) error {
	var list omev1beta1.InferenceServiceList
	if err := f.client.List(ctx, &list, client.InNamespace(p.Namespace)); err != nil {
		return unread(node.Add(&view.Node{Role: "InferenceServices"}), err)
	}
	for i := range list.Items {
		for _, use := range policyresolve.Uses(list.Items[i].Spec) {
			if use.Policy == p.Name {
				child := &view.Node{Object: view.ReferenceTo(view.KindService, &list.Items[i]), Role: "named by the " + use.Component + " of"}
				child.State, child.Trouble = state(view.ServiceLine(&list.Items[i]))
				node.Add(child)
			}
		}
	}
	return nil
}

func (f *forest) service(ctx context.Context, node *view.Node, s *omev1beta1.InferenceService) error {
	for _, c := range servingcomponent.Of(s.Spec, nil) {
		status := policyresolve.Status(s.Status.Components, c.Name)
		if status == nil || status.ScaleTargetRef == nil {
			node.Add(&view.Node{Role: c.Name, State: "has no workload yet", Trouble: true})
			continue
		}
		component := node.Add(&view.Node{Role: c.Name})
		ref := status.ScaleTargetRef
		if err := f.workload(ctx, component, schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind), types.NamespacedName{Namespace: s.Namespace, Name: ref.Name}, "runs as"); err != nil {
			return err
		}
		if a := status.Autoscaler; a != nil && a.ManagedBy == omev1beta1.ManagedByOME {
			serving := desired.ServingComponent{Service: s, Component: c}
			ref := view.Reference{Kind: desired.HPAKind.Kind, Namespace: s.Namespace, Name: serving.Name()}
			if a.Class == omev1beta1.ClassKEDA {
				ref.Kind, ref.Name = desired.ScaledObjectKind.Kind, serving.ScaledObjectName()
			}
			child := component.Add(&view.Node{Object: ref, Role: "scaled by", State: "settings from " + string(a.SpecSource)})
			if troubles := view.Troubles(view.KindService, "", a.Conditions); len(troubles) > 0 {
				child.State, child.Trouble = troubles[0].Reason, true
			}
			if a.Policy != nil {
				component.Add(&view.Node{Object: view.Reference{Kind: view.KindPolicy, Namespace: s.Namespace, Name: a.Policy.Name}, Role: "by policy"})
			}
		}
	}
	return nil
}
