package model

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/pd-orchestrator/pd-orchestrator/lab/simulator/trace"
)

// Shape is the shape of a distribution of token counts.
type Shape string

const (
	// Constant gives every request the mean.
	Constant Shape = "constant"
	// Exponential has a standard deviation equal to the mean.
	Exponential Shape = "exponential"
	// LogNormal has a standard deviation of Variation times the mean, and a long tail.
	LogNormal Shape = "lognormal"
)

// Shapes are all values of Shape.
var Shapes = []Shape{Constant, Exponential, LogNormal}

// Lengths is a distribution of tokens per request. Drawn values are rounded and are at least 1.
type Lengths struct {
	// Mean is the mean in tokens, at least 1.
	Mean float64
	// Shape of the distribution.
	Shape Shape
	// Variation is the standard deviation in units of the mean, above 0. LogNormal only.
	Variation float64
}

func (l Lengths) draw(rng *rand.Rand) int {
	length := l.Mean
	switch l.Shape {
	case Exponential:
		length = rng.ExpFloat64() * l.Mean
	case LogNormal:
		variance := math.Log1p(l.Variation * l.Variation)
		length = math.Exp(math.Log(l.Mean) - variance/2 + math.Sqrt(variance)*rng.NormFloat64())
	case Constant:
	}
	return tokens(length)
}

// maxLength bounds what a heavy tail can ask of one request, in tokens.
const maxLength = 1_000_000

func tokens(length float64) int { return int(min(max(math.Round(length), 1), maxLength)) }

// Stream says which requests arrive at a service.
type Stream struct {
	// Trace, if set, is replayed; Rate, Evenly, Prompt and Output then do not count.
	Trace *trace.Trace
	// Speed is how many times faster than recorded a trace is replayed, above 0. It shortens the time between requests and leaves their lengths alone.
	Speed float64
	// Loop begins a trace again at its end; otherwise no request follows.
	Loop bool

	// Rate is the mean number of requests per second, at least 0.
	Rate float64
	// Evenly spaces requests by exactly 1/Rate; otherwise they are a Poisson process.
	Evenly bool
	// Prompt and Output are the lengths of prompts and answers.
	Prompt, Output Lengths

	// Seed makes the random choices. The same seed gives the same requests at the same times.
	Seed uint64
}

// arrival is one request on its way in.
type arrival struct {
	at             float64
	prompt, output int
}

// source hands out the arrivals of a stream in order of time; ok is false when there are no more.
type source interface {
	next() (a arrival, ok bool)
}

func (s Stream) source(start float64) source {
	rng := rand.New(rand.NewPCG(s.Seed, 0x5eed)) //nolint:gosec // A simulation has to be repeatable.
	if s.Trace != nil {
		return &replay{stream: s, rng: rng, start: start}
	}
	return &steady{stream: s, rng: rng, at: start}
}

type steady struct {
	stream Stream
	rng    *rand.Rand
	at     float64
}

func (s *steady) next() (arrival, bool) {
	if s.stream.Rate <= 0 {
		return arrival{}, false
	}
	gap := 1 / s.stream.Rate
	if !s.stream.Evenly {
		gap *= s.rng.ExpFloat64()
	}
	s.at += gap
	return arrival{at: s.at, prompt: s.stream.Prompt.draw(s.rng), output: s.stream.Output.draw(s.rng)}, true
}

// replay spreads the requests of a bin over the bin at random. Their lengths are drawn from the trace's percentiles, prompt
// and output apart, and scaled so that the bin's tokens add up to what was recorded, but for rounding.
type replay struct {
	stream  Stream
	rng     *rand.Rand
	start   float64
	bin     int // bins handed out since the start, over all rounds
	pending []arrival
}

func (r *replay) next() (arrival, bool) {
	bins := r.stream.Trace.Bins
	for len(r.pending) == 0 {
		if r.bin >= len(bins) && (!r.stream.Loop || !hasRequests(bins)) {
			return arrival{}, false
		}
		r.fill(bins[r.bin%len(bins)])
		r.bin++
	}
	first := r.pending[0]
	r.pending = r.pending[1:]
	return first, true
}

func (r *replay) fill(bin trace.Bin) {
	width := r.stream.Trace.BinSeconds / r.stream.Speed
	begin := r.start + float64(r.bin)*width
	offsets := make([]float64, bin.Requests)
	for i := range offsets {
		offsets[i] = r.rng.Float64() * width
	}
	slices.Sort(offsets)
	prompts := r.lengths(r.stream.Trace.PromptQuantiles, bin.Requests, bin.PromptTokens)
	outputs := r.lengths(r.stream.Trace.OutputQuantiles, bin.Requests, bin.OutputTokens)
	r.pending = make([]arrival, bin.Requests)
	for i := range r.pending {
		r.pending[i] = arrival{at: begin + offsets[i], prompt: prompts[i], output: outputs[i]}
	}
}

func (r *replay) lengths(quantiles []float64, count, total int) []int {
	drawn := make([]float64, count)
	var sum float64
	for i := range drawn {
		position := r.rng.Float64() * float64(len(quantiles)-1)
		below := int(position)
		drawn[i] = quantiles[below] + (position-float64(below))*(quantiles[below+1]-quantiles[below])
		sum += drawn[i]
	}
	lengths := make([]int, count)
	for i := range drawn {
		lengths[i] = tokens(drawn[i] * float64(total) / sum)
	}
	return lengths
}

func hasRequests(bins []trace.Bin) bool {
	return slices.ContainsFunc(bins, func(b trace.Bin) bool { return b.Requests > 0 })
}
