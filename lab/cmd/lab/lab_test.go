package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pd-orchestrator/pd-orchestrator/lab/internal/control"
)

// asCommand makes this test binary behave as the lab command.
const asCommand = "LAB_COMMAND_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(run(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// labCommand returns a call of the lab command for a state folder.
func labCommand(t *testing.T, state string, args ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	cmd = exec.Command(program, args...)
	cmd.Env = append(os.Environ(), asCommand+"=1", "PDO_LAB_STATE="+state)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return cmd, stdout, stderr
}

func call(t *testing.T, state string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd, out, errOut := labCommand(t, state, args...)
	err = cmd.Run()
	return out.String(), errOut.String(), err
}

// shortTempDir returns a folder whose path leaves room for a socket's.
func shortTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lab") //nolint:usetesting // Folders of t.TempDir are named after the test.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestUpStatusDown(t *testing.T) {
	state := shortTempDir(t)
	t.Cleanup(func() { _, _, _ = call(t, state, "down") })

	if _, stderr, err := call(t, state, "status"); err == nil || !strings.Contains(stderr, "no lab is running") {
		t.Errorf("status without a lab: %v, %q", err, stderr)
	}
	stdout, stderr, err := call(t, state, "up", "--without-manager")
	if err != nil {
		t.Fatalf("up: %v\n%s", err, stderr)
	}
	lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	if len(lines) != 1 || !strings.HasPrefix(lines[0], "export KUBECONFIG="+state) ||
		!strings.Contains(lines[0], " PROMETHEUS_URL=http://127.0.0.1:") || !strings.Contains(lines[0], " SIMULATOR_URL=http://127.0.0.1:") {
		t.Errorf("up prints %q, want one line of exports", stdout)
	}

	started := time.Now()
	again, stderr, err := call(t, state, "up", "--without-manager")
	if err != nil || again != stdout {
		t.Errorf("up again: %v, %q, want %q; %s", err, again, stdout, stderr)
	}
	if took := time.Since(started); took > 2*time.Second {
		t.Errorf("up of a running lab took %s", took)
	}
	if _, stderr, err := call(t, state, "up", "--kubernetes-version=1.2"); err == nil || !strings.Contains(stderr, "lab down") {
		t.Errorf("up with another version: %v, %q, want advice", err, stderr)
	}

	if _, stderr, err := call(t, state, "up", "--with=keda"); err == nil || !strings.Contains(stderr, "without keda") {
		t.Errorf("up with a further part: %v, %q, want advice", err, stderr)
	}

	for _, args := range [][]string{{"stop-part", "prometheus"}, {"logs", "kube-apiserver", "-n", "5"}, {"restart-part", "simulator"}} {
		if stdout, stderr, err := call(t, state, args...); err != nil {
			t.Errorf("%v: %v, %q, %q", args, err, stdout, stderr)
		}
	}
	if stdout, stderr, err := call(t, state, "status"); err == nil || !strings.Contains(stdout, "prometheus") || !strings.Contains(stderr, "not running: prometheus") {
		t.Errorf("status of a lab without Prometheus: %v, %q, %q", err, stdout, stderr)
	}
	if _, stderr, err := call(t, state, "up"); err != nil || !strings.Contains(stderr, "prometheus does not run; starting it") {
		t.Errorf("up of a lab without Prometheus: %v, %q", err, stderr)
	}
	if stdout, stderr, err := call(t, state, "status"); err != nil || strings.Count(stdout, "running for") != 7 {
		t.Errorf("status: %v, %q, %q, want 7 running parts", err, stdout, stderr)
	}
	if _, stderr, err := call(t, state, "stop-part", "kubelet"); err == nil || !strings.Contains(stderr, "kube-scheduler") {
		t.Errorf("stopping an unknown part: %v, %q, want the list of parts", err, stderr)
	}

	if _, stderr, err := call(t, state, "down"); err != nil {
		t.Errorf("down: %v, %q", err, stderr)
	}
	wantNoProcess(t, state)
	if _, err := os.Stat(filepath.Join(state, "logs", "kube-apiserver.log")); err != nil {
		t.Errorf("logs are gone after down: %v", err)
	}
	if _, stderr, err := call(t, state, "down"); err != nil || !strings.Contains(stderr, "no lab is running") {
		t.Errorf("down without a lab: %v, %q", err, stderr)
	}
}

