package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/pd-orchestrator/pd-orchestrator/lab/internal/component"
)

// ProductNamespace is the namespace of the product's manager, and of objects
// that the documents put beside it.
const ProductNamespace = "scaling-system"

// providersConfigMap binds names of metric providers to addresses.
const providersConfigMap = "pd-orchestrator-metric-providers"

// managerStartTimeout allows for caches that fill on a busy machine.
const managerStartTimeout = 60 * time.Second

// managerStopTimeout lets the manager finish what it does and give up its
// lease.
const managerStopTimeout = 15 * time.Second

// ManagerOptions change how the product's manager is run. The zero value runs
// all controllers with the lab's own configuration.
type ManagerOptions struct {
	// Args are appended to the manager's arguments.
	Args []string
	// Env is the manager's whole environment as KEY=value.
	Env []string
	// Config is the manager's configuration file. Empty means one that fits the
	// lab.
	Config string
	// ReadyURL answers 200 once the manager is ready. It goes with Config;
	// without it the manager then counts as ready at once.
	ReadyURL string
	// WithoutWebhook makes the lab's own configuration one without admission:
	// what the schema lets pass is stored, and references to other namespaces
	// are followed whoever wrote them.
	WithoutWebhook bool
	// Client is the identity that the manager acts as. Nil means a user of its
	// own that may do everything.
	Client *rest.Config
}

// InstallProduct installs the product's CRDs, creates its namespace, and binds
// the metric provider cluster-prometheus to the lab's Prometheus. Installing
// again updates.
func (l *Lab) InstallProduct(ctx context.Context) error {
	if err := l.InstallCRDs(ctx, filepath.Join(l.options.Repo, "config", "crd", "bases")); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(l.AdminConfig())
	if err != nil {
		return fmt.Errorf("installing the product: %w", err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ProductNamespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); ignoreExists(err) != nil {
		return fmt.Errorf("creating namespace %s: %w", ProductNamespace, err)
	}
	if l.options.WithoutMetrics {
		return nil
	}
	providers := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: providersConfigMap},
		Data:       map[string]string{"cluster-prometheus": "serverAddress: " + l.PrometheusURL() + "\n"},
	}
	if _, err := client.CoreV1().ConfigMaps(ProductNamespace).Create(ctx, providers, metav1.CreateOptions{}); ignoreExists(err) != nil {
		return fmt.Errorf("binding the metric provider: %w", err)
	}
	return nil
}

// StartManager builds the product's manager from the repository, unless the
// cache has it from the same sources, and runs it as part Manager until it
// reports that it is ready. Prometheus scrapes a manager with the lab's own
// configuration, as job managers.
func (l *Lab) StartManager(ctx context.Context, options ManagerOptions) (*Part, error) {
	program, err := l.BuildCommand(ctx, managerSource.module, managerSource.pkg)
	if err != nil {
		return nil, err
	}
	client := options.Client
	if client == nil {
		if client, err = l.UserConfig("pd-orchestrator", adminGroup); err != nil {
			return nil, err
		}
	}
	kubeconfig := l.cluster.Kubeconfig(Manager)
	if err := WriteKubeconfig(kubeconfig, client); err != nil {
		return nil, err
	}
	config, readyURL := options.Config, options.ReadyURL
	if config == "" {
		health, err := l.ReservePort()
		if err != nil {
			return nil, err
		}
		metrics, err := l.ReservePort()
		if err != nil {
			return nil, err
		}
		signals, err := l.ReservePort()
		if err != nil {
			return nil, err
		}
		prometheus := l.PrometheusURL()
		if l.options.WithoutMetrics {
			prometheus = ""
		}
		webhook := 0
		if !options.WithoutWebhook {
			if webhook, err = l.ReservePort(); err != nil {
				return nil, err
			}
			if err := l.InstallWebhooks(ctx, webhook, nil); err != nil {
				return nil, err
			}
		}
		config = managerConfig(prometheus, health, metrics, signals) + webhookConfig(webhook, l.cluster.Config("webhook"))
		readyURL = fmt.Sprintf("http://127.0.0.1:%d/readyz", health)
		target := l.cluster.ManagerTarget(Manager, fmt.Sprintf("127.0.0.1:%d", metrics), components(options.Args), ProductNamespace)
		if err := writeFiles([]component.File{target}); err != nil {
			return nil, err
		}
	}
	configFile := l.cluster.Config("manager.yaml")
	if err := os.WriteFile(configFile, []byte(config), 0o600); err != nil {
		return nil, fmt.Errorf("writing the manager's configuration: %w", err)
	}
	return l.Run(ctx, ProcessSpec{
		Name:         Manager,
		Path:         program,
		Args:         append([]string{"--config=" + configFile, "--kubeconfig=" + kubeconfig}, options.Args...),
		Env:          options.Env,
		ReadyURL:     readyURL,
		StartTimeout: managerStartTimeout,
		StopTimeout:  managerStopTimeout,
	})
}

// components returns the components that a manager with these arguments runs,
// in a word.
func components(args []string) string {
	for _, arg := range args {
		if names, ok := strings.CutPrefix(arg, "--controllers="); ok {
			return names
		}
	}
	return "all"
}

// managerConfig renders the manager's configuration file for a lab; the URL is
// empty where there is no Prometheus.
func managerConfig(prometheusURL string, healthPort, metricsPort, signalPort int) string {
	return fmt.Sprintf(`apiVersion: config.pd-orchestrator.io/v1alpha1
kind: ManagerConfiguration
namespace: %s
prometheus:
  address: %q
  labels:
    rsg: rsg_name
health:
  bindAddress: 127.0.0.1:%d
metrics:
  bindAddress: 127.0.0.1:%d
leaderElection:
  enabled: false
elasticScaler:
  # All that metrics are read from is on loopback here.
  endpoints:
    allow: [127.0.0.0/8]
  signals:
    bindAddress: 127.0.0.1:%d
`, ProductNamespace, prometheusURL, healthPort, metricsPort, signalPort)
}

// webhookConfig renders what that file says of admission; port 0 is for none.
func webhookConfig(port int, certDir string) string {
	if port == 0 {
		return "crossNamespace: Trusted\n"
	}
	return fmt.Sprintf(`webhook:
  enabled: true
  bindAddress: 127.0.0.1:%d
  certDir: %q
  dnsNames: [%s]
`, port, certDir, WebhookHost)
}
