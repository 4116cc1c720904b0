package resourcescalinggroup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/test/resourcescalinggroup/rsgtest"
)

const name = "llm-prefill-decode-group"

// The user guide's main example, from the first apply to the deletion of the ResourceScalingGroup.
func TestStory(t *testing.T) {
	t.Parallel()
	env.Prometheus.Needed(t)
	w := env.World(t, name)
	w.CreateBase(2, 3)
	waitAvailable(w, w.Base, "llm-prefill", "llm-decode")
	before := readBase(w)
	podsBefore := w.UIDs()

	w.Create(w.RSG().Replicas(2).Metric(rsgtest.Metric).Order(v1alpha1.OrderAscending).Obj())
	w.Settled(2)
	w.HasGroups(map[int32][2]int32{0: {2, 3}, 1: {2, 3}})
	checkLabels(w, 0)
	checkLabels(w, 1)
	checkRecords(w)
	checkBaseUntouched(w, before)
	checkKept(w, podsBefore)
	w.Condition(v1alpha1.ConditionScalable, metav1.ConditionFalse, v1alpha1.ReasonBaseInOtherNamespace)
	w.Event("Normal", v1alpha1.EventSnapshotCreated, "2 targets and 2 Services")
	w.Event("Normal", v1alpha1.EventReplicaConfigCreated)
	w.Event("Normal", v1alpha1.EventGroupCreated, "group 1", "4 objects")

	w.ScaleTo(4)
	w.Settled(4)
	w.HasGroups(map[int32][2]int32{0: {2, 3}, 1: {2, 3}, 2: {2, 3}, 3: {2, 3}})
	scale := &autoscalingv1.Scale{}
	if err := w.Client.SubResource("scale").Get(t.Context(), w.Live(), scale); err != nil {
		t.Fatal(err)
	}
	wantScale := autoscalingv1.ScaleStatus{Replicas: 4, Selector: v1alpha1.LabelScaleUnit + "=" + name}
	if diff := cmp.Diff(wantScale, scale.Status); diff != "" {
		t.Errorf("status of the scale subresource (-want +got):\n%s", diff)
	}
	checkBaseUntouched(w, before)
	checkKept(w, podsBefore)

	// The two groups with the smallest values go: one from the middle, and group 0 to zero.
	w.Pin(map[int32]float64{0: 1, 1: 5, 2: 2, 3: 7})
	w.ScaleTo(2)
	rsg := w.Settled(2)
	w.HasGroups(map[int32][2]int32{0: {0, 0}, 1: {2, 3}, 3: {2, 3}})
	checkScaleDown(t, rsg, v1alpha1.ScaleDownRecord{
		Level: v1alpha1.LevelMetric, Order: v1alpha1.OrderAscending, Victims: []int32{0, 2},
		Values: []v1alpha1.GroupValue{{ID: 0, Value: "1"}, {ID: 1, Value: "5"}, {ID: 2, Value: "2"}, {ID: 3, Value: "7"}},
	})
	w.Event("Normal", v1alpha1.EventScaleDown, "removing groups 0, 2", "Metric", "0=1 1=5 2=2 3=7")
	w.Event("Normal", v1alpha1.EventGroupRemoved, "removed group 2")
	w.Event("Normal", v1alpha1.EventGroupRemoved, "group 0 is at zero")
	w.Condition(v1alpha1.ConditionScaleDownMetric, metav1.ConditionTrue, v1alpha1.ReasonMetricUsed)
	checkBaselineAnnotations(w, "2", "3")

	// All groups go; then group 0 comes back first, with what was recorded.
	w.ScaleTo(0)
	w.Settled(0)
	w.HasGroups(map[int32][2]int32{0: {0, 0}})
	w.ScaleTo(2)
	w.Settled(2)
	w.HasGroups(map[int32][2]int32{0: {2, 3}, 1: {2, 3}})
	checkBaselineAnnotations(w, "", "")
	w.Event("Normal", v1alpha1.EventGroupRecovered)
	checkTemplateUntouched(w, before)

	// New groups follow the ConfigMap, old ones stay.
	rsgtest.Update(w, &corev1.ConfigMap{}, w.Namespace, name+"-replica-config", func(cm *corev1.ConfigMap) {
		cm.Data["prefill"], cm.Data["decode"] = "1", "1"
	})
	w.Until("the edited counts", func(rsg *v1alpha1.ResourceScalingGroup) error {
		for _, target := range rsg.Status.Targets {
			if target.BaselineReplicas == nil || *target.BaselineReplicas != 1 {
				return fmt.Errorf("target %s does not show 1", target.Name)
			}
		}
		return nil
	})
	w.ScaleTo(3)
	w.Settled(3)
	w.HasGroups(map[int32][2]int32{0: {2, 3}, 1: {2, 3}, 2: {1, 1}})

	checkDeleteAndRecreate(w)
}

