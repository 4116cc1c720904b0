package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/scalerspec"
	"github.com/pd-orchestrator/pd-orchestrator/internal/desired"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

// ElasticScalerPath is where the admission of ElasticScalers is served.
const ElasticScalerPath = "/validate-elasticscaler-io-v1alpha1-elasticscaler"

// indexScalers finds ElasticScalers by what they scale.
const indexScalers = "admission.scalers"

var scalerKind = schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: "ElasticScaler"}

// ElasticScalers admits ElasticScalers. All fields must be set.
type ElasticScalers struct {
	// Cache reads ElasticScalers and HPAs from the cache, which must have the index of IndexElasticScalers.
	Cache client.Reader
	// API asks the API server.
	API client.Reader
	// Trial tries what an HPA would be, by dry run.
	Trial client.Client
	// Targets looks at what ElasticScalers scale.
	Targets Targets
	// Algorithms are those that a spec may name.
	Algorithms *scaling.Registry
}

var _ admission.Validator[*v1alpha1.ElasticScaler] = &ElasticScalers{}

// IndexElasticScalers adds the index that other ElasticScalers of a target are found by. Call it once for a cache, before
// it starts.
func IndexElasticScalers(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &v1alpha1.ElasticScaler{}, indexScalers, func(obj client.Object) []string {
		return []string{scalerKey(obj.(*v1alpha1.ElasticScaler))}
	}); err != nil {
		return fmt.Errorf("indexing ElasticScalers by target: %w", err)
	}
	return nil
}

func scalerKey(scaler *v1alpha1.ElasticScaler) string {
	ref := scaler.Spec.TargetRef
	return kube.TargetKey(ref.APIVersion, ref.Kind, cmp.Or(ref.Namespace, scaler.Namespace), ref.Name)
}

// Handler serves the admission at ElasticScalerPath.
func (v *ElasticScalers) Handler(scheme *runtime.Scheme) http.Handler {
	return admission.WithValidator(scheme, v)
}

// ValidateCreate returns everything that speaks against a new object.
func (v *ElasticScalers) ValidateCreate(ctx context.Context, scaler *v1alpha1.ElasticScaler) (admission.Warnings, error) {
	return v.examine(ctx, scaler, false)
}

// ValidateUpdate returns everything that speaks against a change of the spec. Other changes are no concern of ours.
func (v *ElasticScalers) ValidateUpdate(ctx context.Context, old, scaler *v1alpha1.ElasticScaler) (admission.Warnings, error) {
	if scaler.DeletionTimestamp != nil || equality.Semantic.DeepEqual(old.Spec, scaler.Spec) {
		return nil, nil
	}
	return v.examine(ctx, scaler, old.Spec.TargetRef == scaler.Spec.TargetRef)
}

// ValidateDelete lets every deletion pass.
func (v *ElasticScalers) ValidateDelete(context.Context, *v1alpha1.ElasticScaler) (admission.Warnings, error) {
	return nil, nil
}

// examine returns all findings. known tells that the target is the one that it was.
func (v *ElasticScalers) examine(ctx context.Context, scaler *v1alpha1.ElasticScaler, known bool) (admission.Warnings, error) {
	errs, warnings := scalerspec.Validate(scaler, v.Algorithms)
	refused, more := v.target(ctx, scaler, known)
	errs, warnings = append(errs, refused...), append(warnings, more...)
	return warnings, refusal(scalerKind, scaler.Name, errs)
}

// target says what speaks against the target. That of a Tidal which drives the scaler was admitted with the Tidal.
func (v *ElasticScalers) target(ctx context.Context, scaler *v1alpha1.ElasticScaler, known bool) (field.ErrorList, []string) {
	ref, path := scaler.Spec.TargetRef, field.NewPath("spec", "targetRef")
	namespace := cmp.Or(ref.Namespace, scaler.Namespace)
	var refused field.ErrorList
	var warnings []string
	if !scalerspec.NamesTidal(scaler.Spec) {
		if ref.APIVersion == "" {
			kind, err := v.Targets.Kinds.FindAny(ref.Kind)
			switch {
			case errors.Is(err, kube.ErrKindAmbiguous):
				return field.ErrorList{field.Required(path.Child("apiVersion"), err.Error())}, nil
			case errors.Is(err, kube.ErrKindNotFound) && namespace == scaler.Namespace:
				return nil, []string{fmt.Sprintf("%s: %v: nothing is scaled until its CRD is installed; or correct the reference", path, err)}
			case err != nil:
				return field.ErrorList{field.InternalError(path, fmt.Errorf("looking for the kind of the target, try again: %w", err))}, nil
			}
			ref.APIVersion = kind.GroupVersion().String()
		}
		t := target{apiVersion: ref.APIVersion, kind: ref.Kind, namespace: namespace, name: ref.Name, path: path}
		_, t.handled = scaling.LookupResourceHandler(ref.APIVersion, ref.Kind)
		if refused, warnings = v.Targets.examine(ctx, scaler, scalerKind.Kind, t, known); len(refused) > 0 {
			return refused, warnings
		}
	}
	key := kube.TargetKey(ref.APIVersion, ref.Kind, namespace, ref.Name)
	if !known {
		if err := v.otherScaler(ctx, scaler, key, path); err != nil {
			return field.ErrorList{err}, warnings
		}
	}
	warnings = append(warnings, v.otherHPA(ctx, scaler, key)...)
	if scalerspec.IsHPA(scaler.Spec) {
		refused = append(refused, v.hpa(ctx, scaler, ref)...)
	}
	return refused, warnings
}

