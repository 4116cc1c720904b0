package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// upstream writes a small module and a part that builds it, and returns the
// folder of parts.
func upstream(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "up/go.mod"), "module example.com/up\n\ngo 1.26.0\n")
	write(t, filepath.Join(dir, "up/cmd/hello/main.go"), `package main

var version = "unknown"

func main() { print("hello ", version) }
`)
	write(t, filepath.Join(dir, "up/stages/a.yaml"), "a: 1\n")
	write(t, filepath.Join(dir, "up/stages/kustomization.txt"), "not copied\n")
	write(t, filepath.Join(dir, "parts/hello/go.mod"), fmt.Sprintf(`module example.com/parts/hello

go 1.26.0

require example.com/up %s // indirect

replace example.com/up => ../../up
`, version))
	write(t, filepath.Join(dir, "parts/hello/go.sum"), "")
	return filepath.Join(dir, "parts")
}

func helloPart(parts, version string) Part {
	return Part{
		Recipe: Recipe{
			Name:     "hello",
			Module:   "example.com/up",
			Commands: []Command{{Binary: "hi", Package: "example.com/up/cmd/hello"}},
			Files:    []Files{{From: "stages/*.yaml", To: "stages"}},
			Stamp:    func(version string) []string { return []string{"main.version=" + version} },
		},
		Dir:     filepath.Join(parts, "hello"),
		Version: version,
	}
}

func TestPartIsBuiltOnce(t *testing.T) {
	part := helloPart(upstream(t, "v1.2.3"), "v1.2.3")
	var progress bytes.Buffer
	builder := &Builder{Cache: t.TempDir(), Progress: &progress}

	built, err := builder.Part(t.Context(), part)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(built.Binary("hi")).CombinedOutput()
	if err != nil || string(out) != "hello v1.2.3" {
		t.Errorf("the program prints %q (%v), want it to know its version", out, err)
	}
	files, err := os.ReadDir(built.Files("stages"))
	if err != nil || len(files) != 1 || files[0].Name() != "a.yaml" {
		t.Errorf("copied files are %v (%v), want a.yaml only", files, err)
	}
	if !strings.Contains(progress.String(), "building") {
		t.Errorf("progress %q does not say that something is built", &progress)
	}

	progress.Reset()
	again, err := builder.Part(t.Context(), part)
	if err != nil {
		t.Fatal(err)
	}
	if again != built || progress.Len() > 0 {
		t.Errorf("asked again it gives %v and says %q, want %v and nothing", again, &progress, built)
	}
}

