// Command kubectl-pdo is the kubectl plug-in of PD-Orchestrator. Under the name kubectl-ome it answers as `kubectl ome`.
package main

import (
	"os"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/pd-orchestrator/pd-orchestrator/internal/plugin"
)

func main() {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	os.Exit(plugin.Main(os.Args, streams))
}
