package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// prometheus asks the HTTP API of Prometheus, as anybody could.
type prometheus struct {
	url  string
	http *http.Client
}

// sample is one series of an instant vector.
type sample struct {
	labels map[string]string
	value  float64
}

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 4 << 20

// vector runs an instant query; the zero time means now.
func (p prometheus) vector(ctx context.Context, query string, at time.Time) ([]sample, error) {
	values := url.Values{"query": {query}}
	if !at.IsZero() {
		values.Set("time", strconv.FormatInt(at.Unix(), 10))
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/api/v1/query?"+values.Encode(), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("asking Prometheus: %w", err)
	}
	response, err := p.http.Do(request)
	if err != nil {
		// The query is in the URL, which the inner error leaves out.
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return nil, fmt.Errorf("asking Prometheus: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("reading Prometheus' answer: %w", err)
	}
	var answer struct {
		Status string `json:"status"`
		Error  string `json:"error"`
		Data   struct {
			ResultType string `json:"resultType"`
			Result     []struct {
				Metric map[string]string  `json:"metric"`
				Value  [2]json.RawMessage `json:"value"`
			} `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("reading Prometheus' answer (status %s): %w", response.Status, err)
	}
	if answer.Status != "success" || answer.Data.ResultType != "vector" {
		return nil, fmt.Errorf("asking Prometheus: status %q, result type %q, error %q", answer.Status, answer.Data.ResultType, answer.Error)
	}
	samples := make([]sample, 0, len(answer.Data.Result))
	for _, series := range answer.Data.Result {
		var text string
		if err := json.Unmarshal(series.Value[1], &text); err != nil {
			return nil, fmt.Errorf("reading a sample of Prometheus: %w", err)
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("reading a sample of Prometheus: %w", err)
		}
		samples = append(samples, sample{labels: series.Metric, value: value})
	}
	return samples, nil
}
