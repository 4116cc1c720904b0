package elasticscaler

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab/faulty"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
)

// metric is a query of a server with a target of 10 per replica.
func metric(s *faulty.Server, name string) v1alpha1.MetricSpec {
	return estest.Query(s.URL(), name, sumOf(name), "10")
}

var (
	errNotYet     = errors.New("it does not yet")
	errStillThere = errors.New("it is still there")
)

func sumOf(name string) string { return "sum(" + name + ")" }

// tell sets the value of a metric, and lose takes it away.
func tell(s *faulty.Server, name, value string) {
	s.AnswerQuery(sumOf(name), faulty.Vector(faulty.Series{Value: value}))
}

func lose(s *faulty.Server, name string) { s.AnswerQuery(sumOf(name), faulty.Vector()) }

// otherwise gives a metric a noData policy that takes effect after two evaluations.
func otherwise(m v1alpha1.MetricSpec, policy v1alpha1.NoDataAction, replicas ...int32) v1alpha1.MetricSpec {
	m.NoData = &v1alpha1.NoDataPolicy{Policy: policy, FailureThreshold: new(int32(2))}
	if len(replicas) > 0 {
		m.NoData.Replicas = &replicas[0]
	}
	return m
}

// input is the decision's input of a metric.
func input(t *testing.T, scaler *v1alpha1.ElasticScaler, name string) v1alpha1.DecisionInput {
	t.Helper()
	if d := scaler.Status.LastDecision; d != nil {
		if i := slices.IndexFunc(d.Inputs, func(in v1alpha1.DecisionInput) bool { return in.Name == name }); i >= 0 {
			return d.Inputs[i]
		}
	}
	t.Fatalf("the decision %+v has no input %s", scaler.Status.LastDecision, name)
	return v1alpha1.DecisionInput{}
}

func TestAMissingMetricLetsNothingShrink(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server := w.Server(faulty.Options{})
	tell(server, "good", "8")
	lose(server, "missing")
	w.CreateTarget(4)
	counts := w.Record()
	w.Create(estest.Instant(w.Scaler(estest.Metrics("", metric(server, "good"), metric(server, "missing")))))
	scaler := w.Condition(v1alpha1.ConditionMetricsCollected, metav1.ConditionFalse, v1alpha1.ReasonPartialMetrics, `"missing"`, "no series")
	if in := input(t, scaler, "good"); in.Value != "2" || *in.ProposedReplicas >= 4 || in.Reason != "" {
		t.Errorf("the good metric is on record as %+v, want its value and its proposal to shrink", in)
	}
	if in := input(t, scaler, "missing"); in.Value != "" || *in.ProposedReplicas != 4 || in.Reason != v1alpha1.ReasonNoData {
		t.Errorf("the missing metric is on record as %+v, want the present count as its proposal", in)
	}
	w.Evaluated(server, 4)
	counts.Wait(4)
	events, err := w.Events(t.Context())
	if err != nil || slices.ContainsFunc(events, func(e eventsv1.Event) bool { return e.Reason == v1alpha1.ReasonScaled }) {
		t.Errorf("there is an event that the count changed (%v)", err)
	}
	tell(server, "missing", "5")
	counts.Wait(4, 2, 1)
}

func TestABadMetricLetsTheOthersGrow(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	good, bad := w.Server(faulty.Options{}), w.Server(faulty.Options{})
	tell(good, "good", "60")
	bad.Answer(faulty.Status(http.StatusInternalServerError, "out of order"))
	w.CreateTarget(3)
	counts := w.Record()
	w.Create(estest.Instant(w.Scaler(estest.Metrics("", metric(good, "good"), metric(bad, "bad")))))
	counts.Wait(3, 6)
	w.Event("Warning", v1alpha1.ReasonPartialMetrics, `"bad"`, "500")
	w.Event("Normal", v1alpha1.ReasonScaled, "from 3 to 6")
}

