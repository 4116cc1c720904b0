package tidal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	elasticscalerv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/config"
	"github.com/pd-orchestrator/pd-orchestrator/internal/controller/tidal"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
	"github.com/pd-orchestrator/pd-orchestrator/internal/telemetry"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
)

// soon is how long anything may take on a busy machine.
const soon = 30 * time.Second

// wallClock is a clock whose hands the tests move. Its timers run on as those of a machine do whose time is set.
type wallClock struct {
	clock.RealClock
	mu    sync.Mutex
	ahead time.Duration
}

func (c *wallClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.RealClock.Now().Add(c.ahead).Round(0)
}

func (c *wallClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// world is a namespace with a clock and controllers of its own.
type world struct {
	testing.TB
	namespace string
	clock     *wallClock
	// wrap, where it is set, stands between controllers started from then on and the API server.
	wrap func(client.WithWatch) client.Client
	// crossNamespace is Denied where it is empty.
	crossNamespace config.CrossNamespace
	// also is a further namespace that controllers started from then on see, "" for none.
	also string
	// identity is whom controllers started from then on act as, nil for one who may do everything.
	identity *rest.Config
	// elect makes controllers started from then on wait for the Lease.
	elect bool
	// registry has the metrics of the controller started last.
	registry *prometheus.Registry
}

func newWorld(t testing.TB, now string) *world {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "tidal-"}}
	if err := api.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	w := &world{TB: t, namespace: namespace.Name, clock: &wallClock{}, crossNamespace: config.CrossNamespaceDenied}
	w.setTime(now)
	return w
}

// setTime moves the hands of the clock.
func (w *world) setTime(text string) {
	w.Helper()
	now, err := time.Parse(time.RFC3339, text)
	if err != nil {
		w.Fatal(err)
	}
	w.clock.mu.Lock()
	defer w.clock.mu.Unlock()
	w.clock.ahead = time.Until(now)
}

// controller is a Tidal controller that runs.
type controller struct {
	stop func()
	// elected is closed once it leads.
	elected <-chan struct{}
}

// withoutGeneration shows objects as an API server before 1.37 has HPAs.
func withoutGeneration(obj any) (any, error) {
	if o, ok := obj.(client.Object); ok {
		o.SetGeneration(0)
	}
	return obj, nil
}

// start runs a controller until it is stopped or the test ends.
func (w *world) start() *controller {
	w.Helper()
	restConfig := rest.CopyConfig(cmp.Or(w.identity, plane.AdminConfig()))
	restConfig.QPS, restConfig.Burst = config.Default().Client.QPS, config.Default().Client.Burst
	namespaces := map[string]cache.Config{w.namespace: {}}
	if w.also != "" {
		namespaces[w.also] = cache.Config{}
	}
	lease, renew, retry := 3*time.Second, 2*time.Second, 500*time.Millisecond
	mgr, err := ctrl.NewManager(restConfig, ctrl.Options{
		Scheme: scheme,
		Cache: cache.Options{
			DefaultNamespaces: namespaces, DefaultTransform: kube.StripManagedFields,
			ByObject: map[client.Object]cache.ByObject{&autoscalingv2.HorizontalPodAutoscaler{}: {Transform: withoutGeneration}},
		},
		NewClient: func(c *rest.Config, o client.Options) (client.Client, error) {
			made, err := client.NewWithWatch(c, o)
			if err != nil || w.wrap == nil {
				return made, err
			}
			return w.wrap(made), nil
		},
		Metrics:                 server.Options{BindAddress: "0"},
		Controller:              ctrlconfig.Controller{SkipNameValidation: new(true)},
		LeaderElection:          w.elect,
		LeaderElectionID:        "tidal",
		LeaderElectionNamespace: w.namespace,
		LeaseDuration:           &lease,
		RenewDeadline:           &renew,
		RetryPeriod:             &retry,
	})
	if err != nil {
		w.Fatal(err)
	}
	w.registry = prometheus.NewRegistry()
	metrics, err := telemetry.NewTidal(w.registry)
	if err != nil {
		w.Fatal(err)
	}
	d, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		w.Fatal(err)
	}
	r := &tidal.Reconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("tidal"), Clock: w.clock,
		Kinds: kube.NewKinds(d, w.clock), CrossNamespace: w.crossNamespace, Telemetry: metrics, Concurrency: config.Default().ConcurrentReconciles,
	}
	if err := r.SetupWithManager(w.Context(), mgr); err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		// A leader that loses its Lease says so; that is what the tests are after.
		<-done
	})
	w.Cleanup(stop)
	return &controller{stop: stop, elected: mgr.Elected()}
}

