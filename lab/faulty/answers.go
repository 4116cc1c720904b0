package faulty

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Body answers 200 with a body of a type.
func Body(contentType, body string) http.Handler {
	return answer(http.StatusOK, contentType, body)
}

// Text answers with the text format of Prometheus.
func Text(body string) http.Handler { return Body("text/plain; version=0.0.4; charset=utf-8", body) }

// JSON answers with JSON, which need not be valid.
func JSON(body string) http.Handler { return Body("application/json", body) }

// Status answers with a status and a plain text.
func Status(status int, text string) http.Handler {
	return answer(status, "text/plain; charset=utf-8", text)
}

func answer(status int, contentType, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

// As gives another answer's body under another status and type. An empty type,
// or status 0, stays what it is.
func As(status int, contentType string, other http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorded := record(other, r)
		if contentType == "" {
			contentType = recorded.Header().Get("Content-Type")
		}
		if status == 0 {
			status = recorded.Code
		}
		answer(status, contentType, recorded.Body.String()).ServeHTTP(w, r)
	})
}

// Redirect sends the client elsewhere, with a status such as 307.
func Redirect(status int, url string) http.Handler { return http.RedirectHandler(url, status) }

// Slow waits before it answers.
func Slow(delay time.Duration, other http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if pause(r, delay) {
			other.ServeHTTP(w, r)
		}
	})
}

// Drip gives another answer's body byte by byte, with a pause before each. The
// head comes at once.
func Drip(delay time.Duration, other http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorded := record(other, r)
		writeHead(w, recorded)
		for _, b := range recorded.Body.Bytes() {
			flush(w)
			if !pause(r, delay) {
				return
			}
			_, _ = w.Write([]byte{b})
		}
	})
}

// Hang answers nothing until the client gives up or the server goes down.
func Hang() http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
}

// Close closes the connection without an answer. A client that had used the
// connection before may ask once more on a new one.
func Close() http.Handler {
	return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
}

// CutOff closes the connection after half of another answer's body.
func CutOff(other http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorded := record(other, r)
		body := recorded.Body.Bytes()
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		writeHead(w, recorded)
		_, _ = w.Write(body[:len(body)/2])
		flush(w)
		panic(http.ErrAbortHandler)
	})
}

// Huge begins with blanks, so many that the body has a number of bytes, and
// then gives another answer's body: whoever reads all of it finds it in order.
func Huge(bytes int64, other http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorded := record(other, r)
		writeHead(w, recorded)
		blanks := strings.Repeat("\n", 1<<16)
		for left := bytes - int64(recorded.Body.Len()); left > 0; {
			n, err := io.WriteString(w, blanks[:min(left, int64(len(blanks)))])
			if err != nil {
				return
			}
			left -= int64(n)
		}
		_, _ = w.Write(recorded.Body.Bytes())
	})
}

// Sequence gives one answer after another; the last one stands.
func Sequence(answers ...http.Handler) http.Handler {
	var mu sync.Mutex
	next := 0
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		current := answers[min(next, len(answers)-1)]
		next++
		mu.Unlock()
		current.ServeHTTP(w, r)
	})
}

func record(other http.Handler, r *http.Request) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	other.ServeHTTP(recorder, r)
	return recorder
}

func writeHead(w http.ResponseWriter, recorded *httptest.ResponseRecorder) {
	w.Header().Set("Content-Type", recorded.Header().Get("Content-Type"))
	w.WriteHeader(recorded.Code)
}

func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

// pause waits and reports whether the client still does.
func pause(r *http.Request, delay time.Duration) bool {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}
