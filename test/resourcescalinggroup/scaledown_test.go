package resourcescalinggroup

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/lab/simulator/api"
	"github.com/pd-orchestrator/pd-orchestrator/test/resourcescalinggroup/rsgtest"
)

// scaleDownCase scales 3 groups down to 2. Whichever source decides names another victim: the metric group 1, the
// annotation group 0, the ids group 2.
type scaleDownCase struct {
	// metric is complete, partial or stopped.
	metric string
	// annotations by group id.
	annotations map[int32]string
	wantLevel   v1alpha1.ScaleDownLevel
	wantReason  string
	wantNote    []string
}

var (
	complete = map[int32]string{0: "1", 1: "7", 2: "9"}
	partial  = map[int32]string{0: "1", 2: "9"}
)

var scaleDownCases = map[string]scaleDownCase{
	"metric complete, annotations complete: the metric decides": {
		metric: "complete", annotations: complete, wantLevel: v1alpha1.LevelMetric,
	},
	"metric complete, annotations partial: the metric decides": {
		metric: "complete", annotations: partial, wantLevel: v1alpha1.LevelMetric,
	},
	"metric complete, no annotations: the metric decides": {
		metric: "complete", wantLevel: v1alpha1.LevelMetric,
	},
	"metric partial, annotations complete: the annotations decide alone": {
		metric: "partial", annotations: complete, wantLevel: v1alpha1.LevelAnnotation, wantReason: v1alpha1.ReasonGroupMissing,
		wantNote: []string{"fallback to annotation", "group 2", "0=1 1=7 2=9"},
	},
	"metric partial, annotations partial: the highest id goes": {
		metric: "partial", annotations: partial, wantLevel: v1alpha1.LevelGroupID, wantReason: v1alpha1.ReasonGroupMissing,
		wantNote: []string{"fallback to annotation", "group 1 has no annotation", "fallback to max group-id"},
	},
	"metric partial, no annotations: the highest id goes": {
		metric: "partial", wantLevel: v1alpha1.LevelGroupID, wantReason: v1alpha1.ReasonGroupMissing,
		wantNote: []string{"fallback to max group-id"},
	},
	"Prometheus stopped, annotations complete: the annotations decide": {
		metric: "stopped", annotations: complete, wantLevel: v1alpha1.LevelAnnotation, wantReason: v1alpha1.ReasonPrometheusUnavailable,
		wantNote: []string{"fallback to annotation"},
	},
	"Prometheus stopped, annotations partial: the highest id goes": {
		metric: "stopped", annotations: partial, wantLevel: v1alpha1.LevelGroupID, wantReason: v1alpha1.ReasonPrometheusUnavailable,
		wantNote: []string{"fallback to max group-id"},
	},
	"Prometheus stopped, no annotations: the highest id goes": {
		metric: "stopped", wantLevel: v1alpha1.LevelGroupID, wantReason: v1alpha1.ReasonPrometheusUnavailable,
		wantNote: []string{"fallback to max group-id"},
	},
	"Prometheus stopped, annotations with blanks: they are numbers": {
		metric: "stopped", annotations: map[int32]string{0: " 1 ", 1: "7.5", 2: "\t9\n"},
		wantLevel: v1alpha1.LevelAnnotation, wantReason: v1alpha1.ReasonPrometheusUnavailable,
	},
	"Prometheus stopped, annotation NaN: the highest id goes": {
		metric: "stopped", annotations: map[int32]string{0: "1", 1: "NaN", 2: "9"},
		wantLevel: v1alpha1.LevelGroupID, wantReason: v1alpha1.ReasonPrometheusUnavailable,
		wantNote: []string{`group 1: annotation autoscaling.rsg.metric.values is "NaN"`},
	},
	"Prometheus stopped, annotation empty: the highest id goes": {
		metric: "stopped", annotations: map[int32]string{0: "", 1: "7", 2: "9"},
		wantLevel: v1alpha1.LevelGroupID, wantReason: v1alpha1.ReasonPrometheusUnavailable,
		wantNote: []string{`group 0: annotation autoscaling.rsg.metric.values is ""`},
	},
	"Prometheus stopped, annotation beyond a float: the highest id goes": {
		metric: "stopped", annotations: map[int32]string{0: "1", 1: "1e400", 2: "9"},
		wantLevel: v1alpha1.LevelGroupID, wantReason: v1alpha1.ReasonPrometheusUnavailable,
		wantNote: []string{`group 1: annotation autoscaling.rsg.metric.values is "1e400"`},
	},
	"Prometheus stopped, annotation no number: the highest id goes": {
		metric: "stopped", annotations: map[int32]string{0: "1", 1: "ten", 2: "9"},
		wantLevel: v1alpha1.LevelGroupID, wantReason: v1alpha1.ReasonPrometheusUnavailable,
		wantNote: []string{`group 1: annotation autoscaling.rsg.metric.values is "ten"`},
	},
}

