// Package lab runs a real Kubernetes control plane on loopback, with simulated
// nodes and pods, Prometheus, and a simulator of inference engines, for tests,
// demos and development. It needs nothing but Go: every part is built from Go
// modules, once, into a cache.
//
// Nothing of a lab outlives the process that started it, however that ends.
package lab

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"

	"github.com/pd-orchestrator/pd-orchestrator/lab/internal/build"
	"github.com/pd-orchestrator/pd-orchestrator/lab/internal/component"
	"github.com/pd-orchestrator/pd-orchestrator/lab/internal/process"
)

// Names of the parts that a lab runs, for Part and Options.ExtraArgs.
// MetricsServer and CustomMetrics run where Options.With names them, and KEDA's
// parts where it names KEDA or StartKEDA was called.
const (
	Etcd              = component.EtcdName
	APIServer         = component.APIServerName
	ControllerManager = component.ControllerManagerName
	Scheduler         = component.SchedulerName
	Kwok              = component.KwokName
	Simulator         = component.SimulatorName
	Prometheus        = component.PrometheusName
	MetricsServer     = component.MetricsServerName
	CustomMetrics     = component.CustomMetricsName
	KEDAOperator      = component.KEDAOperatorName
	KEDAAdapter       = component.KEDAAdapterName
	KEDAWebhooks      = component.KEDAWebhooksName
	Manager           = "manager"
)

// Names for Options.With of what is more than one part, or none that runs.
const (
	KEDA = build.KEDA
	Helm = build.Helm
)

// Lab is a running control plane. Its methods are safe for concurrent use.
type Lab struct {
	options   Options
	builder   *build.Builder
	cluster   component.Cluster
	identity  *identity
	probes    *http.Client
	temporary bool
	lock      *os.File
	// kubernetesVersion has no leading v.
	kubernetesVersion string
	ports             []*process.Port

	mu      sync.Mutex
	stopped bool
	// parts are in the order in which they were added.
	parts []*Part
}

// Start builds what is missing, starts a lab and waits until pods can be
// scheduled. The context bounds the start only; the lab runs until Stop, or
// until this process ends. Where a part fails to start, everything is stopped
// and the error holds the part's last log lines.
func Start(ctx context.Context, options Options) (*Lab, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("starting the lab: %w", err)
	}
	l := &Lab{options: options, builder: &build.Builder{Cache: options.CacheDir, Progress: options.Progress}}
	if err := l.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the lab: %w", err), l.stop(false))
	}
	return l, nil
}

func (l *Lab) start(ctx context.Context) error {
	binaries, err := l.build(ctx)
	if err != nil {
		return err
	}
	started := time.Now()
	if err := l.prepareState(); err != nil {
		return err
	}
	ports, err := l.reservePorts()
	if err != nil {
		return err
	}
	l.cluster.Binaries = binaries
	l.cluster.Ports = ports
	l.cluster.Tuning = l.options.tuning()
	l.cluster.ResourceMetrics = slices.Contains(l.options.With, MetricsServer)
	l.cluster.CustomMetrics = slices.Contains(l.options.With, CustomMetrics)

	if l.identity, err = newIdentity(l.cluster); err != nil {
		return err
	}
	if l.probes, err = l.probeClient(); err != nil {
		return err
	}
	components := l.cluster.All(!l.options.WithoutMetrics)
	for _, c := range components {
		if err := writeFiles(c.Files); err != nil {
			return err
		}
		l.parts = append(l.parts, &Part{name: c.Name, process: process.New(l.processSpec(c))})
	}
	if err := l.startAll(ctx, components); err != nil {
		return err
	}
	if err := l.waitSchedulable(ctx); err != nil {
		return err
	}
	if l.cluster.ResourceMetrics {
		if err := l.registerResourceMetrics(ctx); err != nil {
			return err
		}
	}
	if l.cluster.CustomMetrics {
		if err := l.registerCustomMetrics(ctx); err != nil {
			return err
		}
	}
	if slices.Contains(l.options.With, KEDA) {
		if err := l.StartKEDA(ctx); err != nil {
			return err
		}
	}
	l.say("ready after %.1f s", time.Since(started).Seconds())
	return nil
}

