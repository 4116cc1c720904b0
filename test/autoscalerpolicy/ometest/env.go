// Package ometest runs the controllers of AutoscalerPolicies and InferenceServices in a lab, as a process of their own with
// the rights of their own Roles, and gives every test a namespace of its own in it. Only tests import it.
package ometest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab"
)

const (
	component     = "autoscalerpolicy"
	configuration = "autoscalerpolicy.ome.io"
	// Providers is the ConfigMap that binds metric providers.
	Providers = "pd-orchestrator-metric-providers"
	// Soon is how long anything may take on a busy machine.
	Soon = 60 * time.Second
	// Model is the name of the model that every lab has.
	Model = "llama-3-2-1b-instruct"
	// Runtime is the name of the runtime that every lab has.
	Runtime = "vllm-llama-3-2-1b-instruct"
)

// Env is a lab with the product installed and its component running.
type Env struct {
	// Lab is the control plane.
	Lab *lab.Lab
	// Client acts as the administrator, without a cache.
	Client client.WithWatch
	// Manager is the component's process.
	Manager *lab.Part

	webhookPort int
}

// Main starts a lab, prepares it, runs the tests and stops the lab. It returns the exit code.
func Main(m *testing.M, env **Env, options lab.Options, prepare func(context.Context, *Env) error) (code int) {
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Minute)
	defer cancel()
	ctrl.SetLogger(logr.Discard())
	e := &Env{}
	err := e.start(ctx, options, prepare)
	if e.Lab != nil {
		defer func() {
			if err := e.stop(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = max(code, 1)
			}
		}()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	*env = e
	return m.Run()
}

func (e *Env) start(ctx context.Context, options lab.Options, prepare func(context.Context, *Env) error) (err error) {
	if e.Lab, err = lab.Start(ctx, options); err != nil {
		return err
	}
	if err := e.Lab.InstallProduct(ctx); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1beta1.AddToScheme(scheme))
	admin := e.Lab.AdminConfig()
	admin.QPS, admin.Burst = 1000, 2000
	if e.Client, err = client.NewWithWatch(admin, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("making the tests' client: %w", err)
	}
	if prepare != nil {
		if err := prepare(ctx, e); err != nil {
			return err
		}
	}
	if err := e.startManager(ctx); err != nil {
		return err
	}
	return e.serveLlama(ctx)
}

// stop also fails where the manager's log tells of a panic.
func (e *Env) stop() error {
	var errs []error
	if e.Manager != nil {
		text, err := os.ReadFile(e.Manager.LogFile())
		if at := strings.Index(string(text), "panic"); at >= 0 {
			err = fmt.Errorf("the manager's log tells of a fault:\n%s", text[at:min(at+4000, len(text))])
		}
		errs = append(errs, err)
	}
	return errors.Join(append(errs, e.Lab.Stop())...)
}

// startManager runs the component as the ServiceAccount that its Roles are for, with its webhooks.
func (e *Env) startManager(ctx context.Context) error {
	account, err := testkit.InstallRoles(ctx, e.Client, filepath.Join(repo(), "config", "rbac", component, "role.yaml"), lab.ProductNamespace)
	if err != nil {
		return err
	}
	identity, err := e.Lab.ServiceAccountConfig(ctx, lab.ProductNamespace, account)
	if err != nil {
		return err
	}
	health, err := e.Lab.ReservePort()
	if err != nil {
		return err
	}
	if e.webhookPort, err = e.Lab.ReservePort(); err != nil {
		return err
	}
	if err := e.RegisterWebhooks(ctx); err != nil {
		return err
	}
	dir := filepath.Join(e.Lab.StateDir(), "manager-"+component)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making a folder for the manager: %w", err)
	}
	file, kubeconfig := filepath.Join(dir, "manager.yaml"), filepath.Join(dir, "kubeconfig")
	text := fmt.Sprintf(`apiVersion: config.pd-orchestrator.io/v1alpha1
kind: ManagerConfiguration
namespace: %s
webhook: {enabled: true, bindAddress: "127.0.0.1:%d", certDir: %q, dnsNames: [%s]}
health: {bindAddress: "127.0.0.1:%d"}
metrics: {bindAddress: "0"}
log: {level: 1}
`, lab.ProductNamespace, e.webhookPort, filepath.Join(dir, "webhook"), lab.WebhookHost, health)
	if err := errors.Join(os.WriteFile(file, []byte(text), 0o600), lab.WriteKubeconfig(kubeconfig, identity)); err != nil {
		return err
	}
	program, err := e.Lab.BuildCommand(ctx, ".", "./cmd/pd-orchestrator")
	if err != nil {
		return err
	}
	e.Manager, err = e.Lab.Run(ctx, lab.ProcessSpec{
		Name: "manager-" + component, Path: program, Args: []string{"--config=" + file, "--kubeconfig=" + kubeconfig, "--controllers=" + component},
		ReadyURL: fmt.Sprintf("http://127.0.0.1:%d/readyz", health), StartTimeout: time.Minute, StopTimeout: 15 * time.Second,
	})
	return err
}

