package metricsource

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Kind says where a request is answered.
type Kind string

const (
	// Resource is metrics.k8s.io: the use of all pods of a namespace.
	Resource Kind = "Resource"
	// Custom is custom.metrics.k8s.io: one metric of the pods that a selector chooses.
	Custom Kind = "Custom"
	// External is external.metrics.k8s.io: one metric of no Kubernetes object.
	External Kind = "External"
	// Endpoint is an HTTP endpoint: Prometheus, or a page of Prometheus text or JSON.
	Endpoint Kind = "ExternalServer"
)

// Request asks for one metric. Equal requests have the same answer. The constructors give the canonical form, so that
// what means the same is equal.
type Request struct {
	// Kind says which of the other fields are set.
	Kind Kind
	// Namespace of the pods or of the metric: Resource, Custom and External.
	Namespace string
	// Name of the metric: Custom and External; with Endpoint the name to look for, where there is no Query.
	Name string
	// Selector among the series of the metric, empty for all: Custom and External.
	Selector string
	// Pods selects the pods: Custom.
	Pods string
	// URL is the endpoint: http or https, without user name and password.
	URL string
	// Query is evaluated by Prometheus, whose base URL is URL. Empty: the page at URL is read.
	Query string
}

// ResourceRequest asks for the use of all pods of a namespace: one request for however many scalers are in it.
func ResourceRequest(namespace string) Request {
	return Request{Kind: Resource, Namespace: namespace}
}

// CustomRequest asks for a metric of the pods that the selector chooses. series selects among the series of that name;
// nil for all. An error says that series is no valid selector.
func CustomRequest(namespace, name string, series *metav1.LabelSelector, pods labels.Selector) (Request, error) {
	s, err := selectorString(series)
	if err != nil {
		return Request{}, err
	}
	return Request{Kind: Custom, Namespace: namespace, Name: name, Selector: s, Pods: pods.String()}, nil
}

// ExternalRequest asks for a metric of no Kubernetes object, summed over its series. series selects among the series of
// that name; nil for all. An error says that series is no valid selector.
func ExternalRequest(namespace, name string, series *metav1.LabelSelector) (Request, error) {
	s, err := selectorString(series)
	if err != nil {
		return Request{}, err
	}
	return Request{Kind: External, Namespace: namespace, Name: name, Selector: s}, nil
}

// EndpointRequest asks an endpoint: a host with optional port and path, to which the protocol (http or https; empty is
// https) is put in front, or an http or https URL. With a query the name does not matter to the answer. An error says
// that the endpoint is no such URL.
func EndpointRequest(endpoint, protocol, query, name string) (Request, error) {
	if !strings.Contains(endpoint, "://") {
		if protocol == "" {
			protocol = "https"
		}
		endpoint = protocol + "://" + endpoint
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		// The parser's own words repeat the URL, and with it what may be secret.
		return Request{}, errors.New("the endpoint is not a URL")
	}
	if u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return Request{}, errors.New("the endpoint must be an http or https URL with a host, without user name and password")
	}
	u.Host = strings.ToLower(u.Host)
	if port := u.Port(); port == "" || u.Scheme == "http" && port == "80" || u.Scheme == "https" && port == "443" {
		u.Host = strings.TrimSuffix(u.Host, ":"+port)
	}
	u.Fragment = ""
	if u.Path == "/" {
		u.Path = ""
	}
	if query = strings.TrimSpace(query); query == "" {
		return Request{Kind: Endpoint, URL: u.String(), Name: name}, nil
	}
	u.Path = strings.TrimRight(strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/api/v1/query"), "/")
	u.RawPath = ""
	return Request{Kind: Endpoint, URL: u.String(), Query: query}, nil
}

func selectorString(s *metav1.LabelSelector) (string, error) {
	if s == nil {
		return "", nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return "", fmt.Errorf("the selector is not valid: %w", err)
	}
	return selector.String(), nil
}

// host is what is limited and given time to recover as one: the host of an endpoint, or the metrics API.
func (r Request) host() string {
	if r.Kind != Endpoint {
		return string(r.Kind)
	}
	u, err := url.Parse(r.URL)
	if err != nil {
		return r.URL
	}
	return net.JoinHostPort(u.Hostname(), u.Port())
}

// Answer is the answer to a request. It is shared between all who asked: nobody may change what it holds.
type Answer struct {
	// Pods are the values per pod, by the pod's name, none where the API knows of no pod: Resource and Custom.
	Pods map[string]Pod
	// Value is the value, finite: External and Endpoint.
	Value float64
	// Time of the sample where the source tells it (the oldest, where several are summed), else when it was read. The
	// pods of an answer have their own.
	Time time.Time
	// HasTime says that the source told the time.
	HasTime bool
}

// Pod is what an answer says of one pod.
type Pod struct {
	// Time of the sample; the zero time where the source does not tell it.
	Time time.Time
	// Window before Time over which the value was measured; 0 for a value of the moment.
	Window time.Duration
	// Value of the metric, finite: Custom.
	Value float64
	// Containers of the pod with their use: Resource.
	Containers []Container
}

// Container is the use of one container.
type Container struct {
	// Name of the container.
	Name string
	// Usage by resource: cores for cpu, bytes for memory.
	Usage corev1.ResourceList
}

// The reasons of an Error. They are those of the API, which this package does not know.
const (
	// NoData says that there is no usable value: no series, or not a finite number.
	NoData = "NoData"
	// MultipleSeries says that there are several series where one is due.
	MultipleSeries = "MultipleSeries"
	// WrongResultType says that the answer is of a type that holds no single number.
	WrongResultType = "WrongResultType"
	// MetricNotFound says that the source answered and does not know the metric.
	MetricNotFound = "MetricNotFound"
	// MetricSourceUnavailable says that the source did not answer, or not with success.
	MetricSourceUnavailable = "MetricSourceUnavailable"
	// EndpointForbidden says that the endpoint resolves to an address that must not be dialled.
	EndpointForbidden = "EndpointForbidden"
	// MetricsAPINotOwned says that a metrics API is served by another component than expected.
	MetricsAPINotOwned = "MetricsAPINotOwned"
)

// maxMessage is how long the message of an Error is at most, in bytes: what fits into a status.
const maxMessage = 1000

// Error says why there is no value.
type Error struct {
	// Reason is one of the constants above.
	Reason string
	// Message is for the user: at most 1000 bytes, the same each time, without credentials and without what a URL holds
	// behind the host.
	Message string
	// down says that the fault is the source's and not the request's: others that ask it fare no better.
	down bool
}

// Error is the message.
func (e *Error) Error() string { return e.Message }

// AsError gives any error of a Reader its reason: what has none is MetricSourceUnavailable. Nil stays nil.
func AsError(err error) *Error {
	var e *Error
	if err == nil || errors.As(err, &e) {
		return e
	}
	return &Error{Reason: MetricSourceUnavailable, Message: clip(err.Error(), maxMessage), down: true}
}

// Reader answers requests. Its errors are *Error.
type Reader interface {
	Read(ctx context.Context, r Request) (Answer, error)
}

// Sources answers each kind of request from its own source.
type Sources struct {
	// Kubernetes answers Resource, Custom and External.
	Kubernetes Reader
	// Endpoints answers Endpoint.
	Endpoints Reader
}

// Read implements Reader.
func (s Sources) Read(ctx context.Context, r Request) (Answer, error) {
	if r.Kind == Endpoint {
		return s.Endpoints.Read(ctx, r)
	}
	return s.Kubernetes.Read(ctx, r)
}
