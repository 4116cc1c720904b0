// Package sampling is the one loop in which the metrics of all scalers are read.
package sampling

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pd-orchestrator/pd-orchestrator/internal/metricsource"
)

// Spec is what is read for one scaler, and how often.
type Spec struct {
	// Requests of one round. The load is spread by the first: scalers with the same one are evaluated at the same time.
	Requests []metricsource.Request
	// Interval between two rounds, above 0.
	Interval time.Duration
	// Now asks for a round at once, beside those that are due.
	Now bool
}

// Round is what a scaler's requests were answered.
type Round struct {
	// Time when the round began.
	Time time.Time
	// Answers in the order of the requests.
	Answers []Result
}

// Result is one answer or the lack of one.
type Result struct {
	Answer metricsource.Answer
	// Err is nil where there is an answer.
	Err *metricsource.Error
}

// Source answers a request with what is not older than the given time.
type Source interface {
	Read(ctx context.Context, r metricsource.Request, notBefore time.Time) (metricsource.Answer, error)
}

// Sampler reads the metrics of all scalers. It is a source of the controller: a scaler is queued when a round of it is
// complete.
type Sampler struct {
	source Source
	clock  clock.WithTicker
}

// New returns a Sampler, normally over a metricsource.Shared.
func New(source Source, c clock.WithTicker) *Sampler {
	return &Sampler{source: source, clock: c}
}

// Set says what is read for a scaler from now on. The first round of a new scaler, and of one whose requests changed, is
// due at once; the same spec again changes nothing.
func (s *Sampler) Set(key types.NamespacedName, spec Spec) {}

// Forget ends the reading for a scaler. A round that is running ends unheard.
func (s *Sampler) Forget(key types.NamespacedName) {}

// Round is the last complete round of the scaler's present requests, false where none is complete yet.
func (s *Sampler) Round(key types.NamespacedName) (Round, bool) { return Round{}, false }

// Start reads until the context ends. It is called once.
func (s *Sampler) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	return nil
}
