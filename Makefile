# PD-Orchestrator. What each target does is said beside it; `make help` lists them.

SHELL := /bin/sh
.DEFAULT_GOAL := help

# The compiler's cache serves a package only to builds with the same settings. With these, which are also those of the
# lab's parts, what was compiled for the control plane is not compiled again for the manager, the tests and the tools.
export CGO_ENABLED ?= 0
export GOFLAGS := $(strip $(filter-out -trimpath,$(GOFLAGS)) -trimpath)

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":[^#]*## " } /^[a-zA-Z0-9_-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

include $(wildcard mk/*.mk)
