# The kubectl plug-in. docs/kubectl-pdo.md says what it does.

.PHONY: plugin
plugin: ## Build bin/kubectl-pdo, and the link bin/kubectl-ome
	@CGO_ENABLED=0 go build -trimpath -buildvcs=true -o bin/kubectl-pdo ./cmd/kubectl-pdo
	@ln -sf kubectl-pdo bin/kubectl-ome
	@echo "plugin: bin/kubectl-pdo; put it on your PATH"
