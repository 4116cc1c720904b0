package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/pd-orchestrator/pd-orchestrator/lab"
	"github.com/pd-orchestrator/pd-orchestrator/lab/internal/control"
)

// superviseCommand is how up starts the process that holds the lab.
const superviseCommand = "supervise"

// reportsDescriptor is the pipe on which the supervisor reports to up.
const reportsDescriptor = 3

// supervise holds a lab until it is told to end by SIGTERM, or until up goes
// away before the lab is ready.
func supervise(flags *flag.FlagSet) func(context.Context, []string) error {
	state := stateFlag(flags)
	encoded := flags.String("settings", "{}", "settings as JSON")
	return func(ctx context.Context, _ []string) error {
		reports := os.NewFile(reportsDescriptor, "reports")
		if reports == nil {
			return errors.New("supervise is started by `lab up`")
		}
		// The lab's processes must not hold the pipe open.
		syscall.CloseOnExec(reportsDescriptor)
		var want settings
		if err := json.Unmarshal([]byte(*encoded), &want); err != nil {
			return fmt.Errorf("reading the settings: %w", err)
		}
		dir, err := stateDir(*state)
		if err != nil {
			return err
		}
		lock, err := tryLock(dir, supervisorLock)
		if err != nil {
			return err
		}
		defer func() { _ = lock.Close() }()
		if err := writePID(lock); err != nil {
			return err
		}

		s := &supervisor{settings: want}
		err = s.start(ctx, dir, reports)
		if err != nil {
			text, marshalErr := json.Marshal(err.Error())
			if marshalErr == nil {
				_, _ = fmt.Fprintf(reports, "%s%s\n", reportFailed, text)
			}
			// The lock must be free when up says that the start failed.
			return errors.Join(err, s.stop(), lock.Close(), reports.Close())
		}
		// Nobody may listen any more; the lab is up all the same.
		_, _ = fmt.Fprintln(reports, reportReady)
		_ = reports.Close()
		<-ctx.Done()
		return s.stop()
	}
}

// supervisor holds a lab and answers for it.
type supervisor struct {
	settings settings
	lab      *lab.Lab
	server   *control.Server

	mu    sync.Mutex
	ready bool
}

func (s *supervisor) start(ctx context.Context, dir string, reports io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	started := make(chan struct{})
	defer close(started)
	go func() {
		// up keeps its end open until it ends; afterwards nobody cares.
		_, _ = io.Copy(io.Discard, os.Stdin)
		select {
		case <-started:
		default:
			cancel(errors.New("the command that started the lab has ended"))
		}
	}()

	var err error
	s.lab, err = lab.Start(ctx, lab.Options{
		Repo:              s.settings.Repo,
		StateDir:          dir,
		KubernetesVersion: s.settings.KubernetesVersion,
		With:              s.settings.With,
		Nodes:             s.settings.Nodes,
		HPASyncPeriod:     s.settings.HPASyncPeriod,
		Progress:          reports,
	})
	if err != nil {
		return err
	}
	if !s.settings.WithoutManager {
		if err := s.lab.InstallProduct(ctx); err != nil {
			return err
		}
		if _, err := s.lab.StartManager(ctx, lab.ManagerOptions{}); err != nil {
			return err
		}
		_, _ = fmt.Fprintln(reports, "lab: the manager is ready")
	}
	if s.server, err = control.Serve(dir, s); err != nil {
		return err
	}
	s.mu.Lock()
	s.ready = true
	s.mu.Unlock()
	return nil
}

func (s *supervisor) stop() error {
	var errs []error
	if s.server != nil {
		errs = append(errs, s.server.Close())
	}
	if s.lab != nil {
		errs = append(errs, s.lab.Stop())
	}
	return errors.Join(errs...)
}

// Status implements control.Lab.
func (s *supervisor) Status() control.Status {
	s.mu.Lock()
	ready := s.ready
	s.mu.Unlock()
	status := control.Status{
		Ready:             ready,
		KubernetesVersion: s.lab.KubernetesVersion(),
		With:              s.settings.With,
		PID:               os.Getpid(),
		Kubeconfig:        s.lab.Kubeconfig(),
		PrometheusURL:     s.lab.PrometheusURL(),
		SimulatorURL:      s.lab.SimulatorURL(),
	}
	for _, part := range s.lab.Parts() {
		status.Parts = append(status.Parts, control.PartStatus{
			Name: part.Name(), Running: part.Running(), State: part.State(), PID: part.PID(), LogFile: part.LogFile(),
		})
	}
	return status
}

// Act implements control.Lab.
func (s *supervisor) Act(ctx context.Context, name string, action control.Action) error {
	part := s.lab.Part(name)
	switch action {
	case control.Start:
		return part.Start(ctx)
	case control.Stop:
		return part.Stop()
	case control.Restart:
		return part.Restart(ctx)
	case control.Kill:
		return part.Kill()
	default:
		return fmt.Errorf("no action %q on a part", action)
	}
}

func writePID(lock *os.File) error {
	if err := lock.Truncate(0); err != nil {
		return fmt.Errorf("writing the process id: %w", err)
	}
	if _, err := lock.WriteAt([]byte(fmt.Sprintln(os.Getpid())), 0); err != nil {
		return fmt.Errorf("writing the process id: %w", err)
	}
	return nil
}

// logFile returns the path of a part's log in a state folder.
func logFile(stateDir, part string) string {
	return filepath.Join(stateDir, "logs", strings.ReplaceAll(part, string(filepath.Separator), "_")+".log")
}
