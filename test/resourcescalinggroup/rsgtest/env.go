// Package rsgtest runs the ResourceScalingGroup controller in a lab, as a process of its own, and gives every test
// namespaces of its own in it. Only tests import it.
package rsgtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	elasticscalerv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	tidalv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab"
	simulator "github.com/pd-orchestrator/pd-orchestrator/lab/simulator/client"
)

// Env is a lab with the product installed.
type Env struct {
	// Lab is the control plane.
	Lab *lab.Lab
	// Client acts as the administrator, without a cache.
	Client client.WithWatch
	// Kubernetes is the same for what Client does not offer.
	Kubernetes kubernetes.Interface
	// Simulator pins what pods serve.
	Simulator *simulator.Client
	// Prometheus stands between the manager and the lab's Prometheus.
	Prometheus *Prometheus
	// Manager is the product's process; nil until StartManager.
	Manager *Manager
}

// Manager is a running manager process.
type Manager struct {
	*lab.Part
	// MetricsURL answers with the manager's own metrics.
	MetricsURL string
	readyURL   string
}

// ManagerOptions change how the manager is run.
type ManagerOptions struct {
	// CrossNamespace is Trusted where it is empty.
	CrossNamespace string
	// Prometheus are the settings of the section prometheus beside the address, in one line. Empty means the label of
	// the ResourceScalingGroup that the lab's scrape configuration sets, and a short time-out.
	Prometheus string
	// Args are appended to the manager's arguments.
	Args []string
	// Client is the identity that the manager acts as and the server that it talks to. Nil means one that may do
	// everything.
	Client *rest.Config
}

// Main starts a lab, hands it to setup, runs the tests and stops the lab. It returns the exit code. with names parts of
// the lab beyond the standard ones.
func Main(m *testing.M, env **Env, setup func(context.Context, *Env) error, with ...string) (code int) {
	return MainWithLab(m, env, lab.Options{With: with}, setup)
}

// MainWithLab is Main for a lab that is not the standard one.
func MainWithLab(m *testing.M, env **Env, options lab.Options, setup func(context.Context, *Env) error) (code int) {
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Minute)
	defer cancel()
	e, err := start(ctx, options)
	if err == nil {
		defer func() {
			// A data race in the manager is a failure, whatever the tests say.
			if err := e.stop(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = max(code, 1)
			}
		}()
		err = setup(ctx, e)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	*env = e
	return m.Run()
}

func start(ctx context.Context, options lab.Options) (*Env, error) {
	options.Race = raceDetector
	l, err := lab.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	e := &Env{Lab: l, Simulator: simulator.New(l.SimulatorURL(), nil)}
	if err := e.prepare(ctx); err != nil {
		return nil, errors.Join(err, e.stop())
	}
	return e, nil
}

func (e *Env) prepare(ctx context.Context) error {
	if err := e.Lab.InstallProduct(ctx); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	utilruntime.Must(elasticscalerv1alpha1.AddToScheme(scheme))
	utilruntime.Must(tidalv1alpha1.AddToScheme(scheme))
	var err error
	if e.Client, err = client.NewWithWatch(e.Lab.AdminConfig(), client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("making the tests' client: %w", err)
	}
	if e.Kubernetes, err = kubernetes.NewForConfig(e.Lab.AdminConfig()); err != nil {
		return fmt.Errorf("making the tests' clientset: %w", err)
	}
	if e.Prometheus, err = newPrometheus(e.Lab); err != nil {
		return err
	}
	return nil
}

func (e *Env) stop() error {
	var errs []error
	if e.Prometheus != nil {
		errs = append(errs, e.Prometheus.close())
	}
	if e.Manager != nil {
		errs = append(errs, reportRaces(e.Manager))
	}
	return errors.Join(append(errs, e.Lab.Stop())...)
}

// StartManager runs the product's manager until it reports that its caches are filled.
func (e *Env) StartManager(ctx context.Context, options ManagerOptions) (*Manager, error) {
	health, err := e.Lab.ReservePort()
	if err != nil {
		return nil, err
	}
	metrics, err := e.Lab.ReservePort()
	if err != nil {
		return nil, err
	}
	crossNamespace := cmp.Or(options.CrossNamespace, "Trusted")
	prometheus := cmp.Or(options.Prometheus, "timeoutSeconds: 2, labels: {rsg: rsg_name}")
	part, err := e.Lab.StartManager(ctx, lab.ManagerOptions{
		Args:   options.Args,
		Client: options.Client,
		// Races are told in the log and do not end the process, so that a test that kills it can tell the two apart.
		Env: []string{"GORACE=halt_on_error=0 exitcode=0"},
		Config: fmt.Sprintf(`apiVersion: config.pd-orchestrator.io/v1alpha1
kind: ManagerConfiguration
prometheus: {address: "%s", %s}
crossNamespace: %s
health:
  bindAddress: 127.0.0.1:%d
metrics:
  bindAddress: 127.0.0.1:%d
`, e.Prometheus.URL, prometheus, crossNamespace, health, metrics),
	})
	if err != nil {
		return nil, err
	}
	e.Manager = &Manager{
		Part:       part,
		MetricsURL: fmt.Sprintf("http://127.0.0.1:%d/metrics", metrics),
		readyURL:   fmt.Sprintf("http://127.0.0.1:%d/readyz", health),
	}
	return e.Manager, e.Manager.WaitReady(ctx)
}

// WaitReady waits until the manager reports that it is ready, or has ended.
func (m *Manager) WaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ticker := time.NewTicker(testkit.PollInterval)
	defer ticker.Stop()
	for {
		err := m.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-m.Done():
			log, _ := m.Logs(20)
			return fmt.Errorf("the manager ended before it was ready: %w\n%s", err, log)
		case <-ctx.Done():
			return fmt.Errorf("waiting for the manager: %w", err)
		case <-ticker.C:
		}
	}
}

func (m *Manager) ready(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.readyURL, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", m.readyURL, resp.Status)
	}
	return nil
}

// Restart ends the manager, by SIGTERM, and starts it again.
func (m *Manager) Restart(ctx context.Context) error {
	if err := m.Part.Restart(ctx); err != nil {
		return err
	}
	return m.WaitReady(ctx)
}

// Start starts the manager again after it has ended.
func (m *Manager) Start(ctx context.Context) error {
	if err := m.Part.Start(ctx); err != nil {
		return err
	}
	return m.WaitReady(ctx)
}

// Healthy returns an error when the manager's log tells of a data race or a panic.
func (m *Manager) Healthy() error { return reportRaces(m) }

func reportRaces(m *Manager) error {
	text, err := os.ReadFile(filepath.Clean(m.LogFile()))
	if err != nil {
		return fmt.Errorf("reading the manager's log: %w", err)
	}
	for _, sign := range []string{"WARNING: DATA RACE", "panic:", "Observed a panic"} {
		if at := strings.Index(string(text), sign); at >= 0 {
			return fmt.Errorf("the manager's log tells of a fault:\n%s", text[at:min(at+6000, len(text))])
		}
	}
	return nil
}

// namespaceObject is a Namespace with a name that nobody else has.
func namespaceObject(prefix string) *corev1.Namespace {
	ns := &corev1.Namespace{}
	ns.GenerateName = prefix + "-"
	return ns
}
