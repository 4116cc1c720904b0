package signal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/signals"
)

// pace holds the times that listening keeps to.
type pace struct {
	// spread is over how long the first attempts of many listeners are spread.
	spread time.Duration
	// least and most are between which the time before a reconnection grows.
	least, most time.Duration
	// stable is how long a connection is held that is no sign of trouble when it breaks.
	stable time.Duration
	// dial, answer and idle are how long a connection, the head of an answer, and the next byte of it are waited for.
	dial, answer, idle time.Duration
	// keepAlive is how often a peer is asked whether it lives.
	keepAlive net.KeepAliveConfig
	// reread is how long a Secret is not read again.
	reread time.Duration
}

var defaultPace = pace{
	spread: time.Second,
	least:  time.Second,
	most:   time.Minute,
	stable: 10 * time.Second,
	dial:   10 * time.Second,
	// Long enough for an endpoint that answers a poll only when there is something to say.
	answer:    time.Minute,
	idle:      5 * time.Minute,
	keepAlive: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 15 * time.Second, Count: 4},
	reread:    time.Minute,
}

// jitter is by how much of itself a time before a reconnection is drawn out at most.
const jitter = 0.2

// listener listens at one endpoint.
type listener struct {
	key      types.NamespacedName
	endpoint Endpoint
	options  Options
	pace     pace
	enqueue  func(types.NamespacedName)
	cancel   context.CancelFunc
	done     chan struct{}

	access *access
	mail   *mailbox
	// resumeAfter is the id that is sent as Last-Event-ID; heard are the ids that came lately.
	resumeAfter string
	heard       recent
	// retry is how long the endpoint wants to be left alone before a reconnection; 0 where it said nothing.
	retry time.Duration
	// failures is how many attempts in a row failed.
	failures int
	// broke says that the last answer was as it should be at first and then broke off.
	broke bool

	mu    sync.Mutex
	state State
}

func newListener(key types.NamespacedName, e Endpoint, o Options, p pace, enqueue func(types.NamespacedName)) *listener {
	o.Log = o.Log.WithValues("elasticScaler", key)
	if !signals.ValidID(e.LastEventID) {
		e.LastEventID = ""
	}
	l := &listener{
		key: key, endpoint: e, options: o, pace: p, enqueue: enqueue, done: make(chan struct{}),
		access:      newAccess(key.Namespace, e, o, p),
		mail:        newMailbox(key, o, enqueue),
		resumeAfter: e.LastEventID,
		state:       State{Since: o.Clock.Now()},
	}
	l.heard.add(e.LastEventID)
	return l
}

// run listens until the context ends.
func (l *listener) run(ctx context.Context) {
	defer close(l.done)
	defer l.access.close()
	var delivery sync.WaitGroup
	defer delivery.Wait()
	delivery.Go(func() { l.mail.deliver(ctx) })

	backoff := l.backoff()
	next := rand.N(l.pace.spread + 1) //nolint:gosec // It spreads load and keeps no secret.
	phased := l.pace.spread == 0
	for sleep(ctx, l.options.Clock, next) == nil {
		began := l.options.Clock.Now()
		var end ending
		err := safely(func() (err error) {
			end, err = l.attempt(ctx)
			return err
		})
		switch {
		case ctx.Err() != nil:
			return
		case end.again:
			next = 0
			continue
		case err != nil && !end.steady:
			l.failed(err)
			next = max(backoff.Step(), min(end.retryAfter, l.pace.most))
			continue
		case end.steady:
			next = wait.Jitter(max(l.pace.least, l.retry), jitter)
		default:
			interval := max(l.endpoint.Interval, l.pace.least)
			if next = max(interval-l.options.Clock.Since(began), 0); !phased {
				// Many that began together do not poll together for ever.
				phased, next = true, rand.N(next+1) //nolint:gosec // As above.
			}
		}
		l.failures = 0
		backoff = l.backoff()
	}
}

func (l *listener) backoff() wait.Backoff {
	return wait.Backoff{Duration: max(l.pace.least, l.retry), Factor: 2, Jitter: jitter, Steps: 32, Cap: l.pace.most}
}

