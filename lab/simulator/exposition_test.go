package simulator

import (
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"github.com/pd-orchestrator/pd-orchestrator/lab/simulator/api"
)

// vllmFamilies are the families as vLLM has them: type, labels and, for histograms, the number of bounds.
var vllmFamilies = map[string]struct {
	kind   dto.MetricType
	labels []string
	bounds int
}{
	"vllm:num_requests_running":                  {kind: dto.MetricType_GAUGE},
	"vllm:num_requests_waiting":                  {kind: dto.MetricType_GAUGE},
	"vllm:kv_cache_usage_perc":                   {kind: dto.MetricType_GAUGE},
	"vllm:gpu_cache_usage_perc":                  {kind: dto.MetricType_GAUGE},
	"vllm:num_preemptions_total":                 {kind: dto.MetricType_COUNTER},
	"vllm:prompt_tokens_total":                   {kind: dto.MetricType_COUNTER},
	"vllm:generation_tokens_total":               {kind: dto.MetricType_COUNTER},
	"vllm:request_success_total":                 {kind: dto.MetricType_COUNTER, labels: []string{"finished_reason"}},
	"vllm:time_to_first_token_seconds":           {kind: dto.MetricType_HISTOGRAM, bounds: 22},
	"vllm:inter_token_latency_seconds":           {kind: dto.MetricType_HISTOGRAM, bounds: 19},
	"vllm:time_per_output_token_seconds":         {kind: dto.MetricType_HISTOGRAM, bounds: 19},
	"vllm:request_time_per_output_token_seconds": {kind: dto.MetricType_HISTOGRAM, bounds: 19},
	"vllm:e2e_request_latency_seconds":           {kind: dto.MetricType_HISTOGRAM, bounds: 21},
	"vllm:request_queue_time_seconds":            {kind: dto.MetricType_HISTOGRAM, bounds: 21},
}

func TestFamiliesAreThoseOfVLLM(t *testing.T) {
	bed := newTestbed(t)
	bed.addPod(1, map[string]string{"app": "llm"}, func(p *Pod) { p.ModelName = "some/\"model\"\\n\n" })
	bed.load(t, `{"name": "llm", "namespace": "production", "selector": {"app": "llm"}, "rate": 10}`)
	bed.clock.advance(30 * time.Second)

	families := bed.families(t, 1)
	for name, want := range vllmFamilies {
		family, ok := families[name]
		if !ok {
			t.Errorf("%s is not served", name)
			continue
		}
		if family.GetType() != want.kind {
			t.Errorf("%s is a %s, want %s", name, family.GetType(), want.kind)
		}
		wantLabels := append([]string{"engine", "model_name"}, want.labels...)
		slices.Sort(wantLabels)
		for _, m := range family.GetMetric() {
			labels := make([]string, 0, len(wantLabels))
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName())
				if value := map[string]string{"engine": "0", "model_name": "some/\"model\"\\n\n"}[l.GetName()]; value != "" && value != l.GetValue() {
					t.Errorf("%s: label %s is %q, want %q", name, l.GetName(), l.GetValue(), value)
				}
			}
			slices.Sort(labels)
			if diff := cmp.Diff(wantLabels, labels); diff != "" {
				t.Errorf("%s: labels (-want +got):\n%s", name, diff)
			}
			if want.kind == dto.MetricType_HISTOGRAM {
				checkHistogram(t, name, m.GetHistogram(), want.bounds)
			}
		}
	}
	for name := range families {
		if _, ok := vllmFamilies[name]; !ok {
			t.Errorf("%s is served, and vLLM has no such metric", name)
		}
	}
	for _, name := range []string{"vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:request_success_total", "vllm:num_requests_running", "vllm:kv_cache_usage_perc"} {
		if value, _ := bed.value(t, 1, name); value <= 0 {
			t.Errorf("under load %s is %g", name, value)
		}
	}
}

