// Package build compiles the parts of a lab from Go modules into a cache
// outside the repository, once per version.
//
// What a part consists of is data (see Catalogue); which version is built is
// what the part's own module under lab/parts requires. A part lives in a module
// of its own because upstream projects pin their dependencies against each
// other.
package build

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Recipe says how a part is built.
type Recipe struct {
	// Name is the part's name. Its module is lab/parts/<name>, or
	// lab/parts/<name>-<version> where several versions stand side by side.
	Name string
	// Module is the upstream module whose version is the part's version.
	Module string
	// Commands are the programs that are built.
	Commands []Command
	// Files are copied from the upstream module beside the programs.
	Files []Files
	// Stamp returns linker assignments (variable=value) that tell the programs
	// their version; version is the module's, such as "v1.37.2".
	Stamp func(version string) []string
	// Needs says from which minor version of Kubernetes 1 on a version of the
	// part runs, by how it begins, such as "v0.8.": 31. What it does not name
	// runs with every version that the lab has.
	Needs map[string]int
	// Minutes is about how long a first build takes on two cores.
	Minutes int
}

// Command is one program of a part.
type Command struct {
	// Binary is the file name it gets.
	Binary string
	// Package is the import path of its main package.
	Package string
}

// Files are files of the upstream module that the lab needs at run time.
type Files struct {
	// From is a glob relative to the module's root.
	From string
	// To is the folder they are copied to, relative to the part's files.
	To string
}

// Names of the parts in the catalogue.
const (
	Etcd          = "etcd"
	Kubernetes    = "kubernetes"
	Kwok          = "kwok"
	Prometheus    = "prometheus"
	KEDA          = "keda"
	MetricsServer = "metrics-server"
	CustomMetrics = "custom-metrics"
	Helm          = "helm"
)

// Standard lists the parts that every lab needs, in the order they are built.
func Standard() []string { return []string{Etcd, Kwok, Prometheus, Kubernetes} }

// OnDemand lists the parts that are built only when asked for.
func OnDemand() []string { return []string{CustomMetrics, Helm, KEDA, MetricsServer} }

