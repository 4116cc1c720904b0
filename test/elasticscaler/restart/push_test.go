package restart

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab/faulty"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
)

// pusher pushes signals as a ServiceAccount of a namespace.
type pusher struct {
	t      *testing.T
	client *http.Client
	token  string
}

// newPusher makes a ServiceAccount, with the right to signal the ElasticScalers of the namespace or without it.
func newPusher(t *testing.T, namespace, name string, allowed bool) *pusher {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	objects := []client.Object{&corev1.ServiceAccount{ObjectMeta: meta}}
	if allowed {
		objects = append(objects,
			&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"elasticscaler.io"}, Resources: []string{"elasticscalers/signal"}, Verbs: []string{"update"}}}},
			&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
				Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}}})
	}
	for _, o := range objects {
		if err := env.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	account, err := env.Lab.ServiceAccountConfig(t.Context(), namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	hooks := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Name: configuration}, hooks); err != nil {
		t.Fatal(err)
	}
	// The port has the certificate that the manager made for its webhook.
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(hooks.Webhooks[0].ClientConfig.CABundle) {
		t.Fatal("the registration of the webhook has no CA")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true}
	return &pusher{t: t, client: &http.Client{Transport: transport}, token: account.BearerToken}
}

// push sends a body, and returns the status and the result in the answer.
func (p *pusher) push(method, path, contentType, body string) (int, string) {
	p.t.Helper()
	var status int
	var answer struct{ Result, Message string }
	// A port that is busy says so, and is asked again.
	testkit.Eventually(p.t, estest.Patience, "an answer of the signal port", func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, method, pushURL+path, bytes.NewReader([]byte(body)))
		if err != nil {
			return err
		}
		if contentType != "" {
			req.Header.Set("Content-Type", contentType)
		}
		if p.token != "" {
			req.Header.Set("Authorization", "Bearer "+p.token)
		}
		resp, err := p.client.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		if status = resp.StatusCode; status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
			return fmt.Errorf("it answers %s", resp.Status)
		}
		return json.NewDecoder(resp.Body).Decode(&answer)
	})
	return status, answer.Result
}

func (p *pusher) signal(w *estest.World, body string) (int, string) {
	p.t.Helper()
	return p.push(http.MethodPost, w.Namespace+"/"+w.Name, "application/json", body)
}

// A signal is pushed to the manager by whoever may update elasticscalers/signal, and by nobody else.
func TestPushedSignals(t *testing.T) {
	w := env.World(t)
	w.CreateTarget(2)
	counts := w.Record()
	// Nothing comes from the endpoint.
	server := w.Server(faulty.Options{})
	server.Answer(faulty.NewSignals(faulty.Polling))
	w.Create(bySignal(w, server))
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
	allowed, stranger := newPusher(t, w.Namespace, "caller", true), newPusher(t, w.Namespace, "stranger", false)
	nobody, liar := *stranger, *stranger
	nobody.token, liar.token = "", strings.Repeat("x", 40)

	const up, down = `{"signal": "ScaleUp", "id": "1"}`, `{"signal": "ScaleDown", "id": "2"}`
	for _, tc := range []struct {
		name   string
		by     *pusher
		status int
		result string
	}{
		{"a ServiceAccount without the right", stranger, http.StatusForbidden, "forbidden"},
		{"nobody", &nobody, http.StatusUnauthorized, "unauthorized"},
		{"a token of nobody", &liar, http.StatusUnauthorized, "unauthorized"},
	} {
		before := pushed(t, tc.result)
		if status, result := tc.by.signal(w, up); status != tc.status || result != tc.result {
			t.Errorf("%s got %d %s, want %d %s", tc.name, status, result, tc.status, tc.result)
		}
		if now := pushed(t, tc.result); now <= before {
			t.Errorf("%s was not counted as %s", tc.name, tc.result)
		}
	}
	counts.Wait(2)

	before := pushed(t, "accepted")
	if status, result := allowed.signal(w, up); status != http.StatusAccepted || result != "accepted" {
		t.Errorf("the first signal got %d %s", status, result)
	}
	counts.Wait(2, 4)
	w.Event("Normal", v1alpha1.ReasonScaled, "from 2 to 4", `signal ScaleUp with id "1" stands`)
	if status, result := allowed.signal(w, up); status != http.StatusOK || result != "repeated" {
		t.Errorf("its repetition got %d %s", status, result)
	}
	if now := pushed(t, "accepted"); now != before+1 {
		t.Errorf("%v signals were accepted, want one", now-before)
	}
	own := w.Namespace + "/" + w.Name
	for _, tc := range []struct {
		name, method, path, contentType, body string
		status                                int
		result                                string
	}{
		{"no signal", http.MethodPost, own, "application/json", `{"signal": "Stop"}`, http.StatusBadRequest, "unknown"},
		{"no JSON", http.MethodPost, own, "application/json", `ScaleDown`, http.StatusBadRequest, "malformed"},
		{"too much", http.MethodPost, own, "application/json", `{"signal": "ScaleDown", "x": "` + strings.Repeat("x", 70_000) + `"}`, http.StatusRequestEntityTooLarge, "oversized"},
		{"a form", http.MethodPost, own, "application/x-www-form-urlencoded", down, http.StatusUnsupportedMediaType, "malformed"},
		{"a question", http.MethodGet, own, "", "", http.StatusMethodNotAllowed, "malformed"},
		{"a scaler that is not there", http.MethodPost, w.Namespace + "/other", "application/json", down, http.StatusNotFound, "notfound"},
		{"another namespace", http.MethodPost, "default/" + w.Name, "application/json", down, http.StatusForbidden, "forbidden"},
		{"another path", http.MethodPost, w.Namespace, "application/json", down, http.StatusNotFound, "notfound"},
	} {
		if status, result := allowed.push(tc.method, tc.path, tc.contentType, tc.body); status != tc.status || result != tc.result {
			t.Errorf("%s got %d %s, want %d %s", tc.name, status, result, tc.status, tc.result)
		}
	}
	counts.Wait(2, 4)
	// The signal stands over a restart, and the next one counts.
	whileDown(t, func() { w.ScaleTo(3) })
	counts.Wait(2, 4, 3, 4)
	if status, result := allowed.signal(w, down); status != http.StatusAccepted || result != "accepted" {
		t.Errorf("the second signal got %d %s", status, result)
	}
	counts.Wait(2, 4, 3, 4, 0)

	// A scaler of another trigger takes none.
	w.Edit(func(s *v1alpha1.ElasticScaler) { s.Spec.Trigger = estest.Metrics("", queue(server)) })
	if status, result := allowed.signal(w, up); status != http.StatusNotFound || result != "notfound" {
		t.Errorf("a signal to a scaler of another trigger got %d %s", status, result)
	}
	log, err := os.ReadFile(filepath.Clean(env.Manager.LogFile()))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(log, []byte(allowed.token)) {
		t.Error("a token shows in the manager's log")
	}
}

// pushed is how many pushed signals came to a result.
func pushed(t *testing.T, result string) float64 {
	t.Helper()
	n, _, err := env.Series(t.Context(), "pdo_elasticscaler_signals_total", map[string]string{"result": result, "transport": "push"})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
