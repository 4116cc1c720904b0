# The chart as a package for the image of VERSION (see images.mk). Helm is the lab's own, built from its Go module.

# A registry to push the package to, such as oci://registry.example.com/team/charts; empty: nowhere.
PUSH_CHART ?=

# Helm takes semantic versions only: one that is none goes behind 0.0.0-.
CHART_VERSION ?= $(shell echo '$(VERSION)' | sed -E '/^v?[0-9]+\.[0-9]+\.[0-9]+([-+].*)?$$/!s/^/0.0.0-g/; s/^v//')

.PHONY: chart
chart: lab-command ## Package the chart into bin/chart, for the image of VERSION (PUSH_CHART=oci://REGISTRY/PATH)
	@helm=$$($(LAB) build --repo . helm) && \
	$$helm package charts/pd-orchestrator --version '$(CHART_VERSION)' --app-version '$(VERSION)' --destination bin/chart && \
	{ [ -z '$(PUSH_CHART)' ] || $$helm push bin/chart/pd-orchestrator-'$(CHART_VERSION)'.tgz '$(PUSH_CHART)'; }
