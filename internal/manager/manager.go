// Package manager is the composition root: the only place that knows every part and puts them together.
package manager

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/pd-orchestrator/pd-orchestrator/api"
	"github.com/pd-orchestrator/pd-orchestrator/internal/admission"
	"github.com/pd-orchestrator/pd-orchestrator/internal/certificates"
	"github.com/pd-orchestrator/pd-orchestrator/internal/config"
	"github.com/pd-orchestrator/pd-orchestrator/internal/controller/autoscalerpolicy"
	"github.com/pd-orchestrator/pd-orchestrator/internal/controller/elasticscaler"
	"github.com/pd-orchestrator/pd-orchestrator/internal/controller/resourcescalinggroup"
	"github.com/pd-orchestrator/pd-orchestrator/internal/controller/tidal"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
	"github.com/pd-orchestrator/pd-orchestrator/internal/metricsource"
	"github.com/pd-orchestrator/pd-orchestrator/internal/telemetry"
)

// parts is what a component is built from.
type parts struct {
	mgr       ctrl.Manager
	config    config.Configuration
	metrics   metricsource.Querier
	telemetry *telemetry.Metrics
	// certificate is what is served with over HTTPS. It is set where webhooks are enabled.
	certificate certificates.Kept
	// crossNamespace says whether the component acts on references to other namespaces: Denied or Trusted.
	crossNamespace config.CrossNamespace
	// cluster is what policies depend on in the cluster. It is set for their component.
	cluster *autoscalerpolicy.Cluster
}

// component is one controller that can be switched on and off.
type component struct {
	cache func() map[client.Object]cache.ByObject
	setup func(context.Context, parts) error
	// webhook admits the component's objects.
	webhook webhook
	// ownsPods tells that it asks the cache for the pods of a workload.
	ownsPods bool
}

var components = map[string]component{
	resourcescalinggroup.Component: {
		cache:    resourcescalinggroup.CacheOptions,
		setup:    setupResourceScalingGroup,
		ownsPods: true,
		webhook: webhook{
			configuration: "resourcescalinggroup.autoscaling.openfuyao.com",
			path:          admission.ResourceScalingGroupPath,
			handler:       admitResourceScalingGroup,
		},
	},
	elasticscaler.Component: {
		cache:    elasticscaler.CacheOptions,
		setup:    setupElasticScaler,
		ownsPods: true,
		webhook: webhook{
			configuration: "elasticscaler.elasticscaler.io",
			path:          admission.ElasticScalerPath,
			handler:       admitElasticScaler,
		},
	},
	autoscalerpolicy.Component: {
		cache: noCacheOptions,
		setup: setupAutoscalerPolicy,
		webhook: webhook{
			configuration: "autoscalerpolicy.ome.io",
			path:          admission.AutoscalerPolicyPath,
			paths:         []string{admission.InferenceServicePath, admission.ServingRuntimePath, admission.ClusterServingRuntimePath},
			handler:       admitAutoscalerPolicy,
		},
	},
	tidal.Component: {
		cache: noCacheOptions,
		setup: setupTidal,
		webhook: webhook{
			configuration: "tidal.tidal.io",
			path:          admission.TidalPath,
			handler:       admitTidal,
		},
	},
}

// Components returns the names of the components, sorted.
func Components() []string { return slices.Sorted(maps.Keys(components)) }

