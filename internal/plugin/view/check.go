package view

import (
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CheckReport is what admission would say of manifests.
type CheckReport struct {
	metav1.TypeMeta `json:",inline"`
	Objects         []Checked `json:"objects"`
	// Passed is how many objects of other kinds were passed over.
	Passed int `json:"passedOver,omitempty"`
}

// Checked is what admission would say of one object.
type Checked struct {
	Source   string    `json:"source"`
	Object   Reference `json:"object"`
	Errors   []string  `json:"errors,omitempty"`
	Warnings []string  `json:"warnings,omitempty"`
}

// Refused is how many objects would be refused.
func (r *CheckReport) Refused() int {
	n := 0
	for _, o := range r.Objects {
		if len(o.Errors) > 0 {
			n++
		}
	}
	return n
}

// Print writes the report for people.
func (r *CheckReport) Print(w io.Writer, style Style) error {
	p := &printer{w: w}
	for _, o := range r.Objects {
		verdict := style.Good("accepted")
		if len(o.Errors) > 0 {
			verdict = style.Bad("refused")
		}
		p.line("%s: %s: %s", o.Source, o.Object, verdict)
		for _, text := range o.Errors {
			p.line("  error: %s", text)
		}
		for _, text := range o.Warnings {
			p.line("  warning: %s", text)
		}
	}
	summary := plural(len(r.Objects), "object", "objects") + ", " + plural(r.Refused(), "refused", "refused")
	if r.Passed > 0 {
		summary += ", " + plural(r.Passed, "of another kind passed over", "of other kinds passed over")
	}
	p.line("%s", summary)
	return p.err
}
