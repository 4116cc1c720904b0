package rsgtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab/simulator/api"
)

// Metric is the metric that groups are ranked by.
const Metric = "vllm:num_requests_running"

// Patience is how long something may take that takes about a second on an idle machine.
const Patience = 90 * time.Second

// World is what one test works in: a namespace for the user's workloads, one for the ResourceScalingGroup, and its name.
type World struct {
	*Env
	// T is the test. When it fails, what the world holds is printed.
	T testing.TB
	// Base is the namespace of the user's own workloads; Namespace is that of the ResourceScalingGroup and of the clones.
	Base, Namespace string
	// Name of the ResourceScalingGroup.
	Name string
	// Metric is the metric that Pin sets.
	Metric string
}

// World makes the namespaces of a test and takes them away at its end.
func (e *Env) World(tb testing.TB, name string) *World {
	tb.Helper()
	w := &World{Env: e, T: tb, Name: name, Metric: Metric}
	for prefix, into := range map[string]*string{"production": &w.Base, "scaling": &w.Namespace} {
		ns := namespaceObject(prefix)
		w.must(e.Client.Create(tb.Context(), ns))
		*into = ns.Name
	}
	tb.Cleanup(w.end)
	return w
}

// OneNamespace makes the user's own workloads live beside the ResourceScalingGroup.
func (w *World) OneNamespace() *World {
	w.Base = w.Namespace
	return w
}

// OwnMetric gives the world a metric that no other test has, for when a query must find nothing beyond this world.
func (w *World) OwnMetric() *World {
	w.Metric = "load_of_" + strings.ReplaceAll(w.Namespace, "-", "_")
	return w
}

// For returns the world for use in a subtest.
func (w *World) For(tb testing.TB) *World {
	tb.Helper()
	other := *w
	other.T = tb
	return &other
}

func (w *World) end() {
	// Long enough for a thousand objects on a busy machine.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if w.T.Failed() {
		w.T.Log(w.describe(ctx))
	}
	// The ResourceScalingGroup first, so that nothing is made again in a namespace that is going.
	background := client.PropagationPolicy(metav1.DeletePropagationBackground)
	errs := []error{w.Client.DeleteAllOf(ctx, &v1alpha1.ResourceScalingGroup{}, client.InNamespace(w.Namespace), background)}
	for _, name := range []string{w.Namespace, w.Base} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		errs = append(errs, client.IgnoreNotFound(w.Client.Delete(ctx, ns, background)))
	}
	if err := errors.Join(errs...); err != nil {
		w.T.Errorf("cleaning up: %v", err)
	}
}

func (w *World) must(err error) {
	w.T.Helper()
	if err != nil {
		w.T.Fatal(err)
	}
}

// Create creates the objects.
func (w *World) Create(objects ...client.Object) {
	w.T.Helper()
	for _, obj := range objects {
		w.must(w.Client.Create(w.T.Context(), obj))
	}
}

// Read reads an object, which must exist.
func (w *World) Read(obj client.Object, namespace, name string) {
	w.T.Helper()
	w.must(w.Client.Get(w.T.Context(), types.NamespacedName{Namespace: namespace, Name: name}, obj))
}

// Delete deletes an object, in the background.
func (w *World) Delete(obj client.Object, namespace, name string) {
	w.T.Helper()
	obj.SetNamespace(namespace)
	obj.SetName(name)
	w.must(w.Client.Delete(w.T.Context(), obj, client.PropagationPolicy(metav1.DeletePropagationBackground)))
}

// WaitGone waits until an object does not exist.
func (w *World) WaitGone(obj client.Object, namespace, name string) {
	w.T.Helper()
	testkit.Eventually(w.T, Patience, fmt.Sprintf("%T %s/%s to be gone", obj, namespace, name), func(ctx context.Context) error {
		err := w.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, obj)
		if err == nil {
			return errors.New("it exists")
		}
		return client.IgnoreNotFound(err)
	})
}

