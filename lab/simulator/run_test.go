package simulator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/pd-orchestrator/pd-orchestrator/lab/simulator/api"
	"github.com/pd-orchestrator/pd-orchestrator/lab/simulator/client"
)

func TestRunServesUntilItIsToldToStop(t *testing.T) {
	server := newAPIServer(t, nil)
	file := filepath.Join(t.TempDir(), "ready.json")
	if err := os.WriteFile(file, []byte(`{"metricsPort": 1, "controlURL": "http://left.by.a.killed.process"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{
			Listen: "0.0.0.0:0", Control: "127.0.0.1:0", Config: &rest.Config{Host: server.URL},
			ReadyFile: file, Log: slog.New(slog.DiscardHandler),
		})
	}()
	var ready Ready
	eventually(t, "the ready file", func() bool {
		data, err := os.ReadFile(file)
		return err == nil && json.Unmarshal(data, &ready) == nil && ready.MetricsPort > 1
	})
	control := client.New(ready.ControlURL, nil)
	if state, err := control.State(t.Context()); err != nil || len(state.Pods) != 1 {
		t.Errorf("state %+v, error %v, want the pod that was there at the start", state, err)
	}
	response, err := http.Get(fmt.Sprintf("http://127.1.0.1:%d/metrics?port=8000", ready.MetricsPort))
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("the pod answers %s", response.Status)
	}

	// A request that hangs on purpose must not hold up the end.
	if err := control.Pin(t.Context(), api.Pin{Namespace: "production", Fault: api.FaultHang}); err != nil {
		t.Fatal(err)
	}
	hanging, err := net.Dial("tcp4", fmt.Sprintf("127.1.0.1:%d", ready.MetricsPort))
	if err != nil {
		t.Fatal(err)
	}
	defer hanging.Close()
	if _, err := fmt.Fprint(hanging, "GET /metrics HTTP/1.1\r\nHost: pod\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the end: %v", err)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the ready file is still there: %v", err)
	}
}

func TestRunRefuses(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, tt := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"control for everybody":     {func(o *Options) { o.Control = "0.0.0.0:0" }, "must be a loopback address"},
		"control by name":           {func(o *Options) { o.Control = "localhost:0" }, "must be an IP address and a port"},
		"control port of another":   {func(o *Options) { o.Control = taken.Addr().String() }, "listening for control"},
		"metrics port of another":   {func(o *Options) { o.Listen = taken.Addr().String() }, "listening for metrics"},
		"ready file that cannot be": {func(o *Options) { o.ReadyFile = filepath.Join(t.TempDir(), "none", "ready.json") }, "writing the ready file"},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{
				Listen: "0.0.0.0:0", Control: "127.0.0.1:0", Config: &rest.Config{Host: newAPIServer(t, nil).URL}, Log: slog.New(slog.DiscardHandler),
			}
			tt.change(&o)
			if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want one with %q", err, tt.want)
			}
		})
	}
}
