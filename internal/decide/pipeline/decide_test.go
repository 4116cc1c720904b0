package pipeline

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

func TestLimitsOfOneDecision(t *testing.T) {
	cases := map[string]struct {
		current int32
		total   float64
		set     func(*Settings)
		desired int32
		reason  string
		steps   string
	}{
		"nothing in the way of growth":    {3, 7, nil, 7, v1alpha1.ReasonMetricAboveTarget, ""},
		"nothing in the way of shrinking": {7, 3, nil, 3, v1alpha1.ReasonMetricBelowTarget, ""},
		"within the tolerance":            {10, 10.5, nil, 10, v1alpha1.ReasonWithinTolerance, "Tolerance 11>10 WithinTolerance"},
		"the tolerance of the behavior goes before the algorithm's": {
			10, 10.5, func(s *Settings) { s.ScaleUp.Tolerance = new(0.0) }, 11, v1alpha1.ReasonMetricAboveTarget, "",
		},
		"the maximum":                   {10, 99, nil, 50, v1alpha1.ReasonMetricAboveTarget, "Bounds 99>50 MaxReplicas"},
		"at the maximum already":        {50, 99, nil, 50, v1alpha1.ReasonMaxReplicas, "Bounds 99>50 MaxReplicas"},
		"the minimum":                   {10, 0, nil, 2, v1alpha1.ReasonMetricBelowTarget, "Bounds 0>2 MinReplicas"},
		"at the minimum already":        {2, 0, nil, 2, v1alpha1.ReasonMinReplicas, "Bounds 0>2 MinReplicas"},
		"above the maximum":             {60, 10, nil, 50, v1alpha1.ReasonMaxReplicas, "Bounds 60>50 MaxReplicas"},
		"below the minimum":             {1, 30, nil, 2, v1alpha1.ReasonMinReplicas, "Bounds 1>2 MinReplicas"},
		"maxPodsPerStep for growth":     {3, 20, func(s *Settings) { s.ScaleUp.MaxPodsPerStep = new(int32(4)) }, 7, v1alpha1.ReasonMetricAboveTarget, "StepSize 20>7 ScaleUpLimit"},
		"maxPodsPerStep for shrinking":  {20, 3, func(s *Settings) { s.ScaleDown.MaxPodsPerStep = new(int32(4)) }, 16, v1alpha1.ReasonMetricBelowTarget, "StepSize 3>16 ScaleDownLimit"},
		"a rate in replicas":            {3, 20, func(s *Settings) { s.ScaleUp.Policies = policies(pods(4, 60)) }, 7, v1alpha1.ReasonMetricAboveTarget, "RateLimit 20>7 ScaleUpLimit"},
		"a rate in percent, rounded up": {3, 20, func(s *Settings) { s.ScaleUp.Policies = policies(percent(50, 60)) }, 5, v1alpha1.ReasonMetricAboveTarget, "RateLimit 20>5 ScaleUpLimit"},
		"of several rates the widest": {
			3, 20, func(s *Settings) { s.ScaleUp.Policies = policies(percent(50, 60), pods(4, 60), pods(1, 60)) }, 7, v1alpha1.ReasonMetricAboveTarget, "RateLimit 20>7 ScaleUpLimit",
		},
		"of several rates the narrowest with Min": {
			3, 20, func(s *Settings) {
				s.ScaleUp.SelectPolicy = autoscalingv2.MinChangePolicySelect
				s.ScaleUp.Policies = policies(percent(50, 60), pods(4, 60), pods(1, 60))
			}, 4, v1alpha1.ReasonMetricAboveTarget, "RateLimit 20>4 ScaleUpLimit",
		},
		"growth disabled": {
			3, 20, func(s *Settings) { s.ScaleUp.SelectPolicy = autoscalingv2.DisabledPolicySelect }, 3, v1alpha1.ReasonScaleUpLimit, "RateLimit 20>3 ScaleUpLimit",
		},
		"shrinking in percent, rounded down": {9, 2, func(s *Settings) { s.ScaleDown.Policies = policies(percent(50, 60)) }, 4, v1alpha1.ReasonMetricBelowTarget, "RateLimit 2>4 ScaleDownLimit"},
		"of several rates down the widest": {
			20, 2, func(s *Settings) { s.ScaleDown.Policies = policies(percent(50, 60), pods(4, 60)) }, 10, v1alpha1.ReasonMetricBelowTarget, "RateLimit 2>10 ScaleDownLimit",
		},
		"of several rates down the narrowest with Min": {
			20, 2, func(s *Settings) {
				s.ScaleDown.SelectPolicy = autoscalingv2.MinChangePolicySelect
				s.ScaleDown.Policies = policies(percent(50, 60), pods(4, 60))
			}, 16, v1alpha1.ReasonMetricBelowTarget, "RateLimit 2>16 ScaleDownLimit",
		},
		"shrinking disabled": {
			20, 3, func(s *Settings) { s.ScaleDown.SelectPolicy = autoscalingv2.DisabledPolicySelect }, 20, v1alpha1.ReasonScaleDownLimit, "RateLimit 3>20 ScaleDownLimit",
		},
		"more than 100 percent down is all": {20, 3, func(s *Settings) { s.ScaleDown.Policies = policies(percent(300, 60)) }, 3, v1alpha1.ReasonMetricBelowTarget, ""},
		"a step and a rate": {
			3, 20, func(s *Settings) {
				s.ScaleUp.MaxPodsPerStep, s.ScaleUp.Policies = new(int32(10)), policies(pods(4, 60))
			}, 7, v1alpha1.ReasonMetricAboveTarget,
			"StepSize 20>13 ScaleUpLimit, RateLimit 13>7 ScaleUpLimit",
		},
		"from 0 to 0 with a minimum of 0":         {0, 0, minimumZero(nil), 0, v1alpha1.ReasonWithinTolerance, ""},
		"from 0, rounded up":                      {0, 0.01, minimumZero(nil), 1, v1alpha1.ReasonMetricAboveTarget, ""},
		"to 0":                                    {3, 0, minimumZero(nil), 0, v1alpha1.ReasonMetricBelowTarget, ""},
		"from 0 a percentage leads to 1":          {0, 8, minimumZero(func(s *Settings) { s.ScaleUp.Policies = policies(percent(100, 60)) }), 1, v1alpha1.ReasonMetricAboveTarget, "RateLimit 8>1 ScaleUpLimit"},
		"from 0 no tolerance and no window apply": {0, 1.05, minimumZero(func(s *Settings) { s.ScaleUp.StabilizationWindow = 10 * time.Hour }), 2, v1alpha1.ReasonMetricAboveTarget, ""},
		"bounds that contradict each other: the maximum holds": {
			5, 5, func(s *Settings) { s.MinReplicas, s.MaxReplicas = 8, 4 }, 4, v1alpha1.ReasonMinReplicas, "Bounds 5>8 MinReplicas, Bounds 8>4 MaxReplicas",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.current, 2, 50, metric("a"))
			if tc.set != nil {
				tc.set(&w.settings)
			}
			p := w.decide(w.needs(tc.total))
			want(t, p, tc.desired, tc.reason)
			if got := steps(p); got != tc.steps {
				t.Errorf("steps are %q, want %q", got, tc.steps)
			}
		})
	}
}

