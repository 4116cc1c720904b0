package chart

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	tidalv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab"
	"github.com/pd-orchestrator/pd-orchestrator/lab/faulty"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
)

const components = "scaling-system"

// One release after another: two of one component each side by side, then all components in one, with what they do under
// the accounts that the chart makes, an upgrade, and the end.
func TestInstallations(t *testing.T) {
	// The documents' standalone installations.
	mustHelm(t, "install", "elastic-scaler", chartDir, "--set", "elastic-scaler.enabled=true", "--set", "elastic-scaler.elasticScaler.enabled=false",
		"--set", "resourcescalinggroup.enabled=false", "--set", "resourcescalinggroup.instanceConfig.enabled=false", "--set", "tidal.enabled=false",
		"--set", "elastic-scaler.namespace.create=true")
	mustHelm(t, "install", "rsg", chartDir, "--set", "elastic-scaler.enabled=false", "--set", "resourcescalinggroup.enabled=true",
		"--set", "resourcescalinggroup.instanceConfig.enabled=false", "--set", "tidal.enabled=false", "--set", "resourcescalinggroup.namespace.create=true")
	for _, name := range []string{"pd-orchestrator-elasticscaler", "pd-orchestrator-resourcescalinggroup"} {
		must(t, api.Get(t.Context(), types.NamespacedName{Namespace: components, Name: name}, &appsv1.Deployment{}))
	}
	var labelled appsv1.DeploymentList
	must(t, api.List(t.Context(), &labelled, client.InNamespace(components), client.MatchingLabels{"control-plane": "elastic-scaler-elastic-scaler-controller-manager"}))
	if len(labelled.Items) != 1 {
		t.Errorf("%d Deployments have the label by which the documents find the ElasticScaler's logs, want 1", len(labelled.Items))
	}
	mustHelm(t, "uninstall", "elastic-scaler")
	mustHelm(t, "uninstall", "rsg")
	must(t, api.Get(t.Context(), types.NamespacedName{Name: components}, &corev1.Namespace{}))
	must(t, api.Get(t.Context(), types.NamespacedName{Name: "elasticscalers.elasticscaler.io"}, &apiextensionsv1.CustomResourceDefinition{}))

	// The CRDs that were kept are the new release's.
	values := filepath.Join(t.TempDir(), "values.yaml")
	must(t, os.WriteFile(values, []byte("elastic-scaler: {endpoints: {allow: [127.0.0.0/8]}}\nresourcescalinggroup: {namespace: {create: true}}\nome: {autoscalerPolicy: {enabled: true}}\nleaderElection: false\n"), 0o600))
	mustHelm(t, "install", "pdo", chartDir, "-f", values, "--take-ownership")
	sizeOfRelease(t, "pdo")

	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "inference-"}}
	must(t, api.Create(t.Context(), ns))
	t.Run("tidal", func(t *testing.T) {
		runComponent(t, "tidal")
		d := testkit.MakeDeployment(ns.Name, "by-clock").Replicas(1).Obj()
		must(t, api.Create(t.Context(), d))
		tidal := &tidalv1alpha1.Tidal{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "by-clock"}}
		tidal.Spec.TargetRef = tidalv1alpha1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: ns.Name, Name: d.Name}
		tidal.Spec.Triggers.Times.Rules = []tidalv1alpha1.TimeRule{{Name: "always", Cron: "CRON_TZ=UTC 0 0 * * *", Replicas: new(int32(3))}}
		must(t, api.Create(t.Context(), tidal))
		waitReplicas(t, d, 3)
	})
	t.Run("elasticscaler", func(t *testing.T) {
		runComponent(t, "elasticscaler")
		server, err := faulty.Start(faulty.Options{})
		must(t, err)
		t.Cleanup(func() { _ = server.Close() })
		server.Answer(faulty.Scalar("40"))
		d := testkit.MakeDeployment(ns.Name, "by-metric").Replicas(2).Obj()
		must(t, api.Create(t.Context(), d))
		scaler := estest.Instant(&v1alpha1.ElasticScaler{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: d.Name},
			Spec: v1alpha1.ElasticScalerSpec{
				TargetRef:       v1alpha1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: d.Name},
				IntervalSeconds: new(int32(1)), Trigger: estest.Metrics("", estest.Query(server.URL(), "queue", "scalar(queue)", "10")),
			},
		})
		must(t, api.Create(t.Context(), scaler))
		waitReplicas(t, d, 4)
	})
	clone := testkit.MakeDeployment(ns.Name, "pd-llm-prefill-1").Obj()
	rsg := testkit.MakeRSG(ns.Name, "llm").Target("prefill", ns.Name, "llm-prefill").GroupName("pd").Replicas(2).Obj()
	t.Run("resourcescalinggroup", func(t *testing.T) {
		runComponent(t, "resourcescalinggroup")
		must(t, api.Create(t.Context(), testkit.MakeDeployment(ns.Name, "llm-prefill").Replicas(1).Obj()))
		must(t, api.Create(t.Context(), rsg))
		waitReplicas(t, clone, 1)
	})

	// An upgrade with live objects changes no count. The conflicts are those of what this test has changed for this machine.
	before := counts(t, ns.Name)
	mustHelm(t, "upgrade", "pdo", chartDir, "-f", values, "--set", "replicas=3", "--force-conflicts")
	mustHelm(t, "rollback", "pdo", "1", "--force-conflicts")
	if after := counts(t, ns.Name); after != before {
		t.Errorf("counts were %s, and after an upgrade and a rollback %s", before, after)
	}
	// The end: what was made runs on, and objects go at once though no component runs.
	mustHelm(t, "uninstall", "pdo")
	must(t, api.Delete(t.Context(), rsg))
	testkit.Eventually(t, 5*time.Second, "the ResourceScalingGroup to go", func(ctx context.Context) error {
		err := api.Get(ctx, client.ObjectKeyFromObject(rsg), &autoscalingv1alpha1.ResourceScalingGroup{})
		if err == nil {
			return errors.New("it is still there")
		}
		return client.IgnoreNotFound(err)
	})
	must(t, api.Get(t.Context(), client.ObjectKeyFromObject(clone), &appsv1.Deployment{}))
}

