// Package component describes the processes of a lab as data: each is built by
// a pure function from the lab's layout, ports and settings. It starts nothing
// and reads nothing.
package component

import (
	"path/filepath"
	"time"
)

// Component is one process of the lab.
type Component struct {
	// Name identifies it, and names its log.
	Name string
	// Binary is the program.
	Binary string
	// Args are its arguments, without the program's name.
	Args []string
	// Env is its whole environment, as KEY=value.
	Env []string
	// Files are configuration files to write before it starts.
	Files []File
	// ReadyURL answers 200 once it serves.
	ReadyURL string
	// After names the components that must be ready before it starts.
	After []string
	// StopTimeout is how long it may take to end after SIGTERM.
	StopTimeout time.Duration
}

// File is a file to write.
type File struct {
	Path    string
	Content string
}

// Names of the components.
const (
	EtcdName              = "etcd"
	APIServerName         = "kube-apiserver"
	ControllerManagerName = "kube-controller-manager"
	SchedulerName         = "kube-scheduler"
	KwokName              = "kwok"
	SimulatorName         = "simulator"
	PrometheusName        = "prometheus"
	MetricsServerName     = "metrics-server"
	CustomMetricsName     = "custom-metrics"
	KEDAOperatorName      = "keda-operator"
	KEDAAdapterName       = "keda-adapter"
	KEDAWebhooksName      = "keda-webhooks"
)

// Users of the API server, as which the components act.
const (
	AdminUser             = "lab-admin"
	ControllerManagerUser = "system:kube-controller-manager"
	SchedulerUser         = "system:kube-scheduler"
	KwokUser              = "lab-kwok"
	PrometheusUser        = "lab-prometheus"
	SimulatorUser         = "lab-simulator"
	MetricsServerUser     = "lab-metrics-server"
	CustomMetricsUser     = "lab-custom-metrics"
)

// loopback is the address on which everything but the simulator's metrics
// listens.
const loopback = "127.0.0.1"

// stopTimeout fits processes that end as soon as they are asked to.
const stopTimeout = 5 * time.Second

// Cluster holds what the components of one lab have in common.
type Cluster struct {
	// Dir is the lab's state folder, an absolute path.
	Dir string
	// Binaries maps program names to paths.
	Binaries map[string]string
	// StageFiles are kwok's stages, in the order they are read.
	StageFiles []string
	// Ports are the TCP ports of all listeners.
	Ports Ports
	// ResourceMetrics adds simulated CPU and memory usage of pods, and
	// metrics-server, which serves it.
	ResourceMetrics bool
	// CustomMetrics adds the server of custom metrics, which takes them from
	// Prometheus.
	CustomMetrics bool
	// Tuning holds what a user of the lab may set.
	Tuning Tuning
}

// Ports are TCP ports on 127.0.0.1, but for Simulator and KEDAWebhooks, which
// are on 0.0.0.0.
type Ports struct {
	Etcd              int
	EtcdPeer          int
	APIServer         int
	ControllerManager int
	Scheduler         int
	Kwok              int
	Prometheus        int
	Simulator         int
	SimulatorControl  int
	MetricsServer     int
	CustomMetrics     int
	KEDAHealth        int
	KEDAService       int
	KEDAAdapter       int
	KEDAWebhooks      int
}

// Tuning are the settings of the components.
type Tuning struct {
	// ControllerQPS and ControllerBurst limit the requests per second of each
	// client of the controller manager and of the scheduler.
	ControllerQPS   float32
	ControllerBurst int
	// HPA are the settings of the HorizontalPodAutoscaler controller.
	HPA HPATuning
	// ScrapeInterval is the interval at which Prometheus scrapes each pod and
	// evaluates rules.
	ScrapeInterval time.Duration
	// LookbackDelta is for how long after its last sample Prometheus still
	// answers an instant query for a series that was not marked as ended.
	LookbackDelta time.Duration
	// ExtraArgs are appended to the arguments of the component they are filed
	// under.
	ExtraArgs map[string][]string
}

// HPATuning are settings of the HorizontalPodAutoscaler controller. Zero leaves
// Kubernetes' own default.
type HPATuning struct {
	SyncPeriod              time.Duration
	DownscaleStabilization  time.Duration
	Tolerance               float64
	CPUInitializationPeriod time.Duration
	InitialReadinessDelay   time.Duration
	ConcurrentSyncs         int
}

// PKI returns the path of a file in the folder of certificates and keys.
func (c Cluster) PKI(name string) string { return filepath.Join(c.Dir, "pki", name) }

// Data returns the data folder of a component.
func (c Cluster) Data(name string) string { return filepath.Join(c.Dir, "data", name) }

// Log returns the path of a component's log.
func (c Cluster) Log(name string) string { return filepath.Join(c.Dir, "logs", name+".log") }

// Config returns the path of a generated configuration file.
func (c Cluster) Config(name string) string { return filepath.Join(c.Dir, "config", name) }

// Kubeconfig returns the path of a component's kubeconfig.
func (c Cluster) Kubeconfig(name string) string {
	return filepath.Join(c.Dir, "kubeconfigs", name+".kubeconfig")
}

// All returns the components of a lab. Without metrics the simulator and
// Prometheus are left out.
func (c Cluster) All(metrics bool) []Component {
	components := []Component{c.Etcd(), c.APIServer(), c.ControllerManager(), c.Scheduler(), c.Kwok()}
	if metrics {
		components = append(components, c.Simulator(), c.Prometheus())
	}
	if c.ResourceMetrics {
		components = append(components, c.MetricsServer())
	}
	if c.CustomMetrics {
		components = append(components, c.CustomMetricsServer())
	}
	return c.withExtraArgs(components)
}

func (c Cluster) withExtraArgs(components []Component) []Component {
	for i := range components {
		components[i].Args = append(components[i].Args, c.Tuning.ExtraArgs[components[i].Name]...)
	}
	return components
}
