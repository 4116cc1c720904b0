// Package benchmark measures what the controllers cost, always beside something else in the same run, since machines
// differ. Run it with: go test -run=NONE -bench=. -timeout=60m ./benchmark
package benchmark

import (
	"context"
	"flag"
	"os"
	"testing"

	"github.com/pd-orchestrator/pd-orchestrator/test/resourcescalinggroup/rsgtest"
)

var env *rsgtest.Env

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		os.Exit(m.Run()) // No benchmark is asked for, so no lab is needed.
	}
	os.Exit(rsgtest.Main(m, &env, func(ctx context.Context, e *rsgtest.Env) error {
		_, err := e.StartManager(ctx, rsgtest.ManagerOptions{})
		return err
	}))
}
