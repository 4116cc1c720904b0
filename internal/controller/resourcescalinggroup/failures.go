package resourcescalinggroup

import (
	"errors"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pd-orchestrator/pd-orchestrator/internal/desired"
)

// failureDeadline is how long writes may fail for a reason that could be over in a moment (a time-out, a busy server)
// before the status says so. A refusal is told at once.
const failureDeadline = 30 * time.Second

// failures remembers since when writes for an object have failed without being refused. Forgetting it, as a restart
// does, only makes the deadline begin anew.
type failures struct {
	mu    sync.Mutex
	since map[types.NamespacedName]time.Time
}

// explain says what went wrong in a pass, "" where nothing did that is to be told yet.
func (f *failures) explain(of types.NamespacedName, cause error, now time.Time) string {
	var told, passing []error
	for _, err := range leaves(cause) {
		switch {
		case apierrors.IsConflict(err): // The next pass has read what this one had not.
		case desired.Refused(err):
			told = append(told, err)
		default:
			passing = append(passing, err)
		}
	}
	if f.lasts(of, len(passing) > 0, now) {
		told = append(told, passing...)
	}
	var ofGroups []*desired.GroupFailure
	var parts []string
	for _, err := range told {
		var ofGroup *desired.GroupFailure
		if errors.As(err, &ofGroup) {
			ofGroups = append(ofGroups, ofGroup)
			continue
		}
		parts = append(parts, err.Error())
	}
	if len(ofGroups) > 0 {
		parts = append([]string{desired.DescribeFailures(ofGroups)}, parts...)
	}
	return strings.Join(parts, "; ")
}

// lasts reports whether there is a failure and has been one in every pass since before the deadline.
func (f *failures) lasts(of types.NamespacedName, failing bool, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !failing {
		delete(f.since, of)
		return false
	}
	since, known := f.since[of]
	if !known {
		if f.since == nil {
			f.since = map[types.NamespacedName]time.Time{}
		}
		f.since[of] = now
		return false
	}
	return now.Sub(since) >= failureDeadline
}

func (f *failures) forget(of types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.since, of)
}

// leaves takes joined errors apart.
func leaves(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, leaves(e)...)
	}
	return all
}
