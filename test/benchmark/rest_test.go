package benchmark

import (
	"slices"
	"testing"
	"time"

	"github.com/pd-orchestrator/pd-orchestrator/test/resourcescalinggroup/rsgtest"
	"github.com/pd-orchestrator/pd-orchestrator/test/usage"
)

const (
	settledFleet = 1000
	// restWindow is how long the manager is watched.
	restWindow = time.Minute
	// mostCPU is the share of a core that it may use meanwhile.
	mostCPU = 0.01
)

// BenchmarkAtRest settles 1,000 ResourceScalingGroups of two groups and reports how much of a core the manager uses in the
// minute after that, and what anybody has written in it. It fails above 1 % of a core, and at the first write.
func BenchmarkAtRest(b *testing.B) {
	f := rsgtest.Fleet{World: env.World(b, "fleet").OneNamespace(), Size: settledFleet, Roles: []string{"prefill"}, Patience: 3 * patience}
	f.CreateAll()
	f.Rest(isChange)
	for b.Loop() {
		before, start := observe(b)
		<-time.After(restWindow)
		after, end := observe(b)
		share := (after.CPU - before.CPU).Seconds() / restWindow.Seconds()
		b.ReportMetric(100*share, "%-of-a-core")
		b.ReportMetric(float64(after.Resident)/(1<<20), "MiB")
		if share > mostCPU {
			b.Errorf("the manager uses %.2f %% of a core, want at most %.0f %%", 100*share, 100*mostCPU)
		}
		if writes := rsgtest.RequestsBetween(start, end, isChange); len(writes) > 0 {
			b.Errorf("writes while nothing changes: %v", writes)
		}
	}
}

// observe reads what the manager has used and what the API server was asked for.
func observe(b *testing.B) (usage.Usage, map[rsgtest.Request]int) {
	b.Helper()
	requests, err := env.Requests(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	used, err := usage.Of(env.Manager.PID())
	if err != nil {
		b.Fatal(err)
	}
	return used, requests
}

// isChange leaves out what clusters write all the time: Leases, the API server's own objects, and reviews of rights, which
// are no objects.
func isChange(r rsgtest.Request) bool {
	return r.IsWrite() && r.Resource != "" && !slices.Contains([]string{"leases", "subjectaccessreviews", "tokenreviews"}, r.Resource)
}
