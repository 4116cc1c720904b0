// Package faulty serves what scalers ask of the world, metrics and signals, and
// misbehaves as a test tells it to. It listens on loopback, on ports that the
// kernel picks, and is plain Go: it needs no lab.
package faulty

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pd-orchestrator/pd-orchestrator/lab/internal/pki"
	"github.com/pd-orchestrator/pd-orchestrator/lab/internal/process"
)

// Options of a Server. The zero value is plain HTTP for everybody.
type Options struct {
	// TLS serves HTTPS, with a certificate of an authority of the server's own.
	TLS bool
	// Hosts are the names and addresses in the certificate. None means those by
	// which the server is reached: localhost and 127.0.0.1.
	Hosts []string
	// Token is the bearer token without which a request is answered 401. Empty
	// means that none is asked for.
	Token string
}

// Server answers HTTP requests as a test sets it to, and records them. Until an
// answer is set it answers 404. Its methods are safe for concurrent use.
type Server struct {
	options Options
	port    *process.Port
	ca      []byte
	tls     *tls.Config

	mu       sync.Mutex
	http     *http.Server
	token    string
	answers  map[target]http.Handler
	requests []Request
	inFlight int
	peak     int
}

// Request is one that arrived, whatever became of it.
type Request struct {
	Time   time.Time
	Method string
	Path   string
	// Query is the parameter "query", in the URL or in a form.
	Query string
	// Header is a copy of all headers. A bearer token is among them.
	Header http.Header
	// Refused is true for a request without the right token.
	Refused bool
}

// target chooses requests; an empty field fits all.
type target struct{ path, query string }

// Start starts a server.
func Start(options Options) (*Server, error) {
	port, err := process.ReservePort("127.0.0.1")
	if err != nil {
		return nil, err
	}
	s := &Server{options: options, port: port, token: options.Token, answers: map[target]http.Handler{}}
	if options.TLS {
		if err := s.certify(); err != nil {
			return nil, errors.Join(err, port.Close())
		}
	}
	if err := s.Up(); err != nil {
		return nil, errors.Join(err, port.Close())
	}
	return s, nil
}

func (s *Server) certify() error {
	hosts := s.options.Hosts
	if len(hosts) == 0 {
		hosts = []string{"localhost", "127.0.0.1"}
	}
	authority, err := pki.NewAuthority("faulty")
	if err != nil {
		return err
	}
	pair, err := authority.Serving(hosts[0], hosts...)
	if err != nil {
		return err
	}
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return fmt.Errorf("loading a certificate: %w", err)
	}
	s.ca = authority.Bundle()
	s.tls = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	return nil
}

// URL returns the base URL, without a slash at its end. It stays the same while
// the server is down.
func (s *Server) URL() string {
	scheme := "http"
	if s.options.TLS {
		scheme = "https"
	}
	return scheme + "://" + s.port.HostPort()
}

// CABundle returns the certificate of the authority to trust, as PEM. It is
// empty without TLS.
func (s *Server) CABundle() []byte { return s.ca }

// Up listens again after Down. A server that listens is left alone.
func (s *Server) Up() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.http != nil {
		return nil
	}
	listener, err := net.Listen("tcp", s.port.HostPort()) //nolint:noctx // On loopback it does not wait.
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	if s.tls != nil {
		listener = tls.NewListener(listener, s.tls)
	}
	server := &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		ReadHeaderTimeout: time.Minute,
		// What goes wrong here is meant to.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	s.http = server
	go func() { _ = server.Serve(listener) }()
	return nil
}

// Down closes all connections and refuses new ones until Up.
func (s *Server) Down() error {
	s.mu.Lock()
	server := s.http
	s.http = nil
	s.mu.Unlock()
	if server == nil {
		return nil
	}
	return server.Close()
}

// Close ends the server and gives its port back.
func (s *Server) Close() error { return errors.Join(s.Down(), s.port.Close()) }

// Answer sets the answer to all requests for which no other is set.
func (s *Server) Answer(answer http.Handler) { s.set(target{}, answer) }

// AnswerPath sets the answer to requests with a path, such as "/metrics".
func (s *Server) AnswerPath(path string, answer http.Handler) { s.set(target{path: path}, answer) }

// AnswerQuery sets the answer to requests whose parameter "query", in the URL
// or in a form, is exactly this. It goes before that of a path.
func (s *Server) AnswerQuery(query string, answer http.Handler) { s.set(target{query: query}, answer) }

func (s *Server) set(t target, answer http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[t] = answer
}

// SetToken changes the bearer token that is asked for; empty means none.
func (s *Server) SetToken(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token
}

// Requests returns what has arrived, oldest first.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Count returns how many requests have arrived with a path and a query. An
// empty one fits all.
func (s *Server) Count(path, query string) int {
	count := 0
	for _, request := range s.Requests() {
		if (path == "" || request.Path == path) && (query == "" || request.Query == query) {
			count++
		}
	}
	return count
}

// Peak returns the largest number of requests that were being answered at a
// time.
func (s *Server) Peak() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peak
}

// Forget clears Requests, Count and Peak.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests, s.peak = nil, s.inFlight
}

// formLimit bounds the forms that are read, in bytes.
const formLimit = 1 << 20

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, formLimit)
	// FormValue reads a body only where its type is that of a form.
	request := Request{Time: time.Now(), Method: r.Method, Path: r.URL.Path, Query: r.FormValue("query"), Header: r.Header.Clone()}
	answer := s.begin(request)
	defer s.end()
	answer.ServeHTTP(w, r)
}

// begin records a request and chooses its answer.
func (s *Server) begin(request Request) http.Handler {
	s.mu.Lock()
	defer s.mu.Unlock()
	token, found := strings.CutPrefix(request.Header.Get("Authorization"), "Bearer ")
	request.Refused = s.token != "" && (!found || token != s.token)
	s.requests = append(s.requests, request)
	s.inFlight++
	s.peak = max(s.peak, s.inFlight)
	if request.Refused {
		return Status(http.StatusUnauthorized, "a token is missing or wrong")
	}
	if answer, ok := s.answers[target{query: request.Query}]; ok && request.Query != "" {
		return answer
	}
	for _, t := range []target{{path: request.Path}, {}} {
		if answer, ok := s.answers[t]; ok {
			return answer
		}
	}
	return http.NotFoundHandler()
}

func (s *Server) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight--
}
