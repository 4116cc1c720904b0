// Package state decides which count an ElasticScaler with a StateTrigger takes from the objects that name it. It is pure.
package state

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
)

// Source is an object whose labels name the scaler.
type Source struct {
	// Kind, Namespace and Name of the object.
	Kind, Namespace, Name string
	// Count is its status.desiredReplicas as it was read: nil where the field is absent.
	Count any
}

// String names the source.
func (s Source) String() string { return fmt.Sprintf("%s %s/%s", s.Kind, s.Namespace, s.Name) }

// Choice is the source that drives a scaler and its count, or why there is none.
type Choice struct {
	// Source is nil unless exactly one may drive the scaler.
	Source *Source
	// Replicas is the count, nil where none can be taken. The count of the target then stays.
	Replicas *int32
	// Reason and Message say why there is no count.
	Reason, Message string
	// Ignored names the sources of namespaces that the scaler takes no count from.
	Ignored []string
}

// Choose takes the count from the one source that may drive the scaler.
func Choose(scaler *v1alpha1.ElasticScaler, sources []Source) Choice {
	var choice Choice
	var allowed []Source
	for _, s := range sources {
		if Allowed(scaler, s.Namespace) {
			allowed = append(allowed, s)
		} else {
			choice.Ignored = append(choice.Ignored, s.String())
		}
	}
	slices.Sort(choice.Ignored)
	no := func(reason, format string, args ...any) Choice {
		choice.Reason, choice.Message = reason, fmt.Sprintf(format, args...)
		return choice
	}
	switch {
	case len(allowed) > 1:
		names := make([]string, len(allowed))
		for i, s := range allowed {
			names[i] = s.String()
		}
		slices.Sort(names)
		return no(v1alpha1.ReasonMultipleSources, "%s all name this scaler by their labels, and one only may: take the labels %s and %s off the others",
			strings.Join(names, ", "), v1alpha1.LabelScalerName, v1alpha1.LabelScalerNamespace)
	case len(allowed) == 0 && len(choice.Ignored) > 0:
		return no(v1alpha1.ReasonSourceNamespaceForbidden, "%s would drive this scaler from another namespace: name that namespace in spec.trigger.stateTrigger.sourceNamespaces to allow it",
			strings.Join(choice.Ignored, ", "))
	case len(allowed) == 0:
		return no(v1alpha1.ReasonNoSource, "no object names this scaler: give a Tidal, or another source, the labels %s: %s and %s: %s",
			v1alpha1.LabelScalerName, scaler.Name, v1alpha1.LabelScalerNamespace, scaler.Namespace)
	}
	choice.Source = &allowed[0]
	if choice.Source.Count == nil {
		return no(v1alpha1.ReasonSourceWithoutCount, "%s has no status.desiredReplicas yet", choice.Source)
	}
	replicas, ok := count(choice.Source.Count)
	if !ok {
		return no(v1alpha1.ReasonSourceCountInvalid, "status.desiredReplicas of %s is %v: must be a whole number from 0 to %d", choice.Source, choice.Source.Count, math.MaxInt32)
	}
	choice.Replicas = &replicas
	return choice
}

// Allowed reports whether objects of a namespace may drive the scaler.
func Allowed(scaler *v1alpha1.ElasticScaler, namespace string) bool {
	if scaler.Namespace == namespace {
		return true
	}
	t := scaler.Spec.Trigger.StateTrigger
	return t != nil && slices.Contains(t.SourceNamespaces, v1alpha1.NamespaceName(namespace))
}

// count takes the numbers that decoded JSON has.
func count(v any) (int32, bool) {
	switch n := v.(type) {
	case int64:
		return int32(n), n >= 0 && n <= math.MaxInt32
	case float64:
		return int32(n), n >= 0 && n <= math.MaxInt32 && n == math.Trunc(n)
	}
	return 0, false
}
