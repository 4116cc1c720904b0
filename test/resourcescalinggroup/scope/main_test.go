// Package scope runs managers whose settings about Prometheus do not fit, and Prometheus with samples that are old.
package scope

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/pd-orchestrator/pd-orchestrator/lab"
	"github.com/pd-orchestrator/pd-orchestrator/test/resourcescalinggroup/rsgtest"
)

var env *rsgtest.Env

func TestMain(m *testing.M) {
	// Prometheus' own default, since it is of samples that it still answers with that some tests are.
	options := lab.Options{LookbackDelta: 5 * time.Minute}
	os.Exit(rsgtest.MainWithLab(m, &env, options, func(context.Context, *rsgtest.Env) error { return nil }))
}

// manager runs a manager with these settings about Prometheus until the end of the test.
func manager(t *testing.T, prometheus string) {
	t.Helper()
	m, err := env.StartManager(t.Context(), rsgtest.ManagerOptions{Prometheus: prometheus})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Stop(); err != nil {
			t.Error(err)
		}
		if err := m.Healthy(); err != nil {
			t.Error(err)
		}
	})
}
