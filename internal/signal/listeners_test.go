package signal

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/workqueue"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/signals"
	"github.com/pd-orchestrator/pd-orchestrator/internal/metricsource"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
)

var discard = log.New(io.Discard, "", 0)

// trustTestServers trusts the certificate that all servers of httptest have.
var trustTestServers = sync.OnceValue(func() *x509.CertPool {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return pool
})

const (
	events = "text/event-stream"
	ndjson = "application/x-ndjson"
	asJSON = "application/json"
	plain  = "text/plain; charset=utf-8"
)

func TestTransports(t *testing.T) {
	for name, tc := range map[string]struct {
		answer    answerFunc
		transport Transport
		want      string
	}{
		"an event":                          {streams(events, "id: 7\ndata: {\"signal\":\ndata: \"ScaleUp\"}\n\n"), Events, "ScaleUp 7"},
		"an event after comments":           {streams(events+"; charset=utf-8", ": hello\n\n\ndata: {\"signal\":\"ScaleUp\",\"id\":\"7\"}\n\n"), Events, "ScaleUp 7"},
		"the id of an event before its own": {streams(events, "id: 8\ndata: {\"signal\":\"ScaleDown\",\"id\":\"7\"}\n\n"), Events, "ScaleDown 8"},
		"a line":                            {streams(ndjson, "\n{\"signal\":\"ScaleUp\",\"id\":\"7\"}\n"), Lines, "ScaleUp 7"},
		"a line of another name":            {streams("application/jsonl", "{\"signal\":\"ScaleUp\",\"id\":\"7\"}\n"), Lines, "ScaleUp 7"},
		"a poll":                            {says(asJSON, `{"signal":"ScaleUp","id":"7"}`), Poll, "ScaleUp 7"},
		"a poll on several lines":           {says(asJSON, "{\n  \"signal\": \"ScaleUp\",\n  \"id\": \"7\"\n}\n"), Poll, "ScaleUp 7"},
		"a poll on a connection that stays": {streams(asJSON, "{\"signal\":\"ScaleUp\",\"id\":\"7\"}\n"), Poll, "ScaleUp 7"},
		"a poll as text":                    {says(plain, `{"signal":"ScaleUp"}`), Poll, "ScaleUp "},
		"a poll of no type":                 {says("", `{"signal":"ScaleUp"}`), Poll, "ScaleUp "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, tc.answer)
			w := listen(t)
			w.Set(key, Endpoint{URL: server.URL + "/scale?x=y", Interval: time.Hour})
			w.accepts(t, tc.want)
			eventually(t, "the signal to be counted", func() bool { return w.counts.get(signals.Accepted, tc.transport) == 1 })
			w.shows(t, "a connection", func(s State) bool { return s.Connected && s.Error == "" && s.Reason == "" && !s.Since.IsZero() })
			r := server.asked()[0]
			if r.Method != http.MethodGet || r.URL.String() != "/scale?x=y" || !strings.Contains(r.Header.Get("Accept"), events) || len(r.Header["Authorization"])+len(r.Header["Last-Event-Id"]) > 0 {
				t.Errorf("the endpoint was asked with %s %s and %v", r.Method, r.URL, r.Header)
			}
		})
	}
}

func TestRequestsAreCounted(t *testing.T) {
	t.Parallel()
	server := serve(t, status(http.StatusServiceUnavailable), says(asJSON, `{"signal":"ScaleUp"}`))
	w := listen(t)
	w.Set(key, Endpoint{URL: server.URL, Interval: time.Hour})
	eventually(t, "a request that failed and one that did not", func() bool {
		return w.counts.get(signals.Failed, "") == 1 && w.counts.get(signals.Accepted, "") == 1
	})
}

