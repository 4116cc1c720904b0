package signal

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/signals"
)

// reviews answers as an API server that knows one user by theToken, who may signal the scalers that are listed.
type reviews struct {
	client.Writer

	mu      sync.Mutex
	allowed map[string]bool
	asked   int
	err     error
}

func (r *reviews) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	if r.err != nil {
		return r.err
	}
	switch review := obj.(type) {
	case *authenticationv1.TokenReview:
		if review.Spec.Token == theToken {
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{
				Username: "system:serviceaccount:ai:gate", UID: "u", Groups: []string{"g"}, Extra: map[string]authenticationv1.ExtraValue{"e": {"v"}},
			}}
		}
	case *authorizationv1.SubjectAccessReview:
		s, a := review.Spec, review.Spec.ResourceAttributes
		review.Status.Allowed = s.User == "system:serviceaccount:ai:gate" && s.UID == "u" && fmt.Sprint(s.Groups, s.Extra) == "[g] map[e:[v]]" &&
			a.Verb == "update" && a.Group == "elasticscaler.io" && a.Resource == "elasticscalers" && a.Subresource == "signal" && r.allowed[a.Namespace+"/"+a.Name]
	}
	return nil
}

func (r *reviews) times() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

// gate is the handler of pushed signals with all that is around it.
type gate struct {
	http.Handler
	acceptor *acceptor
	reviews  *reviews
	counts   *counts
	now      *testingclock.FakeClock
}

func open(tb testing.TB) *gate {
	tb.Helper()
	now := testingclock.NewFakeClock(time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC))
	g := &gate{acceptor: &acceptor{clock: now}, reviews: &reviews{allowed: map[string]bool{"ai/scaler": true, "ai/other": true}}, counts: &counts{}, now: now}
	log, shown := captured()
	g.Handler = NewHandler(PushOptions{Acceptor: g.acceptor, Reviews: g.reviews, Observe: g.counts.observe, Clock: now, Log: log})
	tb.Cleanup(func() {
		if text := shown(); strings.Contains(text, theToken) {
			tb.Errorf("the log shows the token:\n%s", text)
		}
	})
	return g
}

const scalerPath = PushPath + "ai/scaler"

// request is one that is accepted, with the changes.
func request(path, body string, change ...func(*http.Request)) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "https://manager"+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+theToken)
	r.Header.Set("Content-Type", "application/json")
	for _, c := range change {
		c(r)
	}
	return r
}

// push returns the status and what the answer says.
func (g *gate) push(tb testing.TB, r *http.Request) (status int, result signals.Result, message string) {
	tb.Helper()
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	var body struct {
		Result  signals.Result
		Message string
	}
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Header().Get("Content-Type") != "application/json" {
		tb.Fatalf("the answer is no JSON (%s, %v): %s", w.Header().Get("Content-Type"), err, w.Body)
	}
	if body.Message == "" {
		tb.Errorf("the answer says nothing: %s", w.Body)
	}
	want := map[int][2]string{401: {"Www-Authenticate", "Bearer"}, 405: {"Allow", "POST"}, 429: {"Retry-After", "1"}, 503: {"Retry-After", "1"}}[w.Code]
	if got := w.Header().Get(want[0]); want[0] != "" && got != want[1] {
		tb.Errorf("with status %d %s is %q, want %q", w.Code, want[0], got, want[1])
	}
	return w.Code, body.Result, body.Message
}

func header(name string, values ...string) func(*http.Request) {
	return func(r *http.Request) { r.Header[http.CanonicalHeaderKey(name)] = values }
}

