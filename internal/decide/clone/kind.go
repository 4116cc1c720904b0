// Package clone decides what a copy of a workload or of a Service looks like: which fields of the original it keeps,
// what it is called, which labels hold it apart from the original. It knows nothing of the API server; values in,
// objects out.
//
// Workloads are handled as unstructured data, described by a Kind. So a kind needs no Go module of its own here, and
// what the user wrote comes out as it was written: a quantity of "0.2" stays "0.2".
package clone

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind describes, as data, what this package has to know of a kind of workload.
type Kind struct {
	// GroupVersionKind that the kind is read and written as.
	schema.GroupVersionKind

	// MaxNameLength is the longest name with which objects of this kind work, which can be less than the API server
	// accepts: a StatefulSet's name becomes part of a label value.
	MaxNameLength int

	// Builtin is true for a kind that every API server serves.
	Builtin bool

	// resource is the plural name of the kind.
	resource string

	// serviceLike is true where the name becomes that of a Service, which must begin with a letter.
	serviceLike bool

	// specFields are the fields of spec that a copy keeps, replicas aside.
	specFields []string

	// templates are the paths of the pod templates. One that the original does not have is not added.
	templates [][]string

	// selector is the path of the label selector, nil where the kind has none.
	selector []string

	// service is the path of the name of the Service that gives the pods their names, nil where the kind has none.
	service []string

	// claims is the path of the volume claim templates, nil where the kind has none.
	claims []string

	// available is the field of status that counts the replicas which serve.
	available string

	// observes is true where status says which generation of the spec it is of.
	observes bool
}

var kinds = []Kind{
	{
		GroupVersionKind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
		resource:         "deployments",
		MaxNameLength:    253,
		Builtin:          true,
		specFields:       []string{"selector", "template", "strategy", "minReadySeconds", "progressDeadlineSeconds", "revisionHistoryLimit"},
		templates:        [][]string{{"spec", "template"}},
		selector:         []string{"spec", "selector"},
		available:        "availableReplicas",
		observes:         true,
	},
	{
		GroupVersionKind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"},
		resource:         "statefulsets",
		// The label controller-revision-hash holds the name, a dash and up to ten characters.
		MaxNameLength: 52,
		Builtin:       true,
		specFields: []string{"selector", "template", "serviceName", "updateStrategy", "podManagementPolicy", "minReadySeconds", "revisionHistoryLimit",
			"volumeClaimTemplates", "persistentVolumeClaimRetentionPolicy", "ordinals"},
		templates: [][]string{{"spec", "template"}},
		selector:  []string{"spec", "selector"},
		service:   []string{"spec", "serviceName"},
		claims:    []string{"spec", "volumeClaimTemplates"},
		available: "availableReplicas",
		observes:  true,
	},
	{
		GroupVersionKind: schema.GroupVersionKind{Group: "leaderworkerset.x-k8s.io", Version: "v1", Kind: "LeaderWorkerSet"},
		resource:         "leaderworkersets",
		// Its workers are StatefulSets named after it with a dash and the index of their leader.
		MaxNameLength: 52 - len("-9999"),
		serviceLike:   true,
		specFields:    []string{"leaderWorkerTemplate", "rolloutStrategy", "startupPolicy", "networkConfig"},
		templates:     [][]string{{"spec", "leaderWorkerTemplate", "leaderTemplate"}, {"spec", "leaderWorkerTemplate", "workerTemplate"}},
		available:     "readyReplicas",
	},
}

// GroupKind returns the group and kind without the version.
func (k Kind) GroupKind() schema.GroupKind { return k.GroupVersionKind.GroupKind() }

// GroupResource returns the group and the plural name that the API server knows the kind by.
func (k Kind) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.resource}
}

// CRDName returns the name of the CustomResourceDefinition of a kind that is not built in.
func (k Kind) CRDName() string { return k.GroupResource().String() }

// Kinds returns the kinds that can be copied.
func Kinds() []Kind { return slices.Clone(kinds) }

// KindOf returns the description of a kind, found by group and kind whatever the version and the case. The error names the kinds
// that there are.
func KindOf(apiVersion, kind string) (Kind, error) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return Kind{}, fmt.Errorf("apiVersion %q is not of the form group/version", apiVersion)
	}
	for _, k := range kinds {
		if k.Group == gv.Group && strings.EqualFold(k.GroupVersionKind.Kind, kind) {
			return k, nil
		}
	}
	known := make([]string, len(kinds), len(kinds)+1)
	for i, k := range kinds {
		known[i] = k.GroupVersion().String() + " " + k.GroupVersionKind.Kind
	}
	known = append(known, "a role of a "+roleBasedGroup.String())
	return Kind{}, fmt.Errorf("%s %s cannot be replicated: must be one of %s", apiVersion, kind, strings.Join(known, ", "))
}

// Replicas returns spec.replicas, with the API's default of 1 where it is absent.
func Replicas(workload *unstructured.Unstructured) int32 {
	n, found, err := unstructured.NestedInt64(workload.Object, "spec", "replicas")
	if err != nil || !found {
		return 1
	}
	return int32(n)
}

// Available returns how many replicas the workload reports as available for its present spec. While its controller
// has not yet seen the spec the answer is 0, since the report is of an earlier one.
func (k Kind) Available(workload *unstructured.Unstructured) int32 {
	if k.observes {
		observed, _, err := unstructured.NestedInt64(workload.Object, "status", "observedGeneration")
		if err != nil || observed < workload.GetGeneration() {
			return 0
		}
	}
	n, _, err := unstructured.NestedInt64(workload.Object, "status", k.available)
	if err != nil {
		return 0
	}
	return int32(n)
}

// Trouble returns what the workload's own controller says is in the way of its replicas: that pods cannot be made (a
// quota, admission), or that a rollout does not get on. "" where it says nothing of the kind.
func Trouble(workload *unstructured.Unstructured) string {
	conditions, _, err := unstructured.NestedSlice(workload.Object, "status", "conditions")
	if err != nil {
		return ""
	}
	for _, bad := range []struct{ condition, status string }{{"ReplicaFailure", "True"}, {"Progressing", "False"}} {
		for _, c := range conditions {
			if c, ok := c.(map[string]any); ok && c["type"] == bad.condition && c["status"] == bad.status {
				return fmt.Sprintf("%v: %v", c["reason"], c["message"])
			}
		}
	}
	return ""
}

// TemplateLabels returns the labels of the workload's pod templates, one map for each template that exists.
func (k Kind) TemplateLabels(workload *unstructured.Unstructured) []map[string]string {
	var all []map[string]string
	for _, path := range k.templates {
		if _, found, err := unstructured.NestedMap(workload.Object, path...); err != nil || !found {
			continue
		}
		labels, _, err := unstructured.NestedStringMap(workload.Object, append(slices.Clone(path), "metadata", "labels")...)
		if err != nil {
			continue
		}
		all = append(all, labels)
	}
	return all
}
