package restart

import (
	"context"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	tidalv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/lab/faulty"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
)

// whileDown kills the manager, does what is to happen meanwhile, and starts the manager again. Tests that call it are not
// parallel.
func whileDown(t *testing.T, do func()) {
	t.Helper()
	if err := env.Manager.Kill(); err != nil {
		t.Fatal(err)
	}
	do()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if err := env.Manager.Start(ctx); err != nil {
		t.Fatal(err)
	}
}

func queue(s *faulty.Server) v1alpha1.MetricSpec {
	return estest.Query(s.URL(), "queue", "sum(queue)", "10")
}

func tell(s *faulty.Server, value string) { s.Answer(faulty.Vector(faulty.Series{Value: value})) }

func bySignal(w *estest.World, s *faulty.Server) *v1alpha1.ElasticScaler {
	scaler := w.Scaler(v1alpha1.Trigger{Type: v1alpha1.SignalTriggerType, SignalTrigger: &v1alpha1.SignalTrigger{Endpoint: s.URL()}})
	scaler.Spec.MinReplicas, scaler.Spec.MaxReplicas = new(int32(0)), new(int32(4))
	return scaler
}

// A restart of the manager in which nothing has changed writes nothing: not for a metric, nor for one that is missing, a
// source, a signal or an HPA.
func TestARestartWritesNothing(t *testing.T) {
	worlds := map[string]*estest.World{}
	for _, name := range []string{"metric", "missing", "source", "signal", "hpa"} {
		worlds[name] = env.World(t)
		worlds[name].CreateTarget(3)
	}
	w := worlds["metric"]
	server := w.Server(faulty.Options{})
	tell(server, "30")
	w.Create(estest.Instant(w.Scaler(estest.Metrics("", queue(server)))))
	w.Settled()

	w = worlds["missing"]
	missing := w.Server(faulty.Options{})
	missing.Answer(faulty.Vector())
	w.Create(estest.Instant(w.Scaler(estest.Metrics("", queue(missing)))))
	w.Condition(v1alpha1.ConditionMetricsCollected, metav1.ConditionFalse, v1alpha1.ReasonNoData)

	w = worlds["source"]
	tidal := &tidalv1alpha1.Tidal{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "tide", Labels: map[string]string{
			v1alpha1.LabelScalerName: w.Name, v1alpha1.LabelScalerNamespace: w.Namespace,
		}},
		Spec: tidalv1alpha1.TidalSpec{
			TargetRef: tidalv1alpha1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: w.Namespace, Name: w.Name},
			Triggers:  tidalv1alpha1.Triggers{Times: tidalv1alpha1.TimeTrigger{Rules: []tidalv1alpha1.TimeRule{{Name: "always", Cron: "* * * * *", Replicas: new(int32(3))}}}},
		},
	}
	w.Create(tidal)
	tidal.Status.DesiredReplicas = new(int32(3))
	if err := w.Client.Status().Update(t.Context(), tidal); err != nil {
		t.Fatal(err)
	}
	byState := w.Scaler(v1alpha1.Trigger{Type: v1alpha1.StateTriggerType})
	w.Create(byState)
	w.Settled()

	w = worlds["signal"]
	signalServer := w.Server(faulty.Options{})
	signals := faulty.NewSignals(faulty.EventStream)
	signalServer.Answer(signals)
	scaler := bySignal(w, signalServer)
	scaler.Spec.MaxReplicas = new(int32(3))
	w.Create(scaler)
	w.Connected(signals)
	signals.Send(faulty.Message{ID: "1", Data: `{"signal": "ScaleUp"}`})
	w.Condition(v1alpha1.ConditionScalingCalculated, metav1.ConditionTrue, v1alpha1.ReasonSignalReceived)
	w.Settled()

	w = worlds["hpa"]
	average := estest.Metrics("HPA", v1alpha1.MetricSpec{Type: v1alpha1.ExternalMetricType, External: &v1alpha1.ExternalMetricSource{
		MetricsName: "queue", Target: v1alpha1.MetricTarget{Type: v1alpha1.AverageValueMetricType, AverageValue: queue(server).ExternalServer.Target},
	}})
	w.Create(w.Scaler(average))
	w.Condition(v1alpha1.ConditionAvailable, metav1.ConditionFalse, "FailedGetExternalMetric")
	hpa := &autoscalingv2.HorizontalPodAutoscaler{}
	key := types.NamespacedName{Namespace: w.Namespace, Name: w.Name}
	if err := w.Client.Get(t.Context(), key, hpa); err != nil {
		t.Fatal(err)
	}

	worlds["metric"].Evaluated(server, 2)
	before := map[string]estest.Versions{}
	for name, w := range worlds {
		before[name] = w.Versions()
	}
	whileDown(t, func() {})
	worlds["metric"].Evaluated(server, 3)
	worlds["missing"].Evaluated(missing, 3)
	w.Connected(signals)
	for name, w := range worlds {
		if after := w.Versions(); after != before[name] {
			t.Errorf("%s: after the restart there is\n%+v\nwant what there was before\n%+v", name, after, before[name])
			t.Log(w.Live().Status)
		}
	}
	live := &autoscalingv2.HorizontalPodAutoscaler{}
	if err := w.Client.Get(t.Context(), key, live); err != nil {
		t.Fatal(err)
	}
	if live.UID != hpa.UID || live.Generation != hpa.Generation {
		t.Errorf("the HPA was written: generation %d after %d", live.Generation, hpa.Generation)
	}
}

