package manager

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/pd-orchestrator/pd-orchestrator/internal/config"
)

func TestTheLogNamesWhatIsWatched(t *testing.T) {
	ours := predicate.TypedFuncs[*corev1.Pod]{CreateFunc: func(event.TypedCreateEvent[*corev1.Pod]) bool { return true }}
	watch := source.Kind(nil, &corev1.Pod{}, &handler.TypedEnqueueRequestForObject[*corev1.Pod]{}, ours)
	for _, format := range []string{"json", "text"} {
		var out strings.Builder
		newLogger(&out, config.Log{Format: format}).Info("Starting EventSource", "source", watch)
		if got := out.String(); !strings.Contains(got, "kind source: *v1.Pod") {
			t.Errorf("format %s: the log is %s", format, got)
		}
	}
}
