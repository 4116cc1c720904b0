package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/x509"
	"debug/buildinfo"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	title       = "PD-Orchestrator"
	description = "Scales chains of LLM inference workloads on Kubernetes, by metrics, state, signals and the clock."
	source      = "https://github.com/pd-orchestrator/pd-orchestrator"
	licenceID   = "Apache-2.0" // as SPDX names it

	// user and group are those of the chart's pods. A number, since runAsNonRoot cannot check a name.
	user = "65532:65532"

	program      = "pd-orchestrator"
	certificates = "etc/ssl/certs/ca-certificates.crt"
)

// options says what is built. All of it goes into the image, so the same options give the same digest.
type options struct {
	repository string
	version    string
	revision   string
	tag        name.Tag // repository:version
	created    time.Time
	licence    []byte
}

func (o options) annotations() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       title,
		"org.opencontainers.image.description": description,
		"org.opencontainers.image.source":      source,
		"org.opencontainers.image.licenses":    licenceID,
		"org.opencontainers.image.version":     o.version,
		"org.opencontainers.image.revision":    o.revision,
		"org.opencontainers.image.created":     o.created.Format(time.RFC3339),
	}
}

// builtImage is the image for all platforms.
type builtImage struct {
	index     v1.ImageIndex
	platforms []platformImage // by architecture
}

// platformImage is the image for one platform, and its bill of materials as CycloneDX JSON.
type platformImage struct {
	platform  v1.Platform
	image     v1.Image
	materials []byte
}

// build makes an image of the binaries in files, one for each platform.
func build(o options, files []string) (*builtImage, error) {
	if len(files) == 0 {
		return nil, errors.New("no binary: see --help")
	}
	roots, err := trustedRoots()
	if err != nil {
		return nil, err
	}
	built := &builtImage{}
	for _, file := range files {
		p, err := buildPlatform(o, file, roots)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		built.platforms = append(built.platforms, p)
	}
	slices.SortFunc(built.platforms, func(a, b platformImage) int {
		return cmp.Compare(a.platform.Architecture, b.platform.Architecture)
	})
	for i := 1; i < len(built.platforms); i++ {
		if p := built.platforms[i].platform; p.Equals(built.platforms[i-1].platform) {
			return nil, fmt.Errorf("two binaries for %s", p)
		}
	}
	adds := make([]mutate.IndexAddendum, len(built.platforms))
	for i, p := range built.platforms {
		adds[i] = mutate.IndexAddendum{Add: p.image, Descriptor: v1.Descriptor{Platform: &p.platform}}
	}
	built.index = mutate.Annotations(mutate.AppendManifests(empty.Index, adds...), o.annotations()).(v1.ImageIndex)
	return built, nil
}

func buildPlatform(o options, file string, roots []byte) (platformImage, error) {
	binary, err := os.ReadFile(file)
	if err != nil {
		return platformImage{}, err
	}
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return platformImage{}, err
	}
	platform, err := platformOf(info)
	if err != nil {
		return platformImage{}, err
	}
	layer, err := packLayer(o.created, []entry{
		{name: "etc/", mode: 0o755},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: certificates, mode: 0o644, content: roots},
		{name: "licenses/", mode: 0o755},
		{name: "licenses/LICENSE", mode: 0o644, content: o.licence},
		{name: program, mode: 0o755, content: binary},
		// For what the manager writes outside a cluster; in one, volumes are mounted below it.
		{name: "tmp/", mode: 0o1777},
	})
	if err != nil {
		return platformImage{}, err
	}
	image, err := imageOf(o, platform, layer)
	if err != nil {
		return platformImage{}, err
	}
	materials, err := billOfMaterials(o, info, binary, roots)
	if err != nil {
		return platformImage{}, err
	}
	return platformImage{platform: platform, image: image, materials: materials}, nil
}

// platformOf is the platform that a binary was compiled for. It fails for one that needs more than a kernel.
func platformOf(info *buildinfo.BuildInfo) (v1.Platform, error) {
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if settings["GOOS"] != "linux" || settings["CGO_ENABLED"] != "0" {
		return v1.Platform{}, fmt.Errorf("compiled with GOOS=%s and CGO_ENABLED=%s: an image without a base needs GOOS=linux and CGO_ENABLED=0",
			settings["GOOS"], settings["CGO_ENABLED"])
	}
	return v1.Platform{OS: "linux", Architecture: settings["GOARCH"]}, nil
}

func imageOf(o options, platform v1.Platform, layer v1.Layer) (v1.Image, error) {
	config, err := empty.Image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = platform.OS, platform.Architecture
	config.Created = v1.Time{Time: o.created}
	config.Config = v1.Config{
		User:       user,
		Entrypoint: []string{"/" + program},
		WorkingDir: "/",
		Labels:     o.annotations(),
	}
	image, err := mutate.ConfigFile(empty.Image, config)
	if err != nil {
		return nil, err
	}
	image, err = mutate.Append(image, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: config.Created, CreatedBy: "make images"},
	})
	if err != nil {
		return nil, err
	}
	image = mutate.ConfigMediaType(mutate.MediaType(image, types.OCIManifestSchema1), types.OCIConfigJSON)
	return mutate.Annotations(image, o.annotations()).(v1.Image), nil
}

// entry is a file of the image, or a folder if its name ends in a slash. All belong to root, so that the program cannot
// change itself.
type entry struct {
	name    string
	mode    int64
	content []byte
}

func packLayer(created time.Time, entries []entry) (v1.Layer, error) {
	var b bytes.Buffer
	if err := writeTar(&b, created, entries); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer),
		tarball.WithCompressionLevel(gzip.BestCompression),
		tarball.WithCompressedCaching,
	)
}

// writeTar writes the entries in order of their names.
func writeTar(w io.Writer, modified time.Time, entries []entry) error {
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	t := tar.NewWriter(w)
	for _, e := range entries {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Size: int64(len(e.content)), ModTime: modified, Format: tar.FormatUSTAR}
		if strings.HasSuffix(e.name, "/") {
			header.Typeflag = tar.TypeDir
		}
		if err := t.WriteHeader(header); err != nil {
			return err
		}
		if _, err := t.Write(e.content); err != nil {
			return err
		}
	}
	return t.Close()
}

// trustedRoots are the certificate authorities that HTTPS endpoints are checked against, as PEM. They are a file of the
// image and no part of the program, so that a cluster's own file can be mounted over it, and the program trusts what its
// host trusts wherever it runs otherwise. They come from a module, so that the same commit has the same ones on each
// machine. A file cannot say from when on an authority is distrusted, so one of which that is known is left out.
func trustedRoots() ([]byte, error) {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		certificate, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			return nil, fmt.Errorf("reading the root certificates: %w", err)
		}
		fmt.Fprintf(&b, "# %s\n", certificate.Subject)
		if err := pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}
