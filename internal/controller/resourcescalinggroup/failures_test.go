package resourcescalinggroup

import (
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pd-orchestrator/pd-orchestrator/internal/desired"
)

func TestFailuresAreToldWhenTheyLast(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	refused := &desired.GroupFailure{ID: 2, Object: "Service ns/a", Err: apierrors.NewForbidden(pods, "a", errors.New("exceeded quota"))}
	away := fmt.Errorf("marking Pod ns/b: %w", apierrors.NewTimeoutError("too slow", 1))
	late := apierrors.NewConflict(pods, "c", errors.New("changed"))
	const refusedText = `group 2 lacks Service ns/a: quota: pods "a" is forbidden: exceeded quota`
	start := time.Unix(1000, 0)
	type pass struct {
		after time.Duration
		cause error
		want  string
	}
	cases := map[string][]pass{
		"nothing went wrong":           {{0, nil, ""}},
		"a refusal at once":            {{0, refused, refusedText}},
		"never a write that came late": {{0, late, ""}, {time.Hour, errors.Join(late), ""}},
		"what may pass once it lasts": {
			{0, errors.Join(nil, errors.Join(away, refused)), refusedText},
			{failureDeadline - 1, away, ""},
			{failureDeadline, errors.Join(away, refused), refusedText + "; marking Pod ns/b: Timeout: too slow"},
		},
		"from anew after it was over": {
			{0, away, ""},
			{failureDeadline - 1, late, ""},
			{failureDeadline, away, ""},
			{2 * failureDeadline, away, "marking Pod ns/b: Timeout: too slow"},
		},
	}
	for name, passes := range cases {
		t.Run(name, func(t *testing.T) {
			var f failures
			for _, p := range passes {
				if got := f.explain(types.NamespacedName{Name: "llm"}, p.cause, start.Add(p.after)); got != p.want {
					t.Errorf("after %s: got %q, want %q", p.after, got, p.want)
				}
			}
		})
	}
}
