package v1beta1

// AnnotationAllowInUseDelete allows the deletion of an AutoscalerPolicy that components name, if its value is "true".
const AnnotationAllowInUseDelete = "ome.io/allow-in-use-delete"

// Types of the conditions of an AutoscalerPolicy.
const (
	// ConditionReady tells whether the policy is valid and every metric provider that it names is bound.
	ConditionReady = "Ready"
	// ConditionInUse tells whether components name the policy.
	ConditionInUse = "InUse"
)

// Reasons of the conditions of an AutoscalerPolicy. Where a policy is invalid, the reason is that of its first finding.
const (
	// ReasonTemplatesValid says that the policy is valid and its providers are bound.
	ReasonTemplatesValid = "TemplatesValid"
	// ReasonProviderUnknown says that a metric provider is not bound on this cluster.
	ReasonProviderUnknown = "ProviderUnknown"
	// ReasonAttached says that components name the policy.
	ReasonAttached = "Attached"
	// ReasonNoConsumers says that no component names the policy.
	ReasonNoConsumers = "NoConsumers"
)

// Reasons for which a policy is refused at admission, or reported as not ready.
const (
	// ReasonEnforcementRequiredReserved says that enforcement Required is reserved.
	ReasonEnforcementRequiredReserved = "EnforcementRequiredReserved"
	// ReasonClassTemplateMismatch says that keda or hpa does not fit the class.
	ReasonClassTemplateMismatch = "ClassTemplateMismatch"
	// ReasonForbiddenMetadataKey says that the metadata of a trigger sets what belongs to the provider.
	ReasonForbiddenMetadataKey = "ForbiddenMetadataKey"
	// ReasonProviderRefRequired says that a trigger that asks an endpoint names no provider.
	ReasonProviderRefRequired = "ProviderRefRequired"
	// ReasonIgnoreNullValuesMustBeExplicit says that a prometheus trigger leaves ignoreNullValues to KEDA's default.
	ReasonIgnoreNullValuesMustBeExplicit = "IgnoreNullValuesMustBeExplicit"
	// ReasonDesiredCountRequiresAverageValue says that a query that computes the count has another metricType.
	ReasonDesiredCountRequiresAverageValue = "DesiredCountRequiresAverageValue"
	// ReasonValueSourceInvalid says that a fallback count has none or two sources.
	ReasonValueSourceInvalid = "ValueSourceInvalid"
	// ReasonForbiddenTemplateNode says that a value uses more of the template language than its variables.
	ReasonForbiddenTemplateNode = "ForbiddenTemplateNode"
	// ReasonParseError says that a value is no template, or that the spec has no digest.
	ReasonParseError = "ParseError"
	// ReasonPromQLInvalid says that a query is no PromQL, or compares with more than it seems to.
	ReasonPromQLInvalid = "PromQLInvalid"
	// ReasonQueryRequired says that a prometheus trigger has no query.
	ReasonQueryRequired = "QueryRequired"
	// ReasonThresholdInvalid says that the threshold of a prometheus trigger is no number greater than 0.
	ReasonThresholdInvalid = "ThresholdInvalid"
	// ReasonHPAMetricMalformed says that a HorizontalPodAutoscaler would refuse a metric.
	ReasonHPAMetricMalformed = "HPAMetricMalformed"
)

// Types of the conditions of an InferenceService, beside Ready.
const (
	// ConditionRuntimeResolved tells whether a runtime was found that serves the model.
	ConditionRuntimeResolved = "RuntimeResolved"
	// ConditionEngineReady tells whether the engine serves.
	ConditionEngineReady = "EngineReady"
	// ConditionDecoderReady tells whether the decoder serves.
	ConditionDecoderReady = "DecoderReady"
	// ConditionRouterReady tells whether the router serves.
	ConditionRouterReady = "RouterReady"
)

// Reasons of condition RuntimeResolved.
const (
	// ReasonRuntimeNamed says that the service names its runtime.
	ReasonRuntimeNamed = "RuntimeNamed"
	// ReasonRuntimeSelected says that the runtime was chosen for the model.
	ReasonRuntimeSelected = "RuntimeSelected"
	// ReasonRuntimeNotNeeded says that each component has runners with images of its own.
	ReasonRuntimeNotNeeded = "RuntimeNotNeeded"
	// ReasonBaseModelNotFound says that the model does not exist.
	ReasonBaseModelNotFound = "BaseModelNotFound"
	// ReasonNoSupportingRuntime says that no runtime can be chosen for the model.
	ReasonNoSupportingRuntime = "NoSupportingRuntime"
	// ReasonRuntimeNotRecognized says that the runtime that the service names does not exist.
	ReasonRuntimeNotRecognized = "RuntimeNotRecognized"
	// ReasonRuntimeDisabled says that the runtime that the service names is disabled.
	ReasonRuntimeDisabled = "RuntimeDisabled"
)

// Reasons of Ready of an InferenceService and of the conditions of its components.
const (
	// ReasonComponentsReady says that every component serves.
	ReasonComponentsReady = "ComponentsReady"
	// ReasonNoComponents says that the spec names no component.
	ReasonNoComponents = "NoComponents"
	// ReasonAvailable says that enough replicas are available.
	ReasonAvailable = "Available"
	// ReasonUnavailable says that replicas are missing.
	ReasonUnavailable = "Unavailable"
	// ReasonScaledToZero says that the component has no replicas on purpose.
	ReasonScaledToZero = "ScaledToZero"
	// ReasonRuntimeUnresolved says that there is no runtime to make pods from.
	ReasonRuntimeUnresolved = "RuntimeUnresolved"
	// ReasonInvalidSpec says that no pods can be made of the spec, or that the API server refuses what is made of it.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonWorkloadKindUnavailable says that the API server does not serve the kind of the workload.
	ReasonWorkloadKindUnavailable = "WorkloadKindUnavailable"
	// ReasonNotOwned says that an object of the name is there that is not this service's, which is left alone.
	ReasonNotOwned = "NotOwned"
	// ReasonApplyFailed says that the API server, or a webhook that it asks, did not answer as it should.
	ReasonApplyFailed = "ApplyFailed"
)

