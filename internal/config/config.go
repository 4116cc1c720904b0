// Package config reads the manager's configuration file: one strict, versioned file. Unknown fields are errors, and all
// findings are reported at once, each with the field's path.
package config

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// APIVersion and Kind identify the file.
const (
	APIVersion = "config.pd-orchestrator.io/v1alpha1"
	Kind       = "ManagerConfiguration"
)

// CrossNamespace says what a controller does with a reference to another namespace.
type CrossNamespace string

const (
	// CrossNamespaceDenied refuses it. The default without the webhook, since a controller would lend its own rights
	// to writers that nobody asked for theirs.
	CrossNamespaceDenied CrossNamespace = "Denied"
	// CrossNamespaceAdmitted follows it where admission has asked for the writer's rights. It takes the webhook, and is
	// the default with it.
	CrossNamespaceAdmitted CrossNamespace = "Admitted"
	// CrossNamespaceTrusted follows it: everybody who can write our objects may act on every namespace.
	CrossNamespaceTrusted CrossNamespace = "Trusted"
)

// Configuration is the content of the file.
type Configuration struct {
	metav1.TypeMeta `json:",inline"`

	// LeaderElection lets several replicas of the manager stand by for each other.
	LeaderElection LeaderElection `json:"leaderElection,omitzero"`
	// Health serves /healthz and /readyz.
	Health Endpoint `json:"health,omitzero"`
	// Metrics serves /metrics.
	Metrics Endpoint `json:"metrics,omitzero"`
	// Log says how much is logged and in what form.
	Log Log `json:"log,omitzero"`
	// Client limits the requests to the API server.
	Client Client `json:"client,omitzero"`
	// Prometheus is where metrics are queried.
	Prometheus Prometheus `json:"prometheus,omitzero"`
	// Namespace is that of this product's components. Empty means the namespace that the manager runs in as a pod.
	Namespace string `json:"namespace,omitempty"`
	// WatchNamespaces limits what is read and acted on to these namespaces, in which the components then need Roles in
	// place of ClusterRoles. Empty means all namespaces.
	WatchNamespaces []string `json:"watchNamespaces,omitempty"`
	// Webhook admits our objects.
	Webhook Webhook `json:"webhook,omitzero"`
	// CrossNamespace is Denied, Admitted or Trusted. The default is Admitted with the webhook and Denied without it.
	CrossNamespace CrossNamespace `json:"crossNamespace,omitempty"`
	// ElasticScaler configures the component of that name.
	ElasticScaler ElasticScaler `json:"elasticScaler,omitzero"`
	// ConcurrentReconciles is how many objects of a kind are worked on at a time, from 1 to 100. The default is 8.
	ConcurrentReconciles int `json:"concurrentReconciles,omitempty"`
}

// ElasticScaler configures how ElasticScalers are evaluated.
type ElasticScaler struct {
	// IntervalSeconds between two evaluations of a scaler whose spec names none, from 1 to 3600. The default is 15.
	IntervalSeconds int `json:"intervalSeconds,omitempty"`
	// StateSources are further kinds, beside Tidal, whose objects may drive a StateTrigger. Each carries the count in
	// status.desiredReplicas, and the component must have the rights get, list and watch on it. A kind may be installed
	// later than the manager.
	StateSources []KindReference `json:"stateSources,omitempty"`
	// Endpoints says which addresses of user-written endpoints may be dialled.
	Endpoints Endpoints `json:"endpoints,omitzero"`
	// MetricsAPIs names, by API group such as external.metrics.k8s.io, the Service (namespace/name) that is meant to serve
	// it. Where another one does, its metrics have no value. A group that is not named may be served by any.
	MetricsAPIs map[string]string `json:"metricsAPIs,omitempty"`
	// Signals is where pushed signals are served, with the certificate of the webhook and only while that is enabled. The
	// default is ":9444"; "0" does not serve.
	Signals Endpoint `json:"signals,omitzero"`
	// CPUInitializationSeconds is how long after its start the CPU use of a pod counts only while it is ready, from 0 to
	// 3600. The default is 300, as of the HorizontalPodAutoscaler.
	CPUInitializationSeconds int `json:"cpuInitializationSeconds,omitempty"`
	// InitialReadinessSeconds is how long after its start a pod that was never ready counts as starting, from 0 to 3600.
	// The default is 30, as of the HorizontalPodAutoscaler.
	InitialReadinessSeconds int `json:"initialReadinessSeconds,omitempty"`
}

