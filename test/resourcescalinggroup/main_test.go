// Package resourcescalinggroup tests the ResourceScalingGroup controller as users meet it: the manager as a process, on
// a real control plane, ranking by a real Prometheus. Packages below it have a manager or a lab of their own.
//
// What docs/resourcescalinggroup.md answers under "When something is not as expected" is tested here:
//
//   - no new groups: TestUnknownTarget, TestCloneNameTaken, TestQuotaForWorkloads, TestQuotaForPods,
//     TestAdmissionRefusesAWorkload, TestAdmissionDoesNotAnswer, crash.TestForbidden
//   - fewer groups than asked for: TestQuotaForWorkloads, TestHalfDeletedCloneIsRepaired, TestTerminatingGroupKeepsItsID,
//     and TestStory for group 0 on its way back
//   - another level decided: TestScaleDownSources, TestScaleDownWithPrometheusStopped, TestPrometheusMisbehaves, and all of
//     package scope
//   - no group_id: TestPrometheusMisbehaves, TestSeriesOfOthersAreIgnored
//   - a follower does not follow: kinds.TestAMissingFollowerStopsNobody, hpa.TestHPAOnAFollower, crash.TestForbidden,
//     admission.TestRefusals
//   - workloads stay after the deletion: TestStory
//   - an autoscaler has no effect: kinds.TestFollowersFollowTheSpec, hpa.TestTwoHPAsOnTheGroups
//
// And what it says of limits:
//
//   - names, and those that are taken or too long: TestStory, TestCloneNameTaken, TestNameTooLong, admission.TestRefusals
//   - copies live in the namespace of the ResourceScalingGroup: TestStory, kinds.TestReferencesOfTemplates
//   - one manager for each target: kinds.TestTwoOverOneWorkload, admission.TestATargetHasOneManagerOfAStrategy
//   - group 0 goes to zero and is not deleted: TestStory, kinds.TestStatefulSetIsScaledAndRecovered
//   - the order of removal: TestScaleDownOrder
//   - snapshots are not refreshed: TestSnapshotDriftAndRenewal, TestDamagedGroupOfAGoneSnapshot
//   - counts of later groups: TestStory, TestReplicaConfigInvalid, TestReplicaConfigEmptiedOrDeleted
package resourcescalinggroup

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
