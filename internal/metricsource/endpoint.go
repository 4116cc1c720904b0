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
	"syscall"
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

// NewEndpoints returns a reader of endpoints. Its limits suit servers that nobody vouches for.
func NewEndpoints(o EndpointOptions) *Endpoints {
	// There is no proxy, which would dial in place of the guard.
	transport := &http.Transport{
		DialContext:            o.Guard.DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    10 * time.Second,
		ResponseHeaderTimeout:  30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConns:           512,
		MaxIdleConnsPerHost:    defaultConcurrency,
		IdleConnTimeout:        90 * time.Second,
	}
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
	if err == nil {
		return answer, nil
	}
	told := *failure(ctx, err)
	// All that a user wrote behind the host may be secret; the path helps nobody who reads the spec beside it.
	told.Message = clip(fmt.Sprintf("%s://%s: %s", u.Scheme, u.Host, told.Message), maxMessage)
	return Answer{}, &told
}

// query evaluates a query of Prometheus, and asks for the age of the sample where it can be told.
func (e *Endpoints) query(ctx context.Context, r Request, at time.Time) (Answer, error) {
	c, err := api.NewClient(api.Config{Address: r.URL, Client: e.client})
	if err != nil {
		return Answer{}, err
	}
	prometheus := promv1.NewAPI(c)
	answer, err := number(ctx, prometheus, r.Query, at)
	if err != nil || !isSelector(r.Query) {
		return answer, err
	}
	sampled, err := number(ctx, prometheus, "timestamp("+r.Query+")", at)
	if err != nil {
		return Answer{}, err
	}
	answer.Time, answer.HasTime = time.UnixMilli(int64(math.Round(sampled.Value*1000))), true
	return answer, nil
}

// number evaluates a query whose answer is one number.
func number(ctx context.Context, prometheus promv1.API, query string, at time.Time) (Answer, error) {
	value, _, _, err := prometheus.Query(ctx, query, at)
	if err != nil {
		return Answer{}, err
	}
	answer := Answer{Time: at}
	switch value := value.(type) {
	case *model.Scalar:
		answer.Value = float64(value.Value)
	case model.Vector:
		switch {
		case len(value) == 0:
			return Answer{}, &Error{Reason: NoData, Message: "the query returned no series"}
		case len(value) > 1:
			return Answer{}, &Error{Reason: MultipleSeries, Message: multipleSeries(value)}
		case value[0].Histogram != nil:
			return Answer{}, &Error{Reason: WrongResultType, Message: "the query returned a histogram, must return a number; use a function such as histogram_quantile"}
		}
		answer.Value = float64(value[0].Value)
		// Prometheus itself tells the time of the evaluation here, others that of the sample.
		if sampled := value[0].Timestamp.Time(); sampled.Before(at.Add(-time.Second)) {
			answer.Time, answer.HasTime = sampled, true
		}
	default:
		return Answer{}, &ResultTypeError{Type: value.Type().String()}
	}
	if math.IsNaN(answer.Value) || math.IsInf(answer.Value, 0) {
		return Answer{}, notFinite(answer.Value)
	}
	return answer, nil
}

func notFinite(value float64) *Error {
	return &Error{Reason: NoData, Message: fmt.Sprintf("the value is %v", value)}
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
	return ok && s.OriginalOffset == 0 && s.Timestamp == nil && s.StartOrEnd == 0
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
	if code := resp.StatusCode; code/100 != 2 {
		message := strings.TrimSpace(fmt.Sprintf("the answer is %d %s", code, http.StatusText(code)))
		if code/100 == 3 {
			message += "; redirects are not followed, name the address that they lead to"
		}
		return Answer{}, &Error{Reason: MetricSourceUnavailable, Message: message, down: code >= 500 || code == http.StatusTooManyRequests}
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
	switch {
	case err != nil:
		return Answer{}, err
	case math.IsNaN(value) || math.IsInf(value, 0):
		return Answer{}, notFinite(value)
	case sampled.IsZero():
		return Answer{Value: value, Time: at}, nil
	}
	return Answer{Value: value, Time: sampled, HasTime: true}, nil
}

// failure gives an error of a request its reason.
func failure(ctx context.Context, err error) *Error {
	var (
		told       *Error
		resultType *ResultTypeError
		answered   *promv1.Error
		tooLong    *http.MaxBytesError
	)
	switch {
	case errors.As(err, &told):
		return told
	case errors.As(err, &tooLong):
		return &Error{Reason: MetricSourceUnavailable, Message: fmt.Sprintf("the answer is longer than %d bytes", tooLong.Limit)}
	case ctx.Err() != nil:
		return &Error{Reason: MetricSourceUnavailable, Message: "the endpoint does not answer in time", down: true}
	case errors.As(err, &answered):
		err = explain(err)
	}
	switch {
	case errors.As(err, &resultType):
		return &Error{Reason: WrongResultType, Message: fmt.Sprintf("the query returned a %s, must return a scalar or a vector with one element", resultType.Type)}
	case answered != nil:
		down := answered.Type == promv1.ErrServer || answered.Type == promv1.ErrTimeout || answered.Type == promv1.ErrCanceled
		return &Error{Reason: MetricSourceUnavailable, Message: short(err.Error()), down: down}
	}
	return &Error{Reason: MetricSourceUnavailable, Message: "the endpoint " + Unreachable(err), down: true}
}

// Unreachable puts into words that follow "the endpoint" why a request has no answer. They are the same each time, hold
// nothing of the URL, and nothing that a server of another protocol said.
func Unreachable(err error) string {
	var (
		name      *net.DNSError
		untrusted *tls.CertificateVerificationError
		invalid   x509.CertificateInvalidError
		timeout   net.Error
		noTLS     tls.RecordHeaderError
		dial      *net.OpError
	)
	switch {
	case errors.As(err, &name) && name.IsNotFound:
		return "has a name that does not resolve"
	case errors.As(err, &name):
		return "has a name that could not be resolved"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		// Its own words have the time of the attempt.
		return "has a certificate that has expired or is not valid yet"
	case errors.As(err, &untrusted):
		return "has a certificate that is not trusted: " + short(untrusted.Err.Error())
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &noTLS):
		return "does not speak TLS: use http, or another port"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "does not answer in time"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refuses the connection"
	case errors.As(err, &dial) && dial.Op == "dial":
		return "cannot be reached"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "ends the connection before it answers"
	}
	return "does not answer as an HTTP server does"
}

// short keeps a text that comes from elsewhere to a length that leaves room beside it.
func short(s string) string { return clip(s, 300) }

// clip cuts a text to a number of bytes.
func clip(s string, most int) string {
	if len(s) <= most {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	return strings.ToValidUTF8(s[:most-len("…")], "") + "…"
}