// SelectComponents turns a list of names into the components to run, sorted; an empty list selects all. The error names
// those that there are.
func SelectComponents(names []string) ([]string, error) {
	if len(names) == 0 {
		return Components(), nil
	}
	var out, unknown []string
	for _, n := range names {
		if _, ok := components[n]; ok {
			out = append(out, n)
		} else {
			unknown = append(unknown, fmt.Sprintf("%q", n))
		}
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("unknown controllers %s: must be of %s", strings.Join(unknown, ", "), strings.Join(Components(), ", "))
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Run builds the manager with the named components and runs it until the context ends.
func Run(ctx context.Context, restConfig *rest.Config, c config.Configuration, names []string, log logr.Logger) error {
	ctrl.SetLogger(log)
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(api.AddToScheme(scheme))

	restConfig = rest.CopyConfig(restConfig)
	restConfig.QPS, restConfig.Burst = c.Client.QPS, c.Client.Burst
	restConfig.UserAgent = "pd-orchestrator"
	ctrlmetrics.RegisterRESTClientMetrics(ctrlmetrics.MetricRequestLatency)
	byObject := map[client.Object]cache.ByObject{}
	for _, n := range names {
		maps.Copy(byObject, components[n].cache())
	}
	mgr, err := ctrl.NewManager(restConfig, ctrl.Options{
		Scheme: scheme,
		Logger: log,
		Cache:  cache.Options{ByObject: byObject, DefaultTransform: kube.StripManagedFields, DefaultNamespaces: kube.LimitedTo(c.WatchNamespaces)},
		Client: client.Options{
			Cache:      &client.CacheOptions{Unstructured: true},
			FieldOwner: string(kube.FieldOwner(strings.Join(names, "+"))),
		},
		Metrics: server.Options{
			BindAddress: c.Metrics.BindAddress,
			TLSOpts:     []func(*tls.Config){func(t *tls.Config) { t.MinVersion = tls.VersionTLS12 }},
		},
		HealthProbeBindAddress:        c.Health.BindAddress,
		LeaderElection:                c.LeaderElection.Enabled,
		LeaderElectionID:              leaseName(names),
		LeaderElectionNamespace:       c.LeaderElection.Namespace,
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return fmt.Errorf("making the manager: %w", err)
	}
	if c.Namespace == "" {
		c.Namespace = podNamespace()
	}
	p := parts{mgr: mgr, config: c}
	if p.telemetry, err = telemetry.New(ctrlmetrics.Registry); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	if c.Prometheus.Address != "" {
		p.metrics, err = metricsource.NewPrometheus(metricsource.PrometheusOptions{
			Address:         c.Prometheus.Address,
			BearerTokenFile: c.Prometheus.BearerTokenFile,
			CAFile:          c.Prometheus.CAFile,
			Timeout:         c.Prometheus.Timeout(),
			Observe:         p.telemetry.PrometheusQuery,
		})
		if err != nil {
			return err
		}
	}
	if slices.ContainsFunc(names, func(n string) bool { return components[n].ownsPods }) {
		if err := kube.IndexOwners(ctx, mgr.GetFieldIndexer()); err != nil {
			return err
		}
	}
	if slices.Contains(names, autoscalerpolicy.Component) {
		if p.cluster, err = newCluster(p); err != nil {
			return err
		}
	}
	admitted := hooked(names)
	if c.Webhook.Enabled && len(admitted) > 0 {
		if p.certificate, err = keepCertificate(p, admitted); err != nil {
			return err
		}
	}
	for _, n := range names {
		p.crossNamespace = components[n].webhook.actsOn(c.CrossNamespace)
		if err := components[n].setup(ctx, p); err != nil {
			return err
		}
	}
	if c.Webhook.Enabled && len(admitted) > 0 {
		if err := serveWebhooks(ctx, p, admitted); err != nil {
			return err
		}
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("adding the health check: %w", err)
	}
	if err := mgr.AddReadyzCheck("caches", cachesSynced(mgr)); err != nil {
		return fmt.Errorf("adding the readiness check: %w", err)
	}
	log.Info("Starting", "controllers", names, "prometheus", c.Prometheus.Address, "webhook", c.Webhook.Enabled, "crossNamespace", c.CrossNamespace)
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running the manager: %w", err)
	}
	return nil
}

// leaseName gives each component that runs alone a Lease of its own, so that components in separate processes do not
// wait for each other.
func leaseName(names []string) string {
	if len(names) == 1 && len(components) > 1 {
		return "pd-orchestrator-" + names[0]
	}
	return "pd-orchestrator"
}

func setupResourceScalingGroup(ctx context.Context, p parts) error {
	r := &resourcescalinggroup.Reconciler{
		Client:         p.mgr.GetClient(),
		APIReader:      p.mgr.GetAPIReader(),
		Namespaces:     p.config.WatchNamespaces,
		Recorder:       p.mgr.GetEventRecorder("pd-orchestrator-" + resourcescalinggroup.Component),
		Clock:          clock.RealClock{},
		Metrics:        p.metrics,
		Prometheus:     p.config.Prometheus,
		CrossNamespace: p.crossNamespace,
		OwnNamespace:   p.config.Namespace,
		Telemetry:      p.telemetry,
		Concurrency:    p.config.ConcurrentReconciles,
	}
	return r.SetupWithManager(ctx, p.mgr)
}
