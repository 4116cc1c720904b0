// Package random drives a ResourceScalingGroup through random steps, faults included, and checks after each settling
// that nothing is doubled, lost, left behind or touched that is not its own.
package random

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
