package signal

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/metricsource"
)

const (
	// readTimeout is how long the API server is waited for.
	readTimeout = 10 * time.Second
	// maxAnswerHead is how many bytes the head of an answer has at most.
	maxAnswerHead = 64 << 10
)

// access is how an endpoint is reached: with which token, and with which certificates trusted.
type access struct {
	options Options
	pace    pace
	token   *secret
	ca      *secret
	// client is made for the certificates in trusted.
	client  *http.Client
	trusted []byte
}

func newAccess(namespace string, e Endpoint, o Options, p pace) *access {
	a := &access{options: o, pace: p}
	if e.Token != nil {
		a.token = &secret{name: types.NamespacedName{Namespace: namespace, Name: e.Token.Name}, key: e.Token.Key, access: a}
	}
	if e.CA != nil {
		a.ca = &secret{name: types.NamespacedName{Namespace: namespace, Name: e.CA.Name}, key: e.CA.Key, access: a}
	}
	return a
}

// get returns a client and the token to send, empty for none.
func (a *access) get(ctx context.Context) (*http.Client, string, error) {
	var token, ca []byte
	var err error
	if a.token != nil {
		if token, err = a.token.get(ctx); err != nil {
			return nil, "", err
		}
		if token = bytes.TrimSpace(token); len(token) == 0 || bytes.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, "", unreachable(fmt.Sprintf("needs a token, and key %s of Secret %s holds none", a.token.key, a.token.name.Name))
		}
	}
	pool := a.options.RootCAs
	if a.ca != nil {
		if ca, err = a.ca.get(ctx); err != nil {
			return nil, "", err
		}
		if pool = x509.NewCertPool(); !pool.AppendCertsFromPEM(ca) {
			return nil, "", unreachable(fmt.Sprintf("needs a CA, and key %s of Secret %s holds no PEM certificate", a.ca.key, a.ca.name.Name))
		}
	}
	if a.client == nil || !bytes.Equal(a.trusted, ca) {
		a.close()
		a.client, a.trusted = a.newClient(pool), ca
	}
	return a.client, string(token), nil
}

// refresh reads the Secrets again, where that was not done lately, and tells whether one has changed.
func (a *access) refresh(ctx context.Context) bool {
	changed := a.token != nil && a.token.refresh(ctx)
	return a.ca != nil && a.ca.refresh(ctx) || changed
}

func (a *access) close() {
	if a.client != nil {
		a.client.CloseIdleConnections()
	}
}

func (a *access) newClient(pool *x509.CertPool) *http.Client {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, a.pace.dial)
		defer cancel()
		conn, err := a.options.DialContext(ctx, network, address)
		if tcp, ok := conn.(*net.TCPConn); ok && err == nil {
			// A peer that is gone without a word is noticed within the idle time even where this fails.
			_ = tcp.SetKeepAliveConfig(a.pace.keepAlive)
		}
		return conn, err
	}
	return &http.Client{
		// No proxy: the address that was checked is the one that is reached.
		Transport: &http.Transport{
			DialContext:            dial,
			TLSClientConfig:        &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    a.pace.dial,
			ResponseHeaderTimeout:  a.pace.answer,
			IdleConnTimeout:        a.pace.idle,
			MaxIdleConnsPerHost:    1,
			MaxResponseHeaderBytes: maxAnswerHead,
			// A compressed answer can be far larger than what is read of it.
			DisableCompression: true,
		},
		// A redirect can lead to another host or to plain http, and would take the token there.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// secret is one key of a Secret, read when it is needed.
type secret struct {
	name   types.NamespacedName
	key    string
	access *access

	value  []byte
	err    error
	readAt time.Time
}

func (s *secret) get(ctx context.Context) ([]byte, error) {
	if s.readAt.IsZero() || s.err != nil {
		s.refresh(ctx)
	}
	return s.value, s.err
}

func (s *secret) refresh(ctx context.Context) (changed bool) {
	now := s.access.options.Clock.Now()
	if !s.readAt.IsZero() && now.Sub(s.readAt) < s.access.pace.reread {
		return false
	}
	s.readAt = now
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	before := s.value
	s.value, s.err = s.read(ctx)
	return s.err == nil && !bytes.Equal(before, s.value)
}

func (s *secret) read(ctx context.Context) ([]byte, error) {
	var obj corev1.Secret
	switch err := s.access.options.Secrets.Get(ctx, s.name, &obj); {
	case apierrors.IsNotFound(err):
		return nil, &fault{v1alpha1.ReasonSecretNotFound, fmt.Sprintf("Secret %s does not exist", s.name.Name)}
	case apierrors.IsForbidden(err):
		return nil, &fault{v1alpha1.ReasonEndpointUnreachable, fmt.Sprintf("the manager may not read Secret %s", s.name.Name)}
	case err != nil:
		s.access.options.Log.Error(err, "Could not read a Secret", "secret", s.name)
		return nil, &fault{v1alpha1.ReasonEndpointUnreachable, fmt.Sprintf("Secret %s could not be read", s.name.Name)}
	}
	value, ok := obj.Data[s.key]
	if !ok {
		return nil, &fault{v1alpha1.ReasonSecretNotFound, fmt.Sprintf("Secret %s has no key %s", s.name.Name, s.key)}
	}
	return value, nil
}

// errIdle says that nothing came for so long that the endpoint may be gone without a word.
var errIdle = errors.New("nothing came for too long")

// fault is why an endpoint is not listened at, in words that stay the same from one attempt to the next.
type fault struct{ reason, message string }

func (f *fault) Error() string { return f.message }

func unreachable(what string) *fault {
	return &fault{v1alpha1.ReasonEndpointUnreachable, "the endpoint " + what}
}

func refusedWith(status int, hadToken bool) *fault {
	words := fmt.Sprintf("answers with status %d %s", status, http.StatusText(status))
	switch {
	case status >= 300 && status < 400:
		words += ": redirects are not followed, name the address that they lead to"
	case status != http.StatusUnauthorized && status != http.StatusForbidden:
	case hadToken:
		words += ": it does not take the token"
	default:
		words += ": it was sent no token, which tokenSecretRef can name"
	}
	return unreachable(words)
}

// explain puts into words why no answer came.
func explain(err error) *fault {
	var guarded *metricsource.Error
	if errors.As(err, &guarded) && guarded.Reason == metricsource.EndpointForbidden {
		return &fault{v1alpha1.ReasonEndpointForbidden, guarded.Message}
	}
	return unreachable(metricsource.Unreachable(err))
}

func isUntrusted(err error) bool {
	var e *tls.CertificateVerificationError
	return errors.As(err, &e)
}

// withoutURL leaves out the URL, whose query may hold what is secret.
func withoutURL(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}
