package component

import "fmt"

// ControllerManager runs all of Kubernetes' controllers: without those for
// nodes no pod is scheduled, and without those for ServiceAccounts none is
// admitted.
func (c Cluster) ControllerManager() Component {
	kubeconfig := c.Kubeconfig(ControllerManagerName)
	return Component{
		Name:   ControllerManagerName,
		Binary: c.Binaries["kube-controller-manager"],
		Args: append([]string{
			"--kubeconfig=" + kubeconfig,
			"--authentication-kubeconfig=" + kubeconfig,
			"--authorization-kubeconfig=" + kubeconfig,
			"--bind-address=" + loopback,
			fmt.Sprintf("--secure-port=%d", c.Ports.ControllerManager),
			"--tls-cert-file=" + c.PKI("controller-manager.crt"),
			"--tls-private-key-file=" + c.PKI("controller-manager.key"),
			"--client-ca-file=" + c.PKI("ca.crt"),
			"--requestheader-client-ca-file=" + c.PKI("front-proxy-ca.crt"),
			"--leader-elect=false",
			"--use-service-account-credentials=true",
			"--service-account-private-key-file=" + c.PKI("service-account.key"),
			"--root-ca-file=" + c.PKI("ca.crt"),
			"--cluster-signing-cert-file=" + c.PKI("ca.crt"),
			"--cluster-signing-key-file=" + c.PKI("ca.key"),
			"--allocate-node-cidrs=false",
			// The nodes are simulated by one process, whose heartbeats can be late
			// on a busy machine. What a node that is not heard of does to its pods
			// kwok does not undo.
			"--node-monitor-grace-period=1h",
			fmt.Sprintf("--kube-api-qps=%g", c.Tuning.ControllerQPS),
			fmt.Sprintf("--kube-api-burst=%d", c.Tuning.ControllerBurst),
			"--profiling=false",
		}, c.Tuning.HPA.args()...),
		ReadyURL:    fmt.Sprintf("https://%s:%d/healthz", loopback, c.Ports.ControllerManager),
		After:       []string{APIServerName},
		StopTimeout: stopTimeout,
	}
}

// args returns the flags of what is set.
func (t HPATuning) args() []string {
	var args []string
	for _, setting := range []struct {
		flag string
		set  bool
		to   any
	}{
		{"horizontal-pod-autoscaler-sync-period", t.SyncPeriod != 0, t.SyncPeriod},
		{"horizontal-pod-autoscaler-downscale-stabilization", t.DownscaleStabilization != 0, t.DownscaleStabilization},
		{"horizontal-pod-autoscaler-tolerance", t.Tolerance != 0, t.Tolerance},
		{"horizontal-pod-autoscaler-cpu-initialization-period", t.CPUInitializationPeriod != 0, t.CPUInitializationPeriod},
		{"horizontal-pod-autoscaler-initial-readiness-delay", t.InitialReadinessDelay != 0, t.InitialReadinessDelay},
		{"concurrent-horizontal-pod-autoscaler-syncs", t.ConcurrentSyncs != 0, t.ConcurrentSyncs},
	} {
		if setting.set {
			args = append(args, fmt.Sprintf("--%s=%v", setting.flag, setting.to))
		}
	}
	return args
}
