package signal

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/signals"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
)

const (
	// patience is how long something is waited for that comes at once on an idle machine.
	patience = 30 * time.Second
	// theToken is what no log and no state may show.
	theToken = "s3cr3t-t0ken"
)

var key = types.NamespacedName{Namespace: "ai", Name: "scaler"}

// TestMain finds goroutines that outlive all tests.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(testkit.PollInterval) {
			left := goroutines()
			if len(left) == 0 {
				break
			}
			if time.Now().After(deadline) {
				fmt.Printf("%d goroutines are left, the first of them:\n%s\n", len(left), left[0])
				code = 1
				break
			}
		}
	}
	os.Exit(code)
}

// goroutines are the stacks of those that listen, or hold a connection.
func goroutines() []string {
	buf := make([]byte, 4<<20)
	stacks := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
	return slices.DeleteFunc(stacks, func(s string) bool {
		return !strings.Contains(s, "internal/signal.(") && !strings.Contains(s, "net/http.(*persistConn)") && !strings.Contains(s, "net/http.(*conn)")
	})
}

// endpoint is a signal server. Each request is answered by the next of the answers; when they are used up, by the last.
type endpoint struct {
	*httptest.Server

	mu       sync.Mutex
	answers  []answerFunc
	requests []*http.Request
}

type answerFunc func(w http.ResponseWriter, r *http.Request)

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	e.requests = append(e.requests, r)
	answer := e.answers[0]
	if len(e.answers) > 1 {
		e.answers = e.answers[1:]
	}
	e.mu.Unlock()
	answer(w, r)
}

func (e *endpoint) asked() []*http.Request {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.requests)
}

// header is that of each request so far.
func (e *endpoint) header(name string) []string {
	var values []string
	for _, r := range e.asked() {
		values = append(values, r.Header.Get(name))
	}
	return values
}

// serve answers over TLS until the test ends.
func serve(tb testing.TB, answers ...answerFunc) *endpoint {
	tb.Helper()
	e := &endpoint{answers: answers}
	e.Server = httptest.NewUnstartedServer(e)
	e.Config.ErrorLog = discard
	e.StartTLS()
	tb.Cleanup(func() {
		e.CloseClientConnections()
		e.Close()
	})
	return e
}

// says answers with the text and ends.
func says(contentType, text string) answerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = []string{contentType}
		_, _ = w.Write([]byte(text))
	}
}

// streams answers with the text and holds the connection until the client ends it.
func streams(contentType, text string) answerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		says(contentType, text)(w, r)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
}

// breaksOff answers with the text and cuts the connection in the middle of the answer.
func breaksOff(contentType, text string) answerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		says(contentType, text)(w, r)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

// status answers with a status and no body.
func status(code int) answerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// acceptor keeps the signal that stands in memory.
type acceptor struct {
	clock clock.PassiveClock

	mu       sync.Mutex
	last     map[types.NamespacedName]*v1alpha1.Signal
	accepted []string
	asked    int
	fail     func(asked int, m signals.Message) error
}

func (a *acceptor) Accept(_ context.Context, key types.NamespacedName, m signals.Message) (signals.Outcome, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked++
	if a.fail != nil {
		if err := a.fail(a.asked, m); err != nil {
			return signals.Outcome{}, err
		}
	}
	outcome := signals.Accept(a.last[key], m, a.clock.Now())
	if outcome.Result == signals.Accepted {
		if a.last == nil {
			a.last = map[types.NamespacedName]*v1alpha1.Signal{}
		}
		a.last[key] = m.Record(a.clock.Now())
		a.accepted = append(a.accepted, fmt.Sprintf("%s %s", m.Signal, m.ID))
	}
	return outcome, nil
}

// forget has no signal stand.
func (a *acceptor) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = nil
}

func (a *acceptor) all() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.accepted)
}

// counts are the messages by result and transport.
type counts struct {
	mu sync.Mutex
	of map[string]int
}

func (c *counts) observe(r signals.Result, t Transport) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]int{}
	}
	c.of[string(r)+" "+string(t)]++
}

// asked counts requests as messages without a transport.
func (c *counts) asked(took time.Duration, failed bool) {
	result := signals.Accepted
	if failed || took < 0 {
		result = signals.Failed
	}
	c.observe(result, "")
}