// Interval between two evaluations of a scaler whose spec names none.
func (e ElasticScaler) Interval() time.Duration {
	return time.Duration(e.IntervalSeconds) * time.Second
}

// KindReference names a kind.
type KindReference struct {
	// APIVersion such as "example.com/v1".
	APIVersion string `json:"apiVersion,omitempty"`
	// Kind such as "Schedule".
	Kind string `json:"kind,omitempty"`
}

// Endpoints narrows or widens which addresses may be dialled where users write the endpoint. Without it these are all but
// loopback, link-local and unspecified ones and those of the API server. Each entry is an address range such as
// "10.0.0.0/8"; what neither list names is decided as without them, and Deny wins.
type Endpoints struct {
	// Allow are ranges that may be dialled although they would be refused.
	Allow []string `json:"allow,omitempty"`
	// Deny are ranges that may not be dialled.
	Deny []string `json:"deny,omitempty"`
}

// Ranges returns the ranges as parsed values. They have been checked.
func (e Endpoints) Ranges() (allow, deny []netip.Prefix) {
	parse := func(texts []string) []netip.Prefix {
		var out []netip.Prefix
		for _, t := range texts {
			if p, err := netip.ParsePrefix(t); err == nil {
				out = append(out, p.Masked())
			}
		}
		return out
	}
	return parse(e.Allow), parse(e.Deny)
}

// CertificateSource says who makes the certificate of the webhook.
type CertificateSource string

const (
	// CertificatesManaged has the manager make and renew it, and write its authority into the webhook configuration.
	CertificatesManaged CertificateSource = "Managed"
	// CertificatesCertManager takes it from a mounted Secret that cert-manager, or another, fills and renews. Its
	// authority is in the webhook configuration by other means, such as cert-manager's injector.
	CertificatesCertManager CertificateSource = "CertManager"
)

// Webhook configures the server of the admission webhooks.
type Webhook struct {
	// Enabled is false by default. With it every replica serves.
	Enabled bool `json:"enabled,omitempty"`
	// BindAddress to serve on. The default is ":9443".
	BindAddress string `json:"bindAddress,omitempty"`
	// CertDir holds tls.crt and tls.key. With Managed it is a folder that the manager may write to, which holds the
	// first of them only. The default is /tmp/k8s-webhook-server/serving-certs.
	CertDir string `json:"certDir,omitempty"`
	// Certificates is Managed (the default) or CertManager.
	Certificates CertificateSource `json:"certificates,omitempty"`
	// SecretName of the Secret that holds a Managed certificate, which must exist. Empty means
	// pd-orchestrator-<component>, of the first component where several run as one.
	SecretName string `json:"secretName,omitempty"`
	// ServiceName of the Service before the webhook, for which a Managed certificate is made. Empty means
	// pd-orchestrator-<component>-webhook.
	ServiceName string `json:"serviceName,omitempty"`
	// DNSNames are further names that a Managed certificate is for.
	DNSNames []string `json:"dnsNames,omitempty"`
	// ValiditySeconds of a Managed certificate, from 60. It is renewed when a quarter is left. The default is a year.
	ValiditySeconds int `json:"validitySeconds,omitempty"`
}

// Address is the host, "" for all, and the port of BindAddress.
func (w Webhook) Address() (host string, port int, err error) {
	host, text, err := net.SplitHostPort(w.BindAddress)
	if err != nil {
		return "", 0, err
	}
	number, err := strconv.ParseUint(text, 10, 16)
	if err == nil && number == 0 {
		err = errors.New("port 0 is none that the API server could be told of")
	}
	return host, int(number), err
}

