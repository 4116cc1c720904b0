// Package manager is the whole manager as a library, for a program that compiles plug-ins in: it imports their packages,
// whose init functions register them with package scaling, and calls Main.
package manager

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/pd-orchestrator/pd-orchestrator/internal/config"
	"github.com/pd-orchestrator/pd-orchestrator/internal/manager"
)

// Main runs the manager with the flags of the command line until it gets a signal to end. With an error it ends the process
// with status 1.
func Main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "pd-orchestrator:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("pd-orchestrator", flag.ContinueOnError)
	configFile := flags.String("config", "", "`file` with the ManagerConfiguration (YAML); without it the defaults stand")
	controllers := flags.String("controllers", "", "comma-separated `names` of the controllers to run: "+strings.Join(manager.Components(), ", ")+" (default all)")
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig `file`; without it $KUBECONFIG, then the pod's service account")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: see --help", flags.Arg(0))
	}
	c, err := config.Load(*configFile)
	if err != nil {
		return err
	}
	names, err := manager.SelectComponents(strings.FieldsFunc(*controllers, func(r rune) bool { return r == ',' || r == ' ' }))
	if err != nil {
		return err
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = *kubeconfig
	restConfig, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return fmt.Errorf("loading the kubeconfig: %w", err)
	}
	return manager.Run(ctrl.SetupSignalHandler(), restConfig, c, names, manager.NewLogger(c.Log))
}
