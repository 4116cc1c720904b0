package metricsource

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

var fixed = clocktesting.NewFakePassiveClock(time.Unix(1700000000, 500e6))

func endpoints(t *testing.T) *Endpoints {
	t.Helper()
	return NewEndpoints(EndpointOptions{Clock: fixed, Guard: guard(t, GuardOptions{Allow: prefixes("127.0.0.0/8")})})
}

func endpointRequest(t *testing.T, endpoint, query, name string) Request {
	t.Helper()
	r, err := EndpointRequest(endpoint, "http", query, name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// expectError checks the reason, and that nothing of what must stay secret is told.
func expectError(t *testing.T, err error, reason, message string) {
	t.Helper()
	told := AsError(err)
	if told == nil || told.Reason != reason || !strings.Contains(told.Message, message) || strings.Contains(told.Message, "secret") {
		t.Errorf("error %#v, want reason %s with %q and no secret", told, reason, message)
	}
}

func TestEndpointRequest(t *testing.T) {
	for _, tc := range []struct{ endpoint, protocol, query, want string }{
		{"prometheus.monitoring.svc:9090", "", "up", "https://prometheus.monitoring.svc:9090"},
		{"prometheus.monitoring.svc:9090", "http", "up", "http://prometheus.monitoring.svc:9090"},
		{"HTTP://Prometheus:80/", "https", "up", "http://prometheus"},
		{"http://p:9090/api/v1/query", "", "up", "http://p:9090"},
		{"http://p:9090/base/api/v1/query/", "", "up", "http://p:9090/base"},
		{"https://p:443/base/", "", "up", "https://p/base"},
		{"http://p:443/metrics", "", "", "http://p:443/metrics"},
		{"p/metrics?tenant=a#b", "http", "", "http://p/metrics?tenant=a"},
		{"http://p/", "", "", "http://p"},
		{"http://p/metrics/", "", "", "http://p/metrics/"},
		{"[FD00::1]:9090", "http", "up", "http://[fd00::1]:9090"},
	} {
		got, err := EndpointRequest(tc.endpoint, tc.protocol, tc.query, "up")
		if err != nil || got.URL != tc.want {
			t.Errorf("%+v leads to %q (%v), want %q", tc, got.URL, err, tc.want)
		}
		again, err := EndpointRequest(got.URL, "", " "+tc.query+"\n", "up")
		if err != nil || again != got {
			t.Errorf("%+v again leads to %+v (%v), want the same", got, again, err)
		}
	}
	for _, endpoint := range []string{"", "ftp://p", "http://", "http://me:secret@p", "http://p:secret", "://p", "http://[::1"} {
		got, err := EndpointRequest(endpoint, "http", "", "up")
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q leads to %+v (%v), want an error that repeats no secret", endpoint, got, err)
		}
	}
	a := endpointRequest(t, "p", "up", "a")
	if b := endpointRequest(t, "p", "up", "b"); a != b {
		t.Errorf("%+v and %+v differ, though the name does not matter to the answer", a, b)
	}
}

func TestQuery(t *testing.T) {
	answer := func(kind, result string) string {
		return fmt.Sprintf(`{"status":"success","data":{"resultType":%q,"result":%s}}`, kind, result)
	}
	one := func(value string) string {
		return answer("vector", `[{"metric":{"pod":"a"},"value":[1700000000.5,"`+value+`"]}]`)
	}
	cases := map[string]struct {
		status          int
		body            string
		value           float64
		age             time.Duration
		reason, message string
	}{
		"a vector of one":                   {body: one("3.5"), value: 3.5},
		"a scalar":                          {body: answer("scalar", `[1700000000.5,"7"]`), value: 7},
		"a very large value":                {body: one("1e19"), value: 1e19},
		"a value with an age":               {body: answer("vector", `[{"metric":{},"value":[1699999640.5,"1"]}]`), value: 1, age: 6 * time.Minute},
		"no series":                         {body: answer("vector", `[]`), reason: NoData, message: "no series"},
		"not a number":                      {body: one("NaN"), reason: NoData, message: "NaN"},
		"an infinity":                       {body: one("+Inf"), reason: NoData, message: "+Inf"},
		"the other infinity":                {body: one("-Inf"), reason: NoData, message: "-Inf"},
		"a scalar that is none":             {body: answer("scalar", `[1,"NaN"]`), reason: NoData, message: "NaN"},
		"two series":                        {body: answer("vector", `[{"metric":{"job":"j","pod":"a"},"value":[1,"1"]},{"metric":{"job":"j","pod":"b","zone":"z"},"value":[1,"9"]}]`), reason: MultipleSeries, message: "returned 2 series, must return one; they differ in pod, zone:"},
		"a matrix":                          {body: answer("matrix", `[]`), reason: WrongResultType, message: "returned a matrix"},
		"a string":                          {body: answer("string", `[1,"7"]`), reason: WrongResultType, message: "returned a string"},
		"a histogram":                       {body: answer("vector", `[{"metric":{},"histogram":[1,{"count":"1","sum":"1","buckets":[]}]}]`), reason: WrongResultType, message: "a histogram"},
		"a query that is wrong":             {status: 400, body: `{"status":"error","errorType":"bad_data","error":"parse error"}`, reason: MetricSourceUnavailable, message: "parse error"},
		"a value with a failure":            {status: 503, body: one("3.5"), reason: MetricSourceUnavailable, message: ""},
		"a page of a proxy":                 {status: 502, body: `<html>secret`, reason: MetricSourceUnavailable, message: "502"},
		"a redirect":                        {status: 307, body: ``, reason: MetricSourceUnavailable, message: ""},
		"no access":                         {status: 401, body: `secret`, reason: MetricSourceUnavailable, message: "401"},
		"a page of HTML":                    {body: `<html>login secret`, reason: MetricSourceUnavailable, message: "not that of a Prometheus"},
		"nothing":                           {status: 204, reason: MetricSourceUnavailable},
		"half of an answer":                 {body: one("3.5")[:60], reason: MetricSourceUnavailable, message: "not that of a Prometheus"},
		"an error that calls itself a 200":  {body: `{"status":"error","errorType":"execution","error":"too many samples"}`, reason: MetricSourceUnavailable, message: "too many samples"},
		"an answer that is too long":        {body: one("3.5") + strings.Repeat(" ", maxPage), reason: MetricSourceUnavailable, message: "longer than 1048576 bytes"},
		"an error with a very long message": {status: 400, body: `{"status":"error","errorType":"bad_data","error":"` + strings.Repeat("x", 5000) + `"}`, reason: MetricSourceUnavailable, message: "xxx…"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.status == 0 {
				tc.status = 200
			}
			srv := answering(t, tc.status, "application/json", tc.body)
			got, err := endpoints(t).Read(t.Context(), endpointRequest(t, srv.URL+"/?token=secret", "sum(up)", ""))
			if tc.reason != "" {
				expectError(t, err, tc.reason, tc.message)
				return
			}
			want := Answer{Value: tc.value, Time: fixed.Now().Add(-tc.age), HasTime: tc.age > 0}
			if err != nil || got.Value != want.Value || !got.Time.Equal(want.Time) || got.HasTime != want.HasTime {
				t.Errorf("answer %+v (%v), want %+v", got, err, want)
			}
		})
	}
}

