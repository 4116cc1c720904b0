// Command pd-orchestrator is the manager that runs the controllers of PD-Orchestrator.
package main

import "github.com/pd-orchestrator/pd-orchestrator/pkg/manager"

func main() { manager.Main() }
