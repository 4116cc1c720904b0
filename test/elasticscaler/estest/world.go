package estest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab/faulty"
)

// Patience is how long something may take that takes about a second on an idle machine.
const Patience = 90 * time.Second

// World is what one test works in: a namespace with a Deployment and an ElasticScaler of it.
type World struct {
	*Env
	// T is the test. When it fails, what the world holds is printed.
	T testing.TB
	// Namespace of everything in the world.
	Namespace string
	// Name of the ElasticScaler and of its target.
	Name string
}

// World makes the namespace of a test and takes it away at its end.
func (e *Env) World(tb testing.TB) *World {
	tb.Helper()
	ns := namespaceObject("scaler")
	if err := e.Client.Create(tb.Context(), ns); err != nil {
		tb.Fatal(err)
	}
	w := &World{Env: e, T: tb, Namespace: ns.Name, Name: "inference"}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if tb.Failed() {
			tb.Log(w.describe(ctx))
		}
		if err := e.Client.Delete(ctx, ns, client.PropagationPolicy(metav1.DeletePropagationBackground)); client.IgnoreNotFound(err) != nil {
			tb.Errorf("cleaning up: %v", err)
		}
	})
	return w
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

// CreateTarget creates the Deployment that is scaled.
func (w *World) CreateTarget(replicas int32) {
	w.T.Helper()
	w.Create(testkit.MakeDeployment(w.Namespace, w.Name).Replicas(replicas).Obj())
}

// Scaler returns an ElasticScaler of the world's Deployment, from 1 to 10 replicas, with a trigger.
func (w *World) Scaler(trigger v1alpha1.Trigger) *v1alpha1.ElasticScaler {
	return &v1alpha1.ElasticScaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name},
		Spec: v1alpha1.ElasticScalerSpec{
			TargetRef:       v1alpha1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: w.Name},
			MinReplicas:     new(int32(1)),
			MaxReplicas:     new(int32(10)),
			IntervalSeconds: new(int32(1)),
			Trigger:         trigger,
		},
	}
}

// Metrics returns a MetricsTrigger without windows.
func Metrics(algorithm string, metrics ...v1alpha1.MetricSpec) v1alpha1.Trigger {
	return v1alpha1.Trigger{Type: v1alpha1.MetricsTriggerType, MetricsTrigger: &v1alpha1.MetricsTrigger{ScalingAlgorithm: algorithm, Metrics: metrics}}
}

// Query returns a metric that is a Prometheus query at an endpoint, with a target per replica.
func Query(endpoint, name, query, target string) v1alpha1.MetricSpec {
	quantity := resource.MustParse(target)
	return v1alpha1.MetricSpec{Type: v1alpha1.ExternalServerMetricType, ExternalServer: &v1alpha1.ExternalServerMetricSource{
		Endpoint: endpoint, MetricsName: name, Query: query, Target: &quantity,
	}}
}

// Instant takes the windows out of a scaler, so that each decision is followed at once.
func Instant(scaler *v1alpha1.ElasticScaler) *v1alpha1.ElasticScaler {
	metav1.SetMetaDataAnnotation(&scaler.ObjectMeta, "elasticscaler.io/metrics.windowSeconds", "0")
	metav1.SetMetaDataAnnotation(&scaler.ObjectMeta, "elasticscaler.io/behavior.scaleUp.stabilizationWindowSeconds", "0")
	metav1.SetMetaDataAnnotation(&scaler.ObjectMeta, "elasticscaler.io/behavior.scaleDown.stabilizationWindowSeconds", "0")
	return scaler
}

// Server starts a server of metrics or signals that misbehaves as the test tells it to.
func (w *World) Server(options faulty.Options) *faulty.Server {
	w.T.Helper()
	s, err := faulty.Start(options)
	w.must(err)
	w.T.Cleanup(func() {
		if err := s.Close(); err != nil {
			w.T.Errorf("closing the server: %v", err)
		}
	})
	return s
}

// Live reads the ElasticScaler.
func (w *World) Live() *v1alpha1.ElasticScaler {
	w.T.Helper()
	scaler := &v1alpha1.ElasticScaler{}
	w.must(w.Client.Get(w.T.Context(), types.NamespacedName{Namespace: w.Namespace, Name: w.Name}, scaler))
	return scaler
}

// Edit changes the ElasticScaler.
func (w *World) Edit(change func(*v1alpha1.ElasticScaler)) {
	w.T.Helper()
	w.must(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		scaler := w.Live()
		change(scaler)
		return w.Client.Update(w.T.Context(), scaler)
	}))
}

// Replicas is the count that the world's Deployment is asked to have.
func (w *World) Replicas(ctx context.Context) (int32, error) {
	d := &appsv1.Deployment{}
	if err := w.Client.Get(ctx, types.NamespacedName{Namespace: w.Namespace, Name: w.Name}, d); err != nil {
		return 0, err
	}
	return *d.Spec.Replicas, nil
}