// Validity of a Managed certificate.
func (w Webhook) Validity() time.Duration { return time.Duration(w.ValiditySeconds) * time.Second }

// LeaderElection configures the Lease that one replica holds.
type LeaderElection struct {
	// Enabled is false by default.
	Enabled bool `json:"enabled,omitempty"`
	// Namespace of the Lease. Empty means the namespace that the manager runs in.
	Namespace string `json:"namespace,omitempty"`
}

// Endpoint is an address to serve on.
type Endpoint struct {
	// BindAddress such as ":8081"; "0" does not serve.
	BindAddress string `json:"bindAddress,omitempty"`
}

// Log configures the log.
type Log struct {
	// Format is json (the default) or text.
	Format string `json:"format,omitempty"`
	// Level is the verbosity: 0 (the default) for changes, 1 for what each pass saw, up to 10.
	Level int `json:"level,omitempty"`
}

// Client limits requests to the API server.
type Client struct {
	// QPS is the sustained rate in requests per second, above 0. The default is 1000: the server has limits of its own.
	QPS float32 `json:"qps,omitempty"`
	// Burst is how many may come at once, at least QPS. The default is 2000.
	Burst int `json:"burst,omitempty"`
}

// Prometheus says where and how metrics are queried.
type Prometheus struct {
	// Address is the base URL. Empty means that there is none, and every choice by metric falls back.
	Address string `json:"address,omitempty"`
	// BearerTokenFile holds the token to send; read anew for each request.
	BearerTokenFile string `json:"bearerTokenFile,omitempty"`
	// CAFile holds PEM certificates to trust instead of the system's.
	CAFile string `json:"caFile,omitempty"`
	// TimeoutSeconds of one query, from 1 to 60. The default is 5.
	TimeoutSeconds int `json:"timeoutSeconds,omitempty"`
	// MaxSampleAgeSeconds is how old the samples behind a value may be, from 1. The default is 120.
	MaxSampleAgeSeconds int `json:"maxSampleAgeSeconds,omitempty"`
	// Labels names the labels by which queries are narrowed.
	Labels PrometheusLabels `json:"labels,omitzero"`
}

// PrometheusLabels names labels of the series.
type PrometheusLabels struct {
	// Namespace is the label with a pod's namespace. The default is "namespace"; "-" leaves it out.
	Namespace string `json:"namespace,omitempty"`
	// RSG is the label with the name of a pod's ResourceScalingGroup, filled from the pod label rsg.io/name by the
	// scrape configuration. Empty (the default) leaves it out.
	RSG string `json:"rsg,omitempty"`
	// Replicas are labels that tell the members of a pair of Prometheus servers apart; their series are counted once.
	Replicas []string `json:"replicas,omitempty"`
}

// Timeout of one query.
func (p Prometheus) Timeout() time.Duration { return time.Duration(p.TimeoutSeconds) * time.Second }

// MaxSampleAge is how old the samples behind a value may be.
func (p Prometheus) MaxSampleAge() time.Duration {
	return time.Duration(p.MaxSampleAgeSeconds) * time.Second
}

// Default returns the configuration that stands without a file.
func Default() Configuration {
	return Configuration{
		TypeMeta:   metav1.TypeMeta{APIVersion: APIVersion, Kind: Kind},
		Health:     Endpoint{BindAddress: ":8081"},
		Metrics:    Endpoint{BindAddress: ":8443"},
		Log:        Log{Format: "json"},
		Client:     Client{QPS: 1000, Burst: 2000},
		Prometheus: Prometheus{TimeoutSeconds: 5, MaxSampleAgeSeconds: 120, Labels: PrometheusLabels{Namespace: "namespace"}},
		Webhook: Webhook{
			BindAddress:     ":9443",
			CertDir:         "/tmp/k8s-webhook-server/serving-certs",
			Certificates:    CertificatesManaged,
			ValiditySeconds: 365 * 24 * 60 * 60,
		},
		ElasticScaler:        ElasticScaler{IntervalSeconds: 15, Signals: Endpoint{BindAddress: ":9444"}, CPUInitializationSeconds: 300, InitialReadinessSeconds: 30},
		CrossNamespace:       CrossNamespaceDenied,
		ConcurrentReconciles: 8,
	}
}

