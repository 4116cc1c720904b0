package elasticscaler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	autoscalingv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/config"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/groupspec"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/scalerspec"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/usage"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

// Labels of the pods of a LeaderWorkerSet: docs/compatibility.md lists them.
const labelLWSGroupIndex = "leaderworkerset.sigs.k8s.io/group-index"

// target is the object that is scaled.
type target struct {
	kind    kube.Kind
	key     types.NamespacedName
	uid     types.UID
	handler scaling.ResourceHandler
	// count is the present one, as far as it is known.
	count scaling.Replicas
}

func (t *target) reference() scaling.Target {
	return scaling.Target{APIVersion: t.kind.GroupVersion().String(), Kind: t.kind.Kind, Namespace: t.key.Namespace, Name: t.key.Name}
}

func (t *target) String() string { return t.kind.Kind + " " + t.key.String() }

func (t *target) isGroup() bool {
	return t.kind.GroupVersionKind == groupKind
}

// scaleHandler is the handler of all kinds with a scale subresource.
type scaleHandler struct{}

func addressOf(t scaling.Target) *unstructured.Unstructured {
	u := kube.NewWorkload(schema.FromAPIVersionAndKind(t.APIVersion, t.Kind))
	u.SetNamespace(t.Namespace)
	u.SetName(t.Name)
	return u
}

// GetCurrentReplicas implements scaling.ResourceHandler.
func (scaleHandler) GetCurrentReplicas(ctx context.Context, c client.Client, t scaling.Target) (scaling.Replicas, error) {
	scale, err := kube.ReadScale(ctx, c, addressOf(t))
	if err != nil {
		return scaling.Replicas{}, err
	}
	return replicasOf(scale), nil
}

func replicasOf(scale *autoscalingv1.Scale) scaling.Replicas {
	return scaling.Replicas{
		Desired: scale.Spec.Replicas, Current: scale.Status.Replicas, Selector: scale.Status.Selector,
		UID: scale.UID, ResourceVersion: scale.ResourceVersion,
	}
}

// UpdateReplicas implements scaling.ResourceHandler.
func (scaleHandler) UpdateReplicas(ctx context.Context, c client.Client, t scaling.Target, read scaling.Replicas, replicas int32) error {
	u := addressOf(t)
	u.SetUID(read.UID)
	u.SetResourceVersion(read.ResourceVersion)
	return kube.Scale(ctx, c, u, replicas)
}

