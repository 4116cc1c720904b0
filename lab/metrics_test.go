package lab_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/pd-orchestrator/pd-orchestrator/lab"
	"github.com/pd-orchestrator/pd-orchestrator/lab/simulator/api"
	simulator "github.com/pd-orchestrator/pd-orchestrator/lab/simulator/client"
)

const running = "vllm:num_requests_running"

// values is what both metrics APIs answer.
type values struct {
	Items []struct {
		DescribedObject struct {
			Name string `json:"name"`
		} `json:"describedObject"`
		Value resource.Quantity `json:"value"`
	} `json:"items"`
}

func TestCustomMetricsArePrometheusSeries(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(shared.AdminConfig())
	namespace := newNamespace(t, client)
	labels := map[string]string{"app": "engine"}
	deploy(t, client, namespace, "engine", 2, labels)
	pods := readyPods(t, client, namespace, "app=engine", 2)
	pin(t, namespace, labels, map[string]api.Value{running: 12})

	path := "/apis/custom.metrics.k8s.io/v1beta2/namespaces/" + namespace + "/pods/*/" + running
	eventually(t, func() error {
		got, err := metricValues(t.Context(), client, path)
		if err != nil {
			return err
		}
		if len(got.Items) != 2 {
			return fmt.Errorf("%s has %d values, want one for each of 2 pods", path, len(got.Items))
		}
		for _, item := range got.Items {
			if item.Value.Value() != 12 || !slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return pod.Name == item.DescribedObject.Name }) {
				return fmt.Errorf("%s has the value %v of %q, want 12 of each pod", path, &item.Value, item.DescribedObject.Name)
			}
		}
		return nil
	})
	path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/" + namespace + "/" + running + "?labelSelector=pod%3D" + pods[0].Name
	eventually(t, func() error {
		got, err := metricValues(t.Context(), client, path)
		if err != nil {
			return err
		}
		if len(got.Items) != 1 || got.Items[0].Value.Value() != 12 {
			return fmt.Errorf("%s gives %v, want the one pod's 12", path, got)
		}
		return nil
	})

	// Three times the target: the autoscaler asks for 6, and may have 5.
	target := resource.MustParse("4")
	autoscaler := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "engine"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "engine"},
			MaxReplicas:    5,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{
				Metric: autoscalingv2.MetricIdentifier{Name: running},
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: &target},
			}}},
		},
	}
	if _, err := client.AutoscalingV2().HorizontalPodAutoscalers(namespace).Create(t.Context(), autoscaler, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	wantReplicas(t, client, namespace, "engine", 5)
}

