package resourcescalinggroup

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/telemetry"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
)

// The end of an object while a pass is over it is no failure; anything else is.
func TestTheStatusOfOneThatWasDeletedMeanwhile(t *testing.T) {
	metrics, err := telemetry.New(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	resource := v1alpha1.GroupVersion.WithResource("resourcescalinggroups").GroupResource()
	write := func(answer error) error {
		r := &Reconciler{Clock: clocktesting.NewFakeClock(time.Date(2026, 6, 15, 12, 0, 0, 0, time.UTC)), Telemetry: metrics}
		r.Client = interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
			SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
				return answer
			},
		})
		return r.writeStatus(t.Context(), &pass{rsg: testkit.MakeRSG("dev", "llm").Target("prefill", "", "llm-prefill").Obj()})
	}
	if err := write(apierrors.NewNotFound(resource, "llm")); err != nil {
		t.Errorf("deleted meanwhile: %v", err)
	}
	if err := write(apierrors.NewConflict(resource, "llm", nil)); !apierrors.IsConflict(err) {
		t.Errorf("changed meanwhile: %v", err)
	}
}
