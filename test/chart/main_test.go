// Package chart installs the chart with the real Helm on a real API server, and runs the components with the configuration
// and the accounts that it renders.
package chart

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/lab"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
)

var (
	plane      *lab.Lab
	api        client.WithWatch
	helm       string
	kubeconfig string
	chartDir   string
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
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
	if plane, err = lab.Start(ctx, lab.Options{WithoutMetrics: true, With: []string{lab.Helm}}); err != nil {
		return err
	}
	if helm, err = plane.Tool(lab.Helm); err != nil {
		return err
	}
	if chartDir, err = filepath.Abs("../../charts/pd-orchestrator"); err != nil {
		return err
	}
	home, err := os.MkdirTemp("", "pdo-chart-")
	if err != nil {
		return err
	}
	kubeconfig = filepath.Join(home, "kubeconfig")
	if err := lab.WriteKubeconfig(kubeconfig, plane.AdminConfig()); err != nil {
		return err
	}
	api, err = client.NewWithWatch(plane.AdminConfig(), client.Options{Scheme: estest.Scheme()})
	return err
}

// runHelm runs Helm and returns what it printed.
func runHelm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), helm, args...)
	home := filepath.Dir(kubeconfig)
	cmd.Env = []string{"HOME=" + home, "KUBECONFIG=" + kubeconfig, "HELM_CACHE_HOME=" + home, "HELM_CONFIG_HOME=" + home, "HELM_DATA_HOME=" + home}
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// mustHelm fails the test where Helm does.
func mustHelm(t *testing.T, args ...string) string {
	t.Helper()
	out, err := runHelm(t, args...)
	if err != nil {
		t.Fatalf("helm %v: %v\n%s", args, err, out)
	}
	return out
}
