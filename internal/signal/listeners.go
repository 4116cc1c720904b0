package signal

import (
	"context"
	"crypto/x509"
	"net"
	"reflect"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/signals"
)

// Options says how endpoints are listened at. DialContext, RootCAs, Observe and Asked are optional.
type Options struct {
	// Acceptor takes the messages.
	Acceptor Acceptor
	// Secrets reads Secrets by name from the API server, not from a cache.
	Secrets client.Reader
	// DialContext dials an endpoint; it is that of a metricsource.Guard.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// RootCAs are trusted where an endpoint names no CA; nil for the system's.
	RootCAs *x509.CertPool
	// Observe is called once for each message.
	Observe Observe
	// Asked is called after each request to an endpoint with how long it took until the answer began, and whether there was
	// none, or one that is neither 200 nor 204.
	Asked func(took time.Duration, failed bool)
	// Clock tells the time, and how long it is until the next attempt or poll.
	Clock clock.Clock
	// Log gets what the conditions do not show.
	Log logr.Logger
}

// Endpoint is where signals come from.
type Endpoint struct {
	// UID is that of the ElasticScaler. Another one of the same name begins anew.
	UID types.UID
	// URL is http or https, without user name and password.
	URL string
	// Interval between two polls where the endpoint closes its connection.
	Interval time.Duration
	// LastEventID is the id of the last accepted signal, after which the endpoint resumes. It is read when listening
	// begins; from then on the listener knows better.
	LastEventID string
	// Token is the Secret key, in the namespace of the scaler, with the bearer token. Nil: none is sent.
	Token *v1alpha1.SecretKeyReference
	// CA is the Secret key, in the namespace of the scaler, with the PEM certificates to trust. Nil: Options.RootCAs.
	CA *v1alpha1.SecretKeyReference
}

// State is how listening goes.
type State struct {
	// Connected says that the endpoint answers as it should. A connection that ends, as all do some day, leaves it true
	// unless the two attempts after it fail.
	Connected bool
	// Since is when Connected became what it is.
	Since time.Time
	// Reason of Error in one word: EndpointUnreachable, EndpointForbidden or SecretNotFound. Empty while Connected, and
	// before the first attempt has ended.
	Reason string
	// Error says in a sentence why the endpoint is not listened at. It holds nothing that changes from one attempt to the
	// next, and no credentials.
	Error string
	// Refused says in a sentence why the last message of the endpoint could not be read. Empty once one can.
	Refused string
}

// Listeners listens at the endpoint of each ElasticScaler with a SignalTrigger, and hands on what it hears.
type Listeners struct {
	options Options
	pace    pace

	mu     sync.Mutex
	byKey  map[types.NamespacedName]*listener
	queue  workqueue.TypedRateLimitingInterface[reconcile.Request]
	closed bool
	// running counts the goroutines of the listeners.
	running sync.WaitGroup
}

// New returns listeners without endpoints.
func New(o Options) *Listeners {
	if o.DialContext == nil {
		o.DialContext = (&net.Dialer{}).DialContext
	}
	if o.Observe == nil {
		o.Observe = func(signals.Result, Transport) {}
	}
	if o.Asked == nil {
		o.Asked = func(time.Duration, bool) {}
	}
	return &Listeners{options: o, pace: defaultPace, byKey: map[types.NamespacedName]*listener{}}
}

// Set listens at the endpoint from now on, instead of the one before. The same endpoint again changes nothing.
func (l *Listeners) Set(key types.NamespacedName, e Endpoint) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	before := l.byKey[key]
	if before != nil {
		resumed := e
		resumed.LastEventID = before.endpoint.LastEventID
		if reflect.DeepEqual(resumed, before.endpoint) {
			return
		}
		before.cancel()
		if e.UID == before.endpoint.UID && e.URL != before.endpoint.URL {
			// The ids of one endpoint mean nothing to another.
			e.LastEventID = ""
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	next := newListener(key, e, l.options, l.pace, l.enqueue)
	next.cancel = cancel
	l.byKey[key] = next
	l.running.Go(func() {
		if before != nil {
			// What the one before has in hand is judged first.
			<-before.done
		}
		next.run(ctx)
	})
}

// Forget stops to listen.
func (l *Listeners) Forget(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if gone, ok := l.byKey[key]; ok {
		gone.cancel()
		delete(l.byKey, key)
	}
}

// State returns how listening goes, false where nothing is listened at.
func (l *Listeners) State(key types.NamespacedName) (State, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.byKey[key]; ok {
		return at.current(), true
	}
	return State{}, false
}

// Source enqueues an ElasticScaler when a signal of its endpoint was accepted, and when what State returns has changed.
// One controller may use it.
func (l *Listeners) Source() source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.queue = queue
		for key := range l.byKey {
			queue.Add(reconcile.Request{NamespacedName: key})
		}
		return nil
	})
}

func (l *Listeners) enqueue(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queue != nil {
		l.queue.Add(reconcile.Request{NamespacedName: key})
	}
}

// NeedLeaderElection says that only the leader listens.
func (l *Listeners) NeedLeaderElection() bool { return true }

// Start waits until the context ends, and then until nothing listens any more.
func (l *Listeners) Start(ctx context.Context) error {
	<-ctx.Done()
	l.mu.Lock()
	l.closed = true
	for key, at := range l.byKey {
		at.cancel()
		delete(l.byKey, key)
	}
	l.mu.Unlock()
	l.running.Wait()
	return nil
}
