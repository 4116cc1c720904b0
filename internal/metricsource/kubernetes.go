package metricsource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// The metrics APIs, with the versions that are read, the best first.
var metricsAPIs = map[Kind]struct {
	group    string
	versions []string
}{
	Resource: {"metrics.k8s.io", []string{"v1beta1"}},
	Custom:   {"custom.metrics.k8s.io", []string{"v1beta2", "v1beta1"}},
	External: {"external.metrics.k8s.io", []string{"v1beta1"}},
}

// KubernetesOptions says how the metrics APIs of a cluster are read.
type KubernetesOptions struct {
	// Config is the way to the API server. Its rate limit does not hold here: Shared limits how much is asked at a time.
	Config *rest.Config
	// Clock tells when an answer without a time was read.
	Clock clock.PassiveClock
	// Owners names, by API group, the Service (namespace/name) that is meant to serve a metrics API. Where another one
	// does, there are no values. A group that is not named may be served by any.
	Owners map[string]string
}

// Kubernetes reads the three metrics APIs of a cluster.
type Kubernetes struct {
	client rest.Interface
	clock  clock.PassiveClock
	owners map[string]string

	mu sync.Mutex
	// versions that are served, by group, as far as known.
	versions map[string]string
	// owned is when the owner of a group was last seen to be right.
	owned map[string]time.Time
}

// NewKubernetes returns a reader of the cluster's metrics APIs. It does not contact the cluster.
func NewKubernetes(o KubernetesOptions) (*Kubernetes, error) {
	config := rest.CopyConfig(o.Config)
	config.QPS, config.RateLimiter = -1, nil
	config.AcceptContentTypes, config.ContentType = "application/json", "application/json"
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of the metrics APIs: %w", err)
	}
	return &Kubernetes{client: client, clock: o.Clock, owners: maps.Clone(o.Owners), versions: map[string]string{}, owned: map[string]time.Time{}}, nil
}

// Read implements Reader.
func (k *Kubernetes) Read(ctx context.Context, r Request) (Answer, error) {
	answer, err := k.read(ctx, r)
	if err != nil {
		told := *AsError(err)
		told.Message = clip(told.Message, maxMessage)
		return Answer{}, &told
	}
	return answer, nil
}

func (k *Kubernetes) read(ctx context.Context, r Request) (Answer, error) {
	// A name becomes part of the path, and must not lead out of it.
	for _, segment := range []string{r.Namespace, r.Name} {
		if wrong := content.IsPathSegmentName(segment); len(wrong) > 0 {
			return Answer{}, &Error{Reason: MetricNotFound, Message: fmt.Sprintf("%q %s", segment, strings.Join(wrong, ", "))}
		}
	}
	if err := k.checkOwner(ctx, r.Kind); err != nil {
		return Answer{}, err
	}
	switch r.Kind {
	case Resource:
		return k.resource(ctx, r)
	case Custom:
		return k.custom(ctx, r)
	default:
		return k.external(ctx, r)
	}
}

// The answers of the APIs, as far as they are read. Their versions differ in nothing else but the window of a custom
// metric, which has two names.
type (
	podMetricsList struct {
		Items []struct {
			Metadata   struct{ Name string }
			Timestamp  metav1.Time
			Window     metav1.Duration
			Containers []struct {
				Name  string
				Usage corev1.ResourceList
			}
		}
	}
	customList struct {
		Items []struct {
			DescribedObject struct{ Name string }
			Timestamp       metav1.Time
			WindowSeconds   int64
			Window          int64
			Value           resource.Quantity
		}
	}
	externalList struct {
		Items []struct {
			Timestamp metav1.Time
			Value     resource.Quantity
		}
	}
)

