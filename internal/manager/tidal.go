package manager

import (
	"context"
	"fmt"

	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/pd-orchestrator/pd-orchestrator/internal/config"
	"github.com/pd-orchestrator/pd-orchestrator/internal/controller/tidal"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
	"github.com/pd-orchestrator/pd-orchestrator/internal/telemetry"
)

func setupTidal(ctx context.Context, p parts) error {
	metrics, err := telemetry.NewTidal(ctrlmetrics.Registry)
	if err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	d, err := discovery.NewDiscoveryClientForConfigAndClient(p.mgr.GetConfig(), p.mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("making the discovery client: %w", err)
	}
	crossNamespace := p.config.CrossNamespace
	if crossNamespace == config.CrossNamespaceAdmitted {
		// Nothing asks yet for the rights of who writes a Tidal.
		crossNamespace = config.CrossNamespaceDenied
	}
	r := &tidal.Reconciler{
		Client:         p.mgr.GetClient(),
		APIReader:      p.mgr.GetAPIReader(),
		Recorder:       p.mgr.GetEventRecorder("pd-orchestrator-" + tidal.Component),
		Clock:          clock.RealClock{},
		Kinds:          kube.NewKinds(d, clock.RealClock{}),
		CrossNamespace: crossNamespace,
		Telemetry:      metrics,
		Concurrency:    p.config.ConcurrentReconciles,
	}
	return r.SetupWithManager(ctx, p.mgr)
}

// noCacheOptions is for components that cache whole objects.
func noCacheOptions() map[client.Object]cache.ByObject { return nil }
