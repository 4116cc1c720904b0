package metricsource

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"k8s.io/utils/clock"
)

// maxPage bounds what is read of one answer of an endpoint.
const maxPage = 1 << 20

// EndpointOptions says how the endpoints that users write are read.
type EndpointOptions struct {
	// Clock gives the time at which queries are evaluated.
	Clock clock.PassiveClock
	// Guard says which addresses are dialled.
	Guard *Guard
	// RootCAs are trusted for https; nil for the system's.
	RootCAs *x509.CertPool
}

// Endpoints reads the endpoints that users write.
type Endpoints struct {
	client *http.Client
	clock  clock.PassiveClock
}

// NewEndpoints returns a reader of endpoints.
func NewEndpoints(o EndpointOptions) *Endpoints {
	transport := o.Guard.Transport()
	transport.TLSClientConfig = &tls.Config{RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12}
	return &Endpoints{clock: o.Clock, client: &http.Client{
		Transport: limited{transport},
		// A redirect can lead to what the user could not have named.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// limited ends the body of an answer with an error where it becomes too long.
type limited struct{ next http.RoundTripper }

func (l limited) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("User-Agent", "pd-orchestrator")
	resp, err := l.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Body = http.MaxBytesReader(nil, resp.Body, maxPage)
	return resp, nil
}

// Read implements Reader.
func (e *Endpoints) Read(ctx context.Context, r Request) (Answer, error) {
	u, err := url.Parse(r.URL)
	if err != nil {
		return Answer{}, &Error{Reason: MetricSourceUnavailable, Message: "the endpoint is not a URL"}
	}
	read := e.page
	if r.Query != "" {
		read = e.query
	}
	answer, err := read(ctx, r, e.clock.Now())
	if err == nil && (math.IsNaN(answer.Value) || math.IsInf(answer.Value, 0)) {
		err = &Error{Reason: NoData, Message: fmt.Sprintf("the value is %v", answer.Value)}
	}
	if err == nil {
		return answer, nil
	}
	told := *failure(ctx, err)
	// All that a user wrote behind the host may be secret; the path helps nobody who reads the spec beside it.
	told.Message = fmt.Sprintf("%s://%s: %s", u.Scheme, u.Host, told.Message)
	return Answer{}, &told
}

// query evaluates a query of Prometheus, and asks for the age of the sample where it can be told.
func (e *Endpoints) query(ctx context.Context, r Request, at time.Time) (Answer, error) {
	c, err := api.NewClient(api.Config{Address: r.URL, Client: e.client})
	if err != nil {
		return Answer{}, err
	}
	prometheus := promv1.NewAPI(c)
	value, err := number(ctx, prometheus, r.Query, at)
	if err != nil || !isSelector(r.Query) {
		return Answer{Value: value, Time: at}, err
	}
	seconds, err := number(ctx, prometheus, "timestamp("+r.Query+")", at)
	if err != nil {
		return Answer{}, err
	}
	return Answer{Value: value, Time: time.UnixMilli(int64(math.Round(seconds * 1000))), HasTime: true}, nil
}

// number evaluates a query whose answer is one number.
func number(ctx context.Context, prometheus promv1.API, query string, at time.Time) (float64, error) {
	var options []promv1.Option
	if deadline, ok := ctx.Deadline(); ok {
		options = append(options, promv1.WithTimeout(time.Until(deadline)))
	}
	value, _, _, err := prometheus.Query(ctx, query, at, options...)
	if err != nil {
		return 0, err
	}
	switch value := value.(type) {
	case *model.Scalar:
		return float64(value.Value), nil
	case model.Vector:
		switch {
		case len(value) == 0:
			return 0, &Error{Reason: NoData, Message: "the query returned no series"}
		case len(value) > 1:
			return 0, &Error{Reason: MultipleSeries, Message: multipleSeries(value)}
		case value[0].Histogram != nil:
			return 0, &Error{Reason: WrongResultType, Message: "the query returned a histogram, must return a number; use a function such as histogram_quantile"}
		}
		return float64(value[0].Value), nil
	}
	return 0, &ResultTypeError{Type: value.Type().String()}
}

// multipleSeries names the labels that tell the series apart, since those are to be aggregated away.
func multipleSeries(vector model.Vector) string {
	differing := map[string]bool{}
	for _, sample := range vector[1:] {
		for _, pair := range [][2]model.Metric{{vector[0].Metric, sample.Metric}, {sample.Metric, vector[0].Metric}} {
			for name, value := range pair[0] {
				if other, ok := pair[1][name]; !ok || other != value {
					differing[string(name)] = true
				}
			}
		}
	}
	names := make([]string, 0, len(differing))
	for name := range differing {
		names = append(names, name)
	}
	slices.Sort(names)
	return fmt.Sprintf("the query returned %d series, must return one; they differ in %s: aggregate them, such as with sum()", len(vector), short(strings.Join(names, ", ")))
}

// isSelector tells an expression that selects samples of the moment as they are, so that their age is that of the value.
func isSelector(query string) bool {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		return false
	}
	for {
		p, ok := expr.(*parser.ParenExpr)
		if !ok {
			break
		}
		expr = p.Expr
	}
	s, ok := expr.(*parser.VectorSelector)
	// With an offset or a fixed time the sample is old because the user wants it so.
	return ok && s.OriginalOffset == 0 && s.OriginalOffsetExpr == nil && s.Timestamp == nil && s.StartOrEnd == 0
}

// page reads a page of Prometheus text or JSON.
func (e *Endpoints) page(ctx context.Context, r Request, at time.Time) (Answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL, nil)
	if err != nil {
		return Answer{}, err
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4, application/openmetrics-text;version=1.0.0;q=0.9, application/json;q=0.8, */*;q=0.1")
	resp, err := e.client.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return Answer{}, &Error{
			Reason:  MetricSourceUnavailable,
			Message: strings.TrimSpace(fmt.Sprintf("the answer is %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))),
			down:    resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests,
		}
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return Answer{}, err
	}
	contentType := resp.Header.Get("Content-Type")
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil && contentType != "" {
		mediaType = "unreadable"
	}
	value, sampled, err := parsePage(body, mediaType, r.Name)
	if err != nil {
		return Answer{}, err
	}
	if sampled.IsZero() {
		return Answer{Value: value, Time: at}, nil
	}
	return Answer{Value: value, Time: sampled, HasTime: true}, nil
}

// failure gives an error of a request its reason.
func failure(ctx context.Context, err error) *Error {
	var told *Error
	var resultType *ResultTypeError
	var answered *promv1.Error
	var tooLong *http.MaxBytesError
	var netErr net.Error
	switch {
	case errors.As(err, &told):
		return told
	case errors.As(err, &tooLong):
		return &Error{Reason: MetricSourceUnavailable, Message: fmt.Sprintf("the answer is longer than %d bytes", tooLong.Limit)}
	case ctx.Err() != nil, errors.As(err, &netErr) && netErr.Timeout():
		return &Error{Reason: MetricSourceUnavailable, Message: "no answer in time", down: true}
	case errors.As(err, &answered):
		if err = explain(err); errors.As(err, &resultType) {
			break
		}
		down := answered.Type == promv1.ErrServer || answered.Type == promv1.ErrTimeout || answered.Type == promv1.ErrCanceled
		return &Error{Reason: MetricSourceUnavailable, Message: short(err.Error()), down: down}
	}
	if errors.As(err, &resultType) {
		return &Error{Reason: WrongResultType, Message: fmt.Sprintf("the query returned a %s, must return a scalar or a vector with one element", resultType.Type)}
	}
	// The request's own URL is left out, and what a server that does not speak HTTP says.
	var requestErr *url.Error
	if errors.As(err, &requestErr) {
		err = requestErr.Err
	}
	message := err.Error()
	if strings.Contains(message, "malformed") {
		message = "the answer is not HTTP"
	}
	return &Error{Reason: MetricSourceUnavailable, Message: short(message), down: true}
}

// short keeps a text that comes from elsewhere to a length that fits into a condition.
func short(s string) string {
	const most = 300
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
