package closedloop

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab/simulator/api"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
)

const (
	// target is how many requests a replica, or a group, is to hold.
	target = 32
	// interval between two decisions.
	interval = 2 * time.Second
	// settleWithin is after how many decisions the queue is back under twice the target.
	settleWithin = 20
	// drainWithin is after how many decisions, from the end of the load on, the count is at its minimum. It is less than 5
	// minutes of them.
	drainWithin = 140
	// turns is how often the count may change its direction in one step.
	turns = 2
)

// steps are the speeds at which the recorded hour is replayed, in multiples of the recorded speed, and for how long.
var steps = []struct {
	speed float64
	takes time.Duration
}{{5, 45 * time.Second}, {10, 60 * time.Second}, {4, 45 * time.Second}}

// A Deployment of engines, and a ResourceScalingGroup of prefill and decode engines, follow a recorded stream: the queue
// comes back after each step of the load, the count does not swing, and it is at its minimum after the load has ended.
func TestReplicasFollowARecordedStream(t *testing.T) {
	for name, of := range map[string]func(*estest.World) (*v1alpha1.ElasticScaler, api.Load){"Deployment": deployment, "ResourceScalingGroup": groups} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := env.World(t)
			scaler, load := of(w)
			w.Create(scaler)
			r := &recorder{w: w, service: load.Name}
			r.follow(t, scaler)
			for i, step := range steps {
				load.Speed = &step.speed
				if err := env.Simulator.Load(t.Context(), load); err != nil {
					t.Fatal(err)
				}
				r.step(t, fmt.Sprintf("step %d, %g times the recorded speed", i+1, step.speed), step.takes)
			}
			if _, err := env.Simulator.StopLoad(t.Context(), load.Name, false); err != nil {
				t.Fatal(err)
			}
			r.drain(t)
			file := filepath.Join(artifacts(t), "closed-loop-"+name+".svg")
			if err := os.WriteFile(file, []byte(plot(name, r.seen())), 0o600); err != nil {
				t.Error(err)
			}
			t.Logf("the course of load, replicas and queue is in %s", file)
		})
	}
}

// artifacts is the folder that a plot is left in.
func artifacts(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("PDO_ARTIFACTS"); dir != "" {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	return t.ArtifactDir()
}

// deployment makes engines that prefill and decode.
func deployment(w *estest.World) (*v1alpha1.ElasticScaler, api.Load) {
	w.CreateTarget(1)
	return scalerOf(w, v1alpha1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: w.Name}),
		api.Load{Name: w.Namespace, Namespace: w.Namespace, Selector: map[string]string{"app": w.Name}, Trace: "conversation", Seed: 1}
}

// groups makes groups of one prefill and one decode engine.
func groups(w *estest.World) (*v1alpha1.ElasticScaler, api.Load) {
	w.Create(
		testkit.MakeService(w.Namespace, "llm-prefill", "llm-prefill"),
		testkit.MakeService(w.Namespace, "llm-decode", "llm-decode"),
		testkit.MakeDeployment(w.Namespace, "llm-prefill").Replicas(1).Obj(),
		testkit.MakeDeployment(w.Namespace, "llm-decode").Replicas(1).Obj(),
		testkit.MakeRSG(w.Namespace, w.Name).Target("prefill", w.Namespace, "llm-prefill").Target("decode", w.Namespace, "llm-decode").GroupName("pd").Obj(),
	)
	return scalerOf(w, v1alpha1.TargetReference{APIVersion: autoscalingv1alpha1.GroupVersion.String(), Kind: "ResourceScalingGroup", Name: w.Name}),
		api.Load{
			Name: w.Namespace, Namespace: w.Namespace, Trace: "conversation", Seed: 1,
			Prefill: map[string]string{"app": "llm-prefill"}, Decode: map[string]string{"app": "llm-decode"},
		}
}

// scalerOf holds the requests that wait or run at so many per replica. What takes minutes in production takes seconds here,
// since the load is as many times faster than recorded.
func scalerOf(w *estest.World, ref v1alpha1.TargetReference) *v1alpha1.ElasticScaler {
	query := fmt.Sprintf(`sum(vllm:num_requests_running{namespace=%q}) + sum(vllm:num_requests_waiting{namespace=%q})`, w.Namespace, w.Namespace)
	scaler := w.Scaler(estest.Metrics("APA", estest.Query(env.Lab.PrometheusURL(), "requests", query, fmt.Sprint(target))))
	scaler.Spec.TargetRef = ref
	scaler.Spec.MaxReplicas = new(int32(40))
	scaler.Spec.IntervalSeconds = new(int32(interval / time.Second))
	scaler.Annotations = map[string]string{
		"elasticscaler.io/metrics.windowSeconds":                         "4",
		"elasticscaler.io/behavior.scaleUp.stabilizationWindowSeconds":   "0",
		"elasticscaler.io/behavior.scaleDown.stabilizationWindowSeconds": "20",
	}
	return scaler
}

