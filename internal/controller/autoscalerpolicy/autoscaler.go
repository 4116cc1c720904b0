package autoscalerpolicy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/condition"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyrender"
	"github.com/pd-orchestrator/pd-orchestrator/internal/desired"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
)

// dispatch is the work on the autoscaler of one component.
type dispatch struct {
	*Services
	pass *pass
	o    *desired.ComponentObservation
	// hpa and scaledObject are what stands under the component's names, nil where there is none. ours tells whether it was
	// made for this service.
	hpa, scaledObject         *unstructured.Unstructured
	hpaOurs, scaledObjectOurs bool
}

// scale sees to the autoscaler of a component.
//
// There are never two on one workload, since both would stop. When the kind changes, the new one is tried by a dry run
// while the old one stands, which keeps what it has when the new one is refused. Then the old one goes, and when it is
// gone the new one comes. The count stays as it is meanwhile.
func (r *Services) scale(ctx context.Context, p *pass, o *desired.ComponentObservation) error {
	d := &dispatch{Services: r, pass: p, o: o}
	var err error
	if d.hpa, d.hpaOurs, err = d.find(ctx, true); err != nil {
		return err
	}
	if p.facts.served.Keda {
		if d.scaledObject, d.scaledObjectOurs, err = d.find(ctx, false); err != nil {
			return err
		}
	}
	if err := d.run(ctx); err != nil {
		return err
	}
	if o.Applied.Status == metav1.ConditionTrue {
		if err := r.keepLastGood(ctx, o); err != nil {
			return err
		}
	}
	return d.observe(ctx)
}

func (d *dispatch) find(ctx context.Context, hpa bool) (*unstructured.Unstructured, bool, error) {
	kind, name := desired.ScaledObjectKind, d.o.Component.ScaledObjectName()
	if hpa {
		kind, name = desired.HPAKind, d.o.Component.Name()
	}
	u, err := d.read(ctx, kind, d.pass.service.Namespace, name)
	return u, u != nil && metav1.IsControlledBy(u, d.pass.service), err
}

// done says that the autoscaler is as it should be.
func (d *dispatch) done(reason, message string) {
	d.o.Applied = condition.New(v1beta1.ConditionAutoscalerApplied, true, reason, message)
}

// failed says why the autoscaler is not as it should be.
func (d *dispatch) failed(reason, format string, args ...any) {
	d.o.Applied = condition.New(v1beta1.ConditionAutoscalerApplied, false, reason, fmt.Sprintf(format, args...))
}

func (d *dispatch) run(ctx context.Context) error {
	resolution := d.o.Resolution
	switch {
	case d.o.Workload == nil:
		d.failed(v1beta1.ReasonNoWorkload, "the workload is not there yet")
		return nil
	case resolution.Autoscaler == nil:
		d.failed(v1beta1.ReasonNoRecord, "no policy has rendered for the component before: what there is stands")
		return nil
	case resolution.Autoscaler.Class == v1beta1.ClassKEDA && !d.pass.facts.served.Keda:
		d.failed(v1beta1.ReasonKedaUnavailable, "class KEDA needs KEDA's CRDs, which are not installed")
		return nil
	}
	wanted, err := d.o.Component.Autoscaler(resolution)
	switch {
	case err != nil:
		d.failed(v1beta1.ReasonInvalidSpec, "%v", err)
		return nil
	case wanted == nil:
		return d.none(ctx)
	case wanted.GetKind() == desired.ScaledObjectKind.Kind:
		return d.keda(ctx, wanted)
	}
	return d.plain(ctx, wanted)
}

