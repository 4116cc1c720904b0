package elasticscaler

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab/faulty"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
)

// bySignal is a scaler between 0 and 6 that listens at a server.
func bySignal(w *estest.World, s *faulty.Server) *v1alpha1.ElasticScaler {
	scaler := w.Scaler(v1alpha1.Trigger{Type: v1alpha1.SignalTriggerType, SignalTrigger: &v1alpha1.SignalTrigger{Endpoint: s.URL() + "/signals"}})
	scaler.Spec.MinReplicas, scaler.Spec.MaxReplicas = new(int32(0)), new(int32(6))
	return scaler
}

// signal is a message.
func signal(id string, word v1alpha1.SignalType) faulty.Message {
	return faulty.Message{ID: id, Data: fmt.Sprintf(`{"signal": %q, "id": %q}`, word, id)}
}

// counted waits until that many signals of all scalers came to a result on a way, counted from before.
func counted(t *testing.T, result, transport string) func(more float64) {
	t.Helper()
	labels := map[string]string{"result": result, "transport": transport}
	before, _, err := env.Series(t.Context(), "pdo_elasticscaler_signals_total", labels)
	if err != nil {
		t.Fatal(err)
	}
	return func(more float64) {
		t.Helper()
		testkit.Eventually(t, estest.Patience, fmt.Sprintf("%v more signals that are %s by %s", more, result, transport), func(ctx context.Context) error {
			now, _, err := env.Series(ctx, "pdo_elasticscaler_signals_total", labels)
			if err == nil && now < before+more {
				err = fmt.Errorf("there are %v", now-before)
			}
			return err
		})
	}
}

// ScaleUp sets the upper bound and ScaleDown the lower one, whatever way the endpoint hands its signals over.
func TestSignalsSetTheBounds(t *testing.T) {
	t.Parallel()
	for name, transport := range map[string]faulty.Transport{
		"events": faulty.EventStream, "lines": faulty.Lines, "polling": faulty.Polling, "polling the latest": faulty.PollingLatest,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := env.World(t)
			server := w.Server(faulty.Options{})
			signals := faulty.NewSignals(transport)
			server.AnswerPath("/signals", signals)
			w.CreateTarget(2)
			counts := w.Record()
			w.Create(bySignal(w, server))
			// Before the first signal the count is left alone, and nothing is wrong.
			w.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
			w.Condition(v1alpha1.ConditionScalingCalculated, metav1.ConditionFalse, v1alpha1.ReasonNoSignal)
			if transport == faulty.EventStream || transport == faulty.Lines {
				w.Connected(signals)
			}
			signals.Send(signal("1", v1alpha1.SignalScaleUp))
			counts.Wait(2, 6)
			w.Event("Normal", v1alpha1.ReasonScaled, "from 2 to 6", `signal ScaleUp with id "1" stands`)
			signals.Send(signal("2", v1alpha1.SignalScaleDown))
			counts.Wait(2, 6, 0)
			signals.Send(signal("3", v1alpha1.SignalScaleUp))
			counts.Wait(2, 6, 0, 6)
			scaler := w.Condition(v1alpha1.ConditionScalingCalculated, metav1.ConditionTrue, v1alpha1.ReasonSignalReceived)
			if last := scaler.Status.LastSignal; last == nil || last.ID != "3" || last.Signal != v1alpha1.SignalScaleUp || last.ReceivedTime == nil {
				t.Errorf("the last signal is %+v", last)
			}
			// It stands when the bounds change, and when somebody else sets another count.
			w.Edit(func(s *v1alpha1.ElasticScaler) { s.Spec.MaxReplicas = new(int32(4)) })
			counts.Wait(2, 6, 0, 6, 4)
			w.ScaleTo(1)
			counts.Wait(2, 6, 0, 6, 4, 1, 4)
			events, err := w.Events(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				if e.Type == "Warning" {
					t.Errorf("there is a warning where all is well: %s: %s", e.Reason, e.Note)
				}
			}
		})
	}
}

