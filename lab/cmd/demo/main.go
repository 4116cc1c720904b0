// Command demo shows PD-Orchestrator's main job on a lab of its own: a
// prefill/decode group is replicated, and scaled down by live metrics.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/pd-orchestrator/pd-orchestrator/lab/demo"
)

const usage = `demo starts a lab of its own, with the product's CRDs and manager, and plays the
story of a ResourceScalingGroup in 7 steps:

  1  two Deployments, llm-prefill and llm-decode, each with a Service
  2  a ResourceScalingGroup makes them group 0, and group 1 appears
  3  scaled to 4 groups through the scale subresource
  4  scaled to 2: the two groups with the fewest running requests go
  5  Prometheus is stopped; scaled to 1: the fallback decides
  6  scaled to 0 and back to 2: group 0 gets its recorded replicas again
  7  the ResourceScalingGroup is deleted: the workloads stay

Each step shows what it does as the command that you would type, waits until the
cluster holds what the step promises, and prints a table of the groups. The demo
fails, and says why, if the promise is not kept. Afterwards everything is stopped
and removed. It runs beside a lab of "make lab" and beside other demos.

  make demo                     play the story and clean up
  make demo PAUSE=1             wait for Enter after each step, to look from outside
  make demo KEEP=1              leave everything running; prints the line that points
                                a shell to it, and how to stop it

The first run builds the control plane from Go modules, which takes 15 to 20
minutes on 2 cores. Lines that begin with "lab:" go to standard error and say how
far that is; the story goes to standard output.

Flags:
`

// Exit codes of the command.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

type settings struct {
	repo              string
	labCommand        string
	kubernetesVersion string
	keep              bool
	pause             bool
}

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	var s settings
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.StringVar(&s.repo, "repo", "", "root `folder` of the repository (default: the working directory or the nearest one above that fits)")
	flags.StringVar(&s.labCommand, "lab", "bin/lab", "lab `command`, which holds the lab with --keep")
	flags.StringVar(&s.kubernetesVersion, "kubernetes-version", os.Getenv("KUBERNETES_VERSION"), "`version` of Kubernetes, such as 1.28 (default: the newest there is)")
	flags.BoolVar(&s.keep, "keep", false, "leave everything running at the end")
	flags.BoolVar(&s.pause, "pause", false, "wait for Enter after each step; without effect unless on a terminal")
	flags.Usage = func() {
		fmt.Fprint(os.Stderr, usage)
		flags.PrintDefaults()
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return exitUsage
	case flags.NArg() > 0:
		fmt.Fprintf(os.Stderr, "demo: no arguments are taken, got %q; see demo --help\n", flags.Args())
		return exitUsage
	}
	// A terminal that is closed sends SIGHUP, and a pipe whose reader has gone
	// away SIGPIPE; both are to clean up as Ctrl-C does.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	screen := &demo.Screen{Out: os.Stdout, Colour: isTerminal(os.Stdout) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	if err := perform(ctx, screen, s); err != nil {
		if ctx.Err() != nil {
			fmt.Fprintf(os.Stderr, "demo: interrupted: %v\n", err)
			return exitInterrupted
		}
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		return exitFailed
	}
	return 0
}

// perform starts a lab, plays the story, and stops the lab unless it is to be
// kept.
func perform(ctx context.Context, screen *demo.Screen, s settings) error {
	started := time.Now()
	screen.Heading("A lab of its own: control plane, simulated nodes, Prometheus, simulator; CRDs and manager of PD-Orchestrator")
	stage, err := startStage(ctx, s)
	if err != nil {
		return err
	}
	took := []demo.Took{{Step: "start of the lab", Time: time.Since(started)}}
	screen.Say("To look from another terminal: export KUBECONFIG=%s PROMETHEUS_URL=%s SIMULATOR_URL=%s",
		stage.Kubeconfig(), stage.PrometheusURL(), stage.SimulatorURL())

	options := demo.Options{Screen: screen, Resume: s.keep}
	if s.pause && isTerminal(os.Stdin) {
		options.Pause = pauser(screen)
	}
	steps, err := demo.Play(ctx, stage, options)
	took = append(took, steps...)
	// What is kept after a failure shows what is wrong; an interrupt means that
	// nobody wants it.
	kept := s.keep && ctx.Err() == nil
	if !kept {
		screen.Heading("The lab is stopped")
		stopping := time.Now()
		closeErr := stage.Close()
		if closeErr == nil {
			screen.Say("Nothing is left running.")
		}
		err = errors.Join(err, closeErr)
		took = append(took, demo.Took{Step: "stop of the lab", Time: time.Since(stopping)})
	}
	if err == nil {
		screen.Heading("Every step did what it promised")
		screen.Times(append(took, demo.Took{Step: "total", Time: time.Since(started)}))
	}
	if kept {
		screen.Heading("Everything is left running")
		screen.Say("Point a shell to it by:")
		screen.Line(stage.Exports())
		screen.Say("Stop it by `make lab-down` in that shell, or anywhere by:")
		screen.Line(stage.DownCommand())
	}
	return err
}

// pauser waits for a line on standard input, or for its end.
func pauser(screen *demo.Screen) func(context.Context) error {
	lines := make(chan struct{})
	go func() {
		defer close(lines)
		for input := bufio.NewScanner(os.Stdin); input.Scan(); {
			lines <- struct{}{}
		}
	}()
	return func(ctx context.Context) error {
		screen.Say("Enter goes on.")
		select {
		case <-lines:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func isTerminal(file *os.File) bool { return term.IsTerminal(int(file.Fd())) }
