// Package servingruntime answers which runtime serves the model of an InferenceService, and where there is none, what was
// missing.
package servingruntime

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
)

// Kinds of models and runtimes.
const (
	KindClusterBaseModel      = "ClusterBaseModel"
	KindBaseModel             = "BaseModel"
	KindClusterServingRuntime = "ClusterServingRuntime"
	KindServingRuntime        = "ServingRuntime"
)

// Runtime is a runtime that the service can reach: of its namespace, or of the cluster.
type Runtime struct {
	// Kind is ServingRuntime or ClusterServingRuntime.
	Kind string
	// Name is the name of the runtime.
	Name string
	// Spec is what it supports, and how it runs.
	Spec v1beta1.ServingRuntimeSpec
}

// Question is what a choice is made from.
type Question struct {
	// Service is the spec of the service.
	Service v1beta1.InferenceServiceSpec
	// Model is the model that the service names, nil where it does not exist or none is named.
	Model *v1beta1.BaseModelSpec
	// Runtimes are all that the service can reach.
	Runtimes []Runtime
}

// Choice is the runtime that serves, or why there is none.
type Choice struct {
	// Resolved tells that pods can be made, with Runtime or, where that is nil, without any.
	Resolved bool
	// Runtime is the one that serves.
	Runtime *Runtime
	// Reason is one of condition RuntimeResolved.
	Reason string
	// Message says what was chosen, or what was missing.
	Message string
	// Partial tells that the service names a runtime that does not declare support for its model.
	Partial bool
}

// mostNamed is how many runtimes a message says something of.
const mostNamed = 8

// Choose returns the runtime that the service names; or of those that are enabled, may be selected and support the model's
// format and size, the one of the highest priority, of several the first by name, and of two of one name the namespace's own.
func Choose(q Question) Choice {
	if ref := q.Service.Model; ref != nil && q.Model == nil {
		if ref.Kind != KindClusterBaseModel && ref.Kind != KindBaseModel {
			return none(v1beta1.ReasonBaseModelNotFound, "model.kind %q must be %s or %s", ref.Kind, KindClusterBaseModel, KindBaseModel)
		}
		return none(v1beta1.ReasonBaseModelNotFound, "%s %q does not exist: create it, or correct spec.model", ref.Kind, ref.Name)
	}
	if q.Service.Runtime != nil {
		return named(q)
	}
	if q.Service.Model == nil {
		if selfContained(q.Service) {
			return Choice{Resolved: true, Reason: v1beta1.ReasonRuntimeNotNeeded, Message: "each component says itself what it runs"}
		}
		return none(v1beta1.ReasonNoSupportingRuntime, "spec names neither a model nor a runtime, and not every component has a runner with an image")
	}
	var best *Runtime
	bestPriority := int32(0)
	var missing []string
	runtimes := slices.SortedFunc(slices.Values(q.Runtimes), func(a, b Runtime) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), -strings.Compare(a.Kind, b.Kind))
	})
	for i, r := range runtimes {
		priority, lack := fits(r.Spec, *q.Model)
		switch {
		case lack != "":
			missing = append(missing, fmt.Sprintf("%s %s %s", r.Kind, r.Name, lack))
		case best == nil || priority > bestPriority:
			best, bestPriority = &runtimes[i], priority
		}
	}
	switch {
	case best != nil:
		return Choice{Resolved: true, Runtime: best, Reason: v1beta1.ReasonRuntimeSelected, Message: fmt.Sprintf("%s %s is selected for model %s", best.Kind, best.Name, q.Service.Model.Name)}
	case selfContained(q.Service):
		return Choice{Resolved: true, Reason: v1beta1.ReasonRuntimeNotNeeded, Message: "each component says itself what it runs"}
	case len(missing) == 0:
		missing = []string{"there is no runtime"}
	case len(missing) > mostNamed:
		missing = append(missing[:mostNamed], fmt.Sprintf("and %d more", len(missing)-mostNamed))
	}
	return none(v1beta1.ReasonNoSupportingRuntime, "no supporting runtime found for model %s of %s: %s", q.Service.Model.Name, describe(*q.Model), strings.Join(missing, "; "))
}