// otherScaler finds another ElasticScaler of the target, by its TargetKey.
func (v *ElasticScalers) otherScaler(ctx context.Context, scaler *v1alpha1.ElasticScaler, key string, path *field.Path) *field.Error {
	for _, k := range []string{key, kube.WithoutGroup(key)} {
		var list v1alpha1.ElasticScalerList
		if err := v.Cache.List(ctx, &list, client.MatchingFields{indexScalers: k}); err != nil {
			return field.InternalError(path, fmt.Errorf("looking for other ElasticScalers of this target, try again: %w", err))
		}
		for i := range list.Items {
			other := client.ObjectKeyFromObject(&list.Items[i])
			if other == client.ObjectKeyFromObject(scaler) {
				continue
			}
			// The cache may still show one that has just been deleted to make room for this one.
			live := &v1alpha1.ElasticScaler{}
			switch err := v.API.Get(ctx, other, live); {
			case apierrors.IsNotFound(err):
				continue
			case err != nil:
				return field.InternalError(path, fmt.Errorf("looking at ElasticScaler %s, which names this target, try again: %w", other, err))
			}
			if live.DeletionTimestamp == nil && scalerKey(live) == k {
				return field.Invalid(path, fmt.Sprintf("%s %s", scaler.Spec.TargetRef.Kind, scaler.Spec.TargetRef.Name),
					fmt.Sprintf("is scaled by ElasticScaler %s already, and a target has one: change that one, or delete it first", other))
			}
		}
	}
	return nil
}

// otherHPA warns of the HPAs that an ElasticScaler yields to.
func (v *ElasticScalers) otherHPA(ctx context.Context, scaler *v1alpha1.ElasticScaler, key string) []string {
	var hpas autoscalingv2.HorizontalPodAutoscalerList
	if err := v.Cache.List(ctx, &hpas, client.InNamespace(cmp.Or(scaler.Spec.TargetRef.Namespace, scaler.Namespace)), client.UnsafeDisableDeepCopy); err != nil {
		return nil // What cannot be read now, the status names.
	}
	var warnings []string
	for i := range hpas.Items {
		hpa := &hpas.Items[i]
		if owner := metav1.GetControllerOf(hpa); owner != nil && owner.Kind == scalerKind.Kind {
			continue
		}
		if kube.HPATarget(hpa) == key {
			warnings = append(warnings, fmt.Sprintf("spec.targetRef: %s scales this target and has the first right to its count, so this scaler writes nothing until that is gone", kube.DescribeScaler(hpa)))
		} else if scalerspec.IsHPA(scaler.Spec) && hpa.Name == scaler.Name && hpa.Namespace == scaler.Namespace {
			warnings = append(warnings, fmt.Sprintf("metadata.name: a HorizontalPodAutoscaler of the name %s exists and is not this scaler's, so nothing is scaled until it is deleted, or this scaler has another name", hpa.Name))
		}
	}
	return warnings
}

// hpa has the API server say what it thinks of the HPA that the scaler would stand behind.
func (v *ElasticScalers) hpa(ctx context.Context, scaler *v1alpha1.ElasticScaler, ref v1alpha1.TargetReference) field.ErrorList {
	bounds := scalerspec.BoundsOf(scaler.Spec)
	trial := desired.ScalerHPA(scaler, schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind), *bounds.Min, *bounds.Max)
	// The owner has no UID before it is stored.
	trial.OwnerReferences = nil
	err := v.Trial.Apply(ctx, trial, client.DryRunAll, client.ForceOwnership, kube.FieldOwner("elasticscaler"))
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) {
		return nil // Whatever else there is, the controller reports.
	}
	path := field.NewPath("spec")
	var errs field.ErrorList
	if details := status.Status().Details; details != nil {
		for _, cause := range details.Causes {
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("the HorizontalPodAutoscaler that scalingAlgorithm HPA stands for is refused: %s: %s", cause.Field, cause.Message)))
		}
	}
	return errs
}
