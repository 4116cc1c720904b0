// Package kinds tests the kinds of workload beside Deployments, and InplaceScaling.
//
// The controllers of LeaderWorkerSets and RoleBasedGroups cannot be had here. A small stand-in makes the pods of a
// LeaderWorkerSet and fills its status; a role is a StatefulSet of the name that a RoleBasedGroup would give it.
package kinds

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
