package resourcescalinggroup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/test/resourcescalinggroup/rsgtest"
)

// groups is the counts of prefill and decode by group id.
type groups = map[int32][2]int32

// refused waits for Ready=False with the reason and the texts, and for the warning that says the same.
func refused(w *rsgtest.World, reason string, texts ...string) {
	w.T.Helper()
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, reason, texts...)
	w.Event("Warning", reason, texts...)
}

func TestUnknownTarget(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm")
	w.Create(testkit.MakeService(w.Base, "llm-prefill", "llm-prefill"), testkit.MakeDeployment(w.Base, "llm-prefill").Obj())
	w.Create(w.RSG().Replicas(2).Obj())
	refused(w, v1alpha1.ReasonTargetNotFound, "target resource not found", "Deployment "+w.Base+"/llm-decode", `target "decode"`)
	w.Logged("target resource not found", w.Base+"/llm-decode")
	if diff := cmp.Diff(map[string]int32{"base/llm-prefill": 1}, w.Workloads()); diff != "" {
		t.Errorf("half a group was made (-want +got):\n%s", diff)
	}
	// It is told once, however often it is found.
	for n := range int32(3) {
		w.ScaleTo(3 + n)
		w.Until("the pass over the change", func(rsg *v1alpha1.ResourceScalingGroup) error {
			if ready := meta.FindStatusCondition(rsg.Status.Conditions, v1alpha1.ConditionReady); ready.ObservedGeneration != rsg.Generation {
				return fmt.Errorf("generation %d of %d was looked at", ready.ObservedGeneration, rsg.Generation)
			}
			return nil
		})
	}
	if n := w.EventsOf(v1alpha1.ReasonTargetNotFound); n != 1 {
		t.Errorf("the missing target was told %d times, want once", n)
	}
	w.ScaleTo(2)

	w.Create(testkit.MakeService(w.Base, "llm-decode", "llm-decode"), testkit.MakeDeployment(w.Base, "llm-decode").Replicas(2).Obj())
	w.Settled(2)
	w.HasGroups(groups{0: {1, 2}, 1: {1, 2}})
}

func TestBaseDeletedLater(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm")
	w.CreateBase(1, 1)
	w.Create(w.RSG().Replicas(2).Obj())
	w.Settled(2)
	w.Delete(&appsv1.Deployment{}, w.Base, "llm-decode")
	refused(w, v1alpha1.ReasonTargetNotFound, "target resource not found")
	w.ScaleTo(3)
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonTargetNotFound)
	w.Create(testkit.MakeDeployment(w.Base, "llm-decode").Obj())
	w.Settled(3)
	w.HasGroups(groups{0: {1, 1}, 1: {1, 1}, 2: {1, 1}})
}

func TestNameTooLong(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		deployment, service string
		reason, want        string
	}{
		"a clone's workload would have more than 253 characters": {
			deployment: strings.Repeat("a", 240), service: "llm-prefill", reason: v1alpha1.ReasonInvalidSpec, want: "must be at most 253",
		},
		"a clone's Service would have more than 63 characters": {
			deployment: "llm-prefill", service: strings.Repeat("s", 50), reason: v1alpha1.ReasonInvalidName, want: "63 characters",
		},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			w := env.World(t, "llm")
			d := testkit.MakeDeployment(w.Base, "llm-prefill").Obj()
			d.Name = tc.deployment
			w.Create(d, testkit.MakeService(w.Base, tc.service, "llm-prefill"))
			w.Create(testkit.MakeRSG(w.Namespace, w.Name).Target("prefill", w.Base, tc.deployment).GroupName("Prefill-Decode").Replicas(2).Obj())
			refused(w, tc.reason, tc.want, "Prefill-Decode")
			if diff := cmp.Diff(map[string]int32{"base/" + tc.deployment: 1}, w.Workloads()); diff != "" {
				t.Errorf("workloads (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"base/" + tc.service}, w.Services()); diff != "" {
				t.Errorf("Services (-want +got):\n%s", diff)
			}
		})
	}
}

