package policyrender

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
)

// PortableDigest tells a policy's spec, in whatever cluster it is: pv1: and the first 12 hexadecimal digits of the SHA-256 of
// its JSON form after defaulting.
func PortableDigest(spec v1beta1.AutoscalerPolicySpec) (string, error) {
	if spec.Enforcement == "" {
		spec.Enforcement = v1beta1.EnforcementDefault
	}
	return digest("pv1", spec)
}

// renderDigest tells a render: rv1: and the first 12 hexadecimal digits of the SHA-256 of the JSON form of the autoscaler, the
// bounds and the addresses. Nothing secret is part of it, not even the name of a Secret.
func renderDigest(a v1beta1.ComponentAutoscaler, c Component, addresses []string) (string, error) {
	return digest("rv1", struct {
		Autoscaler      v1beta1.ComponentAutoscaler `json:"autoscaler"`
		MinReplicas     int32                       `json:"minReplicas"`
		MaxReplicas     int32                       `json:"maxReplicas"`
		ServerAddresses []string                    `json:"serverAddresses,omitempty"`
	}{a, c.MinReplicas, c.MaxReplicas, addresses})
}

func digest(version string, value any) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("computing the digest: %w", err)
	}
	return fmt.Sprintf("%s:%x", version, sha256.Sum256(text))[:len(version)+1+12], nil
}
