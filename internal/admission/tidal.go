package admission

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	elasticscalerv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/scalerspec"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/tides"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
)

// TidalPath is where the admission of Tidals is served.
const TidalPath = "/validate-tidal-io-v1alpha1-tidal"

// indexTidals finds Tidals by what they scale.
const indexTidals = "admission.tidals"

// pairsShown is how many pairs of rules that fire together are warned of. The status names all.
const pairsShown = 5

var tidalKind = schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: "Tidal"}

// Tidals admits Tidals. All fields must be set.
type Tidals struct {
	// Cache reads Tidals and HPAs from the cache, which must have the index of IndexTidals.
	Cache client.Reader
	// API reads ElasticScalers from the API server, since their CRD may be missing.
	API client.Reader
	// Targets looks at what Tidals scale.
	Targets Targets
	// Clock says from when on overlaps of rules are looked for.
	Clock clock.PassiveClock
}

var _ admission.Validator[*v1alpha1.Tidal] = &Tidals{}

// IndexTidals adds the index that other Tidals of a target are found by. Call it once for a cache, before it starts.
func IndexTidals(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &v1alpha1.Tidal{}, indexTidals, tidalKeys); err != nil {
		return fmt.Errorf("indexing Tidals by target: %w", err)
	}
	return nil
}

func tidalKeys(obj client.Object) []string {
	ref := obj.(*v1alpha1.Tidal).Spec.TargetRef
	return []string{kube.TargetKey(ref.APIVersion, ref.Kind, ref.Namespace, ref.Name)}
}

// Handler serves the admission at TidalPath.
func (v *Tidals) Handler(scheme *runtime.Scheme) http.Handler {
	return admission.WithValidator(scheme, v)
}

// ValidateCreate returns everything that speaks against a new object.
func (v *Tidals) ValidateCreate(ctx context.Context, tidal *v1alpha1.Tidal) (admission.Warnings, error) {
	return v.examine(ctx, tidal, tides.Validate(tidal.Spec, field.NewPath("spec")), false)
}

// ValidateUpdate returns everything that speaks against a change of the spec. Other changes are no concern of ours.
func (v *Tidals) ValidateUpdate(ctx context.Context, old, tidal *v1alpha1.Tidal) (admission.Warnings, error) {
	if tidal.DeletionTimestamp != nil || equality.Semantic.DeepEqual(old.Spec, tidal.Spec) {
		return nil, nil
	}
	return v.examine(ctx, tidal, tides.ValidateUpdate(old.Spec, tidal.Spec, field.NewPath("spec")), old.Spec.TargetRef == tidal.Spec.TargetRef)
}

// ValidateDelete lets every deletion pass.
func (v *Tidals) ValidateDelete(context.Context, *v1alpha1.Tidal) (admission.Warnings, error) {
	return nil, nil
}

// examine adds to the findings about the rules those about the target. known tells that the target is the one that it was.
func (v *Tidals) examine(ctx context.Context, tidal *v1alpha1.Tidal, errs field.ErrorList, known bool) (admission.Warnings, error) {
	ref, path := tidal.Spec.TargetRef, field.NewPath("spec", "targetRef")
	refused, warnings := v.Targets.examine(ctx, tidal, tidalKind.Kind,
		target{apiVersion: ref.APIVersion, kind: ref.Kind, namespace: ref.Namespace, name: ref.Name, path: path}, known)
	if len(refused) == 0 {
		for _, other := range v.otherScalers(ctx, tidal) {
			warnings = append(warnings, fmt.Sprintf("%s: %s", path, other))
		}
	}
	warnings = append(v.overlaps(tidal), warnings...)
	return warnings, refusal(tidalKind, tidal.Name, append(errs, refused...))
}

