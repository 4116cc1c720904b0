package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/x509"
	"debug/buildinfo"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const (
	testVersion  = "v1.2.3-4-gabcdef0"
	testRevision = "abcdef0123456789abcdef0123456789abcdef01"
	testCreated  = "1700000000"
	testLicence  = "Do what you like.\n"
)

var testTime = time.Unix(1700000000, 0).UTC()

// standIns are a small program compiled for each platform.
var standIns = sync.OnceValues(func() (map[string][]byte, error) {
	folder, err := os.MkdirTemp("", "standin-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	binaries := map[string][]byte{}
	for _, architecture := range []string{"amd64", "arm64"} {
		file := filepath.Join(folder, architecture)
		command := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", file, "./testdata/standin")
		command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+architecture)
		if output, err := command.CombinedOutput(); err != nil {
			return nil, errors.New(string(output))
		}
		if binaries[architecture], err = os.ReadFile(file); err != nil {
			return nil, err
		}
	}
	return binaries, nil
})

func standIn(t *testing.T, architecture string) []byte {
	t.Helper()
	binaries, err := standIns()
	if err != nil {
		t.Fatalf("compiling the stand-in: %v", err)
	}
	return binaries[architecture]
}

// buildInto runs the command over the stand-ins. It returns the folder with what was written, and what was printed.
func buildInto(t *testing.T, architectures []string, further ...string) (folder, printed string) {
	t.Helper()
	inputs, folder := t.TempDir(), t.TempDir()
	licence := filepath.Join(inputs, "LICENSE")
	writeFile(t, licence, []byte(testLicence))
	args := append([]string{
		"--repository=registry.example.com/team/pd-orchestrator", "--version=" + testVersion, "--revision=" + testRevision,
		"--created=" + testCreated, "--licence=" + licence, "--output=" + folder,
	}, further...)
	for _, architecture := range architectures {
		file := filepath.Join(inputs, "binary-"+architecture)
		writeFile(t, file, standIn(t, architecture))
		args = append(args, file)
	}
	var out bytes.Buffer
	if err := run(t.Context(), args, &out); err != nil {
		t.Fatalf("image %s: %v", strings.Join(args, " "), err)
	}
	return folder, out.String()
}