// RegisterWebhooks has the API server call the component's webhooks, and no others. The manager says whom to trust.
func (e *Env) RegisterWebhooks(ctx context.Context) error {
	if err := e.Lab.InstallWebhooks(ctx, e.webhookPort, nil); err != nil {
		return err
	}
	var all admissionregistrationv1.ValidatingWebhookConfigurationList
	if err := e.Client.List(ctx, &all); err != nil {
		return fmt.Errorf("listing the registrations of webhooks: %w", err)
	}
	for i := range all.Items {
		hooks := &all.Items[i]
		for _, hook := range hooks.Webhooks {
			address, err := url.Parse(*hook.ClientConfig.URL)
			if err == nil && address.Port() == fmt.Sprint(e.webhookPort) && hooks.Name != configuration {
				if err := e.Client.Delete(ctx, hooks); client.IgnoreNotFound(err) != nil {
					return fmt.Errorf("removing a webhook that nobody serves: %w", err)
				}
			}
		}
	}
	return nil
}

// repo is the root of the repository: the nearest folder above that has the generated Roles.
func repo() string {
	dir := "."
	for range 6 {
		if _, err := os.Stat(filepath.Join(dir, "config", "rbac")); err == nil {
			break
		}
		dir = filepath.Join(dir, "..")
	}
	return dir
}

// serveLlama creates the model and the runtime that the documents' services use.
func (e *Env) serveLlama(ctx context.Context) error {
	for _, manifest := range []string{`
apiVersion: ome.io/v1beta1
kind: ClusterBaseModel
metadata: {name: ` + Model + `}
spec:
  vendor: meta
  modelFormat: {name: safetensors, version: 1.0.0}
  modelParameterSize: 1.24B
  storage: {storageUri: "hf://meta-llama/Llama-3.2-1B-Instruct"}
`, `
apiVersion: ome.io/v1beta1
kind: ClusterServingRuntime
metadata: {name: ` + Runtime + `}
spec:
  modelSizeRange: {min: 1B, max: 2B}
  supportedModelFormats:
  - modelFormat: {name: safetensors, version: 1.0.0}
    modelFramework: {name: transformers, version: 4.43.0}
    autoSelect: true
    priority: 1
  engineConfig:
    runner: {name: ome-container, image: "vllm/vllm-openai:v0.9", ports: [{containerPort: 8080}], resources: {requests: {cpu: "1"}}}
  decoderConfig:
    runner: {name: ome-container, image: "vllm/vllm-openai:v0.9", ports: [{containerPort: 8080}], resources: {requests: {cpu: "1"}}}
  routerConfig:
    runner: {name: router, image: "example.org/router:1", ports: [{containerPort: 8080}], resources: {requests: {cpu: "1"}}}
`} {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(manifest), &u.Object); err != nil {
			return err
		}
		if err := e.Client.Create(ctx, u); err != nil {
			return fmt.Errorf("creating %s: %w", u.GetKind(), err)
		}
	}
	return nil
}

// World is a namespace of a test's own.
type World struct {
	testing.TB
	*Env
	// Namespace is the name of it.
	Namespace string
}

// NewWorld makes a namespace, which goes at the end of the test.
func (e *Env) NewWorld(t testing.TB) *World {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "demo-"}}
	if err := e.Client.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Client.Delete(context.Background(), namespace) })
	return &World{TB: t, Env: e, Namespace: namespace.Name}
}

// collector keeps the warnings that the API server gives.
type collector struct {
	mu       sync.Mutex
	warnings []string
}

func (c *collector) HandleWarningHeader(_ int, _, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.warnings = append(c.warnings, text)
}

// Apply applies a manifest in the namespace as kubectl does, and returns the warnings. {ns} is the namespace.
func (w *World) Apply(manifest string) ([]string, error) {
	w.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(manifest, "{ns}", w.Namespace)), &u.Object); err != nil {
		w.Fatalf("reading the manifest: %v\n%s", err, manifest)
	}
	if u.GetNamespace() == "" {
		u.SetNamespace(w.Namespace)
	}
	heard := &collector{}
	user := rest.CopyConfig(w.Lab.AdminConfig())
	user.WarningHandler = heard
	c, err := client.New(user, client.Options{Scheme: w.Client.Scheme(), Mapper: w.Client.RESTMapper()})
	if err != nil {
		w.Fatal(err)
	}
	err = c.Apply(w.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("kubectl"), client.ForceOwnership)
	return heard.warnings, err
}

// MustApply applies a manifest that is to be taken.
func (w *World) MustApply(manifest string) []string {
	w.Helper()
	warnings, err := w.Apply(manifest)
	if err != nil {
		w.Fatalf("refused: %v\n%s", err, manifest)
	}
	return warnings
}
