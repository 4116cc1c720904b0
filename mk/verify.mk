# Generated code, linters, and the check that what is committed is what would be generated.
# Everything here is pinned in tools/go.mod and tools/lint/go.mod and needs git, make and Go only.

CONTROLLER_GEN := go tool -modfile=tools/go.mod controller-gen
CRD_REF_DOCS   := go tool -modfile=tools/go.mod crd-ref-docs
GOLANGCI_LINT  := bin/golangci-lint

# Written by `make generate`, and by nothing else.
GENERATED := ':(glob)api/**/zz_generated.deepcopy.go' client/applyconfiguration config/crd/bases config/rbac charts/pd-orchestrator/files/crds charts/pd-orchestrator/files/rbac charts/pd-orchestrator/files/webhook docs/api ':(exclude)docs/api/README.md'

# Each component has a Role of its own, made from the RBAC markers below internal/controller/<component>.
COMPONENTS := resourcescalinggroup elasticscaler tidal autoscalerpolicy

# The modules whose code is linted and vetted: the product, the suites that test it, the example of a plug-in, the image builder.
GO_MODULES := $(patsubst %/go.mod,%,$(wildcard ./go.mod lab/go.mod test/go.mod examples/plugin/go.mod tools/image/go.mod))

.PHONY: generate
generate: ## Generate deepcopy functions, CRDs, apply configurations, Roles and the API reference
	@echo "generate: deepcopy functions and CRDs"
	@$(CONTROLLER_GEN) object paths=./api/...
	@rm -rf config/crd/bases
	@$(CONTROLLER_GEN) crd:omitToolVersion=true paths=./api/... output:crd:dir=config/crd/bases
	@echo "generate: apply configurations"
	@rm -rf client/applyconfiguration
	@$(CONTROLLER_GEN) applyconfiguration:omitToolVersion=true paths=./api/...
	@echo "generate: Roles"
	@for component in $(COMPONENTS); do \
		if [ -d internal/controller/$$component ]; then \
			rm -rf config/rbac/$$component && \
			$(CONTROLLER_GEN) rbac:roleName=pd-orchestrator-$$component paths=./internal/controller/$$component/... output:rbac:dir=config/rbac/$$component || exit 1; \
		fi; \
	done

	@echo "generate: the API reference"
	@find docs/api -name '*.md' ! -name README.md -delete
	@$(CRD_REF_DOCS) --log-level=ERROR --max-depth=30 --source-path=api --config=hack/api-docs/config.yaml --templates-dir=hack/api-docs/templates \
		--renderer=markdown --output-mode=group --output-path=docs/api

	@echo "generate: what the chart takes from config"
	@rm -rf charts/pd-orchestrator/files/crds charts/pd-orchestrator/files/rbac charts/pd-orchestrator/files/webhook
	@mkdir -p charts/pd-orchestrator/files/rbac
	@cp -R config/crd/bases charts/pd-orchestrator/files/crds
	@cp -R config/webhook charts/pd-orchestrator/files/webhook
	@for role in config/rbac/*/role.yaml; do \
		cp $$role charts/pd-orchestrator/files/rbac/$$(basename $$(dirname $$role)).yaml || exit 1; \
	done

$(GOLANGCI_LINT): tools/lint/go.mod tools/lint/go.sum
	@echo "lint: building golangci-lint with kube-api-linter (about 4 minutes on 2 cores, once)"
	@mkdir -p bin
	@go -C tools/lint build -o ../../$@ sigs.k8s.io/kube-api-linter/cmd/golangci-lint-kube-api-linter

.PHONY: lint
lint: $(GOLANGCI_LINT) ## Lint all modules, the API types with kube-api-linter
	@for module in $(GO_MODULES); do \
		echo "lint: $$module"; \
		(cd $$module && $(CURDIR)/$(GOLANGCI_LINT) run --allow-parallel-runners --config $(CURDIR)/.golangci.yaml ./...) || exit 1; \
	done

.PHONY: lint-api
lint-api: $(GOLANGCI_LINT) ## Lint the API types only
	@$(GOLANGCI_LINT) run --allow-parallel-runners ./api/...

.PHONY: vet
vet: ## Run go vet on all modules
	@for module in $(GO_MODULES); do \
		echo "vet: $$module"; \
		(cd $$module && go vet ./...) || exit 1; \
	done

.PHONY: verify
verify: ## Generate, lint and vet, and fail if generated files differ from the committed ones
	@$(MAKE) --no-print-directory generate
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory vet
	@changes="$$(git status --porcelain --untracked-files=all -- $(GENERATED))"; \
	if [ -n "$$changes" ]; then \
		echo "verify: generated files are not up to date; commit what 'make generate' writes:"; \
		echo "$$changes"; \
		git --no-pager diff --stat -- $(GENERATED); \
		exit 1; \
	fi
	@echo "verify: all current"
