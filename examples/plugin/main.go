// Command plugin is a manager of PD-Orchestrator with two plug-ins compiled in: the scaling algorithm xpa, and the handler of
// a kind that has no scale subresource. It takes the flags and the configuration of pd-orchestrator and replaces it.
package main

import (
	_ "example.com/scaling-plugin/pool" // registers itself
	_ "example.com/scaling-plugin/xpa"  // registers itself

	"github.com/pd-orchestrator/pd-orchestrator/pkg/manager"
)

func main() { manager.Main() }
