package build

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pd-orchestrator/pd-orchestrator/lab/internal/process"
)

// Builder builds parts and keeps them in a cache.
type Builder struct {
	// Cache is the folder of the cache, shared by everything on the machine.
	Cache string
	// Progress receives one line per step, and at least one every 15 s while
	// something is being built.
	Progress io.Writer
	// Race builds programs with Go's race detector, which needs a C compiler.
	Race bool
}

// Built is a finished cache entry.
type Built struct {
	dir string
}

// Binary returns the path of a program of the part.
func (b Built) Binary(name string) string { return filepath.Join(b.dir, "bin", name) }

// Files returns the folder of files copied from upstream under the given name.
func (b Built) Files(name string) string { return filepath.Join(b.dir, "files", name) }

// DefaultCache returns $PDO_LAB_CACHE, or pd-orchestrator-lab in the user's
// cache folder.
func DefaultCache() (string, error) {
	if dir := os.Getenv("PDO_LAB_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding a place for the lab's cache (set PDO_LAB_CACHE to choose one): %w", err)
	}
	return filepath.Join(dir, "pd-orchestrator-lab"), nil
}

// keptSourceBuilds is how many builds of one program of this repository stay
// in the cache; each state of the sources makes one.
const keptSourceBuilds = 8

// progressInterval is the time between two lines about one long step.
const progressInterval = 10 * time.Second

// Part returns the cache entry of a part and builds it first where it is
// missing. Of two processes that ask at once one builds and one waits. A build
// that is interrupted leaves no entry.
func (b *Builder) Part(ctx context.Context, part Part) (Built, error) {
	key, err := partKey(ctx, part)
	if err != nil {
		return Built{}, err
	}
	entry := filepath.Join(b.Cache, part.Name, key)
	err = b.once(ctx, part.Name+" "+part.Version, entry, func(dir string) error {
		return b.buildPart(ctx, part, dir)
	})
	if err != nil {
		return Built{}, err
	}
	return Built{dir: entry}, nil
}

// Source returns the program of a main package in a module of this repository
// and builds it first unless the cache has it from the same sources.
func (b *Builder) Source(ctx context.Context, moduleDir, pkg string) (string, error) {
	name := filepath.Base(pkg)
	hash, err := sourceHash(moduleDir)
	if err != nil {
		return "", err
	}
	goVersion, err := goVersion(ctx, moduleDir)
	if err != nil {
		return "", err
	}
	family := filepath.Join(b.Cache, "source", name)
	build := fmt.Sprintf("%s-%s-%s-%s", runtime.GOOS, runtime.GOARCH, goVersion, hash)
	if b.Race {
		build += "-race"
	}
	entry := filepath.Join(family, build)
	err = b.once(ctx, name, entry, func(dir string) error {
		recipe := Recipe{Name: name, Commands: []Command{{Binary: name, Package: pkg}}}
		return b.compile(ctx, Part{Recipe: recipe, Dir: moduleDir}, dir)
	})
	if err != nil {
		return "", err
	}
	now := time.Now()
	if err := os.Chtimes(entry, now, now); err != nil {
		return "", fmt.Errorf("marking %s as used: %w", name, err)
	}
	if err := prune(family, keptSourceBuilds); err != nil {
		return "", err
	}
	return Built{dir: entry}.Binary(name), nil
}

// once makes a cache entry by calling fill with an empty folder, which becomes
// the entry by one rename.
func (b *Builder) once(ctx context.Context, what, entry string, fill func(dir string) error) error {
	if isDir(entry) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(entry), 0o750); err != nil {
		return fmt.Errorf("making the lab's cache: %w", err)
	}
	unlock, err := b.lock(ctx, what, entry+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if isDir(entry) {
		return nil
	}
	// The lock makes this name ours; what lies there is from a build that was
	// killed.
	partial := entry + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return fmt.Errorf("clearing an interrupted build of %s: %w", what, err)
	}
	defer func() { _ = os.RemoveAll(partial) }()
	if err := os.Mkdir(partial, 0o750); err != nil {
		return fmt.Errorf("building %s: %w", what, err)
	}
	if err := fill(partial); err != nil {
		return fmt.Errorf("building %s: %w", what, err)
	}
	if err := os.Rename(partial, entry); err != nil {
		return fmt.Errorf("putting %s into the cache: %w", what, err)
	}
	return nil
}

// lock takes an exclusive lock that the kernel drops when this process ends.
func (b *Builder) lock(ctx context.Context, what, path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the build of %s: %w", what, err)
	}
	started := time.Now()
	said := time.Time{}
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = file.Close()
			return nil, fmt.Errorf("locking the build of %s: %w", what, err)
		}
		if time.Since(said) >= progressInterval {
			said = time.Now()
			b.say("%s: another process is building it; waiting for %d s", what, int(time.Since(started).Seconds()))
		}
		select {
		case <-ctx.Done():
			_ = file.Close()
			return nil, fmt.Errorf("waiting for another process that builds %s: %w", what, ctx.Err())
		case <-ticker.C:
		}
	}
}

