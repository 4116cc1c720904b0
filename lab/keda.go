package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/pd-orchestrator/pd-orchestrator/lab/internal/build"
	"github.com/pd-orchestrator/pd-orchestrator/lab/internal/component"
	"github.com/pd-orchestrator/pd-orchestrator/lab/internal/pki"
	"github.com/pd-orchestrator/pd-orchestrator/lab/internal/process"
)

// kedaParts are KEDA's processes.
var kedaParts = []string{KEDAOperator, KEDAAdapter, KEDAWebhooks}

// kedaAutoscalers selects the HorizontalPodAutoscalers that KEDA makes.
const kedaAutoscalers = "app.kubernetes.io/managed-by=keda-operator"

// InstallKEDACRDs builds KEDA, unless the cache has it, and installs its CRDs
// without anything that acts on them. Installing again updates.
func (l *Lab) InstallKEDACRDs(ctx context.Context) error {
	built, err := l.buildKEDA(ctx)
	if err != nil {
		return err
	}
	return l.installKEDACRDs(ctx, built)
}

// StartKEDA builds KEDA, unless the cache has it, and runs it: its CRDs, its
// operator, its admission webhooks, and its adapter as external.metrics.k8s.io.
// Its processes are the parts KEDAOperator, KEDAWebhooks and KEDAAdapter. They
// act as the ServiceAccount and with the Roles of KEDA's own manifests, and
// their requests per second are limited as those of the controller manager.
// When it returns, ScaledObjects are checked and scaled. Starting again starts
// what does not run.
func (l *Lab) StartKEDA(ctx context.Context) error {
	built, err := l.buildKEDA(ctx)
	if err != nil {
		return err
	}
	if err := l.installKEDACRDs(ctx, built); err != nil {
		return err
	}
	for _, dir := range []string{"access", "access/metrics-server"} {
		err := l.eachObject(built.Files(dir), func(client dynamic.Interface, object *unstructured.Unstructured) error {
			return applyObject(ctx, client, object)
		})
		if err != nil {
			return fmt.Errorf("giving KEDA its Roles: %w", err)
		}
	}
	account, err := l.ServiceAccountConfig(ctx, component.KEDANamespace, component.KEDAAccount)
	if err != nil {
		return err
	}
	if err := WriteKubeconfig(l.cluster.Kubeconfig(component.KEDAAccount), account); err != nil {
		return err
	}
	parts, err := l.addKEDA(built)
	if err != nil {
		return err
	}
	errs := make([]error, len(parts))
	var group sync.WaitGroup
	for i, part := range parts {
		group.Go(func() { errs[i] = part.Start(ctx) })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := l.registerWebhooks(ctx, built.Files("webhooks"), l.cluster.Ports.KEDAWebhooks, l.CABundle()); err != nil {
		return fmt.Errorf("registering KEDA's webhooks: %w", err)
	}
	return l.registerHost(ctx, externalMetrics, component.KEDAAdapterHost, l.cluster.Ports.KEDAAdapter)
}

// StopKEDA ends KEDA's processes and leaves all else as it is, like an outage:
// its API stays registered and does not answer, what it checked passes
// unchecked, and its HorizontalPodAutoscalers stay. A KEDA that does not run is
// no error.
func (l *Lab) StopKEDA() error {
	var errs []error
	for _, name := range kedaParts {
		if part := l.Part(name); part.Running() {
			errs = append(errs, part.Stop())
		}
	}
	return errors.Join(errs...)
}

// RemoveKEDA takes KEDA away: its objects and autoscalers, its CRDs, its
// webhooks, its API and its processes, in the order that lets its operator
// clean up. Removing a KEDA
// that was never started, or whose CRDs alone are there, is no error as long as
// no object waits for the operator.
func (l *Lab) RemoveKEDA(ctx context.Context) error {
	built, err := l.buildKEDA(ctx)
	if err != nil {
		return err
	}
	if err := l.unregisterWebhooks(ctx, built.Files("webhooks")); err != nil {
		return fmt.Errorf("removing KEDA's webhooks: %w", err)
	}
	if err := l.removeCRDs(ctx, built.Files("crd/bases")); err != nil {
		return fmt.Errorf("removing KEDA's CRDs: %w", err)
	}
	if err := l.withdrawKEDA(ctx); err != nil {
		return fmt.Errorf("removing KEDA's API: %w", err)
	}
	if err := l.StopKEDA(); err != nil {
		return err
	}
	return l.removeKEDAAutoscalers(ctx)
}

// removeKEDAAutoscalers does what the garbage collector does only for kinds
// that it has known for a while: it looks for new ones every half minute.
func (l *Lab) removeKEDAAutoscalers(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(l.AdminConfig())
	if err != nil {
		return fmt.Errorf("removing KEDA's autoscalers: %w", err)
	}
	autoscalers, err := client.AutoscalingV2().HorizontalPodAutoscalers(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: kedaAutoscalers})
	if err != nil {
		return fmt.Errorf("removing KEDA's autoscalers: %w", err)
	}
	for _, one := range autoscalers.Items {
		if err := ignoreNotFound(client.AutoscalingV2().HorizontalPodAutoscalers(one.Namespace).Delete(ctx, one.Name, metav1.DeleteOptions{})); err != nil {
			return fmt.Errorf("removing KEDA's autoscaler %s/%s: %w", one.Namespace, one.Name, err)
		}
	}
	return nil
}