// An object of somebody else has a name that a clone needs. It is left alone, the other groups are made, and once it is
// gone the group is completed by itself.
func TestCloneNameTaken(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		foreign func(w *rsgtest.World) client.Object
		empty   client.Object
	}{
		"by a Deployment": {
			foreign: func(w *rsgtest.World) client.Object {
				return testkit.MakeDeployment(w.Namespace, "prefill-decode-llm-decode-1").Replicas(2).Obj()
			},
			empty: &appsv1.Deployment{},
		},
		"by a Service": {
			foreign: func(w *rsgtest.World) client.Object {
				return testkit.MakeService(w.Namespace, "llm-decode-prefill-decode-1", "other")
			},
			empty: &corev1.Service{},
		},
		"by a clone of another ResourceScalingGroup": {
			foreign: func(w *rsgtest.World) client.Object {
				return testkit.MakeDeployment(w.Namespace, "prefill-decode-llm-decode-1").
					Label(v1alpha1.LabelName, "other").Label(v1alpha1.LabelNamespace, w.Namespace).
					Label(v1alpha1.LabelGroupName, "Prefill-Decode").Label(v1alpha1.LabelGroupID, "1").Obj()
			},
			empty: &appsv1.Deployment{},
		},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			w := env.World(t, "llm")
			w.CreateBase(1, 1)
			foreign := tc.foreign(w)
			w.Create(foreign)
			w.Create(w.RSG().Replicas(3).Obj())
			refused(w, v1alpha1.ReasonNameConflict, foreign.GetNamespace()+"/"+foreign.GetName(), "already exists", "rename or delete it")
			w.Logged("already exists", foreign.GetName())
			w.Until("groups 0 and 2", func(rsg *v1alpha1.ResourceScalingGroup) error {
				if rsg.Status.CurrentReplicas == nil || *rsg.Status.CurrentReplicas != 2 {
					return errors.New("there are not two whole groups")
				}
				return nil
			})
			now := tc.empty.DeepCopyObject().(client.Object)
			w.Read(now, w.Namespace, foreign.GetName())
			if diff := cmp.Diff(foreign.GetLabels(), now.GetLabels()); diff != "" || now.GetUID() != foreign.GetUID() || now.GetGeneration() != foreign.GetGeneration() {
				t.Errorf("the foreign object was touched: UID %s to %s, generation %d to %d, labels (-before +after):\n%s",
					foreign.GetUID(), now.GetUID(), foreign.GetGeneration(), now.GetGeneration(), diff)
			}

			w.Delete(tc.empty, w.Namespace, foreign.GetName())
			w.Settled(3)
			w.HasGroups(groups{0: {1, 1}, 1: {1, 1}, 2: {1, 1}})
		})
	}
}

// A foreign ConfigMap is left alone, and no group is made while the counts cannot be recorded. Nothing watches the
// ConfigMaps of others, so the end of the conflict is seen within a minute.
func TestReplicaConfigNameTaken(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm")
	w.CreateBase(1, 1)
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "llm-replica-config"}, Data: map[string]string{"prefill": "9"}}
	w.Create(foreign)
	w.Create(w.RSG().Replicas(2).Obj())
	refused(w, v1alpha1.ReasonNameConflict, "ConfigMap "+w.Namespace+"/llm-replica-config", "rename or delete it")
	w.HasGroups(groups{0: {1, 1}})
	now := &corev1.ConfigMap{}
	w.Read(now, w.Namespace, foreign.Name)
	if now.ResourceVersion != foreign.ResourceVersion {
		t.Errorf("the foreign ConfigMap was written: %v", now)
	}
	w.Delete(&corev1.ConfigMap{}, w.Namespace, foreign.Name)
	w.Settled(2)
	waitReplicaConfig(w, map[string]string{"prefill": "1", "decode": "1"})
	w.HasGroups(groups{0: {1, 1}, 1: {1, 1}})
}

// What users can write into the ConfigMap that is no count. The groups that exist stay, none is made, and a corrected
// value is followed.
func TestReplicaConfigInvalid(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"x", "-1", "0", "", "1.5", "2147483648"} {
		t.Run(fmt.Sprintf("%q", value), func(t *testing.T) {
			t.Parallel()
			w := env.World(t, "llm")
			w.CreateBase(1, 1)
			w.Create(w.RSG().Replicas(2).Obj())
			w.Settled(2)
			setReplicaConfig(w, "decode", value)
			refused(w, v1alpha1.ReasonReplicaConfigInvalid, "llm-replica-config", `data["decode"] is "`+value+`"`, "must be a whole number from 1")
			w.ScaleTo(3)
			w.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonReplicaConfigInvalid)
			w.HasGroups(groups{0: {1, 1}, 1: {1, 1}})
			setReplicaConfig(w, "decode", " 2 ")
			w.Settled(3)
			w.HasGroups(groups{0: {1, 1}, 1: {1, 1}, 2: {1, 2}})
		})
	}
}

