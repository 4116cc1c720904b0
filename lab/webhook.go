package lab

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// webhookConfiguration is the kind that registers webhooks.
const webhookConfiguration = "ValidatingWebhookConfiguration"

// WebhookHost is the host by which the API server reaches webhooks of a lab.
// There is no kube-proxy, so it reaches none by their Services.
const WebhookHost = "localhost"

// InstallWebhooks registers the product's admission webhooks as served on a
// port of WebhookHost, and creates the empty Secrets that managed certificates
// are kept in. With a CA bundle the API server trusts that; without one the
// manager is to say whom to trust. Installing again updates. From then on the
// API server refuses the product's objects while no manager answers.
func (l *Lab) InstallWebhooks(ctx context.Context, port int, caBundle []byte) error {
	return l.registerWebhooks(ctx, l.webhookManifests(), port, caBundle)
}

// RemoveWebhooks takes away the registration of the product's admission
// webhooks.
func (l *Lab) RemoveWebhooks(ctx context.Context) error {
	return l.unregisterWebhooks(ctx, l.webhookManifests())
}

func (l *Lab) webhookManifests() string { return filepath.Join(l.options.Repo, "config", "webhook") }

// registerWebhooks applies what a folder says of webhooks, and their Secrets,
// with URLs in place of Services.
func (l *Lab) registerWebhooks(ctx context.Context, dir string, port int, caBundle []byte) error {
	return l.eachObject(dir, func(client dynamic.Interface, object *unstructured.Unstructured) error {
		switch object.GetKind() {
		case webhookConfiguration:
			if err := pointWebhooks(object, port, caBundle); err != nil {
				return err
			}
		case "Secret":
		default:
			return nil
		}
		return applyObject(ctx, client, object)
	})
}

func (l *Lab) unregisterWebhooks(ctx context.Context, dir string) error {
	return l.eachObject(dir, func(client dynamic.Interface, object *unstructured.Unstructured) error {
		if object.GetKind() != webhookConfiguration {
			return nil
		}
		return ignoreNotFound(objectResource(client, object).Delete(ctx, object.GetName(), metav1.DeleteOptions{}))
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

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