func TestTheAgeIsAskedForWhereItCanBeTold(t *testing.T) {
	for query, asked := range map[string]bool{
		`vllm:num_requests_waiting`: true,
		`queue{shard="a"}`:          true,
		` ( queue{shard="a"} ) `:    true,
		`{__name__="queue"}`:        true,
		`queue offset 5m`:           false,
		`queue @ 1700000000`:        false,
		`queue @ end()`:             false,
		`sum(queue)`:                false,
		`queue + 1`:                 false,
		`scalar(queue)`:             false,
		`vector(1)`:                 false,
		`1`:                         false,
		`queue{`:                    false,
		`max_over_time(queue[5m])`:  false,
		`queue and on() up == 1`:    false,
		`topk(1, queue)`:            false,
		`label_replace(queue, "a", "b", "c", "d")`: false,
	} {
		t.Run(query, func(t *testing.T) {
			var queries, times []string
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				queries, times = append(queries, r.FormValue("query")), append(times, r.FormValue("time"))
				value := "5"
				if strings.HasPrefix(r.FormValue("query"), "timestamp(") {
					value = "1699999640.25"
				}
				_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1700000000.5,%q]}]}}`, value)
			}))
			defer srv.Close()
			got, err := endpoints(t).Read(t.Context(), endpointRequest(t, srv.URL, query, ""))
			want := Answer{Value: 5, Time: fixed.Now()}
			if asked {
				want.Time, want.HasTime = time.UnixMilli(1699999640250), true
			}
			if err != nil || got.Value != want.Value || !got.Time.Equal(want.Time) || got.HasTime != want.HasTime {
				t.Errorf("answer %+v (%v), want %+v", got, err, want)
			}
			if asked != (len(queries) == 2) || queries[0] != strings.TrimSpace(query) || times[0] != "1700000000.5" {
				t.Errorf("asked %q at %q", queries, times)
			}
			if asked && times[0] != times[1] {
				t.Errorf("evaluated at %q, want one time", times)
			}
		})
	}
}

func TestASampleWhoseAgeCannotBeHadIsNoValue(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.FormValue("query"), "timestamp(") {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"5"]}]}}`)
	}))
	defer srv.Close()
	_, err := endpoints(t).Read(t.Context(), endpointRequest(t, srv.URL, "up", ""))
	expectError(t, err, MetricSourceUnavailable, "500")
}

