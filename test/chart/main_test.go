// Package chart installs the chart with the real Helm on a real API server, and runs the components with the configuration
// and the accounts that it renders.
package chart

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/lab"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
	"github.com/pd-orchestrator/pd-orchestrator/test/installed"
)

var (
	plane *lab.Lab
	api   client.WithWatch
	helm  *installed.Helm
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Minute)
	defer cancel()
	err := start(ctx)
	if plane != nil {
		defer func() {
			if err := plane.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func start(ctx context.Context) error {
	var err error
	if plane, err = lab.Start(ctx, lab.Options{WithoutMetrics: true, With: []string{lab.Helm}}); err != nil {
		return err
	}
	if helm, err = installed.NewHelm(plane); err != nil {
		return err
	}
	api, err = client.NewWithWatch(plane.AdminConfig(), client.Options{Scheme: estest.Scheme()})
	return err
}

// mustHelm returns what Helm printed, and fails the test where Helm does.
func mustHelm(t *testing.T, args ...string) string {
	t.Helper()
	out, err := helm.Run(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
