package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// Pin holds what matching pods serve, for the pods of now and of later, until it is deleted.
//
// Where several pins match a pod, each metric follows the latest pin that names it, and the fault the latest pin that
// sets one.
type Pin struct {
	// Namespace of the pods. Required.
	Namespace string `json:"namespace"`
	// Labels that a pod must carry, all of them. Empty matches every pod of the namespace.
	Labels map[string]string `json:"labels,omitempty"`
	// Metrics are the held values by metric name. A name that the engine does not have is served as a gauge.
	Metrics map[string]Value `json:"metrics,omitempty"`
	// Absent lists metric names that are left out of what the pods serve.
	Absent []string `json:"absent,omitempty"`
	// Fault says how the pods' metrics endpoint misbehaves.
	Fault Fault `json:"fault,omitempty"`
}

// Selector names pods by namespace and labels.
type Selector struct {
	Namespace string            `json:"namespace"`
	Labels    map[string]string `json:"labels,omitempty"`
}

// Fault is a way in which a metrics endpoint misbehaves.
type Fault string

const (
	// FaultNone answers as it should. In a later pin it lifts the fault of an earlier one.
	FaultNone Fault = "none"
	// FaultClose closes the connection without an answer, as a dead process does.
	FaultClose Fault = "close"
	// FaultError answers 500 Internal Server Error.
	FaultError Fault = "error"
	// FaultHang accepts the request and answers nothing until the client gives up.
	FaultHang Fault = "hang"
	// FaultHTML answers 200 with an HTML page in place of metrics.
	FaultHTML Fault = "html"
)

// Faults are all values of Fault.
var Faults = []Fault{FaultNone, FaultClose, FaultError, FaultHang, FaultHTML}

// Value is a sample's value. In JSON it is a number or one of the strings "NaN", "+Inf" and "-Inf".
type Value float64

// MarshalJSON writes finite values as numbers and the others as strings.
func (v Value) MarshalJSON() ([]byte, error) {
	switch f := float64(v); {
	case math.IsNaN(f):
		return []byte(`"NaN"`), nil
	case math.IsInf(f, 1):
		return []byte(`"+Inf"`), nil
	case math.IsInf(f, -1):
		return []byte(`"-Inf"`), nil
	default:
		return json.Marshal(f)
	}
}

// UnmarshalJSON reads what MarshalJSON writes, and "Inf" for "+Inf".
func (v *Value) UnmarshalJSON(data []byte) error {
	switch string(bytes.TrimSpace(data)) {
	case `"NaN"`:
		*v = Value(math.NaN())
		return nil
	case `"+Inf"`, `"Inf"`:
		*v = Value(math.Inf(1))
		return nil
	case `"-Inf"`:
		*v = Value(math.Inf(-1))
		return nil
	}
	var f *float64
	if err := json.Unmarshal(data, &f); err != nil || f == nil {
		return &valueError{got: string(data)}
	}
	*v = Value(*f)
	return nil
}

// valueError marks JSON that is no sample value, so that Decode can say where it stands.
type valueError struct{ got string }

// Error says what stood where a value was expected.
func (e *valueError) Error() string { return e.got + " is no sample value" }

// Validate returns every finding about the pin; none means that it is valid. pinFix, if not nil, says why a metric of a
// given name cannot be held, and is empty for one that can.
func (p Pin) Validate(pinFix func(name string) string) Errors {
	var errs Errors
	errs = append(errs, validateNamespace(p.Namespace)...)
	errs = append(errs, validateLabels("labels", p.Labels)...)
	if len(p.Metrics) == 0 && len(p.Absent) == 0 && p.Fault == "" {
		errs = append(errs, Error{Field: "metrics", Fix: "must name at least one metric, unless \"absent\" or \"fault\" is set"})
	}
	for _, name := range sortedKeys(p.Metrics) {
		field := fmt.Sprintf("metrics[%s]", name)
		errs = append(errs, validateMetricName(field, name)...)
		if pinFix != nil {
			if fix := pinFix(name); fix != "" {
				errs = append(errs, Error{Field: field, Value: fmt.Sprint(float64(p.Metrics[name])), Fix: fix})
			}
		}
		if slices.Contains(p.Absent, name) {
			errs = append(errs, Error{Field: field, Value: fmt.Sprint(float64(p.Metrics[name])), Fix: "must not be listed under \"absent\" as well: keep one of the two"})
		}
	}
	for i, name := range p.Absent {
		errs = append(errs, validateMetricName(fmt.Sprintf("absent[%d]", i), name)...)
	}
	if p.Fault != "" && !slices.Contains(Faults, p.Fault) {
		errs = append(errs, Error{Field: "fault", Value: string(p.Fault), Fix: fmt.Sprintf("must be one of %q", Faults)})
	}
	return errs
}

// Validate returns every finding about the selector; none means that it is valid.
func (s Selector) Validate() Errors {
	return append(validateNamespace(s.Namespace), validateLabels("labels", s.Labels)...)
}

// PinList is the answer to GET /pin: the pins in force, oldest first.
type PinList struct {
	Pins []Pin `json:"pins"`
}

// Removed is the answer to a DELETE: how many pins or loads there were to remove.
type Removed struct {
	Removed int `json:"removed"`
}
