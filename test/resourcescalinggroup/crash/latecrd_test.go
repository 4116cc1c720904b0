package crash

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	elasticscalerv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/test/resourcescalinggroup/rsgtest"
)

// The CRDs of the other components come after the manager. Until then it works without, and from then on it sees their
// objects, without a restart.
func TestElasticScalersComeLater(t *testing.T) {
	ctx := t.Context()
	if err := env.Manager.Stop(); err != nil {
		t.Fatal(err)
	}
	api.reset()
	for _, name := range []string{"elasticscalers.elasticscaler.io", "tidals.tidal.io"} {
		crd := &unstructured.Unstructured{}
		crd.SetAPIVersion("apiextensions.k8s.io/v1")
		crd.SetKind("CustomResourceDefinition")
		crd.SetName(name)
		if err := env.Client.Delete(ctx, crd); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, rsgtest.Patience, name+" to be gone", func(ctx context.Context) error {
			err := env.Client.Get(ctx, client.ObjectKeyFromObject(crd), crd)
			if apierrors.IsNotFound(err) {
				return nil
			}
			return errors.Join(errors.New("it is there"), err)
		})
	}
	if _, err := env.StartManager(ctx, rsgtest.ManagerOptions{Args: []string{"--controllers=resourcescalinggroup"}}); err != nil {
		t.Fatal(err)
	}
	w := env.World(t, "llm")
	w.CreateBase(1, 1)
	w.Create(w.RSG().Replicas(2).Obj())
	w.Settled(2)
	w.NoCondition(v1alpha1.ConditionScalerConflict)

	if err := env.Lab.InstallProduct(ctx); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"first", "second"} {
		w.Create(&elasticscalerv1alpha1.ElasticScaler{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name},
			Spec: elasticscalerv1alpha1.ElasticScalerSpec{
				TargetRef: elasticscalerv1alpha1.TargetReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ResourceScalingGroup", Name: w.Name},
				Trigger:   elasticscalerv1alpha1.Trigger{Type: elasticscalerv1alpha1.StateTriggerType},
			},
		})
	}
	w.Condition(v1alpha1.ConditionScalerConflict, metav1.ConditionTrue, v1alpha1.ReasonScalerConflict,
		fmt.Sprintf("ElasticScaler %s/first and by ElasticScaler %s/second", w.Namespace, w.Namespace))
	if err := env.Manager.Healthy(); err != nil {
		t.Error(err)
	}

	if err := env.Manager.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := startManager(ctx, env, "Trusted"); err != nil {
		t.Fatal(err)
	}
}
