package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/pd-orchestrator/pd-orchestrator/lab/internal/component"
	"github.com/pd-orchestrator/pd-orchestrator/lab/internal/pki"
)

// adminGroup may do everything, whatever the roles say.
const adminGroup = "system:masters"

// tokenSeconds is how long ServiceAccount tokens of the lab hold: longer than
// a lab is used at a stretch.
const tokenSeconds = 24 * 60 * 60

// identity holds the authorities of a lab.
type identity struct {
	cluster *pki.Authority
	etcd    *pki.Authority
	admin   pki.KeyPair
}

// newIdentity makes all certificates and keys of a lab and writes those that
// its components read.
func newIdentity(c component.Cluster) (*identity, error) {
	cluster, err := pki.NewAuthority("pd-orchestrator-lab")
	if err != nil {
		return nil, err
	}
	etcd, err := pki.NewAuthority("pd-orchestrator-lab-etcd")
	if err != nil {
		return nil, err
	}
	// Whoever holds a certificate of this authority may name any user, so it
	// signs nothing else.
	frontProxy, err := pki.NewAuthority("pd-orchestrator-lab-front-proxy")
	if err != nil {
		return nil, err
	}
	id := &identity{cluster: cluster, etcd: etcd}
	if id.admin, err = cluster.Client(component.AdminUser, adminGroup); err != nil {
		return nil, err
	}

	local := []string{"localhost", "127.0.0.1"}
	apiServer := append([]string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "10.96.0.1"}, local...)
	files := []struct {
		name  string
		issue func() (pki.KeyPair, error)
	}{
		{"ca", func() (pki.KeyPair, error) { return cluster.Pair(), nil }},
		{"etcd-ca", func() (pki.KeyPair, error) { return etcd.Pair(), nil }},
		{"front-proxy-ca", func() (pki.KeyPair, error) { return frontProxy.Pair(), nil }},
		{"etcd", func() (pki.KeyPair, error) { return etcd.Serving("etcd", local...) }},
		{"apiserver-etcd-client", func() (pki.KeyPair, error) { return etcd.Client("kube-apiserver") }},
		{"apiserver", func() (pki.KeyPair, error) { return cluster.Serving("kube-apiserver", apiServer...) }},
		{"front-proxy-client", func() (pki.KeyPair, error) { return frontProxy.Client("front-proxy-client") }},
		{"controller-manager", func() (pki.KeyPair, error) { return cluster.Serving("kube-controller-manager", local...) }},
		{"scheduler", func() (pki.KeyPair, error) { return cluster.Serving("kube-scheduler", local...) }},
		{"kwok", func() (pki.KeyPair, error) { return cluster.Serving("kwok", local...) }},
		{"metrics-server", func() (pki.KeyPair, error) {
			return cluster.Serving("metrics-server", append([]string{component.MetricsServerHost}, local...)...)
		}},
		{"custom-metrics", func() (pki.KeyPair, error) {
			return cluster.Serving("custom-metrics", append([]string{component.CustomMetricsHost}, local...)...)
		}},
	}
	for _, file := range files {
		pair, err := file.issue()
		if err != nil {
			return nil, err
		}
		if _, _, err := pair.WriteFiles(filepath.Join(c.Dir, "pki"), file.name); err != nil {
			return nil, err
		}
	}
	signing, err := pki.SigningKey()
	if err != nil {
		return nil, err
	}
	for name, content := range map[string][]byte{"service-account.pub": signing.Cert, "service-account.key": signing.Key} {
		if err := os.WriteFile(c.PKI(name), content, 0o600); err != nil {
			return nil, fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return id, nil
}

// AdminConfig returns a client configuration that may do everything. Like all
// configurations of a lab it has no client-side rate limit.
func (l *Lab) AdminConfig() *rest.Config { return l.certificateConfig(l.identity.admin) }

// UserConfig returns a client configuration for a user of the given name and
// groups, by a client certificate. The user may do what roles bound to it
// allow.
func (l *Lab) UserConfig(name string, groups ...string) (*rest.Config, error) {
	pair, err := l.identity.cluster.Client(name, groups...)
	if err != nil {
		return nil, fmt.Errorf("making user %s: %w", name, err)
	}
	return l.certificateConfig(pair), nil
}

// ServiceAccountConfig returns a client configuration for a ServiceAccount
// that exists, by a token that holds for a day.
func (l *Lab) ServiceAccountConfig(ctx context.Context, namespace, name string) (*rest.Config, error) {
	client, err := kubernetes.NewForConfig(l.AdminConfig())
	if err != nil {
		return nil, fmt.Errorf("getting a token of ServiceAccount %s/%s: %w", namespace, name, err)
	}
	seconds := int64(tokenSeconds)
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("getting a token of ServiceAccount %s/%s: %w", namespace, name, err)
	}
	config := l.apiServerConfig()
	config.BearerToken = token.Status.Token
	return config, nil
}

func (l *Lab) certificateConfig(pair pki.KeyPair) *rest.Config {
	config := l.apiServerConfig()
	config.CertData = pair.Cert
	config.KeyData = pair.Key
	return config
}

// Kubeconfig returns the path of the administrator's kubeconfig.
func (l *Lab) Kubeconfig() string { return l.cluster.Kubeconfig("admin") }

// WriteKubeconfig writes a client configuration of this lab as a kubeconfig
// that needs no other file. It is readable by its owner only.
func WriteKubeconfig(path string, config *rest.Config) error {
	const name = "lab"
	kubeconfig := clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server:                   config.Host,
			CertificateAuthorityData: config.CAData,
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{name: {
			ClientCertificateData: config.CertData,
			ClientKeyData:         config.KeyData,
			Token:                 config.BearerToken,
		}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}
	if err := clientcmd.WriteToFile(kubeconfig, path); err != nil {
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return nil
}

// CABundle returns the certificate of the authority that signs the API
// server's certificate and those of ServingCertificate, as PEM: the caBundle of
// webhooks and APIServices.
func (l *Lab) CABundle() []byte { return l.identity.cluster.Bundle() }

// ServingCertificate issues a server certificate for DNS names and IP
// addresses, as PEM. A webhook that is reached by URL needs "127.0.0.1"; an
// aggregated API needs "<service>.<namespace>.svc", also where its Service is
// of type ExternalName and leads to localhost.
func (l *Lab) ServingCertificate(hosts ...string) (cert, key []byte, err error) {
	pair, err := l.identity.cluster.Serving(hosts[0], hosts...)
	if err != nil {
		return nil, nil, fmt.Errorf("issuing a serving certificate: %w", err)
	}
	return pair.Cert, pair.Key, nil
}

// componentKubeconfigs writes the kubeconfigs of the components that talk to
// the API server, each for its own user.
func (l *Lab) componentKubeconfigs() error {
	for name, user := range map[string]string{
		ControllerManager: component.ControllerManagerUser,
		Scheduler:         component.SchedulerUser,
		Kwok:              component.KwokUser,
		Prometheus:        component.PrometheusUser,
		Simulator:         component.SimulatorUser,
		MetricsServer:     component.MetricsServerUser,
		CustomMetrics:     component.CustomMetricsUser,
	} {
		config, err := l.UserConfig(user)
		if err != nil {
			return err
		}
		if err := WriteKubeconfig(l.cluster.Kubeconfig(name), config); err != nil {
			return err
		}
	}
	return WriteKubeconfig(l.Kubeconfig(), l.AdminConfig())
}
