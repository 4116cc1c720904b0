// Package api puts the kinds of all API groups of the product together.
package api

import (
	"errors"

	"k8s.io/apimachinery/pkg/runtime"

	autoscalingv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	elasticscalerv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	omev1beta1 "github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	tidalv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
)

// AddToScheme adds every kind of the product to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	return errors.Join(autoscalingv1alpha1.AddToScheme(scheme), elasticscalerv1alpha1.AddToScheme(scheme), omev1beta1.AddToScheme(scheme), tidalv1alpha1.AddToScheme(scheme))
}
