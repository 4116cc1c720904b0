# The manager's image for those who build with a container engine. `make images` builds the same without one; what is in
# it, who it runs as and how it starts is the same. docs/images.md says more.

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS TARGETARCH
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -buildvcs=false -ldflags="-s -w" -o /image/pd-orchestrator ./cmd/pd-orchestrator \
    && install -D -m 644 /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ca-certificates.crt \
    && install -D -m 644 LICENSE /image/licenses/LICENSE \
    && install -d -m 1777 /image/tmp

FROM scratch
COPY --from=build /image/ /
LABEL org.opencontainers.image.title="PD-Orchestrator" \
      org.opencontainers.image.source="https://github.com/pd-orchestrator/pd-orchestrator" \
      org.opencontainers.image.licenses="Apache-2.0"
USER 65532:65532
WORKDIR /
ENTRYPOINT ["/pd-orchestrator"]