// ScaleTo writes the count of the Deployment, as a user does.
func (w *World) ScaleTo(replicas int32) {
	w.T.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}}
	w.must(w.Client.SubResource("scale").Update(w.T.Context(), d, client.WithSubResourceBody(&autoscalingv1.Scale{
		ObjectMeta: d.ObjectMeta, Spec: autoscalingv1.ScaleSpec{Replicas: replicas},
	})))
}

// WaitReplicas waits until the Deployment is asked to have a count.
func (w *World) WaitReplicas(want int32) {
	w.T.Helper()
	testkit.Eventually(w.T, Patience, fmt.Sprintf("%d replicas", want), func(ctx context.Context) error {
		got, err := w.Replicas(ctx)
		if err == nil && got != want {
			err = fmt.Errorf("there are to be %d", got)
		}
		return err
	})
}

// KeepsReplicas fails unless the Deployment keeps a count over several evaluations.
func (w *World) KeepsReplicas(want int32) {
	w.T.Helper()
	testkit.Consistently(w.T, 4*time.Second, fmt.Sprintf("%d replicas", want), func(ctx context.Context) error {
		got, err := w.Replicas(ctx)
		if err == nil && got != want {
			err = fmt.Errorf("there are to be %d", got)
		}
		return err
	})
}

// Until waits until the check accepts the ElasticScaler.
func (w *World) Until(what string, check func(*v1alpha1.ElasticScaler) error) *v1alpha1.ElasticScaler {
	w.T.Helper()
	scaler := &v1alpha1.ElasticScaler{}
	testkit.Eventually(w.T, Patience, what, func(ctx context.Context) error {
		*scaler = v1alpha1.ElasticScaler{}
		if err := w.Client.Get(ctx, types.NamespacedName{Namespace: w.Namespace, Name: w.Name}, scaler); err != nil {
			return err
		}
		return check(scaler)
	})
	return scaler
}

// Condition waits for a condition with this status and reason whose message holds all the texts.
func (w *World) Condition(conditionType string, status metav1.ConditionStatus, reason string, texts ...string) *v1alpha1.ElasticScaler {
	w.T.Helper()
	return w.Until(fmt.Sprintf("condition %s=%s, reason %s", conditionType, status, reason), func(scaler *v1alpha1.ElasticScaler) error {
		c := meta.FindStatusCondition(scaler.Status.Conditions, conditionType)
		if c == nil {
			return errors.New("there is no such condition")
		}
		if c.Status != status || c.Reason != reason || c.ObservedGeneration != scaler.Generation {
			return fmt.Errorf("it is %s, reason %s, at generation %d of %d: %s", c.Status, c.Reason, c.ObservedGeneration, scaler.Generation, c.Message)
		}
		return holdsAll(c.Message, texts)
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

// Event waits for an event about the ElasticScaler with this type and reason whose note holds all the texts.
func (w *World) Event(eventType, reason string, texts ...string) {
	w.T.Helper()
	testkit.Eventually(w.T, Patience, fmt.Sprintf("a %s event with reason %s and %q", eventType, reason, texts), func(ctx context.Context) error {
		all, err := w.Events(ctx)
		if err != nil {
			return err
		}
		seen := errors.New("there is none with this reason")
		for _, e := range all {
			if e.Reason != reason || e.Type != eventType {
				continue
			}
			if seen = holdsAll(e.Note, texts); seen == nil {
				return nil
			}
		}
		return seen
	})
}

// Events are those about the ElasticScaler.
func (w *World) Events(ctx context.Context) ([]eventsv1.Event, error) {
	var list eventsv1.EventList
	if err := w.Client.List(ctx, &list, client.InNamespace(w.Namespace)); err != nil {
		return nil, fmt.Errorf("listing events: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(e eventsv1.Event) bool { return e.Regarding.Kind != "ElasticScaler" }), nil
}

func (w *World) describe(ctx context.Context) string {
	var b strings.Builder
	fmt.Fprintf(&b, "what namespace %s holds:\n", w.Namespace)
	var scalers v1alpha1.ElasticScalerList
	if err := w.Client.List(ctx, &scalers, client.InNamespace(w.Namespace)); err != nil {
		fmt.Fprintln(&b, err)
	}
	for _, s := range scalers.Items {
		s.ManagedFields = nil
		text, _ := yaml.Marshal(s)
		b.Write(text)
	}
	if replicas, err := w.Replicas(ctx); err == nil {
		fmt.Fprintf(&b, "Deployment %s: %d replicas\n", w.Name, replicas)
	}
	events, _ := w.Events(ctx)
	for _, e := range events {
		fmt.Fprintf(&b, "event %s %s: %s\n", e.Type, e.Reason, e.Note)
	}
	for _, part := range w.processes() {
		log, _ := part.Logs(60)
		fmt.Fprintf(&b, "the log of %s ends:\n%s\n", part.Name(), log)
	}
	return b.String()
}
