package hpa

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab"
	"github.com/pd-orchestrator/pd-orchestrator/test/resourcescalinggroup/rsgtest"
)

// Two groups of three prefill pods at twice the target become four groups: the HPA controller multiplies by the pods
// that the selector matches, which are one per group and not three. The new groups use nothing, so four is where it
// stays. The policy lets all steps through, so that no limit of the HPA controller hides a wrong selector.
func TestGroupsScaleByUsage(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		usage  map[string]string
		metric autoscalingv2.MetricSpec
	}{
		{"memory at exactly twice its target", map[string]string{lab.MemoryAnnotation: "2Gi"}, averageMemory("1Gi")},
		// A pod requests 200m. CPU is measured between two scrapes, whose distance varies on a busy machine: above the
		// target's double by a hair the answer is five.
		{"CPU at 1.75 times its target", map[string]string{lab.CPUAnnotation: "350m"}, cpuUtilization(100)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := env.World(t, "llm").OneNamespace()
			w.CreateBase(3, 1)
			w.Create(w.RSG().Replicas(2).Obj())
			w.Settled(2)
			use(w, tc.usage, 0, 1)
			waitUsage(w, tc.usage, 6)

			seen := recordCounts(w)
			hpa := makeHPA(w, "llm", groups(w), 1, 20, tc.metric)
			hpa.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: &autoscalingv2.HPAScalingRules{
				Policies: []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PodsScalingPolicy, Value: 20, PeriodSeconds: 15}},
			}}
			w.Create(hpa)
			seen.wait(2, 4)
			w.Settled(4)
			// The HPA controller has to judge the new groups by their own usage, too.
			waitUsage(w, nil, 12)
			testkit.Consistently(t, 3*syncPeriod, "there are four groups", func(context.Context) error { return seen.are(2, 4) })
			w.Settled(4)
			waitHPA(w, "llm", "the HPA controller to be satisfied with four groups", func(hpa *autoscalingv2.HorizontalPodAutoscaler) error {
				if hpa.Status.CurrentReplicas != 4 || hpa.Status.DesiredReplicas != 4 {
					return fmt.Errorf("it counts %d groups and wants %d", hpa.Status.CurrentReplicas, hpa.Status.DesiredReplicas)
				}
				return hasCondition(hpa, autoscalingv2.ScalingActive, corev1.ConditionTrue, "ValidMetricFound")
			})
			w.HasGroups(map[int32][2]int32{0: {3, 1}, 1: {3, 1}, 2: {3, 1}, 3: {3, 1}})
			if err := seen.are(2, 4); err != nil {
				t.Error(err)
			}
		})
	}
}

// use sets what the prefill pods of the groups use.
func use(w *rsgtest.World, usage map[string]string, ids ...int) {
	w.T.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": usage}})
	if err != nil {
		w.T.Fatal(err)
	}
	for _, id := range ids {
		pods, err := w.Pods(w.T.Context(), map[string]string{"app": "llm-prefill", v1alpha1.LabelGroupID: strconv.Itoa(id)})
		if err != nil {
			w.T.Fatal(err)
		}
		for i := range pods {
			if err := w.Client.Patch(w.T.Context(), &pods[i], client.RawPatch("application/merge-patch+json", patch)); err != nil {
				w.T.Fatal(err)
			}
		}
	}
}

// podUsage is the part of PodMetrics that is looked at.
type podUsage struct {
	Metadata   metav1.ObjectMeta `json:"metadata"`
	Containers []struct {
		Usage corev1.ResourceList `json:"usage"`
	} `json:"containers"`
}

// waitUsage waits until metrics-server knows the usage of this many prefill pods and each uses what is given, within a
// tenth: a change shows in full only once both scrapes that CPU is measured between come after it.
func waitUsage(w *rsgtest.World, usage map[string]string, pods int) {
	w.T.Helper()
	resources := map[string]corev1.ResourceName{lab.CPUAnnotation: corev1.ResourceCPU, lab.MemoryAnnotation: corev1.ResourceMemory}
	start := time.Now()
	testkit.Eventually(w.T, rsgtest.Patience, fmt.Sprintf("metrics-server to know the usage of %d pods", pods), func(ctx context.Context) error {
		text, err := w.Kubernetes.Discovery().RESTClient().Get().
			AbsPath("/apis/metrics.k8s.io/v1beta1/namespaces", w.Namespace, "pods").Param("labelSelector", "app=llm-prefill").DoRaw(ctx)
		if err != nil {
			return err
		}
		var list struct {
			Items []podUsage `json:"items"`
		}
		if err := json.Unmarshal(text, &list); err != nil {
			return err
		}
		if len(list.Items) != pods {
			return fmt.Errorf("it knows that of %d pods", len(list.Items))
		}
		for _, pod := range list.Items {
			for annotation, value := range usage {
				want := resource.MustParse(value)
				got := pod.Containers[0].Usage[resources[annotation]]
				if difference := got.AsApproximateFloat64()/want.AsApproximateFloat64() - 1; difference > 0.1 || difference < -0.1 {
					return fmt.Errorf("pod %s uses %s of %s", pod.Metadata.Name, got.String(), resources[annotation])
				}
			}
		}
		return nil
	})
	w.T.Logf("metrics-server knows the usage of %d pods after %.1f s", pods, time.Since(start).Seconds())
}
