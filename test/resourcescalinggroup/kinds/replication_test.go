package kinds

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
)

func makeStatefulSet(namespace, name string, replicas int32) *appsv1.StatefulSet {
	d := testkit.MakeDeployment(namespace, name).Obj()
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: name, PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector: d.Spec.Selector, Template: d.Spec.Template,
		},
	}
}

func headless(namespace, name string) *corev1.Service {
	svc := testkit.MakeService(namespace, name, name)
	svc.Spec.ClusterIP = corev1.ClusterIPNone
	return svc
}

func TestStatefulSet(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm").OneNamespace()
	sts := makeStatefulSet(w.Namespace, "dec", 2)
	sts.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{
		ObjectMeta: metav1.ObjectMeta{Name: "cache"},
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}},
	}}
	// A claim that an earlier group 1 left behind. Nothing binds it here, so the pods of both wait and the clone is
	// looked at, not its readiness.
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "cache-pd-dec-1-0"}, Spec: sts.Spec.VolumeClaimTemplates[0].Spec}
	w.Create(claim, headless(w.Namespace, "dec"), sts)
	w.Create(testkit.MakeRSG(w.Namespace, w.Name).TargetOfKind("decode", "apps/v1", "StatefulSet", "", "dec").GroupName("pd").Replicas(2).Obj())

	clone := &appsv1.StatefulSet{}
	waitFor(w, "the clone", clone, w.Namespace, "pd-dec-1", func() error { return nil })
	if clone.Spec.ServiceName != "dec-pd-1" {
		t.Errorf("serviceName is %q, want the cloned Service dec-pd-1", clone.Spec.ServiceName)
	}
	svc := &corev1.Service{}
	w.Read(svc, w.Namespace, "dec-pd-1")
	if svc.Spec.ClusterIP != corev1.ClusterIPNone {
		t.Errorf("the clone of a headless Service has address %q", svc.Spec.ClusterIP)
	}
	w.Event("Normal", v1alpha1.EventClaimsFound, "cache-pd-dec-1-0")
}

func TestStatefulSetIsScaledAndRecovered(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm").OneNamespace()
	w.Create(headless(w.Namespace, "dec"), makeStatefulSet(w.Namespace, "dec", 2))
	w.Create(testkit.MakeRSG(w.Namespace, w.Name).TargetOfKind("decode", "apps/v1", "StatefulSet", "", "dec").GroupName("pd").Replicas(3).Obj())
	w.Settled(3)
	w.ScaleTo(0)
	w.Settled(0)
	base := &appsv1.StatefulSet{}
	w.Read(base, w.Namespace, "dec")
	if *base.Spec.Replicas != 0 || base.Annotations[v1alpha1.AnnotationBaselineReplicas] != "2" {
		t.Errorf("at zero the base has %d replicas and annotations %v", *base.Spec.Replicas, base.Annotations)
	}
	w.ScaleTo(1)
	w.Settled(1)
	waitFor(w, "the base to have its replicas and no mark", base, w.Namespace, "dec", func() error {
		if _, marked := base.Annotations[v1alpha1.AnnotationBaselineReplicas]; marked || *base.Spec.Replicas != 2 {
			return fmt.Errorf("%d replicas, annotations %v", *base.Spec.Replicas, base.Annotations)
		}
		return nil
	})
}

// A role of a RoleBasedGroup is reached through the workload that it runs as.
func TestRoleOfARoleBasedGroup(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm").OneNamespace()
	w.Create(headless(w.Namespace, "chat-decode"), makeStatefulSet(w.Namespace, "chat-decode", 1))
	rsg := testkit.MakeRSG(w.Namespace, w.Name).TargetOfKind("decode", "workloads.x-k8s.io/v1alpha1", "RoleBasedGroup", "", "chat").GroupName("pd").Replicas(2).Obj()
	rsg.Spec.TargetResources[0].ResourceRef.Subresource = &v1alpha1.Subresource{Type: v1alpha1.SubresourceRoleBasedGroup, RoleName: "decode"}
	w.Create(rsg)
	w.Settled(2)
	w.Read(&appsv1.StatefulSet{}, w.Namespace, "pd-chat-decode-1")
}