// deployment creates a Deployment without pods' worth of anything but its count.
func (w *world) deployment(name string, replicas int32) {
	w.Helper()
	w.create(testkit.MakeDeployment(w.namespace, name).Replicas(replicas).Obj())
}

func (w *world) create(objects ...client.Object) {
	w.Helper()
	for _, obj := range objects {
		if err := api.Create(w.Context(), obj); err != nil {
			w.Fatal(err)
		}
	}
}

// tidal creates a Tidal on a Deployment; each rule is "name|cron|replicas".
func (w *world) tidal(name, deployment string, rules ...string) *v1alpha1.Tidal {
	w.Helper()
	t := w.makeTidal(name, v1alpha1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: w.namespace, Name: deployment}, rules...)
	w.create(t)
	return t
}

func (w *world) makeTidal(name string, ref v1alpha1.TargetReference, rules ...string) *v1alpha1.Tidal {
	w.Helper()
	t := &v1alpha1.Tidal{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}, Spec: v1alpha1.TidalSpec{TargetRef: ref}}
	t.Spec.Triggers.Times.Rules = w.rules(rules...)
	return t
}

func (w *world) rules(rules ...string) []v1alpha1.TimeRule {
	w.Helper()
	var out []v1alpha1.TimeRule
	for _, rule := range rules {
		parts := strings.Split(rule, "|")
		var replicas int32
		if _, err := fmt.Sscan(parts[2], &replicas); err != nil {
			w.Fatal(err)
		}
		out = append(out, v1alpha1.TimeRule{Name: parts[0], Cron: parts[1], Replicas: &replicas})
	}
	return out
}

func (w *world) bind(t *v1alpha1.Tidal, scaler string) *v1alpha1.Tidal {
	t.Labels = map[string]string{elasticscalerv1alpha1.LabelScalerName: scaler, elasticscalerv1alpha1.LabelScalerNamespace: w.namespace}
	return t
}

func (w *world) get(name string, into client.Object) error {
	return api.Get(w.Context(), types.NamespacedName{Namespace: w.namespace, Name: name}, into)
}

// update changes an object as a user would, again where somebody else was faster.
func update[T client.Object](w *world, name string, obj T, change func(T)) {
	w.Helper()
	testkit.Eventually(w, soon, "an update of "+name, func(ctx context.Context) error {
		if err := w.get(name, obj); err != nil {
			return err
		}
		change(obj)
		return api.Update(ctx, obj)
	})
}

// count is the replicas of a Deployment and how often its spec has been changed since it was created.
func (w *world) count(name string) (replicas int32, changes int64) {
	w.Helper()
	var d appsv1.Deployment
	if err := w.get(name, &d); err != nil {
		w.Fatal(err)
	}
	return *d.Spec.Replicas, d.Generation - 1
}

// reaches waits until a Deployment has a count and its Tidal says that it has been written. The count must have come in
// so many changes of the Deployment since its creation.
func (w *world) reaches(tidal, deployment string, replicas int32, changes int64) {
	w.Helper()
	testkit.Eventually(w, soon, fmt.Sprintf("%d replicas of %s, on record", replicas, deployment), func(context.Context) error {
		got, _ := w.count(deployment)
		var t v1alpha1.Tidal
		if err := w.get(tidal, &t); err != nil {
			return err
		}
		last := t.Status.LastScale
		if got != replicas || last == nil || *last.Replicas != replicas || last.Rule != t.Status.ActiveRule || !last.Time.Equal(t.Status.ActiveRuleEffectiveTime) {
			return fmt.Errorf("it has %d replicas, status %s", got, show(t.Status))
		}
		return nil
	})
	w.stays(deployment, replicas, changes)
}

