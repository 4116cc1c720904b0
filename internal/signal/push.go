package signal

import (
	"crypto/tls"
	"errors"
	"net/http"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// PushOptions says how pushed signals are taken. Observe is optional.
type PushOptions struct {
	// Acceptor takes the messages.
	Acceptor Acceptor
	// Reviews creates TokenReviews and SubjectAccessReviews. It should have a rate limit of its own: whoever can reach the
	// port can have the manager ask for a review.
	Reviews client.Writer
	// Observe is called once for each request to push a signal.
	Observe Observe
	// Clock tells the time.
	Clock clock.Clock
	// Log gets what the answers do not tell.
	Log logr.Logger
}

// NewHandler serves POST /signals/{namespace}/{name}. Every replica may serve it.
func NewHandler(o PushOptions) http.Handler {
	_ = o
	return http.NotFoundHandler()
}

// NewServer serves the handler at the address over HTTPS, on every replica. It listens already when it returns, so that
// an address that is taken is found at start.
func NewServer(address string, handler http.Handler, certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)) (*manager.Server, error) {
	_, _, _ = address, handler, certificate
	return nil, errors.New("not built yet")
}
