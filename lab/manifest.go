package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

// readObjects reads all objects in the YAML files of a folder, in the order of
// the files' names. A folder without YAML files is an error.
func readObjects(dir string) ([]*unstructured.Unstructured, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(paths) == 0 {
		return nil, errors.Join(fmt.Errorf("looking for objects in %s: there are no YAML files", dir), err)
	}
	var objects []*unstructured.Unstructured
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading objects: %w", err)
		}
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
		for {
			object := &unstructured.Unstructured{}
			if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("reading objects from %s: %w", path, err)
			}
			// A comment alone is an empty document.
			if object.Object != nil {
				objects = append(objects, object)
			}
		}
	}
	return objects, nil
}

// objectResource returns where the API server keeps an object of Kubernetes'
// own kinds, whose plurals are regular.
func objectResource(client dynamic.Interface, object *unstructured.Unstructured) dynamic.ResourceInterface {
	resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	return client.Resource(resource).Namespace(object.GetNamespace())
}

func applyObject(ctx context.Context, client dynamic.Interface, object *unstructured.Unstructured) error {
	_, err := objectResource(client, object).Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	return err
}

// eachObject calls do with every object in the YAML files of a folder.
func (l *Lab) eachObject(dir string, do func(dynamic.Interface, *unstructured.Unstructured) error) error {
	client, err := dynamic.NewForConfig(l.AdminConfig())
	if err != nil {
		return fmt.Errorf("making a client for the objects of %s: %w", dir, err)
	}
	objects, err := readObjects(dir)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := do(client, object); err != nil {
			return fmt.Errorf("%s %s of %s: %w", object.GetKind(), object.GetName(), dir, err)
		}
	}
	return nil
}
