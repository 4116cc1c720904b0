package lab

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestSweepTemporaryTakesOldFoldersWithoutOwner(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	folder := func(name string, age time.Duration) *os.File {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		lock, err := os.Create(filepath.Join(dir, name, lockFile))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(lock.Name(), now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = lock.Close() })
		return lock
	}
	_ = folder(temporaryPrefix+"old", 48*time.Hour).Close()
	_ = folder(temporaryPrefix+"young", time.Hour).Close()
	held := folder(temporaryPrefix+"held", 48*time.Hour)
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	_ = folder("another", 48*time.Hour).Close()

	sweepTemporary(dir, now)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, entry := range entries {
		left = append(left, entry.Name())
	}
	want := []string{"another", temporaryPrefix + "held", temporaryPrefix + "young"}
	if !slices.Equal(left, want) {
		t.Errorf("left are %v, want %v", left, want)
	}
}

func TestParseWith(t *testing.T) {
	for list, want := range map[string]string{"": "", "helm": "helm", " helm ,,helm": "helm"} {
		names, err := ParseWith(list)
		if err != nil || strings.Join(names, ",") != want {
			t.Errorf("ParseWith(%q) = %v, %v, want %s", list, names, err, want)
		}
	}
	_, err := ParseWith("istio,keda")
	for _, want := range []string{`no part "istio"`, "helm, keda, metrics-server", `part "keda" can be built`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q in it", err, want)
		}
	}
}

func TestManagerConfigNamesTheLab(t *testing.T) {
	text := managerConfig("http://127.0.0.1:9090", 1, 2)
	for _, want := range []string{"address: \"http://127.0.0.1:9090\"\n", "crossNamespace: Trusted\n", "127.0.0.1:1\n", "127.0.0.1:2\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the configuration lacks %q:\n%s", want, text)
		}
	}
}