// none removes what was made here, and with class None holds the count.
func (d *dispatch) none(ctx context.Context) error {
	if d.hpaOurs {
		if err := d.delete(ctx, d.hpa, metav1.DeletePropagationBackground); err != nil {
			return err
		}
		d.hpaOurs = false
	}
	if d.scaledObjectOurs {
		if gone, err := d.retireScaledObject(ctx); err != nil || !gone {
			return err
		}
	}
	d.done(v1beta1.ReasonNotManaged, "class "+string(d.o.Resolution.Autoscaler.Class)+" asks for no autoscaler")
	if d.o.Resolution.Autoscaler.Class == v1beta1.ClassNone {
		return d.hold(ctx, func(count int64) bool { return count != int64(d.o.Resolution.MinReplicas) })
	}
	return nil
}

// hold sets the count to the least where it is wrong.
func (d *dispatch) hold(ctx context.Context, wrong func(count int64) bool) error {
	count, found, _ := unstructured.NestedInt64(d.o.Workload.Object, "spec", "replicas")
	if !found || !wrong(count) {
		return nil
	}
	d.Telemetry.Written("Scale")
	return kube.Scale(ctx, d.Client, d.o.Workload, d.o.Resolution.MinReplicas)
}

// plain sees to a HorizontalPodAutoscaler.
func (d *dispatch) plain(ctx context.Context, wanted *unstructured.Unstructured) error {
	if d.hpa != nil && !d.hpaOurs {
		d.notOwned(wanted)
		return nil
	}
	if d.scaledObjectOurs {
		if d.hpa == nil && d.scaledObject.GetDeletionTimestamp() == nil && !d.tried(ctx, wanted) {
			return nil
		}
		if gone, err := d.retireScaledObject(ctx); err != nil || !gone {
			return err
		}
	}
	if done, err := d.write(ctx, wanted, d.hpa); err != nil || !done {
		return err
	}
	// A HorizontalPodAutoscaler leaves a workload with 0 replicas alone.
	return d.hold(ctx, func(count int64) bool { return count == 0 })
}

// keda sees to a ScaledObject, and before it to the TriggerAuthentications that it refers to.
func (d *dispatch) keda(ctx context.Context, wanted *unstructured.Unstructured) error {
	switch {
	case d.scaledObject != nil && !d.scaledObjectOurs:
		d.notOwned(wanted)
		return nil
	case d.scaledObject != nil && d.scaledObject.GetDeletionTimestamp() != nil:
		d.failed(v1beta1.ReasonSwitching, "%s is on its way out", kube.Describe(d.scaledObject))
		return nil
	}
	authentications := policyrender.Authentications(*d.o.Resolution.Autoscaler, d.pass.facts.bindings)
	unlock := d.authentications.lock(d.pass.service.Namespace, authentications)
	defer unlock()
	for _, a := range authentications {
		if ok, err := d.authenticate(ctx, a); err != nil || !ok {
			return err
		}
	}
	if !d.hpaOurs {
		_, err := d.write(ctx, wanted, d.scaledObject)
		return err
	}
	key := string(d.pass.service.UID) + "/" + d.o.Component.Component.Name
	if before, ok := d.refusals.find(key, wanted, d.Clock.Now()); ok {
		d.failed(v1beta1.ReasonRefused, "%s", before.message)
		d.pass.retryIn(before.until.Sub(d.Clock.Now()))
		return nil
	}
	if d.scaledObject == nil && !d.tried(ctx, wanted) {
		return nil
	}
	if err := d.delete(ctx, d.hpa, metav1.DeletePropagationBackground); err != nil {
		return err
	}
	d.hpaOurs = false
	done, err := d.write(ctx, wanted, d.scaledObject)
	if done {
		return nil
	}
	if err == nil {
		// A dry run does not ask for everything. What was there comes back and stays for a while: its coming back is an event.
		d.refusals.keep(key, refusal{digest: wanted.GetAnnotations()[desired.AnnotationApplied], message: d.o.Applied.Message, until: d.Clock.Now().Add(unwatchedRetry)})
	}
	return errors.Join(err, d.restore(ctx))
}

