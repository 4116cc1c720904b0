// Package externalmetrics is an API server for external metrics whose values tests set. Only tests import it.
package externalmetrics

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pd-orchestrator/pd-orchestrator/lab"
)

// API is the API by which external metrics are asked for.
var API = schema.GroupVersion{Group: "external.metrics.k8s.io", Version: "v1beta1"}

// Server serves that API with the values that tests set. A metric that was not set has no values.
type Server struct {
	mu sync.Mutex
	// values are quantities by "<namespace>/<metric>".
	values map[string]string
	// reads is how often each was asked for.
	reads map[string]int
}

// Serve registers an API server for external metrics, which serves until the process ends.
func Serve(ctx context.Context, l *lab.Lab) (*Server, error) {
	const service = "external-metrics"
	certPEM, keyPEM, err := l.ServingCertificate(service + "." + lab.ProductNamespace + ".svc")
	if err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("loading the certificate of the external metrics: %w", err)
	}
	m := &Server{values: map[string]string{}, reads: map[string]int{}}
	server := httptest.NewUnstartedServer(m)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	port := server.Listener.Addr().(*net.TCPAddr).Port
	return m, l.RegisterAPI(ctx, API, lab.ProductNamespace, service, port)
}

// Set sets the value of a metric in a namespace, a quantity.
func (m *Server) Set(namespace, metric, value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[namespace+"/"+metric] = value
}

// ServeHTTP answers discovery, and .../namespaces/<namespace>/<metric>.
func (m *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	path, found := strings.CutPrefix(r.URL.Path, "/apis/"+API.String()+"/namespaces/")
	if !found {
		_ = json.NewEncoder(w).Encode(metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: API.String(),
		})
		return
	}
	m.mu.Lock()
	value, known := m.values[path]
	m.reads[path]++
	m.mu.Unlock()
	items := []any{}
	if known {
		_, metric, _ := strings.Cut(path, "/")
		items = append(items, map[string]any{"metricName": metric, "metricLabels": map[string]string{}, "timestamp": metav1.Now(), "value": value})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": "ExternalMetricValueList", "apiVersion": API.String(), "metadata": map[string]any{}, "items": items,
	})
}

// Unset takes a metric of a namespace away.
func (m *Server) Unset(namespace, metric string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, namespace+"/"+metric)
}

// Reads is how often a metric was asked for, whether it had a value or not.
func (m *Server) Reads(namespace, metric string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reads[namespace+"/"+metric]
}
