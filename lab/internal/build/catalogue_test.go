package build

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// realParts is the folder of the lab's own parts.
const realParts = "../../parts"

func TestEveryPartHasAModule(t *testing.T) {
	for name, recipe := range Catalogue() {
		parts, err := versions(realParts, recipe)
		if err != nil {
			t.Errorf("part %s: %v", name, err)
			continue
		}
		for _, part := range parts {
			goMod, err := os.ReadFile(filepath.Join(part.Dir, "go.mod"))
			if err != nil {
				t.Fatal(err)
			}
			for _, command := range recipe.Commands {
				// The tool directive is what keeps the command's dependencies in go.sum.
				if !strings.Contains(string(goMod), command.Package) {
					t.Errorf("part %s: %s/go.mod has no tool %s", name, part.Dir, command.Package)
				}
			}
			if _, err := os.Stat(filepath.Join(part.Dir, "go.sum")); err != nil {
				t.Errorf("part %s: %v", name, err)
			}
		}
	}
	if all := slices.Sorted(slices.Values(append(Standard(), OnDemand()...))); len(all) != len(Catalogue()) {
		t.Errorf("standard and on-demand parts are %v, want all %d of the catalogue", all, len(Catalogue()))
	}
}

func TestFindChoosesTheVersion(t *testing.T) {
	parts := t.TempDir()
	for dir, version := range map[string]string{"kubernetes-1.9": "v1.9.1", "kubernetes-1.28": "v1.28.15", "kubernetes-1.37": "v1.37.2", "kubernetes-notes": ""} {
		write(t, filepath.Join(parts, dir, "go.mod"), "module x\n\nrequire (\n\tk8s.io/kubernetes "+version+"\n\tk8s.io/kubernetes-other v9.9.9\n)\n")
	}
	for want, version := range map[string]string{"": "v1.37.2", "1.28": "v1.28.15", "v1.28.15": "v1.28.15", "1.9": "v1.9.1", "1.9.1": "v1.9.1"} {
		part, err := Find(parts, Kubernetes, want)
		if err != nil || part.Version != version {
			t.Errorf("version %q gives %s (%v), want %s", want, part.Version, err, version)
		}
	}

	for _, unknown := range []string{"1.30", "1.28.14", "1.2", "2"} {
		_, err := Find(parts, Kubernetes, unknown)
		if err == nil {
			t.Errorf("version %s is found", unknown)
			continue
		}
		for _, part := range []string{"no kubernetes " + unknown, "1.9.1, 1.28.15, 1.37.2", "go mod tidy"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("error for version %s is %q, want %q in it", unknown, err, part)
			}
		}
	}
	if _, err := Find(parts, "kubelet", ""); err == nil || !strings.Contains(err.Error(), "kwok") {
		t.Errorf("error for an unknown part is %v, want the list of parts", err)
	}
}

func TestPartsFitKubernetes(t *testing.T) {
	parts := t.TempDir()
	for dir, required := range map[string]string{
		"metrics-server": "sigs.k8s.io/metrics-server v0.8.0", "metrics-server-0.7": "sigs.k8s.io/metrics-server v0.7.2", "helm": "helm.sh/helm/v4 v4.3.1",
	} {
		write(t, filepath.Join(parts, dir, "go.mod"), "module x\n\nrequire "+required+"\n")
	}
	for _, tt := range []struct{ part, kubernetes, version string }{
		{MetricsServer, "v1.37.2", "v0.8.0"}, {MetricsServer, "v1.31.0", "v0.8.0"}, {MetricsServer, "v1.30.9", "v0.7.2"}, {MetricsServer, "v1.28.15", "v0.7.2"},
		{Helm, "v1.28.15", "v4.3.1"},
	} {
		if part, err := FindFor(parts, tt.part, tt.kubernetes); err != nil || part.Version != tt.version {
			t.Errorf("with Kubernetes %s there is %s %s (%v), want %s", tt.kubernetes, tt.part, part.Version, err, tt.version)
		}
	}
	if _, err := FindFor(parts, MetricsServer, "v1.26.3"); err == nil || !strings.Contains(err.Error(), "needs 1.27") {
		t.Errorf("with Kubernetes 1.26 the error is %v, want the version that is needed", err)
	}
}

func TestPrometheusRelease(t *testing.T) {
	for module, release := range map[string]string{"v0.316.0": "3.16.0", "v0.300.2": "3.0.2", "v0.55.1": "0.55.1", "v2.1.0": "2.1.0"} {
		if got := prometheusRelease(module); got != release {
			t.Errorf("module %s is release %s, want %s", module, got, release)
		}
	}
}

func TestKubernetesKnowsItsVersion(t *testing.T) {
	stamps := stampKubernetes("v1.28.15")
	for _, want := range []string{
		"k8s.io/component-base/version.gitVersion=v1.28.15",
		"k8s.io/component-base/version.gitMajor=1",
		"k8s.io/component-base/version.gitMinor=28",
	} {
		if !slices.Contains(stamps, want) {
			t.Errorf("stamps %v lack %s", stamps, want)
		}
	}
}
