// Package pki makes the certificate authorities, certificates and keys of a
// lab. It holds everything in memory as PEM; writing files is the caller's
// choice.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// validity is how long every certificate holds. A lab lives for minutes or
// days; a year keeps one that was forgotten from failing in odd ways.
const validity = 365 * 24 * time.Hour

// backdate shifts the start of validity so that a clock that is set back a
// little does not make fresh certificates invalid.
const backdate = 5 * time.Minute

// KeyPair is a certificate and its private key, both PEM.
type KeyPair struct {
	Cert []byte
	Key  []byte
}

// Authority signs certificates.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pair KeyPair
}

// NewAuthority makes a self-signed authority with the given common name.
func NewAuthority(commonName string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating the key of authority %s: %w", commonName, err)
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: commonName},
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := sign(template, template, key, key)
	if err != nil {
		return nil, fmt.Errorf("signing authority %s: %w", commonName, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parsing authority %s: %w", commonName, err)
	}
	pair, err := encode(der, key)
	if err != nil {
		return nil, err
	}
	return &Authority{cert: cert, key: key, pair: pair}, nil
}

// Pair returns the authority's own certificate and key.
func (a *Authority) Pair() KeyPair { return a.pair }

// Bundle returns the authority's certificate as PEM, to be trusted by clients.
func (a *Authority) Bundle() []byte { return a.pair.Cert }

// Serving issues a server certificate for the given DNS names and IP
// addresses. Parts of a lab also use it as a client certificate towards their
// own kind, so it carries both usages.
func (a *Authority) Serving(commonName string, hosts ...string) (KeyPair, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: commonName},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return a.issue(template)
}

// Client issues a client certificate. To an API server that trusts the
// authority the common name is the user and the groups are its groups.
func (a *Authority) Client(user string, groups ...string) (KeyPair, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (a *Authority) issue(template *x509.Certificate) (KeyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return KeyPair{}, fmt.Errorf("generating the key of %s: %w", template.Subject.CommonName, err)
	}
	der, err := sign(template, a.cert, key, a.key)
	if err != nil {
		return KeyPair{}, fmt.Errorf("signing the certificate of %s: %w", template.Subject.CommonName, err)
	}
	return encode(der, key)
}

// SigningKey makes a key pair for signing ServiceAccount tokens: Cert holds
// the public key, Key the private one.
func SigningKey() (KeyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return KeyPair{}, fmt.Errorf("generating the token signing key: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return KeyPair{}, fmt.Errorf("encoding the token signing key: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return KeyPair{}, fmt.Errorf("encoding the token verification key: %w", err)
	}
	return KeyPair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}, nil
}

// WriteFiles writes the pair as <name>.crt and <name>.key into dir and returns
// both paths. The key is readable by its owner only.
func (p KeyPair) WriteFiles(dir, name string) (certFile, keyFile string, err error) {
	certFile = filepath.Join(dir, name+".crt")
	keyFile = filepath.Join(dir, name+".key")
	if err := os.WriteFile(certFile, p.Cert, 0o600); err != nil {
		return "", "", fmt.Errorf("writing certificate %s: %w", name, err)
	}
	if err := os.WriteFile(keyFile, p.Key, 0o600); err != nil {
		return "", "", fmt.Errorf("writing key %s: %w", name, err)
	}
	return certFile, keyFile, nil
}

func sign(template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template.SerialNumber = serial
	template.NotBefore = now.Add(-backdate)
	template.NotAfter = now.Add(validity)
	return x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
}

func encode(der []byte, key *ecdsa.PrivateKey) (KeyPair, error) {
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return KeyPair{}, fmt.Errorf("encoding a private key: %w", err)
	}
	return KeyPair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}, nil
}