func TestStreamsResumeAfterTheLastEvent(t *testing.T) {
	for name, tc := range map[string]struct {
		answers []answerFunc
		want    []string
	}{
		"an event that breaks off": {
			[]answerFunc{
				breaksOff(events, "id: 1\ndata: {\"signal\":\"ScaleUp\"}\n\nid: 2\ndata: {\"signal\":\"ScaleDown\"}\n"),
				streams(events, "id: 2\ndata: {\"signal\":\"ScaleDown\"}\n\n"),
			}, []string{"", "1"},
		},
		"a stream that ends": {
			[]answerFunc{
				says(events, "id: 1\ndata: {\"signal\":\"ScaleUp\"}\n\n"),
				streams(events, "id: 2\ndata: {\"signal\":\"ScaleDown\"}\n\n"),
			}, []string{"", "1"},
		},
		"a line that breaks off": {
			[]answerFunc{
				breaksOff(ndjson, "{\"signal\":\"ScaleUp\",\"id\":\"1\"}\n{\"signal\":\"ScaleDown\",\"id\":\"2\""),
				streams(ndjson, "{\"signal\":\"ScaleDown\",\"id\":\"2\"}\n"),
			}, []string{"", "1"},
		},
		"errors in between": {
			[]answerFunc{
				says(events, "id: 1\ndata: {\"signal\":\"ScaleUp\"}\n\n"),
				status(502), status(503), breaksOff(events, ""),
				streams(events, "id: 2\ndata: {\"signal\":\"ScaleDown\"}\n\n"),
			}, []string{"", "1", "1", "1", "1"},
		},
		"an id without a message": {
			[]answerFunc{
				says(events, "id: 1\ndata: {\"signal\":\"ScaleUp\"}\n\nid: 1b\n\n"),
				streams(events, "id: 2\ndata: {\"signal\":\"ScaleDown\"}\n\n"),
			}, []string{"", "1b"},
		},
		"a stream that begins from the start each time": {
			[]answerFunc{
				says(events, "id: 0\ndata: {\"signal\":\"ScaleDown\"}\n\nid: 1\ndata: {\"signal\":\"ScaleUp\"}\n\n"),
				streams(events, "id: 0\ndata: {\"signal\":\"ScaleDown\"}\n\nid: 1\ndata: {\"signal\":\"ScaleUp\"}\n\nid: 2\ndata: {\"signal\":\"ScaleDown\"}\n\n"),
			}, []string{"", "1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, tc.answers...)
			w := listen(t)
			w.Set(key, Endpoint{URL: server.URL, Interval: time.Hour})
			eventually(t, "the last signal to stand", func() bool {
				all := w.acceptor.all()
				return len(all) > 0 && all[len(all)-1] == "ScaleDown 2"
			})
			if got := server.header("Last-Event-ID"); !slices.Equal(got, tc.want) {
				t.Errorf("the endpoint was asked for what comes after %q, want %q", got, tc.want)
			}
			for _, id := range []string{"0", "1", "2"} {
				if n := count(w.acceptor.all(), id); n > 1 {
					t.Errorf("signal %s was accepted %d times: %q", id, n, w.acceptor.all())
				}
			}
			if s := w.state(); !s.Connected {
				t.Errorf("the state is %+v although the endpoint is back", s)
			}
		})
	}
}

func count(accepted []string, id string) (n int) {
	for _, a := range accepted {
		if strings.HasSuffix(a, " "+id) {
			n++
		}
	}
	return n
}

func TestRestartResumesAfterTheLastAcceptedSignal(t *testing.T) {
	t.Parallel()
	server := serve(t, streams(events, "id: 41\ndata: {\"signal\":\"ScaleUp\"}\n\nid: 42\ndata: {\"signal\":\"ScaleDown\"}\n\n"))
	w := listen(t)
	w.Set(key, Endpoint{URL: server.URL, Interval: time.Hour, LastEventID: "41"})
	w.accepts(t, "ScaleDown 42")
	if got := server.header("Last-Event-ID"); got[0] != "41" {
		t.Errorf("the endpoint was asked for what comes after %q, want 41", got[0])
	}
	if w.counts.get(signals.Repeated, Events) != 1 {
		t.Errorf("the event that came again was not counted as repeated: %v", w.counts.of)
	}
}

func TestPolls(t *testing.T) {
	t.Parallel()
	now := testingclock.NewFakeClock(time.Now())
	server := serve(t, status(http.StatusNoContent), says(asJSON, `{"signal":"ScaleUp"}`), says(asJSON, `{"signal":"ScaleUp"}`),
		says(asJSON, ""), says(asJSON, `{"signal":"ScaleDown"}`))
	w := listen(t, func(o *Options, _ *pace) { o.Clock = now })
	w.Set(key, Endpoint{URL: server.URL, Interval: 15 * time.Second})
	for poll := 1; poll <= 6; poll++ {
		eventually(t, "the next poll to be waited for", func() bool { return len(server.asked()) == poll && now.HasWaiters() })
		want := []string{}
		if poll >= 2 {
			want = append(want, "ScaleUp ")
		}
		if poll >= 5 {
			want = append(want, "ScaleDown ")
		}
		w.accepts(t, want...)
		now.Step(14 * time.Second)
		if !waits(now, server, poll) {
			t.Fatalf("poll %d came before its time", poll+1)
		}
		now.Step(time.Second)
	}
	if got := w.counts.get(signals.Repeated, Poll); got < 2 {
		t.Errorf("%d polls were counted as repeated, want the third and the sixth", got)
	}
	if w.acceptor.asked != 2 {
		t.Errorf("the acceptor was asked %d times, want 2: what a poll finds again is no news", w.acceptor.asked)
	}
}

