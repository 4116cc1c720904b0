package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Load sets the stream of requests of a service and the pods that serve it. Posting a load under a name that exists
// replaces its stream; requests in the service stay.
type Load struct {
	// Name identifies the service. Required; the form of a Kubernetes name.
	Name string `json:"name"`
	// Namespace of the pods. Required.
	Namespace string `json:"namespace"`
	// Selector is the labels of pods that do prefill and decode. Either it, or both Prefill and Decode, must be set.
	Selector map[string]string `json:"selector,omitempty"`
	// Prefill and Decode are the labels of the pods of a disaggregated service. They must not be the same.
	Prefill map[string]string `json:"prefill,omitempty"`
	Decode  map[string]string `json:"decode,omitempty"`

	// Rate is the mean number of requests per second, 0 to MaxRate. Either it or Trace must be set.
	Rate *float64 `json:"rate,omitempty"`
	// Arrivals is Poisson, the default, or Even. Not with Trace.
	Arrivals Arrivals `json:"arrivals,omitempty"`
	// PromptTokens and OutputTokens are the tokens per request; by default exponential with means of 1024 and 128. Not with Trace.
	PromptTokens *Lengths `json:"promptTokens,omitempty"`
	OutputTokens *Lengths `json:"outputTokens,omitempty"`

	// Trace names the recording to replay.
	Trace string `json:"trace,omitempty"`
	// Speed is how many times faster than recorded, above 0 to MaxSpeed; 1 by default. Only with Trace.
	Speed *float64 `json:"speed,omitempty"`
	// Loop begins the recording again at its end. Only with Trace.
	Loop bool `json:"loop,omitempty"`

	// Seed makes the random choices of the stream; 0 is a seed like any other.
	Seed uint64 `json:"seed,omitempty"`
	// KeepQueues leaves waiting requests at the pod that they were sent to. Otherwise they are spread again whenever a pod becomes ready.
	KeepQueues bool `json:"keepQueues,omitempty"`
	// Engine changes parameters of the engines.
	Engine *Engine `json:"engine,omitempty"`
}

// Arrivals says how requests follow each other.
type Arrivals string

const (
	// Poisson arrivals come independently of each other.
	Poisson Arrivals = "poisson"
	// Even arrivals keep the same distance.
	Even Arrivals = "even"
)

// Limits of a load.
const (
	// MaxRate is the greatest rate, in requests per second.
	MaxRate = 10_000
	// MaxTokens is the greatest mean length of prompts and outputs, in tokens.
	MaxTokens = 100_000
	// MaxSpeed is the greatest speed of a replay.
	MaxSpeed = 1000
)

// Engine holds parameters of the simulated engines. What is not set has the default that GET /load shows.
type Engine struct {
	// PrefillTokensPerSecond is the prompt tokens that an engine computes per second, above 0.
	PrefillTokensPerSecond *float64 `json:"prefillTokensPerSecond,omitempty"`
	// MaxConcurrentPrefills is the prompts that an engine computes at a time, at least 1.
	MaxConcurrentPrefills *int `json:"maxConcurrentPrefills,omitempty"`
	// MaxBatchSize is the requests that an engine runs at a time, at least 1.
	MaxBatchSize *int `json:"maxBatchSize,omitempty"`
	// StepSeconds is the time of a decode step with an empty batch, in seconds, above 0.
	StepSeconds *float64 `json:"stepSeconds,omitempty"`
	// StepSecondsPerRequest is what each request in the batch adds to a step, in seconds, at least 0.
	StepSecondsPerRequest *float64 `json:"stepSecondsPerRequest,omitempty"`
	// KVCacheTokens is the tokens that the KV cache holds, at least 1.
	KVCacheTokens *int `json:"kvCacheTokens,omitempty"`
	// PrefillShare is the part of its time that an engine of a mixed pod gives to prefill while it also decodes, above 0 and below 1.
	PrefillShare *float64 `json:"prefillShare,omitempty"`
}

