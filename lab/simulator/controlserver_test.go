package simulator

import (
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pd-orchestrator/pd-orchestrator/lab/simulator/api"
	"github.com/pd-orchestrator/pd-orchestrator/lab/simulator/client"
	"github.com/pd-orchestrator/pd-orchestrator/lab/simulator/model"
)

// call sends a request to the control API and returns status and body.
func (b *testbed) call(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, b.control+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(data)
}

func (b *testbed) must(t *testing.T, method, path, body string) string {
	t.Helper()
	status, answer := b.call(t, method, path, body)
	if status != http.StatusOK {
		t.Fatalf("%s %s %s: status %d: %s", method, path, body, status, answer)
	}
	return answer
}

func (b *testbed) pin(t *testing.T, body string) {
	t.Helper()
	b.must(t, http.MethodPost, "/pin", body)
}
func (b *testbed) load(t *testing.T, body string) {
	t.Helper()
	b.must(t, http.MethodPost, "/load", body)
}

func TestBadRequestsNameFieldValueAndFix(t *testing.T) {
	bed := newTestbed(t)
	const stream = `"name": "llm", "namespace": "production", "selector": {"app": "llm"}`
	for name, tt := range map[string]struct {
		method, path, body string
		want               []api.Error // Fix holds a part of the words
	}{
		"pin: empty body": {path: "/pin", want: []api.Error{{Fix: "is empty"}}},
		"pin: no JSON":    {path: "/pin", body: `{"namespace": `, want: []api.Error{{Fix: "valid JSON"}}},
		"pin: bad syntax": {path: "/pin", body: `{"namespace": production}`, want: []api.Error{{Fix: "at byte 15"}}},
		"pin: two documents": {path: "/pin", body: `{"namespace": "a", "metrics": {"m": 1}} {}`,
			want: []api.Error{{Fix: "nothing behind it"}}},
		"pin: too long": {path: "/pin", body: strings.Repeat(" ", api.MaxBody+1), want: []api.Error{{Fix: "at most 1048576 bytes"}}},
		"pin: unknown field": {path: "/pin", body: `{"namespace": "a", "label": {"app": "x"}, "metrics": {"m": 1}}`,
			want: []api.Error{{Field: "label", Fix: "the fields are absent, fault, labels, metrics, namespace"}}},
		"pin: wrong type": {path: "/pin", body: `{"namespace": "a", "labels": ["app"], "metrics": {"m": 1}}`,
			want: []api.Error{{Field: "labels", Value: "array", Fix: `must be an object, like {"app": "llm"}`}}},
		"pin: everything missing": {path: "/pin", body: `{}`,
			want: []api.Error{{Field: "namespace", Fix: "must be set"}, {Field: "metrics", Fix: "at least one metric"}}},
		"pin: no namespace name": {path: "/pin", body: `{"namespace": "Production", "metrics": {"m": 1}}`,
			want: []api.Error{{Field: "namespace", Value: "Production", Fix: "must be the name of a namespace"}}},
		"pin: label no pod can have": {path: "/pin", body: `{"namespace": "a", "labels": {"app": "two words", "-x": "y"}, "metrics": {"m": 1}}`,
			want: []api.Error{{Field: "labels", Value: "-x", Fix: "label keys"}, {Field: "labels[app]", Value: "two words", Fix: "label value"}}},
		"pin: values that are no numbers": {path: "/pin", body: `{"namespace": "a", "metrics": {"m": "3", "n": null, "o": "NaN", "p": [1]}}`,
			want: []api.Error{
				{Field: "metrics[m]", Value: `"3"`, Fix: "without quotes"},
				{Field: "metrics[n]", Value: "null", Fix: "must be a number"},
				{Field: "metrics[p]", Value: "[1]", Fix: "must be a number"},
			}},
		"pin: name with labels": {path: "/pin", body: `{"namespace": "a", "metrics": {"m{a=\"b\"}": 1}}`,
			want: []api.Error{{Field: `metrics[m{a="b"}]`, Value: `m{a="b"}`, Fix: "without labels"}}},
		"pin: histogram": {path: "/pin", body: `{"namespace": "a", "metrics": {"vllm:time_to_first_token_seconds": 1}}`,
			want: []api.Error{{Field: "metrics[vllm:time_to_first_token_seconds]", Value: "1", Fix: "is a histogram"}}},
		"pin: part of a histogram": {path: "/pin", body: `{"namespace": "a", "metrics": {"vllm:e2e_request_latency_seconds_sum": 1}}`,
			want: []api.Error{{Field: "metrics[vllm:e2e_request_latency_seconds_sum]", Value: "1", Fix: "is a histogram"}}},
		"pin: held and absent": {path: "/pin", body: `{"namespace": "a", "metrics": {"m": 1}, "absent": ["m"]}`,
			want: []api.Error{{Field: "metrics[m]", Value: "1", Fix: "keep one of the two"}}},
		"pin: unknown fault": {path: "/pin", body: `{"namespace": "a", "fault": "down"}`,
			want: []api.Error{{Field: "fault", Value: "down", Fix: `"close"`}}},
		"pin: query": {path: "/pin?namespace=a", body: `{"namespace": "a", "metrics": {"m": 1}}`,
			want: []api.Error{{Field: "namespace", Value: "a", Fix: "takes no query parameters"}}},
		"unpin: misspelt parameter must not mean all": {method: http.MethodDelete, path: "/pin?namspace=a",
			want: []api.Error{{Field: "namspace", Value: "a", Fix: "namespace, labels"}}},
		"unpin: labels without namespace": {method: http.MethodDelete, path: "/pin?labels=a=b",
			want: []api.Error{{Field: "namespace", Fix: "must be set"}}},
		"unpin: labels without value": {method: http.MethodDelete, path: "/pin?namespace=a&labels=app",
			want: []api.Error{{Field: "labels", Value: "app", Fix: "key=value"}}},
		"unpin: unknown field": {method: http.MethodDelete, path: "/pin", body: `{"namespace": "a", "metrics": {}}`,
			want: []api.Error{{Field: "metrics", Fix: "the fields are labels, namespace"}}},

		"load: everything missing": {path: "/load", body: `{}`, want: []api.Error{
			{Field: "name", Fix: "must be set"}, {Field: "namespace", Fix: "must be set"},
			{Field: "selector", Fix: "unless prefill and decode are"}, {Field: "rate", Fix: "unless trace is set"},
		}},
		"load: bad name": {path: "/load", body: `{"name": "My Load", "namespace": "a", "selector": {"a": "b"}, "rate": 1}`,
			want: []api.Error{{Field: "name", Value: "My Load", Fix: "a-z"}}},
		"load: half a split": {path: "/load", body: `{"name": "llm", "namespace": "a", "prefill": {"a": "b"}, "rate": 1}`,
			want: []api.Error{{Field: "decode", Fix: "since prefill is"}}},
		"load: other half": {path: "/load", body: `{"name": "llm", "namespace": "a", "decode": {"a": "b"}, "rate": 1}`,
			want: []api.Error{{Field: "prefill", Fix: "since decode is"}}},
		"load: mixed and split": {path: "/load", body: `{"name": "llm", "namespace": "a", "selector": {"a": "b"}, "prefill": {"a": "b"}, "decode": {"a": "c"}, "rate": 1}`,
			want: []api.Error{{Field: "selector", Fix: "mixed or split"}}},
		"load: the same pods for both phases": {path: "/load", body: `{"name": "llm", "namespace": "a", "prefill": {"a": "b"}, "decode": {"a": "b"}, "rate": 1}`,
			want: []api.Error{{Field: "decode", Value: "map[a:b]", Fix: "must differ from prefill"}}},
		"load: every pod": {path: "/load", body: `{"name": "llm", "namespace": "a", "selector": {}, "rate": 1}`,
			want: []api.Error{{Field: "selector", Value: "{}", Fix: "at least one label"}}},
		"load: rate below zero": {path: "/load", body: `{` + stream + `, "rate": -1}`,
			want: []api.Error{{Field: "rate", Value: "-1", Fix: "at least 0 and at most 10000"}}},
		"load: rate in words": {path: "/load", body: `{` + stream + `, "rate": "5/s"}`,
			want: []api.Error{{Field: "rate", Value: "string", Fix: "must be a number"}}},
		"load: unknown arrivals": {path: "/load", body: `{` + stream + `, "rate": 1, "arrivals": "bursty"}`,
			want: []api.Error{{Field: "arrivals", Value: "bursty", Fix: `"poisson" or "even"`}}},
		"load: unknown trace": {path: "/load", body: `{` + stream + `, "trace": "chat"}`,
			want: []api.Error{{Field: "trace", Value: "chat", Fix: `"conversation"`}}},
		"load: trace and stream": {path: "/load", body: `{` + stream + `, "trace": "code", "rate": 1, "promptTokens": 5, "arrivals": "even", "outputTokens": 5}`,
			want: []api.Error{
				{Field: "arrivals", Fix: "together with trace"}, {Field: "outputTokens", Fix: "together with trace"},
				{Field: "promptTokens", Fix: "together with trace"}, {Field: "rate", Fix: "together with trace"},
			}},
		"load: speed without trace": {path: "/load", body: `{` + stream + `, "rate": 1, "speed": 10, "loop": true}`,
			want: []api.Error{{Field: "loop", Fix: "without trace"}, {Field: "speed", Fix: "without trace"}}},
		"load: speed zero": {path: "/load", body: `{` + stream + `, "trace": "code", "speed": 0}`,
			want: []api.Error{{Field: "speed", Value: "0", Fix: "above 0"}}},
		"load: lengths in words": {path: "/load", body: `{` + stream + `, "rate": 1, "promptTokens": "long"}`,
			want: []api.Error{{Field: "promptTokens", Value: `"long"`, Fix: `{"mean": 1024`}}},
		"load: unknown field of lengths": {path: "/load", body: `{` + stream + `, "rate": 1, "outputTokens": {"mean": 5, "distribution": "constant", "sd": 1}}`,
			want: []api.Error{{Field: "outputTokens", Value: `{"mean": 5, "distribution": "constant", "sd": 1}`, Fix: "mean, distribution and variation"}}},
		"load: lengths out of range": {path: "/load", body: `{` + stream + `, "rate": 1, "promptTokens": 0, "outputTokens": {"mean": 1e9, "distribution": "normal"}}`,
			want: []api.Error{
				{Field: "promptTokens.mean", Value: "0", Fix: "at least 1"}, {Field: "outputTokens.mean", Value: "1e+09", Fix: "at most 100000"},
				{Field: "outputTokens.distribution", Value: "normal", Fix: `"lognormal"`},
			}},
		"load: variation": {path: "/load", body: `{` + stream + `, "rate": 1, "promptTokens": {"mean": 5, "distribution": "exponential", "variation": 2}, "outputTokens": {"mean": 5, "distribution": "lognormal", "variation": -1}}`,
			want: []api.Error{{Field: "promptTokens.variation", Value: "2", Fix: "unless"}, {Field: "outputTokens.variation", Value: "-1", Fix: "above 0"}}},
		"load: unknown engine parameter": {path: "/load", body: `{` + stream + `, "rate": 1, "engine": {"batch": 5}}`,
			want: []api.Error{{Field: "batch", Fix: "engine.maxBatchSize"}}},
		"load: engine out of range": {path: "/load",
			body: `{` + stream + `, "rate": 1, "engine": {"prefillTokensPerSecond": 0, "maxConcurrentPrefills": 0, "maxBatchSize": -1, "stepSeconds": 0, "stepSecondsPerRequest": -1, "kvCacheTokens": 0, "prefillShare": 1}}`,
			want: []api.Error{
				{Field: "engine.prefillTokensPerSecond", Value: "0", Fix: "above 0"}, {Field: "engine.maxConcurrentPrefills", Value: "0", Fix: "at least 1"},
				{Field: "engine.maxBatchSize", Value: "-1", Fix: "at least 1"}, {Field: "engine.stepSeconds", Value: "0", Fix: "above 0"},
				{Field: "engine.stepSecondsPerRequest", Value: "-1", Fix: "at least 0"}, {Field: "engine.kvCacheTokens", Value: "0", Fix: "at least 1"},
				{Field: "engine.prefillShare", Value: "1", Fix: "below 1"},
			}},
		"load: part of a number": {path: "/load", body: `{` + stream + `, "rate": 1, "engine": {"maxBatchSize": 1.5}}`,
			want: []api.Error{{Field: "engine.maxBatchSize", Value: "number 1.5", Fix: "must be a whole number"}}},
		"unload: no name": {method: http.MethodDelete, path: "/load?name=",
			want: []api.Error{{Field: "name", Fix: "leave the parameter out"}}},
		"unload: discard in words": {method: http.MethodDelete, path: "/load?discard=yes",
			want: []api.Error{{Field: "discard", Value: "yes", Fix: "true or false"}}},
		"unload: unknown parameter": {method: http.MethodDelete, path: "/load?label=llm",
			want: []api.Error{{Field: "label", Value: "llm", Fix: "name, discard"}}},
		"state: parameter": {method: http.MethodGet, path: "/state?pretty=1",
			want: []api.Error{{Field: "pretty", Value: "1", Fix: "no query parameters"}}},
	} {
		t.Run(name, func(t *testing.T) {
			method := tt.method
			if method == "" {
				method = http.MethodPost
			}
			status, answer := bed.call(t, method, tt.path, tt.body)
			var refusal api.ErrorBody
			if err := json.Unmarshal([]byte(answer), &refusal); err != nil || status != http.StatusBadRequest {
				t.Fatalf("status %d, answer %s, want 400 and findings", status, answer)
			}
			if len(refusal.Errors) != len(tt.want) {
				t.Fatalf("findings %v, want %d", refusal.Errors, len(tt.want))
			}
			for i, want := range tt.want {
				got := refusal.Errors[i]
				if got.Field != want.Field || got.Value != want.Value || !strings.Contains(got.Fix, want.Fix) {
					t.Errorf("finding %d: %+v, want %+v", i, got, want)
				}
			}
			if len(bed.Pins())+len(bed.Loads()) != 0 {
				t.Error("a refused request changed something")
			}
		})
	}
}

