package conformance

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
)

// decisions is how many each side has made, at least, on every value.
const decisions = 3

// Each side reads metrics of its own, so that what each has read can be counted.
const ofHPA, ofScaler = "-hpa", "-scaler"

// value is what the metrics are set to, and for how many seconds they keep it at least. A metric that is not named is gone.
// From one value to the next only one metric changes, since neither side reads all of them at one moment.
type value struct {
	metrics map[string]float64
	seconds int
}

func queue(v float64, seconds int) value { return value{map[string]float64{"queue": v}, seconds} }

// course is a recorded sequence of metrics and the behavior that both sides follow.
type course struct {
	start, least, most int32
	targets            map[string]string
	// total makes the targets such of the sum. A count then follows from how many pods are ready at the moment, so that the
	// way to where both sides end is not the same in two runs, of the same side either, and is not compared.
	total    bool
	behavior autoscalingv2.HorizontalPodAutoscalerBehavior
	values   []value
}

func rules(window int32, policies ...autoscalingv2.HPAScalingPolicy) *autoscalingv2.HPAScalingRules {
	r := &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: &window, Policies: policies}
	if len(policies) == 0 {
		// An HPA without policies has those of Kubernetes; one that allows everything takes their place.
		r.Policies = []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PercentScalingPolicy, Value: 100_000, PeriodSeconds: 1}}
	}
	return r
}

func pods(n, period int32) autoscalingv2.HPAScalingPolicy {
	return autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: n, PeriodSeconds: period}
}

func percent(n, period int32) autoscalingv2.HPAScalingPolicy {
	return autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: n, PeriodSeconds: period}
}

var courses = map[string]course{
	"up and down at once": {
		start: 1, least: 1, most: 20,
		behavior: autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules(0), ScaleDown: rules(0)},
		values:   []value{queue(35, 4), queue(120, 4), queue(119, 4), queue(1000, 4), queue(41, 4), queue(5, 4), queue(0, 4)},
	},
	"within the tolerance": {
		start: 10, least: 1, most: 20,
		behavior: autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules(0), ScaleDown: rules(0)},
		values:   []value{queue(100, 3), queue(109, 4), queue(91, 4), queue(111, 4), queue(99, 4), queue(115, 4)},
	},
	"a dip shorter than the window": {
		start: 5, least: 1, most: 20,
		behavior: autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules(0), ScaleDown: rules(12)},
		values:   []value{queue(50, 3), queue(20, 4), queue(60, 4), queue(30, 18), queue(10, 18)},
	},
	"steps of pods": {
		start: 1, least: 1, most: 20,
		behavior: autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules(0, pods(2, 3)), ScaleDown: rules(0, pods(3, 3))},
		values:   []value{queue(90, 22), queue(10, 18)},
	},
	"the greater of two policies": {
		start: 2, least: 1, most: 40,
		behavior: autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules(0, pods(1, 4), percent(100, 4)), ScaleDown: rules(0, percent(50, 4), pods(1, 4))},
		values:   []value{queue(300, 28), queue(20, 28)},
	},
	"no way down": {
		start: 2, least: 1, most: 20,
		behavior: autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules(0), ScaleDown: func() *autoscalingv2.HPAScalingRules {
			r := rules(0)
			r.SelectPolicy = new(autoscalingv2.DisabledPolicySelect)
			return r
		}()},
		values: []value{queue(80, 4), queue(10, 6), queue(90, 4)},
	},
	"a metric that vanishes and comes back": {
		start: 3, least: 1, most: 20,
		behavior: autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules(0), ScaleDown: rules(0)},
		values:   []value{queue(60, 4), {nil, 6}, queue(30, 4)},
	},
	"of two metrics the higher wins": {
		start: 2, least: 1, most: 20, targets: map[string]string{"queue": "10", "tokens": "1000"},
		behavior: autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules(0), ScaleDown: rules(0)},
		values: []value{
			{map[string]float64{"queue": 30, "tokens": 1000}, 4}, {map[string]float64{"queue": 30, "tokens": 9000}, 4},
			{map[string]float64{"queue": 120, "tokens": 9000}, 4}, {map[string]float64{"queue": 120}, 4}, {map[string]float64{"queue": 10}, 6},
			{map[string]float64{"queue": 150}, 4}, {map[string]float64{"queue": 150, "tokens": 4000}, 4}, {map[string]float64{"queue": 20, "tokens": 4000}, 4},
		},
	},
	"bounds": {
		start: 4, least: 3, most: 6,
		behavior: autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules(0), ScaleDown: rules(0)},
		values:   []value{queue(500, 4), queue(0, 4), queue(50, 4)},
	},
	"a total": {
		start: 2, least: 1, most: 30, total: true,
		behavior: autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules(0), ScaleDown: rules(0)},
		values:   []value{queue(20, 6), queue(10, 4), queue(5, 6), queue(10, 4)},
	},
}

