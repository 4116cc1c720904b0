// Package signal brings in the signals that switch targets on and off: it listens at the endpoints that ElasticScalers
// name, and serves those that are pushed. What a message means is not decided here.
package signal

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/signals"
)

// Transport is the way that a message came.
type Transport string

const (
	// Events is a stream of Server-Sent Events.
	Events Transport = "sse"
	// Lines is a stream of lines of JSON.
	Lines Transport = "lines"
	// Poll is an answer that holds what there is and ends.
	Poll Transport = "poll"
	// Push is a request to the manager.
	Push Transport = "push"
)

// Acceptor judges a message against the signal that stands and, where it counts, records it in status.lastSignal before it
// returns. Any replica of the manager can be asked, at any time and by several callers at once.
//
// Outcomes are those of signals.Accept, and NotFound where there is no such ElasticScaler or it has no SignalTrigger. An
// error says that this could not be found out or written: the message is not lost, it is tried again or refused.
type Acceptor interface {
	Accept(ctx context.Context, key types.NamespacedName, m signals.Message) (signals.Outcome, error)
}

// Observe counts a message by what became of it and the way that it came.
type Observe func(result signals.Result, transport Transport)