// Update reads an object, changes it and writes it, again where somebody else wrote meanwhile.
func Update[T client.Object](w *World, obj T, namespace, name string, change func(T)) {
	w.T.Helper()
	w.must(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := w.Client.Get(w.T.Context(), types.NamespacedName{Namespace: namespace, Name: name}, obj); err != nil {
			return err
		}
		change(obj)
		return w.Client.Update(w.T.Context(), obj)
	}))
}

// CreateBase creates the user's own workloads, llm-prefill and llm-decode with these replica counts, and a Service of
// the same name for each.
func (w *World) CreateBase(prefill, decode int32) {
	w.T.Helper()
	w.Create(
		testkit.MakeService(w.Base, "llm-prefill", "llm-prefill"),
		testkit.MakeService(w.Base, "llm-decode", "llm-decode"),
		testkit.MakeDeployment(w.Base, "llm-prefill").Replicas(prefill).Obj(),
		testkit.MakeDeployment(w.Base, "llm-decode").Replicas(decode).Obj(),
	)
}

// RSG returns a ResourceScalingGroup over the workloads of CreateBase, with groupName Prefill-Decode.
func (w *World) RSG() *testkit.RSG {
	return testkit.MakeRSG(w.Namespace, w.Name).
		Target("prefill", w.Base, "llm-prefill").
		Target("decode", w.Base, "llm-decode").
		GroupName("Prefill-Decode")
}

// Live reads the ResourceScalingGroup.
func (w *World) Live() *v1alpha1.ResourceScalingGroup {
	w.T.Helper()
	rsg := &v1alpha1.ResourceScalingGroup{}
	w.Read(rsg, w.Namespace, w.Name)
	return rsg
}

// Edit changes the ResourceScalingGroup.
func (w *World) Edit(change func(*v1alpha1.ResourceScalingGroup)) {
	w.T.Helper()
	Update(w, &v1alpha1.ResourceScalingGroup{}, w.Namespace, w.Name, change)
}

// ScaleTo writes the number of groups through the scale subresource.
func (w *World) ScaleTo(groups int32) {
	w.T.Helper()
	rsg := &v1alpha1.ResourceScalingGroup{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}}
	scale := &autoscalingv1.Scale{ObjectMeta: rsg.ObjectMeta, Spec: autoscalingv1.ScaleSpec{Replicas: groups}}
	w.must(w.Client.SubResource("scale").Update(w.T.Context(), rsg, client.WithSubResourceBody(scale)))
}

// Settled waits until the ResourceScalingGroup is Ready with this number of groups and nothing of it is on its way.
func (w *World) Settled(groups int32) *v1alpha1.ResourceScalingGroup {
	w.T.Helper()
	return w.Until(fmt.Sprintf("%d groups, all ready", groups), func(rsg *v1alpha1.ResourceScalingGroup) error {
		return Settled(rsg, groups)
	})
}

// IsSettled returns nil when the ResourceScalingGroup is what Settled waits for.
func (w *World) IsSettled(ctx context.Context, groups int32) error {
	rsg := &v1alpha1.ResourceScalingGroup{}
	if err := w.Client.Get(ctx, types.NamespacedName{Namespace: w.Namespace, Name: w.Name}, rsg); err != nil {
		return err
	}
	return Settled(rsg, groups)
}

// Settled returns nil when a ResourceScalingGroup is Ready with this number of groups and nothing of it is on its way.
func Settled(rsg *v1alpha1.ResourceScalingGroup, groups int32) error {
	ready := meta.FindStatusCondition(rsg.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case ready == nil || ready.ObservedGeneration != rsg.Generation || rsg.Status.ObservedGeneration != rsg.Generation:
		return fmt.Errorf("generation %d is not observed yet", rsg.Generation)
	case ready.Status != metav1.ConditionTrue || ready.Reason != v1alpha1.ReasonReconciled:
		return fmt.Errorf("condition Ready is %s, reason %s: %s", ready.Status, ready.Reason, ready.Message)
	case rsg.Status.CurrentReplicas == nil || *rsg.Status.CurrentReplicas != groups:
		return fmt.Errorf("status.currentReplicas is not %d", groups)
	case rsg.Status.LastScaleDown != nil && len(rsg.Status.LastScaleDown.Pending) > 0:
		return fmt.Errorf("groups %v are being removed", rsg.Status.LastScaleDown.Pending)
	}
	return nil
}

