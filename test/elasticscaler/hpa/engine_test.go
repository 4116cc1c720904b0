package hpa

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	autoscalingv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
)

// createGroups makes a ResourceScalingGroup of groups of pods, and waits until all pods are there.
func createGroups(w *estest.World, pods, groups int32) {
	w.T.Helper()
	w.Create(testkit.MakeDeployment(w.Namespace, "prefill").Replicas(pods).Obj(),
		testkit.MakeRSG(w.Namespace, w.Name).GroupName("pd").Target("prefill", w.Namespace, "prefill").Replicas(groups).Obj())
	waitGroups(w, groups)
}

// waitGroups waits until there are groups, and as many are asked for.
func waitGroups(w *estest.World, want int32) {
	w.T.Helper()
	testkit.Eventually(w.T, metricsPatience, fmt.Sprintf("%d groups", want), func(ctx context.Context) error {
		rsg := &autoscalingv1alpha1.ResourceScalingGroup{}
		if err := w.Client.Get(ctx, types.NamespacedName{Namespace: w.Namespace, Name: w.Name}, rsg); err != nil {
			return err
		}
		asked, have := *rsg.Spec.ScalingStrategy.GroupConfig.Replicas, rsg.Status.CurrentReplicas
		if asked > want {
			w.T.Fatalf("%d groups are asked for, want %d", asked, want)
		}
		if asked != want || have == nil || *have != want {
			return fmt.Errorf("%d are asked for", asked)
		}
		return nil
	})
}

// calculated waits until the scaler has decided with a reason, as long as the metrics of pods may take.
func calculated(w *estest.World, reason string) *v1alpha1.ElasticScaler {
	w.T.Helper()
	var last *v1alpha1.ElasticScaler
	testkit.Eventually(w.T, metricsPatience, "a decision with reason "+reason, func(context.Context) error {
		last = w.Live()
		if d := last.Status.LastDecision; d == nil || d.Reason != reason {
			return fmt.Errorf("it is %+v", d)
		}
		return nil
	})
	return last
}

// The manager's own algorithms read CPU in percent of the request as an HPA does: two pods at 150 % need three, and then the
// third, which uses nothing, makes the mean right.
func TestTheEngineFollowsCPU(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	w.CreateTarget(2)
	counts := w.Record()
	labels := map[string]string{"app": w.Name}
	// A pod requests 200m.
	use(w, labels, 2, map[string]string{lab.CPUAnnotation: "290m"})
	w.Create(by(w, "APA", utilization(100)))
	counts.Wait(2, 3)
	w.Event("Normal", v1alpha1.ReasonScaled, "from 2 to 3", "the load of cpu")
	calculated(w, v1alpha1.ReasonWithinTolerance)
	use(w, labels, 3, map[string]string{lab.CPUAnnotation: "10m"})
	w.WaitReplicas(1)
}

// A container without a request has no utilization, which is told with its name and that of its pod. The count stays.
func TestAContainerWithoutARequest(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	d := testkit.MakeDeployment(w.Namespace, w.Name).Replicas(2).Obj()
	d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: "sidecar", Image: "example.org/sidecar:1"})
	w.Create(d)
	counts := w.Record()
	w.Create(by(w, "", utilization(50)))
	testkit.Eventually(t, metricsPatience, "the missing request to be told", func(context.Context) error {
		for _, c := range w.Live().Status.Conditions {
			if c.Type == v1alpha1.ConditionMetricsCollected && c.Reason == v1alpha1.ReasonMissingRequest {
				return nil
			}
		}
		return fmt.Errorf("the conditions are %+v", w.Live().Status.Conditions)
	})
	w.Condition(v1alpha1.ConditionMetricsCollected, metav1.ConditionFalse, v1alpha1.ReasonMissingRequest,
		"container sidecar of pod "+w.Namespace+"/"+w.Name+"-", "set resources.requests.cpu, or use a target of type AverageValue")
	counts.Wait(2)
}

// Memory of two groups of three pods at twice the target makes four groups, never as many as there are pods.
func TestTheEngineCountsGroups(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	createGroups(w, 3, 2)
	scaler := by(w, "APA", memory("1Gi"))
	scaler.Spec.TargetRef = v1alpha1.TargetReference{Kind: "resourcescalinggroup", Name: w.Name}
	w.Create(scaler)
	use(w, map[string]string{"app": "prefill"}, 6, map[string]string{lab.MemoryAnnotation: "2Gi"})
	waitGroups(w, 4)
	// The new groups use nothing, so that the mean is at the target.
	calculated(w, v1alpha1.ReasonWithinTolerance)
	waitGroups(w, 4)
}

// Custom metrics are those of the target's own pods.
func TestTheEngineFollowsCustomMetrics(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	target := testkit.MakeDeployment(w.Namespace, w.Name).Replicas(2).Obj()
	labels := target.Spec.Selector.MatchLabels
	pin(w, labels, metricOf(w), 12)
	w.Create(target)
	counts := w.Record()
	scaler := by(w, "", custom(metricOf(w), "8"))
	scaler.Spec.MaxReplicas = new(int32(3))
	w.Create(scaler)
	counts.Wait(2, 3)
	pin(w, labels, metricOf(w), 8)
	calculated(w, v1alpha1.ReasonWithinTolerance)
	pin(w, labels, metricOf(w), 1)
	w.WaitReplicas(1)
}

// External metrics count no pods. A name that the API does not know holds the count.
func TestTheEngineFollowsExternalMetrics(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	w.CreateTarget(2)
	counts := w.Record()
	m := external("", "10")
	m.External.MetricsName, m.External.Metric = "", &v1alpha1.MetricName{Name: metricOf(w)}
	w.Create(by(w, "", m))
	scaler := w.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNoData)
	if in := scaler.Status.LastDecision.Inputs[0]; in.Name != metricOf(w) || in.Reason == "" {
		t.Errorf("the input is %+v", in)
	}
	queue := serve(w, 40)
	counts.Wait(2, 4)
	queue.set(10)
	counts.Wait(2, 4, 2, 1)
	w.Condition(v1alpha1.ConditionMetricsCollected, metav1.ConditionTrue, v1alpha1.ReasonAllMetricsAvailable)
}
