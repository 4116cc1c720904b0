package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pd-orchestrator/pd-orchestrator/lab"
	"github.com/pd-orchestrator/pd-orchestrator/lab/demo"
	"github.com/pd-orchestrator/pd-orchestrator/lab/internal/control"
	"github.com/pd-orchestrator/pd-orchestrator/lab/internal/process"
)

// stage is a lab that the demo has started for itself.
type stage interface {
	demo.Lab
	// Kubeconfig is the path of the administrator's kubeconfig.
	Kubeconfig() string
	// Exports is the line that points a shell to the lab, DownCommand the one
	// that stops it. They are empty for a lab that ends with the demo.
	Exports() string
	DownCommand() string
	// Close stops the lab and removes its state.
	Close() error
}

func startStage(ctx context.Context, s settings) (stage, error) {
	start := startOwn
	if s.keep {
		start = startHeld
	}
	stage, err := start(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := meetKinds(ctx, stage); err != nil {
		return nil, errors.Join(err, stage.Close())
	}
	return stage, nil
}

// meetKinds restarts the controller manager. Its garbage collector looks for
// new kinds every 30 s, and backs off for as long again from owners of kinds
// that it does not know; one that starts now knows the product's.
func meetKinds(ctx context.Context, on demo.Lab) error {
	if err := on.StopPart(ctx, lab.ControllerManager); err != nil {
		return fmt.Errorf("restarting the controller manager: %w", err)
	}
	if err := on.StartPart(ctx, lab.ControllerManager); err != nil {
		return fmt.Errorf("restarting the controller manager: %w", err)
	}
	return nil
}

// own is a lab of this process: however the process ends, the lab does too.
type own struct{ *lab.Lab }

func startOwn(ctx context.Context, s settings) (stage, error) {
	l, err := lab.Start(ctx, lab.Options{Repo: s.repo, KubernetesVersion: s.kubernetesVersion, Progress: os.Stderr})
	if err != nil {
		return nil, err
	}
	if err := installProduct(ctx, l); err != nil {
		return nil, errors.Join(err, l.Stop())
	}
	return own{l}, nil
}

func installProduct(ctx context.Context, l *lab.Lab) error {
	if err := l.InstallProduct(ctx); err != nil {
		return err
	}
	if _, err := l.StartManager(ctx, lab.ManagerOptions{}); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "lab: the manager is ready")
	return nil
}

func (o own) Config() *rest.Config                             { return o.AdminConfig() }
func (o own) StopPart(_ context.Context, name string) error    { return o.Part(name).Stop() }
func (o own) StartPart(ctx context.Context, name string) error { return o.Part(name).Start(ctx) }
func (o own) Log(name string, lines int) (string, error)       { return o.Part(name).Logs(lines) }
func (o own) Exports() string                                  { return "" }
func (o own) DownCommand() string                              { return "" }
func (o own) Close() error                                     { return o.Stop() }

// held is a lab in a process of its own, as `lab up` starts it, which outlives
// the demo.
type held struct {
	command string
	dir     string
	control *control.Client
	status  control.Status
	config  *rest.Config
}

// downTimeout is how long the lab command may take to clean up.
const downTimeout = 90 * time.Second

func startHeld(ctx context.Context, s settings) (stage, error) {
	command, err := filepath.Abs(s.labCommand)
	if err != nil {
		return nil, fmt.Errorf("finding the lab command: %w", err)
	}
	dir, err := os.MkdirTemp("", "pd-orchestrator-demo-")
	if err != nil {
		return nil, fmt.Errorf("making the state folder: %w", err)
	}
	h := &held{command: command, dir: dir}
	if err := h.up(ctx, s); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

func (h *held) up(ctx context.Context, s settings) error {
	args := []string{"up", "--state=" + h.dir, "--kubernetes-version=" + s.kubernetesVersion}
	if s.repo != "" {
		args = append(args, "--repo="+s.repo)
	}
	up := exec.CommandContext(ctx, h.command, args...) //nolint:gosec // The user names the command.
	up.Stderr = os.Stderr
	// It takes down what it has begun when it is asked to end.
	up.Cancel = func() error { return up.Process.Signal(syscall.SIGTERM) }
	up.WaitDelay = downTimeout
	if err := up.Run(); err != nil {
		return fmt.Errorf("starting the lab: %w", err)
	}
	var err error
	if h.control, err = control.Dial(h.dir); err != nil {
		return err
	}
	if h.status, err = h.control.Status(ctx); err != nil {
		return fmt.Errorf("asking the lab: %w", err)
	}
	if h.config, err = clientcmd.BuildConfigFromFlags("", h.status.Kubeconfig); err != nil {
		return fmt.Errorf("reading the lab's kubeconfig: %w", err)
	}
	// The client-side limit would only slow down the looks at the cluster.
	h.config.QPS = -1
	return nil
}

func (h *held) Config() *rest.Config  { return h.config }
func (h *held) Kubeconfig() string    { return h.status.Kubeconfig }
func (h *held) PrometheusURL() string { return h.status.PrometheusURL }
func (h *held) SimulatorURL() string  { return h.status.SimulatorURL }

func (h *held) StopPart(ctx context.Context, name string) error {
	return h.control.Act(ctx, name, control.Stop)
}

func (h *held) StartPart(ctx context.Context, name string) error {
	return h.control.Act(ctx, name, control.Start)
}

func (h *held) Log(name string, lines int) (string, error) {
	for _, part := range h.status.Parts {
		if part.Name == name {
			return process.Tail(part.LogFile, lines)
		}
	}
	return "", fmt.Errorf("no part %q in this lab", name)
}

// Exports names the state folder too, so that the lab command in that shell
// means this lab.
func (h *held) Exports() string {
	return fmt.Sprintf("export KUBECONFIG=%s PROMETHEUS_URL=%s SIMULATOR_URL=%s PDO_LAB_STATE=%s",
		h.status.Kubeconfig, h.status.PrometheusURL, h.status.SimulatorURL, h.dir)
}

func (h *held) DownCommand() string { return "PDO_LAB_STATE=" + h.dir + " make lab-down" }

// Close works at any time, also when the demo was interrupted.
func (h *held) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), downTimeout)
	defer cancel()
	var told bytes.Buffer
	down := exec.CommandContext(ctx, h.command, "down", "--state="+h.dir) //nolint:gosec // The user names the command.
	down.Stderr = &told
	// Ctrl-C reaches all processes of the terminal's foreground, and this one
	// has to finish.
	down.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := down.Run(); err != nil {
		return fmt.Errorf("stopping the lab in %s: %s: %w", h.dir, strings.TrimSpace(told.String()), err)
	}
	if err := os.RemoveAll(h.dir); err != nil {
		return fmt.Errorf("removing the state folder: %w", err)
	}
	return nil
}