func TestControlAPIRefusesOtherSites(t *testing.T) {
	bed := newTestbed(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, bed.control+"/pin", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Origin", "https://example.com")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusForbidden {
		t.Errorf("status %d, want %d", response.StatusCode, http.StatusForbidden)
	}
}

func TestHealthz(t *testing.T) {
	bed := newTestbed(t)
	if got := bed.must(t, http.MethodGet, "/healthz", ""); got != "ok\n" {
		t.Errorf("got %q", got)
	}
}

func TestUnpinByQueryAndByBody(t *testing.T) {
	bed := newTestbed(t)
	for _, app := range []string{"a", "b", "c"} {
		bed.pin(t, `{"namespace": "production", "labels": {"app": "`+app+`", "tier": "x"}, "metrics": {"m": 1}}`)
	}
	bed.must(t, http.MethodDelete, "/pin?namespace=production&labels=app=a,tier=x", "")
	bed.must(t, http.MethodDelete, "/pin", `{"namespace": "production", "labels": {"app": "b", "tier": "x"}}`)
	// A selector that is only a part of a pin's is another selector.
	bed.must(t, http.MethodDelete, "/pin?namespace=production&labels=app=c", "")
	var list api.PinList
	if err := json.Unmarshal([]byte(bed.must(t, http.MethodGet, "/pin", "")), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Pins) != 1 || list.Pins[0].Labels["app"] != "c" {
		t.Errorf("pins left: %+v", list.Pins)
	}
	if got := bed.must(t, http.MethodDelete, "/pin", ""); !strings.Contains(got, `"removed": 1`) {
		t.Errorf("removing all answered %s", got)
	}
}

