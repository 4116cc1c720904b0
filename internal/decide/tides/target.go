package tides

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	elasticscalerv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
)

// Scaler returns the ElasticScaler that the labels of a Tidal name, and how many of the two labels are there. With both
// of them it is bound.
func Scaler(tidal *v1alpha1.Tidal) (types.NamespacedName, int) {
	key := types.NamespacedName{
		Namespace: tidal.Labels[elasticscalerv1alpha1.LabelScalerNamespace],
		Name:      tidal.Labels[elasticscalerv1alpha1.LabelScalerName],
	}
	n := 0
	for _, v := range []string{key.Namespace, key.Name} {
		if v != "" {
			n++
		}
	}
	return key, n
}

// Suspended reports whether a Tidal is frozen.
func Suspended(tidal *v1alpha1.Tidal) bool { return tidal.Spec.Suspend != nil && *tidal.Spec.Suspend }

// Bound reports whether both labels of an ElasticScaler are there.
func Bound(tidal *v1alpha1.Tidal) bool {
	_, labels := Scaler(tidal)
	return labels == 2
}

// Writes reports whether a Tidal writes the count of its target: one that is bound, frozen, on its way out or without a rule
// that can be used leaves it to others.
func Writes(tidal *v1alpha1.Tidal) bool {
	return !Bound(tidal) && !Suspended(tidal) && tidal.DeletionTimestamp == nil && slices.ContainsFunc(tidal.Spec.Triggers.Times.Rules, usable)
}

// Before reports whether a Tidal has the right to a target before another one: the older does, of two of one age the
// first by namespace and name.
func Before(a, b *v1alpha1.Tidal) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Namespace+"/"+a.Name < b.Namespace+"/"+b.Name
}