func (k *Kubernetes) resource(ctx context.Context, r Request) (Answer, error) {
	var list podMetricsList
	if err := k.get(ctx, r, []string{"namespaces", r.Namespace, "pods"}, nil, &list); err != nil {
		return Answer{}, err
	}
	answer := Answer{Pods: make(map[string]Pod, len(list.Items)), Time: k.clock.Now()}
	for _, item := range list.Items {
		pod := Pod{Time: item.Timestamp.Time, Window: item.Window.Duration, Containers: make([]Container, 0, len(item.Containers))}
		for _, c := range item.Containers {
			pod.Containers = append(pod.Containers, Container{Name: c.Name, Usage: c.Usage})
		}
		answer.Pods[item.Metadata.Name] = pod
	}
	return answer, nil
}

func (k *Kubernetes) custom(ctx context.Context, r Request) (Answer, error) {
	var list customList
	parameters := map[string]string{"labelSelector": r.Pods, "metricLabelSelector": r.Selector}
	if err := k.get(ctx, r, []string{"namespaces", r.Namespace, "pods", "*", r.Name}, parameters, &list); err != nil {
		return Answer{}, err
	}
	answer := Answer{Pods: make(map[string]Pod, len(list.Items)), Time: k.clock.Now()}
	for _, item := range list.Items {
		// Several series of one pod add up.
		pod, again := answer.Pods[item.DescribedObject.Name]
		pod.Value += item.Value.AsApproximateFloat64()
		pod.Window = max(pod.Window, time.Duration(item.WindowSeconds+item.Window)*time.Second)
		if !again || item.Timestamp.Time.Before(pod.Time) {
			pod.Time = item.Timestamp.Time
		}
		answer.Pods[item.DescribedObject.Name] = pod
	}
	return answer, nil
}

func (k *Kubernetes) external(ctx context.Context, r Request) (Answer, error) {
	var list externalList
	ask := func(name string) error {
		return k.get(ctx, r, []string{"namespaces", r.Namespace, name}, map[string]string{"labelSelector": r.Selector}, &list)
	}
	err := ask(r.Name)
	// A HorizontalPodAutoscaler asks for lower-case names only, and some adapters know no others.
	if lower := strings.ToLower(r.Name); err != nil && AsError(err).Reason == MetricNotFound && lower != r.Name {
		err = ask(lower)
	}
	if err != nil {
		return Answer{}, err
	}
	if len(list.Items) == 0 {
		return Answer{}, &Error{Reason: NoData, Message: fmt.Sprintf("%s holds no value of %q", metricsAPIs[External].group, r.Name)}
	}
	answer := Answer{Time: k.clock.Now()}
	for _, item := range list.Items {
		answer.Value += item.Value.AsApproximateFloat64()
		if at := item.Timestamp.Time; !at.IsZero() && (!answer.HasTime || at.Before(answer.Time)) {
			answer.Time, answer.HasTime = at, true
		}
	}
	return answer, nil
}

// get reads a path below a metrics API, in the best version that is served.
func (k *Kubernetes) get(ctx context.Context, r Request, segments []string, parameters map[string]string, into any) error {
	api := metricsAPIs[r.Kind]
	k.mu.Lock()
	version := k.versions[api.group]
	k.mu.Unlock()
	if version == "" {
		version = api.versions[0]
	}
	at := func(version string) []string { return append([]string{"/apis", api.group, version}, segments...) }
	body, err := k.raw(ctx, at(version), parameters)
	if apierrors.IsNotFound(err) {
		// Either the metric does not exist or this version of the API.
		served, discoveryErr := k.served(ctx, api.group, api.versions)
		switch {
		case discoveryErr != nil:
			err = discoveryErr
		case served == "":
			return &Error{Reason: MetricSourceUnavailable, Message: fmt.Sprintf("the cluster does not serve %s: there is no APIService %s.%s", api.group, api.versions[0], api.group), down: true}
		case served != version:
			version = served
			body, err = k.raw(ctx, at(version), parameters)
		}
	}
	switch {
	case apierrors.IsNotFound(err):
		return &Error{Reason: MetricNotFound, Message: fmt.Sprintf("%s: %s", api.group, short(err.Error()))}
	case err != nil:
		return k.unavailable(ctx, version+"."+api.group, err)
	}
	k.mu.Lock()
	k.versions[api.group] = version
	k.mu.Unlock()
	if err := json.Unmarshal(body, into); err != nil {
		return &Error{Reason: MetricSourceUnavailable, Message: fmt.Sprintf("the answer of %s cannot be read", api.group)}
	}
	return nil
}

