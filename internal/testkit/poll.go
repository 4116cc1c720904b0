// Package testkit holds what tests of several suites share: builders of objects, and waiting that ends with a reason.
// Only tests import it.
package testkit

import (
	"context"
	"testing"
	"time"
)

// PollInterval is the time between two looks at something that is waited for.
const PollInterval = 25 * time.Millisecond

// Eventually waits until check returns nil. A check that is still not satisfied when the time is up ends the test with
// its last error, which is the reason.
func Eventually(t testing.TB, within time.Duration, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	ticker := time.NewTicker(PollInterval)
	defer ticker.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waited %s for %s: %v", within, what, err)
		case <-ticker.C:
		}
	}
}

// Consistently looks again and again until the time is over, and ends the test at the first look that fails.
func Consistently(t testing.TB, during time.Duration, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), during)
	defer cancel()
	ticker := time.NewTicker(PollInterval)
	defer ticker.Stop()
	for {
		if err := check(t.Context()); err != nil {
			t.Fatalf("expected for %s that %s: %v", during, what, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