func TestTheHighestProposalWins(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server := w.Server(faulty.Options{})
	tell(server, "queue", "30")
	tell(server, "tokens", "50")
	w.CreateTarget(3)
	counts := w.Record()
	w.Create(estest.Instant(w.Scaler(estest.Metrics("", metric(server, "queue"), metric(server, "tokens")))))
	counts.Wait(3, 5)
	tell(server, "queue", "80")
	counts.Wait(3, 5, 8)
	// A metric that is no longer in the spec has no vote.
	w.Edit(func(s *v1alpha1.ElasticScaler) {
		s.Spec.Trigger.MetricsTrigger.Metrics = s.Spec.Trigger.MetricsTrigger.Metrics[1:]
	})
	counts.Wait(3, 5, 8, 5)
}

func TestNoDataPolicies(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		// missing is the metric that has no value, beside one whose value is given, if any.
		missing func(v1alpha1.MetricSpec) v1alpha1.MetricSpec
		good    string
		// counts are the counts that the target has, the first from the beginning.
		counts []int32
		// says is in the event of the change.
		says string
	}{
		"Zero takes it as 0": {
			missing: func(m v1alpha1.MetricSpec) v1alpha1.MetricSpec { return otherwise(m, v1alpha1.NoDataZero) },
			counts:  []int32{8, 4, 2}, says: "noData.policy Zero",
		},
		"Ignore leaves it to the others": {
			missing: func(m v1alpha1.MetricSpec) v1alpha1.MetricSpec { return otherwise(m, v1alpha1.NoDataIgnore) },
			good:    "30", counts: []int32{4, 3}, says: "noData.policy Ignore",
		},
		"Ignore with no other leaves the count": {
			missing: func(m v1alpha1.MetricSpec) v1alpha1.MetricSpec { return otherwise(m, v1alpha1.NoDataIgnore) },
			counts:  []int32{4}, says: "noData.policy Ignore",
		},
		"a high Fallback raises": {
			missing: func(m v1alpha1.MetricSpec) v1alpha1.MetricSpec { return otherwise(m, v1alpha1.NoDataFallback, 7) },
			good:    "40", counts: []int32{4, 7}, says: "Fallback proposes 7",
		},
		"a low Fallback does not overrule another metric": {
			missing: func(m v1alpha1.MetricSpec) v1alpha1.MetricSpec { return otherwise(m, v1alpha1.NoDataFallback, 4) },
			good:    "90", counts: []int32{6, 9}, says: "the load of good",
		},
		"a Fallback alone may lower": {
			missing: func(m v1alpha1.MetricSpec) v1alpha1.MetricSpec { return otherwise(m, v1alpha1.NoDataFallback, 3) },
			counts:  []int32{6, 3}, says: "Fallback proposes 3",
		},
		"a Fallback stays within the bounds": {
			missing: func(m v1alpha1.MetricSpec) v1alpha1.MetricSpec { return otherwise(m, v1alpha1.NoDataFallback, 100) },
			counts:  []int32{6, 10}, says: "maxReplicas, which is 10",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := env.World(t)
			server := w.Server(faulty.Options{})
			lose(server, "missing")
			metrics := []v1alpha1.MetricSpec{tc.missing(metric(server, "missing"))}
			if tc.good != "" {
				tell(server, "good", tc.good)
				metrics = append(metrics, metric(server, "good"))
			}
			w.CreateTarget(tc.counts[0])
			counts := w.Record()
			scaler := estest.Instant(w.Scaler(estest.Metrics("", metrics...)))
			scaler.Spec.MinReplicas = new(int32(2))
			w.Create(scaler)
			counts.Wait(tc.counts...)
			if len(tc.counts) > 1 {
				w.Event("Normal", v1alpha1.ReasonScaled, tc.says)
			}
			w.Evaluated(server, 3)
			counts.Wait(tc.counts...)
			decided := w.Until("the decision in the status", func(s *v1alpha1.ElasticScaler) error {
				if s.Status.LastDecision == nil {
					return errors.New("there is none")
				}
				return nil
			})
			if in := input(t, decided, "missing"); in.Reason != v1alpha1.ReasonNoData || in.Value != "" {
				t.Errorf("the input is %+v, want no value and the reason", in)
			}
		})
	}
}