// stays looks for a while that nothing writes the count.
func (w *world) stays(deployment string, replicas int32, changes int64) {
	w.Helper()
	testkit.Consistently(w, 1500*time.Millisecond, "the count stays", func(context.Context) error {
		if got, n := w.count(deployment); got != replicas || n != changes {
			return fmt.Errorf("%s has %d replicas after %d changes, want %d after %d", deployment, got, n, replicas, changes)
		}
		return nil
	})
}

// says waits for a condition with a reason, and returns its message.
func (w *world) says(tidal, conditionType string, status metav1.ConditionStatus, reason string) string {
	w.Helper()
	message := ""
	testkit.Eventually(w, soon, fmt.Sprintf("%s=%s (%s) of %s", conditionType, status, reason, tidal), func(context.Context) error {
		var t v1alpha1.Tidal
		if err := w.get(tidal, &t); err != nil {
			return err
		}
		c := meta.FindStatusCondition(t.Status.Conditions, conditionType)
		if c == nil || c.Status != status || c.Reason != reason || c.ObservedGeneration != t.Generation {
			return fmt.Errorf("it is %+v, generation %d", c, t.Generation)
		}
		message = c.Message
		return nil
	})
	return message
}

// wants waits until the status has a count and a rule in force.
func (w *world) wants(tidal string, replicas int32, rule string) v1alpha1.TidalStatus {
	w.Helper()
	var t v1alpha1.Tidal
	testkit.Eventually(w, soon, fmt.Sprintf("%s to want %d replicas by rule %s", tidal, replicas, rule), func(context.Context) error {
		if err := w.get(tidal, &t); err != nil {
			return err
		}
		if t.Status.DesiredReplicas == nil || *t.Status.DesiredReplicas != replicas || t.Status.ActiveRule != rule || *t.Status.ObservedGeneration != t.Generation {
			return errors.New(show(t.Status))
		}
		return nil
	})
	return t.Status
}

func show(s v1alpha1.TidalStatus) string {
	desired, last := "no count", "none"
	if s.DesiredReplicas != nil {
		desired = fmt.Sprint(*s.DesiredReplicas)
	}
	if s.LastScale != nil {
		last = fmt.Sprintf("%s at %s", s.LastScale.Rule, s.LastScale.Time)
	}
	ready := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady)
	return fmt.Sprintf("%s by %q since %v, last scale %s, Ready %+v", desired, s.ActiveRule, s.ActiveRuleEffectiveTime, last, ready)
}

// scaleByHand sets a count as kubectl scale does.
func (w *world) scaleByHand(deployment string, replicas int32) {
	w.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: deployment}}
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	if err := api.SubResource("scale").Update(w.Context(), d, client.WithSubResourceBody(scale)); err != nil {
		w.Fatal(err)
	}
}

// hears waits for an event of a Tidal.
func (w *world) hears(tidal, reason, note string) {
	w.Helper()
	testkit.Eventually(w, soon, fmt.Sprintf("event %s %q of %s", reason, note, tidal), func(ctx context.Context) error {
		var list eventsv1.EventList
		if err := api.List(ctx, &list, client.InNamespace(w.namespace)); err != nil {
			return err
		}
		var heard []string
		for _, e := range list.Items {
			if e.Regarding.Kind != "Tidal" || e.Regarding.Name != tidal {
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

// family returns the series of a metric of the controller started last.
func (w *world) family(name string) []*dto.Metric {
	w.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()
		}
	}
	return nil
}

// metric returns the values of the series of a gauge or counter.
func (w *world) metric(name string) []float64 {
	w.Helper()
	var values []float64
	for _, m := range w.family(name) {
		values = append(values, m.GetGauge().GetValue()+m.GetCounter().GetValue())
	}
	return values
}

// lateness returns how many firings the metric has, and a bound over which the latest of them was late.
func (w *world) lateness() (count uint64, over float64) {
	w.Helper()
	h := w.family("pdo_tidal_firing_lateness_seconds")[0].GetHistogram()
	for _, b := range h.GetBucket() {
		if b.GetCumulativeCount() == h.GetSampleCount() {
			break
		}
		over = b.GetUpperBound()
	}
	return h.GetSampleCount(), over
}
