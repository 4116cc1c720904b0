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
