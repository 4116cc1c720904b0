package scalerspec

import "math"

// Annotations of an ElasticScaler that tune its decisions.
const (
	// AnnotationWindow is over how many seconds metrics are looked at, 0 to 3600. 0 means the newest sample only.
	AnnotationWindow = annotationPrefix + "metrics.windowSeconds"
	// AnnotationScaleUpWindow and AnnotationScaleDownWindow are the stabilization windows, in seconds, 0 to 3600.
	AnnotationScaleUpWindow   = annotationPrefix + "behavior.scaleUp.stabilizationWindowSeconds"
	AnnotationScaleDownWindow = annotationPrefix + "behavior.scaleDown.stabilizationWindowSeconds"
	// AnnotationScaleUpStep and AnnotationScaleDownStep are by how many replicas one decision may change the count, 1 or
	// more.
	AnnotationScaleUpStep   = annotationPrefix + "behavior.scaleUp.maxPodsPerStep"
	AnnotationScaleDownStep = annotationPrefix + "behavior.scaleDown.maxPodsPerStep"

	annotationPrefix = "elasticscaler.io/"
)

// annotations are the bounds of the values of all annotations.
var annotations = map[string]struct{ least, most int64 }{
	AnnotationWindow:          {0, 3600},
	AnnotationScaleUpWindow:   {0, 3600},
	AnnotationScaleDownWindow: {0, 3600},
	AnnotationScaleUpStep:     {1, math.MaxInt32},
	AnnotationScaleDownStep:   {1, math.MaxInt32},
}
