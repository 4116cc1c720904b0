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
		Args: []string{
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
			fmt.Sprintf("--kube-api-qps=%g", c.Tuning.ControllerQPS),
			fmt.Sprintf("--kube-api-burst=%d", c.Tuning.ControllerBurst),
			fmt.Sprintf("--horizontal-pod-autoscaler-sync-period=%s", c.Tuning.HPASyncPeriod),
			"--profiling=false",
		},
		ReadyURL:    fmt.Sprintf("https://%s:%d/healthz", loopback, c.Ports.ControllerManager),
		After:       []string{APIServerName},
		StopTimeout: stopTimeout,
	}
}
