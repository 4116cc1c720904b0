// Package estest runs the ElasticScaler controller in a lab, as a process of its own beside the other controllers, and gives
// every test a namespace of its own in it. Only tests import it.
package estest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	tidalv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/lab"
	simulator "github.com/pd-orchestrator/pd-orchestrator/lab/simulator/client"
	"github.com/pd-orchestrator/pd-orchestrator/test/installed"
)

// Env is a lab with the product installed.
type Env struct {
	// Lab is the control plane.
	Lab *lab.Lab
	// Client acts as the administrator, without a cache.
	Client client.WithWatch
	// Simulator pins what pods serve; nil in a lab without metrics.
	Simulator *simulator.Client
	// Manager is the product's process; nil until StartManager.
	Manager *lab.Part
	// Components are the product's processes where it was installed by its chart.
	Components installed.Components
	// MetricsURL answers with the manager's own metrics.
	MetricsURL string
}

// Main starts a lab with the product's kinds, hands it to setup, runs the tests and stops the lab. It returns the exit code.
func Main(m *testing.M, env **Env, options lab.Options, setup func(context.Context, *Env) error) int {
	return MainOfBareLab(m, env, options, func(ctx context.Context, e *Env) error {
		if err := e.Lab.InstallProduct(ctx); err != nil {
			return err
		}
		return setup(ctx, e)
	})
}

// MainOfBareLab is Main for a lab in which nothing of the product is installed.
func MainOfBareLab(m *testing.M, env **Env, options lab.Options, setup func(context.Context, *Env) error) (code int) {
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Minute)
	defer cancel()
	e, err := start(ctx, options)
	if err == nil {
		defer func() {
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

// Scheme has the kinds that tests create.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, autoscalingv1alpha1.AddToScheme, v1alpha1.AddToScheme, tidalv1alpha1.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	return scheme
}

func start(ctx context.Context, options lab.Options) (*Env, error) {
	options.Race = raceDetector
	l, err := lab.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	e := &Env{Lab: l}
	if !options.WithoutMetrics {
		e.Simulator = simulator.New(l.SimulatorURL(), nil)
	}
	config := rest.CopyConfig(l.AdminConfig())
	config.QPS, config.Burst = 1000, 2000
	if e.Client, err = client.NewWithWatch(config, client.Options{Scheme: Scheme()}); err != nil {
		return nil, errors.Join(fmt.Errorf("making the tests' client: %w", err), e.stop())
	}
	return e, nil
}

// stop stops the lab. A data race, a panic or a missing right of the product is a failure, whatever the tests say.
func (e *Env) stop() error { return errors.Join(e.Healthy(), e.Components.Forbidden(), e.Lab.Stop()) }

// processes are those of the product.
func (e *Env) processes() []*lab.Part {
	var all []*lab.Part
	if e.Manager != nil {
		all = append(all, e.Manager)
	}
	for _, c := range e.Components {
		all = append(all, c.Part)
	}
	return all
}

// StartManager runs the product's manager, which may do everything, with more lines of configuration until it is ready.
func (e *Env) StartManager(ctx context.Context, more string) error {
	return e.StartManagerAs(ctx, nil, more)
}

// StartManagerAs is StartManager with an identity of the manager's own, nil for one that may do everything, and with more
// arguments.
func (e *Env) StartManagerAs(ctx context.Context, identity *rest.Config, more string, args ...string) error {
	health, err := e.Lab.ReservePort()
	if err != nil {
		return err
	}
	metrics, err := e.Lab.ReservePort()
	if err != nil {
		return err
	}
	if !strings.Contains(more, "crossNamespace:") {
		more += "crossNamespace: Trusted\n"
	}
	if !strings.Contains(more, "elasticScaler:") {
		more += "elasticScaler: {endpoints: {allow: [127.0.0.0/8]}, signals: {bindAddress: \"0\"}}\n"
	}
	e.MetricsURL = fmt.Sprintf("http://127.0.0.1:%d/metrics", metrics)
	e.Manager, err = e.Lab.StartManager(ctx, lab.ManagerOptions{
		Client: identity,
		Args:   args,
		// Races are told in the log and do not end the process, so that a test that kills it can tell the two apart.
		Env: []string{"GORACE=halt_on_error=0 exitcode=0"},
		Config: fmt.Sprintf("apiVersion: config.pd-orchestrator.io/v1alpha1\nkind: ManagerConfiguration\nnamespace: %s\n"+
			"health: {bindAddress: 127.0.0.1:%d}\nmetrics: {bindAddress: 127.0.0.1:%d}\nlog: {level: 1}\n%s", lab.ProductNamespace, health, metrics, more),
		ReadyURL: fmt.Sprintf("http://127.0.0.1:%d/readyz", health),
	})
	return err
}

// Healthy returns an error when a log of the product tells of a data race or a panic.
func (e *Env) Healthy() error {
	for _, part := range e.processes() {
		text, err := os.ReadFile(filepath.Clean(part.LogFile()))
		if err != nil {
			return fmt.Errorf("reading the log of %s: %w", part.Name(), err)
		}
		for _, sign := range []string{"WARNING: DATA RACE", "panic:", "Observed a panic"} {
			if at := strings.Index(string(text), sign); at >= 0 {
				return fmt.Errorf("the log of %s tells of a fault:\n%s", part.Name(), text[at:min(at+6000, len(text))])
			}
		}
	}
	return nil
}

func namespaceObject(prefix string) *corev1.Namespace {
	ns := &corev1.Namespace{}
	ns.GenerateName = prefix + "-"
	return ns
}

// Metric returns the sum of a metric of the manager over all its series.
func (e *Env) Metric(ctx context.Context, name string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.MetricsURL, nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	sum, lines := 0.0, bufio.NewScanner(resp.Body)
	for lines.Scan() {
		series, value, ok := strings.Cut(lines.Text(), " ")
		if before, _, _ := strings.Cut(series, "{"); !ok || before != name {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("reading metric %s: %w", name, err)
		}
		sum += v
	}
	return sum, lines.Err()
}