func checkHistogram(t *testing.T, name string, h *dto.Histogram, bounds int) {
	t.Helper()
	buckets := h.GetBucket()
	// The parser also returns the bucket +Inf.
	if len(buckets) != bounds+1 || !math.IsInf(buckets[len(buckets)-1].GetUpperBound(), 1) {
		t.Fatalf("%s has %d buckets, want %d and +Inf", name, len(buckets), bounds)
	}
	for i := 1; i < len(buckets); i++ {
		if buckets[i].GetUpperBound() <= buckets[i-1].GetUpperBound() || buckets[i].GetCumulativeCount() < buckets[i-1].GetCumulativeCount() {
			t.Errorf("%s: bucket %v follows %v", name, buckets[i], buckets[i-1])
		}
	}
	if h.GetSampleCount() != buckets[len(buckets)-1].GetCumulativeCount() {
		t.Errorf("%s: count %d, last bucket %d", name, h.GetSampleCount(), buckets[len(buckets)-1].GetCumulativeCount())
	}
	if h.GetSampleCount() == 0 || h.GetSampleSum() < 0 {
		t.Errorf("%s: %d observations with the sum %g under load", name, h.GetSampleCount(), h.GetSampleSum())
	}
}

func TestExpositionPassesTheLinter(t *testing.T) {
	bed := newTestbed(t)
	bed.addPod(1, nil)
	bed.pin(t, `{"namespace": "production", "metrics": {"queue_depth": 4}}`)
	_, body, err := bed.get(t, 1, "")
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		// The colon is vLLM's.
		if problem.Text != "metric names should not contain ':'" {
			t.Errorf("%s: %s", problem.Metric, problem.Text)
		}
	}
}

func TestPinnedValues(t *testing.T) {
	bed := newTestbed(t)
	bed.addPod(1, map[string]string{"app": "decode", "group": "0"})
	bed.addPod(2, map[string]string{"app": "decode", "group": "1"})
	bed.addPod(3, map[string]string{"app": "prefill"})
	bed.addPod(4, map[string]string{"app": "decode"}, func(p *Pod) { p.Namespace = "elsewhere" })
	bed.pin(t, `{"namespace": "production", "labels": {"app": "decode"}, "metrics": {"vllm:num_requests_running": 3, "vllm:prompt_tokens_total": 1000, "vllm:request_success_total": 7, "queue_depth": 0.5}}`)
	bed.addPod(5, map[string]string{"app": "decode"})

	const running = "vllm:num_requests_running"
	want := func(n int, name string, want float64) {
		t.Helper()
		got, ok := bed.value(t, n, name)
		if !ok || (got != want && !(math.IsNaN(got) && math.IsNaN(want))) {
			t.Errorf("pod %d serves %s %g (served: %v), want %g", n, name, got, ok, want)
		}
	}
	for _, n := range []int{1, 2, 5} {
		want(n, running, 3)
		want(n, "vllm:prompt_tokens_total", 1000)
		want(n, "vllm:request_success_total", 7)
		want(n, "queue_depth", 0.5)
	}
	for _, n := range []int{3, 4} {
		want(n, running, 0)
	}
	if family := bed.families(t, 1)["vllm:prompt_tokens_total"]; family.GetType() != dto.MetricType_COUNTER {
		t.Errorf("a pinned counter is served as %s", family.GetType())
	}
	if family := bed.families(t, 1)["queue_depth"]; family.GetType() != dto.MetricType_GAUGE {
		t.Errorf("an invented metric is served as %s", family.GetType())
	}

	// A later pin wins for what it names, and only that.
	bed.pin(t, `{"namespace": "production", "labels": {"group": "1"}, "metrics": {"vllm:num_requests_running": "NaN"}, "absent": ["queue_depth"]}`)
	want(1, running, 3)
	want(2, running, math.NaN())
	want(2, "vllm:prompt_tokens_total", 1000)
	if _, ok := bed.value(t, 2, "queue_depth"); ok {
		t.Error("a metric that is pinned absent is served")
	}
	bed.pin(t, `{"namespace": "production", "metrics": {"vllm:num_requests_running": "+Inf", "queue_depth": "-Inf"}}`)
	want(2, running, math.Inf(1))
	want(2, "queue_depth", math.Inf(-1))
	want(3, running, math.Inf(1))

	// Without the last pin the ones before it hold again.
	if removed := bed.Unpin(&api.Selector{Namespace: "production"}); removed != 1 {
		t.Errorf("removed %d pins, want 1", removed)
	}
	want(2, running, math.NaN())
	want(3, running, 0)
	if removed := bed.Unpin(nil); removed != 2 {
		t.Errorf("removed %d pins, want 2", removed)
	}
	want(1, running, 0)
	if _, ok := bed.value(t, 1, "queue_depth"); ok {
		t.Error("an invented metric is served although no pin holds it")
	}
}