// checkDeleteAndRecreate deletes a ResourceScalingGroup of 3 groups and creates it again.
func checkDeleteAndRecreate(w *rsgtest.World) {
	t := w.T
	t.Helper()
	kept := w.UIDs()
	w.Delete(&v1alpha1.ResourceScalingGroup{}, w.Namespace, name)
	w.WaitGone(&corev1.ConfigMap{}, w.Namespace, name+"-replica-config")
	testkit.Eventually(t, rsgtest.Patience, "the snapshots to be gone", func(ctx context.Context) error {
		var list appsv1.ControllerRevisionList
		if err := w.Client.List(ctx, &list, client.InNamespace(w.Namespace)); err != nil {
			return err
		}
		if len(list.Items) > 0 {
			return fmt.Errorf("there are %d", len(list.Items))
		}
		return nil
	})
	if diff := cmp.Diff(kept, w.UIDs()); diff != "" {
		t.Fatalf("what stays after the ResourceScalingGroup is deleted (-before +after):\n%s", diff)
	}

	w.Create(w.RSG().Replicas(3).Obj())
	w.Settled(3)
	if diff := cmp.Diff(kept, w.UIDs()); diff != "" {
		t.Fatalf("what there is after it was created again (-before +after):\n%s", diff)
	}
}

func waitAvailable(w *rsgtest.World, namespace string, names ...string) {
	w.T.Helper()
	for _, n := range names {
		testkit.Eventually(w.T, rsgtest.Patience, n+" to be available", func(ctx context.Context) error {
			d := &appsv1.Deployment{}
			if err := w.Exists(ctx, d, namespace, n); err != nil {
				return err
			}
			if d.Status.ObservedGeneration != d.Generation || d.Status.AvailableReplicas != *d.Spec.Replicas {
				return fmt.Errorf("%d of %d replicas are available", d.Status.AvailableReplicas, *d.Spec.Replicas)
			}
			return nil
		})
	}
}

func readBase(w *rsgtest.World) map[string]*appsv1.Deployment {
	w.T.Helper()
	out := map[string]*appsv1.Deployment{}
	for _, n := range []string{"llm-prefill", "llm-decode"} {
		out[n] = &appsv1.Deployment{}
		w.Read(out[n], w.Base, n)
	}
	return out
}

// checkBaseUntouched compares the spec of the user's own workloads, and its generation, with what they were.
func checkBaseUntouched(w *rsgtest.World, before map[string]*appsv1.Deployment) {
	w.T.Helper()
	for n, now := range readBase(w) {
		if diff := cmp.Diff(before[n].Spec, now.Spec); diff != "" {
			w.T.Errorf("spec of %s (-before +after):\n%s", n, diff)
		}
		if now.Generation != before[n].Generation {
			w.T.Errorf("generation of %s went from %d to %d", n, before[n].Generation, now.Generation)
		}
	}
	checkTemplateUntouched(w, before)
}

