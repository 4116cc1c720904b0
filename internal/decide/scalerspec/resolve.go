// Package scalerspec reads an ElasticScaler: what its spec and its annotations mean together, and what is wrong with them.
package scalerspec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/pipeline"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/usage"
	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

// Names of algorithms that this package knows.
const (
	// AlgorithmHPA is the algorithm that a HorizontalPodAutoscaler carries out.
	AlgorithmHPA = "HPA"
	// AlgorithmDefault is the algorithm of an object that names none.
	AlgorithmDefault = "APA"
)

// What stands where an object leaves it out.
const (
	defaultMinReplicas      = 1
	defaultMaxReplicas      = 10
	defaultScaleUpWindow    = 30 * time.Second
	defaultScaleDownWindow  = 180 * time.Second
	defaultFailureThreshold = 3
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
	b := Bounds{Min: spec.MinReplicas, Max: spec.MaxReplicas}
	if spec.Trigger.Type == v1alpha1.StateTriggerType {
		return b
	}
	if b.Min == nil {
		// A maximum is 1 or more, so that it is never below this.
		b.Min = new(int32(defaultMinReplicas))
	}
	if b.Max == nil {
		b.Max = new(int32(defaultMaxReplicas))
	}
	return b
}

// Interval returns the time between two evaluations, or between two polls of an endpoint.
func Interval(spec v1alpha1.ElasticScalerSpec, d Defaults) time.Duration {
	if spec.IntervalSeconds != nil && *spec.IntervalSeconds > 0 {
		return seconds(*spec.IntervalSeconds)
	}
	return d.Interval
}

func valueOr[T any](p *T, byDefault T) T {
	if p == nil {
		return byDefault
	}
	return *p
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

// AlgorithmName returns the name of the algorithm of a MetricsTrigger: APA where it is left out, HPA in capitals, and
// otherwise as the object spells it.
func AlgorithmName(t *v1alpha1.MetricsTrigger) string {
	switch scaling.NormalizeName(t.ScalingAlgorithm) {
	case "":
		return AlgorithmDefault
	case scaling.NormalizeName(AlgorithmHPA):
		return AlgorithmHPA
	}
	return strings.TrimSpace(t.ScalingAlgorithm)
}

// IsHPA tells whether a scaler is carried out by a HorizontalPodAutoscaler.
func IsHPA(spec v1alpha1.ElasticScalerSpec) bool {
	return spec.Trigger.Type == v1alpha1.MetricsTriggerType && spec.Trigger.MetricsTrigger != nil && AlgorithmName(spec.Trigger.MetricsTrigger) == AlgorithmHPA
}

// MetricName returns the name of a metric.
func MetricName(m v1alpha1.MetricSpec) string {
	switch {
	case m.Resource != nil:
		return m.Resource.MetricsName
	case m.External != nil:
		if m.External.Metric != nil {
			return cmp.Or(m.External.MetricsName, m.External.Metric.Name)
		}
		return m.External.MetricsName
	case m.ExternalServer != nil:
		return m.ExternalServer.MetricsName
	case m.Custom != nil:
		return m.Custom.MetricsName
	}
	return ""
}

// TargetOf returns what a metric is to hold. The zero Target says that the object does not tell.
func TargetOf(m v1alpha1.MetricSpec) usage.Target {
	var t v1alpha1.MetricTarget
	switch {
	case m.ExternalServer != nil:
		t.AverageValue = m.ExternalServer.Target
	case m.Resource != nil:
		t = m.Resource.Target
	case m.External != nil:
		t = m.External.Target
	case m.Custom != nil:
		t = m.Custom.Target
	}
	switch {
	case t.AverageUtilization != nil:
		return usage.Target{Type: usage.Utilization, Value: float64(*t.AverageUtilization)}
	case t.AverageValue != nil:
		return usage.Target{Type: usage.AverageValue, Value: t.AverageValue.AsApproximateFloat64()}
	case t.Value != nil:
		return usage.Target{Type: usage.Value, Value: t.Value.AsApproximateFloat64()}
	}
	return usage.Target{}
}

// Resolve returns how the decisions of a scaler with a MetricsTrigger and any algorithm but HPA are made. The problem says
// why none can be made: an algorithm that nobody registered, or settings that cannot be used. Annotations that cannot be read
// count as left out, since Validate refuses them.
func Resolve(scaler *v1alpha1.ElasticScaler, registry *scaling.Registry, d Defaults) (pipeline.Settings, *pipeline.Problem) {
	trigger := scaler.Spec.Trigger.MetricsTrigger
	if trigger == nil {
		return pipeline.Settings{}, &pipeline.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: "spec.trigger.metricsTrigger must be set"}
	}
	a, ok := registry.Lookup(AlgorithmName(trigger))
	if !ok {
		return pipeline.Settings{}, &pipeline.Problem{Reason: v1alpha1.ReasonAlgorithmNotRegistered, Message: notRegistered(trigger, registry)}
	}
	config, errs := configOf(trigger)
	metrics := make([]pipeline.Metric, len(trigger.Metrics))
	for i, m := range trigger.Metrics {
		metrics[i] = metricOf(m, d)
		if !(metrics[i].Target > 0) {
			return pipeline.Settings{}, &pipeline.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: fmt.Sprintf("the target of metric %q must be greater than 0", metrics[i].Name)}
		}
	}
	if len(errs) == 0 {
		errs = validateConfig(a, config, trigger.Metrics)
	}
	if len(errs) > 0 {
		return pipeline.Settings{}, &pipeline.Problem{Reason: v1alpha1.ReasonAlgorithmConfigInvalid, Message: "spec.trigger.metricsTrigger.algorithmConfig: " + joined(errs)}
	}
	bounds := BoundsOf(scaler.Spec)
	n := notesOf(scaler)
	return pipeline.Settings{
		Algorithm: a, Config: config, Window: n.window,
		MinReplicas: *bounds.Min, MaxReplicas: *bounds.Max,
		ScaleUp:   rules(scaler.Spec.Behavior, n.up, up, defaultScaleUpWindow),
		ScaleDown: rules(scaler.Spec.Behavior, n.down, down, defaultScaleDownWindow),
		Metrics:   metrics,
	}, nil
}

