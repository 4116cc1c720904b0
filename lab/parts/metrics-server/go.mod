module github.com/pd-orchestrator/pd-orchestrator/lab/parts/metrics-server

go 1.26.0

require sigs.k8s.io/metrics-server v0.8.0

tool (
	sigs.k8s.io/metrics-server/cmd/metrics-server
)
