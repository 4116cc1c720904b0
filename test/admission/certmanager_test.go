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
	must(t, groups.manager.Stop())
	t.Cleanup(func() {
		ctx := context.Background()
		must(t, groups.register(ctx, groups.port, nil))
		must(t, groups.manager.Start(ctx))
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
	must(t, groups.register(t.Context(), port, suite.lab.CABundle()))
	part, err := groups.run(t.Context(), "given-certificate", port, dir, "certificates: CertManager")
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