func writeFile(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// readArchive unpacks the archive in folder and reads it as OCI tools do.
func readArchive(t *testing.T, folder string) (top v1.ImageIndex, index v1.ImageIndex) {
	t.Helper()
	archive, err := os.Open(filepath.Join(folder, "pd-orchestrator.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	unpacked := t.TempDir()
	for r := tar.NewReader(archive); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !header.ModTime.Equal(testTime) {
			t.Errorf("%s in the archive is of %s, want %s", header.Name, header.ModTime, testTime)
		}
		file := filepath.Join(unpacked, header.Name)
		if header.Typeflag == tar.TypeDir {
			if err := os.Mkdir(file, 0o700); err != nil {
				t.Fatal(err)
			}
			continue
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, file, content)
	}
	if top, err = layout.ImageIndexFromPath(unpacked); err != nil {
		t.Fatal(err)
	}
	manifest, err := top.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 {
		t.Fatalf("the archive holds %d images; tools that are given no name take one only", len(manifest.Manifests))
	}
	if index, err = top.ImageIndex(manifest.Manifests[0].Digest); err != nil {
		t.Fatal(err)
	}
	return top, index
}

// images are the images of an index, by architecture.
func images(t *testing.T, index v1.ImageIndex) map[string]v1.Image {
	t.Helper()
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]v1.Image{}
	for _, d := range manifest.Manifests {
		if d.Platform == nil || d.Platform.OS != "linux" {
			t.Fatalf("a manifest of the index is for platform %v, want linux", d.Platform)
		}
		if found[d.Platform.Architecture], err = index.Image(d.Digest); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

func digest(t *testing.T, of interface{ Digest() (v1.Hash, error) }) v1.Hash {
	t.Helper()
	h, err := of.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestSameInputsGiveTheSameBytes(t *testing.T) {
	t.Parallel()
	first, _ := buildInto(t, []string{"amd64", "arm64"})
	second, _ := buildInto(t, []string{"arm64", "amd64"}) // The order on the command line does not count.
	want := []string{"pd-orchestrator-linux-amd64.cdx.json", "pd-orchestrator-linux-arm64.cdx.json", "pd-orchestrator.tar"}
	for _, folder := range []string{first, second} {
		written, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range written {
			names = append(names, f.Name())
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Fatalf("files in the output folder (-want +got):\n%s", diff)
		}
	}
	for _, file := range want {
		a, err := os.ReadFile(filepath.Join(first, file))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(second, file))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Errorf("two builds of the same inputs differ in %s", file)
		}
	}
}

func TestOtherInputsGiveAnotherDigest(t *testing.T) {
	t.Parallel()
	base, _ := buildInto(t, []string{"amd64"})
	_, baseIndex := readArchive(t, base)
	// The last of a flag counts.
	other, _ := buildInto(t, []string{"amd64"}, "--revision=0000000000000000000000000000000000000000")
	_, otherIndex := readArchive(t, other)
	if digest(t, baseIndex) == digest(t, otherIndex) {
		t.Errorf("images of two commits have the same digest %s", digest(t, baseIndex))
	}
}

func TestArchiveIsAValidImageForBothPlatforms(t *testing.T) {
	t.Parallel()
	folder, printed := buildInto(t, []string{"amd64", "arm64"})
	top, index := readArchive(t, folder)
	if err := validate.Index(index); err != nil {
		t.Errorf("the image is not valid: %v", err)
	}
	if want := digest(t, index).String(); !strings.Contains(printed, want) {
		t.Errorf("the command printed %q, want the digest %s in it", printed, want)
	}

	manifest, err := top.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	wantNames := map[string]string{
		"org.opencontainers.image.ref.name": testVersion,
		"io.containerd.image.name":          "registry.example.com/team/pd-orchestrator:" + testVersion,
	}
	if diff := cmp.Diff(wantNames, manifest.Manifests[0].Annotations); diff != "" {
		t.Errorf("names of the image in the archive (-want +got):\n%s", diff)
	}

	wantAnnotations := map[string]string{
		"org.opencontainers.image.title":       title,
		"org.opencontainers.image.description": description,
		"org.opencontainers.image.source":      "https://github.com/pd-orchestrator/pd-orchestrator",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     testVersion,
		"org.opencontainers.image.revision":    testRevision,
		"org.opencontainers.image.created":     "2023-11-14T22:13:20Z",
	}
	indexManifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantAnnotations, indexManifest.Annotations); diff != "" {
		t.Errorf("annotations of the index (-want +got):\n%s", diff)
	}
	if indexManifest.MediaType != types.OCIImageIndex {
		t.Errorf("media type of the index: %s, want %s", indexManifest.MediaType, types.OCIImageIndex)
	}

	found := images(t, index)
	if len(found) != 2 || found["amd64"] == nil || found["arm64"] == nil {
		t.Fatalf("the image has platforms %v, want amd64 and arm64", found)
	}
	for architecture, image := range found {
		manifest, err := image.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wantAnnotations, manifest.Annotations); diff != "" {
			t.Errorf("annotations for %s (-want +got):\n%s", architecture, diff)
		}
		if manifest.MediaType != types.OCIManifestSchema1 || manifest.Config.MediaType != types.OCIConfigJSON {
			t.Errorf("media types for %s: %s and %s, want those of OCI", architecture, manifest.MediaType, manifest.Config.MediaType)
		}
		for _, layer := range manifest.Layers {
			if layer.MediaType != types.OCILayer {
				t.Errorf("media type of a layer for %s: %s, want %s", architecture, layer.MediaType, types.OCILayer)
			}
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.OS != "linux" || config.Architecture != architecture || !config.Created.Equal(testTime) {
			t.Errorf("config for %s is for %s/%s, of %s; want linux, and %s", architecture, config.OS, config.Architecture, config.Created, testTime)
		}
		// The chart passes arguments only. No variable: the flags and the configuration say everything.
		wantConfig := v1.Config{User: "65532:65532", Entrypoint: []string{"/pd-orchestrator"}, WorkingDir: "/", Labels: wantAnnotations}
		if diff := cmp.Diff(wantConfig, config.Config); diff != "" {
			t.Errorf("config for %s (-want +got):\n%s", architecture, diff)
		}
	}
}

func TestFilesOfTheImage(t *testing.T) {
	t.Parallel()
	folder, _ := buildInto(t, []string{"amd64", "arm64"})
	_, index := readArchive(t, folder)
	type file struct {
		Name string
		Mode int64
	}
	want := []file{
		{"etc/", 0o755},
		{"etc/ssl/", 0o755},
		{"etc/ssl/certs/", 0o755},
		{"etc/ssl/certs/ca-certificates.crt", 0o644},
		{"licenses/", 0o755},
		{"licenses/LICENSE", 0o644},
		{"pd-orchestrator", 0o755},
		{"tmp/", 0o1777},
	}
	for architecture, image := range images(t, index) {
		layers, err := image.Layers()
		if err != nil {
			t.Fatal(err)
		}
		if len(layers) != 1 {
			t.Fatalf("the image for %s has %d layers, want 1", architecture, len(layers))
		}
		content, err := layers[0].Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		var got []file
		contents := map[string][]byte{}
		for r := tar.NewReader(content); ; {
			header, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, file{header.Name, header.Mode})
			if !header.ModTime.Equal(testTime) || header.Uid != 0 || header.Gid != 0 || header.Uname != "" {
				t.Errorf("%s for %s is of %s and belongs to %d:%d (%q), want %s and root without a name",
					header.Name, architecture, header.ModTime, header.Uid, header.Gid, header.Uname, testTime)
			}
			if contents[header.Name], err = io.ReadAll(r); err != nil {
				t.Fatal(err)
			}
		}
		if err := content.Close(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("files for %s (-want +got):\n%s", architecture, diff)
		}
		if !bytes.Equal(contents["pd-orchestrator"], standIn(t, architecture)) {
			t.Errorf("the program for %s is not the binary that was given", architecture)
		}
		if got := string(contents["licenses/LICENSE"]); got != testLicence {
			t.Errorf("licence for %s: %q, want %q", architecture, got, testLicence)
		}
		if got := countCertificates(t, contents["etc/ssl/certs/ca-certificates.crt"]); got < 50 {
			t.Errorf("the image for %s trusts %d certificate authorities, want those of a browser", architecture, got)
		}
	}
}

