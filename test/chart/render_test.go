package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/pd-orchestrator/pd-orchestrator/test/installed"
)

// rendered returns the objects of a rendered chart by "<kind> <namespace>/<name>".
func rendered(t *testing.T, args ...string) map[string]map[string]any {
	t.Helper()
	out := mustHelm(t, append([]string{"template", "pdo", installed.Chart}, args...)...)
	objects := map[string]map[string]any{}
	for document := range strings.SplitSeq(out, "\n---\n") {
		var object map[string]any
		if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		if object == nil {
			continue
		}
		metadata, _ := object["metadata"].(map[string]any)
		kind, _ := object["kind"].(string)
		name, _ := metadata["name"].(string)
		namespace, _ := metadata["namespace"].(string)
		objects[kind+" "+strings.TrimPrefix(namespace+"/", "/")+name] = object
	}
	return objects
}

func has(t *testing.T, objects map[string]map[string]any, want bool, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, ok := objects[name]; ok != want {
			t.Errorf("%s is rendered: %t, want %t", name, ok, want)
		}
	}
}

// A component that is off renders nothing, and its CRDs neither.
func TestAComponentThatIsOffRendersNothing(t *testing.T) {
	t.Parallel()
	for component, tc := range map[string]struct{ key, crd, webhook string }{
		"elasticscaler":        {"elastic-scaler.enabled", "elasticscalers.elasticscaler.io", "elasticscaler.elasticscaler.io"},
		"resourcescalinggroup": {"resourcescalinggroup.enabled", "resourcescalinggroups.autoscaling.openfuyao.com", "resourcescalinggroup.autoscaling.openfuyao.com"},
		"tidal":                {"tidal.enabled", "tidals.tidal.io", "tidal.tidal.io"},
		"autoscalerpolicy":     {"ome.autoscalerPolicy.enabled", "autoscalerpolicies.ome.io", "autoscalerpolicy.ome.io"},
	} {
		t.Run(component, func(t *testing.T) {
			t.Parallel()
			mine := []string{
				"CustomResourceDefinition " + tc.crd, "ValidatingWebhookConfiguration " + tc.webhook,
				"Deployment scaling-system/pd-orchestrator-" + component, "ServiceAccount scaling-system/pd-orchestrator-" + component,
				"ClusterRole pd-orchestrator-" + component, "ConfigMap scaling-system/pd-orchestrator-" + component,
				"Service scaling-system/pd-orchestrator-" + component + "-webhook", "Secret scaling-system/pd-orchestrator-" + component,
			}
			has(t, rendered(t, "--set", tc.key+"=true"), true, mine...)
			off := rendered(t, "--set", tc.key+"=false")
			has(t, off, false, mine...)
			for name := range off {
				if strings.Contains(name, component) {
					t.Errorf("%s is rendered", name)
				}
			}
		})
	}
}

// The namespace is rendered once, however many components ask for it.
func TestTheNamespaceIsRenderedOnce(t *testing.T) {
	t.Parallel()
	out := mustHelm(t, "template", "pdo", installed.Chart, "--set", "elastic-scaler.namespace.create=true,resourcescalinggroup.namespace.create=true,tidal.namespace.create=true")
	if n := strings.Count(out, "\nkind: Namespace\n"); n != 1 {
		t.Errorf("%d namespaces are rendered, want 1", n)
	}
}

// Values of the charts that depend on this one, with kinds and algorithms in lower case.
const suiteValues = `
elastic-scaler:
  enabled: true
  elasticScaler: {enabled: true}
  name: elastic-scaler
  minReplicas: 1
  maxReplicas: 10
  targetRef: {kind: resourcescalinggroup, name: rsg, apiVersion: autoscaling.openfuyao.com/v1alpha1}
  trigger:
    scalingAlgorithm: apa
    resource: {metricsName: cpu, targetType: Utilization, targetValue: 70}
resourcescalinggroup:
  enabled: true
  instanceConfig:
    enabled: true
    name: rsg
    targetResources:
    - {name: prefill, resourceRef: {apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, name: prefill}}
    - {name: decode, resourceRef: {apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, name: decode}}
    scalingStrategy:
      type: GroupReplication
      groupConfig:
        groupName: pd
        scaleDown:
          metric: {expr: "vllm:num_requests_running", type: Gauge, window: 2m, aggregator: avg}
          order: ascending
tidal: {enabled: true}
`

