// Package condition keeps lists of conditions: a transition time moves only when the status does, conditions of others
// stay, and those of ours that no longer apply go.
package condition

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Problem is something that keeps an object from being as its spec asks.
type Problem struct {
	// Reason is a condition reason.
	Reason string
	// Message names the field or object, what is wrong and what to do.
	Message string
}

// New returns a condition without times.
func New(conditionType string, status bool, reason, message string) metav1.Condition {
	c := metav1.Condition{Type: conditionType, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	if status {
		c.Status = metav1.ConditionTrue
	}
	return c
}

// Merge returns the previous conditions with the wanted ones in place of all whose type is in owned. The previous list
// is not changed.
func Merge(previous []metav1.Condition, owned []string, wanted []metav1.Condition, generation int64, now metav1.Time) []metav1.Condition {
	out := slices.Clone(previous)
	for _, c := range wanted {
		c.ObservedGeneration = generation
		c.LastTransitionTime = now
		if before := meta.FindStatusCondition(previous, c.Type); before != nil && before.Status == c.Status {
			c.LastTransitionTime = before.LastTransitionTime
		}
		c.Message = truncated(c.Message)
		meta.RemoveStatusCondition(&out, c.Type)
		out = append(out, c)
	}
	out = slices.DeleteFunc(out, func(c metav1.Condition) bool {
		return slices.Contains(owned, c.Type) && meta.FindStatusCondition(wanted, c.Type) == nil
	})
	slices.SortFunc(out, func(a, b metav1.Condition) int {
		switch {
		case a.Type < b.Type:
			return -1
		case a.Type > b.Type:
			return 1
		}
		return 0
	})
	return out
}

// truncated keeps a message readable in a terminal, and far below the API server's limit.
func truncated(message string) string {
	const most = 1024
	runes := []rune(message)
	if len(runes) <= most {
		return message
	}
	return string(runes[:most-1]) + "…"
}
