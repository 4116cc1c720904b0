package autoscalerpolicy

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyrender"
	"github.com/pd-orchestrator/pd-orchestrator/internal/desired"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
)

// authenticate sees to one TriggerAuthentication, and reports whether it is as it should be.
func (d *dispatch) authenticate(ctx context.Context, a policyrender.Authentication) (bool, error) {
	wanted, err := desired.TriggerAuthentication(d.pass.service.Namespace, a)
	if err != nil {
		return false, err
	}
	live, err := d.read(ctx, desired.TriggerAuthenticationKind, d.pass.service.Namespace, a.Name)
	if err != nil {
		return false, err
	}
	if live != nil && !desired.IsOwnTriggerAuthentication(live) {
		d.failed(v1beta1.ReasonNotOwned, "TriggerAuthentication %s is there and was not made here: delete it, or rename the metric provider", a.Name)
		return false, nil
	}
	if _, err := d.apply(ctx, wanted, live); kube.Refused(err) {
		d.failed(v1beta1.ReasonRefused, "%v", err)
		d.pass.retryIn(unwatchedRetry)
		return false, nil
	} else if err != nil {
		return false, err
	}
	return true, nil
}

// authenticationLocks keep the one who makes a TriggerAuthentication for a ScaledObject that is yet to come, and the one who
// finds it without any, from each other.
type authenticationLocks struct {
	mu    sync.Mutex
	locks map[types.NamespacedName]*sync.Mutex
}

// lock locks in the order of the names, in which all come.
func (l *authenticationLocks) lock(namespace string, all []policyrender.Authentication) (unlock func()) {
	var held []*sync.Mutex
	for _, a := range all {
		held = append(held, l.of(types.NamespacedName{Namespace: namespace, Name: a.Name}))
	}
	for _, m := range held {
		m.Lock()
	}
	return func() {
		for _, m := range held {
			m.Unlock()
		}
	}
}

func (l *authenticationLocks) of(key types.NamespacedName) *sync.Mutex {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.locks == nil {
		l.locks = map[types.NamespacedName]*sync.Mutex{}
	}
	if l.locks[key] == nil {
		l.locks[key] = &sync.Mutex{}
	}
	return l.locks[key]
}

// removeUnused deletes a TriggerAuthentication of ours that no ScaledObject refers to any more.
func (r *Services) removeUnused(ctx context.Context, key types.NamespacedName) (ctrl.Result, error) {
	if served, err := r.Cluster.Served(ctx); err != nil || !served.Keda {
		return ctrl.Result{}, err
	}
	unlock := r.authentications.lock(key.Namespace, []policyrender.Authentication{{Name: key.Name}})
	defer unlock()
	live, err := r.read(ctx, desired.TriggerAuthenticationKind, key.Namespace, key.Name)
	if err != nil || live == nil || !desired.IsOwnTriggerAuthentication(live) || live.GetDeletionTimestamp() != nil {
		return ctrl.Result{}, err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(desired.ScaledObjectKind.GroupVersion().WithKind(desired.ScaledObjectKind.Kind + "List"))
	inUse := []client.ListOption{client.InNamespace(key.Namespace), client.MatchingFields{indexAuthentication: key.Name}}
	if err := r.Client.List(ctx, list, inUse...); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing ScaledObjects: %w", err)
	}
	if len(list.Items) > 0 {
		return ctrl.Result{}, nil
	}
	// The cache may not have one that has just come.
	if err := r.APIReader.List(ctx, list, client.InNamespace(key.Namespace)); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing ScaledObjects: %w", err)
	}
	for i := range list.Items {
		for _, name := range authenticationsOf(&list.Items[i]) {
			if name == key.Name {
				return ctrl.Result{}, nil
			}
		}
	}
	err = r.delete(ctx, live, metav1.DeletePropagationBackground)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	}
	return ctrl.Result{}, err
}

// authenticationsOf are the TriggerAuthentications that a ScaledObject refers to.
func authenticationsOf(obj client.Object) []string {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	triggers, _, _ := unstructured.NestedSlice(u.Object, "spec", "triggers")
	var names []string
	for _, element := range triggers {
		trigger, _ := element.(map[string]any)
		if name, _, _ := unstructured.NestedString(trigger, "authenticationRef", "name"); name != "" {
			names = append(names, name)
		}
	}
	return names
}
