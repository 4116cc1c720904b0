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
	for list, want := range map[string]string{"": "", "helm": "helm", " helm ,,helm": "helm", "keda,metrics-server": "keda,metrics-server"} {
		names, err := ParseWith(list)
		if err != nil || strings.Join(names, ",") != want {
			t.Errorf("ParseWith(%q) = %v, %v, want %s", list, names, err, want)
		}
	}
	_, err := ParseWith("istio,keda")
	for _, want := range []string{`no part "istio"`, "custom-metrics, helm, keda, metrics-server"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q in it", err, want)
		}
	}
}

func TestManagerConfigNamesTheLab(t *testing.T) {
	cases := map[string]struct {
		text  string
		wants []string
	}{
		"the lab": {managerConfig("http://127.0.0.1:9090", 1, 2, 3),
			[]string{"address: \"http://127.0.0.1:9090\"\n", "namespace: scaling-system\n", "127.0.0.1:1\n", "127.0.0.1:2\n"}},
		"admission":    {webhookConfig(3, "/certs"), []string{"enabled: true\n", "127.0.0.1:3\n", "certDir: \"/certs\"\n", "dnsNames: [localhost]\n"}},
		"no admission": {webhookConfig(0, "/certs"), []string{"crossNamespace: Trusted\n"}},
	}
	for name, tc := range cases {
		for _, want := range tc.wants {
			if !strings.Contains(tc.text, want) {
				t.Errorf("%s: the configuration lacks %q:\n%s", name, want, tc.text)
			}
		}
	}
}
