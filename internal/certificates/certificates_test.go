package certificates

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	corev1 "k8s.io/api/core/v1"
)

func secretOf(t *testing.T) *corev1.Secret {
	t.Helper()
	r := &rotator.CertRotator{CAName: "ca", DNSName: "webhook.svc", ExtKeyUsages: &[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	from, until := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	authority, err := r.CreateCACert(from, until)
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := r.CreateCertPEM(authority, from, until)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{Data: map[string][]byte{corev1.TLSCertKey: cert, corev1.TLSPrivateKeyKey: key}}
}

func TestTheLastGoodCertificateStands(t *testing.T) {
	c := &current{dir: t.TempDir(), made: make(chan struct{}), log: logr.Discard()}
	served := func() *tls.Certificate {
		certificate, err := c.get(nil)
		if err != nil {
			t.Fatal(err)
		}
		return certificate
	}
	c.take(&corev1.Secret{})
	if _, err := c.get(nil); err == nil {
		t.Error("an empty Secret gives a certificate")
	}
	first, second := secretOf(t), secretOf(t)
	c.take(first)
	select {
	case <-c.made:
	default:
		t.Error("there is a certificate, and nobody is told")
	}
	was := served()
	broken := second.DeepCopy()
	broken.Data[corev1.TLSPrivateKeyKey] = first.Data[corev1.TLSPrivateKeyKey]
	for _, secret := range []*corev1.Secret{{}, broken} {
		if c.take(secret); served() != was {
			t.Error("a Secret without a good certificate replaces one")
		}
	}
	c.take(second)
	if served() == was {
		t.Error("another certificate is not taken")
	}
	text, err := os.ReadFile(filepath.Join(c.dir, "tls.crt"))
	if err != nil || !bytes.Equal(text, second.Data[corev1.TLSCertKey]) {
		t.Errorf("the folder does not hold the certificate: %v", err)
	}
	if entries, err := os.ReadDir(c.dir); err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, want the certificate only", entries)
	}
}
