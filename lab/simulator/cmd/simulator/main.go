// Command simulator serves the metrics of simulated inference engines for the pods of a lab.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/pd-orchestrator/pd-orchestrator/lab/simulator"
)

const usage = `simulator stands in for the inference engines of a lab's pods.

For every running pod of a cluster it serves metrics with vLLM's names. One port serves all pods: the pod with the
address 10.1.2.3 answers on 127.1.2.3, so on Linux nothing has to be configured. Values come from a model of the
engines' queues (POST /load) or are held by a test (POST /pin). Only loopback peers are answered.

Usage:
  simulator --kubeconfig=FILE [flags]

Flags:
%s
Example:
  simulator --kubeconfig=admin.kubeconfig --listen=0.0.0.0:9400 --control=127.0.0.1:9401 &
  curl -s http://127.0.0.1:9401/pin -d '{"namespace": "production", "labels": {"app": "llm-decode"},
    "metrics": {"vllm:num_requests_running": 3}}'
  curl -s 'http://127.1.0.5:9400/metrics?port=8000'     # the pod with the address 10.1.0.5
  curl -s -X DELETE http://127.0.0.1:9401/pin

docs/simulator.md in the repository describes the control API, the metrics and the model.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "simulator:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("simulator", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	options := simulator.Options{Log: slog.New(slog.NewTextHandler(stderr, nil))}
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig `FILE` of the cluster whose pods are simulated; it may list and watch pods")
	flags.StringVar(&options.Listen, "listen", "0.0.0.0:0", "`ADDRESS` of the metrics of all pods; it has to cover 127.0.0.0/8, and port 0 picks a free port")
	flags.StringVar(&options.Control, "control", "127.0.0.1:0", "loopback `ADDRESS` of the control API; port 0 picks a free port")
	flags.StringVar(&options.ReadyFile, "ready-file", "", "`FILE` that is written, as {\"metricsPort\":N,\"controlURL\":\"http://...\"}, once all is served and the pods are known")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			_, _ = fmt.Fprintf(stdout, usage, flagUsages(flags))
			return err
		}
		return fmt.Errorf("%w (see simulator --help)", err)
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q (see simulator --help)", flags.Arg(0))
	}
	if *kubeconfig == "" {
		return errors.New("--kubeconfig must name a kubeconfig file (see simulator --help)")
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("reading --kubeconfig: %w", err)
	}
	options.Config = config
	return simulator.Run(ctx, options)
}

func flagUsages(flags *flag.FlagSet) string {
	var text string
	flags.VisitAll(func(f *flag.Flag) {
		value, help := flag.UnquoteUsage(f)
		text += fmt.Sprintf("  --%s=%s\n        %s", f.Name, value, help)
		if f.DefValue != "" {
			text += fmt.Sprintf(" (default %s)", f.DefValue)
		}
		text += "\n"
	})
	return text
}