func policies(p ...autoscalingv2.HPAScalingPolicy) []autoscalingv2.HPAScalingPolicy { return p }

func minimumZero(also func(*Settings)) func(*Settings) {
	return func(s *Settings) {
		s.MinReplicas = 0
		if also != nil {
			also(s)
		}
	}
}

func TestAMetricWithoutAValue(t *testing.T) {
	policy := func(a v1alpha1.NoDataAction, replicas int32) NoData {
		return NoData{Action: a, FailureThreshold: 1, Replicas: replicas}
	}
	cases := map[string]struct {
		policy  NoData
		other   *float64 // what another metric needs, nil for no other metric
		desired int32
		reason  string
	}{
		"Hold alone":                                  {policy(v1alpha1.NoDataHold, 0), nil, 6, v1alpha1.ReasonNoData},
		"Hold is what nothing means":                  {NoData{}, nil, 6, v1alpha1.ReasonNoData},
		"Hold lets another metric grow":               {policy(v1alpha1.NoDataHold, 0), new(9.0), 9, v1alpha1.ReasonMetricAboveTarget},
		"Hold lets no other metric shrink":            {policy(v1alpha1.NoDataHold, 0), new(3.0), 6, v1alpha1.ReasonNoData},
		"Ignore alone":                                {policy(v1alpha1.NoDataIgnore, 0), nil, 6, v1alpha1.ReasonNoData},
		"Ignore lets another metric grow":             {policy(v1alpha1.NoDataIgnore, 0), new(9.0), 9, v1alpha1.ReasonMetricAboveTarget},
		"Ignore lets another metric shrink":           {policy(v1alpha1.NoDataIgnore, 0), new(3.0), 3, v1alpha1.ReasonNoData},
		"Zero alone":                                  {policy(v1alpha1.NoDataZero, 0), nil, 1, v1alpha1.ReasonNoData},
		"Zero lets another metric decide":             {policy(v1alpha1.NoDataZero, 0), new(9.0), 9, v1alpha1.ReasonMetricAboveTarget},
		"a Fallback above alone":                      {policy(v1alpha1.NoDataFallback, 8), nil, 8, v1alpha1.ReasonFallback},
		"a Fallback below alone":                      {policy(v1alpha1.NoDataFallback, 4), nil, 4, v1alpha1.ReasonFallback},
		"a Fallback below a metric that shrinks less": {policy(v1alpha1.NoDataFallback, 2), new(5.0), 5, v1alpha1.ReasonMetricBelowTarget},
		"a Fallback above a metric that shrinks":      {policy(v1alpha1.NoDataFallback, 4), new(2.0), 4, v1alpha1.ReasonFallback},
		"a Fallback above the maximum":                {policy(v1alpha1.NoDataFallback, 999), nil, 50, v1alpha1.ReasonFallback},
		"a policy that does not exist holds":          {policy("Guess", 0), new(3.0), 6, v1alpha1.ReasonNoData},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 6, 1, 50, metric("gone", tc.policy))
			readings := []Reading{noSeries()}
			if tc.other != nil {
				w.settings.Metrics = append(w.settings.Metrics, metric("other"))
				readings = append(readings, w.needs(*tc.other))
			}
			want(t, w.decide(readings...), tc.desired, tc.reason)
		})
	}
}