// Build puts parts into the cache without starting anything and returns the
// paths of their programs. Without names it builds what every lab needs, the
// simulator and the product's manager included. Known names are etcd,
// kubernetes, kwok, prometheus, simulator, manager, custom-metrics, helm, keda
// and metrics-server.
func Build(ctx context.Context, options Options, parts ...string) ([]string, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("building the lab: %w", err)
	}
	builder := &build.Builder{Cache: options.CacheDir, Progress: options.Progress}
	if len(parts) == 0 {
		parts = append(build.Standard(), Simulator, Manager)
	}
	var programs []string
	for _, name := range parts {
		if source, ok := map[string]source{Simulator: simulatorSource, Manager: managerSource}[name]; ok {
			program, err := buildSource(ctx, builder, options, source)
			if err != nil {
				return programs, fmt.Errorf("building the lab: %w", err)
			}
			programs = append(programs, program)
			continue
		}
		part, built, err := buildPart(ctx, builder, options, name)
		if err != nil {
			return programs, fmt.Errorf("building the lab: %w", err)
		}
		for _, command := range part.Commands {
			programs = append(programs, built.Binary(command.Binary))
		}
	}
	return programs, nil
}

// build returns the paths of all programs that the lab runs.
func (l *Lab) build(ctx context.Context) (map[string]string, error) {
	binaries := map[string]string{}
	for _, name := range slices.Concat(build.Standard(), l.options.With) {
		if name == build.Prometheus && l.options.WithoutMetrics {
			continue
		}
		part, built, err := buildPart(ctx, l.builder, l.options, name)
		if err != nil {
			return nil, err
		}
		for _, command := range part.Commands {
			binaries[command.Binary] = built.Binary(command.Binary)
		}
		if name == build.Kubernetes {
			l.kubernetesVersion = strings.TrimPrefix(part.Version, "v")
		}
		if name == build.Kwok {
			if l.cluster.StageFiles, err = filepath.Glob(filepath.Join(built.Files("stages"), "*.yaml")); err != nil {
				return nil, fmt.Errorf("looking for kwok's stages: %w", err)
			}
		}
	}
	if !l.options.WithoutMetrics {
		simulator, err := buildSource(ctx, l.builder, l.options, simulatorSource)
		if err != nil {
			return nil, err
		}
		binaries["simulator"] = simulator
	}
	return binaries, nil
}

// buildPart builds the version of Kubernetes that the options name, and of any
// other part the newest that runs with it.
func buildPart(ctx context.Context, builder *build.Builder, options Options, name string) (build.Part, build.Built, error) {
	part, err := build.Find(partsDir(options.Repo), build.Kubernetes, options.KubernetesVersion)
	if err == nil && name != build.Kubernetes {
		part, err = build.FindFor(partsDir(options.Repo), name, part.Version)
	}
	if err != nil {
		return build.Part{}, build.Built{}, err
	}
	built, err := builder.Part(ctx, part)
	return part, built, err
}

// source is a main package of this repository: a module, as a folder below the
// repository's root, and a package, as a folder below the module.
type source struct{ module, pkg string }

var (
	simulatorSource = source{"lab", "./simulator/cmd/simulator"}
	managerSource   = source{".", "./cmd/pd-orchestrator"}
)

func buildSource(ctx context.Context, builder *build.Builder, options Options, s source) (string, error) {
	b := *builder
	// The race detector is for the product, not for what plays its surroundings.
	b.Race = options.Race && s != simulatorSource
	return b.Source(ctx, filepath.Join(options.Repo, s.module), s.pkg)
}

// lockFile in the state folder is locked while a lab runs there.
const lockFile = "lab.lock"

// prepareState makes the folders of the lab and takes them for itself.
func (l *Lab) prepareState() error {
	dir := l.options.StateDir
	if dir == "" {
		sweepTemporary(os.TempDir(), time.Now())
		temporary, err := os.MkdirTemp("", temporaryPrefix)
		if err != nil {
			return fmt.Errorf("making the state folder: %w", err)
		}
		dir = temporary
		l.temporary = os.Getenv("PDO_LAB_KEEP") == ""
	}
	l.cluster.Dir = dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the state folder: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("locking the state folder: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return fmt.Errorf("locking the state folder: another lab runs in %s: %w", dir, err)
	}
	l.lock = lock
	for _, name := range []string{"pki", "data", "logs", "config", "kubeconfigs"} {
		path := filepath.Join(dir, name)
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("clearing the state folder: %w", err)
		}
		if err := os.Mkdir(path, 0o700); err != nil {
			return fmt.Errorf("making the state folder: %w", err)
		}
	}
	return nil
}

