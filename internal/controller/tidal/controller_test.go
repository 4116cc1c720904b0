package tidal

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
)

// What is found about the rules once lasts until they change.
func TestWhatIsRememberedOfATidal(t *testing.T) {
	var m memory
	tidal := &v1alpha1.Tidal{ObjectMeta: metav1.ObjectMeta{Namespace: "dev", Name: "tide", UID: "1", Generation: 1}}
	first := m.recall(tidal)
	first.scaled = &v1alpha1.ScaleRecord{Rule: "day"}
	m.keep(client.ObjectKeyFromObject(tidal), first)
	if again := m.recall(tidal); again.collisions != first.collisions || again.scaled != first.scaled {
		t.Error("what was found or written is not remembered")
	}
	tidal.Generation = 2
	edited := m.recall(tidal)
	if edited.collisions == first.collisions || edited.scaled != first.scaled {
		t.Error("after an edit what was found about the rules before counts, or what was written does not")
	}
	tidal.UID = "2"
	if other := m.recall(tidal); other.collisions == edited.collisions || other.scaled != nil {
		t.Error("an object of the same name has what was remembered of the one before")
	}
}