// Lengths is a distribution of tokens per request. In JSON it may be a plain number, which stands for a constant length.
type Lengths struct {
	// Mean in tokens, 1 to MaxTokens.
	Mean float64 `json:"mean"`
	// Distribution is constant, exponential or lognormal.
	Distribution string `json:"distribution"`
	// Variation is the standard deviation divided by the mean, above 0 to 10; 1 by default. Lognormal only.
	Variation float64 `json:"variation,omitempty"`

	// problem is what was wrong with the JSON. Validate reports it, since only there the field's name is known.
	problem *Error
}

// Distributions are all values of Lengths.Distribution.
var Distributions = []string{"constant", "exponential", "lognormal"}

const lengthsFix = `must be a number of tokens, or an object like {"mean": 1024, "distribution": "exponential"}`

// UnmarshalJSON reads a number or an object.
func (l *Lengths) UnmarshalJSON(data []byte) error {
	*l = Lengths{}
	if err := json.Unmarshal(data, &l.Mean); err == nil {
		l.Distribution = "constant"
		return nil
	}
	type plain Lengths
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode((*plain)(l)); err != nil {
		fix := lengthsFix
		if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			fix = fmt.Sprintf("must not have the field %s: the fields are mean, distribution and variation", field)
		}
		l.problem = &Error{Value: shorten(string(data)), Fix: fix}
	}
	return nil
}

func (l *Lengths) validate(field string) Errors {
	if l == nil {
		return nil
	}
	if l.problem != nil {
		return Errors{{Field: field, Value: l.problem.Value, Fix: l.problem.Fix}}
	}
	errs := validateRange(field+".mean", &l.Mean, 1, MaxTokens)
	if !slices.Contains(Distributions, l.Distribution) {
		errs = append(errs, Error{Field: field + ".distribution", Value: l.Distribution, Fix: fmt.Sprintf("must be one of %q", Distributions)})
	}
	switch {
	case l.Variation != 0 && l.Distribution != "lognormal":
		errs = append(errs, Error{Field: field + ".variation", Value: fmt.Sprint(l.Variation), Fix: "must not be set unless the distribution is \"lognormal\""})
	case l.Variation < 0 || l.Variation > 10:
		errs = append(errs, Error{Field: field + ".variation", Value: fmt.Sprint(l.Variation), Fix: "must be above 0 and at most 10"})
	}
	return errs
}

// Validate returns every finding about the load; none means that it is valid. traces are the names that Trace may have.
func (l Load) Validate(traces []string) Errors {
	var errs Errors
	switch {
	case l.Name == "":
		errs = append(errs, Error{Field: "name", Fix: "must be set: later requests change or stop the load by it"})
	case !dnsLabel.MatchString(l.Name):
		errs = append(errs, Error{Field: "name", Value: l.Name, Fix: "must be at most 63 of a-z, 0-9 and \"-\", with a letter or digit at both ends"})
	}
	errs = append(errs, validateNamespace(l.Namespace)...)
	errs = append(errs, l.validatePods()...)
	errs = append(errs, l.validateStream(traces)...)
	errs = append(errs, l.Engine.validate()...)
	return errs
}

func (l Load) validatePods() Errors {
	var errs Errors
	for _, labels := range []struct {
		field string
		value map[string]string
	}{{"selector", l.Selector}, {"prefill", l.Prefill}, {"decode", l.Decode}} {
		if labels.value != nil && len(labels.value) == 0 {
			errs = append(errs, Error{Field: labels.field, Value: "{}", Fix: "must have at least one label"})
		}
		errs = append(errs, validateLabels(labels.field, labels.value)...)
	}
	switch {
	case l.Selector != nil && (l.Prefill != nil || l.Decode != nil):
		errs = append(errs, Error{Field: "selector", Fix: "must not be set together with prefill and decode: pods are mixed or split by phase"})
	case l.Selector == nil && l.Prefill == nil && l.Decode == nil:
		errs = append(errs, Error{Field: "selector", Fix: "must be set to the labels of the pods, unless prefill and decode are"})
	case l.Selector == nil && l.Prefill == nil:
		errs = append(errs, Error{Field: "prefill", Fix: "must be set, since decode is"})
	case l.Selector == nil && l.Decode == nil:
		errs = append(errs, Error{Field: "decode", Fix: "must be set, since prefill is"})
	case l.Selector == nil && subset(l.Prefill, l.Decode):
		errs = append(errs, Error{Field: "decode", Value: fmt.Sprint(l.Decode), Fix: "must differ from prefill in a label's value, or no pod would be left for decode"})
	}
	return errs
}