func setReplicaConfig(w *rsgtest.World, key, value string) {
	w.T.Helper()
	rsgtest.Update(w, &corev1.ConfigMap{}, w.Namespace, w.Name+"-replica-config", func(cm *corev1.ConfigMap) {
		if cm.Data == nil {
			cm.Data = map[string]string{}
		}
		cm.Data[key] = value
	})
}

// The records are made again from the base as it is now, and from its annotation while it stands at zero.
func TestReplicaConfigEmptiedOrDeleted(t *testing.T) {
	t.Parallel()
	remove := map[string]func(w *rsgtest.World){
		"emptied": func(w *rsgtest.World) {
			rsgtest.Update(w, &corev1.ConfigMap{}, w.Namespace, "llm-replica-config", func(cm *corev1.ConfigMap) { cm.Data = nil })
		},
		"one entry deleted": func(w *rsgtest.World) {
			rsgtest.Update(w, &corev1.ConfigMap{}, w.Namespace, "llm-replica-config", func(cm *corev1.ConfigMap) { delete(cm.Data, "decode") })
		},
		"deleted": func(w *rsgtest.World) { w.Delete(&corev1.ConfigMap{}, w.Namespace, "llm-replica-config") },
	}
	for sentence, do := range remove {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			w := env.World(t, "llm")
			w.CreateBase(2, 1)
			w.Create(w.RSG().Replicas(1).Obj())
			w.Settled(1)
			do(w)
			waitReplicaConfig(w, map[string]string{"prefill": "2", "decode": "1"})
			w.ScaleTo(0)
			w.Settled(0)
			do(w)
			waitReplicaConfig(w, map[string]string{"prefill": "2", "decode": "1"})
			w.ScaleTo(2)
			w.Settled(2)
			w.HasGroups(groups{0: {2, 1}, 1: {2, 1}})
		})
	}
}

func waitReplicaConfig(w *rsgtest.World, want map[string]string) {
	w.T.Helper()
	testkit.Eventually(w.T, rsgtest.Patience, "the counts in the replica ConfigMap", func(ctx context.Context) error {
		cm := &corev1.ConfigMap{}
		if err := w.Exists(ctx, cm, w.Namespace, w.Name+"-replica-config"); err != nil {
			return err
		}
		if !maps.Equal(cm.Data, want) {
			return fmt.Errorf("they are %v", cm.Data)
		}
		return nil
	})
}

// An edited base is shown as drift, and new groups follow it only once the user deletes the records.
func TestSnapshotDriftAndRenewal(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm")
	w.CreateBase(1, 1)
	w.Create(w.RSG().Replicas(2).Obj())
	first := w.Settled(2).Status.Revision
	waitDrift(w, map[string]bool{"prefill": false, "decode": false})

	rsgtest.Update(w, &appsv1.Deployment{}, w.Base, "llm-prefill", func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Image = "example.org/engine:2"
		*d.Spec.Replicas = 2
	})
	waitDrift(w, map[string]bool{"prefill": true, "decode": false})
	w.ScaleTo(3)
	w.Settled(3)
	w.HasGroups(groups{0: {2, 1}, 1: {1, 1}, 2: {1, 1}})
	checkImage(w, 2, "example.org/engine:1")

	// At zero, so that the count can come from the annotation only.
	w.Annotate(map[int32]string{0: "1", 1: "5", 2: "5"})
	w.ScaleTo(2)
	w.Settled(2)
	w.HasGroups(groups{0: {0, 0}, 1: {1, 1}, 2: {1, 1}})
	w.Delete(&appsv1.ControllerRevision{}, w.Namespace, first)
	w.Delete(&corev1.ConfigMap{}, w.Namespace, "llm-replica-config")
	waitDrift(w, map[string]bool{"prefill": false, "decode": false})
	waitReplicaConfig(w, map[string]string{"prefill": "2", "decode": "1"})
	w.ScaleTo(4)
	rsg := w.Settled(4)
	w.HasGroups(groups{0: {2, 1}, 1: {1, 1}, 2: {1, 1}, 3: {2, 1}})
	checkImage(w, 2, "example.org/engine:1")
	checkImage(w, 3, "example.org/engine:2")
	if rsg.Status.Revision == first {
		t.Errorf("status.revision is still %q", first)
	}
}