// ending says how an attempt went.
type ending struct {
	// steady says that the answer was held for long, or held a message that had not come before: when it ends, be it in the
	// middle, the endpoint is asked for the rest soon. What ends at once without anything new is polled.
	steady bool
	// again says that a Secret has changed, so that the next attempt need not wait.
	again bool
	// retryAfter is how long the endpoint asks to be left alone.
	retryAfter time.Duration
}

// attempt asks the endpoint once and listens until its answer ends. An error says that the answer is not as it should be,
// or broke off.
func (l *listener) attempt(ctx context.Context) (ending, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	client, token, err := l.access.get(ctx)
	if err != nil {
		return ending{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.endpoint.URL, nil)
	if err != nil {
		return ending{}, unreachable("is not a URL")
	}
	req.Header.Set("Accept", "text/event-stream, application/x-ndjson, application/json;q=0.9")
	req.Header.Set("Cache-Control", "no-cache")
	req.Header.Set("User-Agent", "pd-orchestrator")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if l.resumeAfter != "" {
		req.Header.Set("Last-Event-ID", l.resumeAfter)
	}
	asked := l.options.Clock.Now()
	resp, err := client.Do(req)
	if ctx.Err() == nil {
		l.options.Asked(l.options.Clock.Since(asked), err != nil || resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusNoContent)
	}
	if err != nil {
		l.options.Log.V(1).Info("Could not reach the signal endpoint", "reason", withoutURL(err).Error())
		return ending{again: isUntrusted(err) && l.access.refresh(ctx)}, explain(err)
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNoContent:
		l.connected()
		return ending{}, nil
	default:
		var e ending
		if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
			e.again = l.access.refresh(ctx)
		}
		if seconds, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 16); err == nil {
			e.retryAfter = time.Duration(seconds) * time.Second
		}
		return e, refusedWith(resp.StatusCode, token != "")
	}
	idle := time.AfterFunc(l.pace.idle, func() { cancel(errIdle) })
	defer idle.Stop()
	in, transport, err := l.open(resp.Header.Get("Content-Type"), &awake{resp.Body, idle, l.pace.idle})
	if err != nil {
		return ending{}, err
	}
	if l.broke {
		// The endpoint would be found to answer and to fail in turns.
		proof := time.AfterFunc(l.pace.stable, l.connected)
		defer proof.Stop()
	} else {
		l.connected()
	}
	opened := l.options.Clock.Now()
	news, err := l.listen(ctx, in, transport)
	steady := news && transport != Poll || l.options.Clock.Since(opened) >= l.pace.stable
	if l.broke = err != nil && !steady; !l.broke {
		l.connected()
	}
	return ending{steady: steady}, err
}

// open finds out from its type what an answer is.
func (l *listener) open(contentType string, body io.Reader) (frames, Transport, error) {
	in := lines{r: bufio.NewReader(body)}
	mediaType, _, _ := mime.ParseMediaType(contentType)
	switch mediaType {
	case "text/event-stream":
		return &eventFrames{lines: in, retry: func(d time.Duration) { l.retry = min(d, l.pace.most) }}, Events, nil
	case "application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines", "application/json-lines":
		return &lineFrames{lines: in}, Lines, nil
	case "application/json", "text/plain", "":
		// Simple servers do not say what they send. What is no message is refused all the same.
		return &valueFrames{lines: in}, Poll, nil
	}
	return nil, "", unreachable(fmt.Sprintf("answers with Content-Type %.64q: must be text/event-stream, application/x-ndjson or application/json", mediaType))
}