// Catalogue returns all recipes by part name.
func Catalogue() map[string]Recipe {
	recipes := []Recipe{
		{
			Name:     Etcd,
			Module:   "go.etcd.io/etcd/server/v3",
			Commands: []Command{{Binary: "etcd", Package: "go.etcd.io/etcd/server/v3"}},
			Minutes:  1,
		},
		{
			Name:   Kubernetes,
			Module: "k8s.io/kubernetes",
			Commands: []Command{
				{Binary: "kube-apiserver", Package: "k8s.io/kubernetes/cmd/kube-apiserver"},
				{Binary: "kube-controller-manager", Package: "k8s.io/kubernetes/cmd/kube-controller-manager"},
				{Binary: "kube-scheduler", Package: "k8s.io/kubernetes/cmd/kube-scheduler"},
			},
			Stamp:   stampKubernetes,
			Minutes: 10,
		},
		{
			Name:     Kwok,
			Module:   "sigs.k8s.io/kwok",
			Commands: []Command{{Binary: "kwok", Package: "sigs.k8s.io/kwok/cmd/kwok"}},
			Files: []Files{
				{From: "kustomize/stage/node/fast/node-*.yaml", To: "stages"},
				{From: "kustomize/stage/pod/fast/pod-*.yaml", To: "stages"},
			},
			Stamp: func(version string) []string {
				return []string{"sigs.k8s.io/kwok/pkg/consts.Version=" + strings.TrimPrefix(version, "v")}
			},
			Minutes: 3,
		},
		{
			Name:     Prometheus,
			Module:   "github.com/prometheus/prometheus",
			Commands: []Command{{Binary: "prometheus", Package: "github.com/prometheus/prometheus/cmd/prometheus"}},
			Stamp: func(version string) []string {
				return []string{"github.com/prometheus/common/version.Version=" + prometheusRelease(version)}
			},
			Minutes: 6,
		},
		{
			Name:   KEDA,
			Module: "github.com/kedacore/keda/v2",
			Commands: []Command{
				{Binary: "keda-operator", Package: "github.com/kedacore/keda/v2/cmd/operator"},
				{Binary: "keda-adapter", Package: "github.com/kedacore/keda/v2/cmd/adapter"},
				{Binary: "keda-webhooks", Package: "github.com/kedacore/keda/v2/cmd/webhooks"},
			},
			Files: []Files{
				{From: "config/crd/kustomization.yaml", To: "crd"},
				{From: "config/crd/bases/*.yaml", To: "crd/bases"},
				{From: "config/crd/patches/*.yaml", To: "crd/patches"},
				{From: "config/general/namespace.yaml", To: "access"},
				{From: "config/service_account/service_account.yaml", To: "access"},
				{From: "config/rbac/*role*.yaml", To: "access"},
				{From: "config/metrics-server/role*.yaml", To: "access/metrics-server"},
				{From: "config/webhooks/validation_webhooks.yaml", To: "webhooks"},
			},
			Stamp: func(version string) []string {
				return []string{"github.com/kedacore/keda/v2/version.Version=" + strings.TrimPrefix(version, "v")}
			},
			Minutes: 11,
		},
		{
			Name:     MetricsServer,
			Module:   "sigs.k8s.io/metrics-server",
			Commands: []Command{{Binary: "metrics-server", Package: "sigs.k8s.io/metrics-server/cmd/metrics-server"}},
			Stamp: func(version string) []string {
				return []string{"k8s.io/component-base/version.gitVersion=" + version}
			},
			// By the table of its README.
			Needs:   map[string]int{"v0.7.": 27, "v0.8.": 31},
			Minutes: 4,
		},
		{
			Name:     CustomMetrics,
			Module:   "sigs.k8s.io/prometheus-adapter",
			Commands: []Command{{Binary: "prometheus-adapter", Package: "sigs.k8s.io/prometheus-adapter/cmd/adapter"}},
			Minutes:  4,
		},
		{
			Name:     Helm,
			Module:   "helm.sh/helm/v4",
			Commands: []Command{{Binary: "helm", Package: "helm.sh/helm/v4/cmd/helm"}},
			Stamp: func(version string) []string {
				return []string{"helm.sh/helm/v4/internal/version.version=" + version}
			},
			Minutes: 4,
		},
	}
	byName := make(map[string]Recipe, len(recipes))
	for _, recipe := range recipes {
		byName[recipe.Name] = recipe
	}
	return byName
}

// stampKubernetes sets what the release scripts set. An API server without it
// calls itself v0.0.0-master, which clients that parse versions refuse. Date
// and commit are constants, so that a build can be repeated bit by bit.
func stampKubernetes(version string) []string {
	numbers := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	var stamps []string
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		stamps = append(stamps,
			pkg+".gitVersion="+version,
			pkg+".gitMajor="+numbers[0],
			pkg+".gitMinor="+numbers[1],
			pkg+".gitTreeState=clean",
			pkg+".gitCommit=module",
			pkg+".buildDate=1970-01-01T00:00:00Z",
		)
	}
	return stamps
}

// prometheusRelease turns a module version into the release's: Prometheus
// publishes release 3.16.0 as module v0.316.0.
func prometheusRelease(version string) string {
	numbers := strings.Split(strings.TrimPrefix(version, "v"), ".")
	if len(numbers) != 3 || numbers[0] != "0" || len(numbers[1]) < 3 {
		return strings.TrimPrefix(version, "v")
	}
	minor := strings.TrimLeft(numbers[1][1:], "0")
	if minor == "" {
		minor = "0"
	}
	return numbers[1][:1] + "." + minor + "." + numbers[2]
}

// Part is a recipe together with the module that fixes its version.
type Part struct {
	Recipe

	// Dir is the folder of the part's module.
	Dir string
	// Version is the version of the upstream module, such as "v1.37.2".
	Version string
}

