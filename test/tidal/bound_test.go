package tidal

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
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

// Not parallel: this manager, which runs all but Tidals, sees all namespaces.
func TestAPairScalesTheGroupsOfAResourceScalingGroup(t *testing.T) {
	w := newWorld(t, "2026-06-15T07:00:00Z") // 15:00 in Shanghai
	w.deployment("prefill", 1)
	w.create(testkit.MakeRSG(w.namespace, "llm").GroupName("pd").Target("prefill", w.namespace, "prefill").Replicas(1).Obj())
	manager, err := plane.StartManager(t.Context(), lab.ManagerOptions{Args: []string{"--controllers=elasticscaler,resourcescalinggroup"}, WithoutWebhook: true})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Stop()
	tide := &v1alpha1.Tidal{}
	w.parse(documentTidal, tide)
	tide.Spec.TargetRef = w.on(autoscalingv1alpha1.GroupVersion.WithKind("ResourceScalingGroup"), "llm")
	w.create(w.parse(documentScaler, &elasticscalerv1alpha1.ElasticScaler{}), tide)
	w.start()
	follows := func(groups int32, generation int64) {
		t.Helper()
		testkit.Eventually(t, soon, fmt.Sprintf("%d groups", groups), func(ctx context.Context) error {
			var rsg autoscalingv1alpha1.ResourceScalingGroup
			if err := w.get("llm", &rsg); err != nil {
				return err
			}
			if got := *rsg.Spec.ScalingStrategy.GroupConfig.Replicas; got != groups || rsg.Generation != generation {
				return fmt.Errorf("%d groups are wanted at generation %d, want generation %d", got, rsg.Generation, generation)
			}
			var workloads appsv1.DeploymentList
			if err := api.List(ctx, &workloads, client.InNamespace(w.namespace)); err != nil {
				return err
			}
			if got := len(workloads.Items); got != int(groups) {
				return fmt.Errorf("there are %d Deployments, one for each group", got)
			}
			return nil
		})
	}
	follows(5, 2)
	w.says(tide.Name, v1alpha1.ConditionBound, metav1.ConditionTrue, v1alpha1.ReasonScalerApplies)
	w.setTime("2026-06-15T08:49:58Z")
	follows(3, 3)
	w.setTime("2026-06-16T00:00:00Z")
	follows(5, 4)
}
