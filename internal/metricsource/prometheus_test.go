package metricsource

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// answering serves one fixed answer: what a server says when it is broken, or is no Prometheus, cannot be had from a
// real one.
func answering(t *testing.T, status int, contentType, body string) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(srv.Close)
	return srv
}

func client(t *testing.T, o PrometheusOptions) *Prometheus {
	t.Helper()
	o.Timeout = 2 * time.Second
	p, err := NewPrometheus(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const vector = `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"group_id":"1"},"value":[1,"3.5"]},{"metric":{"group_id":"2"},"value":[1,"NaN"]}]}}`

func TestVector(t *testing.T) {
	p := client(t, PrometheusOptions{Address: answering(t, 200, "application/json", vector).URL})
	got, err := p.Vector(context.Background(), "up", time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Labels["group_id"] != "1" || got[0].Value != 3.5 || !math.IsNaN(got[1].Value) {
		t.Errorf("samples %+v", got)
	}
}

func TestWhatIsNoVectorIsAnError(t *testing.T) {
	cases := map[string]struct {
		status int
		body   string
		want   string
		typ    bool
	}{
		"a scalar":           {200, `{"status":"success","data":{"resultType":"scalar","result":[1,"7"]}}`, "scalar", true},
		"a string":           {200, `{"status":"success","data":{"resultType":"string","result":[1,"7"]}}`, "string", true},
		"a matrix":           {200, `{"status":"success","data":{"resultType":"matrix","result":[]}}`, "matrix", true},
		"an unknown type":    {200, `{"status":"success","data":{"resultType":"stream","result":[]}}`, "prometheus query failed", false},
		"an error":           {400, `{"status":"error","errorType":"bad_data","error":"parse error"}`, "parse error", false},
		"a server error":     {500, `oh no <secret>`, "prometheus query failed", false},
		"a page of HTML":     {200, `<html>login <secret></html>`, "not that of a Prometheus server", false},
		"half of an answer":  {200, vector[:60], "not that of a Prometheus server", false},
		"nothing":            {204, ``, "prometheus query failed", false},
		"a value of no kind": {200, strings.Replace(vector, `"3.5"`, `"many"`, 1), "prometheus query failed", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := client(t, PrometheusOptions{Address: answering(t, tc.status, "text/html", tc.body).URL})
			got, err := p.Vector(context.Background(), "up", time.Unix(1, 0))
			if err == nil {
				t.Fatalf("samples %+v, want an error", got)
			}
			if !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "<secret>") {
				t.Errorf("error %q, want one with %q and nothing of the page", err, tc.want)
			}
			var wrongType *ResultTypeError
			if errors.As(err, &wrongType) != tc.typ {
				t.Errorf("error %T, ResultTypeError wanted: %v", err, tc.typ)
			}
		})
	}
}

func TestASlowServerCostsItsTimeoutOnly(t *testing.T) {
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(func() { close(release); srv.Close() })
	p, err := NewPrometheus(PrometheusOptions{Address: srv.URL, Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Vector(context.Background(), "up", time.Unix(1, 0)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want a deadline", err)
	}
}

func TestTheTokenIsReadAnewAndStaysWithItsHost(t *testing.T) {
	var got atomic.Value
	got.Store("")
	record := func(w http.ResponseWriter, r *http.Request) {
		got.Store(r.Header.Get("Authorization"))
		_, _ = io.WriteString(w, vector)
	}
	srv := httptest.NewServer(http.HandlerFunc(record))
	t.Cleanup(srv.Close)
	file := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	p := client(t, PrometheusOptions{Address: srv.URL, BearerTokenFile: file})
	for _, token := range []string{"first", "second"} {
		write(token)
		if _, err := p.Vector(context.Background(), "up", time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		if got.Load() != "Bearer "+token {
			t.Errorf("sent %q, want the token %q", got.Load(), token)
		}
	}

	var reached atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	t.Cleanup(other.Close)
	redirecting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(redirecting.Close)
	p = client(t, PrometheusOptions{Address: redirecting.URL, BearerTokenFile: file})
	if _, err := p.Vector(context.Background(), "up", time.Unix(1, 0)); err == nil || reached.Load() {
		t.Errorf("followed a redirect to another host (error %v)", err)
	}
}

func TestNewPrometheusRefuses(t *testing.T) {
	notPEM := filepath.Join(t.TempDir(), "ca")
	if err := os.WriteFile(notPEM, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]PrometheusOptions{
		"no scheme":  {Address: "prometheus:9090"},
		"no host":    {Address: "http://"},
		"ftp":        {Address: "ftp://p"},
		"no CA file": {Address: "https://p", CAFile: notPEM + "x"},
		"no PEM":     {Address: "https://p", CAFile: notPEM},
	} {
		if _, err := NewPrometheus(o); err == nil {
			t.Errorf("%s: accepted %+v", name, o)
		}
	}
}
