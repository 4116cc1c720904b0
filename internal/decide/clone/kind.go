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

	// specFields are the fields of spec that a copy keeps, replicas aside.
	specFields []string

	// templates are the paths of the pod templates. One that the original does not have is not added.
	templates [][]string

	// selector is the path of the label selector, nil where the kind has none.
	selector []string
}

var kinds = []Kind{
	{
		GroupVersionKind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
		MaxNameLength:    253,
		specFields:       []string{"selector", "template", "strategy", "minReadySeconds", "progressDeadlineSeconds", "revisionHistoryLimit"},
		templates:        [][]string{{"spec", "template"}},
		selector:         []string{"spec", "selector"},
	},
}

// Kinds returns the kinds that can be copied.
func Kinds() []Kind { return slices.Clone(kinds) }

// KindOf returns the description of a kind, found by group and kind whatever the version. The error names the kinds
// that there are.
func KindOf(apiVersion, kind string) (Kind, error) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return Kind{}, fmt.Errorf("apiVersion %q is not of the form group/version", apiVersion)
	}
	for _, k := range kinds {
		if k.Group == gv.Group && k.GroupVersionKind.Kind == kind {
			return k, nil
		}
	}
	known := make([]string, len(kinds))
	for i, k := range kinds {
		known[i] = k.GroupVersion().String() + " " + k.GroupVersionKind.Kind
	}
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
func Available(workload *unstructured.Unstructured) int32 {
	observed, _, err := unstructured.NestedInt64(workload.Object, "status", "observedGeneration")
	if err != nil || observed < workload.GetGeneration() {
		return 0
	}
	n, _, err := unstructured.NestedInt64(workload.Object, "status", "availableReplicas")
	if err != nil {
		return 0
	}
	return int32(n)
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
