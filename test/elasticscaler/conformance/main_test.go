// Package conformance compares what ElasticScalers decide with what the HorizontalPodAutoscaler controller of the lab's
// Kubernetes decides from the same metrics.
package conformance

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/pd-orchestrator/pd-orchestrator/lab"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
	"github.com/pd-orchestrator/pd-orchestrator/test/externalmetrics"
)

var (
	env      *estest.Env
	external *externalmetrics.Server
)

func TestMain(m *testing.M) {
	// What takes minutes in production takes seconds here, for both sides.
	options := lab.Options{HPASyncPeriod: time.Second, HPAConcurrentSyncs: 20, WithoutMetrics: true}
	os.Exit(estest.Main(m, &env, options, func(ctx context.Context, e *estest.Env) error {
		var err error
		if external, err = externalmetrics.Serve(ctx, e.Lab); err != nil {
			return err
		}
		return e.StartManager(ctx, "")
	}))
}