// Load reads and checks the file. The path "" gives the defaults.
func Load(path string) (Configuration, error) {
	if path == "" {
		return Default(), nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return Configuration{}, fmt.Errorf("reading the configuration: %w", err)
	}
	c, err := Parse(data)
	if err != nil {
		return Configuration{}, fmt.Errorf("configuration %s: %w", path, err)
	}
	return c, nil
}

// Parse reads YAML over the defaults and checks it. The error holds every finding.
func Parse(data []byte) (Configuration, error) {
	c := Default()
	c.APIVersion, c.Kind, c.CrossNamespace = "", "", ""
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return Configuration{}, err
	}
	if c.CrossNamespace == "" {
		c.CrossNamespace = CrossNamespaceDenied
		if c.Webhook.Enabled {
			c.CrossNamespace = CrossNamespaceAdmitted
		}
	}
	if err := c.validate().ToAggregate(); err != nil {
		return Configuration{}, err
	}
	return c, nil
}

func (c Configuration) validate() field.ErrorList {
	var all field.ErrorList
	oneOf := func(path *field.Path, got string, allowed ...string) {
		for _, a := range allowed {
			if got == a {
				return
			}
		}
		all = append(all, field.NotSupported(path, got, allowed))
	}
	between := func(path *field.Path, got, least, most int) { all = append(all, within(path, got, least, most)...) }
	oneOf(field.NewPath("apiVersion"), c.APIVersion, APIVersion)
	oneOf(field.NewPath("kind"), c.Kind, Kind)
	oneOf(field.NewPath("crossNamespace"), string(c.CrossNamespace), string(CrossNamespaceDenied), string(CrossNamespaceAdmitted), string(CrossNamespaceTrusted))
	if c.CrossNamespace == CrossNamespaceAdmitted && !c.Webhook.Enabled {
		all = append(all, field.Invalid(field.NewPath("crossNamespace"), c.CrossNamespace, "must be Denied or Trusted unless webhook.enabled is true, since nothing admits references otherwise"))
	}
	oneOf(field.NewPath("log", "format"), c.Log.Format, "json", "text")
	between(field.NewPath("log", "level"), c.Log.Level, 0, 10)
	between(field.NewPath("concurrentReconciles"), c.ConcurrentReconciles, 1, 100)

	webhook := field.NewPath("webhook")
	oneOf(webhook.Child("certificates"), string(c.Webhook.Certificates), string(CertificatesManaged), string(CertificatesCertManager))
	between(webhook.Child("validitySeconds"), c.Webhook.ValiditySeconds, 60, 10*365*24*60*60)
	if _, _, err := c.Webhook.Address(); err != nil {
		all = append(all, field.Invalid(webhook.Child("bindAddress"), c.Webhook.BindAddress, "must be host:port, for example :9443"))
	}
	for _, name := range []struct{ field, value string }{{"secretName", c.Webhook.SecretName}, {"serviceName", c.Webhook.ServiceName}} {
		if msgs := validation.IsDNS1123Subdomain(name.value); name.value != "" && len(msgs) > 0 {
			all = append(all, field.Invalid(webhook.Child(name.field), name.value, strings.Join(msgs, "; ")))
		}
	}
	if c.Webhook.CertDir == "" {
		all = append(all, field.Required(webhook.Child("certDir"), "must name a folder"))
	}
	if msgs := validation.IsDNS1123Label(c.Namespace); c.Namespace != "" && len(msgs) > 0 {
		all = append(all, field.Invalid(field.NewPath("namespace"), c.Namespace, strings.Join(msgs, "; ")))
	}

	for i, name := range c.WatchNamespaces {
		if msgs := validation.IsDNS1123Label(name); len(msgs) > 0 {
			all = append(all, field.Invalid(field.NewPath("watchNamespaces").Index(i), name, strings.Join(msgs, "; ")))
		}
	}
	all = append(all, c.ElasticScaler.validate(field.NewPath("elasticScaler"))...)

	client := field.NewPath("client")
	if c.Client.QPS <= 0 {
		all = append(all, field.Invalid(client.Child("qps"), c.Client.QPS, "must be above 0"))
	}
	if float32(c.Client.Burst) < c.Client.QPS {
		all = append(all, field.Invalid(client.Child("burst"), c.Client.Burst, "must be at least qps"))
	}

	prometheus := field.NewPath("prometheus")
	if a := c.Prometheus.Address; a != "" {
		if u, err := url.Parse(a); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			all = append(all, field.Invalid(prometheus.Child("address"), a, "must be an http or https URL, for example http://prometheus.monitoring.svc:9090"))
		}
	}
	for i, name := range c.Prometheus.Labels.Replicas {
		if !model.LegacyValidation.IsValidLabelName(name) {
			all = append(all, field.Invalid(prometheus.Child("labels", "replicas").Index(i), name, "must be a label name: letters, digits and '_'"))
		}
	}
	between(prometheus.Child("timeoutSeconds"), c.Prometheus.TimeoutSeconds, 1, 60)
	between(prometheus.Child("maxSampleAgeSeconds"), c.Prometheus.MaxSampleAgeSeconds, 1, 86400)
	return all
}

