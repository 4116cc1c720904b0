package metricsource

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

const vllm = `# HELP vllm:num_requests_running Requests on the GPU.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model="a",engine="0"} 12
vllm:num_requests_running{model="a",engine="1"} 3.5
# TYPE vllm:request_success_total counter
vllm:request_success_total{reason="stop"} 7 1700000060000
vllm:request_success_total{reason="length"} 2 1700000000000
# TYPE vllm:ttft_seconds histogram
vllm:ttft_seconds_bucket{le="1"} 4
vllm:ttft_seconds_bucket{le="+Inf"} 5
vllm:ttft_seconds_sum 3
vllm:ttft_seconds_count 5
# TYPE rpc_seconds summary
rpc_seconds{quantile="0.5"} 1
rpc_seconds_sum 9
rpc_seconds_count 4
up 1
depth_total 4
broken{a="1"} NaN
broken{a="2"} 1
endless +Inf
`

const openMetrics = `# TYPE queue gauge
queue{shard="a"} 4 1700000000.5
queue{shard="b"} 6
# TYPE jobs counter
jobs_total{kind="x"} 10 # {trace_id="abc"} 1
jobs_total{kind="y"} 5
jobs_created{kind="x"} 1700000000
# TYPE build info
build_info{version="1"} 1
# TYPE wait gaugehistogram
wait_bucket{le="+Inf"} 3
wait_gcount 3
wait_gsum 2
# TYPE mood unknown
mood 2
# EOF
`