func TestPageOfAnEndpoint(t *testing.T) {
	cases := map[string]struct {
		status            int
		contentType, body string
		value             float64
		reason, message   string
	}{
		"a value":                    {contentType: "text/plain; version=0.0.4", body: "queue 5\n", value: 5},
		"a value with another 2xx":   {status: 203, contentType: "application/json", body: `{"queue":5}`, value: 5},
		"a value with a failure":     {status: 500, contentType: "text/plain", body: "queue 5\n", reason: MetricSourceUnavailable, message: "500 Internal Server Error"},
		"a value with no access":     {status: 403, contentType: "text/plain", body: "queue 5\n", reason: MetricSourceUnavailable, message: "403 Forbidden"},
		"a value with a redirect":    {status: 302, contentType: "text/plain", body: "queue 5\n", reason: MetricSourceUnavailable, message: "redirects are not followed"},
		"a value not found":          {status: 404, contentType: "application/json", body: `{"value":5}`, reason: MetricSourceUnavailable, message: "404"},
		"a status of no name":        {status: 599, contentType: "text/plain", body: "queue 5\n", reason: MetricSourceUnavailable, message: "the answer is 599"},
		"no content":                 {status: 204, reason: NoData, message: "empty"},
		"a type that cannot be read": {contentType: ";;", body: "queue 5\n", reason: WrongResultType},
		"not a number":               {contentType: "text/plain", body: "queue NaN\n", reason: NoData, message: "NaN"},
		"one of two not a number":    {contentType: "text/plain", body: "queue{a=\"1\"} NaN\nqueue 5\n", reason: NoData},
		"infinities of both signs":   {contentType: "text/plain", body: "queue{a=\"1\"} +Inf\nqueue -Inf\n", reason: NoData},
		"a misspelt name":            {contentType: "text/plain", body: "qeue 5\n", reason: MetricNotFound, message: `similar: "qeue"`},
		"a page that is too long":    {contentType: "text/plain", body: "queue 5\n" + strings.Repeat("#\n", maxPage/2), reason: MetricSourceUnavailable, message: "longer than 1048576 bytes"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.status == 0 {
				tc.status = 200
			}
			srv := answering(t, tc.status, tc.contentType, tc.body)
			got, err := endpoints(t).Read(t.Context(), endpointRequest(t, srv.URL+"/secret?a=secret", "", "queue"))
			if tc.reason != "" {
				expectError(t, err, tc.reason, tc.message)
				return
			}
			if err != nil || got.Value != tc.value || got.HasTime || !got.Time.Equal(fixed.Now()) {
				t.Errorf("answer %+v (%v), want %v as of when it was read", got, err, tc.value)
			}
		})
	}
}

func TestWhatUnpacksToTooMuchIsRefused(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write([]byte("queue 5\n" + strings.Repeat("#\n", 10*maxPage)))
	_ = w.Close()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(packed.Bytes())
	}))
	defer srv.Close()
	_, err := endpoints(t).Read(t.Context(), endpointRequest(t, srv.URL, "", "queue"))
	expectError(t, err, MetricSourceUnavailable, "longer than")
}

