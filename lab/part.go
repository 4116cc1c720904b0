package lab

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pd-orchestrator/pd-orchestrator/lab/internal/process"
)

// Part is one process of a lab. Its address, data and log stay the same
// however often it is stopped and started.
type Part struct {
	name    string
	process *process.Process
	// added is true for processes that Run added.
	added bool
	// unknown is set for a part that the lab does not have.
	unknown error
}

// Part returns a part by its name. For a name that the lab does not have, the
// methods of the part return an error that lists the names there are.
func (l *Lab) Part(name string) *Part {
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	for _, part := range l.parts {
		if part.name == name {
			return part
		}
		names = append(names, part.name)
	}
	return &Part{name: name, unknown: fmt.Errorf("no part %q in this lab: there are %s", name, strings.Join(names, ", "))}
}

// Parts returns all parts in the order in which they were added.
func (l *Lab) Parts() []*Part {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.parts)
}

// Name returns the part's name.
func (p *Part) Name() string { return p.name }

// Start starts the part and waits until it is ready. For a part that runs it
// only waits.
func (p *Part) Start(ctx context.Context) error {
	if p.unknown != nil {
		return p.unknown
	}
	return p.process.Start(ctx)
}

// Stop asks the part to end, and kills it if it does not in time. It returns
// when the part is gone.
func (p *Part) Stop() error {
	if p.unknown != nil {
		return p.unknown
	}
	return p.process.Stop()
}

// Kill ends the part with SIGKILL and returns when it is gone.
func (p *Part) Kill() error {
	if p.unknown != nil {
		return p.unknown
	}
	return p.process.Kill()
}

// Restart is Stop and Start.
func (p *Part) Restart(ctx context.Context) error {
	if err := p.Stop(); err != nil {
		return err
	}
	return p.Start(ctx)
}

// Running reports whether the part's process is alive.
func (p *Part) Running() bool { return p.unknown == nil && p.process.Running() }

// Done returns a channel that is closed when the part's present process ends.
func (p *Part) Done() <-chan struct{} {
	if p.unknown != nil {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	return p.process.Done()
}

// PID returns the id of the part's process, 0 while there is none.
func (p *Part) PID() int {
	if p.unknown != nil {
		return 0
	}
	return p.process.PID()
}

// State says in a few words how the part is doing.
func (p *Part) State() string {
	if p.unknown != nil {
		return p.unknown.Error()
	}
	return p.process.State()
}

// LogFile returns the path of the part's log, which holds the output of all
// its starts.
func (p *Part) LogFile() string {
	if p.unknown != nil {
		return ""
	}
	return p.process.Spec().LogFile
}

// Logs returns the last lines of the part's log.
func (p *Part) Logs(lines int) (string, error) {
	if p.unknown != nil {
		return "", p.unknown
	}
	return process.Tail(p.LogFile(), lines)
}

// ProcessSpec describes a process that is added to a lab.
type ProcessSpec struct {
	// Name is the part's name; its log is named after it.
	Name string
	// Path is the program.
	Path string
	// Args are its arguments, without the program's name.
	Args []string
	// Env is its whole environment as KEY=value; nothing is inherited.
	Env []string
	// Dir is its working directory; empty means the present one.
	Dir string
	// ReadyURL answers 200 once the process serves. Certificates of the lab's
	// authority are trusted.
	ReadyURL string
	// Ready returns nil once the process serves. It is used when ReadyURL is
	// empty; with neither the process counts as ready at once.
	Ready func(ctx context.Context) error
	// StartTimeout is how long it may take to become ready; 0 means 90 s.
	StartTimeout time.Duration
	// StopTimeout is how long it may take to end when asked; 0 means 10 s.
	StopTimeout time.Duration
}

// Run starts a further process under the lab's supervision and waits until it
// is ready. It ends before the parts that were there earlier, and never
// outlives the lab. A part of the same name is replaced if it has ended.
func (l *Lab) Run(ctx context.Context, spec ProcessSpec) (*Part, error) {
	ready := spec.Ready
	if spec.ReadyURL != "" {
		ready = func(ctx context.Context) error { return l.answers(ctx, spec.ReadyURL) }
	}
	part := &Part{name: spec.Name, added: true, process: process.New(process.Spec{
		Name:         spec.Name,
		Path:         spec.Path,
		Args:         spec.Args,
		Env:          spec.Env,
		Dir:          spec.Dir,
		LogFile:      l.cluster.Log(spec.Name),
		Ready:        ready,
		StartTimeout: spec.StartTimeout,
		StopTimeout:  spec.StopTimeout,
	})}
	if err := l.add(part); err != nil {
		return nil, err
	}
	if err := part.Start(ctx); err != nil {
		l.remove(part)
		return nil, err
	}
	return part, nil
}

func (l *Lab) add(part *Part) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return fmt.Errorf("starting %s: the lab is stopped", part.name)
	}
	for i, other := range l.parts {
		if other.name != part.name {
			continue
		}
		if !other.added || other.Running() {
			return fmt.Errorf("starting %s: the lab has a part of that name", part.name)
		}
		l.parts = slices.Delete(l.parts, i, i+1)
		break
	}
	l.parts = append(l.parts, part)
	return nil
}

func (l *Lab) remove(part *Part) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.parts = slices.DeleteFunc(l.parts, func(other *Part) bool { return other == part })
}