func waitDrift(w *rsgtest.World, want map[string]bool) {
	w.T.Helper()
	w.Until(fmt.Sprintf("drift %v", want), func(rsg *v1alpha1.ResourceScalingGroup) error {
		for _, target := range rsg.Status.Targets {
			if target.SnapshotDrift == nil || *target.SnapshotDrift != want[target.Name] {
				return fmt.Errorf("target %s does not show it", target.Name)
			}
		}
		return nil
	})
}

func checkImage(w *rsgtest.World, id int, want string) {
	w.T.Helper()
	d := &appsv1.Deployment{}
	w.Read(d, w.Namespace, fmt.Sprintf("prefill-decode-llm-prefill-%d", id))
	if got := d.Spec.Template.Spec.Containers[0].Image; got != want {
		w.T.Errorf("group %d runs %s, want %s", id, got, want)
	}
}

// Base workloads that stand at zero when they are adopted: nobody knows how many they should be, so nothing is made
// until somebody says so.
func TestBaseFoundAtZero(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		prefill, decode int32
		say             func(w *rsgtest.World)
		want            groups
	}{
		"all at zero, the ConfigMap is edited": {
			say:  func(w *rsgtest.World) { setReplicaConfig(w, "prefill", "2"); setReplicaConfig(w, "decode", "1") },
			want: groups{0: {2, 1}, 1: {2, 1}},
		},
		"one at zero, the ConfigMap is edited": {
			prefill: 1,
			say:     func(w *rsgtest.World) { setReplicaConfig(w, "decode", "2") },
			want:    groups{0: {1, 2}, 1: {1, 2}},
		},
		"all at zero, the base is scaled up": {
			say: func(w *rsgtest.World) {
				scaleDeployment(w, w.Base, "llm-prefill", 2)
				scaleDeployment(w, w.Base, "llm-decode", 1)
			},
			want: groups{0: {2, 1}, 1: {2, 1}},
		},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			w := env.World(t, "llm")
			w.CreateBase(tc.prefill, tc.decode)
			w.Create(w.RSG().Replicas(2).Obj())
			w.Condition(v1alpha1.ConditionBaselineUnknown, metav1.ConditionTrue, v1alpha1.ReasonFoundAtZero, "decode", "llm-replica-config")
			refused(w, v1alpha1.ReasonBaselineUnknown, "decode")
			w.HasGroups(groups{0: {tc.prefill, tc.decode}})
			if n := w.Live().Status.CurrentReplicas; n == nil || *n != 0 {
				t.Errorf("status.currentReplicas counts group 0, which has no pods")
			}
			tc.say(w)
			w.Settled(2)
			w.HasGroups(tc.want)
			w.Condition(v1alpha1.ConditionBaselineUnknown, metav1.ConditionFalse, v1alpha1.ReasonBaselineRecorded)
		})
	}
}

func scaleDeployment(w *rsgtest.World, namespace, name string, replicas int32) {
	w.T.Helper()
	rsgtest.Update(w, &appsv1.Deployment{}, namespace, name, func(d *appsv1.Deployment) { d.Spec.Replicas = &replicas })
}

// Whatever of a clone somebody deletes is made again, and the rest of the group is not touched.
func TestHalfDeletedCloneIsRepaired(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm")
	w.CreateBase(1, 1)
	w.Create(w.RSG().Replicas(3).Obj())
	w.Settled(3)
	before := w.UIDs()
	w.Delete(&appsv1.Deployment{}, w.Namespace, "prefill-decode-llm-decode-1")
	w.Delete(&corev1.Service{}, w.Namespace, "llm-prefill-prefill-decode-2")
	testkit.Eventually(t, rsgtest.Patience, "both to be made again", func(ctx context.Context) error {
		d, svc := &appsv1.Deployment{}, &corev1.Service{}
		return errors.Join(
			isOther(w.Exists(ctx, d, w.Namespace, "prefill-decode-llm-decode-1"), d, before["Deployment prefill-decode-llm-decode-1"]),
			isOther(w.Exists(ctx, svc, w.Namespace, "llm-prefill-prefill-decode-2"), svc, before["Service llm-prefill-prefill-decode-2"]),
		)
	})
	w.Settled(3)
	w.HasGroups(groups{0: {1, 1}, 1: {1, 1}, 2: {1, 1}})
	after := w.UIDs()
	for key, uid := range before {
		if after[key] != uid && !strings.Contains(key, "llm-decode-1") && key != "Service llm-prefill-prefill-decode-2" {
			t.Errorf("%s was replaced", key)
		}
	}
}