func TestLoadReactsToPods(t *testing.T) {
	bed := newTestbed(t)
	control := client.New(bed.control, nil)
	if err := control.Load(t.Context(), api.Load{
		Name: "llm", Namespace: "production", Rate: new(8.0), Engine: &api.Engine{MaxBatchSize: new(16)},
		Prefill: map[string]string{"role": "prefill"}, Decode: map[string]string{"role": "decode"},
	}); err != nil {
		t.Fatal(err)
	}
	state := func() api.ServiceState {
		t.Helper()
		state, err := control.State(t.Context())
		if err != nil || len(state.Services) != 1 {
			t.Fatalf("state %+v, error %v, want one service", state, err)
		}
		return state.Services[0]
	}

	bed.clock.advance(10 * time.Second)
	if s := state(); s.Queued.Prefill == 0 || s.Queued.Total() != int(s.Arrived) || !s.Streaming {
		t.Errorf("without pods all requests must be queued: %+v", s)
	}
	if metrics := bed.must(t, http.MethodGet, "/metrics", ""); !strings.Contains(metrics, `simulator_requests_queued{namespace="production",phase="prefill",service="llm"}`) {
		t.Errorf("the queue of the service is not in the metrics:\n%s", metrics)
	}

	bed.addPod(1, map[string]string{"role": "prefill"})
	bed.addPod(2, map[string]string{"role": "decode"})
	bed.clock.advance(60 * time.Second)
	before := state()
	if waiting, _ := bed.value(t, 2, "vllm:num_requests_waiting"); waiting == 0 || before.Waiting == 0 || before.Queued.Total() != 0 {
		t.Errorf("one decode pod must fall behind: %+v", before)
	}
	for n := 3; n < 7; n++ {
		bed.addPod(n, map[string]string{"role": "decode"})
	}
	bed.clock.advance(60 * time.Second)
	after := state()
	if waiting, _ := bed.value(t, 2, "vllm:num_requests_waiting"); waiting != 0 || after.Waiting >= before.Waiting {
		t.Errorf("five decode pods must catch up: %+v", after)
	}
	for _, p := range after.Pods {
		if p.Running < 0 || p.KVCacheUsage < 0 || p.KVCacheUsage > 1 || (p.Role == "decode" && p.GenerationTokens == 0) {
			t.Errorf("pod %+v", p)
		}
	}

	bed.DeletePod("uid-2")
	bed.addPod(3, map[string]string{"role": "decode"}, func(p *Pod) { p.Running, p.Ready = false, false })
	if s := state(); s.Arrived != s.Completed+uint64(s.Queued.Total()+s.Waiting+s.Running) {
		t.Errorf("requests are lost with their pods: %+v", s)
	}

	if stopped, err := control.StopLoad(t.Context(), "llm", false); err != nil || stopped != 1 {
		t.Errorf("stopped %d loads, error %v", stopped, err)
	}
	if s := state(); !s.Stopped || s.Streaming {
		t.Errorf("the stopped service: %+v", s)
	}
	bed.clock.advance(time.Hour)
	if state, err := control.State(t.Context()); err != nil || len(state.Services) != 0 {
		t.Errorf("state %+v, error %v, want no service once it is drained", state, err)
	}
	if value, _ := bed.value(t, 4, "vllm:generation_tokens_total"); value == 0 {
		t.Error("the counters of a pod fell back to zero with the end of the load")
	}
}

