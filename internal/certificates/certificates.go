// Package certificates keeps the certificate of a webhook server: it is made, renewed before it ends, and its authority
// is written into the webhook configurations, so that the API server trusts it.
//
// The certificate and its authority are in one Secret, which must exist, empty at first. Every replica of the manager
// does the same; where two of them make one at a time, the first write stands. A replica takes the certificate from the
// Secret itself and not from a mounted volume, which would show a new one only a minute or more after the API server
// trusts nothing else.
package certificates

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// authorityLifetimes is how many lifetimes of the certificate its authority lasts: a change of the authority, unlike one
// of the certificate, is seen by the API server as a short outage.
const authorityLifetimes = 10

// Options say which certificate is kept, and where.
type Options struct {
	// Secret holds the certificate. It must exist.
	Secret types.NamespacedName
	// Dir is where the certificate is put for the server, as tls.crt and tls.key.
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

// Kept tells how far the certificate is.
type Kept struct {
	// InPlace is closed once the certificate is in the folder.
	InPlace <-chan struct{}
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
	f := &files{dir: o.Dir, secrets: secrets, inPlace: make(chan struct{}), log: mgr.GetLogger().WithName("webhook-certificate")}
	if err := mgr.Add(f); err != nil {
		return Kept{}, fmt.Errorf("watching Secret %s: %w", o.Secret, err)
	}
	return Kept{InPlace: f.inPlace, Trusted: trusted}, nil
}

// files writes the certificate from the Secret into a folder whenever it changes.
type files struct {
	dir     string
	secrets cache.Cache
	inPlace chan struct{}
	once    sync.Once
	log     logr.Logger
}

// NeedLeaderElection says that every replica does this.
func (f *files) NeedLeaderElection() bool { return false }

// Start watches the Secret until the context ends.
func (f *files) Start(ctx context.Context) error {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return fmt.Errorf("making the folder of the webhook certificate: %w", err)
	}
	informer, err := f.secrets.GetInformer(ctx, &corev1.Secret{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching the webhook certificate: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    f.write,
		UpdateFunc: func(_, obj any) { f.write(obj) },
	})
	if err != nil {
		return fmt.Errorf("watching the webhook certificate: %w", err)
	}
	return f.secrets.Start(ctx)
}

func (f *files) write(obj any) {
	secret, ok := obj.(*corev1.Secret)
	if !ok || len(secret.Data[corev1.TLSCertKey]) == 0 || len(secret.Data[corev1.TLSPrivateKeyKey]) == 0 {
		return
	}
	changed, err := f.replace(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		f.log.Error(err, "Could not write the webhook certificate", "dir", f.dir)
		return
	}
	if changed {
		f.log.Info("Took the webhook certificate from its Secret", "secret", client.ObjectKeyFromObject(secret))
	}
	f.once.Do(func() { close(f.inPlace) })
}

// replace puts the certificate after its key, since the server loads the pair when the certificate changes, and each
// file as a whole, since it may load them at any time.
func (f *files) replace(cert, key []byte) (changed bool, err error) {
	for _, file := range []struct {
		name string
		text []byte
	}{{corev1.TLSPrivateKeyKey, key}, {corev1.TLSCertKey, cert}} {
		path := filepath.Join(f.dir, file.name)
		if present, err := os.ReadFile(path); err == nil && bytes.Equal(present, file.text) {
			continue
		}
		changed = true
		if err := writeWhole(path, file.text); err != nil {
			return false, err
		}
	}
	return changed, nil
}

func writeWhole(path string, text []byte) error {
	next, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = next.Write(text)
	if err := errors.Join(err, next.Close()); err != nil {
		return errors.Join(err, os.Remove(next.Name()))
	}
	return os.Rename(next.Name(), path)
}
