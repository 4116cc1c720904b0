package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
)

// patch merges into an object.
func (w *world) patch(apiVersion, kind, name, merge string) {
	w.T.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.FromAPIVersionAndKind(apiVersion, kind))
	u.SetNamespace(w.Namespace)
	u.SetName(name)
	if err := w.Client.Patch(w.T.Context(), u, client.RawPatch(types.MergePatchType, []byte(merge))); err != nil {
		w.T.Fatal(err)
	}
}

const groupAPI = "autoscaling.openfuyao.com/v1alpha1"

// TestGet: one table of all kinds, tables of one, and the formats that scripts read.
func TestGet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := w.run("get").check(0, "No resources found in namespace "+w.Namespace); err != nil {
		t.Error(err)
	}
	w.apply(deployment("llm", 1))
	w.apply(group("pair", "llm", 2, ""))
	w.apply(deployment("web", 1))
	w.apply(`
apiVersion: tidal.io/v1alpha1
kind: Tidal
metadata: {name: office}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web, namespace: NAMESPACE}
  triggers: {times: {rules: [{name: always, cron: "* * * * *", replicas: 2}]}}
---
apiVersion: ome.io/v1beta1
kind: AutoscalerPolicy
metadata: {name: cpu}
spec: {class: HPA, hpa: {metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]}}
---
apiVersion: ome.io/v1beta1
kind: InferenceService
metadata: {name: chat}
spec:
  model: {name: llama}
  engine: {minReplicas: 1, maxReplicas: 4}
`)
	w.shows(0, words("get"), "NAME SCALES CURRENT DESIRED READY REASON AGE", "resourcescalinggroup/pair decode 2 2 True Reconciled",
		"tidal/office deployment/web - 2 True Reconciled", "autoscalerpolicy/cpu 0 components - - True TemplatesValid", "inferenceservice/chat engine ")
	w.shows(0, words("get autoscalerpolicies"), "NAME CLASS READY ATTACHED AGE\ncpu HPA True 0 ")
	w.shows(0, words("get ap -o wide"), "NAME CLASS READY ATTACHED AGE DIGEST REASON IN-USE STATUS-FRESHNESS", "TemplatesValid False Current")
	w.shows(0, words("get inferenceservices"), "NAME MODEL RUNTIME READY URL AGE\nchat llama")
	if r := w.run("get", "rsg,tidal", "-o", "name"); r.stdout != "resourcescalinggroup/pair\ntidal/office\n" {
		t.Errorf("the names are %q", r.stdout)
	}
	var list struct {
		Kind  string
		Items []struct{ Kind string }
	}
	if err := json.Unmarshal([]byte(w.run("get", "-o", "json").stdout), &list); err != nil || list.Kind != "List" || len(list.Items) != 4 {
		t.Errorf("the JSON is %+v, %v; want a List of 4", list, err)
	}
	var one struct{ Kind string }
	if err := yaml.Unmarshal([]byte(w.run("get", "rsg/pair", "-o", "yaml").stdout), &one); err != nil || one.Kind != "ResourceScalingGroup" {
		t.Errorf("the YAML is of %+v, %v", one, err)
	}
	for line, want := range map[string]string{
		"get pods":                            `unknown kind "pods": must be one of resourcescalinggroup`,
		"get rsg nobody":                      "not found",
		"get rsg -o csv":                      `--output "csv" must be one of table`,
		"get rsg -l a=b=c":                    "--selector",
		"get rsg,tidal pair":                  "names go with one kind",
		"explain pair":                        "name one object as KIND/NAME",
		"next tidal/nobody":                   "not found",
		"next --firings=0":                    "--firings 0 must be from 1 to 1000",
		"autoscale tidal/office":              "is not an InferenceService",
		"report --since 1s":                   "--since 1s must be from 1m",
		"next --prometheus ftp://":            "must be an http or https URL",
		"render chat --policy a --filename b": "exclude each other",
	} {
		if err := w.run(words(line)...).check(1, want); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// TestTree: a group is drawn down to its pods and Services, and what is missing is shown as missing.
func TestTree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(deployment("llm", 1))
	w.apply(`
apiVersion: v1
kind: Service
metadata: {name: llm}
spec: {selector: {app: llm}, ports: [{port: 8000}]}
`)
	w.apply(group("pair", "llm", 2, ""))
	r := w.shows(0, words("tree rsg/pair"), "ResourceScalingGroup "+w.Namespace+"/pair ready", "├─ group 0 ready", "decode: Deployment llm 1/1 ready",
		"Service llm", "└─ group 1 ready", "decode: Deployment pair-llm-1 1/1 ready", "Pod pair-llm-1-")
	if n := strings.Count(r.stdout, "Pod "); n != 2 {
		t.Errorf("%d pods are drawn, want each of the 2 once:\n%s", n, r.stdout)
	}
	if strings.Contains(r.stdout, "\x1b") {
		t.Errorf("there are colours in a pipe:\n%q", r.stdout)
	}
	if err := w.run("tree", "rsg", "pair", "--without-pods").check(0, "group 1 ready"); err != nil {
		t.Error(err)
	}
	w.apply(`
apiVersion: tidal.io/v1alpha1
kind: Tidal
metadata: {name: nights}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: gone, namespace: NAMESPACE}
  triggers: {times: {rules: [{name: always, cron: "* * * * *", replicas: 2}]}}
`)
	w.shows(0, words("tree tidal/nights"), "scales: Deployment gone missing")
	var node struct{ Children []struct{ Role string } }
	if err := json.Unmarshal([]byte(w.run("tree", "rsg/pair", "-o", "json").stdout), &node); err != nil || len(node.Children) != 2 || node.Children[1].Role != "group 1" {
		t.Errorf("the JSON tree is %+v, %v", node, err)
	}
}