func (b *Builder) buildPart(ctx context.Context, part Part, dir string) error {
	b.say("%s %s: building it from its Go modules, once (about %d min on 2 cores)", part.Name, part.Version, part.Minutes)
	if err := b.compile(ctx, part, dir); err != nil {
		return err
	}
	if len(part.Files) == 0 {
		return nil
	}
	moduleDir, err := moduleFolder(ctx, part)
	if err != nil {
		return err
	}
	for _, files := range part.Files {
		if err := copyFiles(moduleDir, files, filepath.Join(dir, "files")); err != nil {
			return err
		}
	}
	return nil
}

// compile builds the programs of a part into dir/bin.
func (b *Builder) compile(ctx context.Context, part Part, dir string) error {
	label := strings.TrimSpace(part.Name + " " + part.Version)
	packages := make([]string, 0, len(part.Commands))
	for _, command := range part.Commands {
		packages = append(packages, command.Package)
	}

	watch := newWatch(b, label)
	defer watch.stop()
	watch.phase("fetching modules")
	list, err := run(ctx, goCommand(part.Dir, append([]string{"list", "-mod=readonly", "-deps", "-f", "{{.ImportPath}}"}, packages...)...), watch)
	if err != nil {
		return err
	}
	watch.expect(bytes.Count(list, []byte("\n")))
	for _, command := range part.Commands {
		if err := ctx.Err(); err != nil {
			return err
		}
		watch.phase("compiling " + command.Binary)
		args := []string{"build", "-v", "-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", ldflags(part)}
		if b.Race {
			args = append(args, "-race")
		}
		build := goCommand(part.Dir, append(args, "-o", filepath.Join(dir, "bin", command.Binary), command.Package)...)
		if b.Race {
			build.Env = append(build.Env, "CGO_ENABLED=1")
		}
		if _, err := run(ctx, build, watch); err != nil {
			return err
		}
	}
	b.say("%s: built in %d s", label, watch.seconds())
	return nil
}

func ldflags(part Part) string {
	// Symbol tables are left out: they make up a third of a program.
	flags := []string{"-s", "-w"}
	if part.Stamp != nil {
		for _, assignment := range part.Stamp(part.Version) {
			flags = append(flags, "-X", assignment)
		}
	}
	return strings.Join(flags, " ")
}

func (b *Builder) say(format string, args ...any) {
	if b.Progress != nil {
		_, _ = fmt.Fprintf(b.Progress, "lab: "+format+"\n", args...)
	}
}

// partKey names the cache entry of a part: all that decides what comes out of
// the build is in it.
func partKey(ctx context.Context, part Part) (string, error) {
	hash := sha256.New()
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(part.Dir, name))
		if err != nil {
			return "", fmt.Errorf("computing the cache key of %s: %w", part.Name, err)
		}
		_, _ = fmt.Fprintf(hash, "%s %d\n", name, len(text))
		hash.Write(text)
	}
	_, _ = fmt.Fprintln(hash, part.Commands, part.Files, ldflags(part))
	goVersion, err := goVersion(ctx, part.Dir)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s-%s-%s-%s-%s", part.Version, runtime.GOOS, runtime.GOARCH, goVersion,
		hex.EncodeToString(hash.Sum(nil))[:16]), nil
}

// sourceHash covers every file of a module that can take part in a build.
// Nested modules, tests and folders that Go ignores are left out.
func sourceHash(moduleDir string) (string, error) {
	hash := sha256.New()
	err := filepath.WalkDir(moduleDir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if path == moduleDir {
				return nil
			}
			if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "bin" || name == "dist" || name == "docs" {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
				return filepath.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(moduleDir, path)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(hash, "%q %d\n", relative, len(text))
		hash.Write(text)
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("hashing the sources in %s: %w", moduleDir, err)
	}
	return hex.EncodeToString(hash.Sum(nil))[:16], nil
}

// prune removes all but the newest entries of a folder.
func prune(family string, keep int) error {
	entries, err := os.ReadDir(family)
	if err != nil {
		return fmt.Errorf("pruning the cache: %w", err)
	}
	type aged struct {
		path string
		used time.Time
	}
	var builds []aged
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !entry.IsDir() || strings.HasSuffix(entry.Name(), ".partial") {
			continue
		}
		builds = append(builds, aged{filepath.Join(family, entry.Name()), info.ModTime()})
	}
	if len(builds) <= keep {
		return nil
	}
	slices.SortFunc(builds, func(a, b aged) int { return b.used.Compare(a.used) })
	for _, old := range builds[keep:] {
		if err := os.RemoveAll(old.path); err != nil {
			return fmt.Errorf("pruning the cache: %w", err)
		}
		_ = os.Remove(old.path + ".lock")
	}
	return nil
}

