package autoscalerpolicy

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/condition"
	"github.com/pd-orchestrator/pd-orchestrator/internal/desired"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
)

// workload sees to the workload and the Service of a component. What keeps them from being as they should is noted; what is
// there stays.
func (r *Services) workload(ctx context.Context, p *pass, o *desired.ComponentObservation) error {
	problem := func(reason, format string, args ...any) {
		if o.Problem == nil {
			o.Problem = &condition.Problem{Reason: reason, Message: fmt.Sprintf(format, args...)}
		}
	}
	if o.Unknown {
		problem(v1beta1.ReasonRuntimeUnresolved, "%s", p.facts.choice.Message)
	}
	target := o.Component.Target()
	kind := schema.FromAPIVersionAndKind(target.APIVersion, target.Kind)
	if kind == desired.LeaderWorkerSetKind && !p.facts.served.LeaderWorkerSets {
		problem(v1beta1.ReasonWorkloadKindUnavailable, "a component with leader and worker needs LeaderWorkerSets, which are not installed")
		return nil
	}
	live, err := r.read(ctx, kind, p.service.Namespace, target.Name)
	if err != nil {
		return err
	}
	if live != nil && !metav1.IsControlledBy(live, p.service) {
		problem(v1beta1.ReasonNotOwned, "%s %s is there and not of this service: delete it, or rename the service", kind.Kind, target.Name)
		return nil
	}
	o.Workload = live
	if o.Unknown {
		return nil
	}
	pods, err := o.Component.Component.Pods()
	if err != nil {
		problem(v1beta1.ReasonInvalidSpec, "%v", err)
		return nil
	}
	o.URL = o.Component.URL(pods)
	wanted, err := o.Component.Workload(pods)
	if err != nil {
		return err
	}
	least, _ := o.Component.Component.Bounds()
	switch written, err := r.applyWorkload(ctx, wanted, live, least); {
	case kube.Refused(err):
		problem(v1beta1.ReasonInvalidSpec, "%v", err)
		p.retryIn(unwatchedRetry)
		return nil
	case err != nil:
		return err
	case written:
		o.Workload = wanted
	}
	service, err := o.Component.ClusterService(pods)
	if err != nil {
		return err
	}
	liveService, err := r.read(ctx, desired.ServiceKind, p.service.Namespace, service.GetName())
	if err != nil {
		return err
	}
	if liveService != nil && !metav1.IsControlledBy(liveService, p.service) {
		problem(v1beta1.ReasonNotOwned, "Service %s is there and not of this service: delete it, or rename the service", service.GetName())
		return nil
	}
	if _, err := r.apply(ctx, service, liveService); kube.Refused(err) {
		problem(v1beta1.ReasonInvalidSpec, "%v", err)
		p.retryIn(unwatchedRetry)
	} else if err != nil {
		return err
	}
	return nil
}

// applyWorkload applies a workload where it differs from the live one. Its count is not part of what is applied, since it
// belongs to whoever scales: a new workload begins with the least.
func (r *Services) applyWorkload(ctx context.Context, wanted, live *unstructured.Unstructured, least int32) (bool, error) {
	if live == nil && least != 1 {
		// Nobody has a count to take away from a workload that is not there.
		if err := unstructured.SetNestedField(wanted.Object, int64(least), "spec", "replicas"); err != nil {
			return false, err
		}
		if err := unstructured.SetNestedField(wanted.Object, "true", "metadata", "annotations", annotationHoldsCount); err != nil {
			return false, err
		}
		if _, err := r.apply(ctx, wanted, nil); err != nil {
			return false, err
		}
		return true, r.handOver(ctx, wanted)
	}
	if live != nil && live.GetAnnotations()[annotationHoldsCount] != "" && !kube.HasAll(live, wanted) {
		if err := r.handOver(ctx, live); err != nil {
			return false, err
		}
	}
	return r.apply(ctx, wanted, live)
}

// annotationHoldsCount tells that the count is among what was applied when the workload was made. What is applied later
// leaves it out, and the API server would set it to 1, unless somebody else holds it too.
const annotationHoldsCount = "ome.io/holds-initial-count"

// handOver has the count of a workload held by a field owner of its own, who never applies anything else, until somebody
// scales.
func (r *Services) handOver(ctx context.Context, workload *unstructured.Unstructured) error {
	count, found, _ := unstructured.NestedInt64(workload.Object, "spec", "replicas")
	if !found {
		return nil
	}
	held := kube.NewWorkload(workload.GroupVersionKind())
	held.SetNamespace(workload.GetNamespace())
	held.SetName(workload.GetName())
	held.SetUID(workload.GetUID())
	if err := unstructured.SetNestedField(held.Object, count, "spec", "replicas"); err != nil {
		return err
	}
	if err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(held), kube.FieldOwner(Component+"-initial-count")); err != nil {
		return fmt.Errorf("handing over the count of %s: %w", kube.Describe(workload), err)
	}
	r.Telemetry.Written(workload.GetKind())
	workload.SetResourceVersion(held.GetResourceVersion())
	return nil
}