// temporaryPrefix begins the names of temporary state folders.
const temporaryPrefix = "pd-orchestrator-lab-"

// sweepAge is how old a temporary state folder without an owner is when it is
// removed. Until then the logs of a failed start can be read.
const sweepAge = 24 * time.Hour

// sweepTemporary removes temporary state folders of labs whose process was
// killed. What cannot be removed, as it is somebody else's, stays.
func sweepTemporary(dir string, now time.Time) {
	folders, err := filepath.Glob(filepath.Join(dir, temporaryPrefix+"*"))
	if err != nil {
		return
	}
	for _, folder := range folders {
		lock, err := os.OpenFile(filepath.Join(folder, lockFile), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		info, err := lock.Stat()
		if err == nil && now.Sub(info.ModTime()) > sweepAge && syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(folder)
		}
		_ = lock.Close()
	}
}

func (l *Lab) reservePorts() (component.Ports, error) {
	var ports component.Ports
	for _, want := range []struct {
		address string
		port    *int
	}{
		{"127.0.0.1", &ports.Etcd},
		{"127.0.0.1", &ports.EtcdPeer},
		{"127.0.0.1", &ports.APIServer},
		{"127.0.0.1", &ports.ControllerManager},
		{"127.0.0.1", &ports.Scheduler},
		{"127.0.0.1", &ports.Kwok},
		{"127.0.0.1", &ports.Prometheus},
		{"0.0.0.0", &ports.Simulator},
		{"127.0.0.1", &ports.SimulatorControl},
		{"127.0.0.1", &ports.MetricsServer},
		{"127.0.0.1", &ports.CustomMetrics},
		{"127.0.0.1", &ports.KEDAHealth},
		{"127.0.0.1", &ports.KEDAService},
		{"127.0.0.1", &ports.KEDAAdapter},
		{"0.0.0.0", &ports.KEDAWebhooks},
	} {
		port, err := process.ReservePort(want.address)
		if err != nil {
			return ports, err
		}
		l.ports = append(l.ports, port)
		*want.port = port.Number
	}
	return ports, nil
}

// ReservePort returns a TCP port on 127.0.0.1 that the kernel gives to nobody
// else while the lab runs. A server that is told to listen on it can.
func (l *Lab) ReservePort() (int, error) {
	port, err := process.ReservePort("127.0.0.1")
	if err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ports = append(l.ports, port)
	return port.Number, nil
}

func (l *Lab) processSpec(c component.Component) process.Spec {
	spec := process.Spec{
		Name:        c.Name,
		Path:        c.Binary,
		Args:        c.Args,
		Env:         c.Env,
		LogFile:     l.cluster.Log(c.Name),
		StopTimeout: c.StopTimeout,
	}
	if c.ReadyURL != "" {
		spec.Ready = func(ctx context.Context) error { return l.answers(ctx, c.ReadyURL) }
	}
	if c.Name == Simulator {
		file := l.cluster.SimulatorReadyFile()
		spec.BeforeStart = func() error {
			if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			return nil
		}
		spec.Ready = func(context.Context) error {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			var ready struct {
				ControlURL string `json:"controlURL"`
			}
			return json.Unmarshal(text, &ready)
		}
	}
	return spec
}