// checkTemplateUntouched checks that the pod templates are what they were, and that no ReplicaSet came.
func checkTemplateUntouched(w *rsgtest.World, before map[string]*appsv1.Deployment) {
	w.T.Helper()
	for n, now := range readBase(w) {
		if diff := cmp.Diff(before[n].Spec.Template, now.Spec.Template); diff != "" {
			w.T.Errorf("pod template of %s (-before +after):\n%s", n, diff)
		}
	}
	var list appsv1.ReplicaSetList
	if err := w.Client.List(w.T.Context(), &list, client.InNamespace(w.Base)); err != nil {
		w.T.Fatal(err)
	}
	if len(list.Items) != 2 {
		w.T.Errorf("the two base workloads have %d ReplicaSets", len(list.Items))
	}
}

// checkKept checks that all of it is still there.
func checkKept(w *rsgtest.World, before map[string]types.UID) {
	w.T.Helper()
	after := w.UIDs()
	maps.DeleteFunc(after, func(key string, _ types.UID) bool { _, was := before[key]; return !was })
	if diff := cmp.Diff(before, after); diff != "" {
		w.T.Errorf("what was there first (-before +after):\n%s", diff)
	}
}

// checkLabels checks the labels of everything in a group, and who selects whom.
func checkLabels(w *rsgtest.World, id int32) {
	t := w.T
	t.Helper()
	want := map[string]string{
		v1alpha1.LabelName: w.Name, v1alpha1.LabelNamespace: w.Namespace,
		v1alpha1.LabelGroupName: "Prefill-Decode", v1alpha1.LabelGroupID: fmt.Sprint(id),
	}
	for _, original := range []string{"llm-prefill", "llm-decode"} {
		namespace, workload := w.Base, original
		selector := map[string]string{"app": original}
		if id != 0 {
			namespace, workload = w.Namespace, fmt.Sprintf("prefill-decode-%s-%d", original, id)
			for _, key := range []string{v1alpha1.LabelName, v1alpha1.LabelNamespace, v1alpha1.LabelGroupID} {
				selector[key] = want[key]
			}
		}
		d := &appsv1.Deployment{}
		w.Read(d, namespace, workload)
		wantLabels := maps.Clone(want)
		wantLabels["app"] = original
		if diff := cmp.Diff(wantLabels, d.Labels); diff != "" {
			t.Errorf("labels of Deployment %s (-want +got):\n%s", workload, diff)
		}
		if diff := cmp.Diff(selector, d.Spec.Selector.MatchLabels); diff != "" {
			t.Errorf("selector of Deployment %s (-want +got):\n%s", workload, diff)
		}
		if len(d.OwnerReferences) != 0 {
			t.Errorf("Deployment %s has owners: %v", workload, d.OwnerReferences)
		}
		// The pods of group 0 are labelled while they live, so shortly after.
		testkit.Eventually(t, rsgtest.Patience, "the labels of the pods of "+workload, func(ctx context.Context) error {
			return podsOfHaveLabels(ctx, w, d, wantLabels)
		})
		if id == 0 {
			continue
		}
		svc := &corev1.Service{}
		w.Read(svc, w.Namespace, fmt.Sprintf("%s-prefill-decode-%d", original, id))
		if diff := cmp.Diff(wantLabels, svc.Labels); diff != "" {
			t.Errorf("labels of Service %s (-want +got):\n%s", svc.Name, diff)
		}
		if diff := cmp.Diff(selector, svc.Spec.Selector); diff != "" {
			t.Errorf("selector of Service %s (-want +got):\n%s", svc.Name, diff)
		}
		if svc.Spec.ClusterIP == "" || len(svc.OwnerReferences) != 0 {
			t.Errorf("Service %s: cluster IP %q, owners %v", svc.Name, svc.Spec.ClusterIP, svc.OwnerReferences)
		}
	}
}

