package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
)

// establishTimeout is how long the API server may take to serve new kinds.
const establishTimeout = 30 * time.Second

// removalTimeout is how long the objects of a kind may take to go: whoever put
// finalizers on them has work to do.
const removalTimeout = 60 * time.Second

// fieldManager owns the fields of what the lab applies.
const fieldManager = "pd-orchestrator-lab"

// InstallCRDs applies every CustomResourceDefinition in the YAML files of a
// folder and waits until the API server serves them. Other objects in those
// files are left alone. Installing again updates.
func (l *Lab) InstallCRDs(ctx context.Context, dir string) error {
	definitions, err := readCRDs(dir)
	if err != nil {
		return err
	}
	return l.applyCRDs(ctx, definitions)
}

func (l *Lab) applyCRDs(ctx context.Context, definitions []*unstructured.Unstructured) error {
	client, err := clientset.NewForConfig(l.AdminConfig())
	if err != nil {
		return fmt.Errorf("installing CRDs: %w", err)
	}
	api := client.ApiextensionsV1().CustomResourceDefinitions()
	force := true
	for _, definition := range definitions {
		text, err := definition.MarshalJSON()
		if err != nil {
			return fmt.Errorf("encoding CRD %s: %w", definition.GetName(), err)
		}
		if _, err := api.Patch(ctx, definition.GetName(), types.ApplyPatchType, text,
			metav1.PatchOptions{FieldManager: fieldManager, Force: &force}); err != nil {
			return fmt.Errorf("applying CRD %s: %w", definition.GetName(), err)
		}
	}
	var served []schema.GroupVersionResource
	for _, definition := range definitions {
		var live *apiextensionsv1.CustomResourceDefinition
		err := waitFor(ctx, establishTimeout, func(ctx context.Context) error {
			var err error
			if live, err = api.Get(ctx, definition.GetName(), metav1.GetOptions{}); err != nil {
				return err
			}
			for _, condition := range live.Status.Conditions {
				if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
					return nil
				}
				if condition.Type == apiextensionsv1.NamesAccepted && condition.Status == apiextensionsv1.ConditionFalse {
					return errors.New(condition.Message)
				}
			}
			return errors.New("it is not established yet")
		})
		if err != nil {
			return fmt.Errorf("waiting for CRD %s to be served: %w", definition.GetName(), err)
		}
		for _, version := range live.Spec.Versions {
			if version.Served {
				served = append(served, schema.GroupVersionResource{Group: live.Spec.Group, Version: version.Name, Resource: live.Spec.Names.Plural})
			}
		}
	}
	if err := waitFor(ctx, establishTimeout, func(context.Context) error { return discovered(client.Discovery(), served) }); err != nil {
		return fmt.Errorf("waiting for CRDs to be listed by the API server: %w", err)
	}
	return nil
}

// discovered looks for resources where clients do: in the document that has all of them, and in those of each group. The API server
// serves a resource before it lists it in either.
func discovered(client discovery.DiscoveryInterface, resources []schema.GroupVersionResource) error {
	for _, client := range []discovery.DiscoveryInterface{client, client.WithLegacy()} {
		// A group whose server is away does not hide the others.
		_, lists, err := client.ServerGroupsAndResources()
		if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
			return err
		}
		listed, err := discovery.GroupVersionResources(lists)
		if err != nil {
			return err
		}
		for _, resource := range resources {
			if _, ok := listed[resource]; !ok {
				return fmt.Errorf("%s is not yet", resource)
			}
		}
	}
	return nil
}

func readCRDs(dir string) ([]*unstructured.Unstructured, error) {
	objects, err := readObjects(dir)
	if err != nil {
		return nil, err
	}
	var definitions []*unstructured.Unstructured
	for _, object := range objects {
		if object.GetKind() == "CustomResourceDefinition" && strings.HasPrefix(object.GetAPIVersion(), apiextensionsv1.GroupName+"/") {
			definitions = append(definitions, object)
		}
	}
	if len(definitions) == 0 {
		return nil, fmt.Errorf("looking for CRDs in %s: there are none", dir)
	}
	return definitions, nil
}

// removeCRDs deletes the CRDs in a folder and waits until they are gone with
// all their objects.
func (l *Lab) removeCRDs(ctx context.Context, dir string) error {
	definitions, err := readCRDs(dir)
	if err != nil {
		return err
	}
	client, err := clientset.NewForConfig(l.AdminConfig())
	if err != nil {
		return err
	}
	api := client.ApiextensionsV1().CustomResourceDefinitions()
	for _, definition := range definitions {
		if err := ignoreNotFound(api.Delete(ctx, definition.GetName(), metav1.DeleteOptions{})); err != nil {
			return err
		}
	}
	for _, definition := range definitions {
		err := waitFor(ctx, removalTimeout, func(ctx context.Context) error {
			live, err := api.Get(ctx, definition.GetName(), metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err != nil {
				return err
			}
			return fmt.Errorf("%s is still there: %v", definition.GetName(), live.Status.Conditions)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
