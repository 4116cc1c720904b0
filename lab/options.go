package lab

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pd-orchestrator/pd-orchestrator/lab/internal/build"
	"github.com/pd-orchestrator/pd-orchestrator/lab/internal/component"
)

// Options choose what a lab consists of. The zero value is a complete lab in a
// temporary folder.
type Options struct {
	// Repo is the root of the repository, which holds the sources of the
	// simulator and the modules of the parts. Empty means the nearest folder
	// above the working directory that has them.
	Repo string
	// CacheDir is where built parts are kept between runs. Empty means
	// $PDO_LAB_CACHE, or else pd-orchestrator-lab in the user's cache folder.
	CacheDir string
	// StateDir holds certificates, data, logs and kubeconfigs. What an earlier
	// lab left there is removed at the start. Empty means a temporary folder
	// that Stop removes, unless $PDO_LAB_KEEP is set.
	StateDir string
	// KubernetesVersion is "1.28", "1.28.15" or the like. Empty means
	// $KUBERNETES_VERSION, or else the newest there is.
	KubernetesVersion string
	// With names parts beyond the standard ones.
	With []string
	// WithoutMetrics leaves out Prometheus and the simulator.
	WithoutMetrics bool

	// Race builds the product with Go's race detector, which needs a C compiler.
	Race bool

	// Nodes is the number of simulated nodes; 0 means 4, negative none.
	Nodes int
	// NodeResources are the capacity of each node, on top of the defaults: room
	// for 1000 pods, and far more CPU, memory and GPUs than they ask for.
	NodeResources corev1.ResourceList

	// ControllerQPS and ControllerBurst limit the requests per second of the
	// controller manager and the scheduler, per client; 0 means 500 and 1000.
	// State them with every measured time.
	ControllerQPS   float32
	ControllerBurst int
	// HPASyncPeriod is the interval of the HorizontalPodAutoscaler controller;
	// 0 means 15 s, as in Kubernetes. Metrics follow it only as fast as their
	// source: metrics-server takes two rounds of 10 s, Prometheus a scrape.
	HPASyncPeriod time.Duration
	// HPADownscaleStabilization is for how long the controller looks back before
	// it scales down, where an autoscaler's behavior does not say; 0 means 5 min,
	// as in Kubernetes.
	HPADownscaleStabilization time.Duration
	// HPATolerance is the part by which a metric must be off its target before
	// the controller scales; 0 means 0.1, as in Kubernetes.
	HPATolerance float64
	// HPACPUInitializationPeriod is for how long after a pod's start its CPU
	// usage counts only while it is ready; 0 means 5 min, as in Kubernetes.
	HPACPUInitializationPeriod time.Duration
	// HPAInitialReadinessDelay is for how long after a pod's start a change of
	// its readiness counts as its first; 0 means 30 s, as in Kubernetes.
	HPAInitialReadinessDelay time.Duration
	// HPAConcurrentSyncs is how many autoscalers the controller works on at a
	// time; 0 means 5, as in Kubernetes.
	HPAConcurrentSyncs int
	// ScrapeInterval is the interval at which Prometheus scrapes; 0 means 1 s.
	ScrapeInterval time.Duration
	// LookbackDelta is how long Prometheus still answers with a last sample;
	// 0 means 10 s.
	LookbackDelta time.Duration
	// ExtraArgs are appended to the arguments of the named component.
	ExtraArgs map[string][]string

	// Progress receives a line per long step. Nil means standard error.
	Progress io.Writer
}

func (o Options) withDefaults() (Options, error) {
	var err error
	if o.Repo == "" {
		if o.Repo, err = findRepo(); err != nil {
			return o, err
		}
	}
	if o.Repo, err = filepath.Abs(o.Repo); err != nil {
		return o, fmt.Errorf("finding the repository: %w", err)
	}
	if o.CacheDir == "" {
		if o.CacheDir, err = build.DefaultCache(); err != nil {
			return o, err
		}
	}
	if o.StateDir != "" {
		if o.StateDir, err = filepath.Abs(o.StateDir); err != nil {
			return o, fmt.Errorf("finding the state folder: %w", err)
		}
	}
	if o.KubernetesVersion == "" {
		o.KubernetesVersion = os.Getenv("KUBERNETES_VERSION")
	}
	if o.Nodes == 0 {
		o.Nodes = 4
	}
	if o.ControllerQPS == 0 {
		o.ControllerQPS = 500
	}
	if o.ControllerBurst == 0 {
		o.ControllerBurst = 1000
	}
	if o.ScrapeInterval == 0 {
		o.ScrapeInterval = time.Second
	}
	if o.LookbackDelta == 0 {
		o.LookbackDelta = 10 * time.Second
	}
	if o.Progress == nil {
		o.Progress = os.Stderr
	}
	if o.WithoutMetrics && slices.Contains(o.With, build.CustomMetrics) {
		return o, fmt.Errorf("part %q takes its metrics from Prometheus, which is left out", build.CustomMetrics)
	}
	return o, validateWith(o.With)
}

func (o Options) tuning() component.Tuning {
	return component.Tuning{
		ControllerQPS:   o.ControllerQPS,
		ControllerBurst: o.ControllerBurst,
		HPA: component.HPATuning{
			SyncPeriod:              o.HPASyncPeriod,
			DownscaleStabilization:  o.HPADownscaleStabilization,
			Tolerance:               o.HPATolerance,
			CPUInitializationPeriod: o.HPACPUInitializationPeriod,
			InitialReadinessDelay:   o.HPAInitialReadinessDelay,
			ConcurrentSyncs:         o.HPAConcurrentSyncs,
		},
		ScrapeInterval: o.ScrapeInterval,
		LookbackDelta:  o.LookbackDelta,
		ExtraArgs:      o.ExtraArgs,
	}
}

// nodeResources returns the capacity of one node.
func (o Options) nodeResources() corev1.ResourceList {
	resources := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("10k"),
		corev1.ResourceMemory:           resource.MustParse("100Ti"),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Ti"),
		corev1.ResourcePods:             resource.MustParse("1000"),
		"nvidia.com/gpu":                resource.MustParse("10k"),
	}
	for name, quantity := range o.NodeResources {
		resources[name] = quantity
	}
	return resources
}

// ParseWith splits a comma-separated list of parts on demand.
func ParseWith(list string) ([]string, error) {
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, validateWith(names)
}

// validateWith checks names of parts on demand.
func validateWith(names []string) error {
	var errs []error
	for _, name := range names {
		if !slices.Contains(build.OnDemand(), name) {
			errs = append(errs, fmt.Errorf("no part %q to add to the lab: there are %s", name, strings.Join(build.OnDemand(), ", ")))
		}
	}
	return errors.Join(errs...)
}

// findRepo looks for the repository in the working directory and above.
func findRepo() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the repository: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(partsDir(dir)); err == nil && info.IsDir() {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("finding the repository: neither %s nor a folder above it holds lab/parts", start)
		}
	}
}

func partsDir(repo string) string { return filepath.Join(repo, "lab", "parts") }
