module github.com/pd-orchestrator/pd-orchestrator/lab/parts/prometheus

go 1.26.0

require github.com/prometheus/prometheus v0.316.0

tool (
	github.com/prometheus/prometheus/cmd/prometheus
)
