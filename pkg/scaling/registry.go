package scaling

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// Registry holds algorithms by name. It is safe for concurrent use.
type Registry struct {
	mu     sync.RWMutex
	byName map[string]ScalingAlgorithm
}

// DefaultRegistry is the registry that the manager looks algorithms up in.
var DefaultRegistry = NewRegistry()

// NewRegistry returns a registry without an algorithm.
func NewRegistry() *Registry {
	return &Registry{byName: map[string]ScalingAlgorithm{}}
}

// Register adds an algorithm. A name that is empty, or taken already in any spelling, is an error.
func (r *Registry) Register(a ScalingAlgorithm) error {
	if a == nil {
		return errors.New("registering a scaling algorithm: it is nil")
	}
	name := NormalizeName(a.Name())
	if name == "" {
		return fmt.Errorf("registering scaling algorithm %T: its name is empty", a)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if other, ok := r.byName[name]; ok {
		return fmt.Errorf("registering scaling algorithm %q: %q is registered already; choose another name", a.Name(), other.Name())
	}
	r.byName[name] = a
	return nil
}

// Lookup returns the algorithm of a name, without regard to case and spaces.
func (r *Registry) Lookup(name string) (ScalingAlgorithm, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	a, ok := r.byName[NormalizeName(name)]
	return a, ok
}

// Names returns the names of the registered algorithms as they spell themselves, sorted.
func (r *Registry) Names() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var names []string
	for _, key := range slices.Sorted(maps.Keys(r.byName)) {
		names = append(names, r.byName[key].Name())
	}
	return names
}

// NormalizeName returns the form in which names of algorithms are compared: in lower case and without spaces.
func NormalizeName(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
}
