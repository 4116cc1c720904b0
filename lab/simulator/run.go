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
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
)

// Options are the settings of a simulator process.
type Options struct {
	// Listen is the address of the metrics of all pods. It has to cover 127.0.0.0/8, as 0.0.0.0 does; port 0 picks a free one.
	Listen string
	// Control is the loopback address of the control API; port 0 picks a free one.
	Control string
	// Config reaches the API server whose pods are simulated.
	Config *rest.Config
	// ReadyFile, if set, is written when the simulator serves and knows the pods, and removed at the end.
	ReadyFile string
	// Log receives what an operator should know.
	Log *slog.Logger
}

// Ready is the content of the ready file.
type Ready struct {
	MetricsPort int    `json:"metricsPort"`
	ControlURL  string `json:"controlURL"`
}

// tickInterval keeps the model close to the present between requests.
const tickInterval = 250 * time.Millisecond

// shutdownGrace is how long requests may take to end once the simulator is told to stop.
const shutdownGrace = 2 * time.Second

// Run serves until ctx ends, and then returns nil.
func Run(ctx context.Context, o Options) error {
	control, err := netip.ParseAddrPort(o.Control)
	if err != nil {
		return fmt.Errorf("control address %q: must be an IP address and a port, like 127.0.0.1:0: %w", o.Control, err)
	}
	if !control.Addr().IsLoopback() {
		return fmt.Errorf("control address %q: must be a loopback address, since the control API asks for no credentials", o.Control)
	}
	if o.ReadyFile != "" {
		// One that a killed process left would announce this process too early.
		if err := os.Remove(o.ReadyFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the old ready file: %w", err)
		}
	}
	// IPv4 only: pods are told apart by the local IPv4 address.
	var listen net.ListenConfig
	metricsListener, err := listen.Listen(ctx, "tcp4", o.Listen)
	if err != nil {
		return fmt.Errorf("listening for metrics: %w", err)
	}
	defer func() { _ = metricsListener.Close() }()
	controlListener, err := listen.Listen(ctx, "tcp", o.Control)
	if err != nil {
		return fmt.Errorf("listening for control: %w", err)
	}
	defer func() { _ = controlListener.Close() }()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := New(time.Now)
	done := make(chan error, 3)
	serve := func(name string, listener net.Listener, handler http.Handler) *http.Server {
		server := &http.Server{
			Handler:           handler,
			ReadHeaderTimeout: 10 * time.Second,
			ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
			// Requests that hang on purpose end with the simulator.
			BaseContext: func(net.Listener) context.Context { return ctx },
		}
		go func() {
			err := server.Serve(LoopbackListener{listener})
			if errors.Is(err, http.ErrServerClosed) {
				err = nil
			} else {
				err = fmt.Errorf("serving %s: %w", name, err)
				cancel(err)
			}
			done <- err
		}()
		return server
	}
	servers := []*http.Server{
		serve("metrics", metricsListener, s.MetricsHandler()),
		serve("control", controlListener, s.ControlHandler()),
	}
	ready := Ready{
		MetricsPort: metricsListener.Addr().(*net.TCPAddr).Port,
		ControlURL:  "http://" + controlListener.Addr().String(),
	}
	go func() {
		err := s.WatchPods(ctx, o.Config, func() {
			o.Log.Info("Started simulator", "metricsPort", ready.MetricsPort, "control", ready.ControlURL)
			if o.ReadyFile == "" {
				return
			}
			if err := writeReadyFile(o.ReadyFile, ready); err != nil {
				cancel(err)
			}
		})
		if err != nil {
			cancel(err)
		}
		done <- err
	}()

	tick := time.NewTicker(tickInterval)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
			s.Advance()
		case <-ctx.Done():
		}
	}
	cause := context.Cause(ctx)
	grace, stop := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer stop()
	for _, server := range servers {
		if err := server.Shutdown(grace); err != nil {
			_ = server.Close()
		}
	}
	for range cap(done) {
		<-done
	}
	if o.ReadyFile != "" {
		_ = os.Remove(o.ReadyFile)
	}
	if errors.Is(cause, context.Canceled) {
		return nil
	}
	return cause
}

// writeReadyFile puts the file in place in one step, so that a reader never sees a part of it.
func writeReadyFile(path string, ready Ready) error {
	data, err := json.Marshal(ready)
	if err != nil {
		return fmt.Errorf("writing the ready file: %w", err)
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("writing the ready file: %w", err)
	}
	// Nothing is left to remove once the file is in place.
	defer func() { _ = os.Remove(temporary.Name()) }()
	_, err = temporary.Write(append(data, '\n'))
	err = errors.Join(err, temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing the ready file: %w", err)
	}
	return nil
}
