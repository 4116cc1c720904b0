# Container images of the manager, packed from its binaries alone, and their bills of materials. docs/images.md says more.
# Needs git, make and Go only.

# The image's name without its tag, and its tag, which is the version of all of it. Without --abbrev it
# would depend on the size of the clone.
IMAGE   ?= ghcr.io/pd-orchestrator/pd-orchestrator
VERSION ?= $(shell git describe --tags --always --abbrev=12 --dirty)

# A name with a tag to push the image to, such as registry.example.com/team/pd-orchestrator:v1.2.3; empty: nowhere.
PUSH ?=

# The time of everything in the image, in seconds since 1970.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)

IMAGE_ARCHITECTURES := amd64 arm64
IMAGE_BUILDER       := bin/image

# Everything that changes a binary is said here, so that the environment does not.
IMAGE_BUILD := GOFLAGS= CGO_ENABLED=0 GOOS=linux GOAMD64=v1 GOARM64=v8.0 go build -trimpath -buildvcs=false -ldflags='-s -w'

.PHONY: images
images: image-builder ## Build the manager's image for amd64 and arm64 into bin/images (PUSH=REGISTRY/NAME:TAG)
	@for architecture in $(IMAGE_ARCHITECTURES); do \
		echo "images: compiling for linux/$$architecture" >&2; \
		GOARCH=$$architecture $(IMAGE_BUILD) -o bin/images/linux-$$architecture/pd-orchestrator ./cmd/pd-orchestrator || exit 1; \
	done
	@$(IMAGE_BUILDER) --repository=$(IMAGE) --version=$(VERSION) --revision=$$(git rev-parse HEAD) --created=$(SOURCE_DATE_EPOCH) \
		--licence=LICENSE --output=bin/images --push=$(PUSH) $(IMAGE_ARCHITECTURES:%=bin/images/linux-%/pd-orchestrator)

# go build decides whether there is anything to do.
.PHONY: image-builder
image-builder:
	@[ -x $(IMAGE_BUILDER) ] || echo "images: building the image builder" >&2
	@go -C tools/image build -buildvcs=false -o ../../$(IMAGE_BUILDER) .
