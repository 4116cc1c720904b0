package condition

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMerge(t *testing.T) {
	then, now := metav1.Unix(100, 0), metav1.Unix(200, 0)
	previous := []metav1.Condition{
		{Type: "Foreign", Status: metav1.ConditionTrue, Reason: "X", LastTransitionTime: then},
		{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Old", LastTransitionTime: then, ObservedGeneration: 1},
		{Type: "Retired", Status: metav1.ConditionTrue, Reason: "X", LastTransitionTime: then},
		{Type: "Scalable", Status: metav1.ConditionTrue, Reason: "X", LastTransitionTime: then},
	}
	got := Merge(previous, []string{"Ready", "Retired", "Scalable"}, []metav1.Condition{
		New("Scalable", true, "X", "same status"),
		New("Ready", true, "New", "other status"),
	}, 2, now)
	want := []metav1.Condition{
		{Type: "Foreign", Status: metav1.ConditionTrue, Reason: "X", LastTransitionTime: then},
		{Type: "Ready", Status: metav1.ConditionTrue, Reason: "New", Message: "other status", LastTransitionTime: now, ObservedGeneration: 2},
		{Type: "Scalable", Status: metav1.ConditionTrue, Reason: "X", Message: "same status", LastTransitionTime: then, ObservedGeneration: 2},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if previous[1].Reason != "Old" {
		t.Error("the previous list was changed")
	}
	if diff := cmp.Diff(got, Merge(got, []string{"Ready", "Retired", "Scalable"}, got[1:], 2, metav1.NewTime(now.Add(time.Hour)))); diff != "" {
		t.Errorf("merging the same again changed something:\n%s", diff)
	}
}

func TestMessagesAreBounded(t *testing.T) {
	got := Merge(nil, nil, []metav1.Condition{New("Ready", false, "X", strings.Repeat("ä", 5000))}, 1, metav1.Unix(1, 0))
	if n := len([]rune(got[0].Message)); n != 1024 {
		t.Errorf("message of %d characters, want 1024", n)
	}
}
