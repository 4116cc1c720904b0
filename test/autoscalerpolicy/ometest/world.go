package ometest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab"
)

// Kinds of objects by the words of kubectl.
var Kinds = map[string]schema.GroupVersionKind{
	"deployment":            {Group: "apps", Version: "v1", Kind: "Deployment"},
	"leaderworkerset":       {Group: "leaderworkerset.x-k8s.io", Version: "v1", Kind: "LeaderWorkerSet"},
	"service":               {Version: "v1", Kind: "Service"},
	"hpa":                   {Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"},
	"scaledobject":          {Group: "keda.sh", Version: "v1alpha1", Kind: "ScaledObject"},
	"triggerauthentication": {Group: "keda.sh", Version: "v1alpha1", Kind: "TriggerAuthentication"},
	"inferenceservice":      {Group: "ome.io", Version: "v1beta1", Kind: "InferenceService"},
	"autoscalerpolicy":      {Group: "ome.io", Version: "v1beta1", Kind: "AutoscalerPolicy"},
}

func object(kind string) *unstructured.Unstructured {
	gvk, ok := Kinds[kind]
	if !ok {
		panic("no kind " + kind)
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u
}

// Get reads an object, nil where there is none.
func (w *World) Get(kind, name string) *unstructured.Unstructured {
	w.Helper()
	u := object(kind)
	err := w.Client.Get(w.Context(), types.NamespacedName{Namespace: w.Namespace, Name: name}, u)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		w.Fatal(err)
	}
	return u
}

// List returns the objects of a kind in the namespace.
func (w *World) List(kind string) []unstructured.Unstructured {
	w.Helper()
	list := &unstructured.UnstructuredList{}
	gvk := Kinds[kind]
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err := w.Client.List(w.Context(), list, client.InNamespace(w.Namespace)); err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		w.Fatal(err)
	}
	return list.Items
}

// Present waits until an object is there, and returns it.
func (w *World) Present(kind, name string) *unstructured.Unstructured {
	w.Helper()
	var u *unstructured.Unstructured
	testkit.Eventually(w, Soon, kind+" "+name, func(context.Context) error {
		if u = w.Get(kind, name); u == nil || u.GetDeletionTimestamp() != nil {
			return errors.New("it is not there")
		}
		return nil
	})
	return u
}

// Gone waits until an object is not there.
func (w *World) Gone(kind, name string) {
	w.Helper()
	testkit.Eventually(w, Soon, kind+" "+name+" to go", func(context.Context) error {
		if w.Get(kind, name) != nil {
			return errors.New("it is there")
		}
		return nil
	})
}

// Columns prints what `kubectl get -o custom-columns` does of an object, but for the headers: the values at the paths,
// joined by blanks.
func Columns(u *unstructured.Unstructured, paths ...string) string {
	values := make([]string, len(paths))
	for i, path := range paths {
		j := jsonpath.New("column").AllowMissingKeys(true)
		if err := j.Parse("{" + path + "}"); err != nil {
			panic(err)
		}
		var text bytes.Buffer
		if err := j.Execute(&text, u.Object); err != nil {
			text.Reset()
		}
		if values[i] = text.String(); values[i] == "" {
			values[i] = "<none>"
		}
	}
	return strings.Join(values, " ")
}

// Prints waits until the columns of an object are as wanted.
func (w *World) Prints(kind, name, want string, paths ...string) {
	w.Helper()
	testkit.Eventually(w, Soon, fmt.Sprintf("%s %s to print %q", kind, name, want), func(context.Context) error {
		u := w.Get(kind, name)
		if u == nil {
			return errors.New("it is not there")
		}
		if got := Columns(u, paths...); got != want {
			return fmt.Errorf("it prints %q; its status is %v", got, u.Object["status"])
		}
		return nil
	})
}

// Paths of the documents' columns.
const (
	engineAutoscaler = ".status.components.engine.autoscaler"
	Source           = engineAutoscaler + ".specSource"
	Class            = engineAutoscaler + ".class"
	Policy           = engineAutoscaler + ".policy.name"
	Shadowed         = engineAutoscaler + ".shadowedPolicyRef.name"
	Resolved         = engineAutoscaler + `.conditions[?(@.type=="AutoscalerResolved")].reason`
	Applied          = engineAutoscaler + `.conditions[?(@.type=="AutoscalerApplied")].reason`
	Ready            = `.status.conditions[?(@.type=="Ready")].status`
	ReadyReason      = `.status.conditions[?(@.type=="Ready")].reason`
)

