package tidal

// What the component's admission webhook needs, beside what the controller does: it asks for the rights of writers, and
// keeps its certificate in a Secret of its own namespace and the certificate's authority in its registration.

// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,verbs=get;list;watch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,resourceNames=tidal.tidal.io,verbs=update
// +kubebuilder:rbac:groups="",namespace=scaling-system,resources=secrets,verbs=get;list;watch
// +kubebuilder:rbac:groups="",namespace=scaling-system,resources=secrets,resourceNames=pd-orchestrator-tidal,verbs=update
