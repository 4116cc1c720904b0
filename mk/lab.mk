# The lab: a local control plane with simulated nodes, Prometheus, an inference simulator and the product.
# docs/lab.md says more. Needs git, make and Go only.

# Parts to add, comma-separated: keda, custom-metrics, metrics-server, helm.
WITH ?=
# Version of Kubernetes, such as 1.28; empty means the newest that the lab has.
KUBERNETES_VERSION ?=
export KUBERNETES_VERSION

LAB := bin/lab

.PHONY: lab
lab: lab-command ## Start the lab; eval "$(make -s lab)" points this shell to it (WITH=, KUBERNETES_VERSION=)
	@$(LAB) up --repo . --with '$(WITH)'

.PHONY: lab-down
lab-down: lab-command ## Stop the lab
	@$(LAB) down

.PHONY: lab-status
lab-status: lab-command ## Show the lab's processes and the line that points a shell to it
	@$(LAB) status

.PHONY: lab-build
lab-build: lab-command ## Build the lab's parts into the cache, with progress; starts nothing
	@$(LAB) build --repo . >/dev/null

# go build decides whether there is anything to do.
.PHONY: lab-command
lab-command:
	@[ -x $(LAB) ] || echo "lab: building the lab command (a minute or two the first time)" >&2
	@go -C lab build -buildvcs=false -o ../$(LAB) ./cmd/lab
