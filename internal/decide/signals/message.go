// Package signals reads the messages that switch a target on and off and decides which of them count.
package signals

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
)

const (
	// MaxBytes is the length of the longest message that is read.
	MaxBytes = 64 << 10
	// maxID is how many characters an id has at most: as many as the status holds.
	maxID = 256
	// shown is how many bytes of a wrong value an error repeats.
	shown = 64
)

// Message is a signal as it came.
type Message struct {
	// Signal is its word.
	Signal v1alpha1.SignalType
	// ID names the signal, empty where it has none: at most 256 characters, none of them a control character.
	ID string
	// Time is when it was given, in whole seconds (the status holds no more) and UTC; the zero time where it says nothing.
	Time time.Time
}

// Parse reads a message: one JSON object with `signal` and, optionally, `id` and `time` (RFC 3339). Other fields are
// ignored, and null is as good as absent. The error is an *Error.
func Parse(data []byte) (Message, error) {
	if len(data) > MaxBytes {
		return Message{}, Refuse(Oversized, "the message has more than %d bytes", MaxBytes)
	}
	fields, err := split(data)
	if err != nil {
		return Message{}, Refuse(Malformed, "the message must be one JSON object such as {\"signal\": \"ScaleUp\"}: %s", err)
	}
	word, err := text(fields, "signal")
	if err != nil {
		return Message{}, err
	}
	id, err := text(fields, "id")
	if err != nil {
		return Message{}, err
	}
	at, err := text(fields, "time")
	if err != nil {
		return Message{}, err
	}
	m := Message{}
	switch word := v1alpha1.SignalType(value(word)); {
	case word == "":
		return Message{}, Refuse(Malformed, "signal is missing: must be ScaleUp or ScaleDown")
	case !known(word):
		return Message{}, Refuse(Unknown, "signal is %s: must be ScaleUp or ScaleDown", quote(string(word)))
	default:
		m.Signal = word
	}
	if m.ID = value(id); !ValidID(m.ID) {
		return Message{}, Refuse(Malformed, "id is %s: must have at most %d characters, none of them a control character", quote(m.ID), maxID)
	}
	if at != nil {
		t, err := time.Parse(time.RFC3339, *at)
		// Times before 1970 are unset clocks, and the status cannot hold all of them.
		if err != nil || t.Unix() < 0 {
			return Message{}, Refuse(Malformed, "time is %s: must be a time of RFC 3339 from 1970 on, such as 2026-01-31T12:00:00Z", quote(*at))
		}
		m.Time = t.UTC().Truncate(time.Second)
	}
	return m, nil
}

// Record is what the status says of the message once it is accepted.
func (m Message) Record(received time.Time) *v1alpha1.Signal {
	s := &v1alpha1.Signal{Signal: m.Signal, ID: m.ID, ReceivedTime: &metav1.Time{Time: received}}
	if !m.Time.IsZero() {
		s.Time = &metav1.Time{Time: m.Time}
	}
	return s
}

// ValidID tells whether the text can be the id of a message. An empty one can: there is none.
func ValidID(id string) bool {
	if !utf8.ValidString(id) || utf8.RuneCountInString(id) > maxID {
		return false
	}
	for _, r := range id {
		if unicode.IsControl(r) {
			return false
		}
	}
	return true
}

func known(word v1alpha1.SignalType) bool {
	return word == v1alpha1.SignalScaleUp || word == v1alpha1.SignalScaleDown
}

// split takes an object apart into its fields. The names of fields are told apart by case, and none may come twice: what
// the two of them say could differ.
func split(data []byte) (map[string]json.RawMessage, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("it is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	switch start, err := d.Token(); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("it is empty")
	case err != nil:
		return nil, err
	case start != json.Delim('{'):
		return nil, errors.New("it is no object")
	}
	fields := map[string]json.RawMessage{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := token.(string)
		if _, ok := fields[name]; ok {
			return nil, fmt.Errorf("field %s comes twice", quote(name))
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, err
		}
		fields[name] = v
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the object")
	}
	return fields, nil
}

// text is the value of a field, nil where it is absent.
func text(fields map[string]json.RawMessage, name string) (*string, error) {
	raw, ok := fields[name]
	if !ok {
		return nil, nil
	}
	var s *string
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, Refuse(Malformed, "%s must be a string", name)
	}
	return s, nil
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// quote keeps what is repeated from a message within what a log and a status can take.
func quote(s string) string {
	if len(s) > shown {
		return strconv.QuoteToASCII(s[:shown]) + "..."
	}
	return strconv.QuoteToASCII(s)
}
