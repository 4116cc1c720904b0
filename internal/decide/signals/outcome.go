package signals

import (
	"fmt"
	"time"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
)

// maxAhead is how far the time of a signal may be ahead of the clock. One that were accepted from further ahead would make
// all that follow it late.
const maxAhead = 5 * time.Minute

// Result is what became of a message, in one word.
type Result string

// The results. Only an accepted message changes anything.
const (
	// Accepted says that the signal stands from now on.
	Accepted Result = "accepted"
	// Repeated says that the signal stands already.
	Repeated Result = "repeated"
	// Late says that a signal of a later time stands.
	Late Result = "late"
	// Future says that the time of the signal is more than 5 minutes ahead.
	Future Result = "future"
	// Superseded says that a newer signal came before this one was recorded.
	Superseded Result = "superseded"
	// Malformed says that the message is none.
	Malformed Result = "malformed"
	// Oversized says that the message has more than MaxBytes.
	Oversized Result = "oversized"
	// Unknown says that its word is neither ScaleUp nor ScaleDown.
	Unknown Result = "unknown"
	// Unauthorized says that it was pushed without a token that the API server knows.
	Unauthorized Result = "unauthorized"
	// Forbidden says that who pushed it may not signal this scaler.
	Forbidden Result = "forbidden"
	// NotFound says that there is no such ElasticScaler, or that it has no SignalTrigger.
	NotFound Result = "notfound"
	// Limited says that too many came.
	Limited Result = "limited"
	// Failed says that it could not be recorded or checked; it may be sent again.
	Failed Result = "failed"
)

// Results are all results.
func Results() []Result {
	return []Result{
		Accepted, Repeated, Late, Future, Superseded, Malformed, Oversized, Unknown,
		Unauthorized, Forbidden, NotFound, Limited, Failed,
	}
}

// Outcome is what became of a message.
type Outcome struct {
	// Result in one word.
	Result Result
	// Reason is the same in a sentence. It repeats at most 64 bytes of a value.
	Reason string
}

// Error is the outcome of a message that cannot be read.
type Error struct{ Outcome }

// Error is the reason.
func (e *Error) Error() string { return e.Reason }

// Refuse is the outcome of a message that cannot be read.
func Refuse(r Result, format string, args ...any) *Error {
	return &Error{Outcome{Result: r, Reason: fmt.Sprintf(format, args...)}}
}

// Accept decides whether the message counts after the last accepted signal, nil where there was none:
//
//	| the message                                                  | result   |
//	| has another word than ScaleUp and ScaleDown                  | Unknown  |
//	| has the id of the last signal                                | Repeated |
//	| has no id, the last signal's word, and its time or none      | Repeated |
//	| has a time more than 5 minutes after now                     | Future   |
//	| has a time before that of the last signal                    | Late     |
//	| otherwise                                                    | Accepted |
//
// A message without an id can say nothing new with the same word: an endpoint that answers each poll with the signal that
// stands is not recorded each time. Times count in whole seconds.
func Accept(last *v1alpha1.Signal, m Message, now time.Time) Outcome {
	if !known(m.Signal) {
		return Outcome{Unknown, fmt.Sprintf("signal is %s: must be ScaleUp or ScaleDown", quote(string(m.Signal)))}
	}
	var standing v1alpha1.Signal
	var since time.Time
	if last != nil {
		standing = *last
		if last.Time != nil {
			since = last.Time.Time.Truncate(time.Second)
		}
	}
	at := m.Time.Truncate(time.Second)
	switch {
	case m.ID != "" && m.ID == standing.ID:
		return Outcome{Repeated, fmt.Sprintf("the signal with id %s stands already: %s", quote(m.ID), standing.Signal)}
	case m.ID == "" && m.Signal == standing.Signal && (at.IsZero() || at.Equal(since)):
		return Outcome{Repeated, fmt.Sprintf("%s stands already, and the signal has no id that would tell it from that one", m.Signal)}
	case !at.IsZero() && at.After(now.Add(maxAhead)):
		return Outcome{Future, fmt.Sprintf("time is %s, more than %s ahead of the manager's clock", rfc3339(at), maxAhead)}
	case !at.IsZero() && at.Before(since):
		return Outcome{Late, fmt.Sprintf("time is %s, and a signal of %s stands", rfc3339(at), rfc3339(since))}
	}
	return Outcome{Accepted, fmt.Sprintf("%s stands", m.Signal)}
}

func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339) }
