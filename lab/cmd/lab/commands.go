package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/pd-orchestrator/pd-orchestrator/lab"
	"github.com/pd-orchestrator/pd-orchestrator/lab/internal/control"
	"github.com/pd-orchestrator/pd-orchestrator/lab/internal/process"
)

// downTimeout is how long a lab may take to stop before its supervisor is
// killed, which takes all its processes along.
const downTimeout = 60 * time.Second

func down(flags *flag.FlagSet) func(context.Context, []string) error {
	state := stateFlag(flags)
	return func(ctx context.Context, _ []string) error {
		dir, err := stateDir(*state)
		if err != nil {
			return err
		}
		pid, err := supervisorPID(dir)
		if err != nil {
			return err
		}
		if pid == 0 {
			say("no lab is running in %s", dir)
			return nil
		}
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stopping the lab: %w", err)
		}
		ended, cancel := context.WithTimeout(ctx, downTimeout)
		defer cancel()
		file, err := lock(ended, dir, supervisorLock, func() {})
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			say("the lab does not stop within %s; killing it", downTimeout)
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("killing the lab: %w", err)
			}
			if file, err = lock(ctx, dir, supervisorLock, func() {}); err != nil {
				return err
			}
		}
		say("down; logs are kept in %s", filepath.Join(dir, "logs"))
		return file.Close()
	}
}

func status(flags *flag.FlagSet) func(context.Context, []string) error {
	state := stateFlag(flags)
	return func(ctx context.Context, _ []string) error {
		dir, err := stateDir(*state)
		if err != nil {
			return err
		}
		client, err := control.Dial(dir)
		if err != nil {
			return err
		}
		status, err := client.Status(ctx)
		if err != nil {
			return fmt.Errorf("looking for a lab in %s: %w", dir, err)
		}
		table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(table, "PART\tSTATE\tPID\tLOG")
		var down []string
		for _, part := range status.Parts {
			pid := "-"
			if part.Running {
				pid = fmt.Sprint(part.PID)
			} else {
				down = append(down, part.Name)
			}
			_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", part.Name, part.State, pid, part.LogFile)
		}
		if err := table.Flush(); err != nil {
			return err
		}
		fmt.Println("\n" + exports(status))
		if len(down) > 0 {
			return fmt.Errorf("not running: %s", strings.Join(down, ", "))
		}
		return nil
	}
}

func logs(flags *flag.FlagSet) func(context.Context, []string) error {
	state := stateFlag(flags)
	lines := flags.Int("n", 100, "`number` of lines from the end; 0 shows all")
	return func(_ context.Context, args []string) error {
		part, err := onePart(args)
		if err != nil {
			return err
		}
		dir, err := stateDir(*state)
		if err != nil {
			return err
		}
		path := logFile(dir, part)
		if part == superviseCommand || part == "supervisor" {
			path = filepath.Join(dir, "supervisor.log")
		}
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("no log of %q in %s: there are %s", part, dir, strings.Join(logNames(dir), ", "))
		}
		if *lines > 0 {
			text, err := process.Tail(path, *lines)
			if err != nil {
				return err
			}
			fmt.Println(text)
			return nil
		}
		file, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("reading a log: %w", err)
		}
		defer func() { _ = file.Close() }()
		_, err = io.Copy(os.Stdout, file)
		return err
	}
}

func logNames(dir string) []string {
	paths, _ := filepath.Glob(logFile(dir, "*"))
	names := []string{"supervisor"}
	for _, path := range paths {
		names = append(names, strings.TrimSuffix(filepath.Base(path), ".log"))
	}
	return names
}

// act returns a command that does something to a part of the running lab.
func act(action control.Action) func(*flag.FlagSet) func(context.Context, []string) error {
	return func(flags *flag.FlagSet) func(context.Context, []string) error {
		state := stateFlag(flags)
		return func(ctx context.Context, args []string) error {
			part, err := onePart(args)
			if err != nil {
				return err
			}
			dir, err := stateDir(*state)
			if err != nil {
				return err
			}
			client, err := control.Dial(dir)
			if err != nil {
				return err
			}
			return client.Act(ctx, part, action)
		}
	}
}

func buildParts(flags *flag.FlagSet) func(context.Context, []string) error {
	repo := flags.String("repo", "", "root `folder` of the repository (default: the working directory or the nearest one above that fits)")
	version := flags.String("kubernetes-version", os.Getenv("KUBERNETES_VERSION"), "`version` of Kubernetes, such as 1.28 (default: the newest there is)")
	return func(ctx context.Context, args []string) error {
		programs, err := lab.Build(ctx, lab.Options{Repo: *repo, KubernetesVersion: *version}, args...)
		for _, program := range programs {
			fmt.Println(program)
		}
		return err
	}
}
