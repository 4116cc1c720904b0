package elasticscaler

import (
	"fmt"
	"math"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/lab/faulty"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
)

// elsewhere answers as it should, where no request is to come.
func elsewhere(w *estest.World) *faulty.Server {
	s := w.Server(faulty.Options{})
	s.Answer(faulty.Text("queue 900\n"))
	return s
}

// A metric that lies, vanishes or explodes leaves the count as it is, with a reason that tells the fault, and no value; when
// the fault is over the count follows again.
func TestAFaultOfAMetricHoldsTheCount(t *testing.T) {
	t.Parallel()
	// The queries and the page all tell 30, the target is 10, and there are 3 replicas.
	const query, selector = "scalar(sum(queue))", "queue"
	type fault struct {
		// query is the metric's; empty where a page is read.
		query  string
		answer http.Handler
		reason string
		says   []string
	}
	cases := map[string]fault{
		"no series":         {query, faulty.Vector(), v1alpha1.ReasonNoData, []string{"no series"}},
		"NaN":               {query, faulty.Vector(faulty.Series{Value: "NaN"}), v1alpha1.ReasonNoData, []string{"the value is NaN"}},
		"a scalar NaN":      {query, faulty.Scalar("NaN"), v1alpha1.ReasonNoData, []string{"the value is NaN"}},
		"infinite":          {query, faulty.Vector(faulty.Series{Value: "+Inf"}), v1alpha1.ReasonNoData, []string{"the value is +Inf"}},
		"minus infinite":    {query, faulty.Scalar("-Inf"), v1alpha1.ReasonNoData, []string{"the value is -Inf"}},
		"negative":          {query, faulty.Scalar("-900"), v1alpha1.ReasonNoData, []string{"-900", "0 or more"}},
		"several series":    {query, faulty.Vector(faulty.Series{Labels: map[string]string{"job": "llm", "pod": "a"}, Value: "1"}, faulty.Series{Labels: map[string]string{"job": "llm", "pod": "b"}, Value: "900"}), v1alpha1.ReasonMultipleSeries, []string{"2 series", "differ in pod"}},
		"a matrix":          {query, faulty.Matrix(faulty.Series{Value: "900"}), v1alpha1.ReasonWrongResultType, []string{"matrix"}},
		"a string":          {query, faulty.String("900"), v1alpha1.ReasonWrongResultType, []string{"string"}},
		"no number":         {query, faulty.Scalar("many"), v1alpha1.ReasonMetricSourceUnavailable, nil},
		"a failing query":   {query, faulty.QueryError(http.StatusUnprocessableEntity, "execution", "query processing would load too many samples"), v1alpha1.ReasonMetricSourceUnavailable, []string{"too many samples"}},
		"a failing server":  {query, faulty.Status(http.StatusInternalServerError, "900"), v1alpha1.ReasonMetricSourceUnavailable, []string{"500"}},
		"no Prometheus":     {query, faulty.Body("text/html", "<html>900</html>"), v1alpha1.ReasonMetricSourceUnavailable, nil},
		"an answer in half": {query, faulty.CutOff(faulty.Scalar("900")), v1alpha1.ReasonMetricSourceUnavailable, nil},
		"an endless answer": {query, faulty.Huge(64<<20, faulty.Scalar("900")), v1alpha1.ReasonMetricSourceUnavailable, []string{"longer than 1048576 bytes"}},
		"no answer":         {query, faulty.Hang(), v1alpha1.ReasonMetricSourceUnavailable, []string{"does not answer in time"}},
		"a dripping answer": {query, faulty.Drip(time.Second, faulty.Scalar("900")), v1alpha1.ReasonMetricSourceUnavailable, []string{"does not answer in time"}},
		"a dead server":     {query, faulty.Close(), v1alpha1.ReasonMetricSourceUnavailable, []string{"ends the connection before it answers"}},

		"a failing page":           {"", faulty.Status(http.StatusServiceUnavailable, "queue 900\n"), v1alpha1.ReasonMetricSourceUnavailable, []string{"503 Service Unavailable"}},
		"a page that is not there": {"", http.NotFoundHandler(), v1alpha1.ReasonMetricSourceUnavailable, []string{"404 Not Found"}},
		"an empty page":            {"", faulty.Text(""), v1alpha1.ReasonNoData, []string{"empty"}},
		"a page in half":           {"", faulty.CutOff(faulty.Text("queue 900\nother 1\n")), v1alpha1.ReasonMetricSourceUnavailable, nil},
		"an endless page":          {"", faulty.Huge(64<<20, faulty.Text("queue 900\n")), v1alpha1.ReasonMetricSourceUnavailable, []string{"longer than 1048576 bytes"}},
		"a page of HTML":           {"", faulty.Body("text/html; charset=utf-8", "<html>queue 900</html>"), v1alpha1.ReasonWrongResultType, []string{"text/html"}},
		"a page of noise":          {"", faulty.Text("queue 900 {\n"), v1alpha1.ReasonWrongResultType, []string{"neither Prometheus text nor JSON"}},
		"a page of NaN":            {"", faulty.Text("queue NaN\n"), v1alpha1.ReasonNoData, []string{"the value is NaN"}},
		"one infinite sample":      {"", faulty.Text("queue{a=\"1\"} 1\nqueue{a=\"2\"} +Inf\n"), v1alpha1.ReasonNoData, []string{"the value is +Inf"}},
		"a number out of range":    {"", faulty.JSON(`{"queue": 1e999}`), v1alpha1.ReasonNoData, []string{"the value is +Inf"}},
		"a histogram":              {"", faulty.Text("# TYPE queue histogram\nqueue_bucket{le=\"+Inf\"} 900\nqueue_sum 900\nqueue_count 900\n"), v1alpha1.ReasonWrongResultType, []string{"queue_count"}},
		"an old sample":            {"", faulty.Text(fmt.Sprintf("queue 900 %d\n", time.Now().Add(-time.Hour).UnixMilli())), v1alpha1.ReasonStale, []string{"the sample is 1h", "2m0s are allowed"}},
		"a name that is not there": {"", faulty.Text("queu_e 12\nother 900\n"), v1alpha1.ReasonMetricNotFound, []string{`no metric "queue"`, "queu_e"}},
		"JSON that is none":        {"", faulty.JSON(`{"queue": 900`), v1alpha1.ReasonWrongResultType, []string{"says that it is JSON and is not"}},
		"a list of JSON":           {"", faulty.JSON(`[{"queue": 900}]`), v1alpha1.ReasonWrongResultType, []string{"must be an object"}},
		"an object for a number":   {"", faulty.JSON(`{"queue": {"depth": 900}}`), v1alpha1.ReasonWrongResultType, []string{"must be a number"}},
		"a word for a number":      {"", faulty.JSON(`{"queue": "many"}`), v1alpha1.ReasonWrongResultType, []string{"must be a number"}},
		"null for a number":        {"", faulty.JSON(`{"queue": null}`), v1alpha1.ReasonNoData, []string{"null"}},
		"a key that is not there":  {"", faulty.JSON(`{"engine": {"queue": 900}}`), v1alpha1.ReasonMetricNotFound, []string{`no metric "queue"`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			holds(t, tc.query, func(*estest.World, *faulty.Server) http.Handler { return tc.answer }, tc.reason, tc.says...)
		})
	}
	t.Run("a redirect", func(t *testing.T) {
		t.Parallel()
		var other *faulty.Server
		holds(t, "", func(w *estest.World, _ *faulty.Server) http.Handler {
			other = elsewhere(w)
			return faulty.Redirect(http.StatusTemporaryRedirect, other.URL())
		}, v1alpha1.ReasonMetricSourceUnavailable, "307", "redirects are not followed")
		if n := other.Count("", ""); n > 0 {
			t.Errorf("the redirect was followed %d times", n)
		}
	})
	t.Run("a redirect of a query", func(t *testing.T) {
		t.Parallel()
		var other *faulty.Server
		holds(t, query, func(w *estest.World, _ *faulty.Server) http.Handler {
			other = elsewhere(w)
			return faulty.Redirect(http.StatusMovedPermanently, other.URL())
		}, v1alpha1.ReasonMetricSourceUnavailable)
		if n := other.Count("", ""); n > 0 {
			t.Errorf("the redirect was followed %d times", n)
		}
	})
	t.Run("a sample of a selector that is too old", func(t *testing.T) {
		t.Parallel()
		holds(t, selector, func(_ *estest.World, s *faulty.Server) http.Handler {
			s.AnswerQuery("timestamp(queue)", faulty.Vector(faulty.Series{Value: fmt.Sprint(time.Now().Add(-6 * time.Minute).Unix())}))
			return faulty.Vector(faulty.Series{Value: "900"})
		}, v1alpha1.ReasonStale, "6m", "2m0s are allowed")
	})
	t.Run("a sample whose time the answer tells", func(t *testing.T) {
		t.Parallel()
		holds(t, "sum(queue)", func(*estest.World, *faulty.Server) http.Handler {
			return faulty.Vector(faulty.Series{Value: "900", Age: 6 * time.Minute})
		}, v1alpha1.ReasonStale, "6m", "2m0s are allowed")
	})
}

