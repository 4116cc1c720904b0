package plugin

import (
	"strings"
	"testing"
)

// TestTroubles: whatever keeps scaling from working, explain names the cause and ends with 2, for a user who may only read.
func TestTroubles(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]struct {
		// manifests are applied one after another.
		manifests []string
		object    string
		// change is a further step once the object is there.
		change func(*world)
		want   []string
	}{
		"the target of a group is missing": {
			manifests: []string{group("pair", "gone", 2, "")},
			object:    "rsg/pair",
			want:      []string{"Ready is False (TargetNotFound)", "Deployment", "/gone"},
		},
		"a group was found at zero": {
			manifests: []string{deployment("llm", 0), group("pair", "llm", 2, "")},
			object:    "rsg/pair",
			want:      []string{"BaselineUnknown is True (FoundAtZero)"},
		},
		"a quota leaves no room for a group": {
			manifests: []string{deployment("llm", 1), `
apiVersion: v1
kind: ResourceQuota
metadata: {name: small}
spec: {hard: {count/deployments.apps: "1"}}
`, group("pair", "llm", 2, "")},
			object: "rsg/pair",
			want:   []string{"Ready is False", "exceeded quota: small"},
		},
		"the metric that ranks groups is missing": {
			manifests: []string{deployment("llm", 1), group("pair", "llm", 2, `, scaleDown: {metric: {expr: "no_such_metric", type: Gauge}}`)},
			object:    "rsg/pair",
			change: func(w *world) {
				w.shows(0, words("explain rsg/pair --check"), "2 are ready")
				w.patch(groupAPI, "ResourceScalingGroup", "pair", `{"spec":{"scalingStrategy":{"groupConfig":{"replicas":1}}}}`)
			},
			want: []string{"The metric could not decide: GroupMissing.", "ScaleDownMetric is False (GroupMissing)"},
		},
		"an endpoint does not answer": {
			manifests: []string{deployment("web", 1), scaler("web", queue("http://127.0.0.1:9"), deploymentKind)},
			object:    "esc/web",
			want:      []string{"MetricsCollected is False (MetricSourceUnavailable)", "127.0.0.1:9"},
		},
		"the cluster has no metrics API": {
			manifests: []string{deployment("web", 1), scaler("web", `{type: Resource, resource: {metricsName: cpu, target: {type: Utilization, averageUtilization: 50}}}`, deploymentKind)},
			object:    "esc/web",
			want:      []string{"MetricsCollected is False", "metrics.k8s.io"},
		},
		"the target of a scaler is missing": {
			manifests: []string{scaler("web", queue("http://127.0.0.1:9"), deploymentKind)},
			object:    "esc/web",
			want:      []string{"TargetNotFound"},
		},
		"an HPA has the first right": {
			manifests: []string{deployment("web", 1), `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: mine}
spec: {minReplicas: 1, maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
`, scaler("web", queue("http://127.0.0.1:9"), deploymentKind)},
			object: "esc/web",
			want:   []string{"ScalerConflict is True (Conflict)", "mine"},
		},
		"two rules fire together": {
			manifests: []string{deployment("web", 1), `
apiVersion: tidal.io/v1alpha1
kind: Tidal
metadata: {name: office}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web, namespace: NAMESPACE}
  triggers: {times: {rules: [{name: first, cron: "0 9 * * *", replicas: 2}, {name: second, cron: "0 9 * * 1", replicas: 3}]}}
`},
			object: "tidal/office",
			want:   []string{"RuleConflict is True (RulesOverlap)", "first", "second"},
		},
		"the target of a Tidal is missing": {
			manifests: []string{`
apiVersion: tidal.io/v1alpha1
kind: Tidal
metadata: {name: office}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: gone, namespace: NAMESPACE}
  triggers: {times: {rules: [{name: always, cron: "* * * * *", replicas: 2}]}}
`},
			object: "tidal/office",
			want:   []string{"TargetNotFound"},
		},
		"a metric provider is not bound": {
			manifests: []string{`
apiVersion: ome.io/v1beta1
kind: AutoscalerPolicy
metadata: {name: queue}
spec:
  class: KEDA
  keda: {triggers: [{type: prometheus, providerRef: {name: nobody}, metricType: AverageValue, metadata: {query: "sum(q)", threshold: "5", ignoreNullValues: "false"}}]}
`},
			object: "ap/queue",
			want:   []string{"Ready is False (ProviderUnknown)", "nobody"},
		},
		"the policy of a component is missing": {
			manifests: []string{`
apiVersion: ome.io/v1beta1
kind: InferenceService
metadata: {name: chat}
spec: {model: {name: llama}, engine: {minReplicas: 1, maxReplicas: 4, autoscalerPolicyRef: {name: gone}}}
`},
			object: "isvc/chat",
			want:   []string{"engine: AutoscalerResolved is False (PolicyNotFound)", "gone"},
		},
		"KEDA is not installed": {
			manifests: []string{kedaService},
			object:    "isvc/chat",
			want:      []string{"engine: AutoscalerApplied is False (KedaUnavailable)"},
		},
		"no runtime serves the model": {
			manifests: []string{`
apiVersion: ome.io/v1beta1
kind: InferenceService
metadata: {name: chat}
spec: {model: {name: unknown-model}, engine: {minReplicas: 1, maxReplicas: 4}}
`},
			object: "isvc/chat",
			want:   []string{"RuntimeResolved is False", "unknown-model"},
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for _, text := range trouble.manifests {
				w.apply(text)
			}
			if trouble.change != nil {
				trouble.change(w)
			}
			w.shows(2, []string{"explain", trouble.object, "--check"}, append(trouble.want, "What is wrong")...)
		})
	}
}

// kedaService is a service whose engine is scaled by KEDA.
const kedaService = `
apiVersion: ome.io/v1beta1
kind: InferenceService
metadata: {name: chat}
spec:
  model: {name: llama}
  engine: {minReplicas: 1, maxReplicas: 4, autoscaler: {class: KEDA, keda: {triggers: [{type: cpu, metricType: Utilization, metadata: {value: "60"}}]}}}
`

// deploymentKind is how a scaler names Deployments.
const deploymentKind = "apiVersion: apps/v1, kind: Deployment"

// scaler is an ElasticScaler by one metric, named as its target, of which kind is the apiVersion and the kind.
func scaler(target, metric, kind string) string {
	return `
apiVersion: elasticscaler.io/v1alpha1
kind: ElasticScaler
metadata: {name: ` + target + `}
spec:
  targetRef: {` + kind + `, name: ` + target + `}
  minReplicas: 1
  maxReplicas: 5
  intervalSeconds: 1
  trigger: {type: MetricsTrigger, metricsTrigger: {scalingAlgorithm: APA, metrics: [` + metric + `]}}
`
}

// queue is a metric that is a query at an endpoint.
func queue(endpoint string) string {
	return `{type: ExternalServer, externalServer: {endpoint: "` + endpoint + `", metricsName: queue, query: "scalar(queue)", target: "5"}}`
}
