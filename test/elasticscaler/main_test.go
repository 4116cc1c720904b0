// Package elasticscaler tests the ElasticScaler controller on a real API server: with endpoints that answer as a test wants,
// and with the lab's own Prometheus, which scrapes simulated pods.
package elasticscaler

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/pd-orchestrator/pd-orchestrator/lab"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
)

// parallel is how many tests run at once, whatever the number of cores: nearly all of their time they wait.
const parallel = "16"

var env *estest.Env

// managerConfig is what the manager is told beside the usual: a kind of sources that is installed later.
const managerConfig = `elasticScaler:
  endpoints: {allow: [127.0.0.0/8]}
  stateSources: [{apiVersion: example.org/v1, kind: Forecast}]
  signals: {bindAddress: "0"}
`

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", parallel); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(estest.Main(m, &env, lab.Options{}, func(ctx context.Context, e *estest.Env) error {
		return e.StartManager(ctx, managerConfig)
	}))
}
