// Package rights names what somebody must be allowed to do before an object of ours may have it done.
package rights

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Right is what somebody must be allowed to do.
type Right struct {
	// Verb, Group, Resource and Subresource as RBAC names them.
	Verb, Group, Resource, Subresource string
	// Namespace, and Name of the object, "" for any.
	Namespace, Name string
}

// Scale is the right to set the count of an object.
func Scale(resource schema.GroupResource, namespace, name string) Right {
	return Right{Verb: "update", Group: resource.Group, Resource: resource.Resource, Subresource: "scale", Namespace: namespace, Name: name}
}

// String names the right in a message.
func (r Right) String() string {
	resource := schema.GroupResource{Group: r.Group, Resource: r.Resource}.String()
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	if r.Name == "" {
		return fmt.Sprintf("%s %s in namespace %s", r.Verb, resource, r.Namespace)
	}
	return fmt.Sprintf("%s %s %q in namespace %s", r.Verb, resource, r.Name, r.Namespace)
}

// Need is what one reference takes.
type Need struct {
	// Path of the reference.
	Path *field.Path
	// Rights that the writer must have, all of them.
	Rights []Right
}
