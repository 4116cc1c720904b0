package documents

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
)

// What the documents have a user look at once the product is installed.
func TestInstallation(t *testing.T) {
	t.Parallel()
	inComponents := client.InNamespace(components)

	t.Log("verify: the pods")
	testkit.Eventually(t, estest.Patience, `kubectl get pods -n scaling-system | grep -E "resourcescalinggroup|rsg"`, func(ctx context.Context) error {
		var pods corev1.PodList
		if err := env.Client.List(ctx, &pods, inComponents); err != nil {
			return err
		}
		running := 0
		for _, pod := range pods.Items {
			if strings.Contains(pod.Name, "resourcescalinggroup") && pod.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if running != 2 {
			return fmt.Errorf("%d pods of it are running, want 2", running)
		}
		return nil
	})

	t.Log("verify: the CRD")
	if err := env.Client.Get(t.Context(), types.NamespacedName{Name: "resourcescalinggroups.autoscaling.openfuyao.com"}, &apiextensionsv1.CustomResourceDefinition{}); err != nil {
		t.Error(err)
	}

	t.Log("verify: the Deployments, and a log of each")
	var deployments appsv1.DeploymentList
	if err := env.Client.List(t.Context(), &deployments, inComponents); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range deployments.Items {
		names = append(names, d.Name)
	}
	slices.Sort(names)
	if want := []string{"pd-orchestrator-elasticscaler", "pd-orchestrator-resourcescalinggroup", "pd-orchestrator-tidal"}; !slices.Equal(names, want) {
		t.Errorf("the Deployments are %q, want %q", names, want)
	}
	for component := range env.Components {
		log, err := env.Components[component].Logs(1)
		if err != nil || log == "" {
			t.Errorf("component %s has no log: %v", component, err)
		}
	}

	t.Log("view the controller's log: its pods by the label control-plane")
	var labelled corev1.PodList
	if err := env.Client.List(t.Context(), &labelled, inComponents, client.MatchingLabels{"control-plane": release + "-elastic-scaler-controller-manager"}); err != nil {
		t.Fatal(err)
	}
	if len(labelled.Items) != 2 {
		t.Errorf("%d pods have the label by which the document finds the log, want 2", len(labelled.Items))
	}

	t.Log("push a signal: the port has a certificate for its Service, and asks who pushes")
	hook := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := env.Client.Get(t.Context(), types.NamespacedName{Name: "elasticscaler.elasticscaler.io"}, hook); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Get(t.Context(), types.NamespacedName{Namespace: components, Name: "pd-orchestrator-elasticscaler-signals"}, &corev1.Service{}); err != nil {
		t.Error(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(hook.Webhooks[0].ClientConfig.CABundle)
	pusher := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: trusted, ServerName: "pd-orchestrator-elasticscaler-signals." + components + ".svc", MinVersion: tls.VersionTLS12,
	}}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		fmt.Sprintf("https://127.0.0.1:%d/signals/a/b", env.Components["elasticscaler"].Ports["signals"]), strings.NewReader(`{"signal": "ScaleUp"}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if answer, err := pusher.Do(request); err != nil {
		t.Error(err)
	} else if _ = answer.Body.Close(); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("a push without a token got %s, want 401", answer.Status)
	}

	t.Log("verify: the webhook's configuration")
	var hooks admissionregistrationv1.ValidatingWebhookConfigurationList
	if err := env.Client.List(t.Context(), &hooks); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(hooks.Items, func(h admissionregistrationv1.ValidatingWebhookConfiguration) bool {
		return strings.Contains(h.Name, "resourcescalinggroup") && len(h.Webhooks[0].ClientConfig.CABundle) > 0
	}) {
		t.Errorf("there is no configuration of resourcescalinggroup with a certificate to trust: %v", hooks.Items)
	}
}
