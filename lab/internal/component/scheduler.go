package component

import "fmt"

// Scheduler assigns pods to the simulated nodes.
func (c Cluster) Scheduler() Component {
	kubeconfig := c.Kubeconfig(SchedulerName)
	config := File{
		Path: c.Config("kube-scheduler.yaml"),
		Content: fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: %q
  qps: %g
  burst: %d
leaderElection:
  leaderElect: false
enableProfiling: false
`, kubeconfig, c.Tuning.ControllerQPS, c.Tuning.ControllerBurst),
	}
	return Component{
		Name:   SchedulerName,
		Binary: c.Binaries["kube-scheduler"],
		Args: []string{
			"--config=" + config.Path,
			"--authentication-kubeconfig=" + kubeconfig,
			"--authorization-kubeconfig=" + kubeconfig,
			"--bind-address=" + loopback,
			fmt.Sprintf("--secure-port=%d", c.Ports.Scheduler),
			"--tls-cert-file=" + c.PKI("scheduler.crt"),
			"--tls-private-key-file=" + c.PKI("scheduler.key"),
			"--client-ca-file=" + c.PKI("ca.crt"),
			"--requestheader-client-ca-file=" + c.PKI("front-proxy-ca.crt"),
		},
		Files:       []File{config},
		ReadyURL:    fmt.Sprintf("https://%s:%d/healthz", loopback, c.Ports.Scheduler),
		After:       []string{APIServerName},
		StopTimeout: stopTimeout,
	}
}
