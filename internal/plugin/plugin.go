// Package plugin is the commands of the kubectl plug-in. They only read: what is decided, and what admission says, comes from
// the packages that the manager runs.
package plugin

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// Exit codes.
const (
	// ExitOK says that the command did what it is for.
	ExitOK = 0
	// ExitError says that it could not: bad arguments, no access, no cluster.
	ExitError = 1
	// ExitUnmet says that it could, and the answer is no: check found something to refuse, or explain --check found trouble.
	ExitUnmet = 2
)

// errUnmet ends a command with ExitUnmet. What is unmet has been printed.
var errUnmet = errors.New("unmet")

// Main runs a command line, and returns the exit code. The first argument is the name of the program.
func Main(args []string, streams genericiooptions.IOStreams) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	root := NewCommand(args[0], streams)
	root.SetArgs(args[1:])
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, errUnmet):
		return ExitUnmet
	}
	_, _ = fmt.Fprintln(streams.ErrOut, "error:", explainError(err))
	return ExitError
}

const long = `Look into the scaling of PD-Orchestrator: what is scaled by what, what was decided and why, what is wrong, and what comes next.

The commands only read, so that read rights on the objects that are shown are enough.

Exit codes: 0 done, 1 an error, 2 the answer is no (check refuses something, explain --check finds trouble).`

// NewCommand returns the root command for a program of the given name.
func NewCommand(program string, streams genericiooptions.IOStreams) *cobra.Command {
	name := strings.TrimSuffix(filepath.Base(program), ".exe")
	use := name
	if plugin, ok := strings.CutPrefix(name, "kubectl-"); ok {
		use = "kubectl " + plugin
	}
	s := &session{flags: genericclioptions.NewConfigFlags(true), streams: streams}
	root := &cobra.Command{
		// Shells complete the name of the program; help shows what the user types.
		Use:           name,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: use},
		Short:         "Look into the scaling of PD-Orchestrator",
		Long:          long,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	s.flags.AddFlags(root.PersistentFlags())
	root.AddCommand(
		s.getCommand(use), s.treeCommand(use), s.explainCommand(use), s.autoscaleCommand(use), s.renderCommand(use), s.nextCommand(use),
		s.checkCommand(use), s.reportCommand(use), versionCommand(streams),
	)
	return root
}
