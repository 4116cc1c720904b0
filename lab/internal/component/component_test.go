package component

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden file")

// The golden file shows in review what a change does to the processes of a lab.
func TestComponents(t *testing.T) {
	cluster := Cluster{
		Dir:        "/state",
		Binaries:   map[string]string{},
		StageFiles: []string{"/cache/stages/node.yaml", "/cache/stages/pod.yaml"},
		Ports: Ports{Etcd: 1, EtcdPeer: 2, APIServer: 3, ControllerManager: 4, Scheduler: 5, Kwok: 6, Prometheus: 7,
			Simulator: 8, SimulatorControl: 9, MetricsServer: 10, CustomMetrics: 11,
			KEDAHealth: 12, KEDAService: 13, KEDAAdapter: 14, KEDAWebhooks: 15},
		ResourceMetrics: true,
		CustomMetrics:   true,
		Tuning: Tuning{ControllerQPS: 500, ControllerBurst: 1000, HPA: HPATuning{SyncPeriod: time.Second, DownscaleStabilization: 5 * time.Second, Tolerance: 0.05,
			CPUInitializationPeriod: 2 * time.Second, InitialReadinessDelay: 3 * time.Second, ConcurrentSyncs: 20},
			ScrapeInterval: time.Second, LookbackDelta: 90 * time.Second,
			ExtraArgs: map[string][]string{SchedulerName: {"--v=4"}}},
	}
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "simulator", "prometheus", "metrics-server",
		"prometheus-adapter", "keda-operator", "keda-adapter", "keda-webhooks"} {
		cluster.Binaries[name] = "/cache/" + name
	}

	var text strings.Builder
	for _, c := range slices.Concat(cluster.All(true), cluster.KEDA()) {
		fmt.Fprintf(&text, "%s\n  ready %s, after %v, stop within %s\n  %s\n", c.Name, c.ReadyURL, c.After, c.StopTimeout, c.Binary)
		for _, setting := range c.Env {
			fmt.Fprintf(&text, "    %s\n", setting)
		}
		for _, arg := range c.Args {
			fmt.Fprintf(&text, "    %s\n", arg)
		}
		for _, file := range c.Files {
			fmt.Fprintf(&text, "  %s\n    %s\n", file.Path, strings.ReplaceAll(strings.TrimSpace(file.Content), "\n", "\n    "))
		}
	}
	const golden = "testdata/components.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if text.String() != string(want) {
		t.Errorf("the components differ from %s; if they should, run the test with -update and look at the diff:\n%s", golden, text.String())
	}
}

func TestEveryComponentCanStart(t *testing.T) {
	known := map[string]bool{}
	for _, c := range (Cluster{ResourceMetrics: true, CustomMetrics: true}).All(true) {
		for _, name := range c.After {
			if !known[name] {
				t.Errorf("%s comes after %s, which does not come before it", c.Name, name)
			}
		}
		known[c.Name] = true
	}
}

func TestWithoutMetrics(t *testing.T) {
	for _, c := range (Cluster{}).All(false) {
		if c.Name == PrometheusName || c.Name == SimulatorName {
			t.Errorf("%s is there without metrics", c.Name)
		}
		if c.Name == MetricsServerName || c.Name == CustomMetricsName {
			t.Errorf("%s is there though nobody asked for it", c.Name)
		}
	}
}
