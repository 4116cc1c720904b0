# Tests. The unit tests need Go only; the others build the lab first, once.

# 1 runs everything with the race detector, which needs a C compiler.
RACE ?=
ifneq ($(filter-out 0,$(RACE)),)
export CGO_ENABLED := 1
TEST_FLAGS += -race
export PDO_RACE := 1
endif

# Further flags for go test, such as -run or -count.
TEST_FLAGS += -timeout=20m

# The suites build and read what lies outside their modules, of which the cache of results knows nothing.
SUITE_FLAGS = $(TEST_FLAGS) -count=1

GOTESTSUM := bin/gotestsum

.PHONY: gotestsum
gotestsum:
	@[ -x $(GOTESTSUM) ] || echo "test: building gotestsum" >&2
	@CGO_ENABLED=0 go -C tools build -trimpath -buildvcs=false -o ../$(GOTESTSUM) gotest.tools/gotestsum

# `go test` shows no progress while a part is built.
.PHONY: lab-build-on-demand
lab-build-on-demand: lab-command
	@$(LAB) build --repo . metrics-server custom-metrics keda helm >/dev/null

.PHONY: test
test: test-unit test-lab test-integration ## Run all tests (RACE=1: with the race detector)

.PHONY: test-unit
test-unit: gotestsum ## Run the tests that need no cluster
	@echo "test: the product's packages"
	@$(GOTESTSUM) --format=pkgname -- $(TEST_FLAGS) ./...
	@echo "test: the example of a plug-in"
	@cd examples/plugin && ../../$(GOTESTSUM) --format=pkgname -- $(TEST_FLAGS) ./...
	@echo "test: the image builder"
	@cd tools/image && ../../$(GOTESTSUM) --format=pkgname -- $(TEST_FLAGS) ./...

.PHONY: test-lab
test-lab: gotestsum lab-build lab-build-on-demand ## Run the tests of the lab and the simulator
	@echo "test: the lab and the simulator"
	@cd lab && ../$(GOTESTSUM) --format=pkgname -- $(SUITE_FLAGS) ./...

# One package at a time: each has a lab of its own, and two cores.
.PHONY: test-integration
test-integration: gotestsum lab-build lab-build-on-demand ## Run the tests on a real control plane
	@echo "test: on a real control plane"
	@cd test && ../$(GOTESTSUM) --format=pkgname -- $(SUITE_FLAGS) -p=1 -parallel=4 ./...

# The oldest Kubernetes that docs/compatibility.md names. Of each other part the lab runs the newest version that fits.
OLDEST_KUBERNETES := 1.28

.PHONY: test-oldest
test-oldest: ## Run the tests on a real control plane of the oldest supported Kubernetes
	@$(MAKE) --no-print-directory test-integration KUBERNETES_VERSION=$(OLDEST_KUBERNETES)