// In the order of a cluster's life: CRDs alone, KEDA, an outage, the end of it,
// and the removal.
func TestKEDAScalesByTheSimulator(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(shared.AdminConfig())
	objects := dynamic.NewForConfigOrDie(shared.AdminConfig())
	namespace := newNamespace(t, client)
	t.Cleanup(func() {
		if err := errors.Join(shared.RemoveKEDA(context.Background()), shared.RemoveKEDA(context.Background())); err != nil {
			t.Error(err)
		}
	})
	labels := map[string]string{"app": "decode"}
	deploy(t, client, namespace, "decode", 1, labels)
	pin(t, namespace, labels, map[string]api.Value{running: 40})

	if err := shared.InstallKEDACRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	scaledObjects := objects.Resource(schema.GroupVersionResource{Group: "keda.sh", Version: "v1alpha1", Resource: "scaledobjects"}).Namespace(namespace)
	if _, err := scaledObjects.Create(t.Context(), scaledObject("decode", namespace), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	for range 2 {
		if err := shared.StartKEDA(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	wantReplicas(t, client, namespace, "decode", 4)
	pin(t, namespace, labels, map[string]api.Value{running: 20})
	wantReplicas(t, client, namespace, "decode", 2)

	_, err := scaledObjects.Create(t.Context(), scaledObject("another", namespace), metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "vscaledobject.kb.io") {
		t.Errorf("a second ScaledObject for one workload gives %v, want the refusal of KEDA's webhook", err)
	}
	account := "system:serviceaccount:keda:keda-operator"
	autoscaler, err := client.AutoscalingV2().HorizontalPodAutoscalers(namespace).Get(t.Context(), "keda-hpa-decode", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if allowed := mayCreate(t, account, namespace, "autoscaling", "horizontalpodautoscalers"); !allowed {
		t.Errorf("%s may not create autoscalers", account)
	}
	if allowed := mayCreate(t, account, namespace, "apps", "deployments"); allowed {
		t.Errorf("%s may create Deployments, so it has more than KEDA's own Roles", account)
	}

	if err := shared.StopKEDA(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{lab.KEDAOperator, lab.KEDAAdapter, lab.KEDAWebhooks} {
		if shared.Part(name).Running() {
			t.Errorf("%s runs after StopKEDA", name)
		}
	}
	eventually(t, func() error {
		live, err := client.AutoscalingV2().HorizontalPodAutoscalers(namespace).Get(t.Context(), autoscaler.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range live.Status.Conditions {
			if condition.Type == autoscalingv2.ScalingActive && condition.Status == corev1.ConditionFalse {
				return nil
			}
		}
		return fmt.Errorf("the autoscaler has its metric without KEDA: %v", live.Status.Conditions)
	})
	if err := shared.StartKEDA(t.Context()); err != nil {
		t.Fatal(err)
	}
	pin(t, namespace, labels, map[string]api.Value{running: 30})
	wantReplicas(t, client, namespace, "decode", 3)

	if err := shared.RemoveKEDA(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := scaledObjects.List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("ScaledObjects are still served: %v", err)
	}
	if _, err := client.AutoscalingV2().HorizontalPodAutoscalers(namespace).Get(t.Context(), autoscaler.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("KEDA's autoscaler is still there: %v", err)
	}
	// This lab has another server of external metrics, which takes over.
	eventually(t, func() error {
		_, err := metricValues(t.Context(), client, "/apis/external.metrics.k8s.io/v1beta1/namespaces/"+namespace+"/"+running)
		return err
	})
}

// scaledObject scales the Deployment decode to a tenth of the largest number of
// running requests of a pod.
func scaledObject(name, namespace string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "keda.sh/v1alpha1",
		"kind":       "ScaledObject",
		"metadata":   map[string]any{"name": name},
		"spec": map[string]any{
			"scaleTargetRef":  map[string]any{"name": "decode"},
			"minReplicaCount": int64(1),
			"maxReplicaCount": int64(10),
			"pollingInterval": int64(1),
			"advanced": map[string]any{"horizontalPodAutoscalerConfig": map[string]any{
				"behavior": map[string]any{"scaleDown": map[string]any{"stabilizationWindowSeconds": int64(0)}},
			}},
			"triggers": []any{map[string]any{"type": "prometheus", "metadata": map[string]any{
				"serverAddress": shared.PrometheusURL(),
				"query":         fmt.Sprintf("max(%s{namespace=%q})", running, namespace),
				"threshold":     "10",
			}}},
		},
	}}
}

func pin(t *testing.T, namespace string, labels map[string]string, metrics map[string]api.Value) {
	t.Helper()
	if err := simulator.New(shared.SimulatorURL(), nil).Pin(t.Context(), api.Pin{Namespace: namespace, Labels: labels, Metrics: metrics}); err != nil {
		t.Fatal(err)
	}
}

func metricValues(ctx context.Context, client kubernetes.Interface, uri string) (values, error) {
	var got values
	text, err := client.Discovery().RESTClient().Get().RequestURI(uri).DoRaw(ctx)
	if err != nil {
		return got, err
	}
	return got, json.Unmarshal(text, &got)
}

func wantReplicas(t *testing.T, client kubernetes.Interface, namespace, deployment string, want int32) {
	t.Helper()
	eventually(t, func() error {
		live, err := client.AppsV1().Deployments(namespace).Get(t.Context(), deployment, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if *live.Spec.Replicas != want {
			return fmt.Errorf("%s is to have %d replicas, want %d", deployment, *live.Spec.Replicas, want)
		}
		return nil
	})
}

// mayCreate asks the API server whether a user's roles allow it.
func mayCreate(t *testing.T, user, namespace, group, resource string) bool {
	t.Helper()
	client := kubernetes.NewForConfigOrDie(shared.AdminConfig())
	review, err := client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: "create", Group: group, Resource: resource,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}
