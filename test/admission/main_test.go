// Package admission tests what the API server refuses of our kinds and says about it: the schema's rules, and the
// webhook of each component, in a manager process with the rights of its own Roles.
package admission

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	elasticscalerv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	tidalv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab"
)

const (
	account       = "pd-orchestrator-resourcescalinggroup"
	configuration = "resourcescalinggroup.autoscaling.openfuyao.com"
	// validity of the certificate of groups: so short that it is renewed, every 45 s, under the tests.
	validity = 60 * time.Second
	// soon is how long anything may take on a busy machine.
	soon = 30 * time.Second
)

// suite is what all tests share.
var suite struct {
	lab   *lab.Lab
	admin client.Client
}

// component is one component of the product in a manager of its own, which may do what its Roles say.
type component struct {
	name, account, configuration string
	// validity of its certificate, 0 for the default.
	validity time.Duration

	manager  *lab.Part
	identity *rest.Config
	port     int
}

var (
	groups  = &component{name: "resourcescalinggroup", account: account, configuration: configuration, validity: validity}
	tidals  = &component{name: "tidal", account: "pd-orchestrator-tidal", configuration: "tidal.tidal.io"}
	scalers = &component{name: "elasticscaler", account: "pd-orchestrator-elasticscaler", configuration: "elasticscaler.elasticscaler.io"}
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
		defer cancel()
		err := start(ctx)
		defer func() {
			if suite.lab != nil {
				if err := suite.lab.Stop(); err != nil {
					fmt.Fprintln(os.Stderr, err)
				}
			}
		}()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

func start(ctx context.Context) (err error) {
	if suite.lab, err = lab.Start(ctx, lab.Options{WithoutMetrics: true}); err != nil {
		return err
	}
	if err := suite.lab.InstallProduct(ctx); err != nil {
		return err
	}
	if suite.admin, err = newClient(suite.lab.AdminConfig()); err != nil {
		return err
	}
	// The Secrets of all are to be there.
	if err := suite.lab.InstallWebhooks(ctx, 1, nil); err != nil {
		return err
	}
	for _, c := range []*component{groups, tidals, scalers} {
		if err := c.start(ctx); err != nil {
			return fmt.Errorf("starting %s: %w", c.name, err)
		}
	}
	return nil
}

func (c *component) start(ctx context.Context) (err error) {
	if _, err := testkit.InstallRoles(ctx, suite.admin, filepath.Join("..", "..", "config", "rbac", c.name, "role.yaml"), lab.ProductNamespace); err != nil {
		return err
	}
	if c.identity, err = suite.lab.ServiceAccountConfig(ctx, lab.ProductNamespace, c.account); err != nil {
		return err
	}
	if c.port, err = suite.lab.ReservePort(); err != nil {
		return err
	}
	if err := c.register(ctx, c.port, nil); err != nil {
		return err
	}
	more := fmt.Sprintf("dnsNames: [%s]", lab.WebhookHost)
	if c.validity != 0 {
		more += fmt.Sprintf(", validitySeconds: %d", int(c.validity.Seconds()))
	}
	c.manager, err = c.run(ctx, c.name, c.port, filepath.Join(suite.lab.StateDir(), "webhook-"+c.name), more)
	return err
}

// register has the API server call the component's webhook on a port, and trust the bundle there, or whom the manager
// says where that is nil.
func (c *component) register(ctx context.Context, port int, caBundle []byte) error {
	hooks := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := suite.admin.Get(ctx, client.ObjectKey{Name: c.configuration}, hooks); err != nil {
		return fmt.Errorf("reading the registration: %w", err)
	}
	old := hooks.DeepCopy()
	in := &hooks.Webhooks[0].ClientConfig
	address, err := url.Parse(*in.URL)
	if err != nil {
		return fmt.Errorf("reading the registration: %w", err)
	}
	address.Host = fmt.Sprintf("%s:%d", lab.WebhookHost, port)
	in.URL, in.CABundle = new(address.String()), caBundle
	if err := suite.admin.Patch(ctx, hooks, client.MergeFrom(old)); err != nil {
		return fmt.Errorf("registering the webhook: %w", err)
	}
	return nil
}

// run starts a process that runs the component with its webhook on a port; more is what else its configuration says of
// that.
func (c *component) run(ctx context.Context, name string, port int, dir, more string) (*lab.Part, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making a folder for the manager: %w", err)
	}
	config, readyURL, err := managerConfig(port, dir, more)
	if err != nil {
		return nil, err
	}
	file, kubeconfig := filepath.Join(dir, "manager.yaml"), filepath.Join(dir, "kubeconfig")
	if err := errors.Join(os.WriteFile(file, []byte(config), 0o600), lab.WriteKubeconfig(kubeconfig, c.identity)); err != nil {
		return nil, err
	}
	program, err := suite.lab.BuildCommand(ctx, ".", "./cmd/pd-orchestrator")
	if err != nil {
		return nil, err
	}
	return suite.lab.Run(ctx, lab.ProcessSpec{
		Name: "manager-" + name, Path: program, Args: []string{"--config=" + file, "--kubeconfig=" + kubeconfig, "--controllers=" + c.name},
		ReadyURL: readyURL, StartTimeout: time.Minute, StopTimeout: 15 * time.Second,
	})
}