// Until waits until the check accepts the ResourceScalingGroup.
func (w *World) Until(what string, check func(*v1alpha1.ResourceScalingGroup) error) *v1alpha1.ResourceScalingGroup {
	w.T.Helper()
	rsg := &v1alpha1.ResourceScalingGroup{}
	testkit.Eventually(w.T, Patience, what, func(ctx context.Context) error {
		*rsg = v1alpha1.ResourceScalingGroup{}
		if err := w.Client.Get(ctx, types.NamespacedName{Namespace: w.Namespace, Name: w.Name}, rsg); err != nil {
			return err
		}
		return check(rsg)
	})
	return rsg
}

// Condition waits for a condition with this status and reason whose message holds all the texts.
func (w *World) Condition(conditionType string, status metav1.ConditionStatus, reason string, texts ...string) *v1alpha1.ResourceScalingGroup {
	w.T.Helper()
	return w.Until(fmt.Sprintf("condition %s=%s, reason %s", conditionType, status, reason), func(rsg *v1alpha1.ResourceScalingGroup) error {
		c := meta.FindStatusCondition(rsg.Status.Conditions, conditionType)
		if c == nil {
			return errors.New("there is no such condition")
		}
		if c.Status != status || c.Reason != reason || c.ObservedGeneration != rsg.Generation {
			return fmt.Errorf("it is %s, reason %s, at generation %d of %d: %s", c.Status, c.Reason, c.ObservedGeneration, rsg.Generation, c.Message)
		}
		return holdsAll(c.Message, texts)
	})
}

// NoCondition waits until what was written last is observed, and no such condition shows.
func (w *World) NoCondition(conditionType string) {
	w.T.Helper()
	w.Until("no condition "+conditionType, func(rsg *v1alpha1.ResourceScalingGroup) error {
		if rsg.Status.ObservedGeneration != rsg.Generation {
			return errors.New("the generation is not observed yet")
		}
		if c := meta.FindStatusCondition(rsg.Status.Conditions, conditionType); c != nil {
			return fmt.Errorf("it is %s, reason %s: %s", c.Status, c.Reason, c.Message)
		}
		return nil
	})
}

func holdsAll(s string, texts []string) error {
	for _, text := range texts {
		if !strings.Contains(s, text) {
			return fmt.Errorf("%q does not hold %q", s, text)
		}
	}
	return nil
}

// Event waits for an event about the ResourceScalingGroup with this type and reason whose note holds all the texts.
func (w *World) Event(eventType, reason string, texts ...string) {
	w.T.Helper()
	testkit.Eventually(w.T, Patience, fmt.Sprintf("a %s event with reason %s and %q", eventType, reason, texts), func(ctx context.Context) error {
		all, err := w.events(ctx)
		if err != nil {
			return err
		}
		seen := errors.New("there is none with this reason")
		for _, e := range all {
			if e.Reason != reason {
				continue
			}
			if e.Type != eventType {
				seen = fmt.Errorf("its type is %s", e.Type)
				continue
			}
			if seen = holdsAll(e.Note, texts); seen == nil {
				return nil
			}
		}
		return seen
	})
}

// EventsOf returns how often an event with the reason was told about the ResourceScalingGroup.
func (w *World) EventsOf(reason string) int {
	w.T.Helper()
	all, err := w.events(w.T.Context())
	w.must(err)
	n := 0
	for _, e := range all {
		switch {
		case e.Reason != reason:
		case e.Series != nil:
			n += int(e.Series.Count)
		default:
			n++
		}
	}
	return n
}