// restore brings back the HorizontalPodAutoscaler that was deleted.
func (d *dispatch) restore(ctx context.Context) error {
	old := kube.NewWorkload(desired.HPAKind)
	old.SetNamespace(d.hpa.GetNamespace())
	old.SetName(d.hpa.GetName())
	old.SetLabels(d.hpa.GetLabels())
	old.SetAnnotations(d.hpa.GetAnnotations())
	old.SetOwnerReferences(d.hpa.GetOwnerReferences())
	old.Object["spec"] = d.hpa.Object["spec"]
	_, err := d.apply(ctx, old, nil)
	d.hpaOurs = err == nil
	return err
}

func (d *dispatch) notOwned(wanted *unstructured.Unstructured) {
	d.failed(v1beta1.ReasonNotOwned, "%s %s is there and not of this service: delete it, or rename the service", wanted.GetKind(), wanted.GetName())
}

// tried reports whether the API server and its webhooks would take the object. Where they would not, what there is stays.
func (d *dispatch) tried(ctx context.Context, wanted *unstructured.Unstructured) bool {
	err := d.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(wanted.DeepCopy()), client.DryRunAll, kube.FieldOwner(Component))
	if err == nil {
		return true
	}
	d.failed(v1beta1.ReasonRefused, "%v", err)
	d.pass.retryIn(unwatchedRetry)
	return false
}

// write applies the autoscaler, and reports whether it is as it should be.
func (d *dispatch) write(ctx context.Context, wanted, live *unstructured.Unstructured) (bool, error) {
	_, err := d.apply(ctx, wanted, live)
	switch {
	case kube.Refused(err):
		d.failed(v1beta1.ReasonRefused, "%v", err)
		d.pass.retryIn(unwatchedRetry)
		return false, nil
	case err != nil:
		return false, err
	}
	d.done(v1beta1.ReasonApplied, "")
	return true, nil
}

// retireScaledObject deletes the ScaledObject and reports whether nothing of it scales the workload any more: not while KEDA's
// HorizontalPodAutoscaler is there.
func (d *dispatch) retireScaledObject(ctx context.Context) (bool, error) {
	terminating := d.scaledObject.GetDeletionTimestamp() != nil
	if !terminating {
		// In the foreground, so that KEDA's HorizontalPodAutoscaler goes although KEDA may not run.
		if err := d.delete(ctx, d.scaledObject, metav1.DeletePropagationForeground); err != nil {
			return false, err
		}
	}
	left, err := d.owned(ctx, desired.HPAKind, d.scaledObject)
	if err != nil {
		return false, err
	}
	if terminating && len(left) == 0 {
		return true, nil
	}
	d.failed(v1beta1.ReasonSwitching, "%s is on its way out", kube.Describe(d.scaledObject))
	return false, nil
}

// observe reads what stands now, for the status.
func (d *dispatch) observe(ctx context.Context) error {
	switch {
	case d.scaledObjectOurs && d.scaledObject.GetDeletionTimestamp() == nil:
		d.o.Scaler = d.scaledObject
		name, _, _ := unstructured.NestedString(d.scaledObject.Object, "status", "hpaName")
		if name == "" {
			name = d.scaledObject.GetName()
		}
		var err error
		d.o.KedaHPA, err = d.read(ctx, desired.HPAKind, d.scaledObject.GetNamespace(), name)
		return err
	case d.hpaOurs:
		d.o.Scaler = d.hpa
	}
	return nil
}

// refusals remember what was refused after what it was to replace had gone, so that one is not taken away for the other again
// and again.
type refusals struct {
	mu  sync.Mutex
	all map[string]refusal
}

type refusal struct {
	digest, message string
	until           time.Time
}

func (r *refusals) keep(key string, what refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[string]refusal{}
	}
	r.all[key] = what
}

// find returns the refusal of just this object, unless it was long ago.
func (r *refusals) find(key string, wanted *unstructured.Unstructured, now time.Time) (refusal, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, ok := r.all[key]
	if ok && !now.Before(before.until) {
		delete(r.all, key)
		ok = false
	}
	return before, ok && before.digest == wanted.GetAnnotations()[desired.AnnotationApplied]
}