func TestANoDataPolicyTakesEffectAndEndsAfterSeveralEvaluations(t *testing.T) {
	w := newWorld(t, 10, 1, 50, metric("a", NoData{Action: v1alpha1.NoDataFallback, FailureThreshold: 3, Replicas: 4}))
	var got []int32
	for _, works := range []bool{true, false, false, true, false, false, false, false, true, true, false, true, true, true} {
		r := noSeries()
		if works {
			r = w.needs(2)
		}
		w.current = 10
		got = append(got, w.decide(r).Desired)
	}
	expected := []int32{2, 10, 10, 2, 10, 10, 4, 4, 10, 10, 4, 10, 10, 2}
	if diff := cmp.Diff(expected, got); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

func TestAMetricThatIsBackMayGrowAtOnce(t *testing.T) {
	w := newWorld(t, 10, 1, 50, metric("a", NoData{Action: v1alpha1.NoDataZero, FailureThreshold: 2}))
	w.decide(noSeries())
	w.decide(noSeries())
	want(t, w.decide(w.needs(20)), 20, v1alpha1.ReasonMetricAboveTarget)
}

func TestStabilizationWindows(t *testing.T) {
	at := func(seconds int, total float64) [2]float64 { return [2]float64{float64(seconds), total} }
	cases := map[string]struct {
		up, down time.Duration
		totals   [][2]float64 // seconds since the last, and what is needed
		counts   []int32
	}{
		"a peak shorter than the scale-up window passes by": {
			30 * time.Second, 0, [][2]float64{at(15, 5), at(15, 9), at(15, 5), at(15, 5)}, []int32{5, 5, 5, 5},
		},
		"the lowest of the scale-up window": {
			30 * time.Second, 0, [][2]float64{at(15, 5), at(15, 9), at(15, 8), at(15, 12), at(15, 12)}, []int32{5, 5, 8, 8, 12},
		},
		"a dip shorter than the scale-down window passes by": {
			0, time.Minute, [][2]float64{at(20, 5), at(20, 2), at(20, 5), at(20, 2), at(20, 2)}, []int32{5, 5, 5, 5, 5},
		},
		"the highest of the scale-down window": {
			0, time.Minute, [][2]float64{at(20, 5), at(20, 2), at(20, 3), at(20, 1), at(20, 1), at(20, 1), at(20, 1)}, []int32{5, 5, 5, 3, 3, 1, 1},
		},
		"a window counts up to its very end": {
			0, time.Minute, [][2]float64{at(1, 5), at(59, 1), at(1, 1)}, []int32{5, 5, 1},
		},
		"growth in a scale-down window": {
			0, time.Minute, [][2]float64{at(20, 5), at(20, 9), at(20, 2)}, []int32{5, 9, 9},
		},
		"no windows": {0, 0, [][2]float64{at(15, 9), at(15, 2), at(15, 9)}, []int32{9, 2, 9}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 5, 1, 50, metric("a"))
			w.settings.ScaleUp.StabilizationWindow, w.settings.ScaleDown.StabilizationWindow = tc.up, tc.down
			var got []int32
			for _, step := range tc.totals {
				got = append(got, w.after(time.Duration(step[0])*time.Second, w.needs(step[1])).Desired)
			}
			if diff := cmp.Diff(tc.counts, got); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestACountThatStaysForWantOfDataDoesNotDelayGrowth(t *testing.T) {
	w := newWorld(t, 5, 1, 50, metric("a"))
	w.settings.ScaleUp.StabilizationWindow = 30 * time.Second
	w.memory = NewMemory(w.now, 5)
	want(t, w.after(15*time.Second, w.needs(9)), 5, v1alpha1.ReasonScaleUpStabilized)
	w.after(15*time.Second, noSeries())
	w.after(15*time.Second, noSeries())
	w.after(15*time.Second, noSeries())
	want(t, w.after(15*time.Second, w.needs(9)), 9, v1alpha1.ReasonMetricAboveTarget)
}

func TestRatesCountWhatWasWritten(t *testing.T) {
	w := newWorld(t, 10, 1, 50, metric("a"))
	w.settings.ScaleUp.Policies = policies(pods(4, 60))
	w.settings.ScaleDown.Policies = policies(percent(50, 60))
	needs := func(total float64) func() Plan {
		return func() Plan { return w.after(20*time.Second, w.needs(total)) }
	}
	for i, step := range []struct {
		decide  func() Plan
		desired int32
	}{
		{needs(12), 12}, {needs(30), 14}, {needs(30), 14}, // 4 within a minute
		{needs(30), 16}, // the first 2 are a minute old
		{needs(30), 18}, // and the other 2
		{needs(2), 7},   // half of the 14 that stood a minute ago
		{needs(2), 7},   // of 14 again
		{needs(2), 7},   // of the 16 of then
		{needs(2), 3},   // of the 7 of a minute ago
	} {
		if p := step.decide(); p.Desired != step.desired {
			t.Fatalf("decision %d: got %d, want %d\n%s", i+1, p.Desired, step.desired, show(p))
		}
	}
}

// script is an algorithm that does what a test says.
type script struct {
	calculate func(scaling.Input) (scaling.Result, error)
	window    time.Duration
}

func (script) Name() string { return "script" }

func (s script) Window(map[string]string) time.Duration { return s.window }

func (s script) CalculateDesiredReplicas(_ context.Context, in scaling.Input) (scaling.Result, error) {
	return s.calculate(in)
}

func TestAnAlgorithmThatFails(t *testing.T) {
	cases := map[string]struct {
		calculate func(scaling.Input) (scaling.Result, error)
		message   string
	}{
		"an error": {func(scaling.Input) (scaling.Result, error) {
			return scaling.Result{Replicas: 1}, errors.New("no\nidea")
		}, "no; idea"},
		"a panic": {func(scaling.Input) (scaling.Result, error) { panic("oh no") }, "scaling algorithm script panicked: oh no"},
		"a negative count": {
			func(scaling.Input) (scaling.Result, error) { return scaling.Result{Replicas: -3}, nil },
			"scaling algorithm script returned -3: must be 0 or more",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 5, 1, 50, metric("a"), metric("gone", NoData{Action: v1alpha1.NoDataFallback, FailureThreshold: 1, Replicas: 2}))
			w.settings.Algorithm = script{calculate: tc.calculate}
			p := w.decide(w.needs(1), noSeries())
			want(t, p, 5, v1alpha1.ReasonAlgorithmFailed)
			if p.Calculated || p.Err == nil || !strings.HasPrefix(p.Message, tc.message) {
				t.Errorf("got %s\nwant nothing calculated and message %q", show(p), tc.message)
			}
			if broken := new(PanicError); name == "a panic" && (!errors.As(p.Err, &broken) || len(broken.Stack) == 0) {
				t.Errorf("the error is %T, want a PanicError with a stack", p.Err)
			}
			// A proposal of another kind still raises the count.
			w.settings.Metrics[1].NoData.Replicas = 9
			want(t, w.decide(w.needs(1), noSeries()), 9, v1alpha1.ReasonAlgorithmFailed)
		})
	}
}

func TestWhatAnAlgorithmIsGiven(t *testing.T) {
	var in scaling.Input
	calls := 0
	w := newWorld(t, 5, 1, 50, metric("a"), metric("b"), metric("zero", NoData{Action: v1alpha1.NoDataZero, FailureThreshold: 1}))
	w.settings.Window = new(time.Minute)
	w.settings.Config = map[string]string{"k": "v"}
	w.settings.ScaleUp.Tolerance = new(0.2)
	w.settings.Algorithm = script{window: 90 * time.Second, calculate: func(got scaling.Input) (scaling.Result, error) {
		in = got
		calls++
		return scaling.Result{Replicas: 5, State: calls}, nil
	}}
	for range 8 {
		w.after(15*time.Second, w.needs(7), noSeries(), noSeries())
	}
	if in.State != 7 {
		t.Errorf("the state is %v, want what the call before returned", in.State)
	}
	if !in.Now.Equal(w.now) || in.CurrentReplicas != 5 || in.MinReplicas != 1 || in.MaxReplicas != 50 || in.Window != time.Minute ||
		in.Config["k"] != "v" || *in.UpTolerance != 0.2 || in.DownTolerance != nil || in.Target.Name != "engine" {
		t.Errorf("got %+v", in)
	}
	var a []string
	for _, s := range in.Metrics[0].Samples {
		a = append(a, w.now.Sub(s.Time).String())
	}
	if diff := cmp.Diff([]string{"1m15s", "1m0s", "45s", "30s", "15s", "0s"}, a); diff != "" {
		t.Errorf("ages of the samples of a (-want +got), where the algorithm wants 90 s of history:\n%s", diff)
	}
	if b := in.Metrics[1]; !b.Missing || len(b.Samples) != 0 || b.Name != "b" || b.Target != 1 {
		t.Errorf("the metric without a value is %+v", b)
	}
	if z := in.Metrics[2]; z.Missing || len(z.Samples) == 0 || z.Samples[len(z.Samples)-1].Load != 0 {
		t.Errorf("the metric that counts as 0 is %+v", z)
	}

	// Other settings begin anew.
	w.settings.Config = map[string]string{"k": "w"}
	w.after(15*time.Second, w.needs(7), noSeries(), noSeries())
	if in.State != nil {
		t.Errorf("after a change of the settings the state is %v, want none", in.State)
	}
	w.settings.Metrics = w.settings.Metrics[:1]
	w.after(15*time.Second, w.needs(7))
	if in.State != nil {
		t.Errorf("after a change of the metrics the state is %v, want none", in.State)
	}
	if n := len(in.Metrics[0].Samples); n < 5 {
		t.Errorf("the metric that stayed has %d samples, want its history", n)
	}
}

func TestAnAlgorithmIsNotAskedWithoutAValue(t *testing.T) {
	w := newWorld(t, 5, 1, 50, metric("a"))
	w.settings.Algorithm = script{calculate: func(scaling.Input) (scaling.Result, error) {
		t.Error("the algorithm was asked")
		return scaling.Result{}, nil
	}}
	w.decide(noSeries())
	w.decide()
	w.current = 60
	w.decide(w.needs(1))
	w.current, w.ours = 0, false
	w.decide(w.needs(1))
}

func TestWhatAnAlgorithmSaysFitsIntoAStatus(t *testing.T) {
	long := strings.Repeat("ä", 5000)
	w := newWorld(t, 5, 1, 50, metric("a"))
	w.settings.Algorithm = script{calculate: func(scaling.Input) (scaling.Result, error) {
		r := scaling.Result{Replicas: 6, Reason: "not a reason!", Message: long, PerMetric: []*int32{new(int32(-4)), new(int32(3))}}
		for range 100 {
			r.Steps = append(r.Steps, scaling.Step{Name: "a name with spaces", Reason: long, Message: long, From: 1, To: 2})
		}
		return r, nil
	}}
	p := w.decide(Reading{Sample: w.needs(6).Sample})
	want(t, p, 6, v1alpha1.ReasonMetricAboveTarget)
	if len(p.Steps) > 32 || len(p.Message) > 4096 || len(p.Steps[0].Message) > 1024 || p.Steps[0].Reason != "" || p.Steps[0].Name != "Algorithm" {
		t.Errorf("%d steps, a message of %d bytes, the first step %s with reason %q and a message of %d bytes",
			len(p.Steps), len(p.Message), p.Steps[0].Name, p.Steps[0].Reason, len(p.Steps[0].Message))
	}
	if got := *p.Inputs[0].Proposed; got != 0 {
		t.Errorf("a negative proposal is recorded as %d", got)
	}
	p = w.decide(Reading{Problem: &Problem{Reason: v1alpha1.ReasonNoData, Message: long}})
	if n := len(p.Inputs[0].Message); n > 1024 {
		t.Errorf("the message of an input has %d bytes", n)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	w := newWorld(t, 5, 1, 1000, metric("a"))
	w.settings.Window = new(scaling.MaxWindow)
	w.settings.ScaleDown.StabilizationWindow = time.Hour
	for i := range 8000 {
		w.after(time.Second, w.needs(float64(100+i*37%500)))
	}
	samples := w.memory.metrics["a#0"].samples
	if n := len(samples); n > maxSamples+2 {
		t.Errorf("%d samples are kept, want %d at most", n, maxSamples)
	}
	if span := samples[len(samples)-1].Time.Sub(samples[0].Time); span < 59*time.Minute {
		t.Errorf("the samples span %s, want the whole hour", span)
	}
	if n := len(w.memory.ups) + len(w.memory.downs); n > 2*1801 {
		t.Errorf("%d changes are kept", n)
	}
	if n := len(w.memory.highest.kept) + len(w.memory.lowest.kept); n > 2*501 {
		t.Errorf("%d recommendations are kept, want no more than there are counts", n)
	}
}
