// Package usage turns what the sources of metrics say about pods, or about a total, into the sample of one metric: how much
// load there is, measured in replicas of the target. It treats starting, missing, failed and deleted pods as a
// HorizontalPodAutoscaler does.
package usage

import (
	"fmt"
	"math"
	"time"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/pipeline"
	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

// TargetType says what the target of a metric is compared with.
type TargetType string

// The types of targets.
const (
	// Utilization is the use in percent of the request.
	Utilization TargetType = "Utilization"
	// AverageValue is the value per pod or, of a total, per replica.
	AverageValue TargetType = "AverageValue"
	// Value is the total.
	Value TargetType = "Value"
)

// Target is the value that a metric is to hold.
type Target struct {
	Type TargetType
	// Value is in percent for Utilization. Greater than 0.
	Value float64
}

// Total is a metric with one value for the whole target.
type Total struct {
	// Metric is its name, for messages.
	Metric string
	// Target is the value to hold: AverageValue or Value.
	Target Target
	// Total is the value, and Time when it was measured.
	Total float64
	Time  time.Time
	// Current is the count that the target of the scaler is asked to have.
	Current int32
	// Ready is how many replicas are ready: see ReadyUnits. It counts for a target of type Value only.
	Ready float64
}

// OfTotal returns the sample of a metric with one value. For AverageValue the load is the total divided by the target,
// whatever the present count; for Value it is the ratio to the target, times the replicas that are ready. At 0 replicas the
// value is the total itself.
func OfTotal(t Total) (scaling.Sample, *pipeline.Problem) {
	if !usable(t.Total) {
		return noData("%s is %v, which is no usable value: it must be finite and 0 or more", t.Metric, t.Total)
	}
	s := scaling.Sample{Time: t.Time, Value: t.Total, Load: t.Total / t.Target.Value, Base: float64(t.Current)}
	if t.Current > 0 {
		switch t.Target.Type {
		case Value:
			if t.Ready <= 0 {
				return noData("no replica of the target is ready, so that the value of %s says nothing about how many are needed", t.Metric)
			}
			s.Load, s.Base = s.Load*t.Ready, t.Ready
		case AverageValue, Utilization:
			s.Value /= float64(t.Current)
		}
	}
	return checked(s, t.Metric)
}

// checked refuses a sample that overflowed on the way.
func checked(s scaling.Sample, metric string) (scaling.Sample, *pipeline.Problem) {
	if !usable(s.Value) || !usable(s.Load) || !usable(s.Base) {
		return noData("the value of %s is too large to compute with", metric)
	}
	return s, nil
}

func usable(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }

func noData(message string, args ...any) (scaling.Sample, *pipeline.Problem) {
	return scaling.Sample{}, &pipeline.Problem{Reason: v1alpha1.ReasonNoData, Message: fmt.Sprintf(message, args...)}
}
