package autoscalerpolicy

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyrender"
)

// Names of the CRDs that may come after the manager, or never.
const (
	crdPolicies        = "autoscalerpolicies.ome.io"
	crdScaledObjects   = "scaledobjects.keda.sh"
	crdAuthentications = "triggerauthentications.keda.sh"
	crdWorkloads       = "leaderworkersets.leaderworkerset.x-k8s.io"
)

var crdKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// Cluster is what the operator of the cluster has set up: which of the kinds that are optional there are, and how metric
// providers are bound. It knows both by watch. Add it to the manager; it runs on every replica.
type Cluster struct {
	cache     cache.Cache
	namespace string

	mu      sync.Mutex
	version string
	read    policyrender.Bindings
}

// NewCluster returns a Cluster that finds the bindings in a namespace; with "" there are none.
func NewCluster(config *rest.Config, httpClient *http.Client, scheme *runtime.Scheme, mapper meta.RESTMapper, namespace string) (*Cluster, error) {
	objects := map[client.Object]cache.ByObject{newCRD(): {Transform: stripCRD}}
	if namespace != "" {
		objects[&corev1.ConfigMap{}] = cache.ByObject{Namespaces: map[string]cache.Config{
			namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", policyrender.ProvidersConfigMap)},
		}}
	}
	c, err := cache.New(config, cache.Options{HTTPClient: httpClient, Scheme: scheme, Mapper: mapper, ByObject: objects})
	if err != nil {
		return nil, fmt.Errorf("making the cache of CRDs and metric providers: %w", err)
	}
	return &Cluster{cache: c, namespace: namespace}, nil
}

// Start watches until the context ends.
func (c *Cluster) Start(ctx context.Context) error { return c.cache.Start(ctx) }

// NeedLeaderElection is false: admission asks on every replica.
func (c *Cluster) NeedLeaderElection() bool { return false }

func newCRD() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(crdKind)
	return u
}

// stripCRD is a cache transform that keeps of a CRD its name and its conditions, since schemas are large.
func stripCRD(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	small := newCRD()
	small.SetName(u.GetName())
	small.SetUID(u.GetUID())
	small.SetResourceVersion(u.GetResourceVersion())
	return small, unstructured.SetNestedSlice(small.Object, conditions, "status", "conditions")
}

// Served are the optional kinds that the API server serves.
type Served struct {
	// Policies are AutoscalerPolicies.
	Policies bool
	// Keda are ScaledObjects and TriggerAuthentications.
	Keda bool
	// LeaderWorkerSets are those.
	LeaderWorkerSets bool
}

// Served finds out which optional kinds there are.
func (c *Cluster) Served(ctx context.Context) (Served, error) {
	established := map[string]bool{}
	for _, name := range []string{crdPolicies, crdScaledObjects, crdAuthentications, crdWorkloads} {
		crd := newCRD()
		err := c.cache.Get(ctx, types.NamespacedName{Name: name}, crd)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return Served{}, fmt.Errorf("reading the CRD %s: %w", name, err)
		}
		established[name] = isEstablished(crd)
	}
	return Served{
		Policies:         established[crdPolicies],
		Keda:             established[crdScaledObjects] && established[crdAuthentications],
		LeaderWorkerSets: established[crdWorkloads],
	}, nil
}

// PoliciesServed reports whether there are AutoscalerPolicies.
func (c *Cluster) PoliciesServed(ctx context.Context) (bool, error) {
	served, err := c.Served(ctx)
	return served.Policies, err
}

func isEstablished(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, element := range conditions {
		c, _ := element.(map[string]any)
		if c["type"] == "Established" {
			return c["status"] == "True"
		}
	}
	return false
}

// Bindings are the metric providers of the cluster.
func (c *Cluster) Bindings(ctx context.Context) (policyrender.Bindings, error) {
	if c.namespace == "" {
		return nil, nil
	}
	configMap := &corev1.ConfigMap{}
	err := c.cache.Get(ctx, types.NamespacedName{Namespace: c.namespace, Name: policyrender.ProvidersConfigMap}, configMap)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the metric providers: %w", err)
	}
	version := string(configMap.UID) + configMap.ResourceVersion
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version != version {
		c.version, c.read = version, policyrender.ReadBindings(configMap.Data)
	}
	return c.read, nil
}
