package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// role makes this test binary play a child process.
const role = "PROCESS_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "":
		os.Exit(m.Run())
	case "serve":
		fmt.Println("serving on", os.Args[1])
		fmt.Println(http.ListenAndServe(os.Args[1], http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
		os.Exit(1)
	case "fail":
		fmt.Println("first line")
		fmt.Println("cannot do it: disk is made of cheese")
		os.Exit(3)
	case "stubborn":
		ignoring(syscall.SIGTERM)
	case "parent":
		child := New(Spec{Name: "child", Path: os.Args[0], Env: []string{role + "=stubborn"}, LogFile: os.Args[1]})
		if err := child.Start(context.Background()); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(child.PID())
		ignoring(syscall.SIGTERM)
	}
}

// ignoring says that it is stubborn and stays, whatever signals come. It waits for signals because a program that waits
// for nothing at all is ended by the runtime.
func ignoring(signals ...os.Signal) {
	received := make(chan os.Signal, 1)
	signal.Notify(received, signals...)
	fmt.Println("stubborn")
	for range received {
	}
}

func testSpec(t *testing.T, as string, args ...string) Spec {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Spec{
		Name: as, Path: program, Args: args, Env: []string{role + "=" + as},
		LogFile: filepath.Join(t.TempDir(), as+".log"), StartTimeout: 20 * time.Second, StopTimeout: 5 * time.Second,
	}
}

func TestStartWaitsUntilReadyAndRestartKeepsThePort(t *testing.T) {
	port, err := ReservePort("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	spec := testSpec(t, "serve", port.HostPort())
	spec.Ready = func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", port.HostPort())
		if err != nil {
			return err
		}
		return conn.Close()
	}
	process := New(spec)
	defer process.Kill()
	for round := range 3 {
		if err := process.Start(t.Context()); err != nil {
			t.Fatalf("start %d: %v", round, err)
		}
		if !process.Running() || process.PID() == 0 {
			t.Errorf("start %d: the process does not count as running", round)
		}
		if err := spec.Ready(t.Context()); err != nil {
			t.Errorf("start %d: ready, but %v", round, err)
		}
		end := process.Stop
		if round == 1 {
			end = process.Kill
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if process.Running() || spec.Ready(t.Context()) == nil {
			t.Errorf("end %d: something still serves", round)
		}
	}
	if text, err := Tail(spec.LogFile, 100); err != nil || strings.Count(text, "serving on") != 3 {
		t.Errorf("the log is %q (%v), want a line per start", text, err)
	}
}

func TestReservedPortIsGivenToNobodyElse(t *testing.T) {
	port, err := ReservePort("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	other, err := ReservePort("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if other.Number == port.Number {
		t.Error("two reservations have one port")
	}
	if conn, err := net.Dial("tcp", port.HostPort()); err == nil {
		t.Error("a port that is only reserved accepts connections")
		_ = conn.Close()
	}
	listener, err := net.Listen("tcp", port.HostPort())
	if err != nil {
		t.Fatalf("the reserved port cannot be listened on: %v", err)
	}
	_ = listener.Close()
}

func TestFailedStartShowsTheLog(t *testing.T) {
	spec := testSpec(t, "fail")
	spec.Ready = func(context.Context) error { return errors.New("not yet") }
	err := New(spec).Start(t.Context())
	for _, want := range []string{"starting fail", "exit status 3", "disk is made of cheese", spec.LogFile} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q in it", err, want)
		}
	}
}

func TestStartThatTakesTooLongIsEnded(t *testing.T) {
	spec := testSpec(t, "stubborn")
	spec.StartTimeout = 300 * time.Millisecond
	spec.Ready = func(context.Context) error { return errors.New("the door is closed") }
	process := New(spec)
	err := process.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "not ready after 300ms: the door is closed") {
		t.Errorf("error is %v, want the time-out and the last readiness error", err)
	}
	if process.Running() {
		t.Error("the process is left running")
	}
}

func TestCancelledStartIsEnded(t *testing.T) {
	spec := testSpec(t, "stubborn")
	ctx, cancel := context.WithCancel(t.Context())
	spec.Ready = func(context.Context) error { cancel(); return errors.New("not yet") }
	process := New(spec)
	if err := process.Start(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want the context's", err)
	}
	if process.Running() {
		t.Error("the process is left running")
	}
}

func TestStopKillsWhatDoesNotEnd(t *testing.T) {
	spec := testSpec(t, "stubborn")
	spec.StopTimeout = 200 * time.Millisecond
	spec.Ready = func(context.Context) error {
		if text, err := Tail(spec.LogFile, 1); err != nil || text != "stubborn" {
			return errors.New("it does not ignore the signal yet")
		}
		return nil
	}
	process := New(spec)
	if err := process.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := process.Stop(); err != nil {
		t.Error(err)
	}
	if process.Running() || !strings.Contains(process.State(), "killed") {
		t.Errorf("state is %q, want it killed", process.State())
	}
}

func TestChildDiesWithItsParent(t *testing.T) {
	spec := testSpec(t, "parent")
	parent := exec.Command(spec.Path, filepath.Join(t.TempDir(), "child.log"))
	parent.Env = spec.Env
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := StartBound(parent); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatalf("the parent says %q", line)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("the child does not run: %v", err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	deadline := time.Now().Add(10 * time.Second)
	for alive(pid) {
		if time.Now().After(deadline) {
			t.Fatal("the child outlives its parent")
		}
		<-time.After(PollInterval)
	}
}

// alive reports whether a process runs; one that only waits to be reaped does
// not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, ok := strings.Cut(string(stat), ") ")
	return ok && !strings.HasPrefix(state, "Z")
}

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for text, want := range map[string]string{
		"":                                 "",
		"a\n":                              "a",
		"a\nb\nc\n":                        "b\nc",
		"a\nb\nunfinished":                 "b\nunfinished",
		strings.Repeat("x", 2*tailBytes):   strings.Repeat("x", tailBytes),
		strings.Repeat("line\n", 50) + "z": "line\nz",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := Tail(path, 2); err != nil || got != want {
			t.Errorf("the end of %.20q is %.40q (%v), want %.40q", text, got, err, want)
		}
	}
}