// moduleFolder returns where the upstream module of a part lies. The build has
// fetched it.
func moduleFolder(ctx context.Context, part Part) (string, error) {
	out, err := run(ctx, goCommand(part.Dir, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", part.Module), io.Discard)
	if err != nil {
		return "", err
	}
	dir := strings.TrimSpace(string(out))
	if dir == "" {
		return "", fmt.Errorf("finding the files of %s: go names no folder", part.Module)
	}
	return dir, nil
}

func copyFiles(moduleDir string, files Files, to string) error {
	paths, err := filepath.Glob(filepath.Join(moduleDir, filepath.FromSlash(files.From)))
	if err != nil {
		return fmt.Errorf("copying %s: %w", files.From, err)
	}
	if len(paths) == 0 {
		return fmt.Errorf("copying %s: no such files in %s", files.From, moduleDir)
	}
	target := filepath.Join(to, files.To)
	if err := os.MkdirAll(target, 0o750); err != nil {
		return fmt.Errorf("copying %s: %w", files.From, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("copying %s: %w", files.From, err)
		}
		if err := os.WriteFile(filepath.Join(target, filepath.Base(path)), text, 0o600); err != nil {
			return fmt.Errorf("copying %s: %w", files.From, err)
		}
	}
	return nil
}

func goVersion(ctx context.Context, dir string) (string, error) {
	out, err := run(ctx, goCommand(dir, "env", "GOVERSION"), io.Discard)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(out)), nil
}

// goCommand is a call of the go tool for this machine, whatever a workspace or
// the environment says.
func goCommand(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command("go", args...) //nolint:noctx // run ends it, gently at first.
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
	return cmd
}

// interruptGrace is how long an interrupted go command may take to remove its
// temporary files.
const interruptGrace = 5 * time.Second

// run runs a command and returns its standard output. Its standard error goes
// to progress, and its end into the error where the command fails.
func run(ctx context.Context, cmd *exec.Cmd, progress io.Writer) ([]byte, error) {
	var stdout bytes.Buffer
	last := &lastLines{limit: 40}
	cmd.Stdout = &stdout
	cmd.Stderr = io.MultiWriter(progress, last)
	what := "go " + strings.Join(cmd.Args[1:min(2, len(cmd.Args))], " ")
	if err := process.StartBound(cmd); err != nil {
		return nil, fmt.Errorf("running %s: %w", what, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT)
		timer := time.NewTimer(interruptGrace)
		select {
		case <-ended:
		case <-timer.C:
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-ended
		}
		timer.Stop()
		return nil, fmt.Errorf("running %s: %w", what, ctx.Err())
	}
	if err != nil {
		return nil, fmt.Errorf("running %s in %s: %w\n%s", what, cmd.Dir, err, last)
	}
	return stdout.Bytes(), nil
}

// lastLines keeps the end of what is written to it.
type lastLines struct {
	limit int
	text  []byte
}

func (l *lastLines) Write(p []byte) (int, error) {
	l.text = append(l.text, p...)
	for bytes.Count(l.text, []byte("\n")) > l.limit {
		l.text = l.text[bytes.IndexByte(l.text, '\n')+1:]
	}
	return len(p), nil
}

func (l *lastLines) String() string { return string(bytes.TrimSpace(l.text)) }

// watch reports on a build while it runs. What the go command writes to its
// standard error is written to it: one line per module fetched or package
// compiled.
type watch struct {
	builder  *Builder
	label    string
	started  time.Time
	phases   chan string
	done     chan struct{}
	stopped  chan struct{}
	fetched  atomic.Int64
	compiled atomic.Int64
	expected atomic.Int64
	// rest is the unfinished last line; only Write touches it.
	rest []byte
}

func newWatch(b *Builder, label string) *watch {
	w := &watch{builder: b, label: label, started: time.Now(),
		phases: make(chan string), done: make(chan struct{}), stopped: make(chan struct{})}
	go w.report()
	return w
}

func (w *watch) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		end := bytes.IndexByte(w.rest, '\n')
		if end < 0 {
			return len(p), nil
		}
		line := string(w.rest[:end])
		w.rest = w.rest[end+1:]
		switch {
		case strings.HasPrefix(line, "go: downloading"):
			w.fetched.Add(1)
		case strings.HasPrefix(line, "#") || strings.Contains(line, " "):
			// A compiler's message; it is in the error.
		case line != "":
			w.compiled.Add(1)
		}
	}
}

func (w *watch) phase(name string)   { w.phases <- name }
func (w *watch) expect(packages int) { w.expected.Store(int64(packages)) }
func (w *watch) seconds() int        { return int(time.Since(w.started).Seconds()) }
func (w *watch) stop()               { close(w.done); <-w.stopped }

func (w *watch) report() {
	defer close(w.stopped)
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	phase := ""
	for {
		select {
		case <-w.done:
			return
		case phase = <-w.phases:
		case <-ticker.C:
			switch {
			case w.expected.Load() == 0:
				w.builder.say("%s: %s, %d so far (%d s)", w.label, phase, w.fetched.Load(), w.seconds())
			default:
				w.builder.say("%s: %s, %d of at most %d packages compiled (%d s)",
					w.label, phase, w.compiled.Load(), w.expected.Load(), w.seconds())
			}
		}
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
