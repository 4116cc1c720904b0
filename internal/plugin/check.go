package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	elasticscalerv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	omev1beta1 "github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	tidalv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/algorithm"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/groupspec"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyspec"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/scalerspec"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/servingspec"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/tides"
	"github.com/pd-orchestrator/pd-orchestrator/internal/plugin/view"
	"github.com/pd-orchestrator/pd-orchestrator/internal/schema"
	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

// miscWarning is the code of the warnings that the API server passes on (RFC 7234, section 5.5.7).
const miscWarning = 299

// fieldManager is the writer of the dry runs of check.
const fieldManager = "kubectl-pdo"

func (s *session) checkCommand(use string) *cobra.Command {
	var out output
	var server, recursive bool
	cmd := &cobra.Command{
		Use:   "check FILE...",
		Short: "Say everything that admission would say of manifests, without writing anything",
		Long: `Say everything that admission would say of manifests: unknown fields, wrong types, rules of the schema, and what the webhooks find in one
object, such as PromQL that does not parse or a schedule that never fires. Files, folders, URLs, and - for standard input. Objects of other
kinds are passed over.

By default no cluster is asked. With --server each object is also sent to the API server as a dry run, which adds what depends on other
objects and on your rights. That needs the right to write the objects, and writes nothing.

Exit code 2 if anything is refused; warnings do not count.`,
		Example: strings.ReplaceAll(`  # in CI, without a cluster
  CMD check manifests/

  # what would this cluster say?
  helm template chart | CMD check - --server -n production`, "CMD", use),
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			return s.check(cmd.Context(), args, recursive, server, out)
		},
	}
	cmd.Flags().BoolVar(&server, "server", false, "also ask the API server, by a dry run")
	cmd.Flags().BoolVarP(&recursive, "recursive", "R", true, "look into folders below folders")
	out.add(cmd, formatTable, formatJSON, formatYAML)
	return cmd
}

func (s *session) check(ctx context.Context, files []string, recursive, server bool, out output) error {
	if server {
		if err := s.connect(); err != nil {
			return err
		}
	} else {
		// Without a cluster a kubeconfig is welcome, for its namespace, and not needed.
		s.namespace, _, _ = s.flags.ToRawKubeConfigLoader().Namespace()
		s.namespace = cmp.Or(s.namespace, metav1.NamespaceDefault)
	}
	schemas, err := schema.Load()
	if err != nil {
		return err
	}
	algorithms := scaling.NewRegistry()
	if err := algorithm.Register(algorithms); err != nil {
		return err
	}
	c := checker{session: s, schemas: schemas, algorithms: algorithms}
	if server {
		if err := c.dial(); err != nil {
			return err
		}
	}
	report := &view.CheckReport{TypeMeta: metav1.TypeMeta{APIVersion: view.APIVersion, Kind: "CheckReport"}}
	result := resource.NewLocalBuilder().Unstructured().ContinueOnError().
		FilenameParam(false, &resource.FilenameOptions{Filenames: files, Recursive: recursive}).Flatten().Do()
	visited := result.Visit(func(info *resource.Info, err error) error {
		if err != nil {
			return err
		}
		u := info.Object.(*unstructured.Unstructured)
		if !schemas.Knows(u.GroupVersionKind()) {
			report.Passed++
			return nil
		}
		if schemas.Namespaced(u.GroupVersionKind()) && u.GetNamespace() == "" {
			u.SetNamespace(s.namespace)
		}
		finding := view.Checked{Source: info.Source, Object: view.ReferenceTo(u.GetKind(), u)}
		finding.Errors, finding.Warnings = c.object(ctx, u)
		report.Objects = append(report.Objects, finding)
		return nil
	})
	if visited != nil {
		return visited
	}
	if err = s.show(out, report, report.Print); err == nil && report.Refused() > 0 {
		return errUnmet
	}
	return err
}

// checker checks one object after another.
type checker struct {
	*session
	schemas    *schema.Schemas
	algorithms *scaling.Registry
	// trial sends dry runs, nil to ask no API server.
	trial    client.Client
	warnings *warnings
}