// TestTreeOfAKindThatIsNotServed: a group of LeaderWorkerSets in a cluster without them is drawn with that trouble, and the page about
// the namespace is written all the same.
func TestTreeOfAKindThatIsNotServed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(deployment("scheduler", 1))
	w.apply(`
apiVersion: autoscaling.openfuyao.com/v1alpha1
kind: ResourceScalingGroup
metadata: {name: pair}
spec:
  targetResources:
  - {name: leader, resourceRef: {apiVersion: apps/v1, kind: Deployment, name: scheduler}}
  - {name: worker, resourceRef: {apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, name: workers}}
  scalingStrategy: {type: InplaceScaling, leaderFollowerConfig: {leader: {resourceName: leader}, follower: [{resourceName: worker, followRatio: 2}]}}
`)
	w.apply(scaler("toads", queue("http://127.0.0.1:9"), "apiVersion: example.org/v1, kind: Toad"))
	w.shows(0, words("tree rsg/pair"), "target leader: Deployment scheduler 1/1 ready", "target worker: LeaderWorkerSet workers the cluster does not have this kind")
	w.shows(0, words("tree esc/toads"), "scales: Toad toads the cluster does not have this kind")
	w.shows(0, words("report"), "LeaderWorkerSet "+w.Namespace+`/workers <span class="bad">the cluster does not have this kind`)
}

// TestTreeReadsKindsAsTheManagerDoes: a kind is found in any letters, and also without its apiVersion.
func TestTreeReadsKindsAsTheManagerDoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(deployment("llm", 1))
	w.apply(group("pair", "llm", 2, ""))
	w.apply(deployment("web", 1))
	for target, named := range map[string]string{
		"pair": "apiVersion: " + groupAPI + ", kind: resourcescalinggroup",
		"web":  "kind: deployment",
	} {
		w.apply(scaler(target, queue("http://127.0.0.1:9"), named))
	}
	w.shows(0, words("tree esc/pair"), "scales: ResourceScalingGroup pair ready", "group 1 ready", "decode: Deployment pair-llm-1 1/1 ready")
	w.shows(0, words("tree esc/web"), "scales: Deployment web 1/1 ready", "Pod web-")
}

// TestExplainAndNext: what the last scale-down did and why, and which group the next one would take, which it then takes.
func TestExplainAndNext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(deployment("llm", 1))
	w.apply(group("pair", "llm", 4, ""))
	w.shows(0, words("explain rsg/pair --check"), "It wants 4 groups; 4 are complete and 4 are ready.", "Nothing is wrong.")
	for id, value := range map[int]string{0: "7", 1: "5", 2: "1", 3: "9"} {
		name := fmt.Sprintf("pair-llm-%d", id)
		if id == 0 {
			name = "llm"
		}
		w.patch("apps/v1", "Deployment", name, `{"metadata":{"annotations":{"autoscaling.rsg.metric.values":"`+value+`"}}}`)
	}
	if err := w.run("next", "rsg/pair").check(0, "Group 2 would go first", "1 2 1\n", "2 1 5\n", "3 0 7\n", "4 3 9\n"); err != nil {
		t.Error(err)
	}
	w.patch(groupAPI, "ResourceScalingGroup", "pair", `{"spec":{"scalingStrategy":{"groupConfig":{"replicas":2}}}}`)
	w.shows(0, words("explain rsg/pair"), "Last scale-down", "Chosen: groups 2 and 1.", "The annotations autoscaling.rsg.metric.values decided, in ascending order.", "2 1 1\n", "1 5 2\n",
		"Events\nAGE TYPE REASON NOTE\n")
}