func TestPush(t *testing.T) {
	const good = `{"signal":"ScaleUp"}`
	padded := func(n int) string { return good + strings.Repeat(" ", n-len(good)) }
	for name, tc := range map[string]struct {
		request *http.Request
		before  *v1alpha1.Signal
		status  int
		result  signals.Result
		message string
		// stranger is one who is turned away before it is known what they want.
		stranger bool
	}{
		"a signal":                         {request: request(scalerPath, `{"signal":"ScaleUp","id":"1","time":"2026-03-14T12:00:00Z"}`), status: 202, result: signals.Accepted},
		"with a charset":                   {request: request(scalerPath, good, header("Content-Type", "application/json; charset=utf-8")), status: 202, result: signals.Accepted},
		"with a query, which says nothing": {request: request(scalerPath+"?x=y", good), status: 202, result: signals.Accepted},
		"bearer in lower case":             {request: request(scalerPath, good, header("Authorization", "bearer "+theToken)), status: 202, result: signals.Accepted},
		"as long as may be":                {request: request(scalerPath, padded(signals.MaxBytes)), status: 202, result: signals.Accepted},
		"a repetition":                     {request: request(scalerPath, good), before: &v1alpha1.Signal{Signal: "ScaleUp"}, status: 200, result: signals.Repeated},
		"a late one":                       {request: request(scalerPath, `{"signal":"ScaleUp","time":"2026-03-14T11:00:00Z"}`), before: signals.Message{Signal: "ScaleDown", Time: time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)}.Record(time.Now()), status: 200, result: signals.Late},
		"one of the future":                {request: request(scalerPath, `{"signal":"ScaleUp","time":"2027-03-14T11:00:00Z"}`), status: 400, result: signals.Future},
		"another word":                     {request: request(scalerPath, `{"signal":"up"}`), status: 400, result: signals.Unknown, message: `"up"`},
		"no JSON":                          {request: request(scalerPath, `ScaleUp`), status: 400, result: signals.Malformed},
		"no body":                          {request: request(scalerPath, ""), status: 400, result: signals.Malformed},
		"a body that breaks off":           {request: request(scalerPath, "", func(r *http.Request) { r.Body = io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF)) }), status: 400, result: signals.Malformed},
		"too long":                         {request: request(scalerPath, padded(signals.MaxBytes+1)), status: 413, result: signals.Oversized},
		"too long, of unknown length":      {request: request(scalerPath, padded(signals.MaxBytes+1), func(r *http.Request) { r.ContentLength = -1 }), status: 413, result: signals.Oversized},
		"a form":                           {request: request(scalerPath, good, header("Content-Type", "application/x-www-form-urlencoded")), status: 415, result: signals.Malformed, message: "Content-Type"},
		"no type":                          {request: request(scalerPath, good, header("Content-Type")), status: 415, result: signals.Malformed},
		"compressed":                       {request: request(scalerPath, good, header("Content-Encoding", "gzip")), status: 415, result: signals.Malformed},
		"GET":                              {request: request(scalerPath, good, func(r *http.Request) { r.Method = http.MethodGet }), status: 405, result: signals.Malformed, stranger: true},
		"no token":                         {request: request(scalerPath, good, header("Authorization")), status: 401, result: signals.Unauthorized, stranger: true},
		"an empty token":                   {request: request(scalerPath, good, header("Authorization", "Bearer ")), status: 401, result: signals.Unauthorized, stranger: true},
		"a password":                       {request: request(scalerPath, good, header("Authorization", "Basic YTpi")), status: 401, result: signals.Unauthorized, stranger: true},
		"two tokens":                       {request: request(scalerPath, good, header("Authorization", "Bearer "+theToken, "Bearer "+theToken)), status: 401, result: signals.Unauthorized, stranger: true},
		"what cannot be a token":           {request: request(scalerPath, good, header("Authorization", "Bearer "+theToken+" x")), status: 401, result: signals.Unauthorized, stranger: true},
		"a token of somebody else":         {request: request(scalerPath, good, header("Authorization", "Bearer stranger")), status: 401, result: signals.Unauthorized, stranger: true},
		"a scaler that is not theirs":      {request: request(PushPath+"prod/scaler", good), status: 403, result: signals.Forbidden, message: `user "system:serviceaccount:ai:gate" must be allowed to update elasticscalers/signal`, stranger: true},
		"no namespace":                     {request: request(PushPath+"scaler", good), status: 404, result: signals.NotFound, stranger: true},
		"no name":                          {request: request(PushPath+"ai/", good), status: 404, result: signals.NotFound, stranger: true},
		"a slash at the end":               {request: request(scalerPath+"/", good), status: 404, result: signals.NotFound, stranger: true},
		"a slash too many":                 {request: request("/"+scalerPath, good), status: 404, result: signals.NotFound, stranger: true},
		"a part more":                      {request: request(scalerPath+"/x", good), status: 404, result: signals.NotFound, stranger: true},
		"a path that goes up":              {request: request(PushPath+"prod/../ai/scaler", good), status: 404, result: signals.NotFound, stranger: true},
		"an escaped slash":                 {request: request(PushPath+"ai%2Fscaler", good), status: 404, result: signals.NotFound, stranger: true},
		"an escaped letter":                {request: request(PushPath+"ai/%73caler", good), status: 404, result: signals.NotFound, stranger: true},
		"a capital":                        {request: request(PushPath+"AI/scaler", good), status: 404, result: signals.NotFound, stranger: true},
		"another path":                     {request: request("/metrics", good), status: 404, result: signals.NotFound, stranger: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := open(t)
			if tc.before != nil {
				g.acceptor.last = map[types.NamespacedName]*v1alpha1.Signal{key: tc.before}
			}
			status, result, message := g.push(t, tc.request)
			if status != tc.status || result != tc.result || !strings.Contains(message, tc.message) {
				t.Errorf("got %d %s %q, want %d %s with %q", status, result, message, tc.status, tc.result, tc.message)
			}
			if g.counts.get(tc.result, Push) != 1 || len(g.counts.of) != 1 {
				t.Errorf("counted are %v, want one %s", g.counts.of, tc.result)
			}
			if accepted := len(g.acceptor.all()) == 1; accepted != (tc.result == signals.Accepted) {
				t.Errorf("accepted are %q", g.acceptor.all())
			}
			if tc.stranger && g.acceptor.asked > 0 {
				t.Error("the acceptor was asked on behalf of a stranger")
			}
		})
	}
}

