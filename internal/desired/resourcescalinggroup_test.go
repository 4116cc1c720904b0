package desired

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/condition"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/groups"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/victims"
)

func rsg(replicas int32) *v1alpha1.ResourceScalingGroup {
	return &v1alpha1.ResourceScalingGroup{
		ObjectMeta: metav1.ObjectMeta{Name: "llm", Namespace: "ns", Generation: 3},
		Spec: v1alpha1.ResourceScalingGroupSpec{
			TargetResources: []v1alpha1.TargetResource{{Name: "prefill"}},
			ScalingStrategy: v1alpha1.ScalingStrategy{Type: v1alpha1.GroupReplication, GroupConfig: &v1alpha1.GroupConfig{Replicas: &replicas}},
		},
	}
}

func member(desired, available int32) []groups.Member {
	return []groups.Member{{Target: "prefill", Exists: true, Desired: desired, Available: available}}
}

func TestReady(t *testing.T) {
	ready := groups.ObserveBase(member(2, 2))
	one := groups.ObserveClone(1, member(2, 2), nil, "")
	cases := map[string]struct {
		rsg    *v1alpha1.ResourceScalingGroup
		o      GroupObservation
		status metav1.ConditionStatus
		reason string
	}{
		"all there and available":   {rsg(2), GroupObservation{Groups: []groups.Group{ready, one}}, metav1.ConditionTrue, v1alpha1.ReasonReconciled},
		"zero wanted, zero there":   {rsg(0), GroupObservation{Groups: []groups.Group{{ID: 0, AtZero: true}}}, metav1.ConditionTrue, v1alpha1.ReasonReconciled},
		"one missing":               {rsg(2), GroupObservation{Groups: []groups.Group{ready}}, metav1.ConditionFalse, v1alpha1.ReasonProgressing},
		"one too many":              {rsg(1), GroupObservation{Groups: []groups.Group{ready, one}}, metav1.ConditionFalse, v1alpha1.ReasonProgressing},
		"replicas not available":    {rsg(1), GroupObservation{Groups: []groups.Group{groups.ObserveBase(member(2, 1))}}, metav1.ConditionFalse, v1alpha1.ReasonReplicasUnavailable},
		"a member set to 0 by hand": {rsg(1), GroupObservation{Groups: []groups.Group{groups.ObserveBase(member(0, 0))}}, metav1.ConditionFalse, v1alpha1.ReasonReplicasUnavailable},
		"a victim is not gone yet": {
			rsg(1), GroupObservation{Groups: []groups.Group{ready, {ID: 1, Terminating: true}}, ScaleDown: &v1alpha1.ScaleDownRecord{Pending: []int32{1}}},
			metav1.ConditionFalse, v1alpha1.ReasonProgressing,
		},
		"a half-made group too many": {
			rsg(1), GroupObservation{Groups: []groups.Group{ready, {ID: 1, Missing: []string{"x"}}}}, metav1.ConditionFalse, v1alpha1.ReasonProgressing,
		},
		"a problem outweighs all": {
			rsg(2), GroupObservation{Groups: []groups.Group{ready, one}, Problems: []condition.Problem{{Reason: v1alpha1.ReasonNameConflict}, {Reason: v1alpha1.ReasonWriteFailed}}},
			metav1.ConditionFalse, v1alpha1.ReasonNameConflict,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := meta.FindStatusCondition(GroupStatus(tc.rsg, tc.o, metav1.Unix(1, 0)).Conditions, v1alpha1.ConditionReady)
			if got == nil || got.Status != tc.status || got.Reason != tc.reason || got.ObservedGeneration != 3 {
				t.Errorf("Ready is %+v, want %s %s", got, tc.status, tc.reason)
			}
		})
	}
}

func TestGroupStatusIsStable(t *testing.T) {
	r := rsg(2)
	r.Spec.ScalingStrategy.GroupConfig.ScaleDown = &v1alpha1.ScaleDown{Metric: &v1alpha1.ScaleDownMetric{Expr: "a"}}
	choice := victims.Choice{Victims: []int32{2}, Level: v1alpha1.LevelMetric, Values: []victims.Value{{ID: 0, Value: 1}, {ID: 2, Value: 0.25}}}
	o := GroupObservation{
		Groups:       []groups.Group{groups.ObserveBase(member(2, 2)), groups.ObserveClone(1, member(2, 2), nil, ""), groups.ObserveClone(2, member(2, 2), nil, "")},
		Baselines:    groups.Baselines{Counts: map[string]int32{"prefill": 2}},
		Drifted:      map[string]bool{"prefill": true},
		Revision:     "llm-1",
		ScaleDown:    ScaleDownRecord(choice, v1alpha1.OrderAscending, v1alpha1.ReasonMetricUsed, nil, metav1.Unix(5, 0)),
		MetricReason: v1alpha1.ReasonMetricUsed,
	}
	first := GroupStatus(r, o, metav1.Unix(1, 0))
	want := []v1alpha1.GroupStatus{
		{ID: 0, Phase: v1alpha1.GroupReady, Targets: []v1alpha1.GroupTargetStatus{{Name: "prefill", Desired: 2, Ready: 2}}, Value: "1"},
		{ID: 1, Phase: v1alpha1.GroupReady, Targets: []v1alpha1.GroupTargetStatus{{Name: "prefill", Desired: 2, Ready: 2}}},
		{ID: 2, Phase: v1alpha1.GroupRemoving, Targets: []v1alpha1.GroupTargetStatus{{Name: "prefill", Desired: 2, Ready: 2}}, Value: "0.25"},
	}
	if diff := cmp.Diff(want, first.Groups); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]v1alpha1.TargetStatus{{Name: "prefill", BaselineReplicas: ptr.To(int32(2)), SnapshotDrift: ptr.To(true)}}, first.Targets); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
	// A later pass that saw the same and made no choice writes the same, at whatever time.
	r.Status = first
	o.MetricReason, o.MetricMessage = "", ""
	if diff := cmp.Diff(first, GroupStatus(r, o, metav1.Unix(99, 0))); diff != "" {
		t.Errorf("the same pass again changed the status:\n%s", diff)
	}
}

func TestFormatValue(t *testing.T) {
	for in, want := range map[float64]string{3: "3", 0.25: "0.25", 1.0 / 3: "0.333333", 1e300: "1e+300", -2: "-2", 123456789012345: "1.23457e+14"} {
		if got := FormatValue(in); got != want {
			t.Errorf("%v is written %q, want %q", in, got, want)
		}
	}
}