// The kind may come after the manager: until it is served there is a condition, and then the groups, without a restart.
func TestLeaderWorkerSet(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm").OneNamespace()
	w.Create(testkit.MakeRSG(w.Namespace, w.Name).TargetOfKind("decode", "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "", "dec").GroupName("pd").Replicas(2).Obj())
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonTargetKindNotServed, "LeaderWorkerSet", "install its CRD")
	pid := w.Manager.PID()

	if err := env.Lab.InstallCRDs(t.Context(), "testdata"); err != nil {
		t.Fatal(err)
	}
	standIn(t, w)
	w.Create(makeLWS(w.Namespace, "dec", 2))
	w.Settled(2)
	clone := newLWS()
	w.Read(clone, w.Namespace, "pd-dec-1")
	labels, _, _ := unstructured.NestedStringMap(clone.Object, "spec", "leaderWorkerTemplate", "workerTemplate", "metadata", "labels")
	if labels[v1alpha1.LabelGroupID] != "1" {
		t.Errorf("the worker template of the clone has labels %v", labels)
	}
	if _, exists, _ := unstructured.NestedMap(clone.Object, "spec", "leaderWorkerTemplate", "leaderTemplate"); exists {
		t.Error("the clone got a leader template that the original does not have")
	}
	w.Until("one leader of each group to stand for it", func(*v1alpha1.ResourceScalingGroup) error {
		pods, err := w.Pods(t.Context(), map[string]string{v1alpha1.LabelScaleUnit: w.Name})
		if err != nil {
			return err
		}
		if len(pods) != 2 {
			return fmt.Errorf("%d pods carry the mark", len(pods))
		}
		return nil
	})
	w.ScaleTo(0)
	w.Settled(0)
	w.ScaleTo(2)
	w.Settled(2)
	if w.Manager.PID() != pid {
		t.Error("the manager was restarted")
	}
}

func TestReferencesOfTemplates(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm")
	d := testkit.MakeDeployment(w.Base, "llm-prefill").Obj()
	d.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "engine"}}}}
	d.Spec.Template.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
	w.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.Base, Name: "engine"}}, d)
	w.Create(testkit.MakeRSG(w.Namespace, w.Name).Target("prefill", w.Base, "llm-prefill").GroupName("pd").Replicas(2).Obj())
	w.Condition(v1alpha1.ConditionTemplateReferences, metav1.ConditionFalse, v1alpha1.ReasonReferencesMissing, "ConfigMap engine", "Secret registry", w.Namespace)
	w.Event("Warning", v1alpha1.ReasonReferencesMissing, "ConfigMap engine", "Secret registry")

	w.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "engine"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "registry"}})
	w.ScaleTo(3)
	w.Condition(v1alpha1.ConditionTemplateReferences, metav1.ConditionTrue, v1alpha1.ReasonReferencesFound)
}

// Of two ResourceScalingGroups over one workload the older has it, and the other takes over when that one goes.
func TestTwoOverOneWorkload(t *testing.T) {
	t.Parallel()
	w := env.World(t, "first").OneNamespace()
	w.Create(testkit.MakeDeployment(w.Namespace, "llm-prefill").Obj())
	w.Create(testkit.MakeRSG(w.Namespace, "first").Target("prefill", "", "llm-prefill").GroupName("one").Replicas(2).Obj())
	w.Settled(2)
	second := *w
	second.Name = "second"
	w.Create(testkit.MakeRSG(w.Namespace, "second").Target("prefill", "", "llm-prefill").GroupName("two").Replicas(2).Obj())
	second.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNameConflict, w.Namespace+"/first")
	w.Delete(&v1alpha1.ResourceScalingGroup{}, w.Namespace, "first")
	second.Settled(2)
	w.Read(&appsv1.Deployment{}, w.Namespace, "two-llm-prefill-1")
	w.Read(&appsv1.Deployment{}, w.Namespace, "one-llm-prefill-1") // What the first one made stays.
}