// countCertificates counts the certificates of a PEM file as the standard library reads it.
func countCertificates(t *testing.T, content []byte) int {
	t.Helper()
	n := 0
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil || !certificate.IsCA {
			t.Errorf("certificate %d is not an authority's: %v", n, err)
		}
		n++
	}
	return n
}

func TestBillOfMaterials(t *testing.T) {
	t.Parallel()
	folder, _ := buildInto(t, []string{"amd64", "arm64"})
	for _, architecture := range []string{"amd64", "arm64"} {
		content, err := os.ReadFile(filepath.Join(folder, "pd-orchestrator-linux-"+architecture+".cdx.json"))
		if err != nil {
			t.Fatal(err)
		}
		var bom cdx.BOM
		if err := cdx.NewBOMDecoder(bytes.NewReader(content), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
			t.Fatal(err)
		}
		product := bom.Metadata.Component
		if want := "pkg:golang/github.com/pd-orchestrator/pd-orchestrator/tools/image@" + testVersion; product.PackageURL != want {
			t.Errorf("%s: the main module is %s, want %s", architecture, product.PackageURL, want)
		}
		if diff := cmp.Diff(hashes(standIn(t, architecture)), product.Hashes); diff != "" {
			t.Errorf("%s: hash of the binary (-want +got):\n%s", architecture, diff)
		}
		if want := (cdx.Property{Name: "go:build:GOARCH", Value: architecture}); !contains(*product.Properties, want) {
			t.Errorf("%s: the build settings are %v, want %v among them", architecture, *product.Properties, want)
		}

		// What the binary itself says.
		info, err := buildinfo.Read(bytes.NewReader(standIn(t, architecture)))
		if err != nil {
			t.Fatal(err)
		}
		if len(info.Deps) != 1 {
			t.Fatalf("the stand-in has dependencies %v, want one", info.Deps)
		}
		dependency := info.Deps[0]
		goVersion := strings.TrimPrefix(strings.Fields(info.GoVersion)[0], "go")
		want := []string{
			"file:/etc/ssl/certs/ca-certificates.crt",
			"pkg:golang/github.com/package-url/packageurl-go@" + dependency.Version,
			"pkg:golang/std@" + goVersion,
		}
		var got []string
		for _, c := range *bom.Components {
			got = append(got, c.BOMRef)
			if c.Name == dependency.Path && (c.Properties == nil || !contains(*c.Properties, cdx.Property{Name: "go:sum", Value: dependency.Sum})) {
				t.Errorf("%s: %s has properties %v, want its sum %s", architecture, c.Name, c.Properties, dependency.Sum)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: components (-want +got):\n%s", architecture, diff)
		}
	}
}

func contains(properties []cdx.Property, want cdx.Property) bool {
	for _, p := range properties {
		if p == want {
			return true
		}
	}
	return false
}

func TestReplacedModuleIsListedAsWhatItIs(t *testing.T) {
	t.Parallel()
	c := dependencyComponent(&debug.Module{
		Path: "example.com/asked", Version: "v1.0.0", Sum: "h1:asked=",
		Replace: &debug.Module{Path: "example.com/Used/v2", Version: "v2.0.0+incompatible", Sum: "h1:used="},
	})
	if c.Name != "example.com/Used/v2" || c.Version != "v2.0.0+incompatible" || (*c.Properties)[0].Value != "h1:used=" {
		t.Errorf("component of a replaced module: %+v", c)
	}
}

func TestPushAndPull(t *testing.T) {
	t.Parallel()
	for name, referrers := range map[string]bool{"with the referrers API": true, "without it": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(registry.New(registry.WithReferrersSupport(referrers), registry.Logger(log.New(io.Discard, "", 0))))
			defer server.Close()
			target := strings.TrimPrefix(server.URL, "http://") + "/team/image:v1"
			folder, printed := buildInto(t, []string{"amd64", "arm64"}, "--push="+target)
			_, want := readArchive(t, folder)
			checkPushed(t, target, want, folder)
			if line := "pushed " + target + "@" + digest(t, want).String() + "\n"; !strings.HasSuffix(printed, line) {
				t.Errorf("the command printed %q, want %q at its end", printed, line)
			}
			// Again, as after a network failure.
			folder, _ = buildInto(t, []string{"amd64", "arm64"}, "--push="+target)
			checkPushed(t, target, want, folder)
		})
	}
}