func TestConcurrentBuildersBuildOnce(t *testing.T) {
	part := helloPart(upstream(t, "v1.2.3"), "v1.2.3")
	cache := t.TempDir()
	progress := &syncBuffer{}
	var group sync.WaitGroup
	for range 4 {
		// Locks of the kernel belong to open files, so builders in one process
		// exclude each other as those of several do.
		group.Go(func() {
			builder := &Builder{Cache: cache, Progress: progress}
			if _, err := builder.Part(t.Context(), part); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := strings.Count(progress.String(), "built in"); n != 1 {
		t.Errorf("the part was built %d times, want once:\n%s", n, progress.String())
	}
}

func TestKeyCoversWhatDecidesTheBuild(t *testing.T) {
	parts := upstream(t, "v1.2.3")
	base := helloPart(parts, "v1.2.3")
	key := func(part Part) string {
		t.Helper()
		key, err := partKey(t.Context(), part)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	first := key(base)
	if again := key(base); again != first {
		t.Errorf("key is %s and then %s, want the same", first, again)
	}

	stamped := base
	stamped.Stamp = func(string) []string { return []string{"main.version=other"} }
	versioned := helloPart(parts, "v1.2.4")
	filed := base
	filed.Files = nil
	for name, part := range map[string]Part{"stamp": stamped, "version": versioned, "files": filed} {
		if key(part) == first {
			t.Errorf("another %s gives the same key", name)
		}
	}
	write(t, filepath.Join(base.Dir, "go.sum"), "example.com/x v1.0.0 h1:AAAA=\n")
	if key(base) == first {
		t.Error("another go.sum gives the same key")
	}
}

func TestInterruptedBuildLeavesNoEntry(t *testing.T) {
	builder := &Builder{Cache: t.TempDir()}
	entry := filepath.Join(builder.Cache, "part", "key")

	ctx, cancel := context.WithCancel(t.Context())
	err := builder.once(ctx, "part", entry, func(dir string) error {
		write(t, filepath.Join(dir, "half"), "half")
		cancel()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want the context's", err)
	}
	if isDir(entry) || isDir(entry+".partial") {
		t.Error("the interrupted build left something behind")
	}

	// As after SIGKILL.
	write(t, filepath.Join(entry+".partial", "half"), "half")
	err = builder.once(t.Context(), "part", entry, func(dir string) error {
		if _, err := os.Stat(filepath.Join(dir, "half")); err == nil {
			t.Error("a build goes on with what a killed one left")
		}
		return nil
	})
	if err != nil || !isDir(entry) {
		t.Errorf("after a killed build: entry exists = %t, %v", isDir(entry), err)
	}
}

func TestInterruptedCompilerIsEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.Command("sleep", "600")
	started := time.Now()
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := run(ctx, cmd, &bytes.Buffer{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want the context's", err)
	}
	if took := time.Since(started); took > interruptGrace {
		t.Errorf("it took %s to end", took)
	}
}

func TestBuildErrorShowsTheCompilersMessage(t *testing.T) {
	parts := upstream(t, "v1.2.3")
	write(t, filepath.Join(filepath.Dir(parts), "up/cmd/hello/main.go"), "package main\n\nfunc main() { undefinedName() }\n")
	builder := &Builder{Cache: t.TempDir()}
	_, err := builder.Part(t.Context(), helloPart(parts, "v1.2.3"))
	if err == nil || !strings.Contains(err.Error(), "undefined: undefinedName") {
		t.Errorf("error is %v, want the compiler's message in it", err)
	}
}

func TestSourceIsBuiltPerStateOfTheSources(t *testing.T) {
	module := t.TempDir()
	write(t, filepath.Join(module, "go.mod"), "module example.com/tool\n\ngo 1.26.0\n")
	write(t, filepath.Join(module, "cmd/tool/main.go"), "package main\n\nfunc main() { print(1) }\n")
	builder := &Builder{Cache: t.TempDir()}
	source := func() string {
		t.Helper()
		program, err := builder.Source(t.Context(), module, "./cmd/tool")
		if err != nil {
			t.Fatal(err)
		}
		return program
	}
	first := source()
	write(t, filepath.Join(module, "cmd/tool/main_test.go"), "package main\n")
	write(t, filepath.Join(module, "nested/go.mod"), "module example.com/nested\n")
	write(t, filepath.Join(module, "nested/x.go"), "package nested\n")
	if second := source(); second != first {
		t.Errorf("tests and nested modules change the build: %s, %s", first, second)
	}
	write(t, filepath.Join(module, "cmd/tool/main.go"), "package main\n\nfunc main() { print(2) }\n")
	second := source()
	if second == first {
		t.Error("changed sources give the old build")
	}
	if out, err := exec.Command(second).CombinedOutput(); err != nil || string(out) != "2" {
		t.Errorf("the program prints %q (%v), want 2", out, err)
	}
}

func TestPruneKeepsTheNewest(t *testing.T) {
	family := t.TempDir()
	for i := range 5 {
		entry := filepath.Join(family, fmt.Sprint(i))
		write(t, filepath.Join(entry, "bin/x"), "x")
		used := time.Unix(int64(1000+i), 0)
		if err := os.Chtimes(entry, used, used); err != nil {
			t.Fatal(err)
		}
	}
	if err := prune(family, 2); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(family, "*"))
	if err != nil || len(left) != 2 || filepath.Base(left[0]) != "3" || filepath.Base(left[1]) != "4" {
		t.Errorf("left are %v (%v), want the entries 3 and 4", left, err)
	}
}

func TestWatchCountsPackages(t *testing.T) {
	watch := newWatch(&Builder{}, "part")
	defer watch.stop()
	// The go command's output arrives in pieces that end anywhere.
	for _, piece := range []string{"go: downloading example.com/a v1", ".0.0\nexample.com/a", "/b\n# example.com/c\n", "a.go:1:2: broken code\nstd\n"} {
		if _, err := watch.Write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	if fetched, compiled := watch.fetched.Load(), watch.compiled.Load(); fetched != 1 || compiled != 2 {
		t.Errorf("counted %d modules and %d packages, want 1 and 2", fetched, compiled)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// syncBuffer is a buffer for several writers.
type syncBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
