package testkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// InstallRoles creates the Roles in a file that is generated for a component, and a ServiceAccount of their name in a
// namespace that holds them and nothing else. What is there already stays.
func InstallRoles(ctx context.Context, c client.Client, file, namespace string) (account string, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("reading Roles: %w", err)
	}
	var objects []client.Object
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		role := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &role.Object); err != nil {
			return "", fmt.Errorf("reading Roles from %s: %w", file, err)
		}
		if role.Object == nil {
			continue
		}
		account = role.GetName()
		subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}}
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: role.GetKind(), Name: account}
		meta := metav1.ObjectMeta{Namespace: role.GetNamespace(), Name: account}
		objects = append(objects, role)
		if role.GetKind() == "ClusterRole" {
			objects = append(objects, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref})
		} else {
			objects = append(objects, &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref})
		}
	}
	objects = append(objects, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}})
	var errs []error
	for _, object := range objects {
		if err := c.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			errs = append(errs, err)
		}
	}
	return account, errors.Join(errs...)
}
