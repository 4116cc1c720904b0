// Package view puts what objects hold into words, tables and trees for people. It is pure: objects and the present moment
// come in, what to show comes out, in a form that is printed as text and encoded as JSON alike.
package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// APIVersion is that of the documents that the plug-in prints as JSON and YAML.
const APIVersion = "cli.pd-orchestrator.io/v1alpha1"

// Reference names an object.
type Reference struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// String is the reference as people write it: kind namespace/name.
func (r Reference) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// ReferenceTo names an object of a kind.
func ReferenceTo(kind string, obj client.Object) Reference {
	return Reference{Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// Table is rows under columns. A cell without a value is "-".
type Table struct {
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}

// Add adds a row. Empty cells become "-", so that columns can be told apart.
func (t *Table) Add(cells ...string) {
	for i := range cells {
		cells[i] = cmp.Or(cells[i], "-")
	}
	t.Rows = append(t.Rows, cells)
}

// count is an optional count, "" where there is none.
func count(n *int32) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(int(*n))
}

// of is "ready/desired".
func of(ready, desired int32) string { return fmt.Sprintf("%d/%d", ready, desired) }

// plural is a number of things.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Age is how long ago a moment was, in the short form of kubectl, "" for no moment.
func Age(t time.Time, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return duration.HumanDuration(now.Sub(t))
}

// ago is Age in a sentence.
func ago(t *metav1.Time, now time.Time) string {
	if t == nil || t.IsZero() {
		return "at an unknown time"
	}
	return Age(t.Time, now) + " ago"
}

// moment is a moment in UTC.
func moment(t *metav1.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// Event is an event about an object.
type Event struct {
	Type   string      `json:"type"`
	Reason string      `json:"reason"`
	Note   string      `json:"note"`
	Time   metav1.Time `json:"time,omitzero"`
	Count  int32       `json:"count"`
}

// Events returns the last events, the newest first, at most some.
func Events(all []corev1.Event, most int) []Event {
	var out []Event
	for _, e := range all {
		n, at := int32(1), metav1.NewTime(e.EventTime.Time)
		switch {
		case e.Series != nil:
			n, at = e.Series.Count, metav1.NewTime(e.Series.LastObservedTime.Time)
		case e.Count > 0:
			n, at = e.Count, e.LastTimestamp
		}
		if at.IsZero() {
			at = e.CreationTimestamp
		}
		out = append(out, Event{Type: e.Type, Reason: e.Reason, Note: e.Message, Time: at, Count: n})
	}
	slices.SortStableFunc(out, func(a, b Event) int { return b.Time.Compare(a.Time.Time) })
	return out[:min(most, len(out))]
}

// join writes names in a sentence.
func join(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
