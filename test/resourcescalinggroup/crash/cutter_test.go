package crash

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/pd-orchestrator/pd-orchestrator/test/resourcescalinggroup/rsgtest"
)

// cutter stands between the manager and the API server and counts the manager's writes. When told to, it lets one of
// them through, kills the manager before that learns of the answer, and lets nothing through after it: the worst moment
// to die, since the write is done and nobody knows.
type cutter struct {
	url string

	env   *rsgtest.Env
	proxy *httputil.ReverseProxy

	mu sync.Mutex
	// left is how many writes there are until the last; 0 means no limit.
	left int
	// cut is closed when the manager is dead; nil when no cut is asked for.
	cut chan struct{}
	// last describes the last write before the cut.
	last string
	// before is called with each request, before it goes on to the API server.
	before func(*http.Request)
}

func newCutter(e *rsgtest.Env) (*cutter, error) {
	config, err := e.Lab.UserConfig("pd-orchestrator", "system:masters")
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the API server: %w", err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("reaching the API server: %w", err)
	}
	c := &cutter{env: e, proxy: &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: transport,
		// Watches are passed on event by event.
		FlushInterval: -1,
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the manager: %w", err)
	}
	c.url = "http://" + listener.Addr().String()
	server := &http.Server{Handler: c, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	return c, nil
}

// after makes the manager die after its n-th write from now on. Events are not counted: they say what was done and
// nothing follows from them.
func (c *cutter) after(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left, c.cut, c.last = n, make(chan struct{}), ""
}

// reset lets everything through again. It reports whether the manager was killed, and waits where that is under way.
func (c *cutter) reset() (cut bool) {
	c.mu.Lock()
	done, left := c.cut, c.left
	if left > 0 {
		c.cut, c.left = nil, 0
	}
	c.mu.Unlock()
	if done == nil || left > 0 {
		return false
	}
	<-done
	c.mu.Lock()
	c.cut = nil
	c.mu.Unlock()
	return true
}

// done is closed once the manager is dead. lastWrite says what it wrote last.
func (c *cutter) done() chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut
}

// between has a function called with each request before it goes on to the API server, until the test ends.
func (c *cutter) between(t *testing.T, f func(*http.Request)) {
	t.Helper()
	set := func(f func(*http.Request)) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.before = f
	}
	set(f)
	t.Cleanup(func() { set(nil) })
}

func (c *cutter) lastWrite() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// ServeHTTP implements http.Handler.
func (c *cutter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	pass, isLast := c.admit(r)
	c.mu.Lock()
	before := c.before
	c.mu.Unlock()
	if before != nil {
		before(r)
	}
	switch {
	case !pass:
		panic(http.ErrAbortHandler)
	case isLast:
		dead := c.done()
		answer := httptest.NewRecorder()
		c.proxy.ServeHTTP(answer, r)
		if err := c.env.Manager.Kill(); err != nil {
			panic(err)
		}
		c.mu.Lock()
		c.last = fmt.Sprintf("%s %s -> %d", r.Method, r.URL.Path, answer.Code)
		c.mu.Unlock()
		close(dead)
		panic(http.ErrAbortHandler)
	}
	c.proxy.ServeHTTP(w, r)
}

func (c *cutter) admit(r *http.Request) (pass, isLast bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut == nil {
		return true, false
	}
	if c.left == 0 {
		return false, false
	}
	if r.Method == http.MethodGet || strings.HasSuffix(r.URL.Path, "/events") || strings.Contains(r.URL.Path, "/events/") {
		return true, false
	}
	c.left--
	return true, c.left == 0
}
