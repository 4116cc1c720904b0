package kube

import (
	"errors"
	"fmt"
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

// kindsAge is how old an answer may be that a kind is not there or cannot be scaled, since a CRD may have come or changed.
const kindsAge = 10 * time.Second

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
	k.mu.Lock()
	k.groups[apiVersion] = group
	k.mu.Unlock()
	found, ok = group.kinds[lower]
	return found, missing(ok, apiVersion, kind)
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
	scalable := map[string]bool{}
	for _, r := range list.APIResources {
		if resource, sub, _ := strings.Cut(r.Name, "/"); sub == "scale" {
			scalable[resource] = true
		}
	}
	for _, r := range list.APIResources {
		if !strings.Contains(r.Name, "/") {
			group.kinds[strings.ToLower(r.Kind)] = kindOf(gv, r, scalable[r.Name])
		}
	}
	return group, nil
}

func kindOf(gv schema.GroupVersion, r metav1.APIResource, scalable bool) Kind {
	return Kind{GroupVersionKind: gv.WithKind(r.Kind), Resource: r.Name, Namespaced: r.Namespaced, Scalable: scalable}
}
