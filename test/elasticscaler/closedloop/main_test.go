// Package closedloop lets ElasticScalers follow a recorded stream of requests, on simulated engines whose queues react to
// scaling.
package closedloop

import (
	"context"
	"os"
	"testing"

	"github.com/pd-orchestrator/pd-orchestrator/lab"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
)

var env *estest.Env

func TestMain(m *testing.M) {
	os.Exit(estest.Main(m, &env, lab.Options{}, func(ctx context.Context, e *estest.Env) error {
		return e.StartManager(ctx, "")
	}))
}
