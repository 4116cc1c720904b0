// Package process runs the parts of a lab as child processes: it starts them,
// waits until they answer, stops them in order, keeps their logs, and makes
// sure that none outlives the process that started it, however that one ends.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Spec describes a child process.
type Spec struct {
	// Name identifies the process in messages.
	Name string
	// Path is the executable.
	Path string
	// Args are its arguments, without the name of the executable.
	Args []string
	// Env is its whole environment, as KEY=value. Nothing is inherited.
	Env []string
	// Dir is its working directory; empty means the caller's.
	Dir string
	// LogFile receives standard output and standard error; it is appended to.
	LogFile string
	// BeforeStart runs before each start of the process; nil means nothing.
	BeforeStart func() error
	// Ready returns nil once the process serves. It is asked every
	// PollInterval; nil means ready as soon as it is started.
	Ready func(ctx context.Context) error
	// StartTimeout is how long the process may take to become ready.
	StartTimeout time.Duration
	// StopTimeout is how long it may take to end after SIGTERM before it is
	// killed.
	StopTimeout time.Duration
}

// PollInterval is the time between two readiness checks.
const PollInterval = 50 * time.Millisecond

const (
	defaultStartTimeout = 90 * time.Second
	defaultStopTimeout  = 10 * time.Second
	probeTimeout        = 2 * time.Second
	logTailLines        = 25
)

// Process supervises one child process. It can be started again after it ended.
// All methods are safe for concurrent use.
type Process struct {
	spec Spec

	// op serialises Start, Stop and Kill, which take time.
	op sync.Mutex
	// mu guards the fields below.
	mu  sync.Mutex
	run *run
}

// run is one life of a process.
type run struct {
	cmd     *exec.Cmd
	started time.Time
	done    chan struct{}
	// err and ended are set before done is closed.
	err   error
	ended time.Time
}

// New returns a process that is not started yet.
func New(spec Spec) *Process {
	if spec.StartTimeout <= 0 {
		spec.StartTimeout = defaultStartTimeout
	}
	if spec.StopTimeout <= 0 {
		spec.StopTimeout = defaultStopTimeout
	}
	return &Process{spec: spec}
}

// Spec returns what the process was made from.
func (p *Process) Spec() Spec { return p.spec }

// Start starts the process and waits until it is ready. Where it ends or stays
// unready it is killed and the error holds its last log lines. Starting a
// running process waits for its readiness only.
func (p *Process) Start(ctx context.Context) error {
	p.op.Lock()
	defer p.op.Unlock()

	r := p.current()
	if r == nil || r.isDone() {
		var err error
		if r, err = p.spawn(); err != nil {
			return err
		}
	}
	if err := p.waitReady(ctx, r); err != nil {
		p.end(r, syscall.SIGKILL, p.spec.StopTimeout)
		return p.withLog(err)
	}
	return nil
}

func (p *Process) spawn() (*run, error) {
	if p.spec.BeforeStart != nil {
		if err := p.spec.BeforeStart(); err != nil {
			return nil, fmt.Errorf("starting %s: %w", p.spec.Name, err)
		}
	}
	log, err := os.OpenFile(p.spec.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", p.spec.Name, err)
	}
	// The child holds its own descriptor, so logging needs nobody to copy.
	defer func() { _ = log.Close() }()

	cmd := exec.Command(p.spec.Path, p.spec.Args...) //nolint:gosec,noctx // Running what it is given is its job; it outlives the call.
	// A nil environment would mean the caller's.
	cmd.Env = append([]string{}, p.spec.Env...)
	cmd.Dir = p.spec.Dir
	cmd.Stdout = log
	cmd.Stderr = log
	if err := StartBound(cmd); err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.spec.Name, err)
	}
	r := &run{cmd: cmd, started: time.Now(), done: make(chan struct{})}
	go func() {
		r.err = cmd.Wait()
		r.ended = time.Now()
		close(r.done)
	}()
	p.mu.Lock()
	p.run = r
	p.mu.Unlock()
	return r, nil
}

