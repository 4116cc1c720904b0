// Package restart tests the ElasticScaler controller as a process of its own, which may do what its Roles say and no more,
// and serves its webhook and pushed signals: what it does when it is killed and starts again, and who may push.
package restart

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
)

const (
	component     = "elasticscaler"
	configuration = "elasticscaler.elasticscaler.io"
)

const managerConfig = `crossNamespace: Admitted
webhook: {enabled: true, bindAddress: "127.0.0.1:%d", certDir: %q, dnsNames: [%s]}
elasticScaler: {endpoints: {allow: [127.0.0.0/8]}, signals: {bindAddress: "127.0.0.1:%d"}}
`

var (
	env *estest.Env
	// pushURL is where signals are pushed to.
	pushURL string
)

func TestMain(m *testing.M) {
	os.Exit(estest.Main(m, &env, lab.Options{WithoutMetrics: true}, start))
}

func start(ctx context.Context, e *estest.Env) error {
	webhook, err := e.Lab.ReservePort()
	if err != nil {
		return err
	}
	signals, err := e.Lab.ReservePort()
	if err != nil {
		return err
	}
	pushURL = fmt.Sprintf("https://%s:%d/signals/", lab.WebhookHost, signals)
	account, err := testkit.InstallRoles(ctx, e.Client, filepath.Join("..", "..", "..", "config", "rbac", component, "role.yaml"), lab.ProductNamespace)
	if err != nil {
		return err
	}
	identity, err := e.Lab.ServiceAccountConfig(ctx, lab.ProductNamespace, account)
	if err != nil {
		return err
	}
	if err := e.Lab.InstallWebhooks(ctx, webhook, nil); err != nil {
		return err
	}
	if err := removeOtherWebhooks(ctx, e.Client); err != nil {
		return err
	}
	dir := filepath.Join(e.Lab.StateDir(), "webhook")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return e.StartManagerAs(ctx, identity, fmt.Sprintf(managerConfig, webhook, dir, lab.WebhookHost, signals), "--controllers="+component)
}

// removeOtherWebhooks takes away the registrations of components that do not run.
func removeOtherWebhooks(ctx context.Context, c client.Client) error {
	var all admissionregistrationv1.ValidatingWebhookConfigurationList
	if err := c.List(ctx, &all); err != nil {
		return err
	}
	for i := range all.Items {
		if all.Items[i].Name == configuration {
			continue
		}
		if err := c.Delete(ctx, &all.Items[i]); err != nil {
			return err
		}
	}
	return nil
}