// TestAPollDoesNotTakeBackAPush leaves the endpoint at what it said before a signal was pushed.
func TestAPollDoesNotTakeBackAPush(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{"signal":"ScaleUp","id":"1"}`, `{"signal":"ScaleUp"}`} {
		server := serve(t, says(asJSON, body))
		w := listen(t)
		w.Set(key, Endpoint{URL: server.URL, Interval: time.Millisecond})
		eventually(t, "the first poll", func() bool { return len(w.acceptor.all()) == 1 })
		if _, err := w.acceptor.Accept(t.Context(), key, signals.Message{Signal: v1alpha1.SignalScaleDown, ID: "pushed"}); err != nil {
			t.Fatal(err)
		}
		before := len(server.asked())
		eventually(t, "more polls", func() bool { return len(server.asked()) > before+3 })
		if all := w.acceptor.all(); all[len(all)-1] != "ScaleDown pushed" {
			t.Errorf("a repeated %s took back what was pushed: %q", body, all)
		}
	}
}

func TestBadMessagesChangeNothing(t *testing.T) {
	long := strings.Repeat("x", signals.MaxBytes)
	for name, tc := range map[string]struct {
		bad       string
		as        string
		result    signals.Result
		transport Transport
		refused   string
	}{
		"no JSON in an event":       {"data: ScaleUp\n\n", events, signals.Malformed, Events, "JSON object"},
		"another word in an event":  {"data: {\"signal\":\"up\"}\n\n", events, signals.Unknown, Events, `"up"`},
		"an event that is too long": {"data: {\"signal\":\"ScaleUp\",\"x\":\"" + long + "\"}\n\n", events, signals.Oversized, Events, "more than 65536 bytes"},
		"an id that is too long":    {"id: " + strings.Repeat("i", 257) + "\ndata: {\"signal\":\"ScaleUp\"}\n\n", events, signals.Malformed, Events, "id"},
		"an id with a tab":          {"id: a\tb\ndata: {\"signal\":\"ScaleUp\"}\n\n", events, signals.Malformed, Events, "id"},
		"a broken line":             {"{\"signal\":\"ScaleUp\"\n", ndjson, signals.Malformed, Lines, "JSON object"},
		"a line that is too long":   {"{\"signal\":\"ScaleUp\",\"x\":\"" + long + "\"}\n", ndjson, signals.Oversized, Lines, "more than 65536 bytes"},
		"a line of the far future":  {"{\"signal\":\"ScaleUp\",\"time\":\"2999-01-01T00:00:00Z\"}\n", ndjson, signals.Future, Lines, ""},
		"a value that is too long":  {"[\n\"" + long + "\"\n]\n", asJSON, signals.Oversized, Poll, "more than 65536 bytes"},
		"a value with more behind":  {"{\"signal\":\"ScaleUp\"} x\n", asJSON, signals.Malformed, Poll, "follows"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			goOn := make(chan struct{})
			server := serve(t, func(rw http.ResponseWriter, r *http.Request) {
				says(tc.as, tc.bad)(rw, r)
				rw.(http.Flusher).Flush()
				select {
				case <-goOn:
				case <-r.Context().Done():
				}
				good := `{"signal":"ScaleDown","id":"good"}` + "\n"
				if tc.as == events {
					good = "data: " + good + "\n"
				}
				_, _ = io.WriteString(rw, good)
				rw.(http.Flusher).Flush()
				<-r.Context().Done()
			})
			w := listen(t)
			w.Set(key, Endpoint{URL: server.URL, Interval: time.Hour})
			eventually(t, "the bad message to be counted", func() bool { return w.counts.get(tc.result, tc.transport) == 1 })
			if tc.refused != "" {
				w.shows(t, "why it was refused", func(s State) bool { return strings.Contains(s.Refused, tc.refused) && s.Connected })
			}
			close(goOn)
			w.accepts(t, "ScaleDown good")
			w.shows(t, "no refusal any more", func(s State) bool { return s.Refused == "" && s.Connected })
		})
	}
}

func TestWhyAnEndpointIsNotListenedAt(t *testing.T) {
	elsewhere := serve(t, says(asJSON, `{"signal":"ScaleUp"}`))
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	guard, err := metricsource.NewGuard(metricsource.GuardOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		answer answerFunc
		url    string
		plain  bool
		dial   func(context.Context, string, string) (net.Conn, error)
		change func(*world, *Endpoint)
		reason string
		want   string
	}{
		"an error of the server": {answer: status(500), want: "status 500 Internal Server Error"},
		"not found":              {answer: status(404), want: "status 404"},
		"another success":        {answer: status(202), want: "status 202"},
		"a redirect": {answer: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, want: "redirects are not followed"},
		"a page":                    {answer: says("text/html", "<html>"), want: `Content-Type "text/html": must be text/event-stream`},
		"no token":                  {answer: status(401), want: "no token"},
		"no right":                  {answer: status(403), want: "no token"},
		"the connection is refused": {url: closed.URL, want: "refuses the connection"},
		"no TLS":                    {plain: true, answer: status(204), want: "does not speak TLS"},
		"no HTTP":                   {answer: hijack("hello\n"), want: "does not answer as an HTTP server does"},
		"no answer":                 {answer: hijack(""), want: "ends the connection before it answers"},
		"no answer in time":         {answer: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, want: "does not answer in time"},
		"an address that is not dialled": {
			url: elsewhere.URL, dial: guard.DialContext,
			reason: v1alpha1.ReasonEndpointForbidden, want: "127.0.0.1 (a loopback address), which must not be dialled",
		},
		"a name that does not resolve": {
			dial: func(context.Context, string, string) (net.Conn, error) {
				return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}}
			},
			url: "https://signals.example.com", want: "does not resolve",
		},
		"a dial that takes too long": {
			dial: func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() },
			url:  "https://signals.example.com", want: "does not answer in time",
		},
		"a Secret that is missing": {
			answer: status(204), reason: v1alpha1.ReasonSecretNotFound, want: "Secret token does not exist",
			change: func(_ *world, e *Endpoint) { e.Token = &v1alpha1.SecretKeyReference{Name: "token", Key: "t"} },
		},
		"a key that is missing": {
			answer: status(204), reason: v1alpha1.ReasonSecretNotFound, want: "Secret token has no key t",
			change: func(w *world, e *Endpoint) {
				w.secrets.set("token", "other", theToken)
				e.Token = &v1alpha1.SecretKeyReference{Name: "token", Key: "t"}
			},
		},
		"a token that is none": {
			answer: status(204), want: "key t of Secret token holds none",
			change: func(w *world, e *Endpoint) {
				w.secrets.set("token", "t", theToken+"\r\nX-Evil: 1")
				e.Token = &v1alpha1.SecretKeyReference{Name: "token", Key: "t"}
			},
		},
		"a token that is not taken": {
			answer: status(401), want: "does not take the token",
			change: func(w *world, e *Endpoint) {
				w.secrets.set("token", "t", theToken+"\n")
				e.Token = &v1alpha1.SecretKeyReference{Name: "token", Key: "t"}
			},
		},
		"a CA that is none": {
			answer: status(204), want: "holds no PEM certificate",
			change: func(w *world, e *Endpoint) {
				w.secrets.set("ca", "ca.crt", "hello")
				e.CA = &v1alpha1.SecretKeyReference{Name: "ca", Key: "ca.crt"}
			},
		},
		"a Secret that cannot be read": {
			answer: status(204), want: "Secret ca could not be read",
			change: func(w *world, e *Endpoint) {
				w.secrets.err = errors.New("etcd is away")
				e.CA = &v1alpha1.SecretKeyReference{Name: "ca", Key: "ca.crt"}
			},
		},
		"a certificate of somebody else": {
			answer: status(204), want: "not trusted: x509: certificate signed by unknown authority",
			change: func(w *world, _ *Endpoint) { w.options.RootCAs = x509.NewCertPool() },
		},
		"a URL that is none": {url: "http://exa mple", want: "not a URL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := listen(t, func(o *Options, p *pace) {
				p.answer, p.dial = 2*time.Second, 2*time.Second
				if tc.dial != nil {
					o.DialContext = tc.dial
				}
			})
			e := Endpoint{URL: tc.url, Interval: time.Hour}
			switch {
			case tc.plain:
				server := httptest.NewServer(http.HandlerFunc(tc.answer))
				t.Cleanup(server.Close)
				e.URL = strings.Replace(server.URL, "http:", "https:", 1)
			case tc.answer != nil:
				e.URL = serve(t, tc.answer).URL
			}
			if tc.change != nil {
				tc.change(w, &e)
			}
			if tc.reason == "" {
				tc.reason = v1alpha1.ReasonEndpointUnreachable
			}
			w.Set(key, e)
			var first State
			w.shows(t, tc.want, func(s State) bool {
				first = s
				return !s.Connected && strings.Contains(s.Error, tc.want) && s.Reason == tc.reason
			})
			if strings.Contains(first.Error, theToken) {
				t.Errorf("the state shows the token: %s", first.Error)
			}
			if len(w.acceptor.all()) > 0 {
				t.Errorf("a signal was accepted: %q", w.acceptor.all())
			}
		})
	}
	if n := len(elsewhere.asked()); n > 0 {
		t.Errorf("the target of the redirect was asked %d times", n)
	}
}

// hijack answers with the text and closes the connection.
func hijack(text string) answerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = io.WriteString(conn, text)
		_ = conn.Close()
	}
}

// TestErrorsStayTheSame counts how often the state changes while an endpoint fails in the same way: each change is a write.
func TestErrorsStayTheSame(t *testing.T) {
	for name, answer := range map[string]answerFunc{
		"a status": status(500), "a reset": hijack(""), "a page": says("text/html", ""),
		"a break":        breaksOff(events, "data: x\n"),
		"a break, again": breaksOff(events, "id: 1\ndata: {\"signal\":\"ScaleUp\"}\n\n"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, answer)
			w := listen(t)
			var changes atomic.Int64
			l := newListener(key, Endpoint{URL: server.URL, Interval: time.Hour, LastEventID: "1"}, w.options, w.pace, func(types.NamespacedName) { changes.Add(1) })
			ctx, cancel := context.WithCancel(t.Context())
			go l.run(ctx)
			eventually(t, "many attempts", func() bool { return len(server.asked()) > 10 })
			cancel()
			<-l.done
			// A stream is connected for once before it is known to break.
			if s := l.current(); s.Connected || s.Error == "" || changes.Load() > 2 {
				t.Errorf("the state has changed %d times and is %+v", changes.Load(), s)
			}
		})
	}
}

func TestTokenIsRotated(t *testing.T) {
	t.Parallel()
	now := testingclock.NewFakeClock(time.Now())
	var valid atomic.Pointer[string]
	set := func(token string) { valid.Store(&token) }
	set("old-" + theToken)
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+*valid.Load() {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	w := listen(t, func(o *Options, p *pace) {
		o.Clock = now
		p.reread = time.Minute
	})
	w.secrets.set("token", "t", "old-"+theToken+"\n")
	w.Set(key, Endpoint{URL: server.URL, Interval: time.Second, Token: &v1alpha1.SecretKeyReference{Name: "token", Key: "t"}})
	w.shows(t, "a connection", func(s State) bool { return s.Connected })

	// pass lets time pass, an attempt a step.
	pass := func(d time.Duration) {
		for range int(d / time.Second) {
			eventually(t, "the next attempt to be waited for", now.HasWaiters)
			now.Step(time.Second)
		}
	}
	pass(30 * time.Second)
	set("new-" + theToken)
	pass(10 * time.Second)
	w.shows(t, "that the token is not taken", func(s State) bool { return strings.Contains(s.Error, "does not take the token") })
	pass(30 * time.Second)
	// The Secret is read at the first refusal that is a minute after the read before: here it holds what is refused.
	eventually(t, "the Secret to be read again", func() bool { return w.secrets.readTimes() == 2 })
	w.secrets.set("token", "t", "new-"+theToken)
	pass(50 * time.Second)
	if n := w.secrets.readTimes(); n != 2 || w.state().Connected {
		t.Fatalf("the Secret was read %d times within the minute, want 2; the state is %+v", n, w.state())
	}
	for range 15 {
		pass(time.Second)
		eventually(t, "the attempt to end", now.HasWaiters)
		if w.secrets.readTimes() > 2 {
			break
		}
	}
	// A new token is tried at once.
	w.shows(t, "a connection with the new token", func(s State) bool { return s.Connected })
	if n := w.secrets.readTimes(); n != 3 {
		t.Errorf("the Secret was read %d times, want 3", n)
	}
}

func TestCAIsRotated(t *testing.T) {
	t.Parallel()
	server := serve(t, says(asJSON, `{"signal":"ScaleUp"}`))
	w := listen(t, func(o *Options, p *pace) {
		o.RootCAs = x509.NewCertPool()
		p.reread = 0
	})
	other, _, err := cert.GenerateSelfSignedCertKey("signals.example.com", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.secrets.set("ca", "ca.crt", string(other))
	w.Set(key, Endpoint{URL: server.URL, Interval: time.Hour, CA: &v1alpha1.SecretKeyReference{Name: "ca", Key: "ca.crt"}})
	w.shows(t, "that the certificate is not trusted", func(s State) bool { return strings.Contains(s.Error, "not trusted") })
	w.secrets.set("ca", "ca.crt", certificateOf(server.Server))
	w.accepts(t, "ScaleUp ")
}

func TestASilentStreamIsOpenedAnew(t *testing.T) {
	t.Parallel()
	server := serve(t, streams(events, ""))
	w := listen(t, func(_ *Options, p *pace) { p.idle = 20 * time.Millisecond })
	w.Set(key, Endpoint{URL: server.URL, Interval: time.Millisecond})
	eventually(t, "several connections", func() bool { return len(server.asked()) > 3 })
	if s := w.state(); !s.Connected || s.Error != "" {
		t.Errorf("silence is taken for an error: %+v", s)
	}
}

func TestASlowStreamIsNotSilent(t *testing.T) {
	t.Parallel()
	server := serve(t, func(rw http.ResponseWriter, r *http.Request) {
		says(events, "")(rw, r)
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for _, b := range []byte("id: 1\ndata: {\"signal\": \"ScaleUp\"}\n\n") {
			_, _ = rw.Write([]byte{b})
			rw.(http.Flusher).Flush()
			select {
			case <-ticker.C:
			case <-r.Context().Done():
			}
		}
		<-r.Context().Done()
	})
	// The whole event takes longer than the limit, no byte of it does.
	w := listen(t, func(_ *Options, p *pace) { p.idle = 500 * time.Millisecond })
	w.Set(key, Endpoint{URL: server.URL, Interval: time.Millisecond})
	w.accepts(t, "ScaleUp 1")
}

func TestAnEndlessMessageEndsTheConnection(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		says(events, "data: ")(w, r)
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, strings.Repeat("x", 1<<16)); err != nil {
				return
			}
		}
	})
	w := listen(t)
	w.Set(key, Endpoint{URL: server.URL, Interval: time.Hour})
	w.shows(t, "what the endpoint does", func(s State) bool { return strings.Contains(s.Error, "does not end") })
	eventually(t, "it to be counted", func() bool { return w.counts.get(signals.Oversized, Events) > 0 })
}

func TestTimeBeforeAReconnectionGrows(t *testing.T) {
	t.Parallel()
	l := newListener(key, Endpoint{}, Options{Clock: testingclock.NewFakeClock(time.Now())}, defaultPace, func(types.NamespacedName) {})
	for _, retry := range []time.Duration{0, 4 * time.Second} {
		l.retry = retry
		b := l.backoff()
		for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60} {
			want *= time.Second
			if want < retry {
				continue
			}
			if got := b.Step(); got < want || got > want+want/5 {
				t.Errorf("with retry %s the time is %s, want %s and up to a fifth more", retry, got, want)
			}
		}
	}
}

// waits tells whether the next attempt is still waited for after the clock was moved.
func waits(now *testingclock.FakeClock, server *endpoint, attempts int) bool {
	return now.HasWaiters() && len(server.asked()) == attempts
}

func TestRetryIsHonoured(t *testing.T) {
	t.Parallel()
	now := testingclock.NewFakeClock(time.Now())
	server := serve(t, says(events, "retry: 20000\nid: 1\ndata: {\"signal\":\"ScaleUp\"}\n\n"), status(204))
	w := listen(t, func(o *Options, p *pace) { o.Clock, p.most = now, time.Minute })
	w.Set(key, Endpoint{URL: server.URL, Interval: time.Second})
	w.accepts(t, "ScaleUp 1")
	eventually(t, "the reconnection to be waited for", now.HasWaiters)
	now.Step(19 * time.Second)
	if !waits(now, server, 1) {
		t.Fatal("the endpoint was asked again before the time that it wants")
	}
	now.Step(6 * time.Second)
	eventually(t, "the reconnection", func() bool { return len(server.asked()) == 2 })
}

func TestRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	now := testingclock.NewFakeClock(time.Now())
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3000")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	w := listen(t, func(o *Options, p *pace) { o.Clock, p.most = now, time.Minute })
	w.Set(key, Endpoint{URL: server.URL, Interval: time.Second})
	w.shows(t, "the error", func(s State) bool { return strings.Contains(s.Error, "503") })
	eventually(t, "the next attempt to be waited for", now.HasWaiters)
	now.Step(59 * time.Second)
	if !waits(now, server, 1) {
		t.Fatal("the endpoint was asked again before the time that it wants")
	}
	now.Step(time.Second)
	eventually(t, "the next attempt after a minute at most", func() bool { return len(server.asked()) == 2 })
}

func TestOneFailureIsNoNews(t *testing.T) {
	t.Parallel()
	now := testingclock.NewFakeClock(time.Now())
	server := serve(t, status(204), status(500), status(204), status(500), status(500), status(204))
	w := listen(t, func(o *Options, p *pace) { o.Clock, p.least, p.most = now, time.Second, time.Second })
	w.Set(key, Endpoint{URL: server.URL, Interval: time.Second})
	for i, connected := range []bool{true, true, true, true, false, true} {
		eventually(t, "the next attempt to be waited for", func() bool { return len(server.asked()) == i+1 && now.HasWaiters() })
		if s := w.state(); s.Connected != connected || connected != (s.Error == "") {
			t.Errorf("after attempt %d the state is %+v, want connected %t", i+1, s, connected)
		}
		if s := w.state(); i == 4 && !s.Since.Equal(now.Now()) {
			t.Errorf("not connected since %s, want %s", s.Since, now.Now())
		}
		now.Step(2 * time.Second)
	}
}

func TestSignalsOutliveTheAPIServer(t *testing.T) {
	t.Parallel()
	server := serve(t, streams(ndjson, strings.Join([]string{
		`{"signal":"ScaleUp","id":"1"}`, `{"signal":"ScaleDown","id":"2"}`, `{"signal":"ScaleUp","id":"3"}`, "",
	}, "\n")))
	w := listen(t)
	heard := make(chan struct{})
	w.acceptor.fail = func(asked int, _ signals.Message) error {
		if asked == 1 {
			// All have come by the time that the first is refused.
			<-heard
			return errors.New("the API server is away")
		}
		return nil
	}
	w.Set(key, Endpoint{URL: server.URL, Interval: time.Hour})
	eventually(t, "the second to give way to the third", func() bool { return w.counts.get(signals.Superseded, Lines) >= 1 })
	close(heard)
	w.accepts(t, "ScaleUp 3")
	if n := w.counts.get(signals.Superseded, Lines); n != 2 {
		t.Errorf("%d signals gave way to a newer one, want 2: %v", n, w.counts.of)
	}
}

func TestALateSignalDoesNotTakeThePlaceOfOneThatWaits(t *testing.T) {
	t.Parallel()
	now := testingclock.NewFakeClock(time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC))
	seen := &counts{}
	b := newMailbox(key, Options{Clock: now, Observe: seen.observe}, func(types.NamespacedName) {})
	at := func(id string, minutes int) letter {
		return letter{signals.Message{Signal: v1alpha1.SignalScaleUp, ID: id, Time: now.Now().Add(time.Duration(minutes) * time.Minute)}, Lines}
	}
	b.put(at("new", 0))
	b.put(at("old", -1))
	if got := b.take(); got == nil || got.message.ID != "new" || seen.get(signals.Late, Lines) != 1 {
		t.Errorf("%+v waits, want the new one; counted are %v", got, seen.of)
	}
	b.put(at("old", -2))
	b.putBack(at("newer", -1))
	if got := b.take(); got == nil || got.message.ID != "newer" || seen.get(signals.Late, Lines) != 2 {
		t.Errorf("%+v waits, want the one that was put back; counted are %v", got, seen.of)
	}
	b.putBack(at("newest", 0))
	if got := b.take(); got == nil || got.message.ID != "newest" {
		t.Errorf("%+v waits, want the one that was put back", got)
	}
}

func TestFloodIsThrottled(t *testing.T) {
	t.Parallel()
	var sent atomic.Int64
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		says(ndjson, "")(w, r)
		for i := range 5000 {
			word := []string{"ScaleUp", "ScaleDown"}[i%2]
			if _, err := fmt.Fprintf(w, "{\"signal\":%q,\"id\":\"%d\"}\n", word, i); err != nil {
				return
			}
			sent.Add(1)
		}
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	w := listen(t)
	w.Set(key, Endpoint{URL: server.URL, Interval: time.Hour})
	began := time.Now()
	eventually(t, "the last signal to stand", func() bool { all := w.acceptor.all(); return len(all) > 0 && all[len(all)-1] == "ScaleDown 4999" })
	most := recordsAtOnce + recordsPerSecond*int(time.Since(began)/time.Second+1)
	if n := len(w.acceptor.all()); n > most {
		t.Errorf("%d signals were recorded, want at most %d", n, most)
	}
	total := len(w.acceptor.all()) + w.counts.get(signals.Superseded, Lines)
	if total != 5000 {
		t.Errorf("%d signals were counted of %d sent: %v", total, sent.Load(), w.counts.of)
	}
}

func TestSet(t *testing.T) {
	t.Parallel()
	var open atomic.Int64
	hold := func(text string) answerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			open.Add(1)
			defer open.Add(-1)
			streams(events, text)(w, r)
		}
	}
	first := serve(t, hold("id: 1\ndata: {\"signal\":\"ScaleUp\"}\n\n"))
	second := serve(t, hold("id: 2\ndata: {\"signal\":\"ScaleDown\"}\n\n"))
	w := listen(t)
	e := Endpoint{URL: first.URL, Interval: time.Hour, Token: &v1alpha1.SecretKeyReference{Name: "token", Key: "t"}}
	w.secrets.set("token", "t", theToken)
	w.Set(key, e)
	w.accepts(t, "ScaleUp 1")

	// The same endpoint, with the status as it is now and the reference as another pass has read it.
	e.LastEventID, e.Token = "1", &v1alpha1.SecretKeyReference{Name: "token", Key: "t"}
	for range 10 {
		w.Set(key, e)
	}
	e.Interval = time.Minute
	w.Set(key, e)
	eventually(t, "a second connection", func() bool { return len(first.asked()) == 2 })
	e.URL = second.URL
	w.Set(key, e)
	w.accepts(t, "ScaleUp 1", "ScaleDown 2")
	if got := first.header("Last-Event-ID"); !slices.Equal(got, []string{"", "1"}) {
		t.Errorf("the first endpoint was asked for what comes after %q, want twice, the second time after 1", got)
	}
	if got := second.header("Last-Event-ID"); !slices.Equal(got, []string{""}) {
		t.Errorf("the second endpoint was asked for what comes after %q, which is an id of the first", got)
	}
	if got := second.header("Authorization"); got[0] != "Bearer "+theToken {
		t.Errorf("the second endpoint got the wrong token")
	}

	w.Forget(key)
	w.Forget(key)
	eventually(t, "all connections to end", func() bool { return open.Load() == 0 })
	if s, ok := w.State(key); ok {
		t.Errorf("a forgotten scaler has state %+v", s)
	}
}

// TestAScalerThatIsMadeAnewHearsThePresentSignal makes one again under its name while its endpoint goes on to say the same.
func TestAScalerThatIsMadeAnewHearsThePresentSignal(t *testing.T) {
	t.Parallel()
	server := serve(t, says(asJSON, `{"signal":"ScaleUp","id":"1"}`))
	w := listen(t)
	w.Set(key, Endpoint{UID: "first", URL: server.URL, Interval: time.Millisecond})
	w.accepts(t, "ScaleUp 1")
	w.acceptor.forget()
	w.Set(key, Endpoint{UID: "second", URL: server.URL, Interval: time.Millisecond})
	w.accepts(t, "ScaleUp 1", "ScaleUp 1")
}

func TestSourceEnqueues(t *testing.T) {
	t.Parallel()
	server := serve(t, streams(events, "data: {\"signal\":\"ScaleUp\"}\n\n"))
	w := listen(t)
	w.Set(key, Endpoint{URL: server.URL, Interval: time.Hour})
	w.accepts(t, "ScaleUp ")
	item, _ := w.queue.Get()
	if item.NamespacedName != key {
		t.Errorf("enqueued was %s, want %s", item, key)
	}
	w.queue.Done(item)
	// What was set before the controller has started is looked at when it has.
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	if err := w.Source().Start(t.Context(), queue); err != nil || queue.Len() != 1 {
		t.Errorf("the source enqueued %d, error %v, want the one scaler", queue.Len(), err)
	}
}

func TestAPanicIsNotTheEnd(t *testing.T) {
	t.Parallel()
	server := serve(t, streams(ndjson, "{\"signal\":\"ScaleUp\",\"id\":\"1\"}\n"))
	w := listen(t)
	w.acceptor.fail = func(asked int, _ signals.Message) error {
		if asked == 1 {
			panic("a bug")
		}
		return nil
	}
	w.Set(key, Endpoint{URL: server.URL, Interval: time.Hour})
	w.accepts(t, "ScaleUp 1")
}

// TestManyAtOnce has eight goroutines change the same few keys while their endpoints talk.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	server := serve(t, says(events, "id: 1\ndata: {\"signal\":\"ScaleUp\"}\n\n"), status(500), status(204))
	w := listen(t, func(_ *Options, p *pace) { p.spread = time.Millisecond })
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 100 {
				k := types.NamespacedName{Namespace: "ai", Name: fmt.Sprint(i % 3)}
				switch (g + i) % 4 {
				case 0:
					w.Forget(k)
				case 1:
					_, _ = w.State(k)
				default:
					w.Set(k, Endpoint{URL: server.URL, Interval: time.Duration(1+i%2) * time.Millisecond})
				}
			}
		})
	}
	all.Wait()
	w.Set(key, Endpoint{URL: server.URL, Interval: time.Millisecond})
	w.shows(t, "a connection", func(s State) bool { return s.Connected })
}

func TestNothingIsHeardAfterTheEnd(t *testing.T) {
	t.Parallel()
	server := serve(t, streams(events, ""))
	w := listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Start(ctx); err != nil {
		t.Fatal(err)
	}
	w.Set(key, Endpoint{URL: server.URL, Interval: time.Millisecond})
	if _, ok := w.State(key); ok {
		t.Error("an endpoint is listened at after the end")
	}
	testkit.Consistently(t, 100*time.Millisecond, "nobody asks", func(context.Context) error {
		if n := len(server.asked()); n > 0 {
			return fmt.Errorf("the endpoint was asked %d times", n)
		}
		return nil
	})
}

func TestTheEndWaitsForARecord(t *testing.T) {
	t.Parallel()
	server := serve(t, streams(events, "data: {\"signal\":\"ScaleUp\"}\n\n"))
	w := listen(t)
	asked, goOn := make(chan struct{}), make(chan struct{})
	w.acceptor.fail = func(int, signals.Message) error {
		close(asked)
		<-goOn
		return nil
	}
	w.Set(key, Endpoint{URL: server.URL, Interval: time.Hour})
	<-asked
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ended := make(chan error)
	go func() { ended <- w.Start(ctx) }()
	select {
	case <-ended:
		t.Error("the listeners have ended in the middle of a record")
	case <-time.After(100 * time.Millisecond):
		close(goOn)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
