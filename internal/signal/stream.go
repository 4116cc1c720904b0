package signal

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/signals"
)

const (
	// maxLine leaves room for the name of the field before a message.
	maxLine = signals.MaxBytes + 64
	// maxSkipped is how much of one message that is too long is skipped before the connection is given up.
	maxSkipped = 1 << 20
)

// errEndless says that a message never ends.
var errEndless = errors.New("a message of the endpoint does not end")

// frame is one message of an answer, not yet read.
type frame struct {
	// data is the message; empty where there is none. Valid until the next frame.
	data []byte
	// id is the event's own id, nil where it has none.
	id *string
	// oversized says that the message was too long and is not in data.
	oversized bool
}

// frames takes an answer apart.
type frames interface {
	// next returns the next frame. The error is io.EOF after a proper end.
	next() (frame, error)
}

// lines reads lines that end with CR, LF or both. A CR ends its line at once: what follows it may be long in coming.
type lines struct {
	r      *bufio.Reader
	line   []byte
	skipLF bool
}

// next returns a line without its end, and how many bytes of it were skipped since it is too long. The line is valid until
// the next call. What stands before the end of the answer without an end of its own comes with the error.
func (l *lines) next() (line []byte, skipped int, err error) {
	l.line = l.line[:0]
	for {
		b, err := l.r.ReadByte()
		if err != nil {
			return l.line, skipped, err
		}
		skip := l.skipLF && b == '\n'
		l.skipLF = b == '\r'
		switch {
		case skip:
		case b == '\n' || b == '\r':
			return l.line, skipped, nil
		case len(l.line) < maxLine:
			l.line = append(l.line, b)
		default:
			if skipped++; skipped > maxSkipped {
				return nil, skipped, errEndless
			}
		}
	}
}

// eventFrames are the events of a stream of Server-Sent Events, as the HTML standard has them. An event without data is
// returned where it has an id, which is resumed after all the same. The type of an event says nothing here.
type eventFrames struct {
	lines lines
	// retry is called with the time that the stream wants to pass before a reconnection.
	retry   func(time.Duration)
	started bool
	data    []byte
}

func (e *eventFrames) next() (frame, error) {
	var f frame
	e.data = e.data[:0]
	skipped := 0
	for {
		line, s, err := e.lines.next()
		if err != nil {
			// An event without the empty line at its end is not complete, and comes again after a reconnection.
			return frame{}, err
		}
		if !e.started {
			e.started, line = true, bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		if len(line) == 0 {
			if len(e.data) > 0 || f.id != nil || f.oversized {
				if f.data = bytes.TrimSuffix(e.data, []byte("\n")); f.oversized {
					f.data = nil
				}
				return f, nil
			}
			continue
		}
		name, value, _ := strings.Cut(string(line), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "data":
			if f.oversized = f.oversized || s > 0 || len(e.data)+len(value) > signals.MaxBytes; !f.oversized {
				e.data = append(append(e.data, value...), '\n')
			} else if skipped += s + len(line); skipped > maxSkipped {
				return frame{}, errEndless
			}
		case "id":
			if !strings.Contains(value, "\x00") {
				f.id = &value
			}
		case "retry":
			if ms, err := strconv.ParseUint(value, 10, 31); err == nil {
				e.retry(time.Duration(ms) * time.Millisecond)
			}
		}
	}
}

// lineFrames are lines of JSON, each a message. Empty lines keep the connection alive.
type lineFrames struct{ lines lines }

func (l *lineFrames) next() (frame, error) {
	for {
		line, skipped, err := l.lines.next()
		if err != nil && !errors.Is(err, io.EOF) {
			return frame{}, err
		}
		if len(bytes.TrimSpace(line)) > 0 {
			// The end of the answer, if this was that, is found again by the next call.
			return frame{data: line, oversized: skipped > 0}, nil
		}
		if err != nil {
			return frame{}, err
		}
	}
}

// valueFrames are JSON values, each on a line or spread over several. A value begins on a line of its own.
type valueFrames struct {
	lines lines
	data  []byte
}

func (v *valueFrames) next() (frame, error) {
	var f frame
	v.data = v.data[:0]
	depth, quoted, escaped, skipped := 0, false, false, 0
	for {
		line, s, err := v.lines.next()
		if err != nil && !errors.Is(err, io.EOF) {
			return frame{}, err
		}
		for _, b := range line {
			switch {
			case escaped:
				escaped = false
			case quoted:
				quoted, escaped = b != '"', b == '\\'
			case b == '"':
				quoted = true
			case b == '{' || b == '[':
				depth++
			case b == '}' || b == ']':
				depth--
			}
		}
		if f.oversized = f.oversized || s > 0 || len(v.data)+len(line) > signals.MaxBytes; !f.oversized {
			v.data = append(append(v.data, line...), '\n')
		} else if skipped += s + len(line); skipped > maxSkipped {
			return frame{}, errEndless
		}
		f.data = bytes.TrimSpace(v.data)
		// A string does not run over the end of a line: what it is in is broken, and so is complete as it is. Of a line
		// that was cut nothing more can be told.
		complete := depth <= 0 || quoted || s > 0 || err != nil
		switch {
		case complete && (len(f.data) > 0 || f.oversized):
			return f, nil
		case err != nil:
			return frame{}, err
		case len(f.data) == 0:
			v.data = v.data[:0]
		}
	}
}
