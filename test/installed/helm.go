package installed

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/pd-orchestrator/pd-orchestrator/lab"
)

// Chart is the folder of the chart, seen from a package of tests right below test.
const Chart = "../../charts/pd-orchestrator"

// Helm is the real Helm, which acts on a lab as its administrator.
type Helm struct{ program, home, kubeconfig string }

// NewHelm returns the Helm of a lab that was started with it.
func NewHelm(plane *lab.Lab) (*Helm, error) {
	program, err := plane.Tool(lab.Helm)
	if err != nil {
		return nil, err
	}
	return &Helm{program: program, home: filepath.Join(plane.StateDir(), "helm"), kubeconfig: plane.Kubeconfig()}, nil
}

// Run runs Helm, and returns what it printed, also in its error.
func (h *Helm) Run(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, h.program, args...) //nolint:gosec // Tests say what the lab's own Helm is to do.
	cmd.Env = []string{"HOME=" + h.home, "KUBECONFIG=" + h.kubeconfig, "HELM_CACHE_HOME=" + h.home, "HELM_CONFIG_HOME=" + h.home, "HELM_DATA_HOME=" + h.home}
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("helm %v: %w\n%s", args, err, out.String())
	}
	return out.String(), nil
}
