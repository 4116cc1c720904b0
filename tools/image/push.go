package main

import (
	"bytes"
	"encoding/json"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	materialsType types.MediaType = "application/vnd.cyclonedx+json"
	emptyType     types.MediaType = "application/vnd.oci.empty.v1+json"
)

// push writes the image to a registry, and attaches the bill of materials of each platform to the platform's manifest, as
// a referrer of it. The tag comes last, so that whoever sees it finds all of that.
func push(tag name.Tag, built *builtImage, options ...remote.Option) error {
	digest, err := built.index.Digest()
	if err != nil {
		return err
	}
	if err := remote.WriteIndex(tag.Digest(digest.String()), built.index, options...); err != nil {
		return err
	}
	for _, p := range built.platforms {
		if err := pushMaterials(tag.Context(), p, options...); err != nil {
			return err
		}
	}
	return remote.Tag(tag, built.index, options...)
}

func pushMaterials(repository name.Repository, p platformImage, options ...remote.Option) error {
	subject, err := partial.Descriptor(p.image)
	if err != nil {
		return err
	}
	manifest := v1.Manifest{
		SchemaVersion: 2,
		MediaType:     types.OCIManifestSchema1,
		ArtifactType:  string(materialsType),
		Subject:       &v1.Descriptor{MediaType: subject.MediaType, Digest: subject.Digest, Size: subject.Size},
	}
	if manifest.Config, err = upload(repository, static.NewLayer([]byte("{}"), emptyType), options...); err != nil {
		return err
	}
	content, err := upload(repository, static.NewLayer(p.materials, materialsType), options...)
	if err != nil {
		return err
	}
	manifest.Layers = []v1.Descriptor{content}
	raw, err := json.Marshal(manifest)
	if err != nil {
		return err
	}
	digest, _, err := v1.SHA256(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	return remote.Put(repository.Digest(digest.String()), rawManifest(raw), options...)
}

func upload(repository name.Repository, layer v1.Layer, options ...remote.Option) (v1.Descriptor, error) {
	if err := remote.WriteLayer(repository, layer, options...); err != nil {
		return v1.Descriptor{}, err
	}
	d, err := partial.Descriptor(layer)
	if err != nil {
		return v1.Descriptor{}, err
	}
	return *d, nil
}

// rawManifest is a manifest that is no image's.
type rawManifest []byte

// RawManifest implements remote.Taggable.
func (m rawManifest) RawManifest() ([]byte, error) { return m, nil }

// MediaType tells the registry what it gets.
func (rawManifest) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }
