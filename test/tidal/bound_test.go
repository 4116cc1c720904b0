package tidal

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	elasticscalerv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab"
)

// Not parallel: this manager, which runs ElasticScalers, sees all namespaces.
func TestTheDocumentsPairScalesTheTarget(t *testing.T) {
	w := newWorld(t, "2026-06-15T07:00:00Z") // 15:00 in Shanghai
	const target, name = "elastic-scaler-state-test", "tidal-frequent-test"
	w.deployment(target, 1)
	manager, err := plane.StartManager(t.Context(), lab.ManagerOptions{Args: []string{"--controllers=elasticscaler"}, WithoutWebhook: true})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Stop()
	w.create(w.parse(documentScaler, &elasticscalerv1alpha1.ElasticScaler{}), w.parse(documentTidal, &v1alpha1.Tidal{}))
	w.start()
	has := func(replicas int32, changes int64) {
		t.Helper()
		testkit.Eventually(t, soon, fmt.Sprintf("%d replicas", replicas), func(context.Context) error {
			if got, n := w.count(target); got != replicas || n != changes {
				return fmt.Errorf("%d after %d changes, want %d", got, n, changes)
			}
			return nil
		})
	}
	has(5, 1)
	w.says(name, v1alpha1.ConditionBound, metav1.ConditionTrue, v1alpha1.ReasonScalerApplies)
	w.setTime("2026-06-15T08:49:58Z")
	has(3, 2)
	w.setTime("2026-06-16T00:00:00Z")
	has(5, 3)
	// What is frozen gives no new count to apply.
	update(w, name, &v1alpha1.Tidal{}, func(t *v1alpha1.Tidal) { t.Spec.Suspend = new(true) })
	w.says(name, v1alpha1.ConditionSuspended, metav1.ConditionTrue, v1alpha1.ReasonSuspended)
	w.setTime("2026-06-16T09:00:00Z")
	w.stays(target, 5, 3)
	update(w, name, &v1alpha1.Tidal{}, func(t *v1alpha1.Tidal) { t.Spec.Suspend = nil })
	has(3, 4)
	w.stays(target, 3, 4)
}
