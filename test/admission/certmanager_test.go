package admission

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/lab"
)

// TestCertificatesFromElsewhere puts a manager in the place of the first that is given its certificate, as cert-manager
// would, and a registration that says whom to trust.
func TestCertificatesFromElsewhere(t *testing.T) {
	ns := namespaces(t, "given")[0]
	must(t, suite.manager.Stop())
	t.Cleanup(func() {
		ctx := context.Background()
		must(t, suite.lab.InstallWebhooks(ctx, suite.port, nil))
		must(t, suite.manager.Start(ctx))
	})

	dir := t.TempDir()
	give := func() {
		cert, key, err := suite.lab.ServingCertificate(lab.WebhookHost)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600))
		must(t, os.WriteFile(filepath.Join(dir, "tls.crt"), cert, 0o600))
	}
	give()
	port, err := suite.lab.ReservePort()
	must(t, err)
	config, readyURL, err := managerConfig(port, dir, "certificates: CertManager")
	must(t, err)
	file := filepath.Join(dir, "manager.yaml")
	must(t, os.WriteFile(file, []byte(config), 0o600))
	kubeconfig := filepath.Join(dir, "kubeconfig")
	must(t, lab.WriteKubeconfig(kubeconfig, suite.identity))
	program, err := suite.lab.BuildCommand(t.Context(), ".", "./cmd/pd-orchestrator")
	must(t, err)

	must(t, suite.lab.InstallWebhooks(t.Context(), port, suite.lab.CABundle()))
	part, err := suite.lab.Run(t.Context(), lab.ProcessSpec{
		Name: "manager-given-certificate", Path: program, Args: []string{"--config=" + file, "--kubeconfig=" + kubeconfig, "--controllers=resourcescalinggroup"},
		ReadyURL: readyURL, StartTimeout: time.Minute, StopTimeout: 15 * time.Second,
	})
	must(t, err)
	defer func() { must(t, part.Stop()) }()

	must(t, suite.admin.Create(t.Context(), manifest(t, ns, replication)))
	refused(t, suite.admin.Create(t.Context(), manifest(t, ns, replication, "name: llm-decode", "name: LLM")), denied)

	// A renewed one is taken while the manager runs.
	give()
	deadline := time.Now().Add(3 * time.Second)
	for time.Now().Before(deadline) {
		must(t, suite.admin.Create(t.Context(), manifest(t, ns, replication, "metadata: {name: llm}", "metadata: {name: other}", "name: llm-prefill", "name: a", "name: llm-decode", "name: b"), client.DryRunAll))
		time.Sleep(100 * time.Millisecond)
	}
}
