package policyrender

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
)

// Keys of a trigger's metadata that belong to the provider.
const (
	keyServerAddress = "serverAddress"
	keyAuthModes     = "authModes"
)

// Component is what a policy is rendered for.
type Component struct {
	// Namespace and Service are those of the InferenceService.
	Namespace, Service string
	// Name is engine, decoder or router.
	Name string
	// MinReplicas and MaxReplicas are the bounds in effect.
	MinReplicas, MaxReplicas int32
}

// TargetName is the name of a component's objects.
func (c Component) TargetName() string { return c.Service + "-" + c.Name }

// Rendered is a policy rendered for a component.
type Rendered struct {
	// Autoscaler is what to dispatch.
	Autoscaler v1beta1.ComponentAutoscaler
	// Digest tells the render: rv1: and 12 hexadecimal digits.
	Digest string
}

// Authentication is the TriggerAuthentication that the triggers of one provider use in a namespace.
type Authentication struct {
	// Name is the name of the TriggerAuthentication.
	Name string
	// Secret holds the bearer token.
	Secret SecretKey
}

const authenticationPrefix = "ome-metric-provider-"

// AuthenticationName is the name of the TriggerAuthentication of a provider.
func AuthenticationName(provider string) string { return authenticationPrefix + provider }

// Authentications returns those that an autoscaler refers to by the names that renders give them, sorted. A provider whose
// binding is gone or asks for no token any more has none.
func Authentications(a v1beta1.ComponentAutoscaler, bindings Bindings) []Authentication {
	secrets := map[string]SecretKey{}
	if a.Class == v1beta1.ClassKEDA && a.Keda != nil {
		for _, t := range a.Keda.Triggers {
			if t.AuthenticationRef == nil || t.AuthenticationRef.Kind != "" {
				continue
			}
			provider, ours := strings.CutPrefix(t.AuthenticationRef.Name, authenticationPrefix)
			if binding, err := bindings.find(provider); ours && err == nil && binding.AuthSecretRef != nil {
				secrets[t.AuthenticationRef.Name] = *binding.AuthSecretRef
			}
		}
	}
	var all []Authentication
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		all = append(all, Authentication{name, secrets[name]})
	}
	return all
}

// AsksEndpoint reports whether triggers of a type ask an address, which their provider has.
func AsksEndpoint(triggerType string) bool { return strings.EqualFold(triggerType, "prometheus") }

// OwnedByProvider reports whether a key of a trigger's metadata belongs to the provider, in whatever case it is written.
func OwnedByProvider(key string) bool {
	return strings.EqualFold(key, keyServerAddress) || strings.EqualFold(key, keyAuthModes)
}

// Render fills a policy in for a component. The error says what keeps the policy from being used for this component. What
// admission refuses is not looked at again, but for what would let a policy choose whom to ask.
func Render(policy string, spec v1beta1.AutoscalerPolicySpec, c Component, bindings Bindings) (Rendered, error) {
	if c.MaxReplicas <= 0 {
		return Rendered{}, fmt.Errorf("component %s has effective maxReplicas %d; policy rendering requires a positive ceiling", c.Name, c.MaxReplicas)
	}
	rendered := v1beta1.ComponentAutoscaler{Class: v1beta1.AutoscalerClass(spec.Class)}
	var addresses []string
	switch spec.Class {
	case v1beta1.PolicyClassHPA:
		rendered.HPA = spec.HPA.DeepCopy()
	case v1beta1.PolicyClassKEDA:
		if spec.Keda == nil {
			return Rendered{}, fmt.Errorf("policy %s: class KEDA requires a keda template", policy)
		}
		var err error
		if rendered.Keda, addresses, err = renderKeda(*spec.Keda, c, bindings); err != nil {
			return Rendered{}, fmt.Errorf("policy %s: %w", policy, err)
		}
	default:
		return Rendered{}, fmt.Errorf("policy %s: class %q is not allowed in policies (External and None are inline-only)", policy, spec.Class)
	}
	digest, err := renderDigest(rendered, c, addresses)
	if err != nil {
		return Rendered{}, fmt.Errorf("policy %s: %w", policy, err)
	}
	return Rendered{rendered, digest}, nil
}

