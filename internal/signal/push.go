package signal

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/signals"
)

// PushPath is where pushed signals are served, before the namespace and the name of the ElasticScaler.
const PushPath = "/signals/"

// PushOptions says how pushed signals are taken. Observe is optional.
type PushOptions struct {
	// Acceptor takes the messages.
	Acceptor Acceptor
	// Reviews creates TokenReviews and SubjectAccessReviews. It should have a rate limit of its own: whoever can reach the
	// port can have the manager ask for a review.
	Reviews client.Writer
	// Observe is called once for each request.
	Observe Observe
	// Clock tells the time.
	Clock clock.PassiveClock
	// Log gets who pushed the signals that were accepted, and what the answers do not tell.
	Log logr.Logger
}

// remembered is how many objects and tokens are remembered at most, of each kind of memory.
const remembered = 4096

// push is the handler of pushed signals.
type push struct {
	options PushOptions
	access  *reviewer

	mu sync.Mutex
	// limits are the rate limits of objects that were signalled lately.
	limits *cache.LRUExpireCache
}

// NewHandler serves POST /signals/{namespace}/{name}. Every replica may serve it.
func NewHandler(o PushOptions) http.Handler {
	if o.Observe == nil {
		o.Observe = func(signals.Result, Transport) {}
	}
	return &push{
		options: o,
		access:  newReviewer(o.Reviews, o.Clock),
		limits:  cache.NewLRUExpireCacheWithClock(remembered, o.Clock),
	}
}

// answer is the outcome of a request.
type answer struct {
	status  int
	outcome signals.Outcome
}

func refuse(status int, result signals.Result, format string, args ...any) answer {
	return answer{status, signals.Outcome{Result: result, Reason: fmt.Sprintf(format, args...)}}
}

// ServeHTTP takes one signal.
func (p *push) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var a answer
	if err := safely(func() error {
		a = p.take(w, r)
		return nil
	}); err != nil {
		p.options.Log.Error(err, "Taking a pushed signal failed in an unforeseen way")
		a = refuse(http.StatusInternalServerError, signals.Failed, "the signal was not recorded")
	}
	p.options.Observe(a.outcome.Result, Push)
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	switch a.status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Bearer")
	case http.StatusMethodNotAllowed:
		h.Set("Allow", http.MethodPost)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(a.status)
	_ = json.NewEncoder(w).Encode(map[string]string{"result": string(a.outcome.Result), "message": a.outcome.Reason})
}

