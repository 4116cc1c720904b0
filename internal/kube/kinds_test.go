package kube

import (
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	clocktesting "k8s.io/utils/clock/testing"
)

// served are the versions of an API server, each with a kind that can be scaled.
type served struct {
	discovery.ServerResourcesInterface
	versions map[string]bool
	asked    int
}

func (s *served) ServerResourcesForGroupVersion(version string) (*metav1.APIResourceList, error) {
	s.asked++
	if !s.versions[version] {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, version)
	}
	return &metav1.APIResourceList{GroupVersion: version, APIResources: []metav1.APIResource{
		{Name: "things", Kind: "Thing", Namespaced: true}, {Name: "things/scale", Kind: "Scale", Namespaced: true},
	}}, nil
}

// Whoever may write a reference chooses which versions are asked for.
func TestVersionsThatAreNotServedAreForgotten(t *testing.T) {
	server := &served{versions: map[string]bool{"example.org/v1": true}}
	clk := clocktesting.NewFakePassiveClock(time.Date(2026, 6, 15, 12, 0, 0, 0, time.UTC))
	kinds := NewKinds(server, clk)
	find := func(version string, want error) {
		t.Helper()
		if _, err := kinds.Find(version, "thing"); !errors.Is(err, want) {
			t.Fatalf("%s: %v, want %v", version, err, want)
		}
	}
	find("example.org/v1", nil)
	for i := range 10 * unservedKept {
		find(fmt.Sprintf("example.org/v1alpha%d", i), ErrKindNotFound)
	}
	if got := len(kinds.groups); got > unservedKept+1 {
		t.Errorf("%d versions are remembered", got)
	}
	clk.SetTime(clk.Now().Add(kindsAge))
	find("example.org/v2", ErrKindNotFound)
	if got := len(kinds.groups); got != 2 {
		t.Errorf("%d versions are remembered, want the one that is served and the last one asked for", got)
	}
	asked := server.asked
	find("example.org/v1", nil)
	find("example.org/v2", ErrKindNotFound)
	if server.asked != asked {
		t.Errorf("the API server was asked %d times for what is remembered", server.asked-asked)
	}
	// A CRD that comes is found once the answer is old, and stays.
	server.versions["example.org/v2"] = true
	clk.SetTime(clk.Now().Add(kindsAge))
	find("example.org/v2", nil)
	find("example.org/v3", ErrKindNotFound)
	if got := len(kinds.groups); got != 3 {
		t.Errorf("%d versions are remembered, want 3", got)
	}
}
