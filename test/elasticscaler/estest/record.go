package estest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab/faulty"
)

// Record holds every count that a Deployment was asked to have, as the API server's own stream of changes tells it, so that
// a count that stood for a moment only is seen too.
type Record struct {
	w *World

	mu    sync.Mutex
	seen  []int32
	ended bool
}

// Record begins with the count that the world's Deployment is asked to have now.
func (w *World) Record() *Record {
	w.T.Helper()
	r := &Record{w: w}
	w.Follow(r.take)
	return r
}

// Follow hands on each state of the world's Deployment, from the present one until the test ends, and nil if the stream of
// changes should end before.
func (w *World) Follow(take func(*appsv1.Deployment)) {
	w.T.Helper()
	only := deployments{w.Client, []client.ListOption{
		client.InNamespace(w.Namespace), client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", w.Name)},
	}}
	var list appsv1.DeploymentList
	w.must(w.Client.List(w.T.Context(), &list, only.options...))
	for i := range list.Items {
		take(&list.Items[i])
	}
	// It goes on where it was when the API server ends a watch, as it does to a client that is slow.
	stream, err := watchtools.NewRetryWatcherWithContext(w.T.Context(), list.ResourceVersion, only)
	w.must(err)
	done := make(chan struct{})
	w.T.Cleanup(func() {
		stream.Stop()
		<-done
	})
	go func() {
		defer close(done)
		for event := range stream.ResultChan() {
			if d, ok := event.Object.(*appsv1.Deployment); ok {
				take(d)
			}
		}
		take(nil)
	}()
}

// deployments can be watched from a version on.
type deployments struct {
	client  client.WithWatch
	options []client.ListOption
}

// WatchWithContext implements cache.WatcherWithContext.
func (d deployments) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return d.client.Watch(ctx, &appsv1.DeploymentList{}, append(d.options, &client.ListOptions{Raw: &options})...)
}

func (r *Record) take(d *appsv1.Deployment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d == nil {
		r.ended = true
		return
	}
	if n := *d.Spec.Replicas; len(r.seen) == 0 || r.seen[len(r.seen)-1] != n {
		r.seen = append(r.seen, n)
	}
}

// Seen returns the counts so far, each once as long as it stood.
func (r *Record) Seen() ([]int32, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return nil, errors.New("the API server ended the watch")
	}
	return slices.Clone(r.seen), nil
}

// Wait waits until these were the counts, one after another, and fails as soon as they cannot be any more.
func (r *Record) Wait(want ...int32) {
	r.w.T.Helper()
	testkit.Eventually(r.w.T, Patience, fmt.Sprintf("the count to go %v", want), func(context.Context) error {
		got, err := r.Seen()
		switch {
		case err != nil || len(got) > len(want) || !slices.Equal(got, want[:len(got)]):
			r.w.T.Fatalf("the count went %v (%v), want %v", got, err, want)
		case len(got) < len(want):
			return fmt.Errorf("it went %v", got)
		}
		return nil
	})
}

// Evaluated waits until the metrics of the server have been asked for that many times more and what was answered before the
// last time was decided on.
func (w *World) Evaluated(server *faulty.Server, times int) {
	w.T.Helper()
	before := server.Count("", "")
	testkit.Eventually(w.T, Patience, fmt.Sprintf("%d more evaluations", times), func(context.Context) error {
		// The request that comes after an answer tells that there was a decision on it, since it is due an interval later.
		if got := server.Count("", "") - before; got < times+1 {
			return fmt.Errorf("there were %d more requests", got)
		}
		return nil
	})
}

// Connected waits until somebody listens for the signals.
func (w *World) Connected(signals *faulty.Signals) {
	w.T.Helper()
	testkit.Eventually(w.T, Patience, "a listener", func(context.Context) error {
		if signals.Connections() == 0 {
			return errors.New("there is none")
		}
		return nil
	})
}

// Settled waits until the scaler is ready and its target has the replicas that it is asked to have.
func (w *World) Settled() {
	w.T.Helper()
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
	testkit.Eventually(w.T, Patience, "the target to have its replicas", func(ctx context.Context) error {
		d := &appsv1.Deployment{}
		if err := w.Client.Get(ctx, types.NamespacedName{Namespace: w.Namespace, Name: w.Name}, d); err != nil {
			return err
		}
		if d.Status.ObservedGeneration != d.Generation || d.Status.Replicas != *d.Spec.Replicas || d.Status.AvailableReplicas != *d.Spec.Replicas {
			return fmt.Errorf("%d of %d are available", d.Status.AvailableReplicas, *d.Spec.Replicas)
		}
		return nil
	})
	w.Condition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonReconciled)
}

// Versions tells what was written: the resource versions of the scaler and its target, and the number of events about the
// scaler.
type Versions struct {
	Scaler, Target string
	Events         int
}

// Versions reads them.
func (w *World) Versions() Versions {
	w.T.Helper()
	d := &appsv1.Deployment{}
	w.must(w.Client.Get(w.T.Context(), types.NamespacedName{Namespace: w.Namespace, Name: w.Name}, d))
	events, err := w.Events(w.T.Context())
	w.must(err)
	return Versions{w.Live().ResourceVersion, d.ResourceVersion, len(events)}
}
