package rsgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab"
)

// Prometheus passes the manager's queries on to the lab's Prometheus, but answers itself where a test asked for a fault
// that a real Prometheus does not show on demand. Faults are per namespace, so that tests run side by side.
type Prometheus struct {
	// URL is the address for the manager.
	URL string

	lab    *lab.Lab
	api    promv1.API
	server *http.Server
	proxy  *httputil.ReverseProxy

	// up is held for reading while a test needs Prometheus, and for writing while it is stopped.
	up sync.RWMutex

	mu      sync.Mutex
	faults  map[string]http.HandlerFunc
	queries map[string][]string
}

func newPrometheus(l *lab.Lab) (*Prometheus, error) {
	target, err := url.Parse(l.PrometheusURL())
	if err != nil {
		return nil, fmt.Errorf("reading the address of Prometheus: %w", err)
	}
	c, err := api.NewClient(api.Config{Address: l.PrometheusURL()})
	if err != nil {
		return nil, fmt.Errorf("making a Prometheus client: %w", err)
	}
	p := &Prometheus{
		lab: l, api: promv1.NewAPI(c), faults: map[string]http.HandlerFunc{}, queries: map[string][]string{},
		proxy: &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
			// As a client sees it when nobody listens: the connection ends without an answer.
			ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		},
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for queries: %w", err)
	}
	p.URL = "http://" + listener.Addr().String()
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = p.server.Serve(listener) }()
	return p, nil
}

func (p *Prometheus) close() error { return p.server.Close() }

// ServeHTTP implements http.Handler.
func (p *Prometheus) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The query is in the body of a POST, and the proxy needs the body too.
	form, err := url.ParseQuery(r.URL.RawQuery)
	if r.Method == http.MethodPost {
		text := &strings.Builder{}
		if _, err := copyBody(text, r); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		form, err = url.ParseQuery(text.String())
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	query := form.Get("query")
	if fault := p.note(query); fault != nil {
		r.Form = form
		fault(w, r)
		return
	}
	p.proxy.ServeHTTP(w, r)
}

func (p *Prometheus) note(query string) http.HandlerFunc {
	p.mu.Lock()
	defer p.mu.Unlock()
	var fault http.HandlerFunc
	for namespace := range p.queries {
		if strings.Contains(query, namespace) {
			p.queries[namespace] = append(p.queries[namespace], query)
			fault = p.faults[namespace]
		}
	}
	return fault
}

// Fault answers the queries that name the world's namespace, until the end of the test.
func (p *Prometheus) Fault(w *World, answer http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queries[w.Namespace] = nil
	p.faults[w.Namespace] = answer
}

// Observe records the queries that name the world's namespace.
func (p *Prometheus) Observe(w *World) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queries[w.Namespace] = nil
}

// Queries returns what was asked about the world since Fault or Observe.
func (p *Prometheus) Queries(w *World) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.queries[w.Namespace]...)
}

// Needed keeps other tests from stopping Prometheus until the end of this one.
func (p *Prometheus) Needed(tb testing.TB) {
	tb.Helper()
	p.up.RLock()
	tb.Cleanup(p.up.RUnlock)
}

// WhileStopped stops the lab's Prometheus, runs the function, and starts Prometheus again. It waits until no other test
// needs it.
func (p *Prometheus) WhileStopped(tb testing.TB, do func()) {
	tb.Helper()
	p.up.Lock()
	defer p.up.Unlock()
	part := p.lab.Part(lab.Prometheus)
	if err := part.Stop(); err != nil {
		tb.Fatal(err)
	}
	defer func() {
		// The test's context is over when the test has failed.
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := part.Start(ctx); err != nil {
			tb.Error(err)
		}
	}()
	do()
}

// ValuesByGroup asks Prometheus itself for the value of each group of a world.
func (p *Prometheus) ValuesByGroup(ctx context.Context, w *World) (map[int32]float64, error) {
	return p.ByGroup(ctx, w, "avg by (group_id) (%s)")
}

// ByGroup asks Prometheus itself for something about each group of a world. The query has %s for the selector of the
// world's series.
func (p *Prometheus) ByGroup(ctx context.Context, w *World, query string) (map[int32]float64, error) {
	query = fmt.Sprintf(query, fmt.Sprintf(`{__name__=%q, rsg_name=%q, namespace=~"%s|%s"}`, w.Metric, w.Name, w.Namespace, w.Base))
	value, _, _, err := p.api.Query(ctx, query, time.Now())
	if err != nil {
		return nil, fmt.Errorf("asking Prometheus: %w", err)
	}
	vector, ok := value.(model.Vector)
	if !ok {
		return nil, errors.New("asking Prometheus: no vector came")
	}
	values := map[int32]float64{}
	for _, sample := range vector {
		id, err := strconv.ParseInt(string(sample.Metric["group_id"]), 10, 32)
		if err != nil {
			return nil, fmt.Errorf("asking Prometheus: %w", err)
		}
		values[int32(id)] = float64(sample.Value)
	}
	return values, nil
}

// WaitValues waits until Prometheus has exactly these values for the groups of the world.
func (p *Prometheus) WaitValues(w *World, want map[int32]float64) {
	w.T.Helper()
	testkit.Eventually(w.T, Patience, "Prometheus to have the groups' values", func(ctx context.Context) error {
		got, err := p.ValuesByGroup(ctx, w)
		if err != nil {
			return err
		}
		if !maps.Equal(got, want) {
			return fmt.Errorf("values by group are %v, want %v", got, want)
		}
		return nil
	})
}

// WaitNaN waits until Prometheus has NaN for a group of the world.
func (p *Prometheus) WaitNaN(w *World, id int32) {
	w.T.Helper()
	testkit.Eventually(w.T, Patience, "Prometheus to have NaN", func(ctx context.Context) error {
		got, err := p.ValuesByGroup(ctx, w)
		if err != nil {
			return err
		}
		if value, ok := got[id]; !ok || !math.IsNaN(value) {
			return fmt.Errorf("values by group are %v", got)
		}
		return nil
	})
}

// copyBody copies a request's body and leaves an unread one behind.
func copyBody(to io.Writer, r *http.Request) (int64, error) {
	data, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return 0, err
	}
	r.Body = io.NopCloser(bytes.NewReader(data))
	n, err := to.Write(data)
	return int64(n), err
}