// However up ends before the lab is ready, nothing of the lab stays.
func TestInterruptedUpLeavesNothing(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"ctrl-c": syscall.SIGINT, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			state := shortTempDir(t)
			t.Cleanup(func() { _, _, _ = call(t, state, "down") })
			cmd, stdout, _ := labCommand(t, state, "up", "--without-manager")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			eventually(t, func() error {
				if _, err := os.Stat(filepath.Join(state, "logs", "kube-apiserver.log")); err != nil {
					return fmt.Errorf("the API server is not being started: %w", err)
				}
				return nil
			})
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err == nil {
				t.Error("up succeeds")
			}
			if stdout.Len() > 0 {
				t.Errorf("up prints %q", stdout)
			}
			wantNoProcess(t, state)
		})
	}
}

func TestDownEndsALabThatDoesNotAnswer(t *testing.T) {
	state := shortTempDir(t)
	if _, stderr, err := call(t, state, "up", "--without-manager"); err != nil {
		t.Fatalf("up: %v\n%s", err, stderr)
	}
	client, err := control.Dial(state)
	if err != nil {
		t.Fatal(err)
	}
	status, err := client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(status.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wantNoProcess(t, state)
	if _, stderr, err := call(t, state, "down"); err != nil {
		t.Errorf("down after a crash: %v, %q", err, stderr)
	}
}

func TestUsage(t *testing.T) {
	state := shortTempDir(t)
	for _, test := range []struct {
		args []string
		want string
		fail bool
	}{
		{[]string{"--help"}, "eval", false},
		{[]string{"up", "--help"}, "kubernetes-version", false},
		{[]string{"upp"}, `no command "upp"`, true},
		{[]string{"up", "--with=keda,istio"}, `no part "istio"`, true},
		{[]string{"up", "--kubernetes-version=1.2"}, "go mod tidy", true},
		{[]string{"logs"}, "exactly one part", true},
		{[]string{"logs", "nothing"}, "no log of", true},
		{[]string{"build", "nothing"}, "there are custom-metrics, etcd", true},
	} {
		stdout, stderr, err := call(t, state, test.args...)
		if (err != nil) != test.fail || !strings.Contains(stderr, test.want) || stdout != "" {
			t.Errorf("lab %v: %v, stdout %q, stderr %q, want %q on stderr only", test.args, err, stdout, stderr, test.want)
		}
	}
}

func TestQuote(t *testing.T) {
	for text, want := range map[string]string{
		"/home/x/.local/state": "/home/x/.local/state",
		"/home/o'hara/a b":     `'/home/o'\''hara/a b'`,
		"$(reboot)":            "'$(reboot)'",
		"":                     "''",
	} {
		if got := quote(text); got != want {
			t.Errorf("quote(%q) = %s, want %s", text, got, want)
		}
		out, err := exec.CommandContext(context.Background(), "/bin/sh", "-c", "printf %s "+quote(text)).Output()
		if err != nil || string(out) != text {
			t.Errorf("a shell reads %s as %q (%v)", quote(text), out, err)
		}
	}
}

// wantNoProcess waits until no process has to do with a folder.
func wantNoProcess(t *testing.T, dir string) {
	t.Helper()
	eventually(t, func() error {
		paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil {
			return err
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err == nil && bytes.Contains(text, []byte(dir)) {
				return fmt.Errorf("still running: %s", bytes.ReplaceAll(text, []byte{0}, []byte{' '}))
			}
		}
		return nil
	})
}

// eventually polls until the condition holds and fails with its last reason.
func eventually(t *testing.T, condition func() error) {
	t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after a minute: %v", err)
		}
		<-time.After(50 * time.Millisecond)
	}
}
