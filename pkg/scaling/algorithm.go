// Package scaling is what a plug-in of PD-Orchestrator is written against: algorithms that turn metrics into a count, and
// handlers that read and write the count of kinds without a scale subresource. A plug-in is compiled into a manager of its
// own; examples/plugin shows one, and docs/plugins.md is the guide.
package scaling

import (
	"context"
	"time"
)

// ScalingAlgorithm computes how many replicas a target needs. It is asked once per interval of every ElasticScaler that
// names it, by one caller at a time per scaler and by several for different scalers.
//
// The count that it returns is a recommendation. Metrics without a value, stabilization windows, rate policies and bounds
// are the framework's business, and come after it.
type ScalingAlgorithm interface {
	// Name is what `scalingAlgorithm` of an ElasticScaler names. Case and spaces do not matter.
	Name() string
	// CalculateDesiredReplicas returns the count for one target. It is a function of its input: what it must remember from
	// one call to the next goes through State, and the time is Input.Now. It must be quick, and end when the context does.
	// With an error the count stays, or is held up by metrics without a value; it is never lowered.
	CalculateDesiredReplicas(ctx context.Context, in Input) (Result, error)
}

// Validator is an algorithm that can tell wrong settings before they are used. It is asked at admission, where an error
// refuses the object, and by the controller.
type Validator interface {
	// Validate returns everything that is wrong with the settings, for a scaler with the given metrics.
	Validate(config map[string]string, metrics []MetricInfo) []error
}

// Described is an algorithm that tells which settings it reads. Others then lead to a warning at admission.
type Described interface {
	// Settings are the names of the settings.
	Settings() []string
}

// Windower is an algorithm that looks at more than the newest sample.
type Windower interface {
	// Window is how much history the algorithm wants with the given settings, where the object does not say. More than
	// MaxWindow counts as MaxWindow; 0 means the newest sample only. It is asked with settings that Validate refused too.
	Window(config map[string]string) time.Duration
}

const (
	// DefaultWindow is the history of an algorithm that is no Windower, where the object does not say.
	DefaultWindow = 30 * time.Second
	// MaxWindow is the longest history that is kept.
	MaxWindow = time.Hour
)

// Target names the object that is scaled.
type Target struct {
	APIVersion, Kind, Namespace, Name string
}

// MetricInfo is what is known of a metric before it has a value.
type MetricInfo struct {
	// Type is `Resource`, `External`, `ExternalServer` or `Custom`.
	Type string
	// Name is the name of the metric. Several metrics may have the same.
	Name string
}

// Metric is one input, with its history.
type Metric struct {
	MetricInfo
	// Target is the value to hold, in the unit of Sample.Value: a percentage for Utilization. Greater than 0.
	Target float64
	// Missing tells that the metric has no value now. Samples is then empty.
	Missing bool
	// Samples are the values within the window, the oldest first. The last is the present one.
	Samples []Sample
}

// Sample is the value of a metric at one time. All its numbers are finite and 0 or more.
type Sample struct {
	// Time is when it was read.
	Time time.Time
	// Value is what compares with the metric's target.
	Value float64
	// Load is how many replicas this load would keep exactly at the target, not rounded.
	Load float64
	// Base is how many replicas carried the load. 0 where none ran; Load/Base is otherwise the ratio of use to target.
	Base float64
}

// Input is what an algorithm decides on. It must not be changed.
type Input struct {
	// Now is the time of the decision.
	Now time.Time
	// Target is what is scaled.
	Target Target
	// CurrentReplicas is the count that the target is asked to have now, in its own unit: pods of a Deployment, groups of
	// a LeaderWorkerSet or ResourceScalingGroup.
	CurrentReplicas int32
	// MinReplicas and MaxReplicas are the bounds, for information: the framework applies them.
	MinReplicas, MaxReplicas int32
	// Config are the settings of `algorithmConfig`. A number or a boolean is here as its text.
	Config map[string]string
	// Window is how far back the object wants its metrics to be looked at. 0 means the newest sample only.
	Window time.Duration
	// UpTolerance and DownTolerance are those of `spec.behavior`, as fractions. Where set they go before a setting of the
	// algorithm.
	UpTolerance, DownTolerance *float64
	// Metrics are all inputs in the order of the object. At least one has a value.
	Metrics []Metric
	// State is what the algorithm returned at its last call for this scaler, nil at the first call, after a change of its
	// settings, and after a restart of the manager.
	State any
}

// Result is what an algorithm recommends.
type Result struct {
	// Replicas is the recommended count, 0 or more. Bounds need not be regarded.
	Replicas int32
	// PerMetric are the counts that the metrics propose each, in the order of the input; nil for a metric that proposes
	// none. Left empty by an algorithm that weighs its metrics together.
	PerMetric []*int32
	// Steps are what changed the count on its way from the load to Replicas, such as a tolerance or a rate, for the record.
	Steps []Step
	// Reason is the outcome in one word of letters and digits, for the record; empty to let the framework choose.
	Reason string
	// Message is the outcome in a sentence, for the record.
	Message string
	// State is what the next call for this scaler gets. It is kept in memory only.
	State any
}

// Step is a stage of a decision that changed the count.
type Step struct {
	// Name is the stage, such as `Tolerance`.
	Name string
	// From and To are the count before and after it.
	From, To int32
	// Reason says in one word what changed the count, Message in a sentence.
	Reason, Message string
}
