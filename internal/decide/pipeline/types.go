// Package pipeline decides how many replicas the target of a MetricsTrigger has: it turns the readings of all metrics into
// one recommendation, with the help of a scaling algorithm, and the recommendation into a count that windows, steps, rates
// and bounds allow. docs/scaling-decision.md describes the stages.
package pipeline

import (
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

// Settings is how the decision is made. Nothing in it is left out: defaults have been applied.
type Settings struct {
	// Algorithm recommends the count.
	Algorithm scaling.ScalingAlgorithm
	// Config are its settings.
	Config map[string]string
	// Window is how far back metrics are looked at, where the object says it; nil leaves it to the algorithm.
	Window *time.Duration
	// MinReplicas and MaxReplicas are the bounds.
	MinReplicas, MaxReplicas int32
	// ScaleUp and ScaleDown limit the way to a higher and to a lower count.
	ScaleUp, ScaleDown Rules
	// Metrics are the inputs, in the order of the object.
	Metrics []Metric
}

// Rules limit the changes of one direction.
type Rules struct {
	// StabilizationWindow is over which time a recommendation must have stood. 0 for none.
	StabilizationWindow time.Duration
	// Tolerance is the deviation from the target, as a fraction, that changes nothing; nil leaves it to the algorithm.
	Tolerance *float64
	// MaxPodsPerStep is by how many replicas one decision may change the count; nil for any.
	MaxPodsPerStep *int32
	// SelectPolicy says which of the policies counts. Empty means Max.
	SelectPolicy autoscalingv2.ScalingPolicySelect
	// Policies are the rates, of the meaning that they have in a HorizontalPodAutoscaler. None: no limit.
	Policies []autoscalingv2.HPAScalingPolicy
}

// Metric is what an object says about one of its metrics.
type Metric struct {
	scaling.MetricInfo
	// Key tells the metric from others and from what it was before an edit: its history is kept under it.
	Key string
	// Target is the value to hold, in the unit of the value. Greater than 0.
	Target float64
	// NoData says what a missing value means.
	NoData NoData
	// MaxAge is how old a sample may be. 0 for any age.
	MaxAge time.Duration
}

// NoData is a resolved NoDataPolicy.
type NoData struct {
	Action v1alpha1.NoDataAction
	// FailureThreshold is how many evaluations in a row must find no value, or find one, before the policy takes effect or
	// ends. 1 or more.
	FailureThreshold int32
	// Replicas is the count that Fallback proposes.
	Replicas int32
}

// Problem is why there is no value.
type Problem struct {
	// Reason is one of the reasons of package v1alpha1.
	Reason string
	// Message says it in a sentence.
	Message string
}

// Reading is what was read of a metric: a sample or a problem.
type Reading struct {
	// Sample is the value, with the time of its source. Nil where there is none.
	Sample *scaling.Sample
	// Problem is why there is none.
	Problem *Problem
}

// Facts is what a decision is based on.
type Facts struct {
	// Now is the time of the decision.
	Now time.Time
	// Target is what is scaled.
	Target scaling.Target
	// Current is the count that the target is asked to have.
	Current int32
	// ZeroIsOurs tells that a Current of 0 was set by this scaler, and not by somebody who switched the target off.
	ZeroIsOurs bool
	// Settings is how to decide.
	Settings Settings
	// Readings are those of Settings.Metrics, in their order.
	Readings []Reading
}

// Input is what the decision made of one metric.
type Input struct {
	scaling.MetricInfo
	// Value is what was read; nil where there is none. Target is the value to hold.
	Value  *float64
	Target float64
	// Time is the time of the sample at its source. Zero where there is none.
	Time time.Time
	// Proposed is the count that the metric proposed; nil where it proposed none.
	Proposed *int32
	// Reason and Message say why the value is missing or was not used as it is. Empty where nothing is wrong.
	Reason, Message string
}

// Plan is a decision.
type Plan struct {
	// Desired is the count that the target should have.
	Desired int32
	// Recommended is the count before windows, steps, rates and bounds.
	Recommended int32
	// Calculated tells whether the count follows from metrics. It does not where no metric has a value, the algorithm
	// failed, or metrics were not asked since the present count is out of bounds or was set to 0 by somebody.
	Calculated bool
	// Inputs are the metrics, in the order of the object.
	Inputs []Input
	// Steps are the stages that changed the count, in their order.
	Steps []scaling.Step
	// Reason and Message are the outcome.
	Reason, Message string
	// Err is why the algorithm failed, nil where it did not. It says more than Message where the algorithm panicked.
	Err error
}