// Both sides make the same counts, in the same order, from the same metrics.
func TestTheCountsAreThoseOfAnHPA(t *testing.T) {
	for name, c := range courses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := env.World(t)
			if c.targets == nil {
				c.targets = map[string]string{"queue": "10"}
			}
			c.set(w, c.values[0])
			byHPA, byScaler := record(t, w, "by-hpa"), record(t, w, "by-scaler")
			for _, name := range []string{"by-hpa", "by-scaler"} {
				w.Create(testkit.MakeDeployment(w.Namespace, name).Replicas(c.start).Obj())
			}
			for _, name := range []string{"by-hpa", "by-scaler"} {
				testkit.Eventually(t, estest.Patience, name+" to be ready", func(ctx context.Context) error {
					d := &appsv1.Deployment{}
					err := w.Client.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: name}, d)
					if err == nil && d.Status.ReadyReplicas != c.start {
						err = fmt.Errorf("%d of %d pods are ready", d.Status.ReadyReplicas, c.start)
					}
					return err
				})
			}
			w.Create(c.hpa(w), c.scaler(w))
			for i, v := range c.values {
				c.set(w, v)
				set, before := time.Now(), c.reads(w)
				testkit.Eventually(t, estest.Patience, fmt.Sprintf("both sides to agree on value %d, %v", i, v.metrics), func(context.Context) error {
					for name, n := range c.reads(w) {
						if n < before[name]+decisions {
							return fmt.Errorf("metric %s was read %d times since it was set", name, n-before[name])
						}
					}
					return settled(byHPA.seen(), byScaler.seen(), set, time.Duration(v.seconds)*time.Second)
				})
			}
			a, b := byHPA.counts(), byScaler.counts()
			t.Logf("HPA %v, ElasticScaler %v", a, b)
			if !c.total && !slices.Equal(a, b) {
				t.Errorf("the HPA made the counts %v, the ElasticScaler %v", a, b)
			}
		})
	}
}

// settled returns nil once both sides have kept one and the same count for a while, which is longer than what their windows
// and periods hold back.
func settled(a, b []count, since time.Time, quiet time.Duration) error {
	x, y := a[len(a)-1], b[len(b)-1]
	if x.replicas != y.replicas {
		return fmt.Errorf("the HPA has %d replicas, the ElasticScaler %d", x.replicas, y.replicas)
	}
	if left := quiet - time.Since(later(since, later(x.at, y.at))); left > 0 {
		return fmt.Errorf("%s of quiet left", left.Round(time.Second))
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (c course) set(w *estest.World, v value) {
	for name := range c.targets {
		for _, side := range []string{ofHPA, ofScaler} {
			if x, ok := v.metrics[name]; ok {
				external.Set(w.Namespace, name+side, strconv.FormatFloat(x, 'f', -1, 64))
			} else {
				external.Unset(w.Namespace, name+side)
			}
		}
	}
}

// reads is how often each metric was read.
func (c course) reads(w *estest.World) map[string]int {
	reads := map[string]int{}
	for name := range c.targets {
		for _, side := range []string{ofHPA, ofScaler} {
			reads[name+side] = external.Reads(w.Namespace, name+side)
		}
	}
	return reads
}

func (c course) names() []string {
	var names []string
	for name := range c.targets {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (c course) hpa(w *estest.World) *autoscalingv2.HorizontalPodAutoscaler {
	hpa := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "by-hpa"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "by-hpa"},
			MinReplicas:    &c.least, MaxReplicas: c.most, Behavior: c.behavior.DeepCopy(),
		},
	}
	for _, name := range c.names() {
		quantity := resource.MustParse(c.targets[name])
		target := autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: &quantity}
		if c.total {
			target = autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: &quantity}
		}
		hpa.Spec.Metrics = append(hpa.Spec.Metrics, autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
			Metric: autoscalingv2.MetricIdentifier{Name: name + ofHPA}, Target: target,
		}})
	}
	return hpa
}

// scaler has the settings with which the engine decides as an HPA does: no window over the metrics, and none of APA's own
// rates.
func (c course) scaler(w *estest.World) *v1alpha1.ElasticScaler {
	var metrics []v1alpha1.MetricSpec
	for _, name := range c.names() {
		quantity := resource.MustParse(c.targets[name])
		target := v1alpha1.MetricTarget{Type: v1alpha1.AverageValueMetricType, AverageValue: &quantity}
		if c.total {
			target = v1alpha1.MetricTarget{Type: v1alpha1.ValueMetricType, Value: &quantity}
		}
		metrics = append(metrics, v1alpha1.MetricSpec{Type: v1alpha1.ExternalMetricType, External: &v1alpha1.ExternalMetricSource{MetricsName: name + ofScaler, Target: target}})
	}
	scaler := w.Scaler(estest.Metrics("APA", metrics...))
	scaler.Name = "by-scaler"
	scaler.Spec.TargetRef.Name = "by-scaler"
	scaler.Spec.MinReplicas, scaler.Spec.MaxReplicas = &c.least, &c.most
	scaler.Spec.Behavior = c.behavior.DeepCopy()
	scaler.Spec.Trigger.MetricsTrigger.AlgorithmConfig = map[string]v1alpha1.ConfigValue{
		"maxScaleUpRate": "1000", "maxScaleDownRate": "1000",
	}
	scaler.Annotations = map[string]string{"elasticscaler.io/metrics.windowSeconds": "0"}
	return scaler
}

// count is a count that a Deployment was given.
type count struct {
	at       time.Time
	replicas int32
}

// recorder notes each count of a Deployment.
type recorder struct {
	mu  sync.Mutex
	all []count
}

func record(t *testing.T, w *estest.World, name string) *recorder {
	t.Helper()
	r := &recorder{all: []count{{at: time.Now(), replicas: -1}}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	watch, err := w.Client.Watch(ctx, &appsv1.DeploymentList{}, client.InNamespace(w.Namespace),
		&client.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name)})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range watch.ResultChan() {
			if d, ok := event.Object.(*appsv1.Deployment); ok {
				r.add(*d.Spec.Replicas)
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		watch.Stop()
		<-done
	})
	return r
}

func (r *recorder) add(replicas int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all[len(r.all)-1].replicas != replicas {
		r.all = append(r.all, count{at: time.Now(), replicas: replicas})
	}
}

func (r *recorder) seen() []count {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

func (r *recorder) counts() []int32 {
	var out []int32
	for _, c := range r.seen()[1:] {
		out = append(out, c.replicas)
	}
	return out
}
