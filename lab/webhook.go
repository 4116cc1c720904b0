package lab

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

var (
	webhookConfigurations = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}
	secrets               = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
)

// WebhookHost is the host by which the API server reaches webhooks of a lab.
// There is no kube-proxy, so it reaches none by their Services.
const WebhookHost = "localhost"

// InstallWebhooks registers the product's admission webhooks as served on a
// port of WebhookHost, and creates the empty Secrets that managed certificates
// are kept in. With a CA bundle the API server trusts that; without one the
// manager is to say whom to trust. Installing again updates. From then on the
// API server refuses the product's objects while no manager answers.
func (l *Lab) InstallWebhooks(ctx context.Context, port int, caBundle []byte) error {
	return l.eachWebhookObject(func(client dynamic.Interface, object *unstructured.Unstructured) error {
		var resource dynamic.ResourceInterface
		switch object.GetKind() {
		case "ValidatingWebhookConfiguration":
			if err := pointWebhooks(object, port, caBundle); err != nil {
				return err
			}
			resource = client.Resource(webhookConfigurations)
		case "Secret":
			resource = client.Resource(secrets).Namespace(object.GetNamespace())
		default:
			return nil
		}
		_, err := resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
		return err
	})
}

// RemoveWebhooks takes away the registration of the product's admission
// webhooks.
func (l *Lab) RemoveWebhooks(ctx context.Context) error {
	return l.eachWebhookObject(func(client dynamic.Interface, object *unstructured.Unstructured) error {
		if object.GetKind() != "ValidatingWebhookConfiguration" {
			return nil
		}
		return ignoreNotFound(client.Resource(webhookConfigurations).Delete(ctx, object.GetName(), metav1.DeleteOptions{}))
	})
}

// pointWebhooks replaces the Services in a webhook configuration by URLs.
func pointWebhooks(object *unstructured.Unstructured, port int, caBundle []byte) error {
	hooks, _, err := unstructured.NestedSlice(object.Object, "webhooks")
	if err != nil {
		return err
	}
	for _, hook := range hooks {
		entry, ok := hook.(map[string]any)
		if !ok {
			return errors.New("an entry of webhooks is no object")
		}
		path, found, err := unstructured.NestedString(entry, "clientConfig", "service", "path")
		if err != nil || !found {
			return fmt.Errorf("webhook %v has no Service to replace: %w", entry["name"], err)
		}
		client := map[string]any{"url": fmt.Sprintf("https://%s:%d%s", WebhookHost, port, path)}
		if caBundle != nil {
			// A byte field of an unstructured object is text in base64, as in JSON.
			client["caBundle"] = base64.StdEncoding.EncodeToString(caBundle)
		}
		entry["clientConfig"] = client
	}
	return unstructured.SetNestedSlice(object.Object, hooks, "webhooks")
}

// eachWebhookObject calls do with every object in the product's manifests of
// webhooks.
func (l *Lab) eachWebhookObject(do func(dynamic.Interface, *unstructured.Unstructured) error) error {
	client, err := dynamic.NewForConfig(l.AdminConfig())
	if err != nil {
		return fmt.Errorf("registering webhooks: %w", err)
	}
	dir := filepath.Join(l.options.Repo, "config", "webhook")
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(paths) == 0 {
		return errors.Join(fmt.Errorf("looking for webhooks in %s: there are none", dir), err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading webhooks: %w", err)
		}
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
		for {
			object := &unstructured.Unstructured{}
			if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return fmt.Errorf("reading webhooks from %s: %w", path, err)
			}
			if err := do(client, object); err != nil {
				return fmt.Errorf("%s %s of %s: %w", object.GetKind(), object.GetName(), path, err)
			}
		}
	}
	return nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
