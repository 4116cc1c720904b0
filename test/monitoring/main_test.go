// Package monitoring proves what the chart ships for Prometheus and Grafana: the lab's Prometheus scrapes a manager that has
// scaled a little of everything, and every query of the dashboards and alerts has to find its series there.
package monitoring

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/pd-orchestrator/pd-orchestrator/lab"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
)

// env is the lab with a manager of all components and its own configuration, as `make lab` runs it.
var env *estest.Env

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	// A scrape may take no longer than its interval: on a busy machine that takes more than the lab's second.
	os.Exit(estest.Main(m, &env, lab.Options{ScrapeInterval: 2 * time.Second}, start))
}

func start(ctx context.Context, e *estest.Env) (err error) {
	e.Manager, err = e.Lab.StartManager(ctx, lab.ManagerOptions{})
	return err
}
