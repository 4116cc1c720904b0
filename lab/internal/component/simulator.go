package component

import "fmt"

// Simulator serves the metrics of every pod. Its metrics listen on all
// addresses because 127.1.x.y is a different one for each pod; it turns away
// peers that are not on this machine.
func (c Cluster) Simulator() Component {
	return Component{
		Name:   SimulatorName,
		Binary: c.Binaries["simulator"],
		Args: []string{
			fmt.Sprintf("--listen=0.0.0.0:%d", c.Ports.Simulator),
			fmt.Sprintf("--control=%s:%d", loopback, c.Ports.SimulatorControl),
			"--kubeconfig=" + c.Kubeconfig(SimulatorName),
			"--ready-file=" + c.SimulatorReadyFile(),
		},
		After:       []string{APIServerName},
		StopTimeout: stopTimeout,
	}
}

// SimulatorReadyFile is written by the simulator once it serves.
func (c Cluster) SimulatorReadyFile() string { return c.Config("simulator-ready.json") }
