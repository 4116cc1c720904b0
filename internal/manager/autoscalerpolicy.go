package manager

import (
	"context"
	"fmt"
	"net/http"

	"k8s.io/utils/clock"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/pd-orchestrator/pd-orchestrator/internal/admission"
	"github.com/pd-orchestrator/pd-orchestrator/internal/controller/autoscalerpolicy"
	"github.com/pd-orchestrator/pd-orchestrator/internal/telemetry"
)

// newCluster returns what both the controllers and the admission of policies ask about the cluster.
func newCluster(p parts) (*autoscalerpolicy.Cluster, error) {
	cluster, err := autoscalerpolicy.NewCluster(p.mgr.GetConfig(), p.mgr.GetHTTPClient(), p.mgr.GetScheme(), p.mgr.GetRESTMapper(), p.config.Namespace)
	if err != nil {
		return nil, err
	}
	if err := p.mgr.Add(cluster); err != nil {
		return nil, fmt.Errorf("adding the cache of CRDs and metric providers: %w", err)
	}
	return cluster, nil
}

func setupAutoscalerPolicy(ctx context.Context, p parts) error {
	metrics, err := telemetry.NewAutoscalerPolicy(ctrlmetrics.Registry)
	if err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	return autoscalerpolicy.SetupWithManager(ctx, p.mgr,
		&autoscalerpolicy.Services{
			Client:      p.mgr.GetClient(),
			APIReader:   p.mgr.GetAPIReader(),
			Namespaces:  p.config.WatchNamespaces,
			Cluster:     p.cluster,
			Recorder:    p.mgr.GetEventRecorder("pd-orchestrator-" + autoscalerpolicy.Component),
			Clock:       clock.RealClock{},
			Telemetry:   metrics,
			Concurrency: p.config.ConcurrentReconciles,
		},
		&autoscalerpolicy.Policies{
			Client:      p.mgr.GetClient(),
			APIReader:   p.mgr.GetAPIReader(),
			Namespaces:  p.config.WatchNamespaces,
			Cluster:     p.cluster,
			Clock:       clock.RealClock{},
			Concurrency: p.config.ConcurrentReconciles,
		})
}

func admitAutoscalerPolicy(_ context.Context, p parts) (http.Handler, error) {
	scheme := p.mgr.GetScheme()
	services := &admission.InferenceServices{Cache: p.mgr.GetClient(), API: p.mgr.GetAPIReader(), PoliciesServed: p.cluster.PoliciesServed}
	mux := http.NewServeMux()
	mux.Handle(admission.AutoscalerPolicyPath, (&admission.AutoscalerPolicies{API: p.mgr.GetAPIReader()}).Handler(scheme))
	mux.Handle(admission.InferenceServicePath, services.Handler(scheme))
	mux.Handle(admission.ServingRuntimePath, admission.ServingRuntimes{}.Handler(scheme))
	mux.Handle(admission.ClusterServingRuntimePath, admission.ServingRuntimes{}.ClusterHandler(scheme))
	return mux, nil
}