// overlaps says which rules fire together.
func (v *Tidals) overlaps(tidal *v1alpha1.Tidal) []string {
	const path = "spec.triggers.times.rules"
	rules, _ := tides.Compile(tidal.Spec)
	conflicts := tides.Conflicts(rules, v.Clock.Now())
	var warnings []string
	for i, c := range conflicts {
		if i == pairsShown {
			warnings = append(warnings, fmt.Sprintf("%s: %d more pairs of rules fire together; condition %s names them", path, len(conflicts)-i, v1alpha1.ConditionRuleConflict))
			break
		}
		warnings = append(warnings, fmt.Sprintf("%s: %q and %q fire together, first at %s; %q wins, since it is the later in the list",
			path, c.First, c.Second, c.Times[0].Format(time.RFC3339), c.Second))
	}
	return warnings
}

// otherScalers says who else writes the count of the target. What cannot be read now is left out: the status names it.
func (v *Tidals) otherScalers(ctx context.Context, tidal *v1alpha1.Tidal) []string {
	if tides.Bound(tidal) {
		return nil // It writes no count.
	}
	key, namespace := tidalKeys(tidal)[0], tidal.Spec.TargetRef.Namespace
	var names []string
	var hpas autoscalingv2.HorizontalPodAutoscalerList
	if err := v.Cache.List(ctx, &hpas, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err == nil {
		for i := range hpas.Items {
			if kube.HPATarget(&hpas.Items[i]) == key {
				names = append(names, kube.DescribeScaler(&hpas.Items[i]))
			}
		}
	}
	var tidals v1alpha1.TidalList
	if err := v.Cache.List(ctx, &tidals, client.MatchingFields{indexTidals: key}, client.UnsafeDisableDeepCopy); err != nil {
		tidals.Items = nil
	}
	own := client.ObjectKeyFromObject(tidal)
	others := slices.DeleteFunc(tidals.Items, func(t v1alpha1.Tidal) bool { return client.ObjectKeyFromObject(&t) == own })
	names = append(names, v.elasticScalers(ctx, key, namespace, others)...)
	slices.Sort(names)
	var found []string
	for _, name := range slices.Compact(names) {
		found = append(found, name+" writes the count of this target too; a Tidal writes it once each time that a rule fires, and between firings it belongs to others")
	}
	for i := range others {
		if other := &others[i]; tides.Writes(other) {
			found = append(found, fmt.Sprintf("Tidal %s/%s writes the count of this target too; the older of the two has the first right to it, and the other one writes nothing", other.Namespace, other.Name))
		}
	}
	return found
}

// elasticScalers names those of a target, in its namespace or that of a Tidal that is bound, by which they may name it. One in
// a further namespace is left to the status.
func (v *Tidals) elasticScalers(ctx context.Context, target, namespace string, tidals []v1alpha1.Tidal) []string {
	namespaces := []string{namespace}
	driven := map[types.NamespacedName]bool{}
	for i := range tidals {
		if t := &tidals[i]; tides.Bound(t) {
			driven[client.ObjectKeyFromObject(t)] = true
			namespaces = append(namespaces, t.Namespace)
		}
	}
	slices.Sort(namespaces)
	var names []string
	for _, namespace := range slices.Compact(namespaces) {
		var scalers elasticscalerv1alpha1.ElasticScalerList
		if err := v.API.List(ctx, &scalers, client.InNamespace(namespace)); err != nil {
			continue
		}
		for i := range scalers.Items {
			s := &scalers.Items[i]
			ref := s.Spec.TargetRef
			key := kube.TargetKey(ref.APIVersion, ref.Kind, cmp.Or(ref.Namespace, namespace), ref.Name)
			if key == target || key == kube.WithoutGroup(target) || scalerspec.NamesTidal(s.Spec) && driven[types.NamespacedName{Namespace: cmp.Or(ref.Namespace, namespace), Name: ref.Name}] {
				names = append(names, fmt.Sprintf("ElasticScaler %s/%s", s.Namespace, s.Name))
			}
		}
	}
	return names
}