// holds gives a scaler of 3 replicas a metric at its target, then the answer with the fault, and then a low value.
func holds(t *testing.T, query string, faultOf func(*estest.World, *faulty.Server) http.Handler, reason string, says ...string) {
	t.Helper()
	w := env.World(t)
	server := w.Server(faulty.Options{})
	healthy := func(value int) {
		if query == "" {
			server.Answer(faulty.Text(fmt.Sprintf("queue %d\n", value)))
			return
		}
		server.Answer(faulty.Vector(faulty.Series{Value: fmt.Sprint(value)}))
	}
	// The time of a selector's sample is asked for on its own.
	inTime := func() {
		server.AnswerQuery("timestamp(queue)", faulty.Vector(faulty.Series{Value: fmt.Sprint(math.MaxInt32)}))
	}
	healthy(30)
	inTime()
	w.CreateTarget(3)
	counts := w.Record()
	metric := page(server.URL(), "queue", "10")
	metric.ExternalServer.Query = query
	w.Create(estest.Instant(w.Scaler(estest.Metrics("", metric))))
	w.Condition(v1alpha1.ConditionScalingCalculated, metav1.ConditionTrue, v1alpha1.ReasonWithinTolerance)

	server.Answer(faultOf(w, server))
	scaler := w.Condition(v1alpha1.ConditionMetricsCollected, metav1.ConditionFalse, reason, says...)
	if in := scaler.Status.LastDecision.Inputs[0]; in.Value != "" || in.Reason != reason || in.ProposedReplicas == nil || *in.ProposedReplicas != 3 {
		t.Errorf("the input is %+v, want no value, reason %s and the present count as its proposal", in, reason)
	}
	w.Condition(v1alpha1.ConditionDegraded, metav1.ConditionTrue, reason, `"queue"`)
	w.Event("Warning", reason, says...)
	w.Evaluated(server, 2)
	counts.Wait(3)

	healthy(10)
	// The time comes once the value has: with it the value of before would be good.
	w.Evaluated(server, 2)
	inTime()
	counts.Wait(3, 1)
	w.Condition(v1alpha1.ConditionMetricsCollected, metav1.ConditionTrue, v1alpha1.ReasonAllMetricsAvailable)
	w.Condition(v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonReconciled)
}