func (c *counts) get(r signals.Result, t Transport) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[string(r)+" "+string(t)]
}

// secrets holds Secrets in memory.
type secrets struct {
	client.Reader

	mu    sync.Mutex
	of    map[types.NamespacedName]map[string]string
	reads int
	err   error
}

func (s *secrets) Get(_ context.Context, name client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if s.err != nil {
		return s.err
	}
	data, ok := s.of[name]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name.Name)
	}
	secret := obj.(*corev1.Secret)
	secret.Data = map[string][]byte{}
	for k, v := range data {
		secret.Data[k] = []byte(v)
	}
	return nil
}

func (s *secrets) set(name, key, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[types.NamespacedName]map[string]string{}
	}
	s.of[types.NamespacedName{Namespace: "ai", Name: name}] = map[string]string{key: value}
}

func (s *secrets) readTimes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

// world is a set of listeners with all that is around them.
type world struct {
	*Listeners
	acceptor *acceptor
	counts   *counts
	secrets  *secrets
	queue    workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// listen returns listeners that trust the servers of this package and wait for no longer than it takes. They end with the
// test, which makes sure that they have ended, and have shown nobody the token.
func listen(tb testing.TB, change ...func(*Options, *pace)) *world {
	tb.Helper()
	w := &world{
		acceptor: &acceptor{clock: clock.RealClock{}}, counts: &counts{}, secrets: &secrets{},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]()),
	}
	log, shown := captured()
	o := Options{
		Acceptor: w.acceptor, Secrets: w.secrets, Observe: w.counts.observe, Asked: w.counts.asked, Clock: clock.RealClock{}, Log: log,
		RootCAs: trustTestServers(),
	}
	p := defaultPace
	p.spread, p.least, p.most, p.reread = 0, 5*time.Millisecond, 50*time.Millisecond, time.Hour
	for _, c := range change {
		c(&o, &p)
	}
	w.acceptor.clock = o.Clock
	w.Listeners = New(o)
	w.pace = p
	ctx, cancel := context.WithCancel(context.Background())
	if err := w.Source().Start(ctx, w.queue); err != nil {
		tb.Fatalf("starting the source: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Start(ctx) }()
	tb.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				tb.Errorf("the listeners ended with %v", err)
			}
		case <-time.After(patience):
			tb.Errorf("the listeners have not ended %s after their context", patience)
		}
		w.queue.ShutDown()
		if text := shown(); strings.Contains(text, theToken) {
			tb.Errorf("the log shows the token:\n%s", text)
		}
	})
	return w
}

// captured is a log at all levels, and what was logged.
func captured() (logr.Logger, func() string) {
	var mu sync.Mutex
	var all strings.Builder
	log := funcr.New(func(prefix, args string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(&all, prefix, args)
	}, funcr.Options{Verbosity: 10})
	return log, func() string {
		mu.Lock()
		defer mu.Unlock()
		return all.String()
	}
}

// accepts waits until the accepted signals are these.
func (w *world) accepts(tb testing.TB, want ...string) {
	tb.Helper()
	testkit.Eventually(tb, patience, "signals to be accepted", func(context.Context) error {
		if got := w.acceptor.all(); !slices.Equal(got, want) {
			return fmt.Errorf("accepted are %q, want %q; the state is %+v", got, want, w.state())
		}
		return nil
	})
}

// shows waits until the state is so.
func (w *world) shows(tb testing.TB, what string, check func(State) bool) {
	tb.Helper()
	testkit.Eventually(tb, patience, "the state to show "+what, func(context.Context) error {
		if s := w.state(); !check(s) {
			return fmt.Errorf("the state is %+v", s)
		}
		return nil
	})
}

func (w *world) state() State {
	s, ok := w.State(key)
	if !ok {
		return State{Error: "(nothing is listened at)"}
	}
	return s
}

// eventually waits until the condition holds.
func eventually(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	testkit.Eventually(tb, patience, what, func(context.Context) error {
		if !condition() {
			return errors.New("not yet")
		}
		return nil
	})
}

// certificateOf is the certificate of a server in PEM.
func certificateOf(s *httptest.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}
