// Package signals tests pushed signals on a real API server: its tokens, its RBAC, and its way to record what was accepted.
package signals

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/config"
	"github.com/pd-orchestrator/pd-orchestrator/internal/manager"
	"github.com/pd-orchestrator/pd-orchestrator/lab"
)

var (
	scheme = runtime.NewScheme()
	plane  *lab.Lab
	api    client.Client
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	ctrl.SetLogger(manager.NewLogger(config.Log{Format: "text"}))
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Minute)
	defer cancel()
	err := start(ctx)
	if plane != nil {
		defer func() {
			if err := plane.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func start(ctx context.Context) error {
	var err error
	if plane, err = lab.Start(ctx, lab.Options{WithoutMetrics: true}); err != nil {
		return err
	}
	if err := plane.InstallProduct(ctx); err != nil {
		return err
	}
	restConfig := plane.AdminConfig()
	restConfig.QPS, restConfig.Burst = 1000, 2000
	api, err = client.New(restConfig, client.Options{Scheme: scheme})
	return err
}
