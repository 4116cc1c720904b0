package simulator

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pd-orchestrator/pd-orchestrator/lab/simulator/api"
)

// metricsPath is where vLLM serves its metrics.
const metricsPath = "/metrics"

// MetricsHandler serves the metrics of all pods. Which pod is meant is read from the address that the connection was made
// to, and which of its ports from the query parameter port; without it any port will do.
func (s *Simulator) MetricsHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, err := localAddress(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		address, ok := podAddress(local)
		if !ok {
			http.Error(w, "This listener serves the metrics of simulated pods: for the pod with the address 10.1.2.3, ask 127.1.2.3 on this port.", http.StatusNotFound)
			return
		}
		pod, stats, pin, ok := s.scrape(address)
		if !ok {
			hangUp()
		}
		switch pin.fault {
		case api.FaultClose:
			hangUp()
		case api.FaultError:
			http.Error(w, "The pin on this pod asks for an error.", http.StatusInternalServerError)
			return
		case api.FaultHang:
			<-r.Context().Done()
			return
		case api.FaultHTML:
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(w, "<!DOCTYPE html><title>Sign in</title><p>The pin on this pod asks for a page.</p>\n")
			return
		case api.FaultNone:
		}
		if declared := r.URL.Query().Get("port"); declared != "" && len(pod.Ports) > 0 {
			port, err := strconv.ParseInt(declared, 10, 32)
			if err != nil || !slices.Contains(pod.Ports, int32(port)) {
				http.Error(w, fmt.Sprintf("Pod %s/%s declares the ports %v, not %s.", pod.Namespace, pod.Name, pod.Ports, declared), http.StatusNotFound)
				return
			}
		}
		if r.URL.Path != metricsPath {
			http.NotFound(w, r)
			return
		}
		body := bodies.Get().(*[]byte)
		defer bodies.Put(body)
		*body = appendExposition((*body)[:0], &stats, pod.ModelName, pin)
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Content-Length", strconv.Itoa(len(*body)))
		// A client that has gone away is the only way for this to fail.
		_, _ = w.Write(*body)
	})
}

// bodies holds buffers for answers, which are mostly shorter than 16 KiB.
var bodies = sync.Pool{New: func() any { return new(make([]byte, 0, 16<<10)) }}

// hangUp ends the request without an answer, so that the client sees the connection close.
func hangUp() { panic(http.ErrAbortHandler) }

func localAddress(r *http.Request) (netip.Addr, error) {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok {
		return netip.Addr{}, fmt.Errorf("reading the connection's local address: it is no TCP connection")
	}
	return local.AddrPort().Addr(), nil
}

// LoopbackListener accepts connections from loopback addresses only and closes all others unread.
type LoopbackListener struct{ net.Listener }

// Accept returns the next connection from a loopback address.
func (l LoopbackListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if fromLoopback(conn.RemoteAddr()) {
			return conn, nil
		}
		_ = conn.Close()
	}
}

func fromLoopback(remote net.Addr) bool {
	peer, err := netip.ParseAddrPort(remote.String())
	return err == nil && peer.Addr().Unmap().IsLoopback() && !strings.Contains(remote.Network(), "unix")
}