// Types of the conditions of a component's autoscaler, beside those of the HorizontalPodAutoscaler or ScaledObject.
const (
	// ConditionAutoscalerResolved tells whether the policy that a component names decides, or why not. Only on components
	// that name a policy.
	ConditionAutoscalerResolved = "AutoscalerResolved"
	// ConditionAutoscalerApplied tells whether the autoscaler is as its settings ask.
	ConditionAutoscalerApplied = "AutoscalerApplied"
)

// Reasons of condition AutoscalerResolved.
const (
	// ReasonRenderedFromPolicy says that the autoscaler was rendered from the policy.
	ReasonRenderedFromPolicy = "RenderedFromPolicy"
	// ReasonInlinePrecedence says that the component's own autoscaler outranks the policy.
	ReasonInlinePrecedence = "InlinePrecedence"
	// ReasonPolicyNotFound says that the policy does not exist; the component holds.
	ReasonPolicyNotFound = "PolicyNotFound"
	// ReasonPolicyInvalid says that the policy does not render for the component; the component holds.
	ReasonPolicyInvalid = "PolicyInvalid"
	// ReasonClassUnavailable says that the policy renders class KEDA, and KEDA is not installed; the component holds.
	ReasonClassUnavailable = "ClassUnavailable"
)

// Reasons of condition AutoscalerApplied.
const (
	// ReasonApplied says that the autoscaler is as its settings ask.
	ReasonApplied = "Applied"
	// ReasonNotManaged says that the settings ask for no autoscaler, and there is none of ours.
	ReasonNotManaged = "NotManaged"
	// ReasonNoRecord says that the component holds, and no policy has rendered for it before: what there is stands.
	ReasonNoRecord = "NoRecord"
	// ReasonKedaUnavailable says that the settings ask for a ScaledObject, and KEDA is not installed.
	ReasonKedaUnavailable = "KedaUnavailable"
	// ReasonRefused says that the API server or a webhook refuses the autoscaler; the one before stays.
	ReasonRefused = "Refused"
	// ReasonSwitching says that the autoscaler of another kind is on its way out.
	ReasonSwitching = "Switching"
	// ReasonNoWorkload says that there is no workload to scale yet.
	ReasonNoWorkload = "NoWorkload"
)

// EventAutoscalerPolicyHold is the reason of the Warning event that a component begins to hold.
const EventAutoscalerPolicyHold = "AutoscalerPolicyHold"

// Reasons for which an InferenceService or a runtime is refused at admission.
const (
	// ReasonAutoscalerClassUnknown says that the class of an autoscaler is none that there is.
	ReasonAutoscalerClassUnknown = "AutoscalerClassUnknown"
	// ReasonKedaTriggersRequired says that class KEDA has no triggers.
	ReasonKedaTriggersRequired = "KedaTriggersRequired"
	// ReasonKedaIdleBelowMin says that the idle count is not below minReplicas.
	ReasonKedaIdleBelowMin = "KedaIdleBelowMin"
	// ReasonKedaTriggerInvalid says that KEDA would refuse or misread a trigger.
	ReasonKedaTriggerInvalid = "KedaTriggerInvalid"
	// ReasonKedaFallbackIgnored says that KEDA would ignore the fallback.
	ReasonKedaFallbackIgnored = "KedaFallbackIgnored"
	// ReasonHPABehaviorMalformed says that a HorizontalPodAutoscaler would refuse the behavior.
	ReasonHPABehaviorMalformed = "HPABehaviorMalformed"
	// ReasonAutoscalerAnnotationConflict says that both the annotation of an earlier release and an autoscaler are there.
	ReasonAutoscalerAnnotationConflict = "AutoscalerAnnotationConflict"
	// ReasonAutoscalerPolicyFeatureDisabled says that the CRD of AutoscalerPolicies is not installed.
	ReasonAutoscalerPolicyFeatureDisabled = "AutoscalerPolicyFeatureDisabled"
	// ReasonAutoscalerPolicyRefKindReserved says that a reference names the reserved kind.
	ReasonAutoscalerPolicyRefKindReserved = "AutoscalerPolicyRefKindReserved"
	// ReasonInvalidLeaderWorkerPairing says that leader and worker do not go together.
	ReasonInvalidLeaderWorkerPairing = "InvalidLeaderWorkerPairing"
	// ReasonMultiPodLeanModelNeedsRunner says that a component with leader and worker has no image to run.
	ReasonMultiPodLeanModelNeedsRunner = "MultiPodLeanModelNeedsRunner"
	// ReasonInvalidScaleToZero says that minReplicas 0 has nothing that could scale from zero.
	ReasonInvalidScaleToZero = "InvalidScaleToZero"
	// ReasonLegacyAutoscalerFieldsRejected says that fields of an earlier release are used.
	ReasonLegacyAutoscalerFieldsRejected = "LegacyAutoscalerFieldsRejected"
	// ReasonScalingModeNotImplemented says that a reserved mode of scaling is used.
	ReasonScalingModeNotImplemented = "ScalingModeNotImplemented"
)