func TestPushToWhatIsNotThere(t *testing.T) {
	t.Parallel()
	g := open(t)
	g.Handler.(*push).options.Acceptor = acceptorFunc(func() (signals.Outcome, error) {
		return signals.Outcome{Result: signals.NotFound, Reason: "there is none"}, nil
	})
	if status, result, _ := g.push(t, request(scalerPath, `{"signal":"ScaleUp"}`)); status != 404 || result != signals.NotFound {
		t.Errorf("got %d %s, want 404", status, result)
	}
}

type acceptorFunc func() (signals.Outcome, error)

func (f acceptorFunc) Accept(context.Context, types.NamespacedName, signals.Message) (signals.Outcome, error) {
	return f()
}

func TestPushFails(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*gate)
		status int
	}{
		"no answer about the user": {func(g *gate) { g.reviews.err = errors.New("away") }, 503},
		"no record":                {func(g *gate) { g.acceptor.fail = func(int, signals.Message) error { return errors.New("away") } }, 503},
		"a bug":                    {func(g *gate) { g.acceptor.fail = func(int, signals.Message) error { panic("a bug") } }, 500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := open(t)
			tc.change(g)
			status, result, message := g.push(t, request(scalerPath, `{"signal":"ScaleUp"}`))
			if status != tc.status || result != signals.Failed || strings.Contains(message, "away") {
				t.Errorf("got %d %s %q, want %d failed without the cause", status, result, message, tc.status)
			}
			g.reviews.err, g.acceptor.fail = nil, nil
			if status, _, _ := g.push(t, request(scalerPath, `{"signal":"ScaleUp"}`)); status != 202 {
				t.Errorf("the failure is remembered: got %d, want 202", status)
			}
		})
	}
}

func TestReviewsAreRememberedForAWhile(t *testing.T) {
	t.Parallel()
	g := open(t)
	expect := func(what, path, token string, status, asked int) {
		t.Helper()
		before := g.reviews.times()
		got, _, _ := g.push(t, request(path, `{"signal":"ScaleUp"}`, header("Authorization", "Bearer "+token)))
		if n := g.reviews.times() - before; got != status || n != asked {
			t.Errorf("%s: got %d and %d reviews, want %d and %d", what, got, n, status, asked)
		}
	}
	expect("first", scalerPath, theToken, 202, 2)
	expect("again", scalerPath, theToken, 200, 0)
	expect("another scaler", PushPath+"ai/other", theToken, 202, 1)
	expect("another token", scalerPath, "stranger", 401, 1)
	expect("the other token again", scalerPath, "stranger", 401, 0)
	expect("a scaler that is not theirs", PushPath+"prod/x", theToken, 403, 1)
	expect("it again", PushPath+"prod/x", theToken, 403, 0)
	g.now.Step(1100 * time.Millisecond)
	g.reviews.allowed["prod/x"] = true
	expect("a refusal is forgotten soon", PushPath+"prod/x", theToken, 202, 1)
	expect("so is a token", scalerPath, "stranger", 401, 1)
	delete(g.reviews.allowed, "ai/scaler")
	g.now.Step(9 * time.Second)
	expect("a right is forgotten in 10 s", scalerPath, theToken, 403, 2)
}