func isOther(err error, obj client.Object, uid types.UID) error {
	if err == nil && obj.GetUID() == uid {
		return errors.New(obj.GetName() + " is still the old one")
	}
	return err
}

// What users set on members of a group stays.
func TestCountsOfUsersStay(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm")
	w.CreateBase(1, 1)
	w.Create(w.RSG().Replicas(2).Obj())
	w.Settled(2)
	scaleDeployment(w, w.Namespace, "prefill-decode-llm-prefill-1", 3)
	scaleDeployment(w, w.Base, "llm-decode", 0)
	// Group 0 stays counted and is not ready; nobody recovers what a user took to zero.
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonReplicasUnavailable, "1 of 2 groups")
	w.ScaleTo(3)
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonReplicasUnavailable, "2 of 3 groups")
	w.HasGroups(groups{0: {1, 0}, 1: {3, 1}, 2: {1, 1}})
	if n := *w.Live().Status.CurrentReplicas; n != 3 {
		t.Errorf("status.currentReplicas is %d, want 3", n)
	}
	scaleDeployment(w, w.Base, "llm-decode", 1)
	w.Settled(3)
	w.HasGroups(groups{0: {1, 1}, 1: {3, 1}, 2: {1, 1}})
}

// A status that is not what the controller last found, whoever wrote it, is put right though nothing else happens.
func TestStatusIsPutRight(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm")
	w.CreateBase(1, 1)
	w.Create(w.RSG().Replicas(2).Obj())
	rsg := w.Settled(2)
	meta.SetStatusCondition(&rsg.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonProgressing})
	rsg.Status.Selector = "app=other"
	if err := w.Client.Status().Update(t.Context(), rsg); err != nil {
		t.Fatal(err)
	}
	if rsg = w.Settled(2); rsg.Status.Selector != v1alpha1.LabelScaleUnit+"=llm" {
		t.Errorf("status.selector is %q", rsg.Status.Selector)
	}
}

// Only the last of several quick changes counts.
func TestRapidChanges(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm")
	w.CreateBase(1, 1)
	w.Create(w.RSG().Replicas(2).Obj())
	w.Settled(2)
	for _, n := range []int32{5, 1, 4} {
		w.ScaleTo(n)
	}
	rsg := w.Settled(4)
	want := groups{}
	for _, id := range rsgtest.GroupIDs(rsg) {
		want[id] = [2]int32{1, 1}
	}
	if len(want) != 4 {
		t.Fatalf("the groups are %v", rsgtest.GroupIDs(rsg))
	}
	w.HasGroups(want)
	for _, n := range []int32{0, 3, 1, 0, 2} {
		w.ScaleTo(n)
	}
	rsg = w.Settled(2)
	want = groups{}
	for _, id := range rsgtest.GroupIDs(rsg) {
		want[id] = [2]int32{1, 1}
	}
	w.HasGroups(want)
}

// A victim that does not go keeps its id and delays nothing else.
func TestTerminatingGroupKeepsItsID(t *testing.T) {
	t.Parallel()
	const hold = "example.org/hold"
	w := env.World(t, "llm")
	w.CreateBase(1, 1)
	w.Create(w.RSG().Replicas(4).Obj())
	w.Settled(4)
	rsgtest.Update(w, &appsv1.Deployment{}, w.Namespace, "prefill-decode-llm-prefill-1", func(d *appsv1.Deployment) {
		d.Finalizers = append(d.Finalizers, hold)
	})
	release := func() {
		rsgtest.Update(w, &appsv1.Deployment{}, w.Namespace, "prefill-decode-llm-prefill-1", func(d *appsv1.Deployment) {
			d.Finalizers = nil
		})
	}
	w.Annotate(map[int32]string{0: "5", 1: "1", 2: "5", 3: "5"})
	w.ScaleTo(3)
	w.Until("group 1 to be on its way out", func(rsg *v1alpha1.ResourceScalingGroup) error {
		for _, g := range rsg.Status.Groups {
			if g.ID == 1 && g.Phase == v1alpha1.GroupRemoving && len(g.Targets) == 1 {
				return nil
			}
		}
		return fmt.Errorf("groups are %+v", rsg.Status.Groups)
	})
	w.ScaleTo(4)
	w.Until("four groups beside it", func(rsg *v1alpha1.ResourceScalingGroup) error {
		if *rsg.Status.CurrentReplicas != 4 || *rsg.Status.ReadyReplicas != 4 {
			return fmt.Errorf("there are %d, ready %d", *rsg.Status.CurrentReplicas, *rsg.Status.ReadyReplicas)
		}
		return nil
	})
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonProgressing, "requeue for convergence", "group 1 is being removed")
	w.Logged("requeue for convergence", "group 1 is being removed")
	release()
	w.Settled(4)
	w.HasGroups(groups{0: {1, 1}, 2: {1, 1}, 3: {1, 1}, 4: {1, 1}})
}