func TestValuesOfChartsAroundThisOne(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(suiteValues), 0o600); err != nil {
		t.Fatal(err)
	}
	objects := rendered(t, "-f", file)
	has(t, objects, true, "ElasticScaler scaling-system/elastic-scaler", "ResourceScalingGroup scaling-system/rsg")
}

func TestAKeyThatDoesNotExistIsRefused(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"replica=1": "'replica' not allowed", "tidal.namespce.create=true": "'namespce' not allowed", "webhook.certificates=none": "webhook/certificates",
		"replicas=0": "replicas", "prometheus.address=prometheus:9090": "prometheus/address",
	} {
		out, err := helm.Run(t.Context(), "template", "pdo", installed.Chart, "--set", key)
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("--set %s: %v, and the message %q does not hold %q", key, err, out, want)
		}
	}
}

// Limited to some namespaces, a component has Roles there, and a ClusterRole for what is in no namespace.
func TestSomeNamespacesOnly(t *testing.T) {
	t.Parallel()
	objects := rendered(t, "--set", "watchNamespaces={inference,scaling-system}")
	for _, component := range []string{"elasticscaler", "resourcescalinggroup", "tidal"} {
		name := "pd-orchestrator-" + component
		has(t, objects, true, "Role inference/"+name+"-watched", "RoleBinding scaling-system/"+name+"-watched", "ClusterRole "+name)
		text, err := yaml.Marshal(objects["ClusterRole "+name]["rules"])
		if err != nil {
			t.Fatal(err)
		}
		for _, namespaced := range []string{"deployments", "pods", "secrets", "elasticscalers", "tidals", "resourcescalinggroups"} {
			if strings.Contains(string(text), "- "+namespaced+"\n") {
				t.Errorf("%s is left with %s in all namespaces:\n%s", name, namespaced, text)
			}
		}
	}
}

// Whoever may look at a namespace may look at what scales in it, and whoever may change it may change that.
func TestUsersGetTheKindsThroughTheirOwnRoles(t *testing.T) {
	t.Parallel()
	objects := rendered(t, "--set", "resourcescalinggroup.enabled=true,ome.autoscalerPolicy.enabled=true,tidal.enabled=false")
	for name, want := range map[string]struct{ label, rule string }{
		"resourcescalinggroup-view": {"aggregate-to-view", "resourcescalinggroups/scale get"},
		"resourcescalinggroup-edit": {"aggregate-to-edit", "resourcescalinggroups/scale patch"},
		"autoscalerpolicy-view":     {"aggregate-to-view", "clusterservingruntimes list"},
		"autoscalerpolicy-edit":     {"aggregate-to-edit", "inferenceservices delete"},
	} {
		role := objects["ClusterRole pd-orchestrator-"+name]
		labels, _, _ := unstructured.NestedStringMap(role, "metadata", "labels")
		if labels["rbac.authorization.k8s.io/"+want.label] != "true" {
			t.Errorf("ClusterRole %s has labels %v, want %s", name, labels, want.label)
		}
		if granted := grants(role); !granted[want.rule] {
			t.Errorf("ClusterRole %s grants %v, want %s", name, granted, want.rule)
		}
		if granted := grants(role); granted["clusterservingruntimes patch"] {
			t.Errorf("ClusterRole %s lets the editors of a namespace write cluster-wide runtimes", name)
		}
	}
	has(t, rendered(t, "--set", "userRoles.create=false"), false, "ClusterRole pd-orchestrator-resourcescalinggroup-view")
}

// grants are the pairs of resource and verb of a role.
func grants(role map[string]any) map[string]bool {
	all := map[string]bool{}
	rules, _ := role["rules"].([]any)
	for _, r := range rules {
		rule, _ := r.(map[string]any)
		resources, _ := rule["resources"].([]any)
		verbs, _ := rule["verbs"].([]any)
		for _, resource := range resources {
			for _, verb := range verbs {
				all[fmt.Sprint(resource, " ", verb)] = true
			}
		}
	}
	return all
}
