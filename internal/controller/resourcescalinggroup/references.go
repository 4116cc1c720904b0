package resourcescalinggroup

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/clone"
)

// referencesRetry is when missing references are looked for again: Secrets and most ConfigMaps are not watched.
const referencesRetry = time.Minute

// checkReferences looks for what the pod templates name in the namespace where the clones are made, before any is made
// and for as long as something is missing. Only the metadata of the objects is read.
func (r *Reconciler) checkReferences(ctx context.Context, p *pass, creating bool) error {
	f := p.facts
	if f.snapshot == nil || !p.status.HasReferences {
		return nil
	}
	if !creating && !meta.IsStatusConditionFalse(p.rsg.Status.Conditions, v1alpha1.ConditionTemplateReferences) {
		return nil
	}
	kinds := make([]clone.Kind, len(f.targets))
	for i, t := range f.targets {
		kinds[i] = t.kind
	}
	missing := []string{}
	for _, ref := range f.snapshot.References(kinds) {
		exists, err := r.exists(ctx, ref.Kind, p.rsg.Namespace, ref.Name)
		if err != nil {
			return err
		}
		if !exists {
			missing = append(missing, ref.Kind+" "+ref.Name)
		}
	}
	p.status.MissingReferences = missing
	if len(missing) > 0 {
		p.lookAgain(referencesRetry)
	}
	return nil
}

func (r *Reconciler) exists(ctx context.Context, kind, namespace, name string) (bool, error) {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: kind})
	err := r.APIReader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, obj)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for %s %s/%s: %w", kind, namespace, name, err)
	}
	return true, nil
}

// claimsProbed bounds how many ordinals are looked at for claims that an earlier group left.
const claimsProbed = 8

// foundClaims lists the volume claims of an earlier group of the same id that a new StatefulSet will use again.
func (r *Reconciler) foundClaims(ctx context.Context, kind clone.Kind, obj client.Object) ([]string, error) {
	workload, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, nil
	}
	var found []string
	for _, template := range kind.ClaimTemplates(workload) {
		for ordinal := range min(clone.Replicas(workload), claimsProbed) {
			name := fmt.Sprintf("%s-%s-%d", template, workload.GetName(), ordinal)
			exists, err := r.exists(ctx, "PersistentVolumeClaim", workload.GetNamespace(), name)
			if err != nil {
				return nil, err
			}
			if exists {
				found = append(found, name)
			}
		}
	}
	return found, nil
}