// withdrawKEDA gives external.metrics.k8s.io to CustomMetrics, or to nobody.
func (l *Lab) withdrawKEDA(ctx context.Context) error {
	if l.cluster.CustomMetrics {
		return l.registerHost(ctx, externalMetrics, component.CustomMetricsHost, l.cluster.Ports.CustomMetrics)
	}
	client, err := dynamic.NewForConfig(l.AdminConfig())
	if err != nil {
		return err
	}
	name := externalMetrics.Version + "." + externalMetrics.Group
	return ignoreNotFound(client.Resource(apiServices).Delete(ctx, name, metav1.DeleteOptions{}))
}

func (l *Lab) buildKEDA(ctx context.Context) (build.Built, error) {
	_, built, err := buildPart(ctx, l.builder, l.options, build.KEDA)
	return built, err
}

// addKEDA returns KEDA's processes, and adds them where the lab does not have
// them yet.
func (l *Lab) addKEDA(built build.Built) ([]*Part, error) {
	cluster := l.cluster
	cluster.Binaries = map[string]string{}
	for _, name := range kedaParts {
		cluster.Binaries[name] = built.Binary(name)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return nil, errors.New("starting KEDA: the lab is stopped")
	}
	var parts []*Part
	for _, part := range l.parts {
		if slices.Contains(kedaParts, part.name) {
			parts = append(parts, part)
		}
	}
	if parts != nil {
		return parts, nil
	}
	if err := l.writeKEDACertificate(); err != nil {
		return nil, err
	}
	for _, c := range cluster.KEDA() {
		parts = append(parts, &Part{name: c.Name, process: process.New(l.processSpec(c))})
	}
	l.parts = append(l.parts, parts...)
	return parts, nil
}

// writeKEDACertificate issues the one certificate of KEDA's processes.
func (l *Lab) writeKEDACertificate() error {
	pair, err := l.identity.cluster.Serving(component.KEDAAccount, component.KEDAHosts()...)
	if err != nil {
		return err
	}
	dir := l.cluster.KEDACertDir()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("writing KEDA's certificate: %w", err)
	}
	if _, _, err := pair.WriteFiles(dir, "tls"); err != nil {
		return err
	}
	_, _, err = pki.KeyPair{Cert: l.CABundle()}.WriteFiles(dir, "ca")
	return err
}

func (l *Lab) installKEDACRDs(ctx context.Context, built build.Built) error {
	definitions, err := readKEDACRDs(built.Files("crd"))
	if err != nil {
		return fmt.Errorf("reading KEDA's CRDs: %w", err)
	}
	return l.applyCRDs(ctx, definitions)
}

// readKEDACRDs returns KEDA's CRDs as it releases them: as generated, with the
// patches that its kustomization lists.
func readKEDACRDs(dir string) ([]*unstructured.Unstructured, error) {
	definitions, err := readCRDs(filepath.Join(dir, "bases"))
	if err != nil {
		return nil, err
	}
	var kustomization struct {
		Patches []struct {
			Path   string `json:"path"`
			Target struct {
				Name string `json:"name"`
			} `json:"target"`
		} `json:"patches"`
	}
	if err := readYAML(filepath.Join(dir, "kustomization.yaml"), &kustomization); err != nil {
		return nil, err
	}
	if len(kustomization.Patches) == 0 {
		return nil, errors.New("the kustomization has no patches")
	}
	for _, entry := range kustomization.Patches {
		var operations json.RawMessage
		if err := readYAML(filepath.Join(dir, entry.Path), &operations); err != nil {
			return nil, err
		}
		patch, err := jsonpatch.DecodePatch(operations)
		if err != nil {
			return nil, fmt.Errorf("decoding %s: %w", entry.Path, err)
		}
		patched := false
		for _, definition := range definitions {
			if definition.GetName() != entry.Target.Name {
				continue
			}
			text, err := definition.MarshalJSON()
			if err != nil {
				return nil, err
			}
			if text, err = patch.Apply(text); err != nil {
				return nil, fmt.Errorf("applying %s: %w", entry.Path, err)
			}
			if err := definition.UnmarshalJSON(text); err != nil {
				return nil, err
			}
			patched = true
		}
		if !patched {
			return nil, fmt.Errorf("%s is for %q, which is not there", entry.Path, entry.Target.Name)
		}
	}
	return definitions, nil
}

// readYAML reads the one document of a YAML file.
func readYAML(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}
