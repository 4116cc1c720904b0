package component

import "fmt"

// Etcd stores the API server's objects. It takes no connection without a
// client certificate of its own authority, and does not wait for the disk: a
// lab's data need not survive the machine.
func (c Cluster) Etcd() Component {
	client := fmt.Sprintf("https://%s:%d", loopback, c.Ports.Etcd)
	peer := fmt.Sprintf("https://%s:%d", loopback, c.Ports.EtcdPeer)
	return Component{
		Name:   EtcdName,
		Binary: c.Binaries["etcd"],
		Args: []string{
			"--name=lab",
			"--data-dir=" + c.Data(EtcdName),
			"--listen-client-urls=" + client,
			"--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer,
			"--initial-advertise-peer-urls=" + peer,
			"--initial-cluster=lab=" + peer,
			"--cert-file=" + c.PKI("etcd.crt"),
			"--key-file=" + c.PKI("etcd.key"),
			"--client-cert-auth",
			"--trusted-ca-file=" + c.PKI("etcd-ca.crt"),
			"--peer-cert-file=" + c.PKI("etcd.crt"),
			"--peer-key-file=" + c.PKI("etcd.key"),
			"--peer-client-cert-auth",
			"--peer-trusted-ca-file=" + c.PKI("etcd-ca.crt"),
			"--unsafe-no-fsync",
			"--quota-backend-bytes=8589934592",
			"--log-level=warn",
		},
		ReadyURL:    client + "/readyz",
		StopTimeout: stopTimeout,
	}
}
