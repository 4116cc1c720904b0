// Package resourcescalinggroup tests the ResourceScalingGroup controller as users meet it: the manager as a process, on
// a real control plane, ranking by a real Prometheus.
package resourcescalinggroup

import (
	"context"
	"os"
	"testing"

	"github.com/pd-orchestrator/pd-orchestrator/test/resourcescalinggroup/rsgtest"
)

var env *rsgtest.Env

func TestMain(m *testing.M) {
	os.Exit(rsgtest.Main(m, &env, func(ctx context.Context, e *rsgtest.Env) error {
		_, err := e.StartManager(ctx, rsgtest.ManagerOptions{})
		return err
	}))
}