func TestNoRedirectIsFollowed(t *testing.T) {
	var reached atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	defer other.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		srv := httptest.NewServer(http.RedirectHandler(other.URL, status))
		for _, query := range []string{"", "up"} {
			if _, err := endpoints(t).Read(t.Context(), endpointRequest(t, srv.URL, query, "queue")); err == nil || reached.Load() {
				t.Errorf("a %d was followed for query %q (error %v)", status, query, err)
			}
		}
		srv.Close()
	}
}

func TestNoProxyDialsForTheGuard(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, answering(t, 200, "text/plain", "queue 5\n").URL)
	}
	e := NewEndpoints(EndpointOptions{Clock: fixed, Guard: guard(t, GuardOptions{Allow: prefixes("127.0.0.0/8"), Deny: prefixes("203.0.113.0/24")})})
	_, err := e.Read(t.Context(), endpointRequest(t, "203.0.113.1", "", "queue"))
	expectError(t, err, EndpointForbidden, "203.0.113.1")
}

func TestUnreachable(t *testing.T) {
	for want, err := range map[string]error{
		"has a name that does not resolve":                       &net.DNSError{Err: "no such host", Name: "secret", IsNotFound: true},
		"has a name that could not be resolved":                  &net.DNSError{Err: "server misbehaving", Name: "secret", IsTimeout: true},
		"has a certificate that has expired or is not valid yet": &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired, Detail: "secret"}},
		"cannot be reached":                                      &net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH},
		"ends the connection before it answers":                  &net.OpError{Op: "read", Err: syscall.ECONNRESET},
	} {
		if got := Unreachable(&url.Error{Op: "Get", URL: "http://secret", Err: err}); got != want {
			t.Errorf("%v is told as %q, want %q", err, got, want)
		}
	}
}

func TestAServerThatDoesNotSpeakIsToldInWords(t *testing.T) {
	listen := func(serve func(net.Conn)) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					// Else the close would be a reset, and the client may see it before the answer.
					_, _ = c.Read(make([]byte, 4096))
					serve(c)
					c.Close()
				}()
			}
		}()
		return l.Addr().String()
	}
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	tlsServer := httptest.NewUnstartedServer(http.NotFoundHandler())
	tlsServer.Config.ErrorLog = log.New(io.Discard, "", 0)
	tlsServer.StartTLS()
	t.Cleanup(tlsServer.Close)

	for name, tc := range map[string]struct{ endpoint, message string }{
		"nobody listens":    {"http://" + dead.Addr().String(), "refuses the connection"},
		"another protocol":  {"http://" + listen(func(c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-secret\r\n") }), "does not answer as an HTTP server does"},
		"an end at once":    {"http://" + listen(func(net.Conn) {}), "ends the connection before it answers"},
		"half of a page":    {"http://" + listen(func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nqueue 5\n") }), "ends the connection"},
		"no TLS":            {"https://" + listen(func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 no\r\n\r\n") }), "does not speak TLS"},
		"no trusted one":    {tlsServer.URL, "has a certificate that is not trusted"},
		"silence":           {"http://" + listen(func(net.Conn) { <-hold }), "does not answer in time"},
		"silence after TLS": {"https://" + listen(func(net.Conn) { <-hold }), "does not answer in time"},
		"an endless head":   {"http://" + listen(func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nA: "+strings.Repeat("a", 1<<20)) }), "does not answer as an HTTP server does"},
		"a slow page": {"http://" + listen(func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\nqueue 5\n")
			<-hold
		}), "does not answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			patience := time.Minute
			if strings.Contains(tc.message, "in time") {
				patience = 300 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			r := endpointRequest(t, tc.endpoint, "", "queue")
			_, err := endpoints(t).Read(ctx, r)
			expectError(t, err, MetricSourceUnavailable, tc.message)
			if told := AsError(err); told != nil && (!told.down || !strings.HasPrefix(told.Message, r.URL+": the endpoint ")) {
				t.Errorf("error %#v, want one of the host that names it", told)
			}
		})
	}
}