// sizeOfRelease checks that what Helm keeps of a release is well within what etcd takes as one object.
func sizeOfRelease(t *testing.T, release string) {
	t.Helper()
	var kept corev1.SecretList
	must(t, api.List(t.Context(), &kept, client.MatchingLabels{"owner": "helm", "name": release}))
	if len(kept.Items) != 1 {
		t.Fatalf("Helm keeps %d Secrets of release %s, want 1", len(kept.Items), release)
	}
	const most = 700_000
	size := len(kept.Items[0].Data["release"])
	t.Logf("the release with all components takes %d bytes", size)
	if size > most {
		t.Errorf("the release takes %d bytes, want at most %d", size, most)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func counts(t *testing.T, namespace string) string {
	t.Helper()
	var list appsv1.DeploymentList
	must(t, api.List(t.Context(), &list, client.InNamespace(namespace)))
	var all []string
	for _, d := range list.Items {
		all = append(all, fmt.Sprintf("%s=%d", d.Name, *d.Spec.Replicas))
	}
	return strings.Join(all, " ")
}

func waitReplicas(t *testing.T, d *appsv1.Deployment, want int32) {
	t.Helper()
	testkit.Eventually(t, estest.Patience, fmt.Sprintf("%d replicas of %s", want, d.Name), func(ctx context.Context) error {
		live := &appsv1.Deployment{}
		if err := api.Get(ctx, client.ObjectKeyFromObject(d), live); err != nil {
			return err
		}
		if *live.Spec.Replicas != want {
			return fmt.Errorf("there are to be %d", *live.Spec.Replicas)
		}
		return nil
	})
}

// runComponent runs the manager as the pod of a component would: with the rendered configuration and a token of the rendered
// account. What a process on this machine must have otherwise is printed.
func runComponent(t *testing.T, component string) {
	t.Helper()
	name := "pd-orchestrator-" + component
	rendered := &corev1.ConfigMap{}
	must(t, api.Get(t.Context(), types.NamespacedName{Namespace: components, Name: name}, rendered))
	config := rendered.Data["config.yaml"]
	ports := map[string]int{}
	for _, port := range []string{":8081", ":8443", ":9443", ":9444"} {
		free, err := plane.ReservePort()
		must(t, err)
		ports[port] = free
		config = strings.ReplaceAll(config, fmt.Sprintf("%q", port), fmt.Sprintf("%q", fmt.Sprintf("127.0.0.1:%d", free)))
	}
	config = strings.Replace(config, "webhook:\n", fmt.Sprintf("webhook:\n  certDir: %q\n  dnsNames: [localhost]\n", t.TempDir()), 1)
	t.Logf("changed for this machine: ports %v, certDir, dnsNames, and the webhook's Service into the name localhost", ports)
	toLocalhost(t, component, ports[":9443"])
	account, err := plane.ServiceAccountConfig(t.Context(), components, name)
	must(t, err)
	part, err := plane.StartManager(t.Context(), lab.ManagerOptions{
		Args: []string{"--controllers=" + component}, Config: config, Client: account,
		ReadyURL: fmt.Sprintf("http://127.0.0.1:%d/readyz", ports[":8081"]),
	})
	must(t, err)
	t.Cleanup(func() {
		log, _ := part.Logs(400)
		for line := range strings.SplitSeq(log, "\n") {
			if strings.Contains(line, "forbidden") {
				t.Errorf("the account of %s lacks a right: %s", component, line)
			}
		}
		if t.Failed() {
			t.Logf("the log of %s:\n%s", component, log)
		}
		if err := part.Stop(); err != nil {
			t.Errorf("stopping %s: %v", component, err)
		}
	})
}

// toLocalhost has the API server find the webhook of a component on a port of this machine.
func toLocalhost(t *testing.T, component string, port int) {
	t.Helper()
	service := &corev1.Service{}
	key := types.NamespacedName{Namespace: components, Name: "pd-orchestrator-" + component + "-webhook"}
	must(t, api.Get(t.Context(), key, service))
	patch := client.MergeFrom(service.DeepCopy())
	service.Spec.Type, service.Spec.ExternalName, service.Spec.ClusterIP, service.Spec.ClusterIPs = corev1.ServiceTypeExternalName, "localhost", "", nil
	service.Spec.Selector = nil
	must(t, api.Patch(t.Context(), service, patch))
	var hooks admissionregistrationv1.ValidatingWebhookConfigurationList
	must(t, api.List(t.Context(), &hooks, client.MatchingLabels{"app.kubernetes.io/component": component}))
	if len(hooks.Items) != 1 {
		t.Fatalf("%d webhook configurations of %s, want 1", len(hooks.Items), component)
	}
	hook := &hooks.Items[0]
	hookPatch := client.MergeFrom(hook.DeepCopy())
	number := int32(port)
	hook.Webhooks[0].ClientConfig.Service.Port = &number
	must(t, api.Patch(t.Context(), hook, hookPatch))
}