// Kinds that cannot be replicated, at all or before the cluster serves them, are a condition and nothing else.
func TestKindsThatCannotBeReplicated(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ apiVersion, kind, wantReason, where string }{
		"a known kind of an unknown group":          {"example.org/v1", "Deployment", v1alpha1.ReasonInvalidSpec, "spec.targetResources[1].resourceRef.kind"},
		"a known kind that the cluster lacks (yet)": {"leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", v1alpha1.ReasonTargetKindNotServed, `target "decode"`},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			w := env.World(t, "llm")
			w.CreateBase(1, 1)
			w.Create(testkit.MakeRSG(w.Namespace, w.Name).Target("prefill", w.Base, "llm-prefill").
				TargetOfKind("decode", tc.apiVersion, tc.kind, w.Base, "llm-decode").GroupName("Prefill-Decode").Replicas(2).Obj())
			refused(w, tc.wantReason, tc.where, tc.kind)
			w.HasGroups(groups{0: {1, 1}})
		})
	}
}

// While it is paused, only the status is written.
func TestPaused(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm")
	w.CreateBase(1, 1)
	waitAvailable(w, w.Base, "llm-prefill", "llm-decode")
	before := readBase(w)
	w.Create(w.RSG().Replicas(2).Paused(true).Obj())
	w.Condition(v1alpha1.ConditionPaused, metav1.ConditionTrue, v1alpha1.ReasonPaused)
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonPaused, "1 of 2 groups")
	w.HasGroups(groups{0: {1, 1}})
	for n, now := range readBase(w) {
		if now.ResourceVersion != before[n].ResourceVersion {
			t.Errorf("%s was written: labels %v, annotations %v", n, now.Labels, now.Annotations)
		}
	}
	for _, list := range []client.ObjectList{&appsv1.ControllerRevisionList{}, &corev1.ConfigMapList{}} {
		if err := w.Client.List(t.Context(), list, client.InNamespace(w.Namespace), client.HasLabels{v1alpha1.LabelName}); err != nil {
			t.Fatal(err)
		}
		if meta.LenList(list) != 0 {
			t.Errorf("there are records: %T of %d", list, meta.LenList(list))
		}
	}

	pause := func(paused bool) {
		w.Edit(func(rsg *v1alpha1.ResourceScalingGroup) { rsg.Spec.Paused = &paused })
	}
	pause(false)
	w.Settled(2)
	w.HasGroups(groups{0: {1, 1}, 1: {1, 1}})
	if meta.FindStatusCondition(w.Live().Status.Conditions, v1alpha1.ConditionPaused) != nil {
		t.Error("there is still a condition Paused")
	}

	pause(true)
	w.Condition(v1alpha1.ConditionPaused, metav1.ConditionTrue, v1alpha1.ReasonPaused)
	w.ScaleTo(1)
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonPaused, "2 of 1 groups")
	w.HasGroups(groups{0: {1, 1}, 1: {1, 1}})
	pause(false)
	w.Settled(1)
	w.HasGroups(groups{0: {1, 1}})

	// However often it changes, the last word counts.
	for i := range 20 {
		pause(i%2 == 0)
	}
	w.ScaleTo(2)
	w.Settled(2)
	for i := range 21 {
		pause(i%2 == 0)
	}
	w.ScaleTo(1)
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonPaused, "2 of 1 groups")
	w.HasGroups(groups{0: {1, 1}, 1: {1, 1}})
}
