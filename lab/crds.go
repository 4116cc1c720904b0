package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// establishTimeout is how long the API server may take to serve new kinds.
const establishTimeout = 30 * time.Second

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
	for _, definition := range definitions {
		err := waitFor(ctx, establishTimeout, func(ctx context.Context) error {
			live, err := api.Get(ctx, definition.GetName(), metav1.GetOptions{})
			if err != nil {
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
	}
	return nil
}

func readCRDs(dir string) ([]*unstructured.Unstructured, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("looking for CRDs in %s: %w", dir, err)
	}
	var definitions []*unstructured.Unstructured
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading CRDs: %w", err)
		}
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
		for {
			object := &unstructured.Unstructured{}
			if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("reading CRDs from %s: %w", path, err)
			}
			if object.GetKind() == "CustomResourceDefinition" && strings.HasPrefix(object.GetAPIVersion(), apiextensionsv1.GroupName+"/") {
				definitions = append(definitions, object)
			}
		}
	}
	if len(definitions) == 0 {
		return nil, fmt.Errorf("looking for CRDs in %s: there are none", dir)
	}
	return definitions, nil
}
