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

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	tidalv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
	"github.com/pd-orchestrator/pd-orchestrator/test/installed"
)

const components = "scaling-system"

// A chart that has this one as a part, with samples in its values, installs on a cluster that has seen none of it. The samples
// come with the first upgrade after the components are there to admit them, and go with the release.
func TestAChartAroundThisOne(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "infernex")
	must(t, os.MkdirAll(dir, 0o755))
	must(t, os.CopyFS(filepath.Join(dir, "charts", "pd-orchestrator"), os.DirFS(installed.Chart)))
	must(t, os.WriteFile(filepath.Join(dir, "Chart.yaml"), []byte("{apiVersion: v2, name: infernex, version: 0.1.0, dependencies: [{name: pd-orchestrator, version: 0.0.0-latest}]}\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "values.yaml"), []byte("pd-orchestrator:"+strings.ReplaceAll(suiteValues, "\n", "\n  ")+"\n"), 0o600))
	mustHelm(t, "install", "infernex", dir, "--set", "pd-orchestrator.resourcescalinggroup.namespace.create=true")
	running, err := installed.Run(t.Context(), plane, api, components)
	must(t, err)
	defer func() { end(t, running) }()
	// So that an upgrade leaves the webhooks where they are served on this machine.
	for component, c := range running {
		file := filepath.Join(dir, "charts", "pd-orchestrator", "files", "webhook", component+".yaml")
		text, err := os.ReadFile(file)
		must(t, err)
		must(t, os.WriteFile(file, []byte(strings.Replace(string(text), "port: 443", fmt.Sprintf("port: %d", c.Ports["webhook"]), 1)), 0o600))
	}
	testkit.Eventually(t, estest.Patience, "the pods to be ready", func(ctx context.Context) error {
		var list appsv1.DeploymentList
		if err := api.List(ctx, &list, client.InNamespace(components)); err != nil {
			return err
		}
		for _, d := range list.Items {
			if d.Status.ReadyReplicas == 0 {
				return fmt.Errorf("%s has none", d.Name)
			}
		}
		return nil
	})
	rsg, scaler := testkit.MakeRSG(components, "rsg").Obj(), &v1alpha1.ElasticScaler{ObjectMeta: metav1.ObjectMeta{Namespace: components, Name: "elastic-scaler"}}
	for _, upgrade := range []string{"the first upgrade, which makes them", "the second, which keeps them"} {
		mustHelm(t, "upgrade", "infernex", dir, "--force-conflicts")
		for _, sample := range []client.Object{rsg, scaler} {
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(sample), sample); err != nil {
				t.Fatalf("%s: %v", upgrade, err)
			}
		}
	}
	if n := rsg.Spec.ScalingStrategy.GroupConfig.Replicas; n == nil || *n != 1 {
		t.Errorf("the sample asks for %v groups, want 1", n)
	}
	// A process does not go with its account, as a pod does.
	must(t, errors.Join(running.Forbidden(), running.Stop()))
	mustHelm(t, "uninstall", "infernex")
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(rsg), rsg); !apierrors.IsNotFound(err) {
		t.Errorf("the sample outlives its release: %v", err)
	}
	removeCRDs(t)
}

