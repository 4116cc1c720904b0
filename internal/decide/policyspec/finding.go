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
	// Reason is the code of the finding.
	Reason string
	// Detail says where it is and what must hold.
	Detail string
}

// String gives the reason and the detail.
func (f Finding) String() string { return f.Reason + ": " + f.Detail }

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
		findings = append(findings, Finding{reason, err.Error()})
	}
	return findings
}
