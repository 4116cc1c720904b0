package desired

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/tides"
)

// The schema refuses these. What was written past it stops no other rule, and its own is named.
func TestExpressionsThatGotPastAdmissionAreNamed(t *testing.T) {
	now := time.Date(2026, 6, 15, 12, 0, 0, 0, time.UTC)
	for _, cron := range []string{
		"", " ", "CRON_TZ=UTC", "CRON_TZ=", "CRON_TZ= ", "CRON_TZ= 0 9 * * *", "TZ=", "TZ=TZ=TZ=", "TZ=TZ=TZ= 0 9 * * *", "TZ=UTC\t0 9 * * *", "TZ=../UTC 0 9 * * *",
		strings.Repeat("*", 512), strings.Repeat("* ", 256), strings.Repeat("*", 513), strings.Repeat(",", 512), "@every 1s", "@", "H * * * *", "\x00 * * * *", "0 9 * * *\n", "99999999999999999999 * * * *",
	} {
		tidal := &v1alpha1.Tidal{}
		tidal.Spec.Triggers.Times.Rules = []v1alpha1.TimeRule{
			{Name: "broken", Cron: cron, Replicas: new(int32(7))},
			{Name: "good", Cron: "0 9 * * *", Replicas: new(int32(4))},
		}
		rules, problems := tides.Compile(tidal.Spec)
		status := TidalStatus(tidal, TidalObservation{
			Plan: tides.Continue(tides.Facts{Rules: rules, Problems: problems, Now: now}), Rules: problems,
		}, metav1.NewTime(now))
		if status.ActiveRule != "good" || status.DesiredReplicas == nil || *status.DesiredReplicas != 4 {
			t.Errorf("%q: in force is %q", cron, status.ActiveRule)
		}
		for conditionType, want := range map[string]metav1.ConditionStatus{v1alpha1.ConditionDegraded: metav1.ConditionTrue, v1alpha1.ConditionReady: metav1.ConditionFalse} {
			c := meta.FindStatusCondition(status.Conditions, conditionType)
			if c.Status != want || c.Reason != v1alpha1.ReasonInvalidSchedule || !strings.HasPrefix(c.Message, `rule "broken": `) {
				t.Errorf("%q: condition is %+v, want %s=%s of rule broken", cron, c, conditionType, want)
			}
		}
	}
}
