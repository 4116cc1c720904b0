// Package api holds the JSON documents of the simulator's control API and the rules for them.
package api

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Error is one finding about a request: where, what was found there, and what must hold instead.
type Error struct {
	// Field is the path of the field in the document or the name of the query parameter; empty for the request as a whole.
	Field string `json:"field,omitempty"`
	// Value is what the field held, shortened when long; empty when the field was missing.
	Value string `json:"value,omitempty"`
	// Fix says what must hold.
	Fix string `json:"fix"`
}

// Error returns the finding in words.
func (e Error) Error() string {
	switch {
	case e.Field == "":
		return e.Fix
	case e.Value == "":
		return e.Field + ": " + e.Fix
	default:
		return fmt.Sprintf("%s: %q: %s", e.Field, e.Value, e.Fix)
	}
}

// Errors are all findings about a request; the control API answers with them and a status of 400 or above.
type Errors []Error

// Error returns all findings, separated by semicolons.
func (e Errors) Error() string {
	words := make([]string, len(e))
	for i := range e {
		words[i] = e[i].Error()
	}
	return strings.Join(words, "; ")
}

// ErrorBody is the document that accompanies every refused request.
type ErrorBody struct {
	Errors Errors `json:"errors"`
}

var (
	dnsLabel   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	labelName  = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	metricName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
)

func validateNamespace(namespace string) Errors {
	switch {
	case namespace == "":
		return Errors{{Field: "namespace", Fix: "must be set to the namespace of the pods"}}
	case !dnsLabel.MatchString(namespace):
		return Errors{{Field: "namespace", Value: namespace, Fix: "must be the name of a namespace: at most 63 of a-z, 0-9 and \"-\", with a letter or digit at both ends"}}
	}
	return nil
}

func validateLabels(field string, labels map[string]string) Errors {
	var errs Errors
	for _, key := range sortedKeys(labels) {
		name := key
		if i := strings.LastIndexByte(key, '/'); i >= 0 {
			name = key[i+1:]
		}
		if !labelName.MatchString(name) {
			errs = append(errs, Error{Field: field, Value: key, Fix: "must have label keys as keys, like app or example.com/app"})
		}
		if value := labels[key]; value != "" && !labelName.MatchString(value) {
			errs = append(errs, Error{Field: fmt.Sprintf("%s[%s]", field, key), Value: value, Fix: "must be a label value: at most 63 of A-Z, a-z, 0-9, \"-\", \"_\" and \".\", with a letter or digit at both ends"})
		}
	}
	return errs
}

func validateMetricName(field, name string) Errors {
	if metricName.MatchString(name) {
		return nil
	}
	return Errors{{Field: field, Value: name, Fix: "must be a metric name without labels: letters, digits, \"_\" and \":\", not beginning with a digit"}}
}

// shorten cuts what a finding quotes.
func shorten(value string) string {
	const most = 120
	if len(value) <= most {
		return value
	}
	return strings.ToValidUTF8(value[:most], "") + "..."
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