// Find returns a part of the catalogue. The version chooses between modules
// that stand side by side and may be "1.28", "1.28.15" or "v1.28.15"; empty
// means the newest. A part or version that is not there is an error that lists
// what is.
func Find(partsDir, name, version string) (Part, error) {
	recipe, ok := Catalogue()[name]
	if !ok {
		return Part{}, fmt.Errorf("no part %q in the lab: there are %s",
			name, strings.Join(slices.Sorted(maps.Keys(Catalogue())), ", "))
	}
	parts, err := versions(partsDir, recipe)
	if err != nil {
		return Part{}, err
	}
	if version == "" {
		return parts[len(parts)-1], nil
	}
	want := "v" + strings.TrimPrefix(version, "v")
	var available []string
	for _, part := range parts {
		if part.Version == want || strings.HasPrefix(part.Version, want+".") {
			return part, nil
		}
		available = append(available, strings.TrimPrefix(part.Version, "v"))
	}
	minor := strings.Join(strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)[:min(2, strings.Count(version, ".")+1)], ".")
	return Part{}, fmt.Errorf("no %s %s in the lab: there are %s; to add one, copy the folder of a neighbour in lab/parts to %s-%s, "+
		"set the version of %s in its go.mod (and of the modules that it replaces), and run `go mod tidy` there",
		name, version, strings.Join(available, ", "), name, minor, recipe.Module)
}

// FindFor returns the newest version of a part that runs with a version of
// Kubernetes, such as "v1.28.15".
func FindFor(partsDir, name, kubernetes string) (Part, error) {
	newest, err := Find(partsDir, name, "")
	if err != nil {
		return Part{}, err
	}
	parts, err := versions(partsDir, newest.Recipe)
	if err != nil {
		return Part{}, err
	}
	for _, part := range slices.Backward(parts) {
		if compareVersions(kubernetes, fmt.Sprintf("v1.%d", part.since())) >= 0 {
			return part, nil
		}
	}
	return Part{}, fmt.Errorf("no version of %s in the lab runs with Kubernetes %s: the oldest, %s, needs 1.%d",
		name, strings.TrimPrefix(kubernetes, "v"), parts[0].Version, parts[0].since())
}

// since is the minor version of Kubernetes 1 that the part needs, 0 for any.
func (p Part) since() int {
	for prefix, minor := range p.Needs {
		if strings.HasPrefix(p.Version, prefix) {
			return minor
		}
	}
	return 0
}

// versions returns the modules of a recipe, oldest first.
func versions(partsDir string, recipe Recipe) ([]Part, error) {
	dirs, err := filepath.Glob(filepath.Join(partsDir, recipe.Name+"*"))
	if err != nil {
		return nil, fmt.Errorf("looking for the modules of %s: %w", recipe.Name, err)
	}
	var parts []Part
	for _, dir := range dirs {
		suffix := strings.TrimPrefix(filepath.Base(dir), recipe.Name)
		if suffix != "" && !versionSuffix.MatchString(suffix) {
			continue
		}
		version, err := requiredVersion(filepath.Join(dir, "go.mod"), recipe.Module)
		if err != nil {
			return nil, err
		}
		parts = append(parts, Part{Recipe: recipe, Dir: dir, Version: version})
	}
	if len(parts) == 0 {
		return nil, fmt.Errorf("looking for the module of %s: nothing like %s in %s", recipe.Name, recipe.Name, partsDir)
	}
	slices.SortFunc(parts, func(a, b Part) int { return compareVersions(a.Version, b.Version) })
	return parts, nil
}

var versionSuffix = regexp.MustCompile(`^-\d+(\.\d+)*$`)

// requiredVersion reads which version of a module a go.mod requires.
func requiredVersion(goMod, module string) (string, error) {
	text, err := os.ReadFile(goMod)
	if err != nil {
		return "", fmt.Errorf("reading the version of %s: %w", module, err)
	}
	require := regexp.MustCompile(`(?m)^\s*(?:require\s+)?` + regexp.QuoteMeta(module) + `\s+(v\S+)`)
	match := require.FindSubmatch(text)
	if match == nil {
		return "", fmt.Errorf("reading the version of %s: %s does not require it", module, goMod)
	}
	return string(match[1]), nil
}

// compareVersions orders release versions such as v1.9.0 and v1.10.0.
func compareVersions(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(as), len(bs)) {
		x, y := strings.TrimPrefix(as[i], "v"), strings.TrimPrefix(bs[i], "v")
		if len(x) != len(y) {
			return len(x) - len(y)
		}
		if x != y {
			return strings.Compare(x, y)
		}
	}
	return len(as) - len(bs)
}
