package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// writeArchive writes the image to file, as a tar archive of an OCI image layout.
func writeArchive(file string, o options, index v1.ImageIndex) error {
	folder, err := os.MkdirTemp(filepath.Dir(file), ".layout-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	// The first is what tools of OCI read the tag from, the second what containerd, and Docker with it, names the image by.
	names := map[string]string{
		"org.opencontainers.image.ref.name": o.tag.TagStr(),
		"io.containerd.image.name":          o.tag.Name(),
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(names)); err != nil {
		return err
	}

	var entries []entry
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == folder {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		e := entry{name: filepath.ToSlash(name), mode: 0o644}
		if d.IsDir() {
			e.name, e.mode = e.name+"/", 0o755
		} else if e.content, err = os.ReadFile(path); err != nil {
			return err
		}
		entries = append(entries, e)
		return nil
	})
	if err != nil {
		return err
	}
	archive, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(writeTar(archive, o.created, entries), archive.Close())
}