// Logged waits until the manager's log has, in one line about this world, all the texts.
func (w *World) Logged(texts ...string) {
	w.T.Helper()
	testkit.Eventually(w.T, Patience, fmt.Sprintf("a line with %q in the manager's log", texts), func(context.Context) error {
		log, err := os.ReadFile(filepath.Clean(w.Manager.LogFile()))
		if err != nil {
			return err
		}
		for line := range strings.SplitSeq(string(log), "\n") {
			if holdsAll(line, append(texts, `"namespace":"`+w.Namespace+`"`)) == nil {
				return nil
			}
		}
		return errors.New("there is none")
	})
}

func (w *World) events(ctx context.Context) ([]eventsv1.Event, error) {
	var list eventsv1.EventList
	if err := w.Client.List(ctx, &list, client.InNamespace(w.Namespace)); err != nil {
		return nil, fmt.Errorf("listing events: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(e eventsv1.Event) bool {
		return e.Regarding.Kind != "ResourceScalingGroup" || e.Regarding.Name != w.Name
	}), nil
}

// Workloads returns the replica counts of all Deployments of the world, by namespace ("base" where it is not that of
// the ResourceScalingGroup) and name. Those that are being deleted count as gone.
func (w *World) Workloads() map[string]int32 {
	w.T.Helper()
	out := map[string]int32{}
	for _, ns := range w.namespaces() {
		var list appsv1.DeploymentList
		w.must(w.Client.List(w.T.Context(), &list, client.InNamespace(ns)))
		for _, d := range list.Items {
			if d.DeletionTimestamp == nil {
				out[w.short(ns, d.Name)] = *d.Spec.Replicas
			}
		}
	}
	return out
}

// Services returns the names of all Services of the world, in the form of Workloads, sorted.
func (w *World) Services() []string {
	w.T.Helper()
	var out []string
	for _, ns := range w.namespaces() {
		var list corev1.ServiceList
		w.must(w.Client.List(w.T.Context(), &list, client.InNamespace(ns)))
		for _, s := range list.Items {
			if s.DeletionTimestamp == nil {
				out = append(out, w.short(ns, s.Name))
			}
		}
	}
	slices.Sort(out)
	return out
}

func (w *World) namespaces() []string { return slices.Compact([]string{w.Base, w.Namespace}) }

func (w *World) short(namespace, name string) string {
	if namespace == w.Base && w.Base != w.Namespace {
		return "base/" + name
	}
	return name
}

