// Package autoscalerpolicy tests AutoscalerPolicies and the services that use them on a real API server, with KEDA's CRDs
// but without KEDA.
package autoscalerpolicy

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/pd-orchestrator/pd-orchestrator/lab"
	"github.com/pd-orchestrator/pd-orchestrator/test/autoscalerpolicy/ometest"
)

var env *ometest.Env

func TestMain(m *testing.M) {
	os.Exit(ometest.Main(m, &env, lab.Options{WithoutMetrics: true}, func(ctx context.Context, e *ometest.Env) error {
		// Of LeaderWorkerSets, as of KEDA, only the CRD is there.
		return errors.Join(e.Lab.InstallKEDACRDs(ctx), e.Lab.InstallCRDs(ctx, filepath.Join("..", "resourcescalinggroup", "kinds", "testdata")))
	}))
}

// kedaPolicy is a policy that asks a provider of the test's own.
func kedaPolicy(name, provider string) string {
	return `
apiVersion: ome.io/v1beta1
kind: AutoscalerPolicy
metadata: {name: ` + name + `}
spec:
  class: KEDA
  keda:
    triggers:
    - type: prometheus
      providerRef: {name: ` + provider + `}
      metricType: AverageValue
      metadata: {query: 'sum(q{namespace="{{ .Namespace }}",isvc="{{ .ISVCName }}"})', threshold: "5", ignoreNullValues: "false"}
    fallback: {failureThreshold: 3, replicas: {fromComponent: MaxReplicas}}
`
}

// service is an InferenceService with an engine.
func service(name, engine string) string {
	return `
apiVersion: ome.io/v1beta1
kind: InferenceService
metadata: {name: ` + name + `}
spec:
  model: {name: ` + ometest.Model + `}
  engine: {` + engine + `}
`
}
