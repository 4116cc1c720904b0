package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/pd-orchestrator/pd-orchestrator/lab/internal/component"
)

// schedulableTimeout is how long nodes may take to become ready.
const schedulableTimeout = 60 * time.Second

// bootstrap creates what the components find in the API server when they
// start: their kubeconfigs, their roles, and the nodes.
func (l *Lab) bootstrap(ctx context.Context) error {
	if err := l.componentKubeconfigs(); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(l.AdminConfig())
	if err != nil {
		return fmt.Errorf("preparing the API server: %w", err)
	}
	for _, role := range []struct {
		name  string
		users []string
		rules []rbacv1.PolicyRule
	}{
		{"lab-pod-reader", []string{component.PrometheusUser, component.SimulatorUser}, []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}},
		}},
		{"lab-kwok", []string{component.KwokUser}, []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch", "update"}},
			{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{""}, Resources: []string{"nodes/status", "pods/status"}, Verbs: []string{"patch", "update"}},
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch", "patch", "update", "delete"}},
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "list", "watch", "create", "patch", "update"}},
		}},
		{"lab-metrics-server", []string{component.MetricsServerUser}, append(aggregatedServerRules(),
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes", "pods"}, Verbs: []string{"get", "list", "watch"}},
		)},
		{"lab-custom-metrics", []string{component.CustomMetricsUser}, append(aggregatedServerRules(),
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces", "pods"}, Verbs: []string{"get", "list"}},
		)},
	} {
		if err := createRole(ctx, client, role.name, role.users, role.rules); err != nil {
			return err
		}
	}
	for i := range max(0, l.options.Nodes) {
		node := simulatedNode(fmt.Sprintf("node-%d", i), l.options.nodeResources())
		if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); ignoreExists(err) != nil {
			return fmt.Errorf("creating node %s: %w", node.Name, err)
		}
	}
	return nil
}

func createRole(ctx context.Context, client kubernetes.Interface, name string, users []string, rules []rbacv1.PolicyRule) error {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	if _, err := client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); ignoreExists(err) != nil {
		return fmt.Errorf("creating role %s: %w", name, err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
	}
	for _, user := range users {
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user})
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); ignoreExists(err) != nil {
		return fmt.Errorf("binding role %s: %w", name, err)
	}
	return nil
}

// simulatedNode describes a node that kwok plays. Its capacity is set from the
// start: kwok fills in only what is missing.
func simulatedNode(name string, resources corev1.ResourceList) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				corev1.LabelHostname:             name,
				corev1.LabelOSStable:             "linux",
				corev1.LabelArchStable:           "amd64",
				"node-role.kubernetes.io/worker": "",
			},
			Annotations: map[string]string{component.ResourceMetricsPathAnnotation: component.ResourceMetricsPath(name)},
		},
		Status: corev1.NodeStatus{Capacity: resources, Allocatable: resources},
	}
}

// waitSchedulable waits until every node takes pods, and until pods are
// admitted in the default namespace, which takes its ServiceAccount.
func (l *Lab) waitSchedulable(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(l.AdminConfig())
	if err != nil {
		return fmt.Errorf("waiting for the nodes: %w", err)
	}
	err = waitFor(ctx, schedulableTimeout, func(ctx context.Context) error {
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("listing nodes: %w", err)
		}
		ready := 0
		for i := range nodes.Items {
			if nodeReady(&nodes.Items[i]) && len(nodes.Items[i].Spec.Taints) == 0 {
				ready++
			}
		}
		if ready < l.options.Nodes {
			return fmt.Errorf("%d of %d nodes are ready and untainted", ready, l.options.Nodes)
		}
		if _, err := client.CoreV1().ServiceAccounts(corev1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{}); err != nil {
			return fmt.Errorf("getting the default ServiceAccount: %w", err)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the nodes: %w", err)
	}
	return nil
}

// pollInterval is the time between two looks at the API server.
const pollInterval = 50 * time.Millisecond

// waitFor asks until the condition returns nil. When the time is over, or the
// context ends, the error holds the condition's last one.
func waitFor(ctx context.Context, timeout time.Duration, condition func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var last error
	for {
		err := condition(ctx)
		if err == nil {
			return nil
		}
		// Once the context has ended the condition only tells of that.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), last)
		case <-ticker.C:
		}
	}
}

func nodeReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
