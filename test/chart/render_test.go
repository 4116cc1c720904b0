package chart

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/pd-orchestrator/pd-orchestrator/internal/config"
	"github.com/pd-orchestrator/pd-orchestrator/test/installed"
)

// rendered returns the objects of a rendered chart by "<kind> <namespace>/<name>".
func rendered(t *testing.T, args ...string) map[string]map[string]any {
	t.Helper()
	return objectsOf(t, mustHelm(t, append([]string{"template", "pdo", installed.Chart}, args...)...))
}

func objectsOf(t *testing.T, out string) map[string]map[string]any {
	t.Helper()
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
	samples := []string{"ElasticScaler scaling-system/elastic-scaler", "ResourceScalingGroup scaling-system/rsg"}
	has(t, rendered(t, "-f", file), false, samples...)
	has(t, rendered(t, "-f", file, "--api-versions", "elasticscaler.io/v1alpha1/ElasticScaler", "--api-versions", "autoscaling.openfuyao.com/v1alpha1/ResourceScalingGroup"), true, samples...)
}

func TestValuesThatAreRefused(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"replica=1": "'replica' not allowed", "tidal.namespce.create=true": "'namespce' not allowed", "webhook.certificates=none": "webhook/certificates",
		"replicas=0": "replicas", "prometheus.address=prometheus:9090": "prometheus/address",
		"leaderElection=false":                          "set replicas to 1",
		"webhook.enabled=false,crossNamespace=Admitted": "use Denied or Trusted",
	} {
		out, err := helm.Run(t.Context(), "template", "pdo", installed.Chart, "--set", key)
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("--set %s: %v, and the message %q does not hold %q", key, err, out, want)
		}
	}
}

// Limited to some namespaces, a component has Roles there, and a ClusterRole for what is in no namespace. Together they grant what
// it has in all of them otherwise.
func TestSomeNamespacesOnly(t *testing.T) {
	t.Parallel()
	const all = "ome.autoscalerPolicy.enabled=true"
	unlimited, objects := rendered(t, "--set", all), rendered(t, "--set", all, "--set", "watchNamespaces={inference,scaling-system}")
	inNoNamespace := []string{
		"validatingwebhookconfigurations", "customresourcedefinitions", "apiservices", "tokenreviews", "subjectaccessreviews",
		"clusterbasemodels", "clusterservingruntimes", "clusterservingruntimes/status", "clusterbasemodels/status",
	}
	for _, component := range everyComponent {
		name := "pd-orchestrator-" + component
		has(t, objects, true, "RoleBinding inference/"+name+"-watched", "RoleBinding scaling-system/"+name+"-watched", "ClusterRoleBinding "+name)
		cluster := grants(objects["ClusterRole "+name])
		for grant := range cluster {
			if resource, _, _ := strings.Cut(grant, " "); !slices.Contains(inNoNamespace, resource) {
				t.Errorf("%s is left with %q in all namespaces", name, grant)
			}
		}
		for _, namespace := range []string{"inference", "scaling-system"} {
			together := maps.Clone(cluster)
			maps.Copy(together, grants(objects["Role "+namespace+"/"+name+"-watched"]))
			if want := grants(unlimited["ClusterRole "+name]); !maps.Equal(together, want) {
				t.Errorf("in %s %s has the rights %v, want %v", namespace, name, slices.Sorted(maps.Keys(together)), slices.Sorted(maps.Keys(want)))
			}
		}
	}
}

var everyComponent = []string{"autoscalerpolicy", "elasticscaler", "resourcescalinggroup", "tidal"}