func none(reason, format string, args ...any) Choice {
	return Choice{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func named(q Question) Choice {
	ref := q.Service.Runtime
	other := ""
	for i, r := range q.Runtimes {
		switch {
		case r.Name != ref.Name:
		case r.Kind != ref.Kind:
			other = fmt.Sprintf("; there is a %s of that name: set spec.runtime.kind", r.Kind)
		case disabled(r.Spec):
			return none(v1beta1.ReasonRuntimeDisabled, "%s %s is disabled", r.Kind, r.Name)
		default:
			choice := Choice{Resolved: true, Runtime: &q.Runtimes[i], Reason: v1beta1.ReasonRuntimeNamed, Message: fmt.Sprintf("%s %s is named by the service", r.Kind, r.Name)}
			if q.Model != nil {
				if _, lack := supports(r.Spec, *q.Model, false); lack != "" {
					choice.Partial = true
					choice.Message += fmt.Sprintf("; it does not declare support for model %s of %s: it %s", q.Service.Model.Name, describe(*q.Model), lack)
				}
			}
			return choice
		}
	}
	return none(v1beta1.ReasonRuntimeNotRecognized, "%s %q does not exist%s", ref.Kind, ref.Name, other)
}

func disabled(r v1beta1.ServingRuntimeSpec) bool { return r.Disabled != nil && *r.Disabled }

// fits returns the priority with which a runtime can be selected for a model, or what it lacks.
func fits(r v1beta1.ServingRuntimeSpec, m v1beta1.BaseModelSpec) (priority int32, lack string) {
	if disabled(r) {
		return 0, "is disabled"
	}
	return supports(r, m, true)
}

// supports returns the priority of the best format of a runtime that is the model's, or what the runtime lacks.
func supports(r v1beta1.ServingRuntimeSpec, m v1beta1.BaseModelSpec, toSelect bool) (priority int32, lack string) {
	if m.ModelFormat == nil {
		return 0, "cannot be matched, since the model has no modelFormat"
	}
	var formats []string
	equal := false
	for _, f := range r.SupportedModelFormats {
		formats = append(formats, describeFormat(&f.ModelFormat))
		if f.ModelFormat.Name != m.ModelFormat.Name || !equalVersions(f.ModelFormat.Version, m.ModelFormat.Version) {
			continue
		}
		equal = true
		if !toSelect || f.AutoSelect != nil && *f.AutoSelect {
			p := int32(1)
			if f.Priority != nil {
				p = *f.Priority
			}
			priority = max(priority, p)
		}
	}
	switch {
	case len(formats) == 0:
		return 0, "supports no format"
	case !equal:
		return 0, "supports format " + strings.Join(formats, ", ")
	case priority == 0:
		return 0, "has no autoSelect for the format"
	}
	return priority, wrongSize(r.ModelSizeRange, m.ModelParameterSize)
}

func equalVersions(a, b *string) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// wrongSize says how a model of a size is out of a range, "" where it is in it or one of both is not known.
func wrongSize(r *v1beta1.ModelSizeRange, size string) string {
	if r == nil || size == "" {
		return ""
	}
	parameters, err := parametersOf(size)
	if err != nil {
		return "cannot be matched, since the model's modelParameterSize " + err.Error()
	}
	if r.Min != "" {
		least, err := parametersOf(r.Min)
		if err != nil {
			return "has a modelSizeRange.min that " + err.Error()
		}
		if parameters < least {
			return "supports models from " + r.Min
		}
	}
	if r.Max != "" {
		most, err := parametersOf(r.Max)
		if err != nil {
			return "has a modelSizeRange.max that " + err.Error()
		}
		if parameters > most {
			return "supports models up to " + r.Max
		}
	}
	return ""
}

var units = map[byte]float64{'K': 1e3, 'M': 1e6, 'B': 1e9, 'T': 1e12}

// parametersOf reads a number of parameters, such as 1.24B.
func parametersOf(size string) (float64, error) {
	number, unit := strings.ToUpper(strings.TrimSpace(size)), 1.0
	if n := len(number); n > 0 && units[number[n-1]] > 0 {
		unit = units[number[n-1]]
		number = strings.TrimSpace(number[:n-1])
	}
	value, err := strconv.ParseFloat(number, 64)
	if err != nil || !(value > 0) {
		return 0, fmt.Errorf("is %q, which must be a number with K, M, B or T, such as 1.24B", size)
	}
	return value * unit, nil
}

func describe(m v1beta1.BaseModelSpec) string {
	text := "no format"
	if m.ModelFormat != nil {
		text = "format " + describeFormat(m.ModelFormat)
	}
	if m.ModelParameterSize != "" {
		text += " and size " + m.ModelParameterSize
	}
	return text
}

func describeFormat(f *v1beta1.NamedVersion) string {
	if f.Version == nil {
		return f.Name
	}
	return f.Name + " " + *f.Version
}

// selfContained reports whether each component has runners with images of its own.
func selfContained(s v1beta1.InferenceServiceSpec) bool {
	if s.Engine == nil && s.Decoder == nil && s.Router == nil {
		return false
	}
	for _, c := range []*v1beta1.ComponentSpec{s.Engine, s.Decoder} {
		if c != nil && !HasImages(c) {
			return false
		}
	}
	return s.Router == nil || hasImage(s.Router.Runner)
}