var victimOf = map[v1alpha1.ScaleDownLevel]int32{
	v1alpha1.LevelMetric: 1, v1alpha1.LevelAnnotation: 0, v1alpha1.LevelGroupID: 2,
}

// Every combination of what Prometheus knows and what the annotations say.
func TestScaleDownSources(t *testing.T) {
	t.Parallel()
	for sentence, tc := range scaleDownCases {
		if tc.metric == "stopped" {
			continue
		}
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			env.Prometheus.Needed(t)
			w := tc.create(t)
			w.Settled(3)
			w.Annotate(tc.annotations)
			values := map[int32]float64{0: 5, 1: 0, 2: 6}
			w.Pin(values)
			if tc.metric == "partial" {
				w.PinGroup(2, api.Pin{Absent: []string{w.Metric}})
				delete(values, 2)
				w.Prometheus.WaitValues(w, values)
			}
			w.ScaleTo(2)
			tc.check(w)
		})
	}
}

// The same without Prometheus, which all cases share, since it is stopped for all.
func TestScaleDownWithPrometheusStopped(t *testing.T) {
	t.Parallel()
	worlds := map[string]*rsgtest.World{}
	for sentence, tc := range scaleDownCases {
		if tc.metric == "stopped" {
			worlds[sentence] = tc.create(t)
		}
	}
	for sentence, w := range worlds {
		w.Settled(3)
		w.Annotate(scaleDownCases[sentence].annotations)
	}
	env.Prometheus.WhileStopped(t, func() {
		for _, w := range worlds {
			w.ScaleTo(2)
		}
		for sentence, w := range worlds {
			t.Run(sentence, func(t *testing.T) { scaleDownCases[sentence].check(w.For(t)) })
		}
	})
}

func (tc scaleDownCase) create(t *testing.T) *rsgtest.World {
	t.Helper()
	w := env.World(t, "llm").OwnMetric()
	w.CreateBase(1, 1)
	w.Create(w.RSG().Replicas(3).Metric(w.Metric).Obj())
	return w
}

func (tc scaleDownCase) check(w *rsgtest.World) {
	w.T.Helper()
	rsg := w.Settled(2)
	victim := victimOf[tc.wantLevel]
	record := rsg.Status.LastScaleDown
	if record == nil || record.Level != tc.wantLevel || record.Reason != tc.wantReason || !slices.Equal(record.Victims, []int32{victim}) {
		w.T.Fatalf("status.lastScaleDown is %+v, want group %d by %s, reason %q", record, victim, tc.wantLevel, tc.wantReason)
	}
	want := map[int32][2]int32{0: {1, 1}, 1: {1, 1}, 2: {1, 1}}
	delete(want, victim)
	w.HasGroups(want)
	if tc.wantReason == "" {
		w.Condition(v1alpha1.ConditionScaleDownMetric, metav1.ConditionTrue, v1alpha1.ReasonMetricUsed)
		w.Event("Normal", v1alpha1.EventScaleDown, fmt.Sprintf("removing group %d by %s", victim, tc.wantLevel))
		return
	}
	w.Condition(v1alpha1.ConditionScaleDownMetric, metav1.ConditionFalse, tc.wantReason)
	w.Event("Warning", v1alpha1.EventScaleDown, append(tc.wantNote, fmt.Sprintf("removing group %d by %s", victim, tc.wantLevel))...)
	w.Logged("fallback to ")
}