func renderKeda(spec v1beta1.KedaPolicyTemplate, c Component, bindings Bindings) (*v1beta1.KedaAutoscaler, []string, error) {
	if idle := spec.IdleReplicaCount; idle != nil && *idle >= c.MinReplicas {
		return nil, nil, fmt.Errorf("idleReplicaCount %d must be less than minReplicas %d of component %s", *idle, c.MinReplicas, c.Name)
	}
	if a := spec.Advanced; a != nil && a.HorizontalPodAutoscalerConfig != nil && a.HorizontalPodAutoscalerConfig.Name == c.TargetName() {
		return nil, nil, fmt.Errorf("advanced.horizontalPodAutoscalerConfig.name %q must differ from the name of component %s", c.TargetName(), c.Name)
	}
	keda := &v1beta1.KedaAutoscaler{
		Advanced:         spec.Advanced.DeepCopy(),
		PollingInterval:  clone(spec.PollingInterval),
		CooldownPeriod:   clone(spec.CooldownPeriod),
		IdleReplicaCount: clone(spec.IdleReplicaCount),
	}
	variables := Variables{
		Namespace: c.Namespace, ISVCName: c.Service, Component: c.Name,
		MinReplicas: c.MinReplicas, MaxReplicas: c.MaxReplicas, TargetName: c.TargetName(),
	}
	var addresses []string
	for i, trigger := range spec.Triggers {
		rendered, address, err := renderTrigger(trigger, variables, bindings)
		if err != nil {
			return nil, nil, fmt.Errorf("trigger %d (%s): %w", i, trigger.Type, err)
		}
		if address != "" {
			addresses = append(addresses, address)
		}
		keda.Triggers = append(keda.Triggers, rendered)
	}
	if f := spec.Fallback; f != nil {
		replicas, err := renderReplicas(f.Replicas, c)
		if err != nil {
			return nil, nil, err
		}
		keda.Fallback = &v1beta1.KedaFallback{FailureThreshold: f.FailureThreshold, Replicas: replicas}
	}
	return keda, addresses, nil
}

func renderTrigger(t v1beta1.KedaPolicyTrigger, v Variables, bindings Bindings) (v1beta1.KedaTrigger, string, error) {
	out := v1beta1.KedaTrigger{Type: t.Type, Metadata: map[string]v1beta1.TriggerText{}, MetricType: autoscalingv2.MetricTargetType(t.MetricType)}
	for _, key := range slices.Sorted(maps.Keys(t.Metadata)) {
		if OwnedByProvider(key) {
			return out, "", fmt.Errorf("metadata key %q is provider-owned; bind endpoints via providerRef", key)
		}
		template, err := Parse(string(t.Metadata[key]))
		if err != nil {
			return out, "", fmt.Errorf("metadata key %q: %w", key, err)
		}
		out.Metadata[key] = v1beta1.TriggerText(template.Render(v))
	}
	if !AsksEndpoint(t.Type) {
		return out, "", nil
	}
	if t.ProviderRef == nil {
		return out, "", errors.New("providerRef is required for endpoint trigger types")
	}
	binding, err := bindings.find(t.ProviderRef.Name)
	if err != nil {
		return out, "", err
	}
	out.Metadata[keyServerAddress] = v1beta1.TriggerText(binding.ServerAddress)
	if binding.AuthSecretRef != nil {
		out.Metadata[keyAuthModes] = "bearer"
		out.AuthenticationRef = &v1beta1.KedaAuthenticationReference{Name: AuthenticationName(t.ProviderRef.Name)}
	}
	return out, binding.ServerAddress, nil
}

func renderReplicas(s v1beta1.ReplicaSource, c Component) (int32, error) {
	switch {
	case (s.Value == nil) == (s.FromComponent == ""):
		return 0, errors.New("fallback: exactly one of value or fromComponent must be set")
	case s.Value != nil:
		return *s.Value, nil
	case s.FromComponent == v1beta1.FromMinReplicas:
		return c.MinReplicas, nil
	case s.FromComponent == v1beta1.FromMaxReplicas:
		return c.MaxReplicas, nil
	}
	return 0, fmt.Errorf("fallback: fromComponent %q must be MaxReplicas or MinReplicas", s.FromComponent)
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}
