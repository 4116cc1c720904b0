package random

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab"
	"github.com/pd-orchestrator/pd-orchestrator/test/resourcescalinggroup/rsgtest"
)

const (
	// defaultSteps keeps the test within a few minutes; PDO_RANDOM_STEPS asks for more.
	defaultSteps = 80
	maxGroups    = 5
	// restPatience is more than others have, since one slow moment among hundreds of steps would end the walk.
	restPatience = 3 * rsgtest.Patience
)

// number reads an environment variable, and gives the default where it is not set.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s is %q: must be a number", name, text)
	}
	return n
}

// walk is one run of random steps.
type walk struct {
	*rsgtest.World
	rng     *rand.Rand
	desired int32
	// stopped parts start again before the next look.
	stopped []string
	// foreign is a Deployment of somebody else.
	foreign client.Object
}

func TestRandomSteps(t *testing.T) {
	seed := number(t, "PDO_RANDOM_SEED", uint64(time.Now().UnixNano()))
	steps := number(t, "PDO_RANDOM_STEPS", defaultSteps)
	t.Logf("replay with PDO_RANDOM_SEED=%d PDO_RANDOM_STEPS=%d", seed, steps)

	w := &walk{World: env.World(t, "random"), rng: rand.New(rand.NewPCG(seed, 0)), desired: 2}
	w.CreateBase(1, 2)
	// Objects of somebody else that look like a clone, but for one label, or that only stand in the same namespace.
	foreign := testkit.MakeDeployment(w.Namespace, "somebody-elses").
		Label(v1alpha1.LabelName, w.Name).Label(v1alpha1.LabelNamespace, w.Namespace).Label(v1alpha1.LabelGroupID, "1").Obj()
	w.Create(foreign, testkit.MakeService(w.Namespace, "somebody-elses", "somebody-elses"))
	w.foreign = foreign
	w.Create(w.RSG().Replicas(w.desired).Metric(rsgtest.Metric).Obj())
	w.settle("the start")

	actions := []struct {
		name string
		do   func()
	}{
		{"scale", w.scale},
		{"scale twice at once", func() { w.scale(); w.scale() }},
		{"delete a workload of a clone", func() { w.deleteOne(&appsv1.DeploymentList{}) }},
		{"delete a Service of a clone", func() { w.deleteOne(&corev1.ServiceList{}) }},
		{"delete a pod", w.deletePod},
		{"kill the manager", func() { w.kill(lab.Manager) }},
		{"scale and kill the manager", func() { w.scale(); w.kill(lab.Manager) }},
		{"scale and kill the API server", func() { w.scale(); w.kill(lab.APIServer) }},
		{"stop Prometheus and scale", func() { w.kill(lab.Prometheus); w.scale() }},
		{"edit the base", w.editBase},
		{"annotate group 0", func() {
			rsgtest.Update(w.World, &appsv1.Deployment{}, w.Base, "llm-prefill", func(d *appsv1.Deployment) {
				metav1.SetMetaDataAnnotation(&d.ObjectMeta, v1alpha1.AnnotationMetricValue, strconv.Itoa(w.rng.IntN(9)))
			})
		}},
		{"delete the records", w.deleteRecords},
	}
	for step := range steps {
		a := actions[w.rng.IntN(len(actions))]
		what := fmt.Sprintf("step %d of %d (seed %d): %s, %d groups wanted", step+1, steps, seed, a.name, w.desired)
		a.do()
		w.revive()
		w.settle(what)
	}
}

func (w *walk) scale() {
	w.desired = w.rng.Int32N(maxGroups + 1)
	w.ScaleTo(w.desired)
}

// clones lists the objects of a kind that belong to clones.
func (w *walk) clones(list client.ObjectList) []client.Object {
	w.T.Helper()
	if err := w.Client.List(w.T.Context(), list, client.InNamespace(w.Namespace), client.HasLabels{v1alpha1.LabelGroupName}); err != nil {
		w.T.Fatal(err)
	}
	var out []client.Object
	switch l := list.(type) {
	case *appsv1.DeploymentList:
		for i := range l.Items {
			out = append(out, &l.Items[i])
		}
	case *corev1.ServiceList:
		for i := range l.Items {
			out = append(out, &l.Items[i])
		}
	}
	return out
}

func (w *walk) deleteOne(list client.ObjectList) {
	if all := w.clones(list); len(all) > 0 {
		obj := all[w.rng.IntN(len(all))]
		if err := w.Client.Delete(w.T.Context(), obj); err != nil {
			w.T.Fatal(err)
		}
	}
}

func (w *walk) deletePod() {
	pods, err := w.Pods(w.T.Context(), map[string]string{v1alpha1.LabelName: w.Name})
	if err != nil {
		w.T.Fatal(err)
	}
	if len(pods) > 0 {
		pod := pods[w.rng.IntN(len(pods))]
		if err := client.IgnoreNotFound(w.Client.Delete(w.T.Context(), &pod)); err != nil {
			w.T.Fatal(err)
		}
	}
}