// Service reads an InferenceService.
func (w *World) Service(name string) *v1beta1.InferenceService {
	w.Helper()
	s := &v1beta1.InferenceService{}
	if err := w.Client.Get(w.Context(), types.NamespacedName{Namespace: w.Namespace, Name: name}, s); err != nil {
		w.Fatal(err)
	}
	return s
}

// ResolvedMessage is the message of the engine's AutoscalerResolved.
func (w *World) ResolvedMessage(name string) string {
	w.Helper()
	s := w.Service(name).Status.Components.Engine
	if s == nil || s.Autoscaler == nil {
		return ""
	}
	if c := meta.FindStatusCondition(s.Autoscaler.Conditions, v1beta1.ConditionAutoscalerResolved); c != nil {
		return c.Message
	}
	return ""
}

// Settled waits until the status of a service is of its present spec.
func (w *World) Settled(name string) {
	w.Helper()
	testkit.Eventually(w, Soon, "the status of "+name, func(context.Context) error {
		if s := w.Service(name); s.Status.ObservedGeneration != s.Generation {
			return fmt.Errorf("it is of generation %d, want %d", s.Status.ObservedGeneration, s.Generation)
		}
		return nil
	})
}

// Replicas is the count of the engine's Deployment.
func (w *World) Replicas(service string) int64 {
	w.Helper()
	u := w.Get("deployment", service+"-engine")
	if u == nil {
		return -1
	}
	n, _, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
	return n
}

// Scale sets a count as kubectl scale does.
func (w *World) Scale(kind, name string, replicas int32) {
	w.Helper()
	u := object(kind)
	u.SetNamespace(w.Namespace)
	u.SetName(name)
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	if err := w.Client.SubResource("scale").Update(w.Context(), u, client.WithSubResourceBody(scale)); err != nil {
		w.Fatal(err)
	}
}

// Patch merges a patch, in JSON, into an object as a user would.
func (w *World) Patch(kind, name, patch string) error {
	w.Helper()
	u := object(kind)
	u.SetNamespace(w.Namespace)
	u.SetName(name)
	return w.Client.Patch(w.Context(), u, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("kubectl-edit"))
}

// MustPatch merges a patch that is to be taken.
func (w *World) MustPatch(kind, name, patch string) {
	w.Helper()
	if err := w.Patch(kind, name, patch); err != nil {
		w.Fatal(err)
	}
}

// Delete deletes an object as kubectl does.
func (w *World) Delete(kind, name string) error {
	w.Helper()
	u := object(kind)
	u.SetNamespace(w.Namespace)
	u.SetName(name)
	return w.Client.Delete(w.Context(), u, client.PropagationPolicy(metav1.DeletePropagationBackground))
}

// Hears waits for an event of an InferenceService.
func (w *World) Hears(service, reason, note string) {
	w.Helper()
	testkit.Eventually(w, Soon, fmt.Sprintf("event %s %q of %s", reason, note, service), func(ctx context.Context) error {
		var list eventsv1.EventList
		if err := w.Client.List(ctx, &list, client.InNamespace(w.Namespace)); err != nil {
			return err
		}
		var heard []string
		for _, e := range list.Items {
			if e.Regarding.Kind != "InferenceService" || e.Regarding.Name != service {
				continue
			}
			if e.Reason == reason && strings.Contains(e.Note, note) {
				return nil
			}
			heard = append(heard, e.Reason+" "+e.Note)
		}
		return fmt.Errorf("heard %q", heard)
	})
}

// Bind binds a metric provider of the cluster until the test ends; "" takes the binding away.
func (w *World) Bind(name, binding string) {
	w.Helper()
	if err := w.bind(w.Context(), name, binding); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = w.bind(context.Background(), name, "") })
}

func (w *World) bind(ctx context.Context, name, binding string) error {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: lab.ProductNamespace, Name: Providers}}
	if err := w.Client.Create(ctx, m.DeepCopy()); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	var value *string
	if binding != "" {
		value = &binding
	}
	patch, err := json.Marshal(map[string]any{"data": map[string]*string{name: value}})
	if err != nil {
		return err
	}
	return w.Client.Patch(ctx, m, client.RawPatch(types.MergePatchType, patch))
}