// TestNextAsksPrometheus: with the metric configured, the order is that of the values, and without Prometheus it says so.
func TestNextAsksPrometheus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(deployment("llm", 1))
	w.apply(group("pair", "llm", 3, `, scaleDown: {metric: {expr: "vllm:num_requests_running", type: Gauge}}`))
	w.shows(0, words("explain rsg/pair --check"), "3 are ready")
	if err := w.run("next", "rsg/pair").check(0, "The metric does not decide: PrometheusNotConfigured", "pass --prometheus"); err != nil {
		t.Error(err)
	}
	w.shows(0, []string{"next", "rsg/pair", "--prometheus", env.Lab.PrometheusURL()}, "Group 2 would go first: ", "1 2 0\n", "3 0 0\n")
}

// TestNextFirings: firings are computed from the rules, also where no manager has looked.
func TestNextFirings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(`
apiVersion: tidal.io/v1alpha1
kind: Tidal
metadata: {name: office}
spec:
  suspend: true
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web, namespace: NAMESPACE}
  triggers: {times: {rules: [{name: new-year, cron: "0 0 1 1 *", replicas: 7}]}}
`)
	r := w.run("next", "--firings", "3")
	if err := r.check(0, "TIME IN TIDAL RULE REPLICAS SCALES", "-01-01T00:00:00Z", "office new-year 7 (suspended) Deployment "+w.Namespace+"/web"); err != nil {
		t.Error(err)
	}
	if n := strings.Count(r.stdout, "new-year"); n != 3 {
		t.Errorf("%d firings are shown, want 3:\n%s", n, r.stdout)
	}
}

const cpuPolicy = `
apiVersion: ome.io/v1beta1
kind: AutoscalerPolicy
metadata: {name: cpu}
spec: {class: HPA, hpa: {metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]}}
`

