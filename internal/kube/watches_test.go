package kube

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// startingController takes no further watch until its first ones are there, as a controller does while it starts.
type startingController struct {
	controller.Controller
	asked, started chan struct{}
}

func (c *startingController) Watch(source.Source) error {
	close(c.asked)
	<-c.started
	return nil
}

// Handlers ask which kinds are known, and a controller that starts waits for its handlers: neither may wait for a kind that is
// added meanwhile.
func TestKnownDoesNotWaitForAControllerThatStarts(t *testing.T) {
	c := &startingController{asked: make(chan struct{}), started: make(chan struct{})}
	w := NewWatches(&informertest.FakeInformers{}, c, fake.NewClientBuilder().Build(), clock.RealClock{}, nil)
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	ensured := make(chan error, 1)
	go func() {
		_, err := w.Ensure(context.Background(), Watch{Object: &corev1.Pod{}, Kind: kind, Handler: &handler.EnqueueRequestForObject{}})
		ensured <- err
	}()
	<-c.asked
	known := make(chan bool, 1)
	go func() { known <- w.Known(kind) }()
	select {
	case is := <-known:
		if is {
			t.Error("a kind is known that is not watched yet")
		}
	case <-time.After(10 * time.Second):
		t.Error("Known waits for the controller to start")
	}
	close(c.started)
	if err := <-ensured; err != nil {
		t.Fatal(err)
	}
	if !w.Known(kind) {
		t.Error("the kind is not known although it is watched")
	}
}