// checkPushed pulls the image and compares it and its bills of materials to what lies in folder.
func checkPushed(t *testing.T, target string, want v1.ImageIndex, folder string) {
	t.Helper()
	tag, err := name.NewTag(target)
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Index(tag)
	if err != nil {
		t.Fatalf("pulling: %v", err)
	}
	if got := digest(t, pulled); got != digest(t, want) {
		t.Errorf("pulled %s, want %s", got, digest(t, want))
	}
	if err := validate.Index(pulled); err != nil {
		t.Errorf("what was pulled is not valid: %v", err)
	}
	for architecture, image := range images(t, pulled) {
		referrers, err := remote.Referrers(tag.Digest(digest(t, image).String()))
		if err != nil {
			t.Fatalf("listing what refers to the image for %s: %v", architecture, err)
		}
		manifest, err := referrers.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		if len(manifest.Manifests) != 1 {
			t.Fatalf("to the image for %s refer %+v, want one bill of materials", architecture, manifest.Manifests)
		}
		artifact, err := remote.Image(tag.Digest(manifest.Manifests[0].Digest.String()))
		if err != nil {
			t.Fatal(err)
		}
		// In the list of this registry is the type of the config instead.
		if m, err := artifact.Manifest(); err != nil || m.ArtifactType != "application/vnd.cyclonedx+json" {
			t.Errorf("what refers to the image for %s is %+v (error %v), want a bill of materials", architecture, m, err)
		}
		layers, err := artifact.Layers()
		if err != nil {
			t.Fatal(err)
		}
		content, err := layers[0].Compressed()
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(content)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join(folder, "pd-orchestrator-linux-"+architecture+".cdx.json"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("bill of materials for %s in the registry (-file +registry):\n%s", architecture, diff)
		}
	}
}

func TestPlatformOf(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		os, cgo string
		wantErr bool
	}{
		"static, for Linux":        {os: "linux", cgo: "0"},
		"needs a C library":        {os: "linux", cgo: "1", wantErr: true},
		"of a compiler without it": {os: "linux", cgo: "", wantErr: true},
		"for another system":       {os: "darwin", cgo: "0", wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			info := &buildinfo.BuildInfo{Settings: []debug.BuildSetting{
				{Key: "GOOS", Value: test.os}, {Key: "GOARCH", Value: "arm64"}, {Key: "CGO_ENABLED", Value: test.cgo},
			}}
			got, err := platformOf(info)
			if test.wantErr != (err != nil) {
				t.Fatalf("error %v, want one: %t", err, test.wantErr)
			}
			if err == nil && got.String() != "linux/arm64" {
				t.Errorf("platform %s, want linux/arm64", got)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	binary, text := filepath.Join(folder, "binary"), filepath.Join(folder, "text")
	writeFile(t, binary, standIn(t, "amd64"))
	writeFile(t, text, []byte("no binary"))
	complete := []string{"--repository=example.com/image", "--version=v1", "--licence=" + text, "--output=" + filepath.Join(folder, "out")}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no binary":                     {nil, "no binary"},
		"a file that is none":           {[]string{text}, text},
		"two for a platform":            {[]string{binary, binary}, "two binaries for linux/amd64"},
		"a version that can be no tag":  {[]string{"--version=1.2.3+build", binary}, "--version"},
		"no repository":                 {[]string{"--repository=", binary}, "--repository"},
		"no licence":                    {[]string{"--licence=" + folder + "/absent", binary}, "--licence"},
		"a name to push to that is bad": {[]string{"--push=example.com/UPPER:v1", binary}, "--push"},
		"a name to push to, but no tag": {[]string{"--push=example.com/image", binary}, "--push"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := run(context.Background(), append(append([]string{}, complete...), test.args...), io.Discard)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}
