module github.com/pd-orchestrator/pd-orchestrator/lab/parts/keda-2.21

go 1.26.0

require github.com/kedacore/keda/v2 v2.21.0

tool (
	github.com/kedacore/keda/v2/cmd/operator
	github.com/kedacore/keda/v2/cmd/adapter
	github.com/kedacore/keda/v2/cmd/webhooks
)

replace github.com/nexus-rpc/nexus-proto-annotations v0.1.0 => github.com/nexus-rpc/nexus-proto-annotations v0.1.1-0.20260629224316-835bd8d49cb4

exclude github.com/go-chi/chi/v5 v5.2.3