// subset reports whether all pairs of a are in b.
func subset(a, b map[string]string) bool {
	for key, value := range a {
		if got, ok := b[key]; !ok || got != value {
			return false
		}
	}
	return true
}

func (l Load) validateStream(traces []string) Errors {
	var errs Errors
	if l.Trace == "" {
		if l.Rate == nil {
			errs = append(errs, Error{Field: "rate", Fix: "must be set to requests per second, unless trace is set"})
		}
		for field, set := range map[string]bool{"speed": l.Speed != nil, "loop": l.Loop} {
			if set {
				errs = append(errs, Error{Field: field, Fix: "must not be set without trace"})
			}
		}
	} else {
		if !slices.Contains(traces, l.Trace) {
			errs = append(errs, Error{Field: "trace", Value: l.Trace, Fix: fmt.Sprintf("must be one of %q", traces)})
		}
		for field, set := range map[string]bool{
			"rate": l.Rate != nil, "arrivals": l.Arrivals != "", "promptTokens": l.PromptTokens != nil, "outputTokens": l.OutputTokens != nil,
		} {
			if set {
				errs = append(errs, Error{Field: field, Fix: "must not be set together with trace, which has its own"})
			}
		}
	}
	slices.SortFunc(errs, func(a, b Error) int { return strings.Compare(a.Field, b.Field) })
	errs = append(errs, validateRange("rate", l.Rate, 0, MaxRate)...)
	if l.Arrivals != "" && l.Arrivals != Poisson && l.Arrivals != Even {
		errs = append(errs, Error{Field: "arrivals", Value: string(l.Arrivals), Fix: fmt.Sprintf("must be %q or %q", Poisson, Even)})
	}
	errs = append(errs, l.PromptTokens.validate("promptTokens")...)
	errs = append(errs, l.OutputTokens.validate("outputTokens")...)
	return append(errs, validateAbove("speed", l.Speed, 0, MaxSpeed)...)
}

func (e *Engine) validate() Errors {
	if e == nil {
		return nil
	}
	return slices.Concat(
		validateAbove("engine.prefillTokensPerSecond", e.PrefillTokensPerSecond, 0, 1e9),
		validateRange("engine.maxConcurrentPrefills", e.MaxConcurrentPrefills, 1, 10_000),
		validateRange("engine.maxBatchSize", e.MaxBatchSize, 1, 100_000),
		validateAbove("engine.stepSeconds", e.StepSeconds, 0, 60),
		validateRange("engine.stepSecondsPerRequest", e.StepSecondsPerRequest, 0, 60),
		validateRange("engine.kvCacheTokens", e.KVCacheTokens, 1, 1_000_000_000),
		validateBetween("engine.prefillShare", e.PrefillShare, 0, 1),
	)
}

// The limits are compared so that NaN is outside all of them.

func validateRange[T int | float64](field string, value *T, least, most T) Errors {
	if value == nil || (*value >= least && *value <= most) {
		return nil
	}
	return Errors{{Field: field, Value: fmt.Sprint(*value), Fix: fmt.Sprintf("must be at least %v and at most %v", least, most)}}
}

func validateAbove(field string, value *float64, limit, most float64) Errors {
	if value == nil || (*value > limit && *value <= most) {
		return nil
	}
	return Errors{{Field: field, Value: fmt.Sprint(*value), Fix: fmt.Sprintf("must be above %v and at most %v", limit, most)}}
}

func validateBetween(field string, value *float64, low, high float64) Errors {
	if value == nil || (*value > low && *value < high) {
		return nil
	}
	return Errors{{Field: field, Value: fmt.Sprint(*value), Fix: fmt.Sprintf("must be above %v and below %v", low, high)}}
}

// LoadList is the answer to GET /load: the loads in force, the oldest first, with their defaults filled in.
type LoadList struct {
	Loads []Load `json:"loads"`
}