func (w *walk) editBase() {
	rsgtest.Update(w.World, &appsv1.Deployment{}, w.Base, "llm-decode", func(d *appsv1.Deployment) {
		d.Spec.MinReadySeconds = w.rng.Int32N(2)
	})
}

func (w *walk) deleteRecords() {
	if err := w.Client.DeleteAllOf(w.T.Context(), &appsv1.ControllerRevision{}, client.InNamespace(w.Namespace), client.HasLabels{v1alpha1.LabelName}); err != nil {
		w.T.Fatal(err)
	}
	if err := w.Client.DeleteAllOf(w.T.Context(), &corev1.ConfigMap{}, client.InNamespace(w.Namespace), client.HasLabels{v1alpha1.LabelName}); err != nil {
		w.T.Fatal(err)
	}
}

func (w *walk) kill(part string) {
	if err := w.Lab.Part(part).Kill(); err != nil {
		w.T.Fatal(err)
	}
	w.stopped = append(w.stopped, part)
}

// revive starts what was killed. The API server comes before the manager, which ends when it loses it.
func (w *walk) revive() {
	slices.Sort(w.stopped)
	for _, part := range slices.Compact(w.stopped) {
		testkit.Eventually(w.T, restPatience, part+" to start", w.Lab.Part(part).Start)
	}
	w.stopped = nil
	if err := w.Manager.WaitReady(w.T.Context()); err != nil {
		w.T.Fatal(err)
	}
}

// settle waits for rest and checks what must hold then.
func (w *walk) settle(what string) {
	w.T.Helper()
	testkit.Eventually(w.T, restPatience, what+": rest", func(ctx context.Context) error {
		if err := w.IsSettled(ctx, w.desired); err != nil {
			return err
		}
		return w.consistent(ctx)
	})
}

// consistent compares the objects with the status: every group whole, under its names and labels, and nothing else.
func (w *walk) consistent(ctx context.Context) error {
	rsg := &v1alpha1.ResourceScalingGroup{}
	if err := w.Client.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: w.Name}, rsg); err != nil {
		return err
	}
	var want, got []string
	counted := int32(0)
	for _, g := range rsg.Status.Groups {
		if g.Phase == v1alpha1.GroupAtZero {
			continue
		}
		counted++
		if g.ID == 0 {
			continue
		}
		id := "-" + strconv.Itoa(int(g.ID))
		want = append(want, "Deployment prefill-decode-llm-prefill"+id, "Deployment prefill-decode-llm-decode"+id,
			"Service llm-prefill-prefill-decode"+id, "Service llm-decode-prefill-decode"+id)
	}
	revisions := map[string]string{}
	if counted != w.desired {
		return fmt.Errorf("%d groups are in the status, %d are wanted", counted, w.desired)
	}
	for kind, list := range map[string]client.ObjectList{"Deployment": &appsv1.DeploymentList{}, "Service": &corev1.ServiceList{}} {
		for _, obj := range w.clones(list) {
			got = append(got, kind+" "+obj.GetName())
			id, made := obj.GetLabels()[v1alpha1.LabelGroupID], obj.GetAnnotations()[v1alpha1.AnnotationRevision]
			if first, known := revisions[id]; known && first != made {
				return fmt.Errorf("group %s is made from the snapshots %s and %s", id, first, made)
			}
			revisions[id] = made
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("objects of clones (-want +got):\n%s", diff)
	}
	records := &appsv1.ControllerRevisionList{}
	if err := w.Client.List(ctx, records, client.InNamespace(w.Namespace), client.HasLabels{v1alpha1.LabelName}); err != nil {
		return err
	}
	if len(records.Items) != 1 {
		return fmt.Errorf("%d snapshots exist, want 1", len(records.Items))
	}
	for name, replicas := range map[string]int32{"llm-prefill": 1, "llm-decode": 2} {
		base := &appsv1.Deployment{}
		if err := w.Client.Get(ctx, client.ObjectKey{Namespace: w.Base, Name: name}, base); err != nil {
			return fmt.Errorf("the user's own workload is lost: %w", err)
		}
		if atZero := !slices.Contains(rsgtest.GroupIDs(rsg), 0); atZero {
			replicas = 0
		}
		if *base.Spec.Replicas != replicas {
			return fmt.Errorf("%s has %d replicas, want %d", name, *base.Spec.Replicas, replicas)
		}
	}
	after := &appsv1.Deployment{}
	if err := w.Client.Get(ctx, client.ObjectKeyFromObject(w.foreign), after); err != nil {
		return fmt.Errorf("somebody else's Deployment is lost: %w", err)
	}
	if after.UID != w.foreign.GetUID() || after.Generation != w.foreign.GetGeneration() {
		return fmt.Errorf("somebody else's Deployment was changed")
	}
	return nil
}
