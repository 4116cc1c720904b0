package testkit

import (
	"testing"

	"sigs.k8s.io/yaml"
)

// FromYAML reads a value, of which the text may have no fields that the type has not.
func FromYAML[T any](tb testing.TB, text string) T {
	tb.Helper()
	var value T
	if err := yaml.UnmarshalStrict([]byte(text), &value); err != nil {
		tb.Fatalf("reading %s: %v", text, err)
	}
	return value
}
