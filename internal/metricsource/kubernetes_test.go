package metricsource

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
)

// cluster answers paths with bodies, and all else as an API server does. A body that begins with a number has that status.
type cluster struct {
	mu    sync.Mutex
	paths map[string]string
	asked []string
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, r.URL.RequestURI())
	body, ok := c.paths[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	status := 200
	if n, _ := fmt.Sscanf(body, "%d ", &status); n == 1 {
		_, body, _ = strings.Cut(body, " ")
	}
	w.Header().Set("Content-Type", "application/json")
	if !strings.HasPrefix(body, "{") {
		w.Header().Set("Content-Type", "text/plain")
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func (c *cluster) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked := c.asked
	c.asked = nil
	return asked
}

func (c *cluster) set(path, body string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paths[path] = body
}

func kubernetes(t *testing.T, paths map[string]string, owners map[string]string) (*Kubernetes, *cluster) {
	t.Helper()
	c := &cluster{paths: paths}
	srv := httptest.NewServer(c)
	t.Cleanup(srv.Close)
	k, err := NewKubernetes(KubernetesOptions{Config: &rest.Config{Host: srv.URL}, Clock: fixed, Owners: owners})
	if err != nil {
		t.Fatal(err)
	}
	return k, c
}

func group(name string, versions ...string) string {
	text := `{"kind":"APIGroup","apiVersion":"v1","name":"` + name + `","versions":[`
	for i, version := range versions {
		if i > 0 {
			text += ","
		}
		text += `{"groupVersion":"` + name + `/` + version + `","version":"` + version + `"}`
	}
	return text + `]}`
}

func status(code int, reason, message string) string {
	return fmt.Sprintf(`%d {"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":%q,"code":%d}`, code, reason, message, code)
}

func must(t *testing.T) func(Request, error) Request {
	t.Helper()
	return func(r Request, err error) Request {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
}

var podSelector = labels.SelectorFromSet(labels.Set{"app": "decode"})

const (
	metricsPods    = "/apis/metrics.k8s.io/v1beta1/namespaces/ns/pods"
	customV2       = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/ns/pods/*/vllm:waiting"
	customV1       = "/apis/custom.metrics.k8s.io/v1beta1/namespaces/ns/pods/*/vllm:waiting"
	externalQPS    = "/apis/external.metrics.k8s.io/v1beta1/namespaces/ns/qps"
	apiServicePath = "/apis/apiregistration.k8s.io/v1/apiservices/"
)

func TestResourceMetrics(t *testing.T) {
	k, c := kubernetes(t, map[string]string{metricsPods: `{"kind":"PodMetricsList","items":[
		{"metadata":{"name":"a","namespace":"ns"},"timestamp":"2023-11-14T22:13:00Z","window":"15.5s","containers":[
			{"name":"main","usage":{"cpu":"250m","memory":"64Mi"}},{"name":"side","usage":{"cpu":"1"}}]},
		{"metadata":{"name":"b"},"timestamp":null,"window":"0s","containers":[]}]}`}, nil)
	got, err := k.Read(t.Context(), ResourceRequest("ns"))
	want := Answer{Time: fixed.Now(), Pods: map[string]Pod{
		"a": {Time: time.Date(2023, 11, 14, 22, 13, 0, 0, time.UTC), Window: 15500 * time.Millisecond, Containers: []Container{
			{Name: "main", Usage: corev1.ResourceList{"cpu": resource.MustParse("250m"), "memory": resource.MustParse("64Mi")}},
			{Name: "side", Usage: corev1.ResourceList{"cpu": resource.MustParse("1")}},
		}},
		"b": {Containers: []Container{}},
	}}
	for name, pod := range got.Pods {
		if !pod.Time.IsZero() {
			pod.Time = pod.Time.UTC()
			got.Pods[name] = pod
		}
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("answer %+v (%v)\nwant %+v", got, err, want)
	}
	if asked := c.take(); len(asked) != 1 {
		t.Errorf("asked %q, want one list of the namespace", asked)
	}
}

func TestCustomMetrics(t *testing.T) {
	const items = `{"items":[
		{"describedObject":{"kind":"Pod","name":"a"},"timestamp":"2023-11-14T22:13:10Z","windowSeconds":60,"value":"1500m"},
		{"describedObject":{"kind":"Pod","name":"a"},"timestamp":"2023-11-14T22:13:00Z","value":"2"},
		{"describedObject":{"kind":"Pod","name":"b"},"timestamp":null,"value":"0"}]}`
	check := func(t *testing.T, k *Kubernetes, r Request, window time.Duration) {
		t.Helper()
		got, err := k.Read(t.Context(), r)
		a, b := got.Pods["a"], got.Pods["b"]
		if err != nil || len(got.Pods) != 2 || a.Value != 3.5 || a.Window != window || a.Time.Unix() != 1699999980 || b.Value != 0 || !b.Time.IsZero() {
			t.Errorf("answer %+v (%v), want a at 3.5 (of two series, the older one's time) and b at 0", got, err)
		}
	}
	r := must(t)(CustomRequest("ns", "vllm:waiting", &metav1.LabelSelector{MatchLabels: map[string]string{"model": "m"}}, podSelector))

	k, c := kubernetes(t, map[string]string{customV2: items}, nil)
	check(t, k, r, time.Minute)
	if asked := c.take(); len(asked) != 1 || !strings.HasSuffix(asked[0], "?labelSelector=app%3Ddecode&metricLabelSelector=model%3Dm") {
		t.Errorf("asked %q, want the pods and series that are selected", asked)
	}

	// Some of the pods may be in another namespace.
	k, _ = kubernetes(t, map[string]string{customV2: `{"items":[]}`}, nil)
	if got, err := k.Read(t.Context(), r); err != nil || len(got.Pods) != 0 {
		t.Errorf("answer %+v (%v), want one without pods", got, err)
	}

	// An older adapter.
	k, c = kubernetes(t, map[string]string{
		customV1:                      strings.ReplaceAll(items, "windowSeconds", "window"),
		"/apis/custom.metrics.k8s.io": group("custom.metrics.k8s.io", "v1beta1"),
	}, nil)
	check(t, k, r, time.Minute)
	c.take()
	check(t, k, r, time.Minute)
	if asked := c.take(); len(asked) != 1 {
		t.Errorf("asked %q, want the version that is known to be served", asked)
	}
	// It is replaced by a newer one.
	c.set("/apis/custom.metrics.k8s.io", group("custom.metrics.k8s.io", "v1beta2"))
	c.set(customV1, status(404, "NotFound", "gone"))
	c.set(customV2, items)
	check(t, k, r, time.Minute)
}

func TestExternalMetrics(t *testing.T) {
	k, c := kubernetes(t, map[string]string{externalQPS: `{"items":[
		{"metricName":"qps","metricLabels":{"zone":"a"},"timestamp":"2023-11-14T22:13:10Z","value":"1500m"},
		{"metricName":"qps","timestamp":"2023-11-14T22:13:00Z","value":"2"},
		{"metricName":"qps","timestamp":null,"value":"1k"}]}`,
		"/apis/external.metrics.k8s.io": group("external.metrics.k8s.io", "v1beta1")}, nil)
	r := must(t)(ExternalRequest("ns", "qps", &metav1.LabelSelector{MatchLabels: map[string]string{"queue": "q"}}))
	got, err := k.Read(t.Context(), r)
	if err != nil || got.Value != 1003.5 || !got.HasTime || got.Time.Unix() != 1699999980 {
		t.Errorf("answer %+v (%v), want 1003.5 as of the oldest", got, err)
	}
	if asked := c.take(); len(asked) != 1 || !strings.HasSuffix(asked[0], "?labelSelector=queue%3Dq") {
		t.Errorf("asked %q", asked)
	}
	if got, err := k.Read(t.Context(), must(t)(ExternalRequest("ns", "QPS", nil))); err != nil || got.Value != 1003.5 {
		t.Errorf("answer %+v (%v) to a name that the adapter knows in lower case", got, err)
	}

	c.set(externalQPS, `{"items":[{"metricName":"qps","timestamp":null,"value":"0"}]}`)
	if got, err := k.Read(t.Context(), r); err != nil || got.Value != 0 || got.HasTime || !got.Time.Equal(fixed.Now()) {
		t.Errorf("answer %+v (%v), want 0 as of when it was read", got, err)
	}
}

func TestMetricsAPIsThatGiveNoValue(t *testing.T) {
	const customGroup, externalGroup = "/apis/custom.metrics.k8s.io", "/apis/external.metrics.k8s.io"
	custom := must(t)(CustomRequest("ns", "vllm:waiting", nil, podSelector))
	external := must(t)(ExternalRequest("ns", "qps", nil))
	cases := map[string]struct {
		paths           map[string]string
		request         Request
		reason, message string
		down            bool
	}{
		"no metrics-server": {request: ResourceRequest("ns"), reason: MetricSourceUnavailable, message: "there is no APIService v1beta1.metrics.k8s.io", down: true},
		"no adapter":        {request: custom, reason: MetricSourceUnavailable, message: "there is no APIService v1beta2.custom.metrics.k8s.io", down: true},
		"a version that is not known": {
			request: external, paths: map[string]string{externalGroup: group("external.metrics.k8s.io", "v2")},
			reason: MetricSourceUnavailable, message: "there is no APIService v1beta1.external.metrics.k8s.io", down: true,
		},
		"an API that does not answer": {
			request: ResourceRequest("ns"), paths: map[string]string{
				metricsPods: "503 service unavailable",
				apiServicePath + "v1beta1.metrics.k8s.io": `{"status":{"conditions":[{"type":"Available","status":"False","lastTransitionTime":null,"reason":"MissingEndpoints","message":"endpoints for service/metrics-server have no addresses"}]}}`,
			},
			reason: MetricSourceUnavailable, message: "APIService v1beta1.metrics.k8s.io is not available: MissingEndpoints: endpoints for", down: true,
		},
		"one whose APIService must not be read": {
			request: ResourceRequest("ns"), paths: map[string]string{metricsPods: "503 service unavailable", apiServicePath + "v1beta1.metrics.k8s.io": status(403, "Forbidden", "no")},
			reason: MetricSourceUnavailable, message: "v1beta1.metrics.k8s.io: ", down: true,
		},
		"no right to read": {
			request: ResourceRequest("ns"), paths: map[string]string{metricsPods: status(403, "Forbidden", "pods.metrics.k8s.io is forbidden")},
			reason: MetricSourceUnavailable, message: "is forbidden",
		},
		"an adapter that fails": {
			request: external, paths: map[string]string{externalQPS: status(500, "InternalError", "no scaler")},
			reason: MetricSourceUnavailable, message: "no scaler", down: true,
		},
		"a metric that the adapter does not know": {
			request: custom, paths: map[string]string{customGroup: group("custom.metrics.k8s.io", "v1beta1", "v1beta2"), customV2: status(404, "NotFound", "no metric vllm:waiting for pods")},
			reason: MetricNotFound, message: "no metric vllm:waiting for pods",
		},
		"one that the older adapter does not know": {
			request: custom, paths: map[string]string{customGroup: group("custom.metrics.k8s.io", "v1beta1"), customV1: status(404, "NotFound", "no metric vllm:waiting for pods")},
			reason: MetricNotFound, message: "no metric vllm:waiting for pods",
		},
		"a discovery that fails": {
			request: custom, paths: map[string]string{customGroup: status(500, "InternalError", "etcd is down")},
			reason: MetricSourceUnavailable, message: "etcd is down", down: true,
		},
		"no value of an external metric": {request: external, paths: map[string]string{externalQPS: `{"items":[]}`}, reason: NoData, message: `no value of "qps"`},
		"a value that is none":           {request: external, paths: map[string]string{externalQPS: `{"items":[{"value":"many"}]}`}, reason: MetricSourceUnavailable, message: "cannot be read"},
		"half of a list":                 {request: external, paths: map[string]string{externalQPS: `{"items":[`}, reason: MetricSourceUnavailable, message: "cannot be read"},
		"a page of HTML":                 {request: external, paths: map[string]string{externalQPS: `<html>`}, reason: MetricSourceUnavailable, message: "cannot be read"},
		"a name that leads elsewhere": {
			request: Request{Kind: External, Namespace: "ns", Name: "../../../../api/v1/nodes"}, reason: MetricNotFound, message: "may not contain '/'",
		},
		"a name of a folder": {request: Request{Kind: External, Namespace: "ns", Name: ".."}, reason: MetricNotFound, message: "may not be '..'"},
		"an escaped name":    {request: Request{Kind: Custom, Namespace: "ns", Name: "%2e%2e"}, reason: MetricNotFound, message: "may not contain '%'"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			k, c := kubernetes(t, tc.paths, nil)
			_, err := k.Read(t.Context(), tc.request)
			expectError(t, err, tc.reason, tc.message)
			if told := AsError(err); told != nil && told.down != tc.down {
				t.Errorf("error %#v, want one of the API itself: %v", told, tc.down)
			}
			for _, path := range c.take() {
				if strings.Contains(path, "nodes") {
					t.Errorf("asked for %s", path)
				}
			}
		})
	}
}

func TestAMetricsAPIOfAnotherOwnerGivesNoValue(t *testing.T) {
	const path = apiServicePath + "v1beta1.external.metrics.k8s.io"
	service := func(name string) string {
		return `{"spec":{"service":{"namespace":"keda","name":"` + name + `"}}}`
	}
	k, c := kubernetes(t, map[string]string{path: service("adapter"), externalQPS: `{"items":[{"value":"5"}]}`},
		map[string]string{"external.metrics.k8s.io": "keda/keda-operator-metrics-apiserver"})
	r := must(t)(ExternalRequest("ns", "qps", nil))
	_, err := k.Read(t.Context(), r)
	expectError(t, err, MetricsAPINotOwned, "v1beta1.external.metrics.k8s.io is served by keda/adapter, must be keda/keda-operator-metrics-apiserver")

	c.set(path, service("keda-operator-metrics-apiserver"))
	c.take()
	for range 3 {
		if got, err := k.Read(t.Context(), r); err != nil || got.Value != 5 {
			t.Errorf("answer %+v (%v), want 5 from the right owner", got, err)
		}
	}
	if asked := c.take(); len(asked) != 4 {
		t.Errorf("asked %q, want the owner once", asked)
	}
	c.set(path, status(403, "Forbidden", "no right"))
	k.owned = map[string]time.Time{}
	_, err = k.Read(t.Context(), r)
	expectError(t, err, MetricSourceUnavailable, "no right")
}

func TestMetricsAPIsAreAskedOnceAndAtOnce(t *testing.T) {
	asked := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer srv.Close()
	// The limits of the client that writes are not for this one.
	k, err := NewKubernetes(KubernetesOptions{Config: &rest.Config{Host: srv.URL, QPS: 1e-3, Burst: 1}, Clock: fixed})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range 3 {
		_, err := k.Read(ctx, ResourceRequest("ns"))
		if told := AsError(err); told == nil || !told.down || asked != i+1 {
			t.Errorf("error %#v after %d requests, want one of the API after %d", told, asked, i+1)
		}
	}
}

// BenchmarkResource is what a namespace of 1,000 pods costs in each round.
func BenchmarkResource(b *testing.B) {
	var items []string
	for i := range 1000 {
		items = append(items, fmt.Sprintf(`{"metadata":{"name":"decode-%d","namespace":"ns","creationTimestamp":"2023-11-14T22:13:00Z","labels":{"app":"decode"}},"timestamp":"2023-11-14T22:13:00Z","window":"15.5s","containers":[{"name":"main","usage":{"cpu":"25012345n","memory":"65536Ki"}}]}`, i))
	}
	srv := httptest.NewServer(&cluster{paths: map[string]string{metricsPods: `{"items":[` + strings.Join(items, ",") + `]}`}})
	defer srv.Close()
	k, err := NewKubernetes(KubernetesOptions{Config: &rest.Config{Host: srv.URL}, Clock: fixed})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := k.Read(b.Context(), ResourceRequest("ns")); err != nil {
			b.Fatal(err)
		}
	}
}
