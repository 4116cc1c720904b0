package autoscalerpolicy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/test/autoscalerpolicy/ometest"
)

// TestAdmissionGivesAllFindings: each kind is refused by its webhook, with everything that is wrong in one answer.
func TestAdmissionGivesAllFindings(t *testing.T) {
	t.Parallel()
	w := env.NewWorld(t)
	tests := map[string]struct {
		manifest string
		want     string
	}{
		"policy": {`
apiVersion: ome.io/v1beta1
kind: AutoscalerPolicy
metadata: {name: p}
spec:
  class: KEDA
  keda:
    triggers:
    - type: prometheus
      providerRef: {name: p}
      metadata: {query: 'sum(up) > bool 0 * {{ .MaxReplicas }}', threshold: "5", ignoreNullValues: "false", sERVERADDRESS: x}
    - type: prometheus
      providerRef: {name: p}
      metadata: {query: '{{ printf "up" }}', threshold: "{{ .ISVCName }}", ignoreNullValues: "false"}
`, `admission webhook "autoscalerpolicy.ome-webhook-server.validator" denied the request: ` +
			`ForbiddenMetadataKey: trigger 0: metadata key "sERVERADDRESS" is provider-owned; bind endpoints via providerRef; ` +
			`PromQLInvalid: trigger 0: comparison "sum(up) > bool 0 * 4" folds the arithmetic into its threshold ("0 * 4") - parenthesize the comparison, e.g. (sum(...) > bool N) * M; ` +
			`ForbiddenTemplateNode: trigger 1: metadata key "query": forbidden template construct {{printf "up"}}: allowed are .Namespace, .ISVCName, .Component, .MinReplicas, .MaxReplicas, .TargetName; ` +
			`ThresholdInvalid: trigger 1 (prometheus): metadata key threshold is "sample-isvc", which must be a number greater than 0, such as "5"`},
		"service": {`
apiVersion: ome.io/v1beta1
kind: InferenceService
metadata: {name: s}
spec:
  model: {name: m}
  engine: {minReplicas: 0, scaleTarget: 70, autoscalerPolicyRef: {name: p, kind: ClusterAutoscalerPolicy}, containers: none}
`, `admission webhook "inferenceservice.ome-webhook-server.validator" denied the request: ` +
			`AutoscalerPolicyRefKindReserved: spec.engine.autoscalerPolicyRef.kind "ClusterAutoscalerPolicy" is not supported (ClusterAutoscalerPolicy is a reserved shape); use AutoscalerPolicy; ` +
			`engine: InvalidScaleToZero: minReplicas 0 must go with an autoscaler of the component's own with class KEDA, since nothing else scales it up again; an autoscalerPolicyRef or the runtime's autoscaler does not count; ` +
			`LegacyAutoscalerFieldsRejected: spec.engine.scaleTarget must be removed; use spec.engine.autoscaler.hpa.metrics with class HPA instead; ` +
			`spec.engine: json: cannot unmarshal string into Go struct field PodSpec.containers of type []v1.Container`},
		"runtime": {`
apiVersion: ome.io/v1beta1
kind: ServingRuntime
metadata: {name: r}
spec: {engineConfig: {autoscaler: {class: HPA, hpa: {metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization}}}]}}}}
`, `admission webhook "servingruntime.ome-webhook-server.validator" denied the request: engineConfig: HPAMetricMalformed: autoscaler.hpa.metrics[0].resource.target: Required value: must have either averageUtilization or averageValue`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := w.Apply(tt.manifest); err == nil || err.Error() != tt.want {
				t.Errorf("the answer is\n%v\nwant\n%s", err, tt.want)
			}
		})
	}
	cluster := strings.NewReplacer("kind: ServingRuntime", "kind: ClusterServingRuntime").Replace(tests["runtime"].manifest)
	if _, err := w.Apply(cluster); err == nil || !strings.Contains(err.Error(), `"clusterservingruntime.ome-webhook-server.validator" denied the request: engineConfig: HPAMetricMalformed`) {
		t.Errorf("the answer to a ClusterServingRuntime is %v", err)
	}
}

// TestDeletionNamesTheUsers: at most ten, in the order of their services.
func TestDeletionNamesTheUsers(t *testing.T) {
	t.Parallel()
	w := env.NewWorld(t)
	w.MustApply(kedaPolicy("shared", "nobody"))
	var users []string
	for i := range 6 {
		name := fmt.Sprintf("s%d", i)
		w.MustApply(`
apiVersion: ome.io/v1beta1
kind: InferenceService
metadata: {name: ` + name + `}
spec:
  model: {name: ` + ometest.Model + `}
  engine: {autoscalerPolicyRef: {name: shared}}
  router: {autoscalerPolicyRef: {name: shared}}
`)
		users = append(users, name+"/engine", name+"/router")
	}
	want := `AutoscalerPolicy "shared" is referenced by 12 component(s): ` + strings.Join(users[:10], ", ") + " and 2 more; remove the refs first,"
	if err := w.Delete("autoscalerpolicy", "shared"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the answer is\n%v\nwant it to contain\n%s", err, want)
	}
	w.Prints("autoscalerpolicy", "shared", "12", ".status.attachedComponents")
	for i := range 6 {
		if err := w.Delete("inferenceservice", fmt.Sprintf("s%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	w.Prints("autoscalerpolicy", "shared", "<none> NoConsumers", ".status.attachedComponents", inUse)
	if err := w.Delete("autoscalerpolicy", "shared"); err != nil {
		t.Errorf("a policy that nobody names cannot be deleted: %v", err)
	}
}

// TestOldFaultsDoNotStandInTheWay: a service of a time with other rules takes a change that adds nothing wrong.
func TestOldFaultsDoNotStandInTheWay(t *testing.T) {
	w := env.NewWorld(t)
	if err := w.Lab.RemoveWebhooks(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.MustApply(service("old", "scaleTarget: 70, maxReplicas: 4"))
	if err := w.RegisterWebhooks(t.Context()); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, ometest.Soon, "the refusal of a new fault beside an old one", func(context.Context) error {
		// At first the API server does not trust the webhook again.
		err := w.Patch("inferenceservice", "old", `{"spec":{"engine":{"scaleMetric":"cpu"}}}`)
		if err == nil {
			return errors.New("the fault is accepted")
		}
		if !strings.Contains(err.Error(), "spec.engine.scaleMetric must be removed") || strings.Contains(err.Error(), "scaleTarget") {
			return fmt.Errorf("the answer is %w", err)
		}
		return nil
	})
	w.MustPatch("inferenceservice", "old", `{"spec":{"engine":{"maxReplicas":5}}}`)
	w.Prints("hpa", "old-engine", "5", ".spec.maxReplicas")
}
