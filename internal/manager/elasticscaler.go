package manager

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/pd-orchestrator/pd-orchestrator/internal/admission"
	"github.com/pd-orchestrator/pd-orchestrator/internal/controller/elasticscaler"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/algorithm"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/scalerspec"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/signals"
	"github.com/pd-orchestrator/pd-orchestrator/internal/metricsource"
	"github.com/pd-orchestrator/pd-orchestrator/internal/sampling"
	"github.com/pd-orchestrator/pd-orchestrator/internal/signal"
	"github.com/pd-orchestrator/pd-orchestrator/internal/telemetry"
	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

const (
	// reviewQPS and reviewBurst limit how much whoever can reach the signal port can have the API server review.
	reviewQPS, reviewBurst = 50, 100
)

func admitElasticScaler(ctx context.Context, p parts) (http.Handler, error) {
	if err := admission.IndexElasticScalers(ctx, p.mgr.GetFieldIndexer()); err != nil {
		return nil, err
	}
	kinds, err := newKinds(p)
	if err != nil {
		return nil, err
	}
	v := &admission.ElasticScalers{
		Cache:      p.mgr.GetClient(),
		API:        p.mgr.GetAPIReader(),
		Trial:      p.mgr.GetClient(),
		Targets:    admission.Targets{Kinds: kinds, API: p.mgr.GetAPIReader(), Scales: p.mgr.GetClient(), Writers: writers(p)},
		Algorithms: scaling.DefaultRegistry,
	}
	return v.Handler(p.mgr.GetScheme()), nil
}

func setupElasticScaler(ctx context.Context, p parts) error {
	if err := algorithm.Register(scaling.DefaultRegistry); err != nil {
		return err
	}
	metrics, err := telemetry.NewElasticScaler(ctrlmetrics.Registry)
	if err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	kinds, err := newKinds(p)
	if err != nil {
		return err
	}
	c := p.config.ElasticScaler
	allow, deny := c.Endpoints.Ranges()
	guard, err := metricsource.NewGuard(metricsource.GuardOptions{Allow: allow, Deny: deny, APIServers: metricsource.APIServers(p.mgr.GetConfig())})
	if err != nil {
		return err
	}
	cluster, err := metricsource.NewKubernetes(metricsource.KubernetesOptions{Config: p.mgr.GetConfig(), Clock: clock.RealClock{}, Owners: c.MetricsAPIs})
	if err != nil {
		return err
	}
	shared := metricsource.NewShared(metricsource.SharedOptions{
		Reader: metricsource.Sources{
			Kubernetes: cluster,
			Endpoints:  metricsource.NewEndpoints(metricsource.EndpointOptions{Clock: clock.RealClock{}, Guard: guard}),
		},
		Clock:   clock.RealClock{},
		Observe: metrics.Read,
	})
	r := &elasticscaler.Reconciler{
		Client:            p.mgr.GetClient(),
		APIReader:         p.mgr.GetAPIReader(),
		Recorder:          p.mgr.GetEventRecorder("pd-orchestrator-" + elasticscaler.Component),
		Clock:             clock.RealClock{},
		Kinds:             kinds,
		Algorithms:        scaling.DefaultRegistry,
		Sampler:           sampling.New(shared, clock.RealClock{}),
		Namespaces:        p.config.WatchNamespaces,
		Defaults:          scalerspec.Defaults{Interval: c.Interval(), MaxAge: p.config.Prometheus.MaxSampleAge()},
		CPUInitialization: time.Duration(c.CPUInitializationSeconds) * time.Second,
		InitialReadiness:  time.Duration(c.InitialReadinessSeconds) * time.Second,
		CrossNamespace:    p.crossNamespace,
		Telemetry:         metrics,
		Concurrency:       p.config.ConcurrentReconciles,
	}
	for _, s := range c.StateSources {
		r.StateSources = append(r.StateSources, schema.FromAPIVersionAndKind(s.APIVersion, s.Kind))
	}
	observe := func(result signals.Result, transport signal.Transport) {
		metrics.Signal(string(result), string(transport))
	}
	log := p.mgr.GetLogger().WithName("signals")
	r.Listeners = signal.New(signal.Options{
		Acceptor:    r,
		Secrets:     p.mgr.GetAPIReader(),
		DialContext: guard.DialContext,
		Observe:     observe,
		Asked:       metrics.SignalsAsked,
		Clock:       clock.RealClock{},
		Log:         log,
	})
	if err := r.SetupWithManager(ctx, p.mgr); err != nil {
		return err
	}
	if p.certificate.Get == nil || c.Signals.BindAddress == "0" {
		return nil
	}
	limited := rest.CopyConfig(p.mgr.GetConfig())
	limited.QPS, limited.Burst = reviewQPS, reviewBurst
	reviews, err := client.New(limited, client.Options{Scheme: p.mgr.GetScheme(), Mapper: p.mgr.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("making the client for reviews: %w", err)
	}
	handler := signal.NewHandler(signal.PushOptions{Acceptor: r, Reviews: reviews, Observe: observe, Clock: clock.RealClock{}, Log: log})
	server, err := signal.NewServer(c.Signals.BindAddress, handler, p.certificate.Get)
	if err != nil {
		return err
	}
	if err := p.mgr.Add(server); err != nil {
		return fmt.Errorf("adding the signal server: %w", err)
	}
	return nil
}
