// Package policyspec answers whether the settings of an autoscaler can be used: those of an AutoscalerPolicy, and the
// blocks for KEDA and HorizontalPodAutoscalers that a policy shares with the autoscaler of a component. It finds everything
// that is wrong at once.
package policyspec

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Finding is something for which settings are refused.
type Finding struct {
	// Scope is the part of the object that the finding is in, "" for the whole.
	Scope string
	// Reason is the code of the finding, "" for one that has none.
	Reason string
	// Detail says where it is and what must hold.
	Detail string
}

// String gives scope, reason and detail.
func (f Finding) String() string {
	text := f.Detail
	for _, before := range []string{f.Reason, f.Scope} {
		if before != "" {
			text = before + ": " + text
		}
	}
	return text
}

// In puts findings into a scope.
func In(scope string, findings []Finding) []Finding {
	for i := range findings {
		findings[i].Scope = scope
	}
	return findings
}

// Join puts all findings into one answer.
func Join(findings []Finding) string {
	texts := make([]string, len(findings))
	for i, f := range findings {
		texts[i] = f.String()
	}
	return strings.Join(texts, "; ")
}

// of gives each error as a finding of one reason.
func of(reason string, errs field.ErrorList) []Finding {
	var findings []Finding
	for _, err := range errs {
		findings = append(findings, Finding{Reason: reason, Detail: err.Error()})
	}
	return findings
}
