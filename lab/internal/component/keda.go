package component

import "fmt"

// KEDANamespace is where KEDA is installed.
const KEDANamespace = "keda"

// KEDAAccount is the ServiceAccount of all of KEDA's processes, as in its own
// manifests.
const KEDAAccount = "keda-operator"

// KEDAAdapterHost is the name for which KEDA's adapter has a certificate.
const KEDAAdapterHost = "keda-metrics-apiserver." + KEDANamespace + ".svc"

// KEDAHosts are the names in KEDA's certificate. Its processes share one, with
// which the adapter and the operator also show themselves to each other.
func KEDAHosts() []string { return []string{KEDAAdapterHost, "localhost", loopback} }

// KEDACertDir is the folder in which KEDA's processes look for ca.crt, tls.crt
// and tls.key.
func (c Cluster) KEDACertDir() string { return c.PKI("keda") }

// KEDA returns its three processes. They come up in any order, once the API
// server has the CRDs.
func (c Cluster) KEDA() []Component {
	return c.withExtraArgs([]Component{c.kedaOperator(), c.kedaAdapter(), c.kedaWebhooks()})
}

// kedaOperator turns ScaledObjects into HorizontalPodAutoscalers and asks the
// triggers' sources.
func (c Cluster) kedaOperator() Component {
	return Component{
		Name:   KEDAOperatorName,
		Binary: c.Binaries["keda-operator"],
		Args: append(c.kedaClient(),
			"--cert-dir="+c.KEDACertDir(),
			fmt.Sprintf("--health-probe-bind-address=%s:%d", loopback, c.Ports.KEDAHealth),
			"--metrics-bind-address=0",
			fmt.Sprintf("--metrics-service-bind-address=%s:%d", loopback, c.Ports.KEDAService),
			"--leader-elect=false",
		),
		Env:         kedaEnv(),
		ReadyURL:    fmt.Sprintf("http://%s:%d/readyz", loopback, c.Ports.KEDAHealth),
		StopTimeout: stopTimeout,
	}
}

// kedaAdapter serves external.metrics.k8s.io with what the operator tells it.
func (c Cluster) kedaAdapter() Component {
	kubeconfig := c.Kubeconfig(KEDAAccount)
	return Component{
		Name:   KEDAAdapterName,
		Binary: c.Binaries["keda-adapter"],
		Args: append(c.kedaClient(),
			"--lister-kubeconfig="+kubeconfig,
			"--authentication-kubeconfig="+kubeconfig,
			"--authorization-kubeconfig="+kubeconfig,
			"--bind-address="+loopback,
			fmt.Sprintf("--secure-port=%d", c.Ports.KEDAAdapter),
			"--cert-dir="+c.KEDACertDir(),
			"--tls-cert-file="+c.PKI("keda/tls.crt"),
			"--tls-private-key-file="+c.PKI("keda/tls.key"),
			"--client-ca-file="+c.PKI("ca.crt"),
			fmt.Sprintf("--metrics-service-address=%s:%d", loopback, c.Ports.KEDAService),
			// Its own metrics cannot be switched off, nor kept to one address.
			"--port=0",
		),
		Env:         kedaEnv(),
		ReadyURL:    fmt.Sprintf("https://%s:%d/readyz", loopback, c.Ports.KEDAAdapter),
		StopTimeout: stopTimeout,
	}
}

// kedaWebhooks checks KEDA's objects on admission. It cannot be told to listen
// on one address only.
func (c Cluster) kedaWebhooks() Component {
	return Component{
		Name:   KEDAWebhooksName,
		Binary: c.Binaries["keda-webhooks"],
		Args: append(c.kedaClient(),
			"--cert-dir="+c.KEDACertDir(),
			fmt.Sprintf("--port=%d", c.Ports.KEDAWebhooks),
			"--health-probe-bind-address=0",
			"--metrics-bind-address=0",
		),
		Env: kedaEnv(),
		// Its own readiness check does not wait for the webhooks, and what finds them closed passes unchecked.
		ReadyURL:    fmt.Sprintf("https://%s:%d/validate-keda-sh-v1alpha1-scaledobject", loopback, c.Ports.KEDAWebhooks),
		StopTimeout: stopTimeout,
	}
}

// kedaClient is how each of the processes talks to the API server.
func (c Cluster) kedaClient() []string {
	return []string{
		"--kubeconfig=" + c.Kubeconfig(KEDAAccount),
		fmt.Sprintf("--kube-api-qps=%g", c.Tuning.ControllerQPS),
		fmt.Sprintf("--kube-api-burst=%d", c.Tuning.ControllerBurst),
	}
}

func kedaEnv() []string {
	return []string{"POD_NAMESPACE=" + KEDANamespace, "KEDA_CLUSTER_OBJECT_NAMESPACE=" + KEDANamespace, "WATCH_NAMESPACE="}
}
