package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const head = "apiVersion: " + APIVersion + "\nkind: " + Kind + "\n"

func TestParse(t *testing.T) {
	cases := map[string]struct {
		text string
		want func(*Configuration)
		errs []string
	}{
		"defaults stand where nothing is said": {text: head},
		"what is said replaces them": {
			text: head + "crossNamespace: Trusted\nprometheus: {address: 'http://p:9090', labels: {rsg: rsg_name}}\nleaderElection: {enabled: true}\n",
			want: func(c *Configuration) {
				c.CrossNamespace = CrossNamespaceTrusted
				c.Prometheus.Address, c.Prometheus.Labels.RSG = "http://p:9090", "rsg_name"
				c.LeaderElection.Enabled = true
			},
		},
		"with the webhook, references that it admits are followed": {
			text: head + "namespace: scaling-system\nwebhook: {enabled: true, bindAddress: '127.0.0.1:9443', certificates: CertManager, dnsNames: [localhost]}\n",
			want: func(c *Configuration) {
				c.Namespace, c.CrossNamespace = "scaling-system", CrossNamespaceAdmitted
				c.Webhook.Enabled, c.Webhook.BindAddress = true, "127.0.0.1:9443"
				c.Webhook.Certificates, c.Webhook.DNSNames = CertificatesCertManager, []string{"localhost"}
			},
		},
		"with the webhook, they can still be refused": {
			text: head + "webhook: {enabled: true}\ncrossNamespace: Denied\n",
			want: func(c *Configuration) { c.Webhook.Enabled = true },
		},
		"nothing is admitted without the webhook": {
			text: head + "crossNamespace: Admitted\n",
			errs: []string{"crossNamespace", "must be Denied or Trusted unless webhook.enabled is true"},
		},
		"a webhook that could not be served": {
			text: head + "namespace: Not_one\nwebhook: {bindAddress: nine, certificates: None, certDir: '', secretName: A_B, serviceName: a/b, validitySeconds: 59}\n",
			errs: []string{"namespace: Invalid", "webhook.bindAddress", "webhook.certificates", "webhook.certDir", "webhook.secretName", "webhook.serviceName", "webhook.validitySeconds"},
		},
		"some namespaces only": {
			text: head + "watchNamespaces: [inference, scaling-system]\n",
			want: func(c *Configuration) { c.WatchNamespaces = []string{"inference", "scaling-system"} },
		},
		"a namespace that is none": {text: head + "watchNamespaces: [a, '*']\n", errs: []string{"watchNamespaces[1]"}},
		"the component of ElasticScalers": {
			text: head + "elasticScaler: {intervalSeconds: 5, metricsAPIs: {external.metrics.k8s.io: keda/adapter}, stateSources: [{apiVersion: example.com/v1, kind: Schedule}], endpoints: {allow: [127.0.0.0/8]}, signals: {bindAddress: '0'}}\n",
			want: func(c *Configuration) {
				c.ElasticScaler.IntervalSeconds = 5
				c.ElasticScaler.MetricsAPIs = map[string]string{"external.metrics.k8s.io": "keda/adapter"}
				c.ElasticScaler.StateSources = []KindReference{{APIVersion: "example.com/v1", Kind: "Schedule"}}
				c.ElasticScaler.Endpoints.Allow = []string{"127.0.0.0/8"}
				c.ElasticScaler.Signals.BindAddress = "0"
			},
		},
		"a component that could not work": {
			text: head + "elasticScaler: {intervalSeconds: 0, metricsAPIs: {metrics.k8s.io: server}, cpuInitializationSeconds: -1, initialReadinessSeconds: 3601, stateSources: [{apiVersion: a/b/c}], endpoints: {allow: [all], deny: [10.0.0.1]}, signals: {bindAddress: nine}}\n",
			errs: []string{"elasticScaler.intervalSeconds", "metricsAPIs[metrics.k8s.io]", "elasticScaler.cpuInitializationSeconds", "elasticScaler.initialReadinessSeconds", "stateSources[0].apiVersion",
				"stateSources[0].kind", "endpoints.allow[0]", "endpoints.deny[0]", "elasticScaler.signals.bindAddress"},
		},
		"an unknown field":  {text: head + "prometeus: {}\n", errs: []string{`unknown field "prometeus"`}},
		"a field twice":     {text: head + "kind: x\n", errs: []string{"already set"}},
		"another version":   {text: "apiVersion: v1\nkind: " + Kind, errs: []string{"apiVersion", APIVersion}},
		"no version at all": {text: "{}", errs: []string{"apiVersion", "kind"}},
		"everything wrong is told at once": {
			text: head + "crossNamespace: yes please\nlog: {format: xml, level: 11}\nconcurrentReconciles: 0\nclient: {qps: 10, burst: 5}\nprometheus: {address: 'prometheus:9090', timeoutSeconds: 61, maxSampleAgeSeconds: 0}\n",
			errs: []string{"crossNamespace", "log.format", "log.level", "concurrentReconciles", "client.burst", "prometheus.address", "prometheus.timeoutSeconds", "prometheus.maxSampleAgeSeconds"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Parse([]byte(tc.text))
			for _, want := range tc.errs {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want one that has %q", err, want)
				}
			}
			if len(tc.errs) > 0 {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := Default()
			if tc.want != nil {
				tc.want(&want)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("configuration (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(head)
	f.Add(head + "client: {qps: -1}")
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := Parse([]byte(text)); err == nil && len(c.validate()) > 0 {
			t.Errorf("accepted %q, which is not valid", text)
		}
	})
}
