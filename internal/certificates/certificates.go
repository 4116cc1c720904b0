// Package certificates keeps the certificate of a webhook server: it is made, renewed before it ends, and its authority
// is written into the webhook configurations, so that the API server trusts it.
//
// The certificate and its authority are in one Secret, which must exist, empty at first. Every replica of the manager
// does the same; where two of them make one at a time, the first write stands. A replica takes the certificate from the
// Secret itself and not from a mounted volume, which would show a new one only a minute or more after the API server
// trusts nothing else. The key stays in memory.
package certificates

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// authorityLifetimes is how many lifetimes of the certificate its authority lasts: a change of the authority, unlike one
// of the certificate, is seen by the API server as a short outage.
const authorityLifetimes = 10

// Options say which certificate is kept, and where.
type Options struct {
	// Secret holds the certificate. It must exist.
	Secret types.NamespacedName
	// Dir is where the certificate is put as tls.crt, without its key: cert-controller waits for it there, as it expects
	// the Secret to be mounted.
	Dir string
	// DNSNames that the certificate is for, at least one.
	DNSNames []string
	// Configurations are the names of the ValidatingWebhookConfigurations that get the authority.
	Configurations []string
	// Validity of a certificate. It is renewed when a quarter of that is left.
	Validity time.Duration
	// FieldOwner of the writes.
	FieldOwner string
}

// Kept is a certificate that is kept.
type Kept struct {
	// Get returns the certificate of the moment, for tls.Config.
	Get func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Made is closed once there is one.
	Made <-chan struct{}
	// Trusted is closed once its authority is in the webhook configurations too.
	Trusted <-chan struct{}
}

// Keep adds to the manager what keeps the certificate.
func Keep(mgr ctrl.Manager, o Options) (Kept, error) {
	trusted := make(chan struct{})
	hooks := make([]rotator.WebhookInfo, 0, len(o.Configurations))
	for _, name := range o.Configurations {
		hooks = append(hooks, rotator.WebhookInfo{Name: name, Type: rotator.Validating})
	}
	ahead := o.Validity / 4
	err := rotator.AddRotator(mgr, &rotator.CertRotator{
		SecretKey:      o.Secret,
		CertDir:        o.Dir,
		CAName:         o.Secret.Name + "-ca",
		CAOrganization: "pd-orchestrator",
		DNSName:        o.DNSNames[0],
		ExtraDNSNames:  o.DNSNames[1:],
		IsReady:        trusted,
		Webhooks:       hooks,
		FieldOwner:     o.FieldOwner,
		// Admission serves on every replica, so every replica needs the certificate.
		RequireLeaderElection:  false,
		CaCertDuration:         authorityLifetimes * o.Validity,
		ServerCertDuration:     o.Validity,
		LookaheadInterval:      ahead,
		RotationCheckFrequency: min(ahead/4, 12*time.Hour),
	})
	if err != nil {
		return Kept{}, fmt.Errorf("keeping the webhook certificate in Secret %s: %w", o.Secret, err)
	}
	secrets, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(),
		Mapper: mgr.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {
			Namespaces: map[string]cache.Config{o.Secret.Namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", o.Secret.Name)}},
		}},
	})
	if err != nil {
		return Kept{}, fmt.Errorf("watching Secret %s: %w", o.Secret, err)
	}
	c := &current{dir: o.Dir, secrets: secrets, made: make(chan struct{}), log: mgr.GetLogger().WithName("webhook-certificate")}
	if err := mgr.Add(c); err != nil {
		return Kept{}, fmt.Errorf("watching Secret %s: %w", o.Secret, err)
	}
	return Kept{Get: c.get, Made: c.made, Trusted: trusted}, nil
}

// Watch adds to the manager what follows a certificate that somebody else keeps in the files tls.crt and tls.key of a
// folder. They must be there.
func Watch(mgr ctrl.Manager, dir string) (Kept, error) {
	w, err := certwatcher.New(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		return Kept{}, fmt.Errorf("reading the certificate in %s: %w", dir, err)
	}
	if err := mgr.Add(w); err != nil {
		return Kept{}, fmt.Errorf("watching the certificate in %s: %w", dir, err)
	}
	at := make(chan struct{})
	close(at)
	return Kept{Get: w.GetCertificate, Made: at, Trusted: at}, nil
}

// current follows the certificate in the Secret.
type current struct {
	dir     string
	secrets cache.Cache
	log     logr.Logger

	certificate atomic.Pointer[tls.Certificate]
	made        chan struct{}
	once        sync.Once
}

// NeedLeaderElection says that every replica does this.
func (c *current) NeedLeaderElection() bool { return false }

// Start watches the Secret until the context ends.
func (c *current) Start(ctx context.Context) error {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return fmt.Errorf("making the folder of the webhook certificate: %w", err)
	}
	informer, err := c.secrets.GetInformer(ctx, &corev1.Secret{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching the webhook certificate: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    c.take,
		UpdateFunc: func(_, obj any) { c.take(obj) },
	})
	if err != nil {
		return fmt.Errorf("watching the webhook certificate: %w", err)
	}
	return c.secrets.Start(ctx)
}

func (c *current) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if certificate := c.certificate.Load(); certificate != nil {
		return certificate, nil
	}
	return nil, errors.New("there is no certificate yet")
}

// take serves the certificate of the Secret from now on. One that is missing or broken changes nothing: the last good
// one stands until another is made.
func (c *current) take(obj any) {
	secret, ok := obj.(*corev1.Secret)
	if !ok || len(secret.Data[corev1.TLSCertKey]) == 0 {
		return
	}
	log := c.log.WithValues("secret", client.ObjectKeyFromObject(secret))
	certificate, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		log.Error(err, "Could not read the webhook certificate")
		return
	}
	if before := c.certificate.Load(); before != nil && bytes.Equal(before.Certificate[0], certificate.Certificate[0]) {
		return
	}
	if err := os.WriteFile(filepath.Join(c.dir, corev1.TLSCertKey), secret.Data[corev1.TLSCertKey], 0o600); err != nil {
		log.Error(err, "Could not write the webhook certificate", "dir", c.dir)
		return
	}
	c.certificate.Store(&certificate)
	c.once.Do(func() { close(c.made) })
	log.Info("Took the webhook certificate from its Secret", "until", certificate.Leaf.NotAfter)
}