func TestPushesAreLimitedPerScaler(t *testing.T) {
	t.Parallel()
	g := open(t)
	expect := func(path string, status int) {
		t.Helper()
		if got, _, message := g.push(t, request(path, `{"signal":"ScaleUp"}`)); got != status {
			t.Fatalf("%s: got %d %q, want %d", path, got, message, status)
		}
	}
	expect(scalerPath, 202)
	for range recordsAtOnce - 1 {
		expect(scalerPath, 200)
	}
	expect(scalerPath, 429)
	expect(PushPath+"ai/other", 202)
	g.now.Step(time.Second)
	expect(scalerPath, 200)
	expect(scalerPath, 429)
}

func TestStrangersDoNotFloodTheAPIServer(t *testing.T) {
	t.Parallel()
	g := open(t)
	statuses := map[int]int{}
	for i := range 5 * reviewsAtOnce {
		status, _, _ := g.push(t, request(scalerPath, `{"signal":"ScaleUp"}`, header("Authorization", fmt.Sprintf("Bearer token%d", i))))
		statuses[status]++
	}
	if n := g.reviews.times(); n != reviewsAtOnce || statuses[401] != n || statuses[429] != 4*reviewsAtOnce {
		t.Errorf("%d reviews and answers %v, want %d reviews and 429 for the rest", n, statuses, reviewsAtOnce)
	}
}

// serveTLS serves the handler as the manager does, until the test ends.
func serveTLS(tb testing.TB, handler http.Handler, change func(*http.Server)) (url string, trust *x509.CertPool) {
	tb.Helper()
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		tb.Fatal(err)
	}
	trust = x509.NewCertPool()
	trust.AppendCertsFromPEM(certPEM)
	server, err := NewServer("127.0.0.1:0", handler, func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil })
	if err != nil {
		tb.Fatal(err)
	}
	if server.NeedLeaderElection() {
		tb.Error("the server would serve on the leader only")
	}
	change(server.Server)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Errorf("the server ended with %v", err)
		}
	})
	return server.Listener.Addr().String(), trust
}

func TestServer(t *testing.T) {
	t.Parallel()
	g := open(t)
	address, trust := serveTLS(t, g, func(*http.Server) {})
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trust, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport}
	for _, body := range []io.Reader{
		strings.NewReader(`{"signal":"ScaleUp"}`),
		// Of unknown length, and far longer than is read.
		io.MultiReader(bytes.NewReader(make([]byte, 8<<20))),
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+address+scalerPath, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+theToken)
		r.Header.Set("Content-Type", "application/json")
		resp, err := c.Do(r)
		if err != nil {
			// The server need not read to its end what is too long, and the client may see that first.
			continue
		}
		_ = resp.Body.Close()
		if resp.ProtoMajor != 1 {
			t.Errorf("the server speaks %s", resp.Proto)
		}
	}
	if g.counts.get(signals.Accepted, Push) != 1 || g.counts.get(signals.Oversized, Push) != 1 {
		t.Errorf("counted are %v, want one accepted and one oversized", g.counts.of)
	}
	if _, err := NewServer(address, g, nil); err == nil || !strings.Contains(err.Error(), "listening for pushed signals") {
		t.Errorf("a second server at the same address: got error %v", err)
	}
}

// TestSlowClientsAreCutOff has clients stop in the head and in the body of a request.
func TestSlowClientsAreCutOff(t *testing.T) {
	t.Parallel()
	g := open(t)
	address, trust := serveTLS(t, g, func(s *http.Server) {
		if s.ReadHeaderTimeout <= 0 || s.ReadTimeout <= 0 || s.WriteTimeout <= 0 || s.IdleTimeout <= 0 || s.MaxHeaderBytes <= 0 {
			t.Errorf("a limit is missing: %+v", s)
		}
		s.ReadHeaderTimeout, s.ReadTimeout = 3*time.Second, 4*time.Second
	})
	for name, sent := range map[string]string{
		"in the head": "POST /signals/ai/scaler HTTP/1.1\r\nHost: x\r\nAuthor",
		"in the body": "POST /signals/ai/scaler HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer " + theToken + "\r\nContent-Length: 100\r\n\r\n{",
	} {
		conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: trust, MinVersion: tls.VersionTLS12}}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, sent); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.ReadAll(conn); err != nil {
			t.Errorf("%s: the connection was not ended by the server: %v", name, err)
		}
		_ = conn.Close()
	}
	if n := len(g.acceptor.all()); n > 0 {
		t.Errorf("%d signals were accepted", n)
	}
}
