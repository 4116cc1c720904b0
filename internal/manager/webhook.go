package manager

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/pd-orchestrator/pd-orchestrator/internal/admission"
	"github.com/pd-orchestrator/pd-orchestrator/internal/certificates"
	"github.com/pd-orchestrator/pd-orchestrator/internal/config"
	"github.com/pd-orchestrator/pd-orchestrator/internal/controller/elasticscaler"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
)

// namespaceFile is where a pod reads its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// webhook is the admission of one component's objects.
type webhook struct {
	// configuration is the name of the ValidatingWebhookConfiguration.
	configuration string
	// path is where handler answers, and paths are further ones.
	path  string
	paths []string
	// handler is nil for a component whose objects nobody admits.
	handler func(context.Context, parts) (http.Handler, error)
}

// actsOn says what a controller does with references to other namespaces. What has been admitted is followed without
// asking again: the controller does not see who wrote. Without admission of its objects nobody has asked.
func (w webhook) actsOn(configured config.CrossNamespace) config.CrossNamespace {
	switch {
	case configured != config.CrossNamespaceAdmitted:
		return configured
	case w.handler != nil:
		return config.CrossNamespaceTrusted
	}
	return config.CrossNamespaceDenied
}

// podNamespace is the namespace of the pod that this process runs in, "" where it runs in none.
func podNamespace() string {
	text, err := os.ReadFile(namespaceFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// hooked are those of the named components whose objects are admitted.
func hooked(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return components[n].webhook.handler == nil })
}

func configurations(names []string) []string {
	var out []string
	for _, n := range names {
		out = append(out, components[n].webhook.configuration)
	}
	return out
}

// keepCertificate sees to the certificate that the named components serve with.
func keepCertificate(p parts, names []string) (certificates.Kept, error) {
	c := p.config
	if c.Namespace == "" {
		return certificates.Kept{}, errors.New("the webhook needs to know the namespace of the components: set namespace in the configuration")
	}
	if c.Webhook.Certificates != config.CertificatesManaged {
		return certificates.Watch(p.mgr, c.Webhook.CertDir)
	}
	return certificates.Keep(p.mgr, certificateOptions(c, names, configurations(names)))
}

// serveWebhooks serves the admission of the named components, on every replica, once there is a certificate to serve it
// with.
func serveWebhooks(ctx context.Context, p parts, names []string) error {
	c := p.config
	host, port, err := c.Webhook.Address()
	if err != nil {
		return fmt.Errorf("webhook.bindAddress: %w", err)
	}
	served := &gatedServer{open: p.certificate.Made, Server: ctrlwebhook.NewServer(ctrlwebhook.Options{
		Host:    host,
		Port:    port,
		CertDir: c.Webhook.CertDir,
		TLSOpts: []func(*tls.Config){func(t *tls.Config) { t.MinVersion, t.GetCertificate = tls.VersionTLS12, p.certificate.Get }},
	})}
	for _, n := range names {
		handler, err := components[n].webhook.handler(ctx, p)
		if err != nil {
			return err
		}
		for _, path := range append([]string{components[n].webhook.path}, components[n].webhook.paths...) {
			served.Register(path, handler)
		}
	}
	if err := p.mgr.Add(served); err != nil {
		return fmt.Errorf("adding the webhook server: %w", err)
	}
	for name, check := range map[string]healthz.Checker{
		"webhook":               served.StartedChecker(),
		"webhook-certificate":   closed(p.certificate.Trusted, "the API server does not trust the webhook's certificate yet"),
		"webhook-configuration": registered(p.mgr.GetClient(), configurations(names)),
	} {
		if err := p.mgr.AddReadyzCheck(name, check); err != nil {
			return fmt.Errorf("adding the readiness check: %w", err)
		}
	}
	return nil
}

// certificateOptions describe the certificate of the named components. Where several run as one, it is kept in the
// Secret of the first, for the Services of all.
func certificateOptions(c config.Configuration, names, configurations []string) certificates.Options {
	secret := c.Webhook.SecretName
	if secret == "" {
		secret = "pd-orchestrator-" + names[0]
	}
	services := []string{c.Webhook.ServiceName}
	if c.Webhook.ServiceName == "" {
		services = nil
		for _, n := range names {
			services = append(services, "pd-orchestrator-"+n+"-webhook")
		}
	}
	if slices.Contains(names, elasticscaler.Component) {
		// Pushed signals are served with the same certificate. The first name stays that of a webhook, by which it is checked.
		services = append(services, "pd-orchestrator-"+elasticscaler.Component+"-signals")
	}
	var dnsNames []string
	for _, s := range services {
		dnsNames = append(dnsNames, s+"."+c.Namespace+".svc")
	}
	return certificates.Options{
		Secret:         types.NamespacedName{Namespace: c.Namespace, Name: secret},
		Dir:            c.Webhook.CertDir,
		DNSNames:       append(dnsNames, c.Webhook.DNSNames...),
		Configurations: configurations,
		Validity:       c.Webhook.Validity(),
		FieldOwner:     string(kube.FieldOwner(strings.Join(names, "+"))),
	}
}

// gatedServer starts a webhook server once the gate is open, since it cannot start without a certificate.
type gatedServer struct {
	ctrlwebhook.Server
	open <-chan struct{}
}

// Start waits for the gate, then serves until the context ends.
func (g *gatedServer) Start(ctx context.Context) error {
	select {
	case <-g.open:
	case <-ctx.Done():
		return nil
	}
	if err := g.Server.Start(ctx); err != nil {
		return fmt.Errorf("serving webhooks: %w", err)
	}
	return nil
}

// closed is ready once the channel is closed.
func closed(ch <-chan struct{}, otherwise string) healthz.Checker {
	return func(*http.Request) error {
		select {
		case <-ch:
			return nil
		default:
			return errors.New(otherwise)
		}
	}
}

// registered is ready while the API server has the webhook configurations: without them it would store what nobody has
// admitted, and the controller would act on it.
func registered(c client.Reader, names []string) healthz.Checker {
	return func(req *http.Request) error {
		ctx, cancel := context.WithTimeout(req.Context(), time.Second)
		defer cancel()
		for _, name := range names {
			obj := &metav1.PartialObjectMetadata{}
			obj.SetGroupVersionKind(validatingWebhookConfiguration)
			if err := c.Get(ctx, types.NamespacedName{Name: name}, obj); err != nil {
				return fmt.Errorf("reading ValidatingWebhookConfiguration %s: %w", name, err)
			}
		}
		return nil
	}
}

var validatingWebhookConfiguration = admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration")

func admitResourceScalingGroup(ctx context.Context, p parts) (http.Handler, error) {
	if err := admission.IndexResourceScalingGroups(ctx, p.mgr.GetFieldIndexer()); err != nil {
		return nil, err
	}
	v := &admission.ResourceScalingGroups{
		Cache:     p.mgr.GetClient(),
		API:       p.mgr.GetAPIReader(),
		Writers:   writers(p),
		Namespace: p.config.Namespace,
	}
	return v.Handler(p.mgr.GetScheme()), nil
}

func writers(p parts) admission.Writers {
	return admission.Writers{Reviews: p.mgr.GetClient(), CrossNamespace: p.config.CrossNamespace}
}