// What a Prometheus, or what stands in its place, can answer wrongly. Each falls back as a whole, in bounded time, and
// nothing but the victim of the highest id is lost.
func TestPrometheusMisbehaves(t *testing.T) {
	t.Parallel()
	vector := func(series string) http.HandlerFunc {
		return answer(http.StatusOK, "application/json", `{"status":"success","data":{"resultType":"vector","result":[`+series+`]}}`)
	}
	series := func(id int, value string) string {
		return fmt.Sprintf(`{"metric":{"group_id":"%d"},"value":[%d,"%s"]}`, id, time.Now().Unix(), value)
	}
	cases := map[string]struct {
		answer     http.HandlerFunc
		wantReason string
		wantText   string
	}{
		"status 500": {
			answer: answer(http.StatusInternalServerError, "text/plain", "out of memory"), wantReason: v1alpha1.ReasonPrometheusUnavailable, wantText: "500",
		},
		"an HTML page with status 200": {
			answer: answer(http.StatusOK, "text/html", "<html>Sign in to continue</html>"), wantReason: v1alpha1.ReasonPrometheusUnavailable, wantText: "not that of a Prometheus server",
		},
		"an error in Prometheus' own form": {
			answer:     answer(http.StatusUnprocessableEntity, "application/json", `{"status":"error","errorType":"execution","error":"query processing would load too many samples"}`),
			wantReason: v1alpha1.ReasonPrometheusUnavailable, wantText: "too many samples",
		},
		"the connection ends without an answer": {
			answer: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, wantReason: v1alpha1.ReasonPrometheusUnavailable,
		},
		"no answer in time": {
			answer: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, wantReason: v1alpha1.ReasonPrometheusUnavailable, wantText: "deadline",
		},
		"a redirect": {
			answer: func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
			}, wantReason: v1alpha1.ReasonPrometheusUnavailable,
		},
		"a scalar": {
			answer:     answer(http.StatusOK, "application/json", `{"status":"success","data":{"resultType":"scalar","result":[1700000000,"1"]}}`),
			wantReason: v1alpha1.ReasonResultTypeUnusable, wantText: "scalar",
		},
		"NaN for one group": {
			answer: vector(strings.Join([]string{series(0, "1"), series(1, "NaN"), series(2, "3")}, ",")), wantReason: v1alpha1.ReasonNotFinite, wantText: "group 1 is NaN",
		},
		"infinity for one group": {
			answer: vector(strings.Join([]string{series(0, "1"), series(1, "+Inf"), series(2, "3")}, ",")), wantReason: v1alpha1.ReasonNotFinite, wantText: "group 1 is +Inf",
		},
		"two series for one group": {
			answer: vector(strings.Join([]string{series(0, "1"), series(1, "2"), series(1, "5"), series(2, "3")}, ",")), wantReason: v1alpha1.ReasonMultipleSeries, wantText: "group 1",
		},
		"a group missing": {
			answer: vector(strings.Join([]string{series(0, "1"), series(2, "3")}, ",")), wantReason: v1alpha1.ReasonGroupMissing, wantText: "group 1",
		},
		"series without group_id": {
			answer:     vector(fmt.Sprintf(`{"metric":{"pod":"a"},"value":[%d,"1"]}`, time.Now().Unix())),
			wantReason: v1alpha1.ReasonGroupMissing, wantText: "no series with group_id for group 1, group 2",
		},
		"no series at all": {
			answer: vector(""), wantReason: v1alpha1.ReasonGroupMissing, wantText: "group 0, group 1, group 2",
		},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			w := env.World(t, "llm").OwnMetric()
			w.CreateBase(1, 1)
			w.Create(w.RSG().Replicas(3).Metric(w.Metric).Obj())
			w.Settled(3)
			env.Prometheus.Fault(w, tc.answer)
			w.ScaleTo(2)
			rsg := w.Settled(2)
			checkScaleDown(t, rsg, v1alpha1.ScaleDownRecord{
				Level: v1alpha1.LevelGroupID, Order: v1alpha1.OrderAscending, Reason: tc.wantReason, Victims: []int32{2},
			})
			w.HasGroups(map[int32][2]int32{0: {1, 1}, 1: {1, 1}})
			w.Condition(v1alpha1.ConditionScaleDownMetric, metav1.ConditionFalse, tc.wantReason, tc.wantText)
			w.Event("Warning", v1alpha1.EventScaleDown, "fallback to annotation", "fallback to max group-id", tc.wantText)
			if len(env.Prometheus.Queries(w)) == 0 {
				t.Error("Prometheus was not asked")
			}
		})
	}
}

