package v1alpha1

// Labels by which an object with `status.desiredReplicas` names the ElasticScaler that it drives.
const (
	// LabelScalerName holds the name of the ElasticScaler.
	LabelScalerName = "elasticscaler.io/name"
	// LabelScalerNamespace holds the namespace of the ElasticScaler.
	LabelScalerNamespace = "elasticscaler.io/namespace"
)

// Types of the conditions of an ElasticScaler.
const (
	// ConditionReady is the summary: the scaler is valid, decides, and its target follows. False with the reason of the
	// first of the other conditions that is in the way.
	ConditionReady = "Ready"
	// ConditionValidated tells whether the spec makes sense with what the cluster has: the target, its kind, the algorithm.
	ConditionValidated = "Validated"
	// ConditionMetricsCollected tells whether all metrics of a MetricsTrigger have a value.
	ConditionMetricsCollected = "MetricsCollected"
	// ConditionScalingCalculated tells whether a count could be decided.
	ConditionScalingCalculated = "ScalingCalculated"
	// ConditionReconciliationComplete tells whether the decided count was written, or stood already.
	ConditionReconciliationComplete = "ReconciliationComplete"
	// ConditionAvailable tells whether what the scaler stands on works: the target can be scaled and, with algorithm HPA,
	// the HorizontalPodAutoscaler is able to scale.
	ConditionAvailable = "Available"
	// ConditionProgressing tells whether the target is on its way to the desired count.
	ConditionProgressing = "Progressing"
	// ConditionDegraded tells whether the scaler works with less than it was given: a metric that is missing, a fallback.
	ConditionDegraded = "Degraded"
	// ConditionPaused is True while spec.paused is.
	ConditionPaused = "Paused"
	// ConditionScalerConflict is True while another object has the first right to the count of the target; this one then
	// writes nothing.
	ConditionScalerConflict = "ScalerConflict"
	// ConditionActivationSourceMissing is True where the lower bound is 0 and every metric vanishes with the last pod.
	ConditionActivationSourceMissing = "ActivationSourceMissing"
)

