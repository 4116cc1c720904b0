package resourcescalinggroup

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/test/resourcescalinggroup/rsgtest"
)

// A Service has settings that only one Service can have. Its clones are made without them, and the user is told.
func TestServiceSettingsThatCannotBeShared(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm")
	svc := testkit.MakeService(w.Base, "llm-prefill", "llm-prefill")
	svc.Spec.Type = corev1.ServiceTypeLoadBalancer
	svc.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	svc.Spec.ExternalIPs = []string{"192.0.2.7"}
	svc.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}", "example.org/kept": "yes"}
	headless := testkit.MakeService(w.Base, "llm-decode", "llm-decode")
	headless.Spec.ClusterIP = corev1.ClusterIPNone
	alias := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Base, Name: "alias"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.org", Selector: map[string]string{"app": "llm-prefill"}},
	}
	w.Create(svc, headless, alias, testkit.MakeDeployment(w.Base, "llm-prefill").Obj(), testkit.MakeDeployment(w.Base, "llm-decode").Obj())
	w.Create(w.RSG().Replicas(2).Obj())
	w.Settled(2)
	w.Event("Warning", v1alpha1.EventServiceSettingsDropped, "Service llm-prefill", "externalIPs")

	original, copied := &corev1.Service{}, &corev1.Service{}
	w.Read(original, w.Base, "llm-prefill")
	w.Read(copied, w.Namespace, "llm-prefill-prefill-decode-1")
	if copied.Spec.Type != corev1.ServiceTypeLoadBalancer || copied.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		t.Errorf("the clone has type %s, external traffic policy %s", copied.Spec.Type, copied.Spec.ExternalTrafficPolicy)
	}
	if copied.Spec.ClusterIP == original.Spec.ClusterIP || copied.Spec.Ports[0].NodePort == original.Spec.Ports[0].NodePort ||
		copied.Spec.HealthCheckNodePort == original.Spec.HealthCheckNodePort || len(copied.Spec.ExternalIPs) > 0 {
		t.Errorf("the clone shares allocations with the original: %+v", copied.Spec)
	}
	wantAnnotations := map[string]string{"example.org/kept": "yes", v1alpha1.AnnotationRevision: w.Live().Status.Revision}
	if diff := cmp.Diff(wantAnnotations, copied.Annotations); diff != "" {
		t.Errorf("annotations of the clone (-want +got):\n%s", diff)
	}
	w.Read(copied, w.Namespace, "llm-decode-prefill-decode-1")
	if copied.Spec.ClusterIP != corev1.ClusterIPNone {
		t.Errorf("the clone of a headless Service has cluster IP %s", copied.Spec.ClusterIP)
	}
	for _, s := range w.Services() {
		if strings.HasPrefix(s, "alias") {
			t.Errorf("an alias was cloned as %s", s)
		}
	}
}

