package scaling

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ResourceHandler reads and writes the count of a kind that has no scale subresource, or one that does not fit. It is
// called for the targets of ElasticScalers, by several callers at once.
type ResourceHandler interface {
	// GetCurrentReplicas returns the count of a target. An error that is or wraps a NotFound of the API says that the
	// target does not exist; any other makes the count unknown, and nothing is written then.
	GetCurrentReplicas(ctx context.Context, c client.Client, target Target) (Replicas, error)
	// UpdateReplicas sets the count of a target, provided that it still is the object, of the version, that `read`
	// describes: otherwise it writes nothing and returns a Conflict of the API.
	UpdateReplicas(ctx context.Context, c client.Client, target Target, read Replicas, replicas int32) error
}

// Replicas is the count of a target and what belongs to it.
type Replicas struct {
	// Desired is the count that the target is asked to have, 0 or more.
	Desired int32
	// Current is the count that it has, as far as it says.
	Current int32
	// Selector chooses the pods of the target in its namespace, in the form of a serialized label selector. Empty: none are
	// known, and metrics of pods have no value.
	Selector string
	// UnitLabel is the label of those pods whose value tells which replica a pod belongs to. Empty: each pod is a replica.
	UnitLabel string
	// UID and ResourceVersion are those of the object that the count was read from.
	UID             types.UID
	ResourceVersion string
}

// groupVersionKind is the key of a handler.
type groupVersionKind struct{ apiVersion, kind string }

var handlers = struct {
	sync.RWMutex
	byKind map[groupVersionKind]ResourceHandler
}{byKind: map[groupVersionKind]ResourceHandler{}}

// RegisterResourceHandler makes a handler responsible for a kind, such as `example.com/v1` and `Pool`. Case does not matter
// in the kind. It is meant for init functions and panics where the kind has a handler already, or nothing is registered.
func RegisterResourceHandler(apiVersion, kind string, handler ResourceHandler) {
	if apiVersion == "" || kind == "" || handler == nil {
		panic(fmt.Sprintf("registering a resource handler for apiVersion %q, kind %q: apiVersion, kind and handler must be given", apiVersion, kind))
	}
	key := groupVersionKind{apiVersion, strings.ToLower(kind)}
	handlers.Lock()
	defer handlers.Unlock()
	if _, ok := handlers.byKind[key]; ok {
		panic(fmt.Sprintf("registering a resource handler for %s, kind %s: the kind has one already", apiVersion, kind))
	}
	handlers.byKind[key] = handler
}

// LookupResourceHandler returns the handler of a kind, without regard to the case of the kind.
func LookupResourceHandler(apiVersion, kind string) (ResourceHandler, bool) {
	handlers.RLock()
	defer handlers.RUnlock()
	h, ok := handlers.byKind[groupVersionKind{apiVersion, strings.ToLower(kind)}]
	return h, ok
}

// ResourceHandlerKinds returns the kinds with a handler, as "apiVersion kind" with the kind in lower case, sorted.
func ResourceHandlerKinds() []string {
	handlers.RLock()
	defer handlers.RUnlock()
	var kinds []string
	for key := range handlers.byKind {
		kinds = append(kinds, key.apiVersion+" "+key.kind)
	}
	slices.Sort(kinds)
	return kinds
}