// After a restart a lower count must be recommended for a whole window again: what was recommended before is not known.
func TestARestartDoesNotShrinkAtOnce(t *testing.T) {
	const window = 8 * time.Second
	w := env.World(t)
	server := w.Server(faulty.Options{})
	tell(server, "40")
	w.CreateTarget(4)
	counts := w.Record()
	scaler := estest.Instant(w.Scaler(estest.Metrics("", queue(server))))
	scaler.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: new(int32(window / time.Second))}}
	w.Create(scaler)
	w.Settled()
	var began time.Time
	whileDown(t, func() {
		tell(server, "20")
		began = time.Now()
	})
	counts.Wait(4, 2)
	if after := time.Since(began); after < window {
		t.Errorf("the target shrank %s after the restart, want a window of %s", after, window)
	}
	w.Event("Normal", v1alpha1.ReasonScaled, "from 4 to 2")
}

// What users changed while no manager ran holds once one does: bounds, a metric that vanished, a target at another count.
func TestChangesWhileNoManagerRan(t *testing.T) {
	bounded, missing, stopped := env.World(t), env.World(t), env.World(t)
	servers := map[*estest.World]*faulty.Server{}
	records := map[*estest.World]*estest.Record{}
	for _, w := range []*estest.World{bounded, missing, stopped} {
		servers[w] = w.Server(faulty.Options{})
		tell(servers[w], "40")
		w.CreateTarget(4)
		records[w] = w.Record()
		w.Create(estest.Instant(w.Scaler(estest.Metrics("", queue(servers[w])))))
		w.Settled()
	}
	whileDown(t, func() {
		missing.ScaleTo(6)
		servers[missing].Answer(faulty.Vector())
		stopped.ScaleTo(0)
		bounded.ScaleTo(12)
	})
	records[bounded].Wait(4, 12, 10, 5, 4)
	missing.Condition(v1alpha1.ConditionMetricsCollected, metav1.ConditionFalse, v1alpha1.ReasonNoData)
	stopped.Condition(v1alpha1.ConditionScalingCalculated, metav1.ConditionFalse, v1alpha1.ReasonManualZero)
	missing.Evaluated(servers[missing], 1)
	stopped.Evaluated(servers[stopped], 1)
	records[missing].Wait(4, 6)
	records[stopped].Wait(4, 0)
}

// The last signal stands over a restart, and the endpoint is asked for what was sent meanwhile.
func TestSignalsOverARestart(t *testing.T) {
	w, quiet := env.World(t), env.World(t)
	server, quietServer := w.Server(faulty.Options{}), quiet.Server(faulty.Options{})
	signals, quietSignals := faulty.NewSignals(faulty.EventStream), faulty.NewSignals(faulty.EventStream)
	server.Answer(signals)
	quietServer.Answer(quietSignals)
	w.CreateTarget(2)
	quiet.CreateTarget(2)
	counts, quietCounts := w.Record(), quiet.Record()
	w.Create(bySignal(w, server))
	quiet.Create(bySignal(quiet, quietServer))
	w.Connected(signals)
	quiet.Connected(quietSignals)
	signals.Send(faulty.Message{ID: "one", Data: `{"signal": "ScaleDown"}`})
	quietSignals.Send(faulty.Message{ID: "only", Data: `{"signal": "ScaleUp"}`})
	counts.Wait(2, 0)
	quietCounts.Wait(2, 4)
	quiet.Condition(v1alpha1.ConditionScalingCalculated, metav1.ConditionTrue, v1alpha1.ReasonSignalReceived)
	whileDown(t, func() {
		server.Forget()
		signals.Send(faulty.Message{ID: "two", Data: `{"signal": "ScaleUp"}`})
		quiet.ScaleTo(1)
	})
	counts.Wait(2, 0, 4)
	quietCounts.Wait(2, 4, 1, 4)
	if got := server.Requests()[0].Header.Get("Last-Event-ID"); got != "one" {
		t.Errorf("the manager came back with Last-Event-ID %q, want one", got)
	}
	if last := quiet.Live().Status.LastSignal; last == nil || last.ID != "only" {
		t.Errorf("the last signal is %+v", last)
	}
}
