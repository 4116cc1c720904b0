// Package plugin tests the kubectl plug-in as users run it: the program, on a real control plane, as a user who may read.
package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
)

const (
	// reader is the user who runs the plug-in.
	reader = "reader"
	// soon is how long anything may take on a busy machine.
	soon = 90 * time.Second
)

var (
	// env is the lab with a manager of all components.
	env *estest.Env
	// program is the plug-in, and kubeconfig that of the reader.
	program, kubeconfig string
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(estest.Main(m, &env, lab.Options{ScrapeInterval: 2 * time.Second}, start))
}

func start(ctx context.Context, e *estest.Env) (err error) {
	if program, err = e.Lab.BuildCommand(ctx, ".", "./cmd/kubectl-pdo"); err != nil {
		return err
	}
	if err := createReader(ctx, e); err != nil {
		return err
	}
	if err := create(ctx, e.Client, estest.Serving, ""); err != nil {
		return err
	}
	e.Manager, err = e.Lab.StartManager(ctx, lab.ManagerOptions{})
	return err
}

// createReader gives the reader the rights that docs/kubectl-pdo.md lists, and nothing else.
func createReader(ctx context.Context, e *estest.Env) error {
	read := []string{"get", "list"}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: reader}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"autoscaling.openfuyao.com", "elasticscaler.io", "tidal.io", "ome.io"}, Resources: []string{"*"}, Verbs: read},
		{APIGroups: []string{"apps"}, Resources: []string{"deployments", "statefulsets", "deployments/scale", "statefulsets/scale"}, Verbs: read},
		{APIGroups: []string{"leaderworkerset.x-k8s.io"}, Resources: []string{"leaderworkersets", "leaderworkersets/scale"}, Verbs: read},
		{APIGroups: []string{""}, Resources: []string{"pods", "services", "configmaps", "events"}, Verbs: read},
		{APIGroups: []string{"autoscaling"}, Resources: []string{"horizontalpodautoscalers"}, Verbs: read},
		{APIGroups: []string{"keda.sh"}, Resources: []string{"scaledobjects"}, Verbs: read},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: reader},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: reader},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: reader}},
	}
	if err := errors.Join(e.Client.Create(ctx, role), e.Client.Create(ctx, binding)); err != nil {
		return err
	}
	var err error
	kubeconfig, err = kubeconfigOf(e, reader)
	return err
}

// kubeconfigOf writes the kubeconfig of a user.
func kubeconfigOf(e *estest.Env, user string) (string, error) {
	config, err := e.Lab.UserConfig(user)
	if err != nil {
		return "", err
	}
	path := filepath.Join(e.Lab.StateDir(), user+".kubeconfig")
	return path, writeKubeconfig(config, path)
}

func writeKubeconfig(config *rest.Config, path string) error {
	file := clientcmdapi.NewConfig()
	file.Clusters["lab"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData, CertificateAuthority: config.CAFile}
	file.AuthInfos["user"] = &clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData, ClientCertificate: config.CertFile, ClientKeyData: config.KeyData, ClientKey: config.KeyFile, Token: config.BearerToken,
	}
	file.Contexts["lab"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: "user"}
	file.CurrentContext = "lab"
	return clientcmd.WriteToFile(*file, path)
}

// create creates those objects of a text that are not there yet. NAMESPACE in it stands for the namespace.
func create(ctx context.Context, c client.Client, text, namespace string) error {
	for document := range strings.SplitSeq(strings.ReplaceAll(text, "NAMESPACE", namespace), "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(document), &u.Object); err != nil {
			return fmt.Errorf("reading a manifest: %w in:\n%s", err, document)
		}
		if u.GetNamespace() == "" {
			u.SetNamespace(namespace)
		}
		if err := client.IgnoreAlreadyExists(c.Create(ctx, u)); err != nil {
			return fmt.Errorf("creating %s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	return nil
}

// world is a namespace, and the plug-in in it.
type world struct {
	*estest.World
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{env.World(t)}
}

func (w *world) apply(text string) {
	w.T.Helper()
	// The webhooks may be on their way still.
	testkit.Eventually(w.T, soon, "the objects to be created", func(ctx context.Context) error {
		return create(ctx, w.Client, text, w.Namespace)
	})
}

// result is what a command printed, and its exit code.
type result struct {
	stdout, stderr string
	code           int
}

// run runs the plug-in as the reader.
func (w *world) run(args ...string) result {
	w.T.Helper()
	return w.runIn(w.T.Context(), append([]string{"--kubeconfig", kubeconfig, "-n", w.Namespace}, args...)...)
}

func (w *world) runIn(ctx context.Context, args ...string) result {
	w.T.Helper()
	return runProgram(ctx, w.T, program, args...)
}

func runProgram(ctx context.Context, tb testing.TB, path string, args ...string) result {
	tb.Helper()
	cmd := exec.CommandContext(ctx, path, args...)
	// Without the surroundings of whoever runs the tests.
	cmd.Env = []string{"HOME=" + tb.TempDir(), "PATH=" + os.Getenv("PATH")}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return result{stdout.String(), err.Error(), -1}
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// check fails unless the command ended with the code and printed all the texts.
func (r result) check(code int, texts ...string) error {
	if r.code != code {
		return fmt.Errorf("the exit code is %d, want %d; it printed\n%s%s", r.code, code, r.stdout, r.stderr)
	}
	for _, text := range texts {
		if !strings.Contains(squeezed(r.stdout+r.stderr), text) {
			return fmt.Errorf("the output lacks %q; it is\n%s%s", text, r.stdout, r.stderr)
		}
	}
	return nil
}

// squeezed has one blank for several, so that columns can be compared.
func squeezed(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	return strings.Join(lines, "\n")
}

// shows waits until a command ends with the code and prints all the texts.
func (w *world) shows(code int, args []string, texts ...string) result {
	w.T.Helper()
	var r result
	testkit.Eventually(w.T, soon, "kubectl pdo "+strings.Join(args, " "), func(ctx context.Context) error {
		r = w.runIn(ctx, append([]string{"--kubeconfig", kubeconfig, "-n", w.Namespace}, args...)...)
		return r.check(code, texts...)
	})
	return r
}

// words splits a command line.
func words(line string) []string { return strings.Fields(line) }

// deployment is one with two ready replicas' worth of pods that serve metrics.
func deployment(name string, replicas int) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, labels: {app: %[1]s}}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: engine, image: "example.org/engine:1", ports: [{name: metrics, containerPort: 8000}]}]
`, name, replicas)
}

// group is a ResourceScalingGroup of a Deployment.
func group(name, target string, replicas int, more string) string {
	return fmt.Sprintf(`
apiVersion: autoscaling.openfuyao.com/v1alpha1
kind: ResourceScalingGroup
metadata: {name: %s}
spec:
  targetResources: [{name: decode, resourceRef: {apiVersion: apps/v1, kind: Deployment, name: %s}}]
  scalingStrategy: {type: GroupReplication, groupConfig: {groupName: %[1]s, replicas: %[3]d%[4]s}}
`, name, target, replicas, more)
}