func within(path *field.Path, got, least, most int) field.ErrorList {
	if got < least || got > most {
		return field.ErrorList{field.Invalid(path, got, fmt.Sprintf("must be from %d to %d", least, most))}
	}
	return nil
}

func (e ElasticScaler) validate(path *field.Path) field.ErrorList {
	all := within(path.Child("intervalSeconds"), e.IntervalSeconds, 1, 3600)
	all = append(all, within(path.Child("cpuInitializationSeconds"), e.CPUInitializationSeconds, 0, 3600)...)
	all = append(all, within(path.Child("initialReadinessSeconds"), e.InitialReadinessSeconds, 0, 3600)...)
	for i, source := range e.StateSources {
		at := path.Child("stateSources").Index(i)
		if gv, err := schema.ParseGroupVersion(source.APIVersion); err != nil || gv.Version == "" {
			all = append(all, field.Invalid(at.Child("apiVersion"), source.APIVersion, "must be group/version, for example example.com/v1"))
		}
		if source.Kind == "" {
			all = append(all, field.Required(at.Child("kind"), "must name a kind, for example Schedule"))
		}
	}
	for _, group := range slices.Sorted(maps.Keys(e.MetricsAPIs)) {
		namespace, name, ok := strings.Cut(e.MetricsAPIs[group], "/")
		if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
			all = append(all, field.Invalid(path.Child("metricsAPIs").Key(group), e.MetricsAPIs[group], "must be namespace/name of a Service, for example keda/keda-operator-metrics-apiserver"))
		}
	}
	ranges := func(path *field.Path, texts []string) {
		for i, text := range texts {
			if _, err := netip.ParsePrefix(text); err != nil {
				all = append(all, field.Invalid(path.Index(i), text, "must be an address range, for example 10.0.0.0/8"))
			}
		}
	}
	ranges(path.Child("endpoints", "allow"), e.Endpoints.Allow)
	ranges(path.Child("endpoints", "deny"), e.Endpoints.Deny)
	if a := e.Signals.BindAddress; a != "0" {
		if _, port, err := net.SplitHostPort(a); err != nil || port == "" {
			all = append(all, field.Invalid(path.Child("signals", "bindAddress"), a, "must be host:port, for example :9444, or 0 to serve none"))
		}
	}
	return all
}
