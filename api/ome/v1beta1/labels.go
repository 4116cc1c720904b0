package v1beta1

// Labels of the objects that are made for a component, and of its pods.
const (
	// LabelInferenceService names the InferenceService.
	LabelInferenceService = "ome.io/inferenceservice"
	// LabelComponent is engine, decoder or router.
	LabelComponent = "component"
	// LabelApp is the name of the component's Service, and what its Deployment selects.
	LabelApp = "app"
	// LabelServingRuntime names the runtime.
	LabelServingRuntime = "serving-runtime"
	// LabelFineTunedServing is "true" where the model has fine-tuned weights.
	LabelFineTunedServing = "fine-tuned-serving"
	// LabelBaseModelName names the model.
	LabelBaseModelName = "base-model-name"
	// LabelBaseModelSize is the number of the model's parameters.
	LabelBaseModelSize = "base-model-size"
	// LabelBaseModelType is Serving.
	LabelBaseModelType = "base-model-type"
	// LabelBaseModelVendor is who made the model.
	LabelBaseModelVendor = "base-model-vendor"
)

// Annotations of an InferenceService or of one of its components that are an earlier form of its autoscaler.
const (
	// AnnotationAutoscalerClass is hpa, keda or external.
	AnnotationAutoscalerClass = "ome.io/autoscalerClass"
	// AnnotationTargetUtilization is the CPU use to hold, in percent, from 1 to 100.
	AnnotationTargetUtilization = "ome.io/targetUtilizationPercentage"
	// AnnotationMetrics is cpu or memory. It is checked and has no effect.
	AnnotationMetrics = "ome.io/metrics"
)

// AnnotationLastRenderedAutoscaler keeps the settings that a policy last rendered to on the component's workload, in JSON,
// so that they survive a restart while the policy cannot be used.
const AnnotationLastRenderedAutoscaler = "ome.io/last-rendered-autoscaler"