func notRegistered(t *v1alpha1.MetricsTrigger, registry *scaling.Registry) string {
	return fmt.Sprintf("no scaling algorithm %q is registered, and the count stays: the registered ones are %s",
		AlgorithmName(t), strings.Join(append(registry.Names(), AlgorithmHPA), ", "))
}

func metricOf(m v1alpha1.MetricSpec, d Defaults) pipeline.Metric {
	out := pipeline.Metric{
		MetricInfo: infoOf(m),
		Key:        keyOf(m),
		Target:     TargetOf(m).Value,
		NoData:     pipeline.NoData{Action: v1alpha1.NoDataHold, FailureThreshold: defaultFailureThreshold},
		MaxAge:     d.MaxAge,
	}
	if m.MaxAgeSeconds != nil {
		out.MaxAge = seconds(*m.MaxAgeSeconds)
	}
	if n := m.NoData; n != nil {
		out.NoData = pipeline.NoData{
			Action:           n.Policy,
			FailureThreshold: valueOr(n.FailureThreshold, defaultFailureThreshold),
			Replicas:         max(valueOr(n.Replicas, 0), 0),
		}
	}
	return out
}

func infoOf(m v1alpha1.MetricSpec) scaling.MetricInfo {
	return scaling.MetricInfo{Type: string(m.Type), Name: MetricName(m)}
}

// keyOf tells what is measured, and against what, apart from everything else that is.
func keyOf(m v1alpha1.MetricSpec) string {
	m.NoData, m.MaxAgeSeconds = nil, nil
	h := fnv.New128a()
	// Neither an API type nor a hash fails to be written.
	_ = json.NewEncoder(h).Encode(m)
	return string(h.Sum(nil))
}

// configOf returns the settings of the algorithm as text.
func configOf(t *v1alpha1.MetricsTrigger) (map[string]string, []error) {
	var errs []error
	config := make(map[string]string, len(t.AlgorithmConfig))
	for key, value := range t.AlgorithmConfig {
		text := string(value)
		if text != "" && strings.ContainsRune("{[", rune(text[0])) && json.Valid([]byte(text)) {
			errs = append(errs, fmt.Errorf("%s must be a string, a number or a boolean, and is an object or a list", key))
			continue
		}
		config[key] = text
	}
	return config, errs
}

// direction selects one half of a behavior.
type direction func(*autoscalingv2.HorizontalPodAutoscalerBehavior) *autoscalingv2.HPAScalingRules

func up(b *autoscalingv2.HorizontalPodAutoscalerBehavior) *autoscalingv2.HPAScalingRules {
	return b.ScaleUp
}

func down(b *autoscalingv2.HorizontalPodAutoscalerBehavior) *autoscalingv2.HPAScalingRules {
	return b.ScaleDown
}

// rules merges one half of the behavior with the annotations. The field goes before the annotation.
func rules(b *autoscalingv2.HorizontalPodAutoscalerBehavior, n notesOfDirection, half direction, window time.Duration) pipeline.Rules {
	r := pipeline.Rules{StabilizationWindow: window, MaxPodsPerStep: n.step, SelectPolicy: autoscalingv2.MaxChangePolicySelect}
	if n.window != nil {
		r.StabilizationWindow = *n.window
	}
	if b == nil || half(b) == nil {
		return r
	}
	given := half(b)
	if given.StabilizationWindowSeconds != nil {
		r.StabilizationWindow = seconds(*given.StabilizationWindowSeconds)
	}
	if given.Tolerance != nil {
		r.Tolerance = new(given.Tolerance.AsApproximateFloat64())
	}
	r.SelectPolicy = valueOr(given.SelectPolicy, r.SelectPolicy)
	r.Policies = given.Policies
	return r
}

// notes are what the annotations say. Nil where they say nothing that can be read.
type notes struct {
	window   *time.Duration
	up, down notesOfDirection
}

type notesOfDirection struct {
	window *time.Duration
	step   *int32
}

func notesOf(scaler *v1alpha1.ElasticScaler) notes {
	number := func(name string) *int32 {
		n, err := readNote(name, scaler.Annotations[name])
		if err != nil {
			return nil
		}
		return n
	}
	duration := func(name string) *time.Duration {
		if n := number(name); n != nil {
			return new(seconds(*n))
		}
		return nil
	}
	return notes{
		window: duration(AnnotationWindow),
		up:     notesOfDirection{duration(AnnotationScaleUpWindow), number(AnnotationScaleUpStep)},
		down:   notesOfDirection{duration(AnnotationScaleDownWindow), number(AnnotationScaleDownStep)},
	}
}

// readNote reads the value of an annotation: nil where it is empty.
func readNote(name, text string) (*int32, error) {
	if text == "" {
		return nil, nil
	}
	bounds := annotations[name]
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 32)
	if err != nil || n < bounds.least || n > bounds.most {
		return nil, fmt.Errorf("must be a whole number from %d to %d", bounds.least, bounds.most)
	}
	return new(int32(n)), nil
}
