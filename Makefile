# PD-Orchestrator. What each target does is said beside it; `make help` lists them.

SHELL := /bin/sh
.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":[^#]*## " } /^[a-zA-Z0-9_-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

include $(wildcard mk/*.mk)