// managerConfig renders a configuration with a webhook; more is what else is said of that.
func managerConfig(port int, certDir, more string) (text, readyURL string, err error) {
	health, err := suite.lab.ReservePort()
	if err != nil {
		return "", "", err
	}
	return fmt.Sprintf(`apiVersion: config.pd-orchestrator.io/v1alpha1
kind: ManagerConfiguration
namespace: %s
webhook: {enabled: true, bindAddress: "127.0.0.1:%d", certDir: %q, %s}
health: {bindAddress: "127.0.0.1:%d"}
metrics: {bindAddress: "0"}
`, lab.ProductNamespace, port, certDir, more, health), fmt.Sprintf("http://127.0.0.1:%d/readyz", health), nil
}

func newClient(config *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	utilruntime.Must(elasticscalerv1alpha1.AddToScheme(scheme))
	utilruntime.Must(tidalv1alpha1.AddToScheme(scheme))
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return c, nil
}

// namespaces makes namespaces of the test's own, and takes them away at its end.
func namespaces(t *testing.T, prefixes ...string) []string {
	t.Helper()
	var names []string
	for _, prefix := range prefixes {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix + "-"}}
		must(t, suite.admin.Create(t.Context(), ns))
		names = append(names, ns.Name)
		t.Cleanup(func() {
			if err := suite.admin.Delete(context.Background(), ns); err != nil {
				t.Errorf("deleting namespace %s: %v", ns.Name, err)
			}
		})
	}
	return names
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// user returns a client of a user who has, at first, no rights.
func user(t *testing.T, name string) client.Client {
	t.Helper()
	config, err := suite.lab.UserConfig(name)
	must(t, err)
	c, err := newClient(config)
	must(t, err)
	return c
}

// right is a rule for grant: verbs on resources of a group.
func right(group string, resources string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: strings.Split(resources, ","), Verbs: verbs}
}

// grant gives a subject rights in a namespace.
func grant(t *testing.T, subject rbacv1.Subject, namespace string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, GenerateName: "grant-"}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: rules}
	must(t, suite.admin.Create(t.Context(), role))
	must(t, suite.admin.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, Subjects: []rbacv1.Subject{subject},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
	}))
}

func person(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}
}

// warned returns what the API server warns the administrator of at a write that it accepts.
func warned(t *testing.T, write func(client.Client) error) string {
	t.Helper()
	config := rest.CopyConfig(suite.lab.AdminConfig())
	got := &warnings{}
	config.WarningHandler = got
	c, err := newClient(config)
	must(t, err)
	must(t, write(c))
	return strings.Join(got.all, "\n")
}

// warns waits until a dry run of a new object warns of all these words, or of nothing where there are none.
func warns(t *testing.T, object func() *unstructured.Unstructured, words ...string) {
	t.Helper()
	testkit.Eventually(t, soon, "the warnings, which come from a cache", func(context.Context) error {
		got := warned(t, func(c client.Client) error { return c.Create(t.Context(), object(), client.DryRunAll) })
		if len(words) == 0 && got != "" {
			return fmt.Errorf("warned of %s", got)
		}
		for _, want := range words {
			if !strings.Contains(got, want) {
				return fmt.Errorf("warned of %q, want %q", got, want)
			}
		}
		return nil
	})
}

// whileStopped stops the manager of the component, does something, and starts the manager again.
func (c *component) whileStopped(t *testing.T, do func()) {
	t.Helper()
	must(t, c.manager.Stop())
	// The test's context is over when it has failed.
	defer func() { must(t, c.manager.Start(context.WithoutCancel(t.Context()))) }()
	do()
}

// causes returns the fields that a refusal finds fault with, in one line.
func causes(t *testing.T, err error) string {
	t.Helper()
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Reason != metav1.StatusReasonInvalid || status.Status().Details == nil {
		t.Fatalf("the answer is %#v, want a refusal of reason Invalid with details", err)
	}
	var fields []string
	for _, cause := range status.Status().Details.Causes {
		fields = append(fields, cause.Field)
	}
	return strings.Join(fields, " ")
}

// duplicate is what the API server says of a second entry with the same key. Kubernetes 1.28 puts the type in Go before it.
func duplicate(path, key string) string {
	if strings.HasPrefix(suite.lab.KubernetesVersion(), "1.28.") {
		key = "map[string]interface {}" + key
	}
	return path + ": Duplicate value: " + key
}

// refused ends the test unless the error is a refusal that holds all these words.
func refused(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted, want a refusal with %q", words)
	}
	for _, want := range words {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("refused with\n%v\nwant in it\n%s", err, want)
		}
	}
}