func (p *Process) waitReady(ctx context.Context, r *run) error {
	ctx, cancel := context.WithTimeout(ctx, p.spec.StartTimeout)
	defer cancel()
	ticker := time.NewTicker(PollInterval)
	defer ticker.Stop()

	var last error
	for {
		if r.isDone() {
			return fmt.Errorf("starting %s: it ended before it was ready (%s)", p.spec.Name, r.outcome())
		}
		if p.spec.Ready == nil {
			return nil
		}
		probe, cancelProbe := context.WithTimeout(ctx, probeTimeout)
		err := p.spec.Ready(probe)
		cancelProbe()
		if err == nil {
			// Something else might answer in the place of a process that died.
			if r.isDone() {
				continue
			}
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("starting %s: not ready after %s: %w", p.spec.Name, p.spec.StartTimeout, last)
			}
			return fmt.Errorf("starting %s: %w (last readiness check: %w)", p.spec.Name, ctx.Err(), last)
		case <-r.done:
		case <-ticker.C:
		}
	}
}

// Stop ends the process with SIGTERM, and with SIGKILL once the stop time-out
// has passed. Stopping a process that does not run is no error.
func (p *Process) Stop() error {
	p.op.Lock()
	defer p.op.Unlock()
	r := p.current()
	if r == nil || r.isDone() {
		return nil
	}
	if !p.end(r, syscall.SIGTERM, p.spec.StopTimeout) {
		return fmt.Errorf("stopping %s: process %d does not end", p.spec.Name, r.cmd.Process.Pid)
	}
	return nil
}

// Kill ends the process with SIGKILL and waits until it is gone.
func (p *Process) Kill() error {
	p.op.Lock()
	defer p.op.Unlock()
	r := p.current()
	if r == nil || r.isDone() {
		return nil
	}
	if !p.end(r, syscall.SIGKILL, p.spec.StopTimeout) {
		return fmt.Errorf("killing %s: process %d does not end", p.spec.Name, r.cmd.Process.Pid)
	}
	return nil
}

// end signals the process group and reports whether the process ended.
func (p *Process) end(r *run, signal syscall.Signal, timeout time.Duration) bool {
	pid := r.cmd.Process.Pid
	_ = syscall.Kill(-pid, signal)
	if r.waitDone(timeout) {
		return true
	}
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	return r.waitDone(defaultStopTimeout)
}

// Running reports whether the process is alive, ready or not.
func (p *Process) Running() bool {
	r := p.current()
	return r != nil && !r.isDone()
}

// Done returns a channel that is closed when the present life of the process
// ends. It is closed already where the process does not run.
func (p *Process) Done() <-chan struct{} {
	if r := p.current(); r != nil {
		return r.done
	}
	closed := make(chan struct{})
	close(closed)
	return closed
}

// PID returns the process id, or 0 when the process does not run.
func (p *Process) PID() int {
	r := p.current()
	if r == nil || r.isDone() {
		return 0
	}
	return r.cmd.Process.Pid
}

// State says in a few words how the process is doing.
func (p *Process) State() string {
	r := p.current()
	switch {
	case r == nil:
		return "not started"
	case r.isDone():
		return fmt.Sprintf("ended %s ago (%s)", time.Since(r.ended).Round(time.Second), r.outcome())
	default:
		return fmt.Sprintf("running for %s", time.Since(r.started).Round(time.Second))
	}
}

func (p *Process) current() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run
}

func (p *Process) withLog(err error) error {
	tail, readErr := Tail(p.spec.LogFile, logTailLines)
	if readErr != nil || tail == "" {
		return err
	}
	return fmt.Errorf("%w\nlast lines of %s:\n%s", err, p.spec.LogFile, tail)
}

func (r *run) isDone() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

func (r *run) waitDone(timeout time.Duration) bool {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-r.done:
		return true
	case <-timer.C:
		return false
	}
}

func (r *run) outcome() string {
	if r.err == nil {
		return "exit status 0"
	}
	return r.err.Error()
}

// starts returns the channel of the goroutine that starts all children.
var starts = sync.OnceValue(func() chan<- func() {
	requests := make(chan func())
	go func() {
		runtime.LockOSThread()
		for request := range requests {
			request()
		}
	}()
	return requests
})

// StartBound starts a command that the kernel kills when this process ends,
// however it ends. The command gets a process group of its own, which keeps a
// terminal's Ctrl-C away from it: whoever started it decides when it stops.
//
// Commands are started from a thread that lives as long as this process: the
// parent-death signal is tied to the thread that made the child, and the Go
// runtime ends threads as it likes.
func StartBound(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	result := make(chan error)
	starts() <- func() { result <- cmd.Start() }
	return <-result
}
