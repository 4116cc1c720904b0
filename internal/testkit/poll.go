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
func Eventually(tb testing.TB, within time.Duration, what string, check func(context.Context) error) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), within)
	defer cancel()
	ticker := time.NewTicker(PollInterval)
	defer ticker.Stop()
	var reason error
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		// A look that the end of the time cut off says less than the one before.
		if ctx.Err() == nil || reason == nil {
			reason = err
		}
		select {
		case <-ctx.Done():
			tb.Fatalf("waited %s for %s: %v", within, what, reason)
		case <-ticker.C:
		}
	}
}

// Consistently looks again and again until the time is over, and ends the test at the first look that fails.
func Consistently(tb testing.TB, during time.Duration, what string, check func(context.Context) error) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), during)
	defer cancel()
	ticker := time.NewTicker(PollInterval)
	defer ticker.Stop()
	for {
		if err := check(tb.Context()); err != nil {
			tb.Fatalf("expected for %s that %s: %v", during, what, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