func TestDiscardAlsoEndsStoppedServices(t *testing.T) {
	bed := newTestbed(t)
	bed.load(t, `{"name": "llm", "namespace": "production", "selector": {"app": "llm"}, "rate": 10}`)
	bed.clock.advance(10 * time.Second)
	bed.must(t, http.MethodDelete, "/load", "")
	if got := len(bed.State().Services); got != 1 {
		t.Fatalf("%d services, want the one that has requests", got)
	}
	bed.must(t, http.MethodDelete, "/load?discard=true", "")
	if got := len(bed.State().Services); got != 0 {
		t.Errorf("%d services are left", got)
	}
}

func TestLoadsShowTheirDefaults(t *testing.T) {
	bed := newTestbed(t)
	bed.load(t, `{"name": "steady", "namespace": "production", "selector": {"app": "a"}, "rate": 0, "promptTokens": 500, "outputTokens": {"mean": 50, "distribution": "lognormal"}, "engine": {"maxBatchSize": 8}}`)
	bed.load(t, `{"name": "replay", "namespace": "production", "selector": {"app": "b"}, "trace": "code", "loop": true}`)
	loads, err := client.New(bed.control, nil).Loads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(loads) != 2 {
		t.Fatalf("loads %+v", loads)
	}
	steady, replay := loads[0], loads[1]
	if steady.Arrivals != api.Poisson || steady.PromptTokens.Distribution != "constant" || steady.OutputTokens.Variation != 1 || *steady.Engine.MaxBatchSize != 8 || *steady.Engine.KVCacheTokens != model.DefaultEngine().KVCacheTokens {
		t.Errorf("steady load: %+v", steady)
	}
	if *replay.Speed != 1 || replay.Rate != nil || replay.PromptTokens != nil {
		t.Errorf("replayed load: %+v", replay)
	}
	for _, load := range loads {
		if errs := load.Validate([]string{"code"}); len(errs) > 0 {
			t.Errorf("a load that is shown cannot be posted again: %v", errs)
		}
	}
}

