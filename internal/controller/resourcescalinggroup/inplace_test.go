package resourcescalinggroup

import (
	"testing"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
)

func TestALeaderIsResetOnlyFromACountThatItHad(t *testing.T) {
	for name, tc := range map[string]struct {
		current  *int32
		observed int64
		want     bool
	}{
		"it was there":           {new(int32(3)), 2, true},
		"the write failed":       {new(int32(1)), 2, false},
		"nothing is known of it": {nil, 2, false},
		"another spec wanted it": {new(int32(3)), 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			rsg := &v1alpha1.ResourceScalingGroup{}
			rsg.Generation, rsg.Status.ObservedGeneration = 2, tc.observed
			rsg.Status.Targets = []v1alpha1.TargetStatus{{Name: "scheduler", DesiredReplicas: new(int32(3)), CurrentReplicas: tc.current}}
			if got := (&pass{rsg: rsg}).wasLeftAt("scheduler", 3); got != tc.want {
				t.Errorf("was at the count: %t, want %t", got, tc.want)
			}
		})
	}
}
