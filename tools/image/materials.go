package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/package-url/packageurl-go"
)

// billOfMaterials says as CycloneDX JSON what one platform's image is made of: the modules and the standard library that
// the compiler recorded in the binary, and the root certificates. It does not say which module needs which, nor their
// licences, since the binary does not.
func billOfMaterials(o options, info *buildinfo.BuildInfo, binary, roots []byte) ([]byte, error) {
	product := moduleComponent(cdx.ComponentTypeApplication, info.Main.Path, o.version)
	product.Description = description
	product.Hashes = hashes(binary)
	product.Licenses = &cdx.Licenses{{License: &cdx.License{ID: licenceID}}}
	product.ExternalReferences = &[]cdx.ExternalReference{{Type: cdx.ERTypeVCS, URL: source, Comment: o.revision}}
	properties := []cdx.Property{}
	for _, s := range info.Settings {
		properties = append(properties, cdx.Property{Name: "go:build:" + s.Key, Value: s.Value})
	}
	product.Properties = &properties

	goVersion, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), " ")
	components := []cdx.Component{
		moduleComponent(cdx.ComponentTypeLibrary, "std", goVersion),
		{
			BOMRef:      "file:/" + certificates,
			Type:        cdx.ComponentTypeFile,
			Name:        "/" + certificates,
			Description: "Certificate authorities of the NSS trust store",
			Hashes:      hashes(roots),
		},
	}
	for _, d := range info.Deps {
		components = append(components, dependencyComponent(d))
	}
	slices.SortFunc(components, func(a, b cdx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })

	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: o.created.Format(time.RFC3339), Component: &product}
	bom.Components = &components
	var b bytes.Buffer
	// Not the newest version of the format: scanners take years to read one.
	if err := cdx.NewBOMEncoder(&b, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return nil, fmt.Errorf("writing the bill of materials: %w", err)
	}
	return b.Bytes(), nil
}

func dependencyComponent(d *debug.Module) cdx.Component {
	if d.Replace != nil {
		d = d.Replace
	}
	c := moduleComponent(cdx.ComponentTypeLibrary, d.Path, d.Version)
	if d.Sum != "" {
		// No hash of CycloneDX: it is one of the names and hashes of all files.
		c.Properties = &[]cdx.Property{{Name: "go:sum", Value: d.Sum}}
	}
	return c
}

func moduleComponent(kind cdx.ComponentType, module, version string) cdx.Component {
	namespace, name := path.Split(module)
	purl := packageurl.NewPackageURL(packageurl.TypeGolang, strings.TrimSuffix(namespace, "/"), name, version, nil, "").ToString()
	return cdx.Component{BOMRef: purl, Type: kind, Name: module, Version: version, PackageURL: purl}
}

func hashes(content []byte) *[]cdx.Hash {
	sum := sha256.Sum256(content)
	return &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}
}