// A target at 0 whose metric is broken is started by a Fallback.
func TestAFallbackStartsATargetAtZero(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server := w.Server(faulty.Options{})
	server.Answer(faulty.Status(http.StatusInternalServerError, ""))
	w.CreateTarget(0)
	scaler := estest.Instant(w.Scaler(estest.Metrics("", otherwise(metric(server, "queue"), v1alpha1.NoDataFallback, 3))))
	scaler.Spec.MinReplicas = new(int32(0))
	w.Create(scaler)
	w.WaitReplicas(3)
	w.Event("Normal", v1alpha1.ReasonScaled, "from 0 to 3", "Fallback proposes 3")
}

// A source that fails and works in turns does not make the count swing between its metric and the fallback: both ways take
// the threshold.
func TestAnUnsteadySourceDoesNotMakeTheCountSwing(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server := w.Server(faulty.Options{})
	broken, works := faulty.Vector(), faulty.Vector(faulty.Series{Value: "20"})
	// An answer that is not decided on before the next one comes counts for nothing, so there are more at the beginning than the
	// threshold.
	server.Answer(faulty.Sequence(broken, broken, broken, broken, broken, broken, works, broken, broken, broken, works, works, broken, works, works, works))
	w.CreateTarget(10)
	counts := w.Record()
	m := otherwise(metric(server, "queue"), v1alpha1.NoDataFallback, 10)
	m.NoData.FailureThreshold = new(int32(3))
	w.Create(estest.Instant(w.Scaler(estest.Metrics("", m))))
	w.Event("Warning", v1alpha1.ReasonFallback, "Fallback proposes 10")
	counts.Wait(10, 5, 2)
	if n := server.Count("", ""); n < 16 {
		t.Errorf("the count shrank after %d evaluations, before the metric had a value three times in a row", n)
	}
}

// Values beyond all counts lead to the upper bound, and no figure wraps.
func TestHugeValuesDoNotWrap(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"1e10", "1e19", "1.7e308"} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			w := env.World(t)
			server := w.Server(faulty.Options{})
			tell(server, "queue", value)
			w.CreateTarget(6)
			m := estest.Query(server.URL(), "queue", sumOf("queue"), "1")
			w.Create(estest.Instant(w.Scaler(estest.Metrics("", m))))
			w.WaitReplicas(10)
			scaler := w.Condition(v1alpha1.ConditionScalingCalculated, metav1.ConditionTrue, v1alpha1.ReasonMaxReplicas)
			in := input(t, scaler, "queue")
			if strings.HasPrefix(in.Value, "-") || *in.ProposedReplicas < 10 {
				t.Errorf("the input is %+v, want no figure below what was read", in)
			}
			proposed, _, err := env.Series(t.Context(), "pdo_elasticscaler_proposed_replicas", map[string]string{"namespace": w.Namespace, "metric": "queue"})
			if err != nil || proposed < 10 {
				t.Errorf("the manager's metric of the proposal is %v (%v)", proposed, err)
			}
		})
	}
}

// Two scalers with one query cost one request per round, and both follow it.
func TestTheSameQueryIsSentOncePerRound(t *testing.T) {
	t.Parallel()
	const interval = 2 * time.Second
	w := env.World(t)
	server := w.Server(faulty.Options{})
	tell(server, "queue", "10")
	names := []string{"first", "second", "third", "fourth"}
	for _, name := range names {
		w.Create(testkit.MakeDeployment(w.Namespace, name).Obj())
		scaler := estest.Instant(w.Scaler(estest.Metrics("", metric(server, "queue"))))
		scaler.Name, scaler.Spec.TargetRef.Name, scaler.Spec.IntervalSeconds = name, name, new(int32(interval/time.Second))
		w.Create(scaler)
	}
	each := func(replicas int32) {
		for _, name := range names {
			w.Name = name
			w.WaitReplicas(replicas)
		}
	}
	w.Evaluated(server, 2)
	server.Forget()
	w.Evaluated(server, 3)
	tell(server, "queue", "20")
	each(2)
	requests := server.Requests()
	for i, r := range requests[1:] {
		// A round may be late on a busy machine, and then takes over an answer that is at most half an interval old.
		if apart := r.Time.Sub(requests[i].Time); apart < interval/4 {
			t.Errorf("requests %d and %d came %s apart: must be one", i, i+1, apart)
		}
	}
}