// The documents' standalone installations stand side by side, and what users made outlives them.
func TestStandaloneReleases(t *testing.T) {
	mustHelm(t, "install", "elastic-scaler", installed.Chart, "--set", "elastic-scaler.enabled=true", "--set", "elastic-scaler.elasticScaler.enabled=false",
		"--set", "resourcescalinggroup.enabled=false", "--set", "resourcescalinggroup.instanceConfig.enabled=false", "--set", "tidal.enabled=false",
		"--set", "elastic-scaler.namespace.create=true")
	mustHelm(t, "install", "rsg", installed.Chart, "--set", "elastic-scaler.enabled=false", "--set", "resourcescalinggroup.enabled=true",
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
}

// A release of all components from an older chart to its end: what the components do under the accounts that the chart makes, an
// upgrade, a rollback, and what is left.
func TestLifeOfARelease(t *testing.T) {
	values := filepath.Join(t.TempDir(), "values.yaml")
	must(t, os.WriteFile(values, []byte("elastic-scaler: {endpoints: {allow: [127.0.0.0/8]}}\nresourcescalinggroup: {namespace: {create: true}}\nome: {autoscalerPolicy: {enabled: true}}\n"), 0o600))
	// CRDs that another release has left become this one's.
	mustHelm(t, "install", "pdo", olderChart(t), "-f", values, "--take-ownership")
	sizeOfRelease(t, "pdo")
	var running installed.Components
	run := func() {
		t.Helper()
		must(t, errors.Join(running.Forbidden(), running.Stop()))
		var err error
		running, err = installed.Run(t.Context(), plane, api, components)
		must(t, err)
		if len(running) != 4 {
			t.Fatalf("%d components run, want 4", len(running))
		}
		for name, c := range running {
			t.Logf("changed for this machine, %s: %s", name, strings.Join(c.Changes, "; "))
		}
	}
	defer func() { end(t, running) }()
	run()
	w := newObjects(t, newNamespace(t))
	w.atWork(t)

	// The conflicts are those of what was changed for this machine.
	before := w.fingerprint(t)
	mustHelm(t, "upgrade", "pdo", installed.Chart, "-f", values, "--force-conflicts")
	run()
	// What came with the newer CRD can be used.
	must(t, api.Patch(t.Context(), w.tidal, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":true}}`))))
	testkit.Eventually(t, estest.Patience, "the Tidal to be suspended", func(ctx context.Context) error {
		live := &tidalv1alpha1.Tidal{}
		if err := api.Get(ctx, client.ObjectKeyFromObject(w.tidal), live); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(live.Status.Conditions, tidalv1alpha1.ConditionSuspended) {
			return fmt.Errorf("its conditions are %v", live.Status.Conditions)
		}
		return nil
	})
	newObjects(t, newNamespace(t)).atWork(t)
	if after := w.fingerprint(t); after != before {
		t.Errorf("an upgrade changes what runs, from\n%s\nto\n%s", before, after)
	}

	mustHelm(t, "rollback", "pdo", "1", "--force-conflicts")
	run()
	newObjects(t, newNamespace(t)).atWork(t)
	if after := w.fingerprint(t); after != before {
		t.Errorf("a rollback changes what runs, from\n%s\nto\n%s", before, after)
	}

	must(t, errors.Join(running.Forbidden(), running.Stop()))
	mustHelm(t, "uninstall", "pdo")
	for _, object := range w.ours() {
		must(t, api.Delete(t.Context(), object))
		testkit.Eventually(t, 5*time.Second, fmt.Sprintf("the %T to go, with no component running", object), func(ctx context.Context) error {
			err := api.Get(ctx, client.ObjectKeyFromObject(object), object)
			if err == nil {
				return errors.New("it is still there")
			}
			return client.IgnoreNotFound(err)
		})
	}
	must(t, api.Get(t.Context(), client.ObjectKeyFromObject(w.clone), &appsv1.Deployment{}))
}

// Limited to some namespaces, the components work there with the Roles that they have there, and leave the others alone.
func TestWorkInSomeNamespacesOnly(t *testing.T) {
	ours, others := newNamespace(t), newNamespace(t)
	mustHelm(t, "install", "pdo", installed.Chart, "--take-ownership", "--set", "resourcescalinggroup.namespace.create=true,ome.autoscalerPolicy.enabled=true",
		"--set", "elastic-scaler.endpoints.allow={127.0.0.0/8}", "--set", "watchNamespaces={"+ours+","+components+"}")
	running, err := installed.Run(t.Context(), plane, api, components)
	must(t, err)
	defer func() { end(t, running) }()
	elsewhere := newObjects(t, others)
	newObjects(t, ours).atWork(t)
	must(t, running.Forbidden())
	for d, want := range map[*appsv1.Deployment]int32{elsewhere.byClock: 1, elsewhere.byMetric: 2} {
		must(t, api.Get(t.Context(), client.ObjectKeyFromObject(d), d))
		if *d.Spec.Replicas != want {
			t.Errorf("%s of a namespace that is not watched has %d replicas, want %d as before", d.Name, *d.Spec.Replicas, want)
		}
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(elsewhere.clone), elsewhere.clone); !apierrors.IsNotFound(err) {
		t.Errorf("a group was made in a namespace that is not watched: %v", err)
	}
	must(t, running.Stop())
	mustHelm(t, "uninstall", "pdo")
}

// removeCRDs takes the product's CRDs from the cluster, as though it had never been there.
func removeCRDs(t *testing.T) {
	t.Helper()
	var list apiextensionsv1.CustomResourceDefinitionList
	must(t, api.List(t.Context(), &list, client.MatchingLabels{"app.kubernetes.io/name": "pd-orchestrator"}))
	for _, crd := range list.Items {
		must(t, api.Delete(t.Context(), &crd))
		testkit.Eventually(t, estest.Patience, crd.Name+" to be gone", func(ctx context.Context) error {
			if err := api.Get(ctx, client.ObjectKeyFromObject(&crd), &crd); !apierrors.IsNotFound(err) {
				return fmt.Errorf("it is there: %w", err)
			}
			return nil
		})
	}
}

// end stops the components, and shows their logs where the test has failed.
func end(t *testing.T, running installed.Components) {
	t.Helper()
	if err := running.Stop(); err != nil {
		t.Error(err)
	}
	for name, c := range running {
		if t.Failed() {
			log, _ := c.Logs(100)
			t.Logf("the log of %s ends:\n%s", name, log)
		}
	}
}

// olderChart is the chart with a lower version, and with a CRD from before Tidals could be suspended.
func olderChart(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "pd-orchestrator")
	must(t, os.CopyFS(dir, os.DirFS(installed.Chart)))
	for file, change := range map[string]func(any){
		"Chart.yaml": func(chart any) {
			must(t, unstructured.SetNestedField(chart.(map[string]any), "0.0.0-earlier", "version"))
		},
		"files/crds/tidal.io_tidals.yaml": func(crd any) {
			versions, _, err := unstructured.NestedSlice(crd.(map[string]any), "spec", "versions")
			must(t, err)
			unstructured.RemoveNestedField(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec", "properties", "suspend")
			must(t, unstructured.SetNestedSlice(crd.(map[string]any), versions, "spec", "versions"))
		},
	} {
		path := filepath.Join(dir, file)
		text, err := os.ReadFile(path)
		must(t, err)
		var object map[string]any
		must(t, yaml.Unmarshal(text, &object))
		change(object)
		text, err = yaml.Marshal(object)
		must(t, err)
		must(t, os.WriteFile(path, text, 0o600))
	}
	return dir
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
