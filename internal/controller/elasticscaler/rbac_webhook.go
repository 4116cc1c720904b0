package elasticscaler

// What the admission webhook of the component and its port for pushed signals need, beside what the controller does: both
// ask for the rights of users, the port asks who they are, and the webhook keeps its certificate in a Secret of its own
// namespace and the certificate's authority in its registration.

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,verbs=get;list;watch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,resourceNames=elasticscaler.elasticscaler.io,verbs=update
// +kubebuilder:rbac:groups="",namespace=scaling-system,resources=secrets,verbs=get;list;watch
// +kubebuilder:rbac:groups="",namespace=scaling-system,resources=secrets,resourceNames=pd-orchestrator-elasticscaler,verbs=update
