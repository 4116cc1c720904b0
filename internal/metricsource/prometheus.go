// Package metricsource reads metric values from where they are kept. It tells an answer from the lack of one and never
// turns the second into a number.
package metricsource

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// Sample is one series of an instant query's answer.
type Sample struct {
	// Labels of the series.
	Labels map[string]string
	// Value of the series; NaN and infinities are passed on.
	Value float64
}

// Querier runs instant queries that answer with a vector.
type Querier interface {
	// Vector evaluates the query at the time. The error is a ResultTypeError when the answer is a scalar, a string or
	// a matrix; any other error means that there was no answer.
	Vector(ctx context.Context, query string, at time.Time) ([]Sample, error)
}

// ResultTypeError says that a query has an answer which is no vector.
type ResultTypeError struct {
	// Type of the answer as Prometheus names it.
	Type string
}

// Error names the type that came and the one that is due.
func (e *ResultTypeError) Error() string {
	return fmt.Sprintf("the query returned a %s, must return a vector", e.Type)
}

// PrometheusOptions says how to reach a Prometheus server.
type PrometheusOptions struct {
	// Address is the base URL, http or https.
	Address string
	// BearerTokenFile holds the token to send, read anew for each request so that a rotated one is used. Optional.
	BearerTokenFile string
	// CAFile holds PEM certificates to trust instead of the system's. Read once. Optional.
	CAFile string
	// Timeout of one request, above 0.
	Timeout time.Duration
	// Observe is called after each request with how long it took and its error. Optional.
	Observe func(took time.Duration, err error)
}

// maxAnswer bounds how much of an answer is read: one sample per group is a few hundred bytes.
const maxAnswer = 16 << 20

// Prometheus is a Querier that asks a Prometheus server.
type Prometheus struct {
	api     promv1.API
	timeout time.Duration
	observe func(time.Duration, error)
}

// NewPrometheus checks the options and returns a client. It does not contact the server.
func NewPrometheus(o PrometheusOptions) (*Prometheus, error) {
	base, err := url.Parse(o.Address)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("prometheus address %q must be an http or https URL", o.Address)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("reading the CA of Prometheus: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the CA file %q of Prometheus holds no PEM certificate", o.CAFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	c, err := api.NewClient(api.Config{Address: o.Address, Client: &http.Client{
		Transport: &roundTripper{next: transport, base: base, tokenFile: o.BearerTokenFile},
		// A redirect can lead to another host or to plain http, and a query has no reason to be redirected.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}})
	if err != nil {
		return nil, fmt.Errorf("making a Prometheus client: %w", err)
	}
	observe := o.Observe
	if observe == nil {
		observe = func(time.Duration, error) {}
	}
	return &Prometheus{api: promv1.NewAPI(c), timeout: o.Timeout, observe: observe}, nil
}

// Vector implements Querier.
func (p *Prometheus) Vector(ctx context.Context, query string, at time.Time) ([]Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	start := time.Now()
	value, _, _, err := p.api.Query(ctx, query, at, promv1.WithTimeout(p.timeout))
	p.observe(time.Since(start), err)
	if err != nil {
		return nil, explain(err)
	}
	vector, ok := value.(model.Vector)
	if !ok {
		return nil, &ResultTypeError{Type: value.Type().String()}
	}
	samples := make([]Sample, 0, len(vector))
	for _, s := range vector {
		labels := make(map[string]string, len(s.Metric))
		for name, v := range s.Metric {
			labels[string(name)] = string(v)
		}
		samples = append(samples, Sample{Labels: labels, Value: float64(s.Value)})
	}
	return samples, nil
}

// explain keeps what a user can act on. The body of an answer that is not Prometheus' (an error page, say) is left out:
// it is long, and can hold what does not belong into a condition.
func explain(err error) error {
	var apiErr *promv1.Error
	if !errors.As(err, &apiErr) {
		// The address is the operator's, and the query is in the log.
		var requestErr *url.Error
		if errors.As(err, &requestErr) {
			err = requestErr.Err
		}
		return fmt.Errorf("prometheus query failed: %w", err)
	}
	// The client knows scalars, vectors and matrices; of the rest it says only this.
	var resultType string
	if n, _ := fmt.Sscanf(apiErr.Msg, "unexpected value type %q", &resultType); n == 1 {
		return &ResultTypeError{Type: resultType}
	}
	if apiErr.Type == promv1.ErrBadResponse {
		return errors.New("prometheus query failed: the answer is not that of a Prometheus server")
	}
	return fmt.Errorf("prometheus query failed: %s: %s", apiErr.Type, apiErr.Msg)
}

type roundTripper struct {
	next      http.RoundTripper
	base      *url.URL
	tokenFile string
}

func (r *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	if r.tokenFile != "" && req.URL.Host == r.base.Host && req.URL.Scheme == r.base.Scheme {
		token, err := os.ReadFile(r.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("reading the bearer token of Prometheus: %w", err)
		}
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	resp, err := r.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(resp.Body, maxAnswer), resp.Body}
	return resp, nil
}
