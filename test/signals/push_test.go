package signals

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/controller/elasticscaler"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/signals"
	"github.com/pd-orchestrator/pd-orchestrator/internal/signal"
)

// replica is the handler of one replica of the manager.
func replica() http.Handler {
	return signal.NewHandler(signal.PushOptions{
		Acceptor: &elasticscaler.Reconciler{Client: api, APIReader: api, Clock: clock.RealClock{}},
		Reviews:  api, Clock: clock.RealClock{}, Log: ctrl.Log,
	})
}

// documented creates the manifests of the documentation in a namespace of its own.
func documented(t *testing.T) (namespace string) {
	t.Helper()
	created := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "signals-"}}
	if err := api.Create(t.Context(), created); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../docs/signals.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		for _, document := range regexp.MustCompile(`(?m)^---$`).Split(strings.ReplaceAll(block[1], "ai-inference", created.Name), -1) {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
				t.Fatalf("%v in\n%s", err, document)
			}
			if err := api.Create(t.Context(), object, client.FieldValidation("Strict")); err != nil {
				t.Fatalf("%v\n%s", err, document)
			}
			n++
		}
	}
	if n != 4 {
		t.Fatalf("%d manifests found, want 4", n)
	}
	return created.Name
}

// token is one of an account, for the API server or for the audience.
func token(t *testing.T, namespace, account string, audiences ...string) string {
	t.Helper()
	obj := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}
	if err := api.Create(t.Context(), obj); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
	if err := api.SubResource("token").Create(t.Context(), obj, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// push returns the status and the result of a push.
func push(ctx context.Context, to http.Handler, path, token, body string) (int, signals.Result, string) {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "https://manager"+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	to.ServeHTTP(w, r)
	var answer struct {
		Result  signals.Result
		Message string
	}
	_ = json.Unmarshal(w.Body.Bytes(), &answer)
	return w.Code, answer.Result, answer.Message
}

func lastSignal(t *testing.T, key types.NamespacedName) *v1alpha1.Signal {
	t.Helper()
	scaler := &v1alpha1.ElasticScaler{}
	if err := api.Get(t.Context(), key, scaler); err != nil {
		t.Fatal(err)
	}
	return scaler.Status.LastSignal
}

func TestPushAsDocumented(t *testing.T) {
	t.Parallel()
	namespace := documented(t)
	key := types.NamespacedName{Namespace: namespace, Name: "signal-scaling-example"}
	path := signal.PushPath + namespace + "/" + key.Name
	gate, other := token(t, namespace, "gate"), token(t, namespace, "other")
	server := replica()
	for _, tc := range []struct {
		name, path, token, body string
		status                  int
		result                  signals.Result
	}{
		{"the account with the right", path, gate, `{"signal": "ScaleUp", "id": "7", "time": "2026-03-14T12:00:00.5Z"}`, 202, signals.Accepted},
		{"again", path, gate, `{"signal": "ScaleUp", "id": "7", "time": "2026-03-14T12:00:00.5Z"}`, 200, signals.Repeated},
		{"late", path, gate, `{"signal": "ScaleDown", "id": "6", "time": "2026-03-14T11:59:59Z"}`, 200, signals.Late},
		{"an account without the right", path, other, `{"signal": "ScaleDown"}`, 403, signals.Forbidden},
		{"another scaler", signal.PushPath + namespace + "/other", gate, `{"signal": "ScaleDown"}`, 403, signals.Forbidden},
		{"another namespace", signal.PushPath + "default/" + key.Name, gate, `{"signal": "ScaleDown"}`, 403, signals.Forbidden},
		{"a token for somebody else", path, token(t, namespace, "gate", "https://vault.example.com"), `{"signal": "ScaleDown"}`, 401, signals.Unauthorized},
		{"a token that was tampered with", path, gate[:len(gate)-8] + "AAAAAAAA", `{"signal": "ScaleDown"}`, 401, signals.Unauthorized},
	} {
		status, result, message := push(t.Context(), server, tc.path, tc.token, tc.body)
		if status != tc.status || result != tc.result {
			t.Errorf("%s: got %d %s %q, want %d %s", tc.name, status, result, message, tc.status, tc.result)
		}
	}
	last := lastSignal(t, key)
	if last == nil || last.Signal != v1alpha1.SignalScaleUp || last.ID != "7" || !last.Time.Time.Equal(time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)) || last.ReceivedTime.IsZero() {
		t.Errorf("the status holds %+v, want the one accepted signal", last)
	}
}

func TestPushToWhatHasNoSignalTrigger(t *testing.T) {
	t.Parallel()
	namespace := documented(t)
	scaler := &v1alpha1.ElasticScaler{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "signal-scaling-example"}}
	gate := token(t, namespace, "gate")
	path := signal.PushPath + namespace + "/" + scaler.Name
	expect := func(what string) {
		t.Helper()
		if status, result, message := push(t.Context(), replica(), path, gate, `{"signal": "ScaleUp"}`); status != http.StatusNotFound || result != signals.NotFound {
			t.Errorf("%s: got %d %s %q, want 404", what, status, result, message)
		}
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"trigger": {"type": "StateTrigger", "signalTrigger": null}}}`))
	if err := api.Patch(t.Context(), scaler, patch); err != nil {
		t.Fatal(err)
	}
	expect("another trigger")
	if err := api.Delete(t.Context(), scaler); err != nil {
		t.Fatal(err)
	}
	expect("no scaler")
}

// TestPushToSeveralReplicasAtOnce has two replicas take signals of one scaler at the same time, while its status is written.
// None is lost: the later one of a pair of times stands in the end, whichever way they came.
func TestPushToSeveralReplicasAtOnce(t *testing.T) {
	t.Parallel()
	namespace := documented(t)
	key := types.NamespacedName{Namespace: namespace, Name: "signal-scaling-example"}
	path := signal.PushPath + namespace + "/" + key.Name
	gate := token(t, namespace, "gate")
	newest := time.Now().Add(-time.Minute).UTC().Truncate(time.Second)
	var all sync.WaitGroup
	for r, server := range []http.Handler{replica(), replica()} {
		for i := range 8 {
			all.Go(func() {
				at := newest.Add(-time.Duration(i) * time.Second)
				body := fmt.Sprintf(`{"signal": "ScaleUp", "id": "%d-%d", "time": %q}`, r, i, at.Format(time.RFC3339))
				if status, result, message := push(t.Context(), server, path, gate, body); status != http.StatusAccepted && status != http.StatusOK {
					t.Errorf("signal %d of replica %d: got %d %s %q", i, r, status, result, message)
				}
			})
		}
	}
	all.Go(func() {
		for i := range 20 {
			patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"status": {"currentReplicas": %d}}`, i))
			scaler := &v1alpha1.ElasticScaler{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
			if err := api.Status().Patch(t.Context(), scaler, patch); err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
	if last := lastSignal(t, key); last == nil || !last.Time.Time.Equal(newest) {
		t.Errorf("the status holds %+v, want a signal of %s", last, newest)
	}
}
