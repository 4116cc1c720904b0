package lab

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// availableTimeout is how long the API server may take to find that an
// aggregated API answers; it asks at longer and longer intervals.
const availableTimeout = 60 * time.Second

var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// RegisterAPI makes the API server pass on what is asked below an API's group
// and version to an aggregated API server on a port of localhost, and waits
// until it finds that one available. It creates a Service of that name, of type
// ExternalName, in a namespace that exists. The aggregated server's certificate
// is to be one of ServingCertificate for "<service>.<namespace>.svc".
// Registering again updates.
func (l *Lab) RegisterAPI(ctx context.Context, api schema.GroupVersion, namespace, service string, port int) error {
	clients, err := kubernetes.NewForConfig(l.AdminConfig())
	if err != nil {
		return fmt.Errorf("registering %s: %w", api, err)
	}
	object := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: service},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}
	if _, err := clients.CoreV1().Services(namespace).Create(ctx, object, metav1.CreateOptions{}); ignoreExists(err) != nil {
		return fmt.Errorf("creating the Service of %s: %w", api, err)
	}
	client, err := dynamic.NewForConfig(l.AdminConfig())
	if err != nil {
		return fmt.Errorf("registering %s: %w", api, err)
	}
	registration := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiServices.GroupVersion().String(),
		"kind":       "APIService",
		"metadata":   map[string]any{"name": api.Version + "." + api.Group},
		"spec": map[string]any{
			"group": api.Group, "version": api.Version, "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
			"caBundle": base64.StdEncoding.EncodeToString(l.CABundle()),
			"service":  map[string]any{"namespace": namespace, "name": service, "port": int64(port)},
		},
	}}
	name := registration.GetName()
	if _, err := client.Resource(apiServices).Apply(ctx, name, registration, metav1.ApplyOptions{FieldManager: fieldManager, Force: true}); err != nil {
		return fmt.Errorf("registering %s: %w", api, err)
	}
	err = waitFor(ctx, availableTimeout, func(ctx context.Context) error {
		live, err := client.Resource(apiServices).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		conditions, _, err := unstructured.NestedSlice(live.Object, "status", "conditions")
		if err != nil {
			return err
		}
		for _, c := range conditions {
			condition, _ := c.(map[string]any)
			if condition["type"] != "Available" {
				continue
			}
			if condition["status"] == "True" {
				return nil
			}
			return fmt.Errorf("it is not available: %v", condition["message"])
		}
		return errors.New("nothing is known of it yet")
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", api, err)
	}
	return nil
}

// registerHost is RegisterAPI for a server whose certificate is for a host
// "<service>.<namespace>.svc".
func (l *Lab) registerHost(ctx context.Context, api schema.GroupVersion, host string, port int) error {
	service, namespace, _ := strings.Cut(strings.TrimSuffix(host, ".svc"), ".")
	return l.RegisterAPI(ctx, api, namespace, service, port)
}

// aggregatedServerRules is what every aggregated API server may do: ask who its
// callers are and what they may.
func aggregatedServerRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"extension-apiserver-authentication"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
	}
}
