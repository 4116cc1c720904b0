package tidal

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
)

// replicaSets is an API server that serves ReplicaSets.
type replicaSets struct {
	discovery.ServerResourcesInterface
}

func (replicaSets) ServerResourcesForGroupVersion(string) (*metav1.APIResourceList, error) {
	return &metav1.APIResourceList{APIResources: []metav1.APIResource{
		{Name: "replicasets", Kind: "ReplicaSet", Namespaced: true}, {Name: "replicasets/scale", Kind: "Scale", Namespaced: true},
	}}, nil
}

// A target that cannot be watched is asked for again where something is in the way, and otherwise left in peace.
func TestATargetThatCannotBeWatchedIsPolledWhileItIsMissing(t *testing.T) {
	resource := schema.GroupResource{Group: "apps", Resource: "replicasets"}
	tidal := &v1alpha1.Tidal{ObjectMeta: metav1.ObjectMeta{Namespace: "dev", Name: "tide"}}
	tidal.Spec.TargetRef = v1alpha1.TargetReference{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "ReplicaSet", Namespace: "dev", Name: "llm"}
	for name, tc := range map[string]struct {
		answer error
		polled bool
	}{
		"one that is there":      {},
		"one that is missing":    {answer: apierrors.NewNotFound(resource, "llm"), polled: true},
		"one without the rights": {answer: apierrors.NewForbidden(resource, "llm", nil), polled: true},
	} {
		clk := clocktesting.NewFakeClock(time.Date(2026, 6, 15, 12, 0, 0, 0, time.UTC))
		c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
			List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
				return apierrors.NewForbidden(resource, "", nil)
			},
			SubResourceGet: func(context.Context, client.Client, string, client.Object, client.Object, ...client.SubResourceGetOption) error {
				return tc.answer
			},
		})
		r := &Reconciler{Client: c, APIReader: c, Clock: clk, Kinds: kube.NewKinds(replicaSets{}, clk)}
		r.watches = newWatches(nil, nil, r)
		var f facts
		if err := r.gatherTarget(t.Context(), tidal, &f); err != nil {
			t.Fatal(err)
		}
		if f.blocked != tc.polled || (f.retry > 0) != tc.polled || (f.target == nil) != tc.polled {
			t.Errorf("%s: blocked is %t, the next look in %s, want one: %t", name, f.blocked, f.retry, tc.polled)
		}
	}
}
