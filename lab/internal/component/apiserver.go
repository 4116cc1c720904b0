package component

import (
	"fmt"
	"time"
)

// ServiceCIDR is the range of Service addresses. Nothing answers on them:
// there is no kube-proxy.
const ServiceCIDR = "10.96.0.0/16"

// APIServer is the Kubernetes API server with RBAC, its own authorities and
// the aggregation layer.
func (c Cluster) APIServer() Component {
	return Component{
		Name:   APIServerName,
		Binary: c.Binaries["kube-apiserver"],
		Args: []string{
			"--bind-address=" + loopback,
			fmt.Sprintf("--secure-port=%d", c.Ports.APIServer),
			// Loopback endpoints are refused, also for the Service "kubernetes".
			"--advertise-address=10.0.0.1",
			"--endpoint-reconciler-type=none",
			"--tls-cert-file=" + c.PKI("apiserver.crt"),
			"--tls-private-key-file=" + c.PKI("apiserver.key"),
			"--client-ca-file=" + c.PKI("ca.crt"),

			fmt.Sprintf("--etcd-servers=https://%s:%d", loopback, c.Ports.Etcd),
			"--etcd-cafile=" + c.PKI("etcd-ca.crt"),
			"--etcd-certfile=" + c.PKI("apiserver-etcd-client.crt"),
			"--etcd-keyfile=" + c.PKI("apiserver-etcd-client.key"),

			"--authorization-mode=Node,RBAC",
			"--allow-privileged=true",
			"--service-cluster-ip-range=" + ServiceCIDR,
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--service-account-key-file=" + c.PKI("service-account.pub"),
			"--service-account-signing-key-file=" + c.PKI("service-account.key"),

			"--enable-aggregator-routing=false",
			"--requestheader-client-ca-file=" + c.PKI("front-proxy-ca.crt"),
			"--requestheader-allowed-names=front-proxy-client",
			"--requestheader-username-headers=X-Remote-User",
			"--requestheader-group-headers=X-Remote-Group",
			"--requestheader-extra-headers-prefix=X-Remote-Extra-",
			"--proxy-client-cert-file=" + c.PKI("front-proxy-client.crt"),
			"--proxy-client-key-file=" + c.PKI("front-proxy-client.key"),

			// Tests measure controllers, not the fairness between them.
			"--max-requests-inflight=3000",
			"--max-mutating-requests-inflight=1000",
			"--profiling=false",
		},
		ReadyURL:    fmt.Sprintf("https://%s:%d/readyz", loopback, c.Ports.APIServer),
		After:       []string{EtcdName},
		StopTimeout: 10 * time.Second,
	}
}
