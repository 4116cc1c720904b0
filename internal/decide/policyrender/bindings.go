package policyrender

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
)

// ProvidersConfigMap is the name of the ConfigMap that binds metric providers, one key each, in the namespace of the product's
// components.
const ProvidersConfigMap = "pd-orchestrator-metric-providers"

// Binding is how a metric provider is reached on this cluster.
type Binding struct {
	// ServerAddress is the base URL of the provider's Prometheus API.
	ServerAddress string `json:"serverAddress"`
	// AuthSecretRef names the key of a Secret, in the namespace of each component, that holds a bearer token. Nil for a
	// provider that asks for none.
	AuthSecretRef *SecretKey `json:"authSecretRef,omitempty"`
	// Headers are for other uses of the binding; triggers do not send them.
	Headers map[string]string `json:"headers,omitempty"`
}

// SecretKey is a key of a Secret.
type SecretKey struct {
	// Name is the name of the Secret.
	Name string `json:"name"`
	// Key is the key in it.
	Key string `json:"key"`
}

// Bindings are the metric providers that the operator of the cluster has bound, by name. One that is broken stands beside
// the others and fails those that use it only.
type Bindings map[string]BoundProvider

// BoundProvider is a binding, or why there is none to use.
type BoundProvider struct {
	Binding
	// Err says what is wrong with the binding.
	Err error
}

// ReadBindings reads bindings from texts in YAML, by name.
func ReadBindings(texts map[string]string) Bindings {
	all := Bindings{}
	for name, text := range texts {
		binding, err := readBinding(text)
		all[name] = BoundProvider{binding, err}
	}
	return all
}

func readBinding(text string) (Binding, error) {
	var b Binding
	if err := yaml.UnmarshalStrict([]byte(text), &b); err != nil {
		return Binding{}, fmt.Errorf("cannot be read: %s", strings.TrimPrefix(err.Error(), "error unmarshaling JSON: "))
	}
	if b.ServerAddress == "" {
		return Binding{}, errors.New("has no serverAddress")
	}
	if u, err := url.Parse(b.ServerAddress); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return Binding{}, fmt.Errorf("has serverAddress %q, which must be an http or https URL", b.ServerAddress)
	}
	if s := b.AuthSecretRef; s != nil && (len(validation.IsDNS1123Subdomain(s.Name)) > 0 || len(validation.IsConfigMapKey(s.Key)) > 0) {
		return Binding{}, fmt.Errorf("has authSecretRef with name %q and key %q, which must be the name of a Secret and a key of it", s.Name, s.Key)
	}
	return b, nil
}

// find returns the binding of a provider.
func (b Bindings) find(provider string) (Binding, error) {
	bound, ok := b[provider]
	switch {
	case !ok:
		return Binding{}, fmt.Errorf("metric provider %q is not bound on this cluster", provider)
	case bound.Err != nil:
		return Binding{}, fmt.Errorf("the binding of metric provider %q on this cluster %w", provider, bound.Err)
	}
	return bound.Binding, nil
}

// Unknown says which metric provider that a policy asks has no binding to use, "" where each has one.
func (b Bindings) Unknown(spec v1beta1.AutoscalerPolicySpec) string {
	if spec.Keda == nil {
		return ""
	}
	for _, t := range spec.Keda.Triggers {
		if t.ProviderRef == nil || !AsksEndpoint(t.Type) {
			continue
		}
		name := t.ProviderRef.Name
		switch bound, ok := b[name]; {
		case !ok:
			return fmt.Sprintf("metric provider %q is not bound in the operator configuration", name)
		case bound.Err != nil:
			return fmt.Sprintf("the binding of metric provider %q in the operator configuration %v", name, bound.Err)
		}
	}
	return ""
}
