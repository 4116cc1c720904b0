package kube

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
)

// ErrKindNotFound says that the API server serves no such kind.
var ErrKindNotFound = errors.New("kind not found")

// ErrKindAmbiguous says that a kind is served by several groups.
var ErrKindAmbiguous = errors.New("kind is ambiguous")

// kindsAge is how old an answer may be that a kind is not there or cannot be scaled, since a CRD may have come or changed.
const kindsAge = 10 * time.Second

// unservedKept is how many versions are remembered of which the API server serves no kind.
const unservedKept = 100

// Kind is a kind that the API server serves.
type Kind struct {
	schema.GroupVersionKind
	// Resource is the name of the kind in addresses and in RBAC, such as deployments.
	Resource string
	// Namespaced tells that its objects lie in namespaces.
	Namespaced bool
	// Scalable tells that they have a scale subresource.
	Scalable bool
}

// Kinds finds kinds by the words of a reference. What it has found it keeps. It is safe for concurrent use.
type Kinds struct {
	discovery discovery.ServerResourcesInterface
	clock     clock.PassiveClock

	mu     sync.Mutex
	groups map[string]servedGroup

	allMu sync.Mutex
	all   scalableKinds
}

// scalableKinds are those of all groups in the version that each prefers.
type scalableKinds struct {
	read  time.Time
	kinds map[string][]Kind // by the kind in lower case
}

type servedGroup struct {
	read  time.Time
	kinds map[string]Kind // by the kind in lower case
}

// NewKinds returns a finder that asks the API server.
func NewKinds(d discovery.ServerResourcesInterface, c clock.PassiveClock) *Kinds {
	return &Kinds{discovery: d, clock: c, groups: map[string]servedGroup{}}
}

// Find returns the kind of an apiVersion such as apps/v1. Upper and lower case of the kind are not told apart. The error
// is ErrKindNotFound where there is none.
func (k *Kinds) Find(apiVersion, kind string) (Kind, error) {
	lower := strings.ToLower(kind)
	k.mu.Lock()
	group, known := k.groups[apiVersion]
	k.mu.Unlock()
	found, ok := group.kinds[lower]
	if ok && found.Scalable || known && k.clock.Since(group.read) < kindsAge && k.clock.Since(group.read) >= 0 {
		return found, missing(ok, apiVersion, kind)
	}
	group, err := k.read(apiVersion)
	if err != nil {
		return Kind{}, err
	}
	k.keep(apiVersion, group)
	found, ok = group.kinds[lower]
	return found, missing(ok, apiVersion, kind)
}

// keep remembers an answer. Those that there are no kinds are forgotten once they are old, and none comes beside many: which
// versions are asked for is up to users.
func (k *Kinds) keep(apiVersion string, group servedGroup) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.groups, apiVersion)
	unserved := 0
	for other, g := range k.groups {
		switch age := k.clock.Since(g.read); {
		case len(g.kinds) > 0:
		case age >= kindsAge || age < 0:
			delete(k.groups, other)
		default:
			unserved++
		}
	}
	if len(group.kinds) > 0 || unserved < unservedKept {
		k.groups[apiVersion] = group
	}
}

// FindAny returns the one scalable kind of that name, whatever its group. Upper and lower case are not told apart. The
// error is ErrKindNotFound where there is none, and ErrKindAmbiguous where several groups have one.
func (k *Kinds) FindAny(kind string) (Kind, error) {
	k.allMu.Lock()
	defer k.allMu.Unlock()
	if age := k.clock.Since(k.all.read); k.all.kinds == nil || age >= kindsAge || age < 0 {
		all, err := k.readAll()
		if err != nil {
			return Kind{}, err
		}
		k.all = all
	}
	found := k.all.kinds[strings.ToLower(kind)]
	switch len(found) {
	case 0:
		return Kind{}, fmt.Errorf("%w: no kind %s with a scale subresource", ErrKindNotFound, kind)
	case 1:
		return found[0], nil
	}
	names := make([]string, len(found))
	for i, f := range found {
		names[i] = f.GroupVersion().String()
	}
	slices.Sort(names)
	return Kind{}, fmt.Errorf("%w: %s is served by %s", ErrKindAmbiguous, kind, strings.Join(names, " and "))
}

// FindNamed returns the kind that a reference names: by Find, or where it has no apiVersion by FindAny.
func (k *Kinds) FindNamed(apiVersion, kind string) (Kind, error) {
	if apiVersion == "" {
		return k.FindAny(kind)
	}
	return k.Find(apiVersion, kind)
}

func (k *Kinds) readAll() (scalableKinds, error) {
	all := scalableKinds{read: k.clock.Now(), kinds: map[string][]Kind{}}
	groups, lists, err := k.discovery.ServerGroupsAndResources()
	// A group whose server does not answer leaves the others as they are.
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return all, fmt.Errorf("discovering kinds: %w", err)
	}
	preferred := map[string]bool{}
	for _, g := range groups {
		preferred[g.PreferredVersion.GroupVersion] = true
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil || !preferred[list.GroupVersion] {
			continue
		}
		for name, kind := range kindsOf(gv, list.APIResources) {
			if kind.Scalable {
				all.kinds[name] = append(all.kinds[name], kind)
			}
		}
	}
	return all, nil
}

func missing(ok bool, apiVersion, kind string) error {
	if ok {
		return nil
	}
	return fmt.Errorf("%w: no kind %s in %s", ErrKindNotFound, kind, apiVersion)
}

func (k *Kinds) read(apiVersion string) (servedGroup, error) {
	group := servedGroup{read: k.clock.Now(), kinds: map[string]Kind{}}
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return group, nil //nolint:nilerr // A text that names no group has no kinds.
	}
	list, err := k.discovery.ServerResourcesForGroupVersion(apiVersion)
	if apierrors.IsNotFound(err) {
		return group, nil
	}
	if err != nil {
		return group, fmt.Errorf("discovering the kinds of %s: %w", apiVersion, err)
	}
	group.kinds = kindsOf(gv, list.APIResources)
	return group, nil
}

// kindsOf are the kinds of a version by their names in lower case.
func kindsOf(gv schema.GroupVersion, resources []metav1.APIResource) map[string]Kind {
	scalable := map[string]bool{}
	for _, r := range resources {
		if resource, sub, _ := strings.Cut(r.Name, "/"); sub == "scale" {
			scalable[resource] = true
		}
	}
	kinds := map[string]Kind{}
	for _, r := range resources {
		if !strings.Contains(r.Name, "/") {
			kinds[strings.ToLower(r.Kind)] = Kind{GroupVersionKind: gv.WithKind(r.Kind), Resource: r.Name, Namespaced: r.Namespaced, Scalable: scalable[r.Name]}
		}
	}
	return kinds
}
