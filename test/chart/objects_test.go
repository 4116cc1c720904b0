package chart

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	autoscalingv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	tidalv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab/faulty"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
)

// objects are one of each kind in a namespace, with what they scale.
type objects struct {
	namespace                string
	tidal                    *tidalv1alpha1.Tidal
	scaler                   *v1alpha1.ElasticScaler
	rsg                      *autoscalingv1alpha1.ResourceScalingGroup
	serving                  []client.Object
	byClock, byMetric, clone *appsv1.Deployment
}

// serving is a service whose engine is scaled by a policy.
const serving = `
apiVersion: ome.io/v1beta1
kind: AutoscalerPolicy
metadata: {name: cpu-60, namespace: NAMESPACE}
spec:
  class: HPA
  hpa:
    metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]
---
apiVersion: ome.io/v1beta1
kind: InferenceService
metadata: {name: llama, namespace: NAMESPACE}
spec:
  model: {name: llama}
  engine: {minReplicas: 2, maxReplicas: 4, autoscalerPolicyRef: {name: cpu-60}}
`

func newNamespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "inference-"}}
	must(t, api.Create(t.Context(), ns))
	return ns.Name
}

// newObjects creates them in a namespace.
func newObjects(t *testing.T, namespace string) *objects {
	t.Helper()
	server, err := faulty.Start(faulty.Options{})
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	server.Answer(faulty.Scalar("40"))

	o := &objects{namespace: namespace}
	o.byClock = testkit.MakeDeployment(namespace, "by-clock").Replicas(1).Obj()
	o.tidal = &tidalv1alpha1.Tidal{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "by-clock"}}
	o.tidal.Spec.TargetRef = tidalv1alpha1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: namespace, Name: o.byClock.Name}
	o.tidal.Spec.Triggers.Times.Rules = []tidalv1alpha1.TimeRule{{Name: "always", Cron: "CRON_TZ=UTC 0 0 * * *", Replicas: new(int32(3))}}
	o.byMetric = testkit.MakeDeployment(namespace, "by-metric").Replicas(2).Obj()
	o.scaler = estest.Instant(&v1alpha1.ElasticScaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "by-metric"},
		Spec: v1alpha1.ElasticScalerSpec{
			TargetRef:       v1alpha1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: o.byMetric.Name},
			IntervalSeconds: new(int32(1)), Trigger: estest.Metrics("", estest.Query(server.URL(), "queue", "scalar(queue)", "10")),
		},
	})
	base := testkit.MakeDeployment(namespace, "llm-prefill").Replicas(1).Obj()
	o.clone = testkit.MakeDeployment(namespace, "pd-llm-prefill-1").Obj()
	o.rsg = testkit.MakeRSG(namespace, "llm").Target("prefill", namespace, base.Name).GroupName("pd").Replicas(2).Obj()
	all := []client.Object{o.byClock, o.byMetric, base, o.tidal, o.scaler, o.rsg}
	for document := range strings.SplitSeq(strings.ReplaceAll(estest.Serving+"---"+serving, "NAMESPACE", namespace), "\n---\n") {
		u := &unstructured.Unstructured{}
		must(t, yaml.UnmarshalStrict([]byte(document), &u.Object))
		o.serving = append(o.serving, u)
	}
	for _, object := range append(all, o.serving...) {
		// The model and its runtime are in no namespace.
		must(t, client.IgnoreAlreadyExists(api.Create(t.Context(), object)))
	}
	return o
}

// ours are those of the product's kinds, in the order in which they may be deleted.
func (o *objects) ours() []client.Object {
	ours := []client.Object{o.tidal, o.scaler, o.rsg}
	for _, object := range slices.Backward(o.serving) {
		ours = append(ours, object)
	}
	return ours
}

// atWork waits until every component has scaled what it is to scale.
func (o *objects) atWork(t *testing.T) {
	t.Helper()
	for d, want := range map[*appsv1.Deployment]int32{o.byClock: 3, o.byMetric: 4, o.clone: 1} {
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
	testkit.Eventually(t, estest.Patience, "the HPA of the service's engine, with the policy's metric", func(ctx context.Context) error {
		hpa := &autoscalingv2.HorizontalPodAutoscaler{}
		if err := api.Get(ctx, types.NamespacedName{Namespace: o.namespace, Name: "llama-engine"}, hpa); err != nil {
			service := &unstructured.Unstructured{}
			service.SetGroupVersionKind(schema.GroupVersionKind{Group: "ome.io", Version: "v1beta1", Kind: "InferenceService"})
			if err := api.Get(ctx, types.NamespacedName{Namespace: o.namespace, Name: "llama"}, service); err != nil {
				return err
			}
			return fmt.Errorf("%w, and its service has the status %v", err, service.Object["status"])
		}
		if len(hpa.Spec.Metrics) != 1 || hpa.Spec.MaxReplicas != 4 {
			return fmt.Errorf("it has up to %d replicas and %v", hpa.Spec.MaxReplicas, hpa.Spec.Metrics)
		}
		return nil
	})
}

// fingerprint is what must not change when the product is upgraded: the counts and templates of the workloads, and the pods.
func (o *objects) fingerprint(t *testing.T) string {
	t.Helper()
	var all []string
	var deployments appsv1.DeploymentList
	must(t, api.List(t.Context(), &deployments, client.InNamespace(o.namespace)))
	for _, d := range deployments.Items {
		all = append(all, fmt.Sprintf("Deployment %s, generation %d, %d replicas", d.Name, d.Generation, *d.Spec.Replicas))
	}
	testkit.Eventually(t, estest.Patience, "all pods to run", func(ctx context.Context) error {
		for _, d := range deployments.Items {
			live := &appsv1.Deployment{}
			if err := api.Get(ctx, client.ObjectKeyFromObject(&d), live); err != nil {
				return err
			}
			if live.Status.ReadyReplicas != *live.Spec.Replicas {
				return errors.New(d.Name + " has others")
			}
		}
		return nil
	})
	var pods corev1.PodList
	must(t, api.List(t.Context(), &pods, client.InNamespace(o.namespace)))
	for _, p := range pods.Items {
		all = append(all, fmt.Sprintf("pod %s %s", p.Name, p.UID))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}