// named returns the reference to what is scaled: that of the scaler or, where it names a Tidal that drives it, the
// Tidal's. It is nil where there is no such Tidal.
func (r *Reconciler) named(ctx context.Context, scaler *v1alpha1.ElasticScaler) (*v1alpha1.TargetReference, error) {
	ref := scaler.Spec.TargetRef
	ref.Namespace = cmp.Or(ref.Namespace, scaler.Namespace)
	if !scalerspec.NamesTidal(scaler.Spec) {
		return &ref, nil
	}
	inner, err := r.sources.tidal(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
	if inner != nil {
		inner.Namespace = cmp.Or(inner.Namespace, ref.Namespace)
	}
	return inner, err
}

// effectiveTargetKey is the TargetKey of what the scaler scales.
func (r *Reconciler) effectiveTargetKey(ctx context.Context, scaler *v1alpha1.ElasticScaler) string {
	ref, err := r.named(ctx, scaler)
	if err != nil || ref == nil {
		return namedTarget(scaler)
	}
	return kube.TargetKey(ref.APIVersion, ref.Kind, ref.Namespace, ref.Name)
}

// gatherTarget finds the object that is scaled and its count. What keeps it from being scaled becomes a problem of the pass.
func (r *Reconciler) gatherTarget(ctx context.Context, p *pass) error {
	ref, err := r.named(ctx, p.scaler)
	if err != nil {
		return err
	}
	if ref == nil {
		p.invalid(v1alpha1.ReasonTargetNotFound, "Tidal %s/%s does not exist or does not name this scaler by its labels: create it, or correct spec.targetRef",
			cmp.Or(p.scaler.Spec.TargetRef.Namespace, p.scaler.Namespace), p.scaler.Spec.TargetRef.Name)
		return nil
	}
	if ref.Namespace != p.scaler.Namespace && r.CrossNamespace == config.CrossNamespaceDenied {
		p.invalid(v1alpha1.ReasonTargetForbidden, "the target is in namespace %s: must be in %s, unless the operator sets crossNamespace: Trusted", ref.Namespace, p.scaler.Namespace)
		return nil
	}
	kind, err := r.Kinds.FindNamed(ref.APIVersion, ref.Kind)
	switch {
	case errors.Is(err, kube.ErrKindAmbiguous):
		p.invalid(v1alpha1.ReasonTargetKindAmbiguous, "%v: set spec.targetRef.apiVersion", err)
		p.retryIn(unwatchedRetry)
		return nil
	case errors.Is(err, kube.ErrKindNotFound):
		p.invalid(v1alpha1.ReasonTargetKindNotFound, "%v: correct spec.targetRef, or install its CRD", err)
		p.retryIn(unwatchedRetry)
		return nil
	case err != nil:
		return err
	}
	t := &target{kind: kind, key: types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, handler: scaleHandler{}}
	if h, ok := scaling.LookupResourceHandler(kind.GroupVersion().String(), kind.Kind); ok {
		t.handler = h
	} else if !kind.Scalable || !kind.Namespaced {
		p.invalid(v1alpha1.ReasonTargetNotScalable, "%s cannot be scaled, since kind %s has no scale subresource: must be a kind that has one, such as Deployment, StatefulSet or ResourceScalingGroup",
			t, kind.Kind)
		p.retryIn(unwatchedRetry)
		return nil
	}
	return r.readTarget(ctx, p, t)
}

// readTarget reads the count where the object is another one, or of another version, than the count that is remembered.
func (r *Reconciler) readTarget(ctx context.Context, p *pass, t *target) error {
	obj := newTarget(t.kind.GroupVersionKind)
	synced, err := r.ensureTarget(ctx, t.kind.GroupVersionKind)
	if err != nil {
		return err
	}
	known := p.known.count
	if synced {
		switch err := r.Client.Get(ctx, t.key, obj); {
		case apierrors.IsNotFound(err):
			p.invalid(v1alpha1.ReasonTargetNotFound, "target %s does not exist: create it, or correct spec.targetRef", t)
			return nil
		case err != nil:
			return fmt.Errorf("reading %s: %w", t, err)
		}
		if rsg, ok := obj.(*autoscalingv1alpha1.ResourceScalingGroup); ok {
			if strategy := rsg.Spec.ScalingStrategy.Type; strategy != autoscalingv1alpha1.GroupReplication {
				p.invalid(v1alpha1.ReasonTargetNotScalable, "%s has strategy %s, which has no group count to scale: target its leader instead, or a ResourceScalingGroup of %s",
					t, strategy, autoscalingv1alpha1.GroupReplication)
				return nil
			}
		}
		if known.target == t.reference() && known.count.UID == obj.GetUID() && known.version == obj.GetResourceVersion() {
			t.uid, t.count, p.target = obj.GetUID(), known.count, t
			return nil
		}
	} else {
		p.retryIn(unwatchedRetry)
	}
	switch t.count, err = t.handler.GetCurrentReplicas(ctx, r.Client, t.reference()); {
	case apierrors.IsNotFound(err):
		p.invalid(v1alpha1.ReasonTargetNotFound, "target %s does not exist: create it, or correct spec.targetRef", t)
		p.retryIn(unwatchedRetry)
		return nil
	case apierrors.IsForbidden(err):
		p.invalid(v1alpha1.ReasonTargetForbidden, "%v: give the manager's ServiceAccount the verbs get and update on it, and list and watch on the kind", err)
		p.retryIn(unwatchedRetry)
		return nil
	case apierrors.IsInternalError(err), apierrors.IsMethodNotSupported(err), apierrors.IsBadRequest(err):
		p.invalid(v1alpha1.ReasonTargetNotScalable, "%s has no count that can be read: %v", t, err)
		p.retryIn(unwatchedRetry)
		return nil
	case err != nil:
		return err
	}
	t.uid, p.target = t.count.UID, t
	p.known.count = knownCount{target: t.reference(), version: obj.GetResourceVersion(), count: t.count}
	return nil
}

// knownCount is a count that was read, and the version of the object that the watch showed then.
type knownCount struct {
	target  scaling.Target
	version string
	count   scaling.Replicas
}

// newTarget returns the object that a target is watched as: of most kinds the metadata are enough, while the strategy of a
// ResourceScalingGroup decides whether it can be scaled.
func newTarget(gvk schema.GroupVersionKind) client.Object {
	if gvk == groupKind {
		return &autoscalingv1alpha1.ResourceScalingGroup{}
	}
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(gvk)
	return m
}

func (r *Reconciler) ensureTarget(ctx context.Context, gvk schema.GroupVersionKind) (bool, error) {
	if gvk == groupKind {
		return r.ensureGroups(ctx)
	}
	return r.watches.Ensure(ctx, kube.Watch{
		Object: newTarget(gvk),
		Kind:   gvk,
		Handler: handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
			return r.requestsForTarget(ctx, kube.TargetKey(gvk.GroupVersion().String(), gvk.Kind, obj.GetNamespace(), obj.GetName()))
		}),
	})
}

