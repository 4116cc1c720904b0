package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pd-orchestrator/pd-orchestrator/lab"
	"github.com/pd-orchestrator/pd-orchestrator/lab/internal/control"
)

// settings are what up asks of the supervisor; they travel as JSON.
type settings struct {
	Repo              string   `json:"repo"`
	KubernetesVersion string   `json:"kubernetesVersion"`
	With              []string `json:"with"`
	WithoutManager    bool     `json:"withoutManager"`
	Nodes             int      `json:"nodes"`
	// HPASyncPeriod is in nanoseconds.
	HPASyncPeriod time.Duration `json:"hpaSyncPeriod"`
}

// abortTimeout is how long an interrupted start may take to clean up.
const abortTimeout = 40 * time.Second

func up(flags *flag.FlagSet) func(context.Context, []string) error {
	state := stateFlag(flags)
	repo := flags.String("repo", "", "root `folder` of the repository (default: the working directory or the nearest one above that fits)")
	version := flags.String("kubernetes-version", os.Getenv("KUBERNETES_VERSION"), "`version` of Kubernetes, such as 1.28 (default: the newest there is)")
	with := flags.String("with", "", "comma-separated `parts` to add: keda, custom-metrics, metrics-server, helm")
	withoutManager := flags.Bool("without-manager", false, "leave out the product: no CRDs, no namespace, no manager")
	nodes := flags.Int("nodes", 0, "`number` of simulated nodes (default 4)")
	hpa := flags.Duration("hpa-sync-period", 0, "`interval` of the HorizontalPodAutoscaler controller (default 15s)")
	return func(ctx context.Context, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("up takes no arguments, got %q", strings.Join(args, " "))
		}
		dir, err := stateDir(*state)
		if err != nil {
			return err
		}
		parts, err := lab.ParseWith(*with)
		if err != nil {
			return err
		}
		unlock, err := lock(ctx, dir, upLock, func() { say("another command is starting or stopping this lab; waiting for it") })
		if err != nil {
			return err
		}
		defer func() { _ = unlock.Close() }()

		client, err := control.Dial(dir)
		if err != nil {
			return err
		}
		status, err := client.Status(ctx)
		switch {
		case err == nil:
			err = revive(ctx, client, status, *version, parts)
		case errors.Is(err, control.ErrNoLab):
			err = launch(ctx, dir, settings{
				Repo: *repo, KubernetesVersion: *version, With: parts, WithoutManager: *withoutManager, Nodes: *nodes, HPASyncPeriod: *hpa,
			})
		}
		if err != nil {
			return err
		}
		if status, err = client.Status(ctx); err != nil {
			return err
		}
		say("up; state and logs are in %s; stop it by: lab down", dir)
		fmt.Println(exports(status))
		return nil
	}
}

// revive starts what does not run of a lab that is up.
func revive(ctx context.Context, client *control.Client, status control.Status, version string, with []string) error {
	version = strings.TrimPrefix(version, "v")
	if version != "" && version != status.KubernetesVersion && !strings.HasPrefix(status.KubernetesVersion, version+".") {
		return fmt.Errorf("a lab with Kubernetes %s is running; stop it by `lab down` before you start one with %s", status.KubernetesVersion, version)
	}
	for _, name := range with {
		if !slices.Contains(status.With, name) {
			return fmt.Errorf("a lab without %s is running; stop it by `lab down` before you start one with it", name)
		}
	}
	for _, part := range status.Parts {
		if part.Running {
			continue
		}
		say("%s does not run; starting it", part.Name)
		if err := client.Act(ctx, part.Name, control.Start); err != nil {
			return err
		}
	}
	return nil
}

// launch starts the supervisor and passes on what it reports until the lab is
// ready.
func launch(ctx context.Context, dir string, want settings) error {
	if pid, err := supervisorPID(dir); err != nil {
		return err
	} else if pid != 0 {
		return fmt.Errorf("process %d holds the lab in %s but does not answer; end it by `lab down`", pid, dir)
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("starting the supervisor: %w", err)
	}
	encoded, err := json.Marshal(want)
	if err != nil {
		return fmt.Errorf("starting the supervisor: %w", err)
	}
	log, err := os.OpenFile(filepath.Join(dir, "supervisor.log"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("starting the supervisor: %w", err)
	}
	defer func() { _ = log.Close() }()
	reports, reportsWriter, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("starting the supervisor: %w", err)
	}
	defer func() { _ = reports.Close() }()

	cmd := exec.Command(program, superviseCommand, "--state="+dir, "--settings="+string(encoded)) //nolint:gosec,noctx // This very program, which outlives the call.
	cmd.Stdout = log
	cmd.Stderr = log
	cmd.ExtraFiles = []*os.File{reportsWriter}
	// A session of its own: the lab outlives this terminal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// The supervisor gives up the start when this end closes, also if this
	// process is killed.
	alive, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("starting the supervisor: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the supervisor: %w", err)
	}
	_ = reportsWriter.Close()

	outcome := make(chan error, 1)
	go func() { outcome <- follow(reports) }()
	select {
	case err := <-outcome:
		if err != nil {
			_ = cmd.Wait()
			return err
		}
		return cmd.Process.Release()
	case <-ctx.Done():
		say("interrupted; cleaning up")
		_ = alive.Close()
		select {
		case <-outcome:
			_ = cmd.Wait()
		case <-time.After(abortTimeout):
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		return ctx.Err()
	}
}

// Lines that the supervisor ends its reports with.
const (
	reportReady  = "READY"
	reportFailed = "FAILED "
)

// follow prints the supervisor's reports and returns once the lab is ready or
// has failed. A failure's text is JSON, since it has several lines.
func follow(reports io.Reader) error {
	lines := bufio.NewReader(reports)
	for {
		line, err := lines.ReadString('\n')
		line = strings.TrimSuffix(line, "\n")
		if text, failed := strings.CutPrefix(line, reportFailed); failed {
			var message string
			if json.Unmarshal([]byte(text), &message) != nil {
				message = text
			}
			return errors.New(message)
		}
		if line == reportReady {
			return nil
		}
		if line != "" {
			fmt.Fprintln(os.Stderr, line)
		}
		if err != nil {
			return errors.New("the supervisor ended without a word; see supervisor.log in the state folder")
		}
	}
}

// exports returns the line that points a shell to the lab.
func exports(status control.Status) string {
	return fmt.Sprintf("export KUBECONFIG=%s PROMETHEUS_URL=%s SIMULATOR_URL=%s",
		quote(status.Kubeconfig), quote(status.PrometheusURL), quote(status.SimulatorURL))
}

// quote makes one word of a text for a POSIX shell.
func quote(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/:._-+=@%", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "lab: "+format+"\n", args...)
}