// Signals that say nothing new, are none, or are too old change nothing, and are counted.
func TestSignalsThatCountForNothing(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server := w.Server(faulty.Options{})
	signals := faulty.NewSignals(faulty.Lines)
	server.AnswerPath("/signals", signals)
	w.CreateTarget(2)
	counts := w.Record()
	w.Create(bySignal(w, server))
	w.Connected(signals)
	now := time.Now()
	at := func(d time.Duration) string { return now.Add(d).UTC().Format(time.RFC3339) }
	signals.Send(faulty.Message{Data: fmt.Sprintf(`{"signal": "ScaleUp", "id": "a", "time": %q}`, at(0))})
	counts.Wait(2, 6)
	for _, bad := range []struct{ result, message string }{
		{"repeated", fmt.Sprintf(`{"signal": "ScaleDown", "id": "a", "time": %q}`, at(time.Second))},
		{"late", fmt.Sprintf(`{"signal": "ScaleDown", "id": "b", "time": %q}`, at(-time.Hour))},
		{"future", fmt.Sprintf(`{"signal": "ScaleDown", "id": "c", "time": %q}`, at(time.Hour))},
		{"unknown", `{"signal": "ScaleSideways"}`},
		{"malformed", `{"signal": "ScaleDown"`},
		{"malformed", `"ScaleDown"`},
		{"oversized", `{"signal": "ScaleDown", "padding": "` + strings.Repeat("x", 70_000) + `"}`},
	} {
		more := counted(t, bad.result, "lines")
		signals.Send(faulty.Message{Data: bad.message})
		more(1)
	}
	w.Condition(v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonInvalidSignal)
	counts.Wait(2, 6)
	signals.Send(faulty.Message{Data: fmt.Sprintf(`{"signal": "ScaleDown", "id": "d", "time": %q}`, at(2*time.Second))})
	counts.Wait(2, 6, 0)
	w.Condition(v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonReconciled)
}

// A listener whose connection breaks comes back and asks for what it missed.
func TestAListenerResumes(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server := w.Server(faulty.Options{})
	signals := faulty.NewSignals(faulty.EventStream)
	server.AnswerPath("/signals", signals)
	w.CreateTarget(2)
	counts := w.Record()
	w.Create(bySignal(w, server))
	w.Connected(signals)
	signals.Send(signal("one", v1alpha1.SignalScaleDown))
	counts.Wait(2, 0)
	if err := server.Down(); err != nil {
		t.Fatal(err)
	}
	w.Condition(v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonEndpointUnreachable, "refuses the connection")
	w.Event("Warning", v1alpha1.ReasonEndpointUnreachable, "refuses the connection")
	// What stood goes on standing.
	w.ScaleTo(3)
	counts.Wait(2, 0, 3, 0)
	signals.Send(signal("two", v1alpha1.SignalScaleUp))
	server.Forget()
	if err := server.Up(); err != nil {
		t.Fatal(err)
	}
	counts.Wait(2, 0, 3, 0, 6)
	w.Condition(v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
	if requests := server.Requests(); requests[0].Header.Get("Last-Event-ID") != "one" {
		t.Errorf("the listener came back with Last-Event-ID %q, want one", requests[0].Header.Get("Last-Event-ID"))
	}
}

// A bearer token and a CA come from Secrets of the scaler's namespace, and are read again when they are refused.
func TestATokenAndACAFromSecrets(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server := w.Server(faulty.Options{TLS: true, Token: "first-token"})
	signals := faulty.NewSignals(faulty.PollingLatest)
	server.AnswerPath("/signals", signals)
	signals.Send(signal("1", v1alpha1.SignalScaleUp))
	w.CreateTarget(2)
	scaler := bySignal(w, server)
	scaler.Spec.Trigger.SignalTrigger.TokenSecretRef = &v1alpha1.SecretKeyReference{Name: "signals", Key: "token"}
	scaler.Spec.Trigger.SignalTrigger.CASecretRef = &v1alpha1.SecretKeyReference{Name: "signals", Key: "ca.crt"}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "signals"}, Data: map[string][]byte{
		"token": []byte("first-token\n"), "ca.crt": server.CABundle(),
	}}
	w.Create(secret, scaler)
	w.WaitReplicas(6)
	// The Secret is read again when the token is refused, but no more than once a minute.
	server.SetToken("second-token")
	secret.Data["token"] = []byte("second-token")
	if err := w.Client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	signals.Send(signal("2", v1alpha1.SignalScaleDown))
	testkit.Eventually(t, 2*estest.Patience, "the new token to be taken", func(ctx context.Context) error {
		n, err := w.Replicas(ctx)
		if err == nil && n != 0 {
			err = fmt.Errorf("there are to be %d replicas", n)
		}
		return err
	})
	w.Condition(v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
	for _, text := range []string{string(mustYAML(t, w.Live())), managerLog(t)} {
		for _, token := range []string{"first-token", "second-token"} {
			if strings.Contains(text, token) {
				t.Errorf("a token shows in the status or the log")
			}
		}
	}
}

