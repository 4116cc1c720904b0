package component

import "fmt"

// PodCIDR is the range of pod addresses. It is an ordinary range because the
// API server refuses loopback addresses as endpoints; Prometheus dials
// 127.1.x.y for 10.1.x.y.
const PodCIDR = "10.1.0.0/16"

// Kwok plays the kubelets of all nodes: pods run, become ready and end, but
// have no containers.
func (c Cluster) Kwok() Component {
	args := []string{
		"--kubeconfig=" + c.Kubeconfig(KwokName),
		"--manage-all-nodes",
		// Without a Lease that is renewed a node is NotReady after 40 s, and with it every pod on it.
		"--node-lease-duration-seconds=40",
		"--cidr=" + PodCIDR,
		"--node-ip=" + loopback,
		fmt.Sprintf("--server-address=%s:%d", loopback, c.Ports.Kwok),
		"--tls-cert-file=" + c.PKI("kwok.crt"),
		"--tls-private-key-file=" + c.PKI("kwok.key"),
	}
	for _, file := range c.StageFiles {
		args = append(args, "--config="+file)
	}
	var files []File
	if c.ResourceMetrics {
		usage := File{Path: c.Config("kwok-usage.yaml"), Content: usageConfig()}
		files = append(files, usage)
		args = append(args, "--config="+usage.Path)
	}
	return Component{
		Name:        KwokName,
		Binary:      c.Binaries["kwok"],
		Args:        args,
		Files:       files,
		ReadyURL:    fmt.Sprintf("https://%s:%d/healthz", loopback, c.Ports.Kwok),
		After:       []string{APIServerName},
		StopTimeout: stopTimeout,
	}
}