func (k *Kubernetes) raw(ctx context.Context, segments []string, parameters map[string]string) ([]byte, error) {
	req := k.client.Get().AbsPath(segments...).MaxRetries(0)
	for name, value := range parameters {
		if value != "" {
			req.Param(name, value)
		}
	}
	result := req.Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err
	}
	return result.Raw()
}

// served is the first of the versions that the group has, empty where it has none.
func (k *Kubernetes) served(ctx context.Context, group string, versions []string) (string, error) {
	body, err := k.raw(ctx, []string{"/apis", group}, nil)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var found metav1.APIGroup
	if err := json.Unmarshal(body, &found); err != nil {
		return "", fmt.Errorf("reading the versions of %s: %w", group, err)
	}
	for _, version := range versions {
		if slices.ContainsFunc(found.Versions, func(v metav1.GroupVersionForDiscovery) bool { return v.Version == version }) {
			return version, nil
		}
	}
	return "", nil
}

// apiService is what is read of an APIService.
type apiService struct {
	Spec struct {
		Service struct{ Namespace, Name string }
	}
	Status struct {
		Conditions []metav1.Condition
	}
}

func (k *Kubernetes) apiService(ctx context.Context, name string) (apiService, error) {
	var found apiService
	body, err := k.raw(ctx, []string{"/apis/apiregistration.k8s.io/v1/apiservices", name}, nil)
	if err == nil {
		err = json.Unmarshal(body, &found)
	}
	return found, err
}

// unavailable says why an API gave no answer, in the words of its APIService where there are any.
func (k *Kubernetes) unavailable(ctx context.Context, name string, err error) *Error {
	var status apierrors.APIStatus
	answered := errors.As(err, &status)
	e := &Error{Reason: MetricSourceUnavailable, Message: fmt.Sprintf("%s: %s", name, short(err.Error()))}
	e.down = !answered || status.Status().Code >= 500 || status.Status().Code == http.StatusTooManyRequests
	switch {
	case ctx.Err() != nil:
		e.Message = name + ": no answer in time"
	case apierrors.IsServiceUnavailable(err):
		found, err := k.apiService(ctx, name)
		if err != nil {
			break
		}
		for _, c := range found.Status.Conditions {
			if c.Type == "Available" && c.Status != metav1.ConditionTrue {
				e.Message = fmt.Sprintf("APIService %s is not available: %s: %s", name, c.Reason, short(c.Message))
			}
		}
	}
	return e
}

// checkOwner finds out once a minute whether an API is served by whom it is meant to be.
func (k *Kubernetes) checkOwner(ctx context.Context, kind Kind) error {
	api := metricsAPIs[kind]
	owner := k.owners[api.group]
	k.mu.Lock()
	seen := k.owned[api.group]
	k.mu.Unlock()
	if owner == "" || k.clock.Since(seen) < time.Minute {
		return nil
	}
	for _, version := range api.versions {
		name := version + "." + api.group
		found, err := k.apiService(ctx, name)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return k.unavailable(ctx, name, err)
		}
		if by := found.Spec.Service.Namespace + "/" + found.Spec.Service.Name; by != owner {
			return &Error{Reason: MetricsAPINotOwned, Message: fmt.Sprintf("APIService %s is served by %s, must be %s", name, by, owner)}
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.owned[api.group] = k.clock.Now()
	return nil
}