// listen hears all messages of an answer, and tells whether one of them has an id that had not come before.
func (l *listener) listen(ctx context.Context, in frames, transport Transport) (news bool, err error) {
	// A stream that resumes at an earlier place than it should begins with what came before. A poll holds the present.
	replay := transport != Poll
	for {
		f, err := in.next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(context.Cause(ctx), errIdle):
			return news, nil
		case errors.Is(err, errEndless):
			l.refused(&signals.Error{Outcome: signals.Outcome{Result: signals.Oversized, Reason: err.Error()}}, transport)
			return news, unreachable("sends a message that does not end")
		case err != nil:
			return news, unreachable("breaks off its answers")
		}
		resume, m, err := read(f)
		if resume != nil {
			if replay && *resume != "" {
				if l.heard.has(*resume) {
					replay = *resume != l.heard.last()
					if m != nil || err != nil {
						l.options.Observe(signals.Repeated, transport)
					}
					continue
				}
				replay = false
			}
			if *resume != "" {
				news = true
				l.connected()
			}
			l.resumeAfter = *resume
			l.heard.add(*resume)
		}
		switch {
		case err != nil:
			l.refused(err, transport)
		case m != nil:
			l.update(func(s *State) { s.Refused = "" })
			l.mail.put(letter{*m, transport})
		}
	}
}

// read makes a message of a frame, nil where it holds none. The id to resume after is that of the event, or else that of the
// message; nil leaves it as it is.
func read(f frame) (resume *string, m *signals.Message, err error) {
	if f.id != nil && !signals.ValidID(*f.id) {
		return nil, nil, signals.Refuse(signals.Malformed, "the id of an event is too long or has control characters")
	}
	switch {
	case f.oversized:
		return f.id, nil, signals.Refuse(signals.Oversized, "a message has more than %d bytes", signals.MaxBytes)
	case len(f.data) == 0:
		return f.id, nil, nil
	}
	parsed, err := signals.Parse(f.data)
	if err != nil {
		return f.id, nil, err
	}
	if f.id != nil && *f.id != "" {
		parsed.ID = *f.id
	}
	if parsed.ID != "" {
		return &parsed.ID, &parsed, nil
	}
	return f.id, &parsed, nil
}

// refused counts a message that cannot be read.
func (l *listener) refused(err error, transport Transport) {
	result := signals.Malformed
	var e *signals.Error
	if errors.As(err, &e) {
		result = e.Result
	}
	l.options.Observe(result, transport)
	l.update(func(s *State) { s.Refused = err.Error() })
}

func (l *listener) connected() {
	l.update(func(s *State) { s.Connected, s.Reason, s.Error = true, "", "" })
}

// failed shows why the endpoint is not listened at: at once where it never was, and else when it fails twice.
func (l *listener) failed(err error) {
	l.failures++
	var f *fault
	if !errors.As(err, &f) {
		l.options.Log.Error(err, "Listening failed in an unforeseen way")
		f = unreachable("could not be listened at")
	}
	l.update(func(s *State) {
		if !s.Connected || l.failures > 1 {
			s.Connected, s.Reason, s.Error = false, f.reason, f.message
		}
	})
}

func (l *listener) current() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

func (l *listener) update(change func(*State)) {
	l.mu.Lock()
	before := l.state
	change(&l.state)
	if l.state.Connected != before.Connected {
		l.state.Since = l.options.Clock.Now()
	}
	changed := l.state != before
	l.mu.Unlock()
	if changed {
		l.enqueue(l.key)
	}
}

// awake is an answer whose every byte puts off the moment when nothing came for too long.
type awake struct {
	io.Reader
	idle  *time.Timer
	limit time.Duration
}

func (a *awake) Read(p []byte) (int, error) {
	n, err := a.Reader.Read(p)
	if n > 0 {
		a.idle.Reset(a.limit)
	}
	return n, err
}

// recent are the ids that came last, in the order in which they came.
type recent struct{ ids []string }

const recentIDs = 128

func (r *recent) has(id string) bool { return slices.Contains(r.ids, id) }

func (r *recent) last() string { return r.ids[len(r.ids)-1] }

func (r *recent) add(id string) {
	if id == "" || len(r.ids) > 0 && r.last() == id {
		return
	}
	if len(r.ids) == recentIDs {
		r.ids = slices.Delete(r.ids, 0, 1)
	}
	r.ids = append(r.ids, id)
}

// sleep returns nil when the time has passed.
func sleep(ctx context.Context, c clock.Clock, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C():
		return nil
	}
}

// safely turns a panic into an error: what an endpoint sends must not take down the manager.
func safely(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}