// warnings collects those that the API server sends.
type warnings struct {
	mu  sync.Mutex
	all []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(code int, _ string, text string) {
	if code != miscWarning || text == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, text)
}

func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.all
	w.all = nil
	return all
}

func (c *checker) dial() error {
	config, err := c.flags.ToRESTConfig()
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	c.warnings = &warnings{}
	config = rest.CopyConfig(config)
	config.WarningHandler = c.warnings
	if c.trial, err = client.New(config, client.Options{Scheme: newScheme()}); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return nil
}

// object returns what admission would say of one object.
func (c *checker) object(ctx context.Context, u *unstructured.Unstructured) (errs, warned []string) {
	sent := u.DeepCopy()
	found, readable := c.schemas.Validate(ctx, u)
	for _, e := range found {
		errs = append(errs, e.Error())
	}
	if readable {
		var more []string
		more, warned = c.rules(u)
		errs = merged(errs, more)
	}
	if c.trial == nil {
		return errs, warned
	}
	serverErrs, serverWarned := c.ask(ctx, sent)
	return merged(errs, serverErrs), merged(warned, serverWarned)
}

// merged is a list and those of another that say more.
func merged(list, more []string) []string {
	for _, text := range more {
		known := false
		for _, have := range list {
			known = known || strings.Contains(text, have) || strings.Contains(have, text)
		}
		if !known {
			list = append(list, text)
		}
	}
	return list
}

// rules returns what the webhooks find in the object alone.
func (c *checker) rules(u *unstructured.Unstructured) (errs, warned []string) {
	var found field.ErrorList
	var findings []policyspec.Finding
	var err error
	switch u.GetKind() {
	case view.KindGroup:
		var rsg autoscalingv1alpha1.ResourceScalingGroup
		if err = fromMap(u.Object, &rsg); err == nil {
			found, warned = groupspec.Validate(&rsg)
		}
	case view.KindScaler:
		var scaler elasticscalerv1alpha1.ElasticScaler
		if err = fromMap(u.Object, &scaler); err == nil {
			found, warned = scalerspec.Validate(&scaler, c.algorithms)
		}
	case view.KindTidal:
		var tidal tidalv1alpha1.Tidal
		if err = fromMap(u.Object, &tidal); err == nil {
			found = tides.Validate(tidal.Spec, field.NewPath("spec"))
			rules, _ := tides.Compile(tidal.Spec)
			if conflicts := tides.Conflicts(rules, now()); len(conflicts) > 0 {
				warned = append(warned, "spec.triggers.times.rules: "+tides.Describe(conflicts, 1024))
			}
		}
	case view.KindPolicy:
		var policy omev1beta1.AutoscalerPolicy
		if err = fromMap(u.Object, &policy); err == nil {
			findings, warned = policyspec.Validate(policy.Spec), policyspec.Warnings(policy.Spec)
		}
	case view.KindService:
		var service omev1beta1.InferenceService
		if err = fromMap(u.Object, &service); err == nil {
			findings, warned = servingspec.Service(&service, true), servingspec.Warnings(&service)
		}
	case "ServingRuntime", "ClusterServingRuntime":
		var runtime omev1beta1.ServingRuntime
		if err = fromMap(u.Object, &runtime); err == nil {
			findings = servingspec.Runtime(runtime.Spec)
		}
	}
	if err != nil {
		return []string{err.Error()}, nil
	}
	for _, e := range found {
		errs = append(errs, e.Error())
	}
	for _, f := range findings {
		errs = append(errs, f.String())
	}
	return errs, warned
}

// ask sends a dry run.
func (c *checker) ask(ctx context.Context, u *unstructured.Unstructured) (errs, warned []string) {
	err := c.trial.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.DryRunAll, client.ForceOwnership, client.FieldOwner(fieldManager))
	warned = c.warnings.take()
	var status apierrors.APIStatus
	switch {
	case err == nil:
	case errors.As(err, &status) && status.Status().Details != nil && len(status.Status().Details.Causes) > 0 && apierrors.IsInvalid(err):
		for _, cause := range status.Status().Details.Causes {
			errs = append(errs, cause.Field+": "+cause.Message)
		}
	default:
		errs = append(errs, err.Error())
	}
	return errs, warned
}