func TestReplayFeedsThePods(t *testing.T) {
	bed := newTestbed(t)
	for n := 1; n <= 20; n++ {
		bed.addPod(n, map[string]string{"app": "llm"})
	}
	bed.load(t, `{"name": "llm", "namespace": "production", "selector": {"app": "llm"}, "trace": "conversation", "speed": 10}`)
	bed.clock.advance(10 * time.Minute)
	s := bed.State().Services[0]
	if s.Arrived != 19366 || s.Completed != s.Arrived || s.Streaming {
		t.Errorf("after an hour at ten times its speed: %+v, want all 19366 requests answered", s)
	}
}

func TestClient(t *testing.T) {
	bed := newTestbed(t)
	bed.addPod(1, map[string]string{"app": "llm"})
	control := client.New(bed.control+"/", http.DefaultClient)
	pin := api.Pin{Namespace: "production", Labels: map[string]string{"app": "llm"}, Metrics: map[string]api.Value{"m": api.Value(math.Inf(1))}}
	if err := control.Pin(t.Context(), pin); err != nil {
		t.Fatal(err)
	}
	pins, err := control.Pins(t.Context())
	if diff := cmp.Diff([]api.Pin{pin}, pins); diff != "" || err != nil {
		t.Errorf("pins (-want +got), error %v:\n%s", err, diff)
	}
	state, err := control.State(t.Context())
	if want := []api.PodState{{
		Namespace: "production", Name: "pod-1", Address: "10.1.0.1", MetricsAddress: "127.1.0.1", Ports: []int32{8000}, Running: true, Ready: true, Pinned: true,
	}}; err != nil || !cmp.Equal(want, state.Pods) {
		t.Errorf("error %v, pods (-want +got):\n%s", err, cmp.Diff(want, state.Pods))
	}
	if removed, err := control.Unpin(t.Context(), api.Selector{Namespace: "production", Labels: map[string]string{"app": "llm"}}); err != nil || removed != 1 {
		t.Errorf("removed %d pins, error %v", removed, err)
	}
	if removed, err := control.UnpinAll(t.Context()); err != nil || removed != 0 {
		t.Errorf("removed %d pins, error %v", removed, err)
	}
	if err := control.Pin(t.Context(), api.Pin{}); err == nil || !strings.Contains(err.Error(), "namespace: must be set") {
		t.Errorf("an invalid pin gives %v", err)
	}
}

func TestDistributionsOfAPIAndModelAgree(t *testing.T) {
	var shapes []string
	for _, shape := range model.Shapes {
		shapes = append(shapes, string(shape))
	}
	if diff := cmp.Diff(shapes, api.Distributions); diff != "" {
		t.Errorf("distributions (-model +api):\n%s", diff)
	}
}