// A Secret that is not there, a certificate that is not trusted and a token that is not taken are told.
func TestAccessThatFails(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		options faulty.Options
		data    map[string]string
		token   bool
		reason  string
		says    string
	}{
		"no Secret":            {faulty.Options{}, nil, true, v1alpha1.ReasonSecretNotFound, "Secret signals does not exist"},
		"no key in the Secret": {faulty.Options{}, map[string]string{"other": "x"}, true, v1alpha1.ReasonSecretNotFound, "Secret signals has no key token"},
		"a wrong token":        {faulty.Options{Token: "right"}, map[string]string{"token": "wrong"}, true, v1alpha1.ReasonEndpointUnreachable, "401 Unauthorized: it does not take the token"},
		"no token":             {faulty.Options{Token: "right"}, nil, false, v1alpha1.ReasonEndpointUnreachable, "it was sent no token, which tokenSecretRef can name"},
		"an unknown CA":        {faulty.Options{TLS: true}, nil, false, v1alpha1.ReasonEndpointUnreachable, "certificate that is not trusted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := env.World(t)
			server := w.Server(tc.options)
			signals := faulty.NewSignals(faulty.PollingLatest)
			signals.Send(signal("1", v1alpha1.SignalScaleUp))
			server.AnswerPath("/signals", signals)
			w.CreateTarget(2)
			scaler := bySignal(w, server)
			if tc.token {
				scaler.Spec.Trigger.SignalTrigger.TokenSecretRef = &v1alpha1.SecretKeyReference{Name: "signals", Key: "token"}
			}
			if tc.data != nil {
				w.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "signals"}, StringData: tc.data})
			}
			w.Create(scaler)
			w.Condition(v1alpha1.ConditionAvailable, metav1.ConditionFalse, tc.reason, tc.says)
			w.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, tc.reason)
			w.Event("Warning", tc.reason, tc.says)
			w.KeepsReplicas(2)
		})
	}
}

// A redirect would take the token to another host: it is not followed.
func TestASignalEndpointThatRedirects(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server, other := w.Server(faulty.Options{}), w.Server(faulty.Options{})
	server.Answer(faulty.Redirect(307, other.URL()+"/signals"))
	signals := faulty.NewSignals(faulty.PollingLatest)
	signals.Send(signal("1", v1alpha1.SignalScaleUp))
	other.Answer(signals)
	w.CreateTarget(2)
	scaler := bySignal(w, server)
	scaler.Spec.Trigger.SignalTrigger.TokenSecretRef = &v1alpha1.SecretKeyReference{Name: "signals", Key: "token"}
	w.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "signals"}, StringData: map[string]string{"token": "secret"}}, scaler)
	w.Condition(v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonEndpointUnreachable, "redirects are not followed")
	w.KeepsReplicas(2)
	if n := other.Count("", ""); n > 0 {
		t.Errorf("the redirect was followed %d times", n)
	}
}

// When the trigger becomes another one the endpoint is no longer listened at, and the count stays until the new one decides.
func TestAnotherTrigger(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	server, metrics := w.Server(faulty.Options{}), w.Server(faulty.Options{})
	tell(metrics, "queue", "30")
	signals := faulty.NewSignals(faulty.Lines)
	server.AnswerPath("/signals", signals)
	w.CreateTarget(2)
	counts := w.Record()
	w.Create(bySignal(w, server))
	w.Connected(signals)
	signals.Send(signal("1", v1alpha1.SignalScaleUp))
	counts.Wait(2, 6)
	w.Edit(func(s *v1alpha1.ElasticScaler) {
		s.Spec.Trigger = estest.Metrics("", metric(metrics, "queue"))
		estest.Instant(s)
	})
	counts.Wait(2, 6, 3)
	testkit.Eventually(t, estest.Patience, "the listener to leave", func(context.Context) error {
		if n := signals.Connections(); n > 0 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
	w.Edit(func(s *v1alpha1.ElasticScaler) { s.Spec.Trigger = v1alpha1.Trigger{Type: v1alpha1.StateTriggerType} })
	w.Condition(v1alpha1.ConditionScalingCalculated, metav1.ConditionFalse, v1alpha1.ReasonNoSource)
	asked := metrics.Count("", "")
	w.KeepsReplicas(3)
	if n := metrics.Count("", "") - asked; n > 1 {
		t.Errorf("the metric of the trigger of before was asked for %d times", n)
	}
}
