module github.com/pd-orchestrator/pd-orchestrator/lab/parts/helm

go 1.26.0

require helm.sh/helm/v4 v4.3.1

tool (
	helm.sh/helm/v4/cmd/helm
)