// What keeps an endpoint from being asked at all does so too: nobody is there, it has no address, or one that users may not
// have the manager dial.
func TestAnEndpointThatCannotBeReachedHoldsTheCount(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ endpoint, reason, says string }{
		"nobody listens":             {"127.0.0.1:1", v1alpha1.ReasonMetricSourceUnavailable, "refuses the connection"},
		"a name without an address":  {"nowhere.invalid:9090", v1alpha1.ReasonMetricSourceUnavailable, "resolve"},
		"the metadata of a cloud":    {"http://169.254.169.254/latest", v1alpha1.ReasonEndpointForbidden, "169.254.169.254"},
		"an unspecified address":     {"http://0.0.0.0:9090", v1alpha1.ReasonEndpointForbidden, "0.0.0.0"},
		"loopback of the other kind": {"http://[::1]:9090", v1alpha1.ReasonEndpointForbidden, "::1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := env.World(t)
			w.CreateTarget(3)
			counts := w.Record()
			w.Create(estest.Instant(w.Scaler(estest.Metrics("", page(tc.endpoint, "queue", "10")))))
			w.Condition(v1alpha1.ConditionMetricsCollected, metav1.ConditionFalse, tc.reason, tc.says)
			w.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNoData)
			counts.Wait(3)
		})
	}
}