// Marks by which tools would adopt or prune an object stay on the original. Where such a label selects pods it stays in
// the pods.
func TestMarksOfOtherToolsAreNotCopied(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm")
	d := testkit.MakeDeployment(w.Base, "llm-prefill").
		Label("app.kubernetes.io/instance", "chat").Label("argocd.argoproj.io/instance", "chat").Label("helm.sh/chart", "chat-1.0.0").
		Label("team", "serving").
		Annotation("argocd.argoproj.io/tracking-id", "chat:apps/Deployment:production/llm-prefill").
		Annotation("meta.helm.sh/release-name", "chat").
		Annotation("kubectl.kubernetes.io/last-applied-configuration", "{}").
		Annotation(v1alpha1.AnnotationMetricValue, "7").
		PodLabel("app.kubernetes.io/instance", "chat").Obj()
	d.Spec.Selector.MatchLabels["app.kubernetes.io/instance"] = "chat"
	w.Create(d, testkit.MakeDeployment(w.Base, "llm-decode").Obj())
	w.Create(w.RSG().Replicas(2).Obj())
	w.Settled(2)
	copied := &appsv1.Deployment{}
	w.Read(copied, w.Namespace, "prefill-decode-llm-prefill-1")
	group := map[string]string{
		v1alpha1.LabelName: "llm", v1alpha1.LabelNamespace: w.Namespace, v1alpha1.LabelGroupName: "Prefill-Decode", v1alpha1.LabelGroupID: "1",
	}
	if diff := cmp.Diff(with(group, "app", "llm-prefill", "team", "serving"), copied.Labels); diff != "" {
		t.Errorf("labels of the clone (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(with(group, "app", "llm-prefill", "app.kubernetes.io/instance", "chat"), copied.Spec.Template.Labels); diff != "" {
		t.Errorf("labels of its pods (-want +got):\n%s", diff)
	}
	if copied.Spec.Selector.MatchLabels["app.kubernetes.io/instance"] != "chat" {
		t.Errorf("selector of the clone: %v", copied.Spec.Selector.MatchLabels)
	}
	delete(copied.Annotations, "deployment.kubernetes.io/revision")
	if diff := cmp.Diff(map[string]string{v1alpha1.AnnotationRevision: w.Live().Status.Revision, v1alpha1.AnnotationServices: ""}, copied.Annotations); diff != "" {
		t.Errorf("annotations of the clone (-want +got):\n%s", diff)
	}
	if got := copied.Spec.Template.Spec.Containers[0].Resources.Requests.Cpu().String(); got != "200m" {
		t.Errorf("the clone asks for %s", got)
	}
}

func with(m map[string]string, pairs ...string) map[string]string {
	out := map[string]string{}
	for key, value := range m {
		out[key] = value
	}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}

// Original and clone live side by side in one namespace, where the original's selector matches the clone's pods too.
// Neither takes the other's pods.
func TestOriginalAndClonesInOneNamespace(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm").OneNamespace()
	w.CreateBase(2, 1)
	w.Create(w.RSG().Replicas(3).Obj())
	w.Settled(3)
	var sets appsv1.ReplicaSetList
	if err := w.Client.List(t.Context(), &sets, client.InNamespace(w.Namespace)); err != nil {
		t.Fatal(err)
	}
	workload := map[string]string{}
	for _, rs := range sets.Items {
		workload[rs.Name] = metav1.GetControllerOf(&rs).Name
	}
	pods, err := w.Pods(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, pod := range pods {
		got[workload[metav1.GetControllerOf(&pod).Name]+" has pods of group "+pod.Labels[v1alpha1.LabelGroupID]]++
	}
	want := map[string]int{}
	for _, role := range []struct {
		name string
		pods int
	}{{"llm-prefill", 2}, {"llm-decode", 1}} {
		want[role.name+" has pods of group 0"] = role.pods
		for id := 1; id <= 2; id++ {
			want[fmt.Sprintf("prefill-decode-%s-%d has pods of group %d", role.name, id, id)] = role.pods
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pods by workload (-want +got):\n%s", diff)
	}
}

// Series of groups that are no candidates have no say, and one without group_id speaks for the user's own workloads.
func TestSeriesOfOthersAreIgnored(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm")
	w.CreateBase(1, 1)
	w.Create(w.RSG().Replicas(3).Metric(rsgtest.Metric).Obj())
	w.Settled(3)
	series := func(labels, value string) string {
		return fmt.Sprintf(`{"metric":{%s},"value":[%d,"%s"]}`, labels, time.Now().Unix(), value)
	}
	env.Prometheus.Fault(w, func(rw http.ResponseWriter, r *http.Request) {
		values := map[string]string{``: "4", `"group_id":"2"`: "5", `"group_id":"1"`: "3", `"group_id":"7"`: "0", `"group_id":"x"`: "0"}
		var all []string
		for labels, value := range values {
			if strings.Contains(r.Form.Get("query"), "timestamp") {
				value = strconv.FormatInt(time.Now().Unix(), 10)
			}
			all = append(all, series(labels, value))
		}
		answer(http.StatusOK, "application/json",
			`{"status":"success","data":{"resultType":"vector","result":[`+strings.Join(all, ",")+`]}}`)(rw, r)
	})
	w.ScaleTo(2)
	rsg := w.Settled(2)
	checkScaleDown(t, rsg, v1alpha1.ScaleDownRecord{
		Level: v1alpha1.LevelMetric, Order: v1alpha1.OrderAscending, Victims: []int32{1},
		Values: []v1alpha1.GroupValue{{ID: 0, Value: "4"}, {ID: 1, Value: "3"}, {ID: 2, Value: "5"}},
	})
	w.HasGroups(map[int32][2]int32{0: {1, 1}, 2: {1, 1}})
	for _, query := range env.Prometheus.Queries(w) {
		if !strings.Contains(query, `rsg_name="llm"`) || !strings.Contains(query, w.Base) {
			t.Errorf("the query is not narrowed to this group: %s", query)
		}
	}
}

// A namespace that is deleted takes its ResourceScalingGroup and its groups along. While it goes nothing can be made again in it,
// which is no failure, and nothing to try again.
func TestItsNamespaceGoes(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm").OneNamespace()
	w.CreateBase(1, 1)
	w.Create(w.RSG().Replicas(3).Obj())
	w.Settled(3)
	w.Delete(&corev1.Namespace{}, "", w.Namespace)
	w.WaitGone(&corev1.Namespace{}, "", w.Namespace)
	log, err := os.ReadFile(filepath.Clean(w.Manager.LogFile()))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(log), "\n") {
		if strings.Contains(line, "Reconciler error") && strings.Contains(line, w.Namespace) {
			t.Errorf("the log has %s", line)
		}
	}
}