// apply applies an object where it differs from the live one.
func (r *Services) apply(ctx context.Context, wanted, live *unstructured.Unstructured) (bool, error) {
	written, err := kube.ApplyObject(ctx, r.Client, wanted, live, kube.FieldOwner(Component))
	if written {
		r.Telemetry.Written(wanted.GetKind())
		log.FromContext(ctx).V(1).Info("Applied", "object", kube.Describe(wanted))
	}
	return written, err
}

// keepLastGood puts what a policy rendered to on the workload, once it is dispatched, and takes the record off a workload
// whose component names no policy any more.
func (r *Services) keepLastGood(ctx context.Context, o *desired.ComponentObservation) error {
	before, recorded := o.Workload.GetAnnotations()[v1beta1.AnnotationLastRenderedAutoscaler]
	var value *string
	switch {
	case o.Resolution.Rendered():
		text, err := json.Marshal(o.Resolution.Autoscaler)
		if err != nil {
			return fmt.Errorf("encoding the autoscaler: %w", err)
		}
		after := string(text)
		if after == before {
			return nil
		}
		value = &after
	case o.Component.Component.Own.AutoscalerPolicyRef != nil || !recorded:
		return nil
	}
	r.Telemetry.Written(o.Workload.GetKind())
	return kube.Mark(ctx, r.Client, o.Workload, kube.Marks{Annotations: map[string]*string{v1beta1.AnnotationLastRenderedAutoscaler: value}})
}

// removeLeftovers deletes what the service owns of components that it does not name any more, and the workload of another
// kind that a component had before once the new one serves.
func (r *Services) removeLeftovers(ctx context.Context, p *pass) error {
	keep := map[string]bool{}
	for _, o := range p.seen.Components {
		target := o.Component.Target()
		keep[target.Kind+" "+target.Name] = true
		for _, kind := range []schema.GroupVersionKind{desired.ServiceKind, desired.HPAKind} {
			keep[kind.Kind+" "+o.Component.Name()] = true
		}
		keep[desired.ScaledObjectKind.Kind+" "+o.Component.ScaledObjectName()] = true
		if !o.Serves() {
			for _, kind := range []schema.GroupVersionKind{desired.DeploymentKind, desired.LeaderWorkerSetKind} {
				keep[kind.Kind+" of "+o.Component.Component.Name] = true
			}
		}
	}
	kinds := []schema.GroupVersionKind{desired.DeploymentKind, desired.ServiceKind, desired.HPAKind}
	if p.facts.served.Keda {
		kinds = append(kinds, desired.ScaledObjectKind)
	}
	if p.facts.served.LeaderWorkerSets {
		kinds = append(kinds, desired.LeaderWorkerSetKind)
	}
	for _, kind := range kinds {
		owned, err := r.owned(ctx, kind, p.service)
		if err != nil {
			return err
		}
		for i := range owned {
			u := &owned[i]
			if keep[kind.Kind+" "+u.GetName()] || keep[kind.Kind+" of "+u.GetLabels()[v1beta1.LabelComponent]] || u.GetDeletionTimestamp() != nil {
				continue
			}
			if err := r.delete(ctx, u, metav1.DeletePropagationBackground); err != nil {
				return err
			}
		}
	}
	return nil
}

// owned lists the objects of a kind that an object controls.
func (r *Services) owned(ctx context.Context, kind schema.GroupVersionKind, owner client.Object) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := r.Client.List(ctx, list, client.InNamespace(owner.GetNamespace()), client.MatchingFields{indexController: string(owner.GetUID())})
	if err != nil {
		return nil, fmt.Errorf("listing what %s owns: %w", owner.GetName(), err)
	}
	return list.Items, nil
}

// delete deletes exactly this object.
func (r *Services) delete(ctx context.Context, u *unstructured.Unstructured, propagation metav1.DeletionPropagation) error {
	uid := u.GetUID()
	if err := r.Client.Delete(ctx, u, client.Preconditions{UID: &uid}, client.PropagationPolicy(propagation)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s: %w", kube.Describe(u), err)
	}
	r.Telemetry.Written(u.GetKind())
	log.FromContext(ctx).Info("Deleted", "object", kube.Describe(u))
	return nil
}
