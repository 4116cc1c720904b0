package servingruntime

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
)

// HasImages reports whether a component says itself which image each of its pods runs.
func HasImages(c *v1beta1.ComponentSpec) bool {
	if c.Leader != nil && c.Worker != nil {
		return hasImage(c.Leader.Runner, c.Runner) && hasImage(c.Worker.Runner, c.Runner)
	}
	return hasImage(c.Runner)
}

// hasImage reports whether the first of the runners that is there has an image.
func hasImage(runners ...*runtime.RawExtension) bool {
	for _, r := range runners {
		if r == nil {
			continue
		}
		var container struct {
			Image string `json:"image"`
		}
		return json.Unmarshal(r.Raw, &container) == nil && container.Image != ""
	}
	return false
}