// TestAutoscaleAndRender: what is in effect for each component, and what another policy would change.
func TestAutoscaleAndRender(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(cpuPolicy)
	w.apply(`
apiVersion: ome.io/v1beta1
kind: InferenceService
metadata: {name: chat}
spec:
  model: {name: llama}
  engine: {minReplicas: 1, maxReplicas: 4, autoscalerPolicyRef: {name: cpu}}
  decoder: {minReplicas: 1, maxReplicas: 2, autoscaler: {class: External}}
`)
	w.shows(0, words("autoscale chat"), "FIELD SERVICE ENGINE DECODER", "CLASS - HPA External", "MANAGED-BY - ome external", "SPEC-SOURCE - policy isvc",
		"POLICY-STATE - Current -", "POLICY - cpu -", "TARGET-KIND - Deployment Deployment", "TARGET-NAME - chat-engine chat-decoder", "ABLE-TO-SCALE - True -")
	w.shows(0, words("autoscale status chat -o wide"), "engine", "HPA policy Current cpu 1 pv1:", "Deployment/chat-engine")
	w.shows(0, words("autoscale explain chat"), "Scaled by class HPA; the settings come from its AutoscalerPolicy.")
	w.shows(0, words("autoscale chat --live-scale"), "LIVE-SPEC - 1 1")
	var report struct {
		APIVersion, Kind string
		Components       []struct{ Name, PolicyState string }
	}
	if err := json.Unmarshal([]byte(w.run("autoscale", "chat", "-o", "json").stdout), &report); err != nil || report.APIVersion != "cli.ome.io/v1alpha1" || report.Kind != "AutoscaleStatusReport" || report.Components[0].PolicyState != "Current" {
		t.Errorf("the report is %+v, %v", report, err)
	}
	w.shows(0, words("tree isvc/chat"), "engine", "runs as: Deployment chat-engine", "scaled by: HorizontalPodAutoscaler chat-engine", "by policy: AutoscalerPolicy cpu")

	w.shows(0, words("render chat --component engine"), "engine: HorizontalPodAutoscaler "+w.Namespace+"/chat-engine is as rendered")
	if err := w.run("render", "chat", "--component", "decoder").check(0, "decoder: class External asks for no autoscaler"); err != nil {
		t.Error(err)
	}
	edited := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(edited, []byte(strings.Replace(cpuPolicy, "60", "75", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.run("render", "chat", "--component", "engine", "-f", edited).check(0, "would change", "- averageUtilization: 60", "+ averageUtilization: 75"); err != nil {
		t.Error(err)
	}
	if err := w.run("render", "chat", "--component", "decoder", "--policy", "cpu").check(0, "decoder: HorizontalPodAutoscaler "+w.Namespace+"/chat-decoder would be made", "+ averageUtilization: 60"); err != nil {
		t.Error(err)
	}
	if err := w.run("render", "chat", "-o", "yaml", "--component", "engine").check(0, "kind: HorizontalPodAutoscaler", "maxReplicas: 4"); err != nil {
		t.Error(err)
	}
	if err := w.run("render", "chat", "--policy", "nobody", "--component", "engine").check(0, `it holds (PolicyNotFound)`); err != nil {
		t.Error(err)
	}
}

// TestRenderOfAScaledObject: with KEDA there, a component of class KEDA is compared with its ScaledObject. It comes before the tests that
// run side by side, of which one needs a cluster without KEDA.
func TestRenderOfAScaledObject(t *testing.T) { //nolint:paralleltest // It changes the kinds that the cluster has.
	w := newWorld(t)
	// Not in a clean-up: then the context of the test is over, with which this waits.
	defer removeKEDA(t)
	if err := env.Lab.InstallKEDACRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.apply(kedaService)
	name := "ScaledObject " + w.Namespace + "/scaledobject-chat-engine"
	w.shows(0, words("render chat --component engine"), "engine: "+name+" is as rendered")
	w.shows(0, words("tree isvc/chat"), "runs as: Deployment chat-engine", "scaled by: ScaledObject scaledobject-chat-engine")
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(policy, []byte(`
apiVersion: ome.io/v1beta1
kind: AutoscalerPolicy
metadata: {name: cpu}
spec: {class: KEDA, keda: {triggers: [{type: cpu, metricType: Utilization, metadata: {value: "75"}}]}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.run("render", "chat", "--component", "engine", "-f", policy).check(0, "engine: "+name+" would change", `- value: "60"`, `+ value: "75"`); err != nil {
		t.Error(err)
	}
	if err := w.run("render", "chat", "--component", "engine", "-o", "yaml").check(0, "apiVersion: keda.sh/v1alpha1", "kind: ScaledObject", "maxReplicaCount: 4"); err != nil {
		t.Error(err)
	}
}

// removeKEDA takes the CRDs of KEDA away, and waits until they are gone.
func removeKEDA(t *testing.T) {
	t.Helper()
	crds := &unstructured.UnstructuredList{}
	crds.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinitionList"})
	testkit.Eventually(t, soon, "the CRDs of KEDA to be gone", func(ctx context.Context) error {
		if err := env.Client.List(ctx, crds); err != nil {
			return err
		}
		var there []error
		for i := range crds.Items {
			if crd := &crds.Items[i]; strings.HasSuffix(crd.GetName(), ".keda.sh") {
				there = append(there, fmt.Errorf("%s is there", crd.GetName()), client.IgnoreNotFound(env.Client.Delete(ctx, crd)))
			}
		}
		return errors.Join(there...)
	})
}

// TestColours: on a terminal what is wrong is red, unless the user asked for no colours or the terminal has none.
func TestColours(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(group("pair", "gone", 2, ""))
	args := []string{"--kubeconfig", kubeconfig, "-n", w.Namespace, "explain", "rsg/pair"}
	w.shows(0, words("explain rsg/pair"), "TargetNotFound")
	for environment, coloured := range map[string]bool{"TERM=xterm": true, "TERM=dumb": false, "NO_COLOR=1": false, "NO_COLOR=": true} {
		text := onTerminal(t, environment, args...)
		if !strings.Contains(text, "TargetNotFound") || strings.Contains(text, "\x1b[31m") != coloured || strings.Contains(text, "\x1b[1m") != coloured {
			t.Errorf("with %s the terminal shows %q; want colours: %t", environment, text, coloured)
		}
	}
}

// TestCheck: without a cluster, what one object shows; with one, what depends on others too, and nothing is written.
func TestCheck(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "NAMESPACE", w.Namespace)), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good.yaml", group("pair", "llm", 2, ""))
	bad := write("bad.yaml", group("other", "llm", 2, `, scaleDown: {metric: {expr: "sum(", type: Gauge}}, colour: red`))
	offline := func(args ...string) result {
		return w.runIn(t.Context(), append([]string{"--kubeconfig", filepath.Join(dir, "none"), "check"}, args...)...)
	}
	if err := offline(good).check(0, "good.yaml: ResourceScalingGroup default/pair: accepted", "1 object, 0 refused"); err != nil {
		t.Error(err)
	}
	if err := offline(bad).check(2, "refused", "groupConfig.colour: Forbidden: unknown field", "expr: Invalid value"); err != nil {
		t.Error(err)
	}
	if err := offline(dir, "-o", "json").check(2, `"kind": "CheckReport"`); err != nil {
		t.Error(err)
	}
	if err := offline(filepath.Join(dir, "nothing.yaml")).check(1, "nothing.yaml"); err != nil {
		t.Error(err)
	}

	// That another group has the target only a cluster knows.
	w.apply(deployment("llm", 1))
	w.apply(group("pair", "llm", 1, ""))
	same := write("same.yaml", group("rival", "llm", 1, ""))
	if err := offline(same).check(0, "accepted"); err != nil {
		t.Error(err)
	}
	admin := func(ctx context.Context) result {
		return w.runIn(ctx, "--kubeconfig", env.Lab.Kubeconfig(), "-n", w.Namespace, "check", "--server", same)
	}
	testkit.Eventually(t, soon, "the refusal of the second group", func(ctx context.Context) error {
		return admin(ctx).check(2, "rival: refused", "managed by ResourceScalingGroup")
	})
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.FromAPIVersionAndKind(groupAPI, "ResourceScalingGroup"))
	if err := w.Client.Get(t.Context(), types.NamespacedName{Namespace: w.Namespace, Name: "rival"}, u); err == nil {
		t.Error("check has written the object")
	}
	// The reader may not write, and is told so.
	if err := w.run("check", "--server", same).check(2, "forbidden"); err != nil {
		t.Error(err)
	}
}

// TestAUserWhoMayViewOneNamespace: who has Kubernetes' role view in a namespace can use the commands there, and of what lies
// in others is told that it is not theirs to read.
func TestAUserWhoMayViewOneNamespace(t *testing.T) {
	t.Parallel()
	w, other := newWorld(t), newWorld(t)
	other.apply(deployment("far", 1))
	w.apply(deployment("near", 1))
	w.apply(group("pair", "near", 2, ""))
	w.apply(`
apiVersion: autoscaling.openfuyao.com/v1alpha1
kind: ResourceScalingGroup
metadata: {name: apart}
spec:
  targetResources: [{name: decode, resourceRef: {apiVersion: apps/v1, kind: Deployment, name: far, namespace: ` + other.Namespace + `}}]
  scalingStrategy: {type: GroupReplication, groupConfig: {groupName: apart, replicas: 2}}
`)
	w.apply(deployment("clocked", 1))
	w.apply(`
apiVersion: elasticscaler.io/v1alpha1
kind: ElasticScaler
metadata: {name: by-state}
spec:
  targetRef: {apiVersion: tidal.io/v1alpha1, kind: Tidal, name: office}
  trigger: {type: StateTrigger, stateTrigger: {sourceNamespaces: [` + other.Namespace + `]}}
---
apiVersion: tidal.io/v1alpha1
kind: Tidal
metadata: {name: office, labels: {elasticscaler.io/name: by-state, elasticscaler.io/namespace: NAMESPACE}}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: clocked, namespace: NAMESPACE}
  triggers: {times: {rules: [{name: always, cron: "0 0 * * *", replicas: 2}]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: viewer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: viewer}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: product-view, labels: {rbac.authorization.k8s.io/aggregate-to-view: "true"}}
rules: [{apiGroups: [autoscaling.openfuyao.com, elasticscaler.io, tidal.io, ome.io], resources: ["*"], verbs: [get, list, watch]}]
`)
	viewer, err := kubeconfigOf(env, "viewer")
	if err != nil {
		t.Fatal(err)
	}
	for line, wants := range map[string][]string{
		"get":                  {"resourcescalinggroup/pair", "elasticscaler/by-state", "tidal/office"},
		"explain rsg/pair":     {"ResourceScalingGroup " + w.Namespace + "/pair", "Events\nAGE TYPE REASON NOTE\n"},
		"explain esc/by-state": {"wants 2 replicas"},
		"tree rsg/pair":        {"Pod pair-near-1-"},
		"tree rsg/apart":       {"decode: Deployment " + other.Namespace + "/far you may not read it", "decode: Deployment apart-far-1 1/1 ready"},
		"tree esc/by-state":    {"driven by: Tidal office ready", "Tidals of " + other.Namespace + " you may not read it", "scales: Deployment clocked 2/2 ready"},
		"next":                 {"always", "pair", "Group 1 would go first", "warning: the order in which groups of ResourceScalingGroup " + w.Namespace + "/apart would go: "},
		"report":               {"<html", "Without the order in which groups of ResourceScalingGroup " + w.Namespace + "/apart would go"},
	} {
		testkit.Eventually(t, soon, line+" as a viewer", func(ctx context.Context) error {
			return w.runIn(ctx, append([]string{"--kubeconfig", viewer, "-n", w.Namespace}, words(line)...)...).check(0, wants...)
		})
	}
}

// TestAUserWhoMayReadSomeKinds: of several kinds those that the user may not list are left out, with a word about it. The one kind that
// is asked for is not.
func TestAUserWhoMayReadSomeKinds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(deployment("llm", 1))
	w.apply(group("pair", "llm", 2, ""))
	w.apply(scaler("pair", queue("http://127.0.0.1:9"), "apiVersion: "+groupAPI+", kind: ResourceScalingGroup"))
	w.apply(cpuPolicy)
	w.apply(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: some}
rules:
- {apiGroups: [autoscaling.openfuyao.com, elasticscaler.io], resources: ["*"], verbs: [get, list]}
- {apiGroups: [ome.io], resources: [autoscalerpolicies], verbs: [get, list]}
- {apiGroups: [apps], resources: [deployments], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: some}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: some}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: some}]
`)
	config, err := kubeconfigOf(env, "some")
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]struct {
		code  int
		texts []string
	}{
		"get": {0, []string{"resourcescalinggroup/pair", "elasticscaler/pair", "autoscalerpolicy/cpu",
			`warning: without tidals: tidals.tidal.io is forbidden`, `warning: without inferenceservices: inferenceservices.ome.io is forbidden`}},
		"get rsg,tidal":   {0, []string{"resourcescalinggroup/pair", "warning: without tidals: "}},
		"get tidal":       {1, []string{"error: tidals.tidal.io is forbidden"}},
		"get -A":          {1, []string{"is forbidden"}},
		"get tidal,isvc":  {1, []string{"is forbidden"}},
		"next":            {0, []string{"Group 1 would go first", "warning: without tidals: "}},
		"next tidal/any":  {1, []string{"is forbidden"}},
		"explain ap/cpu":  {0, []string{"It renders to class HPA", "Which components name it is not known", "warning: the services that may name the policy"}},
		"tree ap/cpu":     {0, []string{"InferenceServices you may not read it"}},
		"tree esc/pair":   {0, []string{"Tidals of " + w.Namespace + " you may not read it", "decode: Deployment pair-llm-1 1/1 ready", "Services you may not read it", "pods you may not read it"}},
		"report":          {0, []string{"<html", `note">Without tidals: tidals.tidal.io is forbidden`, `note">Without inferenceservices: `, "AutoscalerPolicy " + w.Namespace + "/cpu", "pair-llm-1"}},
		"report tidal/no": {1, []string{"is forbidden"}},
	} {
		testkit.Eventually(t, soon, line+" as a user who may read some kinds", func(ctx context.Context) error {
			return w.runIn(ctx, append([]string{"--kubeconfig", config, "-n", w.Namespace}, words(line)...)...).check(want.code, want.texts...)
		})
	}
}

// TestKubectlOme: under its other name the program speaks of itself by that.
func TestKubectlOme(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	link := filepath.Join(t.TempDir(), "kubectl-ome")
	if err := os.Symlink(program, link); err != nil {
		t.Fatal(err)
	}
	r := runProgram(t.Context(), t, link, "autoscale", "--help")
	if err := r.check(0, "kubectl ome autoscale chat -n production"); err != nil {
		t.Error(err)
	}
	if err := runProgram(t.Context(), t, program, "completion", "bash").check(0, "kubectl-pdo"); err != nil {
		t.Error(err)
	}
	w.apply(deployment("llm", 1))
	w.apply(group("pair", "llm", 1, ""))
	w.shows(0, words("__complete explain resourcescalinggroup/p"), "resourcescalinggroup/pair")
}
