package faulty

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Transport is how a source of signals hands them over.
type Transport int

const (
	// EventStream holds the connection and writes Server-Sent Events.
	EventStream Transport = iota
	// Lines holds the connection and writes a JSON document per line.
	Lines
	// Polling answers each request with the oldest message that was not handed
	// over yet, or with 204, and closes.
	Polling
	// PollingLatest answers each request with the latest message, again and
	// again, or with 204 before the first, and closes.
	PollingLatest
)

// Message is one signal.
type Message struct {
	// ID is the event's id in an EventStream, and in all transports what a
	// client resumes after.
	ID string
	// Data is the message itself.
	Data string
}

// Signals is a source of signals: set it as the answer of a Server. A client
// that holds a connection gets what is sent from then on, and first, if it
// comes with a Last-Event-ID, what was sent after that. An id that is not known
// brings everything. Its methods are safe for concurrent use.
type Signals struct {
	transport Transport

	mu      sync.Mutex
	sent    []Message
	polled  int
	streams []*stream
}

// stream is one held connection. Signals' lock guards it.
type stream struct {
	// pending is what is still to be written.
	pending string
	ending  ending
	// wake tells that one of these has changed.
	wake chan struct{}
}

// ending is how a connection is to end once nothing is pending.
type ending int

const (
	open ending = iota
	inOrder
	broken
)

// NewSignals returns a source that has sent nothing yet.
func NewSignals(transport Transport) *Signals { return &Signals{transport: transport} }

// Send hands a message to every connection, and keeps it for those that come.
func (s *Signals) Send(message Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, message)
	s.toAll(s.render(message))
}

// Write writes text to every held connection as it is: a comment, half a
// message, one without end.
func (s *Signals) Write(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.toAll(text)
}

// Connections returns how many connections are held.
func (s *Signals) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.streams)
}

// End ends all held connections in good order, after what was sent.
func (s *Signals) End() { s.endAll(inOrder) }

// Cut breaks all held connections, after what was sent.
func (s *Signals) Cut() { s.endAll(broken) }

func (s *Signals) endAll(how ending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.streams {
		one.ending = how
		one.notify()
	}
	s.streams = nil
}

// ServeHTTP implements http.Handler.
func (s *Signals) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch s.transport {
	case Polling, PollingLatest:
		message, ok := s.poll()
		if !ok {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		JSON(message.Data).ServeHTTP(w, r)
	case EventStream:
		s.hold(w, r, "text/event-stream")
	case Lines:
		s.hold(w, r, "application/x-ndjson")
	}
}

func (s *Signals) poll() (Message, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.transport == PollingLatest {
		s.polled = max(0, len(s.sent)-1)
	}
	if s.polled >= len(s.sent) {
		return Message{}, false
	}
	message := s.sent[s.polled]
	s.polled++
	return message, true
}

func (s *Signals) hold(w http.ResponseWriter, r *http.Request, contentType string) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(http.StatusOK)
	flush(w)
	one := s.join(r.Header.Get("Last-Event-ID"))
	defer s.leave(one)
	for {
		text, ending := s.take(one)
		if _, err := io.WriteString(w, text); err != nil {
			return
		}
		flush(w)
		switch ending {
		case open:
		case inOrder:
			return
		case broken:
			panic(http.ErrAbortHandler)
		}
		select {
		case <-one.wake:
		case <-r.Context().Done():
			return
		}
	}
}

func (s *Signals) take(one *stream) (string, ending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := one.pending
	one.pending = ""
	return text, one.ending
}

// join adds a connection, with what it missed.
func (s *Signals) join(last string) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := &stream{wake: make(chan struct{}, 1)}
	if last != "" {
		missed := s.sent
		if i := slices.IndexFunc(s.sent, func(m Message) bool { return m.ID == last }); i >= 0 {
			missed = s.sent[i+1:]
		}
		for _, message := range missed {
			one.pending += s.render(message)
		}
	}
	s.streams = append(s.streams, one)
	return one
}

func (s *Signals) leave(one *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams = slices.DeleteFunc(s.streams, func(other *stream) bool { return other == one })
}

func (s *Signals) toAll(text string) {
	for _, one := range s.streams {
		one.pending += text
		one.notify()
	}
}

func (one *stream) notify() {
	select {
	case one.wake <- struct{}{}:
	default:
	}
}

func (s *Signals) render(message Message) string {
	if s.transport != EventStream {
		return message.Data + "\n"
	}
	var text strings.Builder
	if message.ID != "" {
		_, _ = fmt.Fprintf(&text, "id: %s\n", message.ID)
	}
	for line := range strings.SplitSeq(message.Data, "\n") {
		_, _ = fmt.Fprintf(&text, "data: %s\n", line)
	}
	return text.String() + "\n"
}