var groupKind = autoscalingv1alpha1.GroupVersion.WithKind("ResourceScalingGroup")

// ensureGroups sees to it that ResourceScalingGroups are watched: as targets, and as keepers of the counts of others.
func (r *Reconciler) ensureGroups(ctx context.Context) (bool, error) {
	return r.watches.Ensure(ctx, kube.Watch{
		Object: &autoscalingv1alpha1.ResourceScalingGroup{},
		Kind:   groupKind,
		Index: func(ctx context.Context) error {
			return r.cache.IndexField(ctx, &autoscalingv1alpha1.ResourceScalingGroup{}, indexKeeper, keptByGroup)
		},
		Handler: handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
			keys := append(keptByGroup(obj), kube.TargetKey(groupKind.GroupVersion().String(), groupKind.Kind, obj.GetNamespace(), obj.GetName()))
			var requests []reconcile.Request
			for _, key := range keys {
				requests = append(requests, r.requestsForTarget(ctx, key)...)
			}
			return requests
		}),
	})
}

// keptByGroup are the TargetKeys of the workloads whose counts a ResourceScalingGroup keeps.
func keptByGroup(obj client.Object) []string {
	var keys []string
	for _, w := range groupspec.OwnCounts(obj.(*autoscalingv1alpha1.ResourceScalingGroup)) {
		keys = append(keys, kube.TargetKey(w.Group+"/v", w.Kind, w.Namespace, w.Name))
	}
	return keys
}

// podsOf returns the pods of a target as the decision sees them, with the namespaces that they are in. Ownership counts
// where there is one; the pods of a ResourceScalingGroup carry its name.
func (r *Reconciler) podsOf(ctx context.Context, t *target) ([]usage.Pod, []string, error) {
	var pods []corev1.Pod
	unitLabel := t.count.UnitLabel
	if t.isGroup() {
		unitLabel = autoscalingv1alpha1.LabelGroupID
		var list corev1.PodList
		if err := r.Client.List(ctx, &list, client.MatchingFields{indexGroup: t.key.String()}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, nil, fmt.Errorf("listing the pods of %s: %w", t, err)
		}
		pods = list.Items
	} else {
		owned, err := kube.PodsOf(ctx, r.Client, t.key.Namespace, t.uid)
		if err != nil {
			return nil, nil, err
		}
		if pods = owned.All; len(pods) == 0 {
			if pods, err = r.podsBySelector(ctx, t); err != nil {
				return nil, nil, err
			}
		}
		if t.kind.Kind == "LeaderWorkerSet" {
			unitLabel = labelLWSGroupIndex
		}
	}
	namespaces := map[string]bool{}
	out := make([]usage.Pod, len(pods))
	for i := range pods {
		namespaces[pods[i].Namespace] = true
		unit := ""
		if unitLabel != "" {
			unit = pods[i].Labels[unitLabel]
		}
		out[i] = usage.FromPod(&pods[i], unit)
		out[i].Name = podKey(pods[i].Namespace, pods[i].Name)
	}
	if len(namespaces) == 0 {
		namespaces[t.key.Namespace] = true
	}
	return out, slices.Sorted(maps.Keys(namespaces)), nil
}

// podKey tells pods apart, also those of several namespaces.
func podKey(namespace, name string) string { return namespace + "/" + name }

// podsBySelector finds the pods of a kind whose controller owns them in a way that is not known here.
func (r *Reconciler) podsBySelector(ctx context.Context, t *target) ([]corev1.Pod, error) {
	selector, err := labels.Parse(t.count.Selector)
	if err != nil || selector.Empty() || ownedPods[t.kind.GroupKind()] {
		return nil, nil //nolint:nilerr // Without a selector no pods are known.
	}
	var list corev1.PodList
	if err := r.Client.List(ctx, &list, client.InNamespace(t.key.Namespace), client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the pods of %s: %w", t, err)
	}
	return list.Items, nil
}

// ownedPods are the kinds whose pods are found by ownership alone: their selector matches pods of clones too.
var ownedPods = map[schema.GroupKind]bool{
	{Group: "apps", Kind: "Deployment"}:                          true,
	{Group: "apps", Kind: "StatefulSet"}:                         true,
	{Group: "leaderworkerset.x-k8s.io", Kind: "LeaderWorkerSet"}: true,
}