func TestPinOfTheSameSelectorReplacesOnlyWhatItNames(t *testing.T) {
	bed := newTestbed(t)
	bed.addPod(1, nil)
	bed.pin(t, `{"namespace": "production", "metrics": {"a": 1, "b": 1}, "absent": ["c"], "fault": "error"}`)
	bed.pin(t, `{"namespace": "production", "metrics": {"b": 2, "c": 2}, "fault": "none"}`)
	bed.pin(t, `{"namespace": "production", "metrics": {"b": 3}}`)
	want := []api.Pin{
		{Namespace: "production", Metrics: map[string]api.Value{"a": 1}},
		{Namespace: "production", Metrics: map[string]api.Value{"c": 2}, Fault: api.FaultNone},
		{Namespace: "production", Metrics: map[string]api.Value{"b": 3}},
	}
	got := bed.Pins()
	for i := range got {
		if len(got[i].Absent) == 0 {
			got[i].Absent = nil
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pins (-want +got):\n%s", diff)
	}
	for name, want := range map[string]float64{"a": 1, "b": 3, "c": 2} {
		if got, _ := bed.value(t, 1, name); got != want {
			t.Errorf("%s is %g, want %g", name, got, want)
		}
	}
	bed.pin(t, `{"namespace": "production", "metrics": {"a": 4, "c": 4}, "fault": "none"}`)
	if got := len(bed.Pins()); got != 2 {
		t.Errorf("%d pins are left, want those that still decide something: 2", got)
	}
}

func TestFaults(t *testing.T) {
	bed := newTestbed(t)
	bed.addPod(1, nil)
	bed.addPod(2, nil, func(p *Pod) { p.Namespace = "elsewhere" })
	for fault, check := range map[api.Fault]func(status int, body string, err error) bool{
		api.FaultClose: func(_ int, _ string, err error) bool { return err != nil },
		api.FaultError: func(status int, _ string, err error) bool {
			return err == nil && status == http.StatusInternalServerError
		},
		api.FaultHTML: func(status int, body string, err error) bool {
			return err == nil && status == http.StatusOK && strings.HasPrefix(body, "<!DOCTYPE html>")
		},
		api.FaultNone: func(status int, body string, err error) bool {
			return err == nil && status == http.StatusOK && strings.Contains(body, "vllm:num_requests_running")
		},
	} {
		bed.Pin(api.Pin{Namespace: "production", Fault: fault})
		if status, body, err := bed.get(t, 1, ""); !check(status, body, err) {
			t.Errorf("fault %s: status %d, error %v, body %q", fault, status, err, body)
		}
		if status, _, err := bed.get(t, 2, ""); err != nil || status != http.StatusOK {
			t.Errorf("fault %s also strikes a pod that the pin does not select: status %d, error %v", fault, status, err)
		}
	}
}

func TestHangingPodAnswersNothingUntilTheClientGivesUp(t *testing.T) {
	bed := newTestbed(t)
	bed.addPod(1, nil)
	bed.Pin(api.Pin{Namespace: "production", Fault: api.FaultHang})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, bed.podURL(1), nil)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Timeout: 50 * time.Millisecond}
	if response, err := client.Do(request); err == nil {
		_ = response.Body.Close()
		t.Errorf("got status %d, want a time-out", response.StatusCode)
	}
}
