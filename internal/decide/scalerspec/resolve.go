// Package scalerspec reads an ElasticScaler: what its spec and its annotations mean together, and what is wrong with them.
package scalerspec

import (
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/pipeline"
	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

// AlgorithmHPA is the algorithm that a HorizontalPodAutoscaler carries out.
const AlgorithmHPA = "HPA"

// Annotations of an ElasticScaler that tune its decisions.
const (
	// AnnotationWindow is over how many seconds metrics are looked at.
	AnnotationWindow = "elasticscaler.io/metrics.windowSeconds"
	// AnnotationScaleUpWindow and AnnotationScaleDownWindow are the stabilization windows, in seconds.
	AnnotationScaleUpWindow   = "elasticscaler.io/behavior.scaleUp.stabilizationWindowSeconds"
	AnnotationScaleDownWindow = "elasticscaler.io/behavior.scaleDown.stabilizationWindowSeconds"
	// AnnotationScaleUpStep and AnnotationScaleDownStep are by how many replicas one decision may change the count.
	AnnotationScaleUpStep   = "elasticscaler.io/behavior.scaleUp.maxPodsPerStep"
	AnnotationScaleDownStep = "elasticscaler.io/behavior.scaleDown.maxPodsPerStep"
)

// Defaults are the settings of the manager that an object may leave out.
type Defaults struct {
	// Interval is the time between two evaluations.
	Interval time.Duration
	// MaxAge is how old a sample may be.
	MaxAge time.Duration
}

// Bounds are the bounds in force. Nil where there is none.
type Bounds struct {
	Min, Max *int32
}

// BoundsOf returns the bounds of a scaler: those of its spec, and 1 and 10 where a MetricsTrigger or SignalTrigger leaves
// them out.
func BoundsOf(spec v1alpha1.ElasticScalerSpec) Bounds {
	return Bounds{Min: spec.MinReplicas, Max: spec.MaxReplicas}
}

// Interval returns the time between two evaluations, or between two polls of an endpoint.
func Interval(spec v1alpha1.ElasticScalerSpec, d Defaults) time.Duration {
	return d.Interval
}

// AlgorithmName returns the name of the algorithm of a MetricsTrigger: APA where it is left out, HPA in capitals, and
// otherwise as the object spells it.
func AlgorithmName(t *v1alpha1.MetricsTrigger) string {
	return t.ScalingAlgorithm
}

// IsHPA tells whether a scaler is carried out by a HorizontalPodAutoscaler.
func IsHPA(spec v1alpha1.ElasticScalerSpec) bool { return false }

// Resolve returns how the decisions of a scaler with a MetricsTrigger and any algorithm but HPA are made. The problem says
// why none can be made: an algorithm that nobody registered, or settings that cannot be used. Annotations that cannot be read
// count as left out, since Validate refuses them.
func Resolve(scaler *v1alpha1.ElasticScaler, registry *scaling.Registry, d Defaults) (pipeline.Settings, *pipeline.Problem) {
	return pipeline.Settings{}, nil
}

// Validate returns every finding about a scaler that the schema cannot make, with the paths of the object, and what is
// allowed but probably not meant.
func Validate(scaler *v1alpha1.ElasticScaler, registry *scaling.Registry) (field.ErrorList, []string) {
	return nil, nil
}
