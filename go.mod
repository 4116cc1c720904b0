module github.com/pd-orchestrator/pd-orchestrator

go 1.26.0
