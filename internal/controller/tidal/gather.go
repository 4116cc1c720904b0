package tidal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	autoscalingv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	elasticscalerv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/condition"
	"github.com/pd-orchestrator/pd-orchestrator/internal/config"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/scalerspec"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/tides"
	"github.com/pd-orchestrator/pd-orchestrator/internal/desired"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
)

// facts is what one pass has read of other objects. Everything comes from caches.
type facts struct {
	bound   bool
	binding *desired.Binding
	// target is nil where it does not exist or may not be read.
	target client.Object
	// problems keep the count from its target. With blocked set nothing may be written.
	problems []condition.Problem
	blocked  bool
	// sharedWith names other scalers of the target, and yieldsTo the Tidal that has the first right to it.
	sharedWith []string
	yieldsTo   string
	// rivals tells that another Tidal writes the target, or would.
	rivals bool
	retry  time.Duration
}

func (f *facts) block(reason, format string, args ...any) {
	f.blocked = true
	f.problems = append(f.problems, condition.Problem{Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// gather reads everything that the decisions need. An error means that something could not be read, so nothing may be
// written; what was read and is wrong is a problem.
func (r *Reconciler) gather(ctx context.Context, tidal *v1alpha1.Tidal) (facts, error) {
	var f facts
	if err := r.gatherBinding(ctx, tidal, &f); err != nil {
		return f, err
	}
	if f.bound {
		return f, nil
	}
	if err := r.gatherTarget(ctx, tidal, &f); err != nil {
		return f, err
	}
	if f.blocked {
		return f, nil
	}
	if err := r.gatherScalers(ctx, tidal, &f); err != nil {
		return f, err
	}
	return f, nil
}

func (r *Reconciler) gatherBinding(ctx context.Context, tidal *v1alpha1.Tidal, f *facts) error {
	key, labels := tides.Scaler(tidal)
	not := func(reason, format string, args ...any) {
		f.binding = &desired.Binding{Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	if labels == 0 {
		return nil
	}
	if labels == 1 {
		not(v1alpha1.ReasonIncompleteLabels, "only one of the labels %s and %s is there, so this Tidal is not bound and writes the count itself: set both, or neither",
			elasticscalerv1alpha1.LabelScalerName, elasticscalerv1alpha1.LabelScalerNamespace)
		return nil
	}
	f.bound = true
	scaler := &elasticscalerv1alpha1.ElasticScaler{}
	served, err := r.watches.ensureScalers(ctx)
	if err != nil {
		return err
	}
	if !served {
		not(v1alpha1.ReasonScalerNotFound, "ElasticScaler %s does not exist, since its CRD is not installed", key)
		f.retry = unwatchedRetry
		return nil
	}
	switch err := r.Client.Get(ctx, key, scaler); {
	case apierrors.IsNotFound(err):
		not(v1alpha1.ReasonScalerNotFound, "ElasticScaler %s does not exist: create it, or take the labels off to let this Tidal write the count itself", key)
	case err != nil:
		return fmt.Errorf("reading ElasticScaler %s: %w", key, err)
	case scaler.Spec.Trigger.Type != elasticscalerv1alpha1.StateTriggerType:
		not(v1alpha1.ReasonScalerWithoutStateTrigger, "ElasticScaler %s has trigger type %s: must be %s to apply the count of a Tidal",
			key, scaler.Spec.Trigger.Type, elasticscalerv1alpha1.StateTriggerType)
	case !takesFrom(scaler, tidal.Namespace):
		not(v1alpha1.ReasonSourceNotAllowed, "ElasticScaler %s takes no count from namespace %s: it must be in its stateTrigger.sourceNamespaces", key, tidal.Namespace)
	default:
		f.binding = &desired.Binding{Applies: true, Reason: v1alpha1.ReasonScalerApplies, Message: fmt.Sprintf("ElasticScaler %s applies the count", key)}
	}
	return nil
}

func takesFrom(scaler *elasticscalerv1alpha1.ElasticScaler, namespace string) bool {
	if scaler.Namespace == namespace {
		return true
	}
	s := scaler.Spec.Trigger.StateTrigger
	return s != nil && slices.Contains(s.SourceNamespaces, elasticscalerv1alpha1.NamespaceName(namespace))
}

// allowed reports whether the target's namespace may be acted on.
func (r *Reconciler) allowed(tidal *v1alpha1.Tidal) bool {
	return tidal.Spec.TargetRef.Namespace == tidal.Namespace || r.CrossNamespace != config.CrossNamespaceDenied
}

func (r *Reconciler) gatherTarget(ctx context.Context, tidal *v1alpha1.Tidal, f *facts) error {
	ref := tidal.Spec.TargetRef
	if !r.allowed(tidal) {
		f.block(v1alpha1.ReasonTargetForbidden, "the target is in namespace %s: must be in %s, unless the operator allows other namespaces", ref.Namespace, tidal.Namespace)
		return nil
	}
	kind, err := r.Kinds.Find(ref.APIVersion, ref.Kind)
	switch {
	case errors.Is(err, kube.ErrKindNotFound):
		f.block(v1alpha1.ReasonTargetKindNotFound, "the API server serves no kind %s in %s: correct spec.targetRef, or install its CRD", ref.Kind, ref.APIVersion)
		f.retry = unwatchedRetry
		return nil
	case err != nil:
		return err
	case !kind.Scalable || !kind.Namespaced:
		f.block(v1alpha1.ReasonTargetNotScalable, "%s %s/%s cannot be scaled, since kind %s has no scale subresource: must be a kind that has one, such as Deployment, StatefulSet or ResourceScalingGroup",
			ref.Kind, ref.Namespace, ref.Name, kind.Kind)
		f.retry = unwatchedRetry
		return nil
	}
	target := newTarget(kind.GroupVersionKind)
	target.SetNamespace(ref.Namespace)
	target.SetName(ref.Name)
	synced, err := r.watches.ensureTarget(ctx, target)
	if err != nil {
		return err
	}
	if !synced {
		// Its kind may be listed by nobody. What cannot be watched is asked for.
		return r.gatherUnwatched(ctx, target, f)
	}
	switch err := r.Client.Get(ctx, client.ObjectKeyFromObject(target), target); {
	case apierrors.IsNotFound(err):
		f.block(v1alpha1.ReasonTargetNotFound, "target %s does not exist: create it, or correct spec.targetRef", kube.Describe(target))
		return nil
	case err != nil:
		return fmt.Errorf("reading %s: %w", kube.Describe(target), err)
	}
	target.GetObjectKind().SetGroupVersionKind(kind.GroupVersionKind)
	if rsg, ok := target.(*autoscalingv1alpha1.ResourceScalingGroup); ok && rsg.Spec.ScalingStrategy.Type != autoscalingv1alpha1.GroupReplication {
		f.block(v1alpha1.ReasonTargetNotScalable, "%s has strategy %s, which has no group count to scale: target its leader instead, or a ResourceScalingGroup of %s",
			kube.Describe(target), rsg.Spec.ScalingStrategy.Type, autoscalingv1alpha1.GroupReplication)
		return nil
	}
	f.target = target
	return nil
}

// gatherUnwatched finds a target by its scale subresource. One that is missing is asked for again, since no watch tells when
// it comes; one that is there is left in peace until the next firing.
func (r *Reconciler) gatherUnwatched(ctx context.Context, target client.Object, f *facts) error {
	address := addressOf(target)
	_, err := kube.ReadScale(ctx, r.Client, address)
	switch {
	case apierrors.IsNotFound(err):
		f.block(v1alpha1.ReasonTargetNotFound, "target %s does not exist: create it, or correct spec.targetRef", kube.Describe(target))
		f.retry = unwatchedRetry
	case apierrors.IsForbidden(err):
		f.block(v1alpha1.ReasonScaleFailed, "%v: give the manager's ServiceAccount the verbs get and update on it, and list and watch on the kind", err)
		f.retry = unwatchedRetry
	case err != nil:
		return err
	default:
		f.target = address
	}
	return nil
}

// newTarget returns the object that a target is read into: of most kinds the metadata are enough, while the strategy of a
// ResourceScalingGroup decides whether it can be scaled.
func newTarget(gvk schema.GroupVersionKind) client.Object {
	if gvk.Group == autoscalingv1alpha1.GroupVersion.Group && gvk.Kind == "ResourceScalingGroup" {
		rsg := &autoscalingv1alpha1.ResourceScalingGroup{}
		rsg.SetGroupVersionKind(gvk)
		return rsg
	}
	target := &metav1.PartialObjectMetadata{}
	target.SetGroupVersionKind(gvk)
	return target
}

// gatherScalers finds who else writes the count of the target.
func (r *Reconciler) gatherScalers(ctx context.Context, tidal *v1alpha1.Tidal, f *facts) error {
	key := targetOf(tidal)
	var hpas autoscalingv2.HorizontalPodAutoscalerList
	if err := r.Client.List(ctx, &hpas, client.MatchingFields{indexTarget: key}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing HPAs: %w", err)
	}
	for i := range hpas.Items {
		f.sharedWith = append(f.sharedWith, kube.DescribeScaler(&hpas.Items[i]))
	}
	var tidals v1alpha1.TidalList
	if err := r.Client.List(ctx, &tidals, client.MatchingFields{indexTarget: key}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing Tidals: %w", err)
	}
	scalers, err := r.elasticScalersOf(ctx, key, tidals.Items)
	if err != nil {
		return err
	}
	f.sharedWith = append(f.sharedWith, scalers...)
	slices.Sort(f.sharedWith)
	f.sharedWith = slices.Compact(f.sharedWith)
	r.rank(tidal, tidals.Items, f)
	return nil
}

// elasticScalersOf names the ElasticScalers of a target: those that name it, and those that name one of its Tidals which is
// bound.
func (r *Reconciler) elasticScalersOf(ctx context.Context, target string, tidals []v1alpha1.Tidal) ([]string, error) {
	served, err := r.watches.ensureScalers(ctx)
	if errors.Is(err, errUnlisted) {
		// A firing does not wait for a condition that only names others.
		log.FromContext(ctx).V(1).Info("Scalers of the target are not known", "cause", err.Error())
		return nil, nil
	}
	if err != nil || !served {
		return nil, err
	}
	var names []string
	name := func(key string, counts func(*elasticscalerv1alpha1.ElasticScaler) bool) error {
		for _, k := range []string{key, kube.WithoutGroup(key)} {
			var scalers elasticscalerv1alpha1.ElasticScalerList
			if err := r.Client.List(ctx, &scalers, client.MatchingFields{indexTarget: k}, client.UnsafeDisableDeepCopy); err != nil {
				return fmt.Errorf("listing ElasticScalers: %w", err)
			}
			for i := range scalers.Items {
				if s := &scalers.Items[i]; counts(s) {
					names = append(names, fmt.Sprintf("ElasticScaler %s/%s", s.Namespace, s.Name))
				}
			}
		}
		return nil
	}
	if err := name(target, func(*elasticscalerv1alpha1.ElasticScaler) bool { return true }); err != nil {
		return nil, err
	}
	for i := range tidals {
		if !tides.Bound(&tidals[i]) {
			continue
		}
		key := kube.TargetKey(v1alpha1.GroupVersion.String(), "Tidal", tidals[i].Namespace, tidals[i].Name)
		if err := name(key, func(s *elasticscalerv1alpha1.ElasticScaler) bool { return scalerspec.NamesTidal(s.Spec) }); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// rank finds the Tidal that has the first right to the target.
func (r *Reconciler) rank(tidal *v1alpha1.Tidal, all []v1alpha1.Tidal, f *facts) {
	first := tidal
	for i := range all {
		other := &all[i]
		if other.UID == tidal.UID || !r.allowed(other) || !tides.Writes(other) {
			continue
		}
		f.rivals = true
		if tides.Before(other, first) {
			first = other
		}
	}
	if first != tidal {
		f.yieldsTo = fmt.Sprintf("Tidal %s/%s", first.Namespace, first.Name)
	}
}
