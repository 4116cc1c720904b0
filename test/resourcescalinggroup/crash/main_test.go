// Package crash kills the manager after every one of its writes, and starts it again.
package crash

import (
	"context"
	"os"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/pd-orchestrator/pd-orchestrator/test/resourcescalinggroup/rsgtest"
)

var (
	env *rsgtest.Env
	api *cutter
)

func TestMain(m *testing.M) {
	os.Exit(rsgtest.Main(m, &env, func(ctx context.Context, e *rsgtest.Env) error {
		var err error
		if api, err = newCutter(e); err != nil {
			return err
		}
		return startManager(ctx, e, "Trusted")
	}))
}

func startManager(ctx context.Context, e *rsgtest.Env, crossNamespace string) error {
	_, err := e.StartManager(ctx, rsgtest.ManagerOptions{CrossNamespace: crossNamespace, Client: &rest.Config{Host: api.url}})
	return err
}