func TestPage(t *testing.T) {
	const text, om, js = "text/plain", "application/openmetrics-text", "application/json"
	cases := map[string]struct {
		mediaType, body, name string
		value                 float64
		millis                int64
		reason, message       string
	}{
		"a gauge of several series":        {mediaType: text, body: vllm, name: "vllm:num_requests_running", value: 15.5},
		"a counter with the oldest time":   {mediaType: text, body: vllm, name: "vllm:request_success_total", value: 9, millis: 1700000000000},
		"a counter without its suffix":     {mediaType: text, body: vllm, name: "vllm:request_success", value: 9, millis: 1700000000000},
		"a family without a type":          {mediaType: text, body: vllm, name: "up", value: 1},
		"the count of a histogram":         {mediaType: text, body: vllm, name: "vllm:ttft_seconds_count", value: 5},
		"the sum of a summary":             {mediaType: text, body: vllm, name: "rpc_seconds_sum", value: 9},
		"a histogram":                      {mediaType: text, body: vllm, name: "vllm:ttft_seconds", reason: WrongResultType, message: "vllm:ttft_seconds is a histogram"},
		"the buckets of a histogram":       {mediaType: text, body: vllm, name: "vllm:ttft_seconds_bucket", reason: WrongResultType, message: "vllm:ttft_seconds_count"},
		"a summary":                        {mediaType: text, body: vllm, name: "rpc_seconds", reason: WrongResultType, message: "is a summary"},
		"one series that is not a number":  {mediaType: text, body: vllm, name: "broken", value: math.NaN()},
		"an infinity":                      {mediaType: text, body: vllm, name: "endless", value: math.Inf(1)},
		"a misspelt name":                  {mediaType: text, body: vllm, name: "vllm_num_requests_runnng", reason: MetricNotFound, message: `"vllm_num_requests_runnng"; similar: "vllm:num_requests_running"`},
		"a name that nothing is like":      {mediaType: text, body: vllm, name: "gpu_temperature", reason: MetricNotFound, message: `no metric "gpu_temperature"`},
		"a name with a suffix by chance":   {mediaType: text, body: vllm, name: "depth", reason: MetricNotFound},
		"a name of a part of a name":       {mediaType: text, body: vllm, name: "vllm", reason: MetricNotFound},
		"no line end at the end":           {mediaType: text, body: "up 3", name: "up", value: 3},
		"no type is text":                  {body: "up 3\n", name: "up", value: 3},
		"bytes of no type are text":        {mediaType: "application/octet-stream", body: "up 3\n", name: "up", value: 3},
		"a quoted name":                    {mediaType: text, body: "{\"queue.depth\",a=\"1\"} 3\n", name: "queue.depth", value: 3},
		"1e19 is a number":                 {mediaType: text, body: "up 1e19\n", name: "up", value: 1e19},
		"a page cut off in a line":         {mediaType: text, body: vllm[:len(vllm)-7], name: "up", reason: WrongResultType},
		"HTML that says it is text":        {mediaType: text, body: "<html><secret></html>", name: "up", reason: WrongResultType, message: "neither"},
		"HTML":                             {mediaType: "text/html", body: "up 3\n", name: "up", reason: WrongResultType, message: `"text/html"`},
		"protobuf":                         {mediaType: "application/vnd.google.protobuf", body: "\x0a\x02up", name: "up", reason: WrongResultType},
		"nothing":                          {mediaType: text, body: " \n", name: "up", reason: NoData, message: "empty"},
		"only comments":                    {mediaType: text, body: "# no data\n", name: "up", reason: MetricNotFound},
		"an OpenMetrics gauge":             {mediaType: om, body: openMetrics, name: "queue", value: 10, millis: 1700000000500},
		"an OpenMetrics counter":           {mediaType: om, body: openMetrics, name: "jobs", value: 15},
		"its samples by their name":        {mediaType: om, body: openMetrics, name: "jobs_total", value: 15},
		"an OpenMetrics info":              {mediaType: om, body: openMetrics, name: "build_info", value: 1},
		"an OpenMetrics unknown":           {mediaType: om, body: openMetrics, name: "mood", value: 2},
		"an OpenMetrics gauge histogram":   {mediaType: om, body: openMetrics, name: "wait", reason: WrongResultType},
		"half of an OpenMetrics page":      {mediaType: om, body: openMetrics[:40], name: "queue", reason: WrongResultType},
		"a JSON number":                    {mediaType: js, body: `{"queue":4.5,"value":1}`, name: "queue", value: 4.5},
		"a JSON text":                      {mediaType: js, body: `{"queue":" 4.5 "}`, name: "queue", value: 4.5},
		"a JSON path":                      {mediaType: js, body: `{"a":{"b":{"c":3}}}`, name: "a.b.c", value: 3},
		"a JSON key with dots":             {mediaType: js, body: `{"a":{"b":1},"a.b":2}`, name: "a.b", value: 2},
		"a JSON path with a key with dots": {mediaType: js, body: `{"a":{"x":1},"a.b":{"c":2}}`, name: "a.b.c", value: 2},
		"the JSON key value":               {mediaType: js, body: `{"value":3}`, name: "queue", value: 3},
		"JSON that says it is text":        {mediaType: text, body: ` {"queue":3}`, name: "queue", value: 3},
		"a kind of JSON":                   {mediaType: "application/problem+json", body: `{"queue":3}`, name: "queue", value: 3},
		"no such JSON key":                 {mediaType: js, body: `{"a":{"queue_depth":3}}`, name: "a.queu_depth", reason: MetricNotFound, message: `similar: "a.queue_depth"`},
		"a JSON path into a number":        {mediaType: js, body: `{"a":3}`, name: "a.b", reason: MetricNotFound},
		"JSON null":                        {mediaType: js, body: `{"queue":null,"value":3}`, name: "queue", reason: NoData, message: "null"},
		"JSON NaN":                         {mediaType: js, body: `{"queue":"NaN"}`, name: "queue", value: math.NaN()},
		"a JSON number without end":        {mediaType: js, body: `{"queue":-1e999}`, name: "queue", value: math.Inf(-1)},
		"a JSON word":                      {mediaType: js, body: `{"queue":"<secret>"}`, name: "queue", reason: WrongResultType, message: "a text"},
		"a JSON object":                    {mediaType: js, body: `{"queue":{"a":1}}`, name: "queue", reason: WrongResultType, message: "an object"},
		"a JSON list":                      {mediaType: js, body: `{"queue":[1]}`, name: "queue", reason: WrongResultType, message: "an array"},
		"a JSON boolean":                   {mediaType: js, body: `{"queue":true}`, name: "queue", reason: WrongResultType, message: "a boolean"},
		"a bare JSON number":               {mediaType: js, body: `3`, name: "queue", reason: WrongResultType, message: "a number, must be an object"},
		"half of a JSON answer":            {mediaType: js, body: `{"queue":3`, name: "queue", reason: WrongResultType},
		"JSON and more":                    {mediaType: js, body: `{"queue":3}{"queue":4}`, name: "queue", reason: WrongResultType},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			value, sampled, err := parsePage([]byte(tc.body), tc.mediaType, tc.name)
			if tc.reason != "" {
				var got *Error
				if !errors.As(err, &got) || got.Reason != tc.reason || !strings.Contains(got.Message, tc.message) || strings.Contains(got.Message, "<secret>") {
					t.Errorf("value %v, error %#v, want reason %s and %q in the message, and nothing of the page", value, err, tc.reason, tc.message)
				}
				return
			}
			if err != nil || value != tc.value && !(math.IsNaN(value) && math.IsNaN(tc.value)) {
				t.Errorf("value %v, error %v, want %v", value, err, tc.value)
			}
			want := time.Time{}
			if tc.millis != 0 {
				want = time.UnixMilli(tc.millis)
			}
			if !sampled.Equal(want) {
				t.Errorf("sampled at %v, want %v", sampled, want)
			}
		})
	}
}

func FuzzPage(f *testing.F) {
	for _, mediaType := range []string{"text/plain", "application/openmetrics-text", "application/json", "", "text/html"} {
		for _, body := range []string{vllm, openMetrics, `{"a":{"b":"1e9"},"value":[null]}`, "{\"a b\"} 1\n", "\x00\xff"} {
			f.Add(mediaType, body, "vllm:ttft_seconds_bucket")
			f.Add(mediaType, body, "a.b")
		}
	}
	f.Fuzz(func(t *testing.T, mediaType, body, name string) {
		value, _, err := parsePage([]byte(body), mediaType, name)
		if err == nil {
			return
		}
		var told *Error
		if !errors.As(err, &told) || told.Reason == "" || value != 0 {
			t.Errorf("value %v, error %#v without a reason", value, err)
		}
		if message := clip(told.Message, maxMessage); len(message) > maxMessage || !utf8.ValidString(message) {
			t.Errorf("a message that does not fit: %q", message)
		}
	})
}

func TestDistanceCountsLetters(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "abc", 0}, {"abc", "acb", 2}, {"abc", "ab", 1}, {"", "ab", 2}, {"kitten", "sitting", 3}} {
		if got := distance([]rune(tc.a), []rune(tc.b), 9); got != tc.want {
			t.Errorf("from %q to %q: %d, want %d", tc.a, tc.b, got, tc.want)
		}
	}
}