func podsOfHaveLabels(ctx context.Context, w *rsgtest.World, d *appsv1.Deployment, want map[string]string) error {
	var pods corev1.PodList
	if err := w.Client.List(ctx, &pods, client.InNamespace(d.Namespace), client.MatchingLabels(d.Spec.Template.Labels)); err != nil {
		return err
	}
	if len(pods.Items) != int(*d.Spec.Replicas) {
		return fmt.Errorf("there are %d pods, want %d", len(pods.Items), *d.Spec.Replicas)
	}
	for _, pod := range pods.Items {
		got := maps.Clone(pod.Labels)
		delete(got, "pod-template-hash")
		delete(got, v1alpha1.LabelScaleUnit)
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("labels of %s (-want +got):\n%s", pod.Name, diff)
		}
	}
	return nil
}

// checkRecords checks the snapshot and the ConfigMap with the counts.
func checkRecords(w *rsgtest.World) {
	t := w.T
	t.Helper()
	rsg := w.Live()
	labels := map[string]string{v1alpha1.LabelName: w.Name, v1alpha1.LabelNamespace: w.Namespace}
	var revisions appsv1.ControllerRevisionList
	if err := w.Client.List(t.Context(), &revisions, client.InNamespace(w.Namespace)); err != nil {
		t.Fatal(err)
	}
	if len(revisions.Items) != 1 {
		t.Fatalf("there are %d ControllerRevisions, want 1", len(revisions.Items))
	}
	revision := &revisions.Items[0]
	if rsg.Status.Revision != revision.Name || !strings.HasPrefix(revision.Name, w.Name+"-") {
		t.Errorf("status.revision is %q, the ControllerRevision is %q", rsg.Status.Revision, revision.Name)
	}
	if !json.Valid(revision.Data.Raw) {
		t.Errorf("the snapshot is no JSON: %s", revision.Data.Raw)
	}
	cm := &corev1.ConfigMap{}
	w.Read(cm, w.Namespace, w.Name+"-replica-config")
	if diff := cmp.Diff(map[string]string{"prefill": "2", "decode": "3"}, cm.Data); diff != "" {
		t.Errorf("data of the replica ConfigMap (-want +got):\n%s", diff)
	}
	for _, obj := range []client.Object{revision, cm} {
		if diff := cmp.Diff(labels, obj.GetLabels()); diff != "" {
			t.Errorf("labels of %T (-want +got):\n%s", obj, diff)
		}
		if !metav1.IsControlledBy(obj, rsg) {
			t.Errorf("%T has owners %v, want the ResourceScalingGroup", obj, obj.GetOwnerReferences())
		}
	}
}

func checkScaleDown(t testing.TB, rsg *v1alpha1.ResourceScalingGroup, want v1alpha1.ScaleDownRecord) {
	t.Helper()
	if rsg.Status.LastScaleDown == nil {
		t.Fatal("there is no status.lastScaleDown")
	}
	got := *rsg.Status.LastScaleDown
	if got.Time.IsZero() {
		t.Error("status.lastScaleDown has no time")
	}
	got.Time = want.Time
	got.Victims = slices.Clone(got.Victims)
	slices.Sort(got.Victims)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status.lastScaleDown (-want +got):\n%s", diff)
	}
}

// checkBaselineAnnotations checks the annotations on the base workloads; "" stands for none.
func checkBaselineAnnotations(w *rsgtest.World, prefill, decode string) {
	w.T.Helper()
	want := map[string]string{"llm-prefill": prefill, "llm-decode": decode}
	testkit.Eventually(w.T, rsgtest.Patience, "the annotations of group 0", func(ctx context.Context) error {
		for n, value := range want {
			d := &appsv1.Deployment{}
			if err := w.Exists(ctx, d, w.Base, n); err != nil {
				return err
			}
			if got := d.Annotations[v1alpha1.AnnotationBaselineReplicas]; got != value {
				return errors.New(n + " has " + v1alpha1.AnnotationBaselineReplicas + " " + got)
			}
		}
		return nil
	})
}