// startAll starts the components side by side, each once those it comes after
// are ready.
func (l *Lab) startAll(ctx context.Context, components []component.Component) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ready := map[string]chan struct{}{}
	for _, c := range components {
		ready[c.Name] = make(chan struct{})
	}
	var group sync.WaitGroup
	for _, c := range components {
		group.Go(func() {
			for _, name := range c.After {
				select {
				case <-ready[name]:
				case <-ctx.Done():
					return
				}
			}
			err := l.Part(c.Name).Start(ctx)
			if err == nil && c.Name == APIServer {
				err = l.bootstrap(ctx)
			}
			if err != nil {
				// The first failure is the reason; the others follow from it.
				cancel(err)
				return
			}
			close(ready[c.Name])
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

// Stop ends all parts, those that were added last first, and removes the state
// folder if it is a temporary one. Stopping twice is no error.
func (l *Lab) Stop() error { return l.stop(l.temporary) }

func (l *Lab) stop(removeState bool) error {
	l.mu.Lock()
	if l.stopped {
		l.mu.Unlock()
		return nil
	}
	l.stopped = true
	parts := slices.Clone(l.parts)
	ports := l.ports
	l.mu.Unlock()

	var errs []error
	// Others may still talk to the API server, and that to etcd, while they end.
	var base []*Part
	var rest []*Part
	for _, part := range slices.Backward(parts) {
		switch {
		case part.name == APIServer || part.name == Etcd:
			base = append(base, part)
		case part.added:
			errs = append(errs, part.Stop())
		default:
			rest = append(rest, part)
		}
	}
	results := make([]error, len(rest))
	var group sync.WaitGroup
	for i, part := range rest {
		group.Go(func() { results[i] = part.Stop() })
	}
	group.Wait()
	errs = append(errs, results...)
	for _, part := range base {
		errs = append(errs, part.Stop())
	}
	for _, port := range ports {
		errs = append(errs, port.Close())
	}
	if removeState {
		errs = append(errs, os.RemoveAll(l.cluster.Dir))
	} else if l.lock != nil {
		// Logs are worth keeping; a database of a lab that is gone is not.
		errs = append(errs, os.RemoveAll(filepath.Join(l.cluster.Dir, "data")))
	}
	if l.lock != nil {
		errs = append(errs, l.lock.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stopping the lab: %w", err)
	}
	return nil
}

// StateDir returns the folder with the lab's certificates, data, logs and
// kubeconfigs.
func (l *Lab) StateDir() string { return l.cluster.Dir }

// KubernetesVersion returns the version of Kubernetes that runs, such as
// "1.37.2".
func (l *Lab) KubernetesVersion() string { return l.kubernetesVersion }

// PrometheusURL returns the base URL of Prometheus.
func (l *Lab) PrometheusURL() string {
	return fmt.Sprintf("http://127.0.0.1:%d", l.cluster.Ports.Prometheus)
}

// SimulatorURL returns the base URL of the simulator's control API.
func (l *Lab) SimulatorURL() string {
	return fmt.Sprintf("http://127.0.0.1:%d", l.cluster.Ports.SimulatorControl)
}

// Tool returns the path of a program that was built for the lab, such as
// "helm" when it was asked for.
func (l *Lab) Tool(name string) (string, error) {
	path, ok := l.cluster.Binaries[name]
	if !ok {
		return "", fmt.Errorf("no program %q was built for this lab", name)
	}
	return path, nil
}

// BuildCommand builds a main package of this repository, unless the cache has
// it from the same sources, and returns the program. The module is a folder
// relative to the repository's root, the package relative to the module
// ("./cmd/x").
func (l *Lab) BuildCommand(ctx context.Context, module, pkg string) (string, error) {
	return buildSource(ctx, l.builder, l.options, source{module, pkg})
}

// probeClient trusts both authorities of the lab and shows the certificate
// that the server asks for.
func (l *Lab) probeClient() (*http.Client, error) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(l.identity.cluster.Bundle())
	pool.AppendCertsFromPEM(l.identity.etcd.Bundle())
	config := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	user, err := l.identity.cluster.Client("lab-probe", adminGroup)
	if err != nil {
		return nil, err
	}
	etcdUser, err := l.identity.etcd.Client("lab-probe")
	if err != nil {
		return nil, err
	}
	for _, pair := range []struct{ cert, key []byte }{{user.Cert, user.Key}, {etcdUser.Cert, etcdUser.Key}} {
		certificate, err := tls.X509KeyPair(pair.cert, pair.key)
		if err != nil {
			return nil, fmt.Errorf("loading the certificate of readiness checks: %w", err)
		}
		config.Certificates = append(config.Certificates, certificate)
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}, nil
}

// answers returns nil if a GET of the URL gives 200.
func (l *Lab) answers(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := l.probes.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}

func (l *Lab) say(format string, args ...any) {
	_, _ = fmt.Fprintf(l.options.Progress, "lab: "+format+"\n", args...)
}

// apiServerConfig is the part of a client's configuration that all users
// share. The client-side limit is off: what is measured in a lab is the server.
func (l *Lab) apiServerConfig() *rest.Config {
	return &rest.Config{
		Host:            fmt.Sprintf("https://127.0.0.1:%d", l.cluster.Ports.APIServer),
		QPS:             -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: l.identity.cluster.Bundle()},
	}
}

func writeFiles(files []component.File) error {
	for _, file := range files {
		if err := os.WriteFile(file.Path, []byte(file.Content), 0o600); err != nil {
			return fmt.Errorf("writing a configuration file: %w", err)
		}
	}
	return nil
}
