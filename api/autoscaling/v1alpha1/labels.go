package v1alpha1

// Labels and annotations that a ResourceScalingGroup puts on, or reads from, the objects of its groups.
const (
	// LabelName carries the name of the ResourceScalingGroup on workloads, Services, pods, the ConfigMap and the
	// ControllerRevision that belong to it.
	LabelName = "rsg.io/name"

	// LabelNamespace carries the namespace of the ResourceScalingGroup. Group 0 may live in another one.
	LabelNamespace = "rsg.io/namespace"

	// LabelGroupID carries the decimal id of the group: "0" for the user's own workloads, "1" and up for clones.
	LabelGroupID = "rsg.io/group-id"

	// LabelGroupName carries the group name as the user spelt it.
	LabelGroupName = "rsg.io/group-name"

	// LabelScaleUnit marks the one pod per group that status.selector selects, so that whoever multiplies by matched
	// pods (an HPA) counts groups. Its value is the name of the ResourceScalingGroup.
	LabelScaleUnit = "rsg.io/scale-unit"

	// AnnotationBaselineReplicas is on a base workload that stands at zero because its group was scaled away. Its
	// value is the replica count to return to, a positive decimal integer.
	AnnotationBaselineReplicas = "rsg.io/baseline-replicas"

	// AnnotationRevision is on the objects of a clone and names the ControllerRevision that they were built from.
	AnnotationRevision = "rsg.io/revision"

	// AnnotationServices is on the workloads of a clone and names the Services that were made with them, separated by
	// commas. The snapshot that they were made from may be gone by the time that one of them is.
	AnnotationServices = "rsg.io/services"

	// AnnotationMetricValue is read from the workload of the first target of each group when Prometheus cannot rank
	// the groups: a finite decimal number, compared by scaleDown.order.
	AnnotationMetricValue = "autoscaling.rsg.metric.values"
)

// MaxGroupID is the highest id that a clone can have. Derived names are checked with it before anything is created.
const MaxGroupID int32 = 9999