// moment is what was seen at one time.
type moment struct {
	at        time.Duration
	decisions float64
	load      float64
	queue     float64
	replicas  float64
	step      string
}

// recorder looks at a service and its scaler, once a second.
type recorder struct {
	w       *estest.World
	service string

	mu      sync.Mutex
	moments []moment
	label   string
}

func (r *recorder) seen() []moment {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]moment(nil), r.moments...)
}

// follow records until the test ends.
func (r *recorder) follow(t *testing.T, scaler *v1alpha1.ElasticScaler) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	start := time.Now()
	go func() {
		defer close(done)
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			m, err := r.look(ctx, scaler)
			if err != nil {
				continue // What could not be seen is not drawn.
			}
			r.mu.Lock()
			m.at, m.step = time.Since(start), r.label
			r.moments = append(r.moments, m)
			r.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

func (r *recorder) look(ctx context.Context, scaler *v1alpha1.ElasticScaler) (moment, error) {
	var m moment
	state, err := env.Simulator.State(ctx)
	if err != nil {
		return m, err
	}
	for _, s := range state.Services {
		if s.Name == r.service {
			m.load, m.queue = s.ArrivalRate, float64(s.Waiting+s.Running+s.Queued.Total())
		}
	}
	obj, err := targetObject(scaler)
	if err != nil {
		return m, err
	}
	scale := &autoscalingv1.Scale{}
	if err := env.Client.SubResource("scale").Get(ctx, obj, scale); err != nil {
		return m, err
	}
	m.replicas = float64(scale.Spec.Replicas)
	m.decisions, err = env.Metric(ctx, "pdo_elasticscaler_decision_lateness_seconds_count")
	return m, err
}

func targetObject(scaler *v1alpha1.ElasticScaler) (client.Object, error) {
	ref := scaler.Spec.TargetRef
	m := metav1.ObjectMeta{Namespace: scaler.Namespace, Name: ref.Name}
	if ref.Kind == "Deployment" {
		d := testkit.MakeDeployment(scaler.Namespace, ref.Name).Obj()
		return d, nil
	}
	return &autoscalingv1alpha1.ResourceScalingGroup{ObjectMeta: m}, nil
}

// begin names what is seen from now on.
func (r *recorder) begin(label string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.label = label
}

// of are the moments of a step.
func (r *recorder) of(label string) []moment {
	var out []moment
	for _, m := range r.seen() {
		if m.step == label {
			out = append(out, m)
		}
	}
	return out
}

// step lets a step of the load pass and judges it.
func (r *recorder) step(t *testing.T, label string, takes time.Duration) {
	t.Helper()
	r.begin(label)
	until := time.Now().Add(takes)
	testkit.Eventually(t, takes+estest.Patience, "the end of "+label, func(context.Context) error {
		if left := time.Until(until); left > 0 {
			return fmt.Errorf("%s left", left.Round(time.Second))
		}
		return nil
	})
	moments := r.of(label)
	if len(moments) == 0 {
		t.Fatalf("%s: nothing was seen", label)
	}
	// Each of the scalers decides, so that their number divides the count of decisions.
	settled := false
	for _, m := range moments {
		passed := (m.decisions - moments[0].decisions) / 2
		if passed <= settleWithin {
			settled = settled || passed > 1 && m.queue < 2*target*m.replicas
			continue
		}
		if !settled {
			t.Errorf("%s: after %d decisions the queue is still %.0f at %.0f replicas, more than twice the target of %d each", label, settleWithin, m.queue, m.replicas, target)
			break
		}
	}
	if n := directionChanges(moments); n > turns {
		t.Errorf("%s: the count changed its direction %d times, at most %d are due: %v", label, n, turns, counts(moments))
	}
}

// drain waits until the count is at its minimum.
func (r *recorder) drain(t *testing.T) {
	t.Helper()
	const label = "no load"
	r.begin(label)
	testkit.Eventually(t, 6*time.Minute, "the minimum", func(context.Context) error {
		moments := r.of(label)
		if len(moments) == 0 {
			return fmt.Errorf("nothing seen yet")
		}
		last := moments[len(moments)-1]
		if last.replicas <= 1 {
			return nil
		}
		if passed := (last.decisions - moments[0].decisions) / 2; passed > drainWithin {
			t.Fatalf("%.0f replicas %.0f decisions after the end of the load", last.replicas, passed)
		}
		return fmt.Errorf("%.0f replicas, queue %.0f", last.replicas, last.queue)
	})
}

// directionChanges counts how often a rising count falls or a falling one rises.
func directionChanges(moments []moment) int {
	n, direction := 0, 0.0
	for i := 1; i < len(moments); i++ {
		d := moments[i].replicas - moments[i-1].replicas
		if d == 0 {
			continue
		}
		if direction*d < 0 {
			n++
		}
		direction = d
	}
	return n
}

func counts(moments []moment) []float64 {
	var out []float64
	for _, m := range moments {
		if len(out) == 0 || out[len(out)-1] != m.replicas {
			out = append(out, m.replicas)
		}
	}
	return out
}