// An endpoint that does not answer delays only the scalers that ask it.
func TestADeadEndpointCostsOnlyItsOwnScalers(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	dead, healthy := w.Server(faulty.Options{}), w.Server(faulty.Options{})
	dead.Answer(faulty.Hang())
	tell(healthy, "queue", "10")
	for i := range 12 {
		name := fmt.Sprintf("stuck-%d", i)
		w.Create(testkit.MakeDeployment(w.Namespace, name).Obj())
		scaler := w.Scaler(estest.Metrics("", metric(dead, fmt.Sprintf("queue_%d", i))))
		scaler.Name, scaler.Spec.TargetRef.Name = name, name
		w.Create(scaler)
	}
	testkit.Eventually(t, estest.Patience, "the dead endpoint to have as many requests as it may", func(context.Context) error {
		if n := dead.Peak(); n < 4 {
			return fmt.Errorf("it has had %d at a time", n)
		}
		return nil
	})
	w.CreateTarget(1)
	w.Create(estest.Instant(w.Scaler(estest.Metrics("", metric(healthy, "queue")))))
	w.Evaluated(healthy, 1)
	// Requests to the dead endpoint last their whole time-out of 5 s, and go four at a time: behind those of twelve scalers each
	// evaluation, due every second, would take 15 s.
	began := time.Now()
	w.Evaluated(healthy, 4)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("four evaluations took %s", took)
	}
	tell(healthy, "queue", "20")
	w.WaitReplicas(2)
	// Four at a time, and those of before that the server has not seen to be given up.
	if n := dead.Peak(); n > 8 {
		t.Errorf("the dead endpoint had %d requests at a time, want 4", n)
	}
}

func TestEachScalerHasItsOwnInterval(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server := w.Server(faulty.Options{})
	tell(server, "queue", "20")
	w.CreateTarget(2)
	scaler := estest.Instant(w.Scaler(estest.Metrics("", metric(server, "queue"))))
	scaler.Spec.IntervalSeconds = new(int32(3600))
	w.Create(scaler)
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
	tell(server, "queue", "40")
	w.KeepsReplicas(2)
	// The moments are those of the clock and not of the scaler, so that another may have come by chance.
	if n := server.Count("", ""); n > 2 {
		t.Errorf("there were %d requests, with an interval of an hour", n)
	}
	// An edit is decided on at once, by the value that is known.
	w.Edit(func(s *v1alpha1.ElasticScaler) { s.Spec.MinReplicas = new(int32(3)) })
	w.WaitReplicas(3)
	w.Edit(func(s *v1alpha1.ElasticScaler) { s.Spec.IntervalSeconds = new(int32(1)) })
	w.Evaluated(server, 3)
}

// Values that wobble within the tolerance write nothing: neither to the scaler, nor to its target, nor an event.
func TestNothingIsWrittenPerInterval(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server := w.Server(faulty.Options{})
	var asked atomic.Int64
	server.Answer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		value := 30 + asked.Add(1)%3
		faulty.Vector(faulty.Series{Value: fmt.Sprint(value)}).ServeHTTP(rw, r)
	}))
	w.CreateTarget(3)
	w.Create(estest.Instant(w.Scaler(estest.Metrics("", metric(server, "queue")))))
	w.Settled()
	w.Evaluated(server, 2)
	before := w.Versions()
	w.Evaluated(server, 6)
	if after := w.Versions(); after != before {
		t.Errorf("after six evaluations there is\n%+v\nwant what there was before\n%+v", after, before)
	}
}