// Values of the real Prometheus that are no ranking: a pod that serves NaN, and one whose endpoint fails.
func TestPodServesNoValue(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		pin        func(metric string) api.Pin
		seen       map[int32]float64
		wantReason string
	}{
		"NaN": {
			pin: func(metric string) api.Pin {
				return api.Pin{Metrics: map[string]api.Value{metric: api.Value(math.NaN())}}
			},
			wantReason: v1alpha1.ReasonNotFinite,
		},
		"an endpoint that answers 500": {
			pin:        func(string) api.Pin { return api.Pin{Fault: api.FaultError} },
			seen:       map[int32]float64{0: 5, 2: 6},
			wantReason: v1alpha1.ReasonGroupMissing,
		},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			env.Prometheus.Needed(t)
			w := env.World(t, "llm").OwnMetric()
			w.CreateBase(1, 1)
			w.Create(w.RSG().Replicas(3).Metric(w.Metric).Obj())
			w.Settled(3)
			w.Pin(map[int32]float64{0: 5, 1: 0, 2: 6})
			w.PinGroup(1, tc.pin(w.Metric))
			if tc.seen != nil {
				w.Prometheus.WaitValues(w, tc.seen)
			} else {
				w.Prometheus.WaitNaN(w, 1)
			}
			w.ScaleTo(2)
			w.Settled(2)
			w.HasGroups(map[int32][2]int32{0: {1, 1}, 1: {1, 1}})
			w.Condition(v1alpha1.ConditionScaleDownMetric, metav1.ConditionFalse, tc.wantReason, "group 1")
		})
	}
}

// The order turns the ranking round, and a group that is no candidate any more has no say.
func TestScaleDownOrder(t *testing.T) {
	t.Parallel()
	env.Prometheus.Needed(t)
	w := env.World(t, "llm")
	w.CreateBase(1, 1)
	w.Create(w.RSG().Replicas(4).Metric(rsgtest.Metric).Order(v1alpha1.OrderDescending).Obj())
	w.Settled(4)
	w.Pin(map[int32]float64{0: 3, 1: 8, 2: 3, 3: 5})
	w.ScaleTo(3)
	w.Settled(3)
	w.HasGroups(map[int32][2]int32{0: {1, 1}, 2: {1, 1}, 3: {1, 1}})
	w.ScaleTo(1)
	// Group 3 has the largest value left; of the tie between 0 and 2 the higher id goes.
	w.Settled(1)
	w.HasGroups(map[int32][2]int32{0: {1, 1}})
	// The lowest free ids are filled, also in the middle.
	w.ScaleTo(3)
	w.Settled(3)
	w.HasGroups(map[int32][2]int32{0: {1, 1}, 1: {1, 1}, 2: {1, 1}})
}

func answer(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}
