// Command lab runs a local Kubernetes control plane with simulated nodes,
// Prometheus, an inference simulator and the product.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

const usage = `lab runs a real Kubernetes control plane on loopback, with simulated nodes and
pods, Prometheus, a simulator of inference engines, and PD-Orchestrator itself.
It needs nothing but Go: every part is built from Go modules, once, into a cache.

  eval "$(lab up)"              start a lab in the background, or find the one that runs,
                                and point this shell to it
  lab status                    show every process: state, pid, log
  lab logs kube-apiserver       show the end of a log
  lab stop-part prometheus      stop one process, to see what the others do
  lab start-part prometheus
  lab restart-part manager
  lab kill-part manager         the same as a crash
  lab down                      stop the lab
  lab build [PART...]           build parts into the cache without starting anything;
                                prints the path of each program

Run "lab COMMAND --help" for the flags of a command.

Environment:
  PDO_LAB_STATE        state folder (certificates, data, logs, kubeconfigs) of the lab;
                       set it to run several labs side by side
  PDO_LAB_CACHE        cache of built parts
  KUBERNETES_VERSION   version of Kubernetes, such as 1.28
`

// command is a subcommand: it declares its flags and returns what runs once
// they are parsed.
type command struct {
	name    string
	summary string
	setup   func(*flag.FlagSet) func(ctx context.Context, args []string) error
}

func commands() []command {
	return []command{
		{"up", "up [flags]: start a lab in the background and print the line that sets its environment", up},
		{"down", "down [flags]: stop the lab", down},
		{"status", "status [flags]: show the lab's processes; fails unless all run", status},
		{"logs", "logs [flags] PART: show the end of a part's log", logs},
		{"build", "build [flags] [PART...]: build parts into the cache", buildParts},
		{"start-part", "start-part [flags] PART: start a part and wait until it is ready", act("start")},
		{"stop-part", "stop-part [flags] PART: stop a part", act("stop")},
		{"restart-part", "restart-part [flags] PART: stop and start a part", act("restart")},
		{"kill-part", "kill-part [flags] PART: end a part with SIGKILL", act("kill")},
		{superviseCommand, superviseCommand + ": hold a lab; started by up", supervise},
	}
}

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	if len(args) == 0 || slices.Contains([]string{"help", "-h", "-help", "--help"}, args[0]) {
		fmt.Fprint(os.Stderr, usage)
		return 0
	}
	all := commands()
	i := slices.IndexFunc(all, func(c command) bool { return c.name == args[0] })
	if i < 0 {
		fmt.Fprintf(os.Stderr, "lab: no command %q; see lab --help\n", args[0])
		return 2
	}
	flags := flag.NewFlagSet("lab "+args[0], flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintf(os.Stderr, "lab %s\n", all[i].summary)
		flags.PrintDefaults()
	}
	execute := all[i].setup(flags)
	positional, err := parse(flags, args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := execute(ctx, positional); err != nil {
		fmt.Fprintf(os.Stderr, "lab: %v\n", err)
		return 1
	}
	return 0
}

// parse accepts flags before and after positional arguments.
func parse(flags *flag.FlagSet, args []string) ([]string, error) {
	var positional []string
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		if flags.NArg() == 0 {
			return positional, nil
		}
		positional = append(positional, flags.Arg(0))
		args = flags.Args()[1:]
	}
}

// onePart returns the single positional argument of commands about a part.
func onePart(args []string) (string, error) {
	if len(args) != 1 {
		return "", fmt.Errorf("exactly one part must be named, got %q", strings.Join(args, " "))
	}
	return args[0], nil
}
