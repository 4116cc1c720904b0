package metricsource

import (
	"context"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// Series is one series of a range query's answer.
type Series struct {
	// Labels of the series.
	Labels map[string]string
	// Points by ascending time.
	Points []Point
}

// Point is one value of a series.
type Point struct {
	// Time of the evaluation.
	Time time.Time
	// Value then; NaN and infinities are passed on.
	Value float64
}

// Range evaluates a query at every step of a stretch of time. The error is a ResultTypeError when the answer is no matrix.
func (p *Prometheus) Range(ctx context.Context, query string, from, to time.Time, step time.Duration) ([]Series, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	start := time.Now()
	value, _, _, err := p.api.QueryRange(ctx, query, promv1.Range{Start: from, End: to, Step: step}, promv1.WithTimeout(p.timeout))
	p.observe(time.Since(start), err)
	if err != nil {
		return nil, explain(err)
	}
	matrix, ok := value.(model.Matrix)
	if !ok {
		return nil, &ResultTypeError{Type: value.Type().String()}
	}
	all := make([]Series, 0, len(matrix))
	for _, stream := range matrix {
		s := Series{Labels: map[string]string{}}
		for name, v := range stream.Metric {
			s.Labels[string(name)] = string(v)
		}
		for _, pair := range stream.Values {
			s.Points = append(s.Points, Point{Time: pair.Timestamp.Time(), Value: float64(pair.Value)})
		}
		all = append(all, s)
	}
	return all, nil
}