// What operators switch on and off, by what is rendered then.
func TestValuesOfOperators(t *testing.T) {
	t.Parallel()
	const scaler = "pd-orchestrator-elasticscaler"
	for name, tc := range map[string]struct {
		set     string
		there   []string
		missing []string
		// texts are in the rendered objects, and others are not.
		texts, others []string
	}{
		"certificates of cert-manager": {
			"webhook.certificates=cert-manager",
			[]string{"Certificate scaling-system/" + scaler, "Issuer scaling-system/pdo-pd-orchestrator"}, []string{"Secret scaling-system/" + scaler},
			[]string{"- " + scaler + "-signals.scaling-system.svc", "cert-manager.io/inject-ca-from: scaling-system/" + scaler, "secretName: " + scaler, "certificates: CertManager"}, nil,
		},
		"an issuer of the operator's": {
			"webhook.certificates=cert-manager,webhook.certManager.issuerRef.name=ours,webhook.certManager.issuerRef.kind=ClusterIssuer",
			nil, []string{"Issuer scaling-system/pdo-pd-orchestrator"}, []string{"kind: ClusterIssuer"}, nil,
		},
		"without admission": {
			"webhook.enabled=false", nil, []string{"ValidatingWebhookConfiguration elasticscaler.elasticscaler.io", "Service scaling-system/" + scaler + "-signals"},
			nil, []string{"name: webhook, containerPort", "name: signals, containerPort"},
		},
		"a single replica": {
			"replicas=1,leaderElection=false", nil, []string{"PodDisruptionBudget scaling-system/" + scaler}, []string{"enabled: false\n      namespace: scaling-system"}, nil,
		},
		"a disruption budget": {"replicas=3", []string{"PodDisruptionBudget scaling-system/" + scaler}, nil, nil, nil},
		"a network policy": {
			"networkPolicy.enabled=true,networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.name=monitoring",
			[]string{"NetworkPolicy scaling-system/" + scaler}, nil, []string{"name: monitoring"}, nil,
		},
		"credentials of Prometheus": {
			"prometheus.address=https://prometheus:9090,prometheus.tokenSecretRef.name=token,prometheus.tokenSecretRef.key=t,prometheus.caConfigMapRef.name=ca,prometheus.caConfigMapRef.key=ca.crt",
			nil, nil, []string{"secret: {secretName: token}", "configMap: {name: ca}", "bearerTokenFile: /etc/pd-orchestrator/prometheus-token/t", "caFile: /etc/pd-orchestrator/prometheus-ca/ca.crt"}, nil,
		},
		"monitoring": {
			"tidal.enabled=false,monitoring.serviceMonitor.enabled=true,monitoring.podMonitor.enabled=true,monitoring.prometheusRule.enabled=true,monitoring.dashboards.enabled=true",
			[]string{
				"ServiceMonitor scaling-system/pdo-pd-orchestrator", "PodMonitor scaling-system/pdo-inference-rsg-io-name", "PodMonitor scaling-system/pdo-inference-ome-io-inferenceservice",
				"PrometheusRule scaling-system/pdo-pd-orchestrator", "ConfigMap scaling-system/pdo-dashboard-scaling", "ConfigMap scaling-system/pdo-dashboard-operation",
			}, nil,
			[]string{`absent(up{controller_component="elasticscaler"}) or absent(up{controller_component="resourcescalinggroup"})`, "targetLabel: group_id", `grafana_dashboard: "1"`},
			[]string{`controller_component="tidal"`},
		},
		"further sources of StateTriggers": {
			"elastic-scaler.stateSources[0].apiVersion=example.com/v1,elastic-scaler.stateSources[0].kind=Schedule",
			[]string{"ClusterRole " + scaler + "-sources"}, nil, []string{"- schedules\n"}, nil,
		},
		"further sources in some namespaces": {
			"watchNamespaces={inference},elastic-scaler.stateSources[0].apiVersion=example.com/v1,elastic-scaler.stateSources[0].kind=Policy,elastic-scaler.stateSources[0].resource=policies",
			[]string{"Role inference/" + scaler + "-sources"}, []string{"ClusterRole " + scaler + "-sources"}, []string{"- policies\n"}, nil,
		},
		"without CRDs":              {"crds.enabled=false", nil, []string{"CustomResourceDefinition tidals.tidal.io"}, nil, nil},
		"CRDs that go":              {"crds.keep=false", []string{"CustomResourceDefinition tidals.tidal.io"}, nil, nil, []string{"helm.sh/resource-policy"}},
		"settings of the manager":   {"elastic-scaler.cpuInitializationSeconds=60,webhook.dnsNames={hooks.example.com},webhook.validitySeconds=3600", nil, nil, []string{"cpuInitializationSeconds: 60", `dnsNames: ["hooks.example.com"]`, "validitySeconds: 3600"}, nil},
		"an image by its digest":    {"image.digest=sha256:" + strings.Repeat("0a", 32), nil, nil, []string{"image: ghcr.io/pd-orchestrator/pd-orchestrator@sha256:0a0a"}, nil},
		"a namespace of their own":  {"namespace=scaling,tidal.namespace.create=true", []string{"Namespace scaling", "Deployment scaling/" + scaler, "Service scaling/" + scaler + "-webhook"}, nil, nil, []string{"namespace: scaling-system"}},
		"references without asking": {"webhook.enabled=false,crossNamespace=Trusted", nil, nil, []string{"crossNamespace: Trusted"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := mustHelm(t, "template", "pdo", installed.Chart, "--set", tc.set)
			objects := objectsOf(t, text)
			has(t, objects, true, tc.there...)
			has(t, objects, false, tc.missing...)
			for _, want := range tc.texts {
				if !strings.Contains(text, want) {
					t.Errorf("%q is rendered nowhere", want)
				}
			}
			for _, other := range tc.others {
				if strings.Contains(text, other) {
					t.Errorf("%q is rendered", other)
				}
			}
			// What is rendered for a component is what its manager takes.
			for key, object := range objects {
				file, ok, _ := unstructured.NestedString(object, "data", "config.yaml")
				if !ok {
					continue
				}
				if _, err := config.Parse([]byte(file)); err != nil {
					t.Errorf("the manager refuses %s: %v\n%s", key, err, file)
				}
			}
		})
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
