// Package crd holds the CustomResourceDefinitions, for those who validate objects without a cluster.
package crd

import "embed"

// Files are the CustomResourceDefinitions in YAML, one per file, below bases.
//
//go:embed bases/*.yaml
var Files embed.FS
