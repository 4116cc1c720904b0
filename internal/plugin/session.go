package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/pd-orchestrator/pd-orchestrator/api"
	"github.com/pd-orchestrator/pd-orchestrator/internal/plugin/view"
)

// newScheme knows all kinds that are read.
func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(api.AddToScheme(scheme))
	return scheme
}

// session is what the commands share: the flags of kubectl, the streams, and a client made from them.
type session struct {
	flags   *genericclioptions.ConfigFlags
	streams genericiooptions.IOStreams
	// namespace is that of the flags or of the kubeconfig's context.
	namespace string
	client    client.Client
	discovery discovery.ServerResourcesInterface
}

// connect makes the client. It does not contact the cluster yet.
func (s *session) connect() error {
	var err error
	if s.namespace, _, err = s.flags.ToRawKubeConfigLoader().Namespace(); err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config, err := s.flags.ToRESTConfig()
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	// One person waits for the answer; the API server has its own protection.
	config.QPS, config.Burst = 50, 100
	if s.client, err = client.New(config, client.Options{Scheme: newScheme()}); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if s.discovery, err = discovery.NewDiscoveryClientForConfig(config); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return nil
}

// style colours where the output is a terminal, unless the user asked for none (https://no-color.org).
func (s *session) style() view.Style {
	f, isFile := s.streams.Out.(*os.File)
	return view.Style{Colour: isFile && term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// Formats of the output.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatYAML  = "yaml"
	formatName  = "name"
)

// output is the flag -o.
type output struct {
	format  string
	allowed []string
}

// add adds the flag to a command. The first format is the default.
func (o *output) add(cmd *cobra.Command, allowed ...string) {
	o.allowed = allowed
	cmd.Flags().StringVarP(&o.format, "output", "o", allowed[0], "format of the output: "+strings.Join(allowed, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
}

func (o *output) check() error {
	if !slices.Contains(o.allowed, o.format) {
		return fmt.Errorf("--output %q must be one of %s", o.format, strings.Join(o.allowed, ", "))
	}
	return nil
}

// encode writes a document as JSON or YAML, and reports whether that was asked for.
func (o *output) encode(w io.Writer, document any) (bool, error) {
	var text []byte
	var err error
	switch o.format {
	case formatJSON:
		if text, err = json.MarshalIndent(document, "", "  "); err == nil {
			text = append(text, '\n')
		}
	case formatYAML:
		text, err = yaml.Marshal(document)
	default:
		return false, nil
	}
	if err == nil {
		_, err = w.Write(text)
	}
	return true, err
}

// show writes a document in the format that was asked for, or else as text.
func (s *session) show(o output, document any, text func(io.Writer, view.Style) error) error {
	if done, err := o.encode(s.streams.Out, document); done {
		return err
	}
	return text(s.streams.Out, s.style())
}

// explainError adds what a user can do to the errors that are met most.
func explainError(err error) string {
	switch {
	case apierrors.IsForbidden(err):
		return err.Error() + "\nThe commands need read rights: docs/kubectl-pdo.md lists them."
	case meta.IsNoMatchError(err):
		return err.Error() + "\nThe cluster does not have this kind: its CRD comes with the chart, for the components that are switched on."
	case errors.Is(err, context.Canceled):
		return "interrupted"
	}
	return err.Error()
}

// warn tells of what was left out.
func (s *session) warn(text string) { _, _ = fmt.Fprintln(s.streams.ErrOut, "warning: "+text) }

func now() time.Time { return time.Now() }

func versionCommand(streams genericiooptions.IOStreams) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of the plug-in", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			version := "unknown"
			if info, ok := debug.ReadBuildInfo(); ok {
				version = info.Main.Version + " " + info.GoVersion
			}
			_, err := fmt.Fprintln(streams.Out, version)
			return err
		},
	}
}