// HasGroups checks that exactly these groups exist, whole: the user's own two Deployments, those of the clones and their
// Services, with the counts given for prefill and decode. A missing group 0 stands at zero.
func (w *World) HasGroups(counts map[int32][2]int32) {
	w.T.Helper()
	prefix := ""
	if w.Base != w.Namespace {
		prefix = "base/"
	}
	workloads := map[string]int32{prefix + "llm-prefill": counts[0][0], prefix + "llm-decode": counts[0][1]}
	services := []string{prefix + "llm-prefill", prefix + "llm-decode"}
	for id, n := range counts {
		if id == 0 {
			continue
		}
		suffix := "-" + strconv.Itoa(int(id))
		workloads["prefill-decode-llm-prefill"+suffix] = n[0]
		workloads["prefill-decode-llm-decode"+suffix] = n[1]
		services = append(services, "llm-prefill-prefill-decode"+suffix, "llm-decode-prefill-decode"+suffix)
	}
	slices.Sort(services)
	if diff := cmp.Diff(workloads, w.Workloads()); diff != "" {
		w.T.Fatalf("replicas of the workloads (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(services, w.Services()); diff != "" {
		w.T.Fatalf("Services (-want +got):\n%s", diff)
	}
}

// UIDs returns the UIDs of everything that the groups consist of, pods and ReplicaSets included.
func (w *World) UIDs() map[string]types.UID {
	w.T.Helper()
	out := map[string]types.UID{}
	for _, ns := range w.namespaces() {
		for kind, list := range map[string]client.ObjectList{
			"Deployment": &appsv1.DeploymentList{}, "Service": &corev1.ServiceList{},
			"ReplicaSet": &appsv1.ReplicaSetList{}, "Pod": &corev1.PodList{},
		} {
			w.must(w.Client.List(w.T.Context(), list, client.InNamespace(ns)))
			w.must(meta.EachListItem(list, func(obj runtime.Object) error {
				o := obj.(client.Object)
				if o.GetDeletionTimestamp() == nil {
					out[kind+" "+w.short(ns, o.GetName())] = o.GetUID()
				}
				return nil
			}))
		}
	}
	return out
}

// Pods returns the pods with these labels in both namespaces, without those that are being deleted.
func (w *World) Pods(ctx context.Context, labels map[string]string) ([]corev1.Pod, error) {
	var out []corev1.Pod
	for _, ns := range w.namespaces() {
		var list corev1.PodList
		if err := w.Client.List(ctx, &list, client.InNamespace(ns), client.MatchingLabels(labels)); err != nil {
			return nil, fmt.Errorf("listing pods: %w", err)
		}
		for _, p := range list.Items {
			if p.DeletionTimestamp == nil {
				out = append(out, p)
			}
		}
	}
	return out, nil
}

// Pin holds the metric of each group at a value and waits until Prometheus has them all.
func (w *World) Pin(values map[int32]float64) {
	w.T.Helper()
	for _, id := range slices.Sorted(maps.Keys(values)) {
		w.PinGroup(id, api.Pin{Metrics: map[string]api.Value{w.Metric: api.Value(values[id])}})
	}
	w.Prometheus.WaitValues(w, values)
}

// PinGroup holds what the pods of a group serve.
func (w *World) PinGroup(id int32, pin api.Pin) {
	w.T.Helper()
	pin.Namespace = w.Namespace
	if id == 0 {
		pin.Namespace = w.Base
	}
	pin.Labels = map[string]string{v1alpha1.LabelName: w.Name, v1alpha1.LabelGroupID: strconv.Itoa(int(id))}
	w.must(w.Simulator.Pin(w.T.Context(), pin))
}

// Annotate sets autoscaling.rsg.metric.values on the first workload of each group.
func (w *World) Annotate(values map[int32]string) {
	w.T.Helper()
	for id, value := range values {
		namespace, name := w.Namespace, "prefill-decode-llm-prefill-"+strconv.Itoa(int(id))
		if id == 0 {
			namespace, name = w.Base, "llm-prefill"
		}
		Update(w, &appsv1.Deployment{}, namespace, name, func(d *appsv1.Deployment) {
			metav1.SetMetaDataAnnotation(&d.ObjectMeta, v1alpha1.AnnotationMetricValue, value)
		})
	}
}

// GroupIDs returns the ids of the groups that the status counts.
func GroupIDs(rsg *v1alpha1.ResourceScalingGroup) []int32 {
	var ids []int32
	for _, g := range rsg.Status.Groups {
		if g.Phase != v1alpha1.GroupAtZero {
			ids = append(ids, g.ID)
		}
	}
	return ids
}

// describe tells all that helps to see why a test failed.
func (w *World) describe(ctx context.Context) string {
	var b strings.Builder
	fmt.Fprintf(&b, "--- %s/%s, base in %s ---\n", w.Namespace, w.Name, w.Base)
	rsg := &v1alpha1.ResourceScalingGroup{}
	if err := w.Client.Get(ctx, types.NamespacedName{Namespace: w.Namespace, Name: w.Name}, rsg); err != nil {
		fmt.Fprintf(&b, "reading the ResourceScalingGroup: %v\n", err)
	} else {
		rsg.ManagedFields = nil
		text, err := yaml.Marshal(map[string]any{"generation": rsg.Generation, "spec": rsg.Spec, "status": rsg.Status})
		fmt.Fprintf(&b, "%s", cmpOr(string(text), err))
	}
	events, err := w.events(ctx)
	if err != nil {
		fmt.Fprintf(&b, "%v\n", err)
	}
	for _, e := range events {
		fmt.Fprintf(&b, "event %s %s %s: %s\n", e.EventTime.Format(time.StampMilli), e.Type, e.Reason, e.Note)
	}
	for _, ns := range w.namespaces() {
		for kind, list := range map[string]client.ObjectList{
			"Deployment": &appsv1.DeploymentList{}, "Service": &corev1.ServiceList{}, "ConfigMap": &corev1.ConfigMapList{},
			"ControllerRevision": &appsv1.ControllerRevisionList{}, "ReplicaSet": &appsv1.ReplicaSetList{}, "Pod": &corev1.PodList{},
		} {
			if err := w.Client.List(ctx, list, client.InNamespace(ns)); err != nil {
				fmt.Fprintf(&b, "listing: %v\n", err)
				continue
			}
			_ = meta.EachListItem(list, func(obj runtime.Object) error {
				b.WriteString(describeObject(kind, obj.(client.Object)))
				return nil
			})
		}
	}
	if w.Manager != nil {
		waiting, err := w.Manager.Total(ctx, "workqueue_depth", "controller_runtime_active_workers")
		fmt.Fprintf(&b, "passes that wait or run: %v (%v)\n", waiting, err)
		log, err := w.Manager.Logs(400)
		fmt.Fprintf(&b, "the manager's last log lines about this world (%v):\n", err)
		lines := slices.DeleteFunc(strings.Split(log, "\n"), func(line string) bool {
			return strings.HasPrefix(line, "{") && !strings.Contains(line, w.Namespace)
		})
		b.WriteString(strings.Join(lines[max(0, len(lines)-60):], "\n"))
	}
	return b.String()
}

func cmpOr(text string, err error) string {
	if err != nil {
		return err.Error() + "\n"
	}
	return text
}

func describeObject(kind string, obj client.Object) string {
	detail := ""
	switch o := obj.(type) {
	case *appsv1.Deployment:
		detail = fmt.Sprintf(" replicas=%d available=%d generation=%d/%d", *o.Spec.Replicas, o.Status.AvailableReplicas, o.Status.ObservedGeneration, o.Generation)
		for _, c := range o.Status.Conditions {
			detail += fmt.Sprintf(" %s=%s@%s", c.Type, c.Status, c.LastTransitionTime.UTC().Format(time.TimeOnly))
		}
	case *corev1.ConfigMap:
		if o.Name == "kube-root-ca.crt" {
			return ""
		}
		detail = fmt.Sprintf(" data=%q", o.Data)
	case *corev1.Pod:
		detail = fmt.Sprintf(" phase=%s created@%s", o.Status.Phase, o.CreationTimestamp.UTC().Format(time.TimeOnly))
		for _, c := range o.Status.Conditions {
			if c.Type == corev1.PodReady {
				detail += fmt.Sprintf(" ready=%s@%s", c.Status, c.LastTransitionTime.UTC().Format(time.TimeOnly))
			}
		}
	}
	if obj.GetDeletionTimestamp() != nil {
		detail += " TERMINATING"
	}
	return fmt.Sprintf("%s %s/%s labels=%v annotations=%v%s\n", kind, obj.GetNamespace(), obj.GetName(), obj.GetLabels(), obj.GetAnnotations(), detail)
}

// Exists returns nil when the object exists, and is not being deleted.
func (w *World) Exists(ctx context.Context, obj client.Object, namespace, name string) error {
	err := w.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, obj)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%T %s/%s does not exist", obj, namespace, name)
	}
	if err == nil && obj.GetDeletionTimestamp() != nil {
		return fmt.Errorf("%T %s/%s is being deleted", obj, namespace, name)
	}
	return err
}
