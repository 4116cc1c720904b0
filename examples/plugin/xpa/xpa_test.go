package xpa

import (
	"context"
	"testing"
	"time"

	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

var config = map[string]string{"threshold": "0.8", "cooldownSeconds": "60"}

func TestKeepsMetricsBelowTheThreshold(t *testing.T) {
	now := time.Date(2026, 6, 15, 12, 0, 0, 0, time.UTC)
	in := scaling.Input{Config: config, CurrentReplicas: 2}
	call := func(after time.Duration, load float64) int32 {
		t.Helper()
		now = now.Add(after)
		in.Now = now
		in.Metrics = []scaling.Metric{
			{Samples: []scaling.Sample{{Time: now, Load: load}}},
			{Missing: true},
		}
		r, err := XPA{}.CalculateDesiredReplicas(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		in.State, in.CurrentReplicas = r.State, r.Replicas
		return r.Replicas
	}
	for i, step := range []struct {
		after time.Duration
		load  float64
		want  int32
	}{
		{0, 2.4, 3},                 // 80 % of three replicas
		{15 * time.Second, 4, 3},    // too soon
		{59 * time.Second, 4, 3},    // still
		{1 * time.Second, 4, 5},     // a minute after the change was seen
		{15 * time.Second, 0.5, 5},  // too soon
		{100 * time.Second, 0.5, 1}, // and down
	} {
		if got := call(step.after, step.load); got != step.want {
			t.Fatalf("step %d: got %d, want %d", i+1, got, step.want)
		}
	}
}

func TestValidate(t *testing.T) {
	if errs := (XPA{}).Validate(config, nil); len(errs) > 0 {
		t.Errorf("the settings of the manifest are refused: %v", errs)
	}
	for _, bad := range []map[string]string{{"threshold": "0"}, {"threshold": "2"}, {"threshold": "x"}, {"cooldownSeconds": "-1"}, {"cooldownSeconds": "soon"}} {
		if errs := (XPA{}).Validate(bad, nil); len(errs) != 1 {
			t.Errorf("%v gives %v, want one error", bad, errs)
		}
	}
}

func TestIsRegistered(t *testing.T) {
	if _, ok := scaling.DefaultRegistry.Lookup("XPA"); !ok {
		t.Error("xpa is not registered")
	}
}
