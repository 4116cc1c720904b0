package manager

import (
	"context"
	"fmt"
	"net/http"

	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/pd-orchestrator/pd-orchestrator/internal/admission"
	"github.com/pd-orchestrator/pd-orchestrator/internal/controller/tidal"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
	"github.com/pd-orchestrator/pd-orchestrator/internal/telemetry"
)

func setupTidal(ctx context.Context, p parts) error {
	metrics, err := telemetry.NewTidal(ctrlmetrics.Registry)
	if err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	kinds, err := newKinds(p)
	if err != nil {
		return err
	}
	r := &tidal.Reconciler{
		Client:         p.mgr.GetClient(),
		APIReader:      p.mgr.GetAPIReader(),
		Namespaces:     p.config.WatchNamespaces,
		Recorder:       p.mgr.GetEventRecorder("pd-orchestrator-" + tidal.Component),
		Clock:          clock.RealClock{},
		Kinds:          kinds,
		CrossNamespace: p.crossNamespace,
		Telemetry:      metrics,
		Concurrency:    p.config.ConcurrentReconciles,
	}
	return r.SetupWithManager(ctx, p.mgr)
}

func admitTidal(ctx context.Context, p parts) (http.Handler, error) {
	if err := admission.IndexTidals(ctx, p.mgr.GetFieldIndexer()); err != nil {
		return nil, err
	}
	kinds, err := newKinds(p)
	if err != nil {
		return nil, err
	}
	v := &admission.Tidals{
		Cache:   p.mgr.GetClient(),
		API:     p.mgr.GetAPIReader(),
		Targets: admission.Targets{Kinds: kinds, API: p.mgr.GetAPIReader(), Scales: p.mgr.GetClient(), Writers: writers(p)},
		Clock:   clock.RealClock{},
	}
	return v.Handler(p.mgr.GetScheme()), nil
}

func newKinds(p parts) (*kube.Kinds, error) {
	d, err := discovery.NewDiscoveryClientForConfigAndClient(p.mgr.GetConfig(), p.mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("making the discovery client: %w", err)
	}
	return kube.NewKinds(d, clock.RealClock{}), nil
}

// noCacheOptions is for components that cache whole objects.
func noCacheOptions() map[client.Object]cache.ByObject { return nil }
