package autoscalerpolicy

// What the component's admission webhooks need, beside what the controllers do: they look at the namespace of a policy that is
// deleted, and keep their certificate in a Secret of their own namespace and the certificate's authority in their registration.

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,verbs=get;list;watch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,resourceNames=autoscalerpolicy.ome.io,verbs=update
// +kubebuilder:rbac:groups="",namespace=scaling-system,resources=secrets,verbs=get;list;watch
// +kubebuilder:rbac:groups="",namespace=scaling-system,resources=secrets,resourceNames=pd-orchestrator-autoscalerpolicy,verbs=update
