// Package keda tests AutoscalerPolicies with the real KEDA, Prometheus and HorizontalPodAutoscaler controller, over simulated
// engines.
package keda

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/pd-orchestrator/pd-orchestrator/lab"
	"github.com/pd-orchestrator/pd-orchestrator/test/autoscalerpolicy/ometest"
)

var env *ometest.Env

func TestMain(m *testing.M) {
	options := lab.Options{HPASyncPeriod: time.Second, HPADownscaleStabilization: 2 * time.Second}
	os.Exit(ometest.Main(m, &env, options, func(ctx context.Context, e *ometest.Env) error {
		return e.Lab.StartKEDA(ctx)
	}))
}