// Reasons of the conditions, decisions and events of an ElasticScaler.
const (
	// ReasonReconciled says that everything is as it should be.
	ReasonReconciled = "Reconciled"
	// ReasonValid says that the spec makes sense with what the cluster has.
	ReasonValid = "Valid"
	// ReasonInvalidSpec says that the spec contradicts itself or the cluster; the message names the field.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonTargetNotFound says that the target does not exist.
	ReasonTargetNotFound = "TargetNotFound"
	// ReasonTargetKindNotFound says that no API group serves the target's kind.
	ReasonTargetKindNotFound = "TargetKindNotFound"
	// ReasonTargetKindAmbiguous says that several API groups serve the target's kind and apiVersion is left out.
	ReasonTargetKindAmbiguous = "TargetKindAmbiguous"
	// ReasonTargetNotScalable says that the target has neither a scale subresource nor a resource handler.
	ReasonTargetNotScalable = "TargetNotScalable"
	// ReasonTargetForbidden says that the target is in another namespace and the reference is not trusted.
	ReasonTargetForbidden = "TargetForbidden"
	// ReasonAlgorithmNotRegistered says that nobody registered the algorithm; the message lists the registered ones.
	ReasonAlgorithmNotRegistered = "AlgorithmNotRegistered"
	// ReasonAlgorithmConfigInvalid says that a setting of the algorithm cannot be used.
	ReasonAlgorithmConfigInvalid = "AlgorithmConfigInvalid"
	// ReasonAlgorithmFailed says that the algorithm gave no count.
	ReasonAlgorithmFailed = "AlgorithmFailed"
	// ReasonHPANotOwned says that a HorizontalPodAutoscaler of the scaler's name exists and belongs to somebody else.
	ReasonHPANotOwned = "HPANotOwned"
	// ReasonAllMetricsAvailable says that every metric has a value.
	ReasonAllMetricsAvailable = "AllMetricsAvailable"
	// ReasonPartialMetrics says that some of several metrics have no value.
	ReasonPartialMetrics = "PartialMetrics"
	// ReasonNoData says that there is no usable value: no series, or not a finite number.
	ReasonNoData = "NoData"
	// ReasonStale says that the sample is older than maxAgeSeconds.
	ReasonStale = "Stale"
	// ReasonMultipleSeries says that there are several series where one is due.
	ReasonMultipleSeries = "MultipleSeries"
	// ReasonWrongResultType says that the answer is of a type that holds no single number.
	ReasonWrongResultType = "WrongResultType"
	// ReasonMetricNotFound says that the source answered and does not know the metric.
	ReasonMetricNotFound = "MetricNotFound"
	// ReasonMetricSourceUnavailable says that the source did not answer, or not with success.
	ReasonMetricSourceUnavailable = "MetricSourceUnavailable"
	// ReasonMetricsAPINotOwned says that a metrics API is served by another component than expected.
	ReasonMetricsAPINotOwned = "MetricsAPINotOwned"
	// ReasonMissingRequest says that a container has no request for the resource whose utilization is the target.
	ReasonMissingRequest = "MissingRequest"
	// ReasonEndpointForbidden says that the endpoint resolves to an address that must not be dialled.
	ReasonEndpointForbidden = "EndpointForbidden"
	// ReasonSecretNotFound says that a Secret or its key does not exist.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonFallback says that the count of a noData policy Fallback is in force.
	ReasonFallback = "Fallback"
	// ReasonNoSource says that no object drives the StateTrigger.
	ReasonNoSource = "NoSource"
	// ReasonMultipleSources says that several objects drive the StateTrigger.
	ReasonMultipleSources = "MultipleSources"
	// ReasonSourceWithoutCount says that the source carries no status.desiredReplicas.
	ReasonSourceWithoutCount = "SourceWithoutCount"
	// ReasonSourceCountInvalid says that the status.desiredReplicas of the source is no count.
	ReasonSourceCountInvalid = "SourceCountInvalid"
	// ReasonSourceNamespaceForbidden says that an object of a namespace that is not allowed names the scaler.
	ReasonSourceNamespaceForbidden = "SourceNamespaceForbidden"
	// ReasonNoSignal says that no signal was accepted yet.
	ReasonNoSignal = "NoSignal"
	// ReasonSignalReceived says that the count follows from a signal.
	ReasonSignalReceived = "SignalReceived"
	// ReasonInvalidSignal says that the last message of the signal endpoint could not be read.
	ReasonInvalidSignal = "InvalidSignal"
	// ReasonEndpointUnreachable says that the manager cannot listen at the signal endpoint.
	ReasonEndpointUnreachable = "EndpointUnreachable"
	// ReasonWaiting says that the first evaluation has not ended.
	ReasonWaiting = "Waiting"
	// ReasonMetricAboveTarget says that a metric is above its target and the count grows.
	ReasonMetricAboveTarget = "MetricAboveTarget"
	// ReasonMetricBelowTarget says that every metric is below its target and the count shrinks.
	ReasonMetricBelowTarget = "MetricBelowTarget"
	// ReasonWithinTolerance says that every metric is near its target and the count stays.
	ReasonWithinTolerance = "WithinTolerance"
	// ReasonScaleUpStabilized says that a lower recommendation of the scale-up window holds.
	ReasonScaleUpStabilized = "ScaleUpStabilized"
	// ReasonScaleDownStabilized says that a higher recommendation of the scale-down window holds.
	ReasonScaleDownStabilized = "ScaleDownStabilized"
	// ReasonScaleUpLimit says that the scale-up policies limit the step.
	ReasonScaleUpLimit = "ScaleUpLimit"
	// ReasonScaleDownLimit says that the scale-down policies limit the step.
	ReasonScaleDownLimit = "ScaleDownLimit"
	// ReasonMinReplicas says that the lower bound decides.
	ReasonMinReplicas = "MinReplicas"
	// ReasonMaxReplicas says that the upper bound decides.
	ReasonMaxReplicas = "MaxReplicas"
	// ReasonManualZero says that somebody else set the target to 0, and it is left there.
	ReasonManualZero = "ManualZero"
	// ReasonCountOfSource says that the count is that of the source of a StateTrigger.
	ReasonCountOfSource = "CountOfSource"
	// ReasonScaled says that the count was written.
	ReasonScaled = "Scaled"
	// ReasonScaling says that the target is on its way to the desired count.
	ReasonScaling = "Scaling"
	// ReasonScaleFailed says that the count could not be written.
	ReasonScaleFailed = "ScaleFailed"
	// ReasonReplicaFight says that another writer sets the count back again and again.
	ReasonReplicaFight = "ReplicaFight"
	// ReasonConflict says that another object has the first right to the count.
	ReasonConflict = "Conflict"
	// ReasonNoConflict says that no other object scales the target.
	ReasonNoConflict = "NoConflict"
	// ReasonPaused says that spec.paused is true.
	ReasonPaused = "Paused"
	// ReasonNotPaused says that spec.paused is not true.
	ReasonNotPaused = "NotPaused"
)