// take checks who pushes before it looks at what: a stranger learns nothing of which objects there are.
func (p *push) take(w http.ResponseWriter, r *http.Request) answer {
	key, ok := pushedTo(r.URL)
	if !ok {
		return refuse(http.StatusNotFound, signals.NotFound, "the path must be %s{namespace}/{name}", PushPath)
	}
	if r.Method != http.MethodPost {
		return refuse(http.StatusMethodNotAllowed, signals.Malformed, "the method must be POST")
	}
	token, ok := bearer(r.Header)
	if !ok {
		return refuse(http.StatusUnauthorized, signals.Unauthorized, "the request must have a header Authorization: Bearer with a token of the cluster")
	}
	ctx, cancel := context.WithTimeout(r.Context(), recordTimeout)
	defer cancel()
	user, result, err := p.access.check(ctx, token, key)
	switch {
	case err != nil:
		p.options.Log.Error(err, "Could not find out who pushes a signal", "elasticScaler", key)
		return refuse(http.StatusServiceUnavailable, signals.Failed, "who you are and what you may do could not be found out; try again")
	case result == signals.Unauthorized:
		return refuse(http.StatusUnauthorized, result, "the token is not valid in this cluster")
	case result == signals.Forbidden:
		return refuse(http.StatusForbidden, result, "user %q must be allowed to update elasticscalers/signal of group elasticscaler.io, name %q, in namespace %q", user, key.Name, key.Namespace)
	case result == signals.Limited:
		return refuse(http.StatusTooManyRequests, result, "too many strangers ask at a time; try again")
	}
	if !p.limit(key).TryAccept() {
		return refuse(http.StatusTooManyRequests, signals.Limited, "more than %d signals a second came for this ElasticScaler; try again", recordsPerSecond)
	}
	mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if mediaType != "application/json" || r.Header.Get("Content-Encoding") != "" {
		return refuse(http.StatusUnsupportedMediaType, signals.Malformed, "the request must have a header Content-Type: application/json, and no Content-Encoding")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, signals.MaxBytes))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return refuse(http.StatusRequestEntityTooLarge, signals.Oversized, "the body must have at most %d bytes", signals.MaxBytes)
	case err != nil:
		return refuse(http.StatusBadRequest, signals.Malformed, "the body broke off")
	}
	message, err := signals.Parse(body)
	var unread *signals.Error
	switch {
	case errors.As(err, &unread):
		return answer{http.StatusBadRequest, unread.Outcome}
	case err != nil:
		return refuse(http.StatusBadRequest, signals.Malformed, "the message cannot be read")
	}
	outcome, err := p.options.Acceptor.Accept(ctx, key, message)
	if err != nil {
		p.options.Log.Error(err, "Could not record a pushed signal", "elasticScaler", key)
		return refuse(http.StatusServiceUnavailable, signals.Failed, "the signal was not recorded; try again")
	}
	switch outcome.Result {
	case signals.Accepted:
		p.options.Log.Info("Accepted a pushed signal", "elasticScaler", key, "signal", message.Signal, "id", message.ID, "user", user)
		return answer{http.StatusAccepted, outcome}
	case signals.Repeated, signals.Late:
		return answer{http.StatusOK, outcome}
	case signals.NotFound:
		return answer{http.StatusNotFound, outcome}
	default:
		return answer{http.StatusBadRequest, outcome}
	}
}

// pushedTo is the ElasticScaler that a path names. It has one spelling.
func pushedTo(u *url.URL) (types.NamespacedName, bool) {
	rest, ok := strings.CutPrefix(u.EscapedPath(), PushPath)
	namespace, name, both := strings.Cut(rest, "/")
	if !ok || !both || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, true
}

// bearer is the token of a request. What cannot be a token need not be asked about.
func bearer(h http.Header) (string, bool) {
	values := h.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	const inside = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/"
	rest := strings.TrimLeft(token, inside)
	return token, strings.EqualFold(scheme, "Bearer") && len(rest) < len(token) && strings.Trim(rest, "=") == ""
}

func (p *push) limit(key types.NamespacedName) flowcontrol.PassiveRateLimiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	found, ok := p.limits.Get(key)
	limit, _ := found.(flowcontrol.PassiveRateLimiter)
	if !ok {
		limit = flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(recordsPerSecond, recordsAtOnce, p.options.Clock)
	}
	p.limits.Add(key, limit, time.Minute)
	return limit
}

// NewServer serves the handler at the address over HTTPS, on every replica. It listens already when it returns, so that
// an address that is taken is found at start.
func NewServer(address string, handler http.Handler, certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)) (*manager.Server, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for pushed signals: %w", err)
	}
	shutdown := 15 * time.Second
	return &manager.Server{
		Name: "signals",
		Listener: tls.NewListener(listener, &tls.Config{
			GetCertificate: certificate,
			MinVersion:     tls.VersionTLS12,
			NextProtos:     []string{"http/1.1"},
		}),
		Server: &http.Server{
			Handler: handler,
			// The head includes the handshake. All are far more than an honest client needs.
			ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout:       10 * time.Second,
			WriteTimeout:      30 * time.Second,
			IdleTimeout:       time.Minute,
			MaxHeaderBytes:    16 << 10,
			// It would tell of strangers' handshakes only.
			ErrorLog: log.New(io.Discard, "", 0),
		},
		ShutdownTimeout: &shutdown,
	}, nil
}
