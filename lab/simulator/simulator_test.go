package simulator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// clock is a clock that tests move by hand.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Unix(1_700_000_000, 0)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// testbed is a simulator that serves on real loopback listeners.
type testbed struct {
	*Simulator
	clock   *clock
	port    int
	control string
}

func newTestbed(t *testing.T) *testbed {
	t.Helper()
	c := newClock()
	s := New(c.Now)
	listener, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: s.MetricsHandler(), ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(LoopbackListener{listener}) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serving metrics: %v", err)
		}
	})
	control := httptest.NewServer(s.ControlHandler())
	t.Cleanup(control.Close)
	return &testbed{Simulator: s, clock: c, port: listener.Addr().(*net.TCPAddr).Port, control: control.URL}
}

// addPod adds a running and ready pod with the address 10.1.0.n.
func (b *testbed) addPod(n int, labels map[string]string, change ...func(*Pod)) Pod {
	pod := Pod{
		UID: fmt.Sprintf("uid-%d", n), Namespace: "production", Name: fmt.Sprintf("pod-%d", n), Labels: labels,
		Address: netip.AddrFrom4([4]byte{10, 1, 0, byte(n)}), Ports: []int32{8000}, Running: true, Ready: true,
		ModelName: defaultModelName, Created: int64(n),
	}
	for _, f := range change {
		f(&pod)
	}
	b.SetPod(pod)
	return pod
}

func (b *testbed) podURL(n int) string { return fmt.Sprintf("http://127.1.0.%d:%d/metrics", n, b.port) }

// get asks the pod with the address 10.1.0.n; query may be empty.
func (b *testbed) get(t *testing.T, n int, query string) (status int, body string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.podURL(n)+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return response.StatusCode, string(data), err
}

func (b *testbed) families(t *testing.T, n int) map[string]*dto.MetricFamily {
	t.Helper()
	status, body, err := b.get(t, n, "?port=8000")
	if err != nil || status != http.StatusOK {
		t.Fatalf("scraping pod %d: status %d, error %v, body %s", n, status, err, body)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatalf("parsing what pod %d serves: %v\n%s", n, err, body)
	}
	return families
}

// value returns the sum of the gauge or counter series of a family, and whether the pod serves it.
func (b *testbed) value(t *testing.T, n int, name string) (float64, bool) {
	t.Helper()
	family, ok := b.families(t, n)[name]
	if !ok {
		return 0, false
	}
	var sum float64
	for _, m := range family.GetMetric() {
		sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
	}
	return sum, true
}

func TestPodIsKnownByTheAddressDialled(t *testing.T) {
	bed := newTestbed(t)
	bed.addPod(1, map[string]string{"app": "decode"}, func(p *Pod) { p.ModelName = "first" })
	bed.addPod(2, map[string]string{"app": "decode"}, func(p *Pod) { p.ModelName = "second" })
	for n, want := range map[int]string{1: "first", 2: "second"} {
		_, body, err := bed.get(t, n, "?port=8000")
		if err != nil {
			t.Fatal(err)
		}
		if series := fmt.Sprintf(`vllm:num_requests_running{engine="0",model_name=%q} 0`, want); !strings.Contains(body, series) {
			t.Errorf("pod %d does not serve %s:\n%s", n, series, body)
		}
	}
}

func TestEndpointOfAPodThatCannotAnswer(t *testing.T) {
	bed := newTestbed(t)
	bed.addPod(1, nil)
	bed.addPod(2, nil, func(p *Pod) { p.Running, p.Ready = false, false })
	bed.addPod(3, nil, func(p *Pod) { p.Ports = []int32{8000, 9000} })
	bed.addPod(4, nil, func(p *Pod) { p.Ports = nil })
	bed.addPod(5, nil, func(p *Pod) { p.Ready = false })

	for name, tt := range map[string]struct {
		pod    int
		query  string
		status int // 0 stands for a closed connection
	}{
		"declared port":                  {pod: 1, query: "?port=8000", status: http.StatusOK},
		"no port asked for":              {pod: 1, status: http.StatusOK},
		"port of nobody":                 {pod: 1, query: "?port=9000", status: http.StatusNotFound},
		"port that is no number":         {pod: 1, query: "?port=http", status: http.StatusNotFound},
		"port beyond the range of ports": {pod: 1, query: "?port=4294975296", status: http.StatusNotFound},
		"pod that does not run":          {pod: 2, query: "?port=8000"},
		"second declared port":           {pod: 3, query: "?port=9000", status: http.StatusOK},
		"pod that declares no port":      {pod: 4, query: "?port=1234", status: http.StatusOK},
		"running pod that is not ready":  {pod: 5, query: "?port=8000", status: http.StatusOK},
		"address that no pod has":        {pod: 99, query: "?port=8000"},
	} {
		t.Run(name, func(t *testing.T) {
			status, body, err := bed.get(t, tt.pod, tt.query)
			if tt.status == 0 {
				if err == nil {
					t.Fatalf("got status %d and %q, want a closed connection", status, body)
				}
				return
			}
			if err != nil || status != tt.status {
				t.Errorf("got status %d, error %v, want status %d", status, err, tt.status)
			}
		})
	}
}

func TestDeletedPodIsGoneAndItsAddressUsedAgain(t *testing.T) {
	bed := newTestbed(t)
	old := bed.addPod(1, nil, func(p *Pod) { p.ModelName = "old" })
	bed.addPod(1, nil, func(p *Pod) { p.UID, p.ModelName, p.Created = "new", "new", 2 })
	if _, body, err := bed.get(t, 1, ""); err != nil || !strings.Contains(body, `model_name="new"`) {
		t.Errorf("of two pods with one address the younger must answer: error %v\n%s", err, body)
	}
	bed.DeletePod("new")
	if _, body, err := bed.get(t, 1, ""); err != nil || !strings.Contains(body, `model_name="old"`) {
		t.Errorf("the pod that is left must answer: error %v\n%s", err, body)
	}
	bed.DeletePod(old.UID)
	bed.DeletePod(old.UID)
	if status, _, err := bed.get(t, 1, ""); err == nil {
		t.Errorf("got status %d from a deleted pod, want a closed connection", status)
	}
}

func TestHostsOwnAddressExplainsItself(t *testing.T) {
	bed := newTestbed(t)
	response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", bed.port))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusNotFound || !strings.Contains(string(body), "127.1.2.3") {
		t.Errorf("got status %d, error %v, body %q, want 404 and a hint at pod addresses", response.StatusCode, err, body)
	}
}

func TestPodAddress(t *testing.T) {
	for local, want := range map[string]string{
		"127.1.2.3":        "10.1.2.3",
		"::ffff:127.1.2.3": "10.1.2.3",
		"127.255.0.1":      "10.255.0.1",
		"127.0.0.1":        "",
		"10.1.2.3":         "",
		"::1":              "",
	} {
		got, ok := podAddress(netip.MustParseAddr(local))
		if ok != (want != "") || (ok && got.String() != want) {
			t.Errorf("podAddress(%s) = %v, %v, want %q", local, got, ok, want)
		}
	}
}

// remoteConn is a connection whose peer has a chosen address.
type remoteConn struct {
	net.Conn
	remote net.Addr
}

func (c remoteConn) RemoteAddr() net.Addr { return c.remote }

type scriptedListener struct {
	net.Listener
	conns []net.Conn
}

func (l *scriptedListener) Accept() (net.Conn, error) {
	if len(l.conns) == 0 {
		return nil, net.ErrClosed
	}
	conn := l.conns[0]
	l.conns = l.conns[1:]
	return conn, nil
}

func TestOtherPeersThanLoopbackAreDropped(t *testing.T) {
	conn := func(ip string) (peer, served net.Conn) {
		peer, end := net.Pipe()
		t.Cleanup(func() { _ = peer.Close() })
		return peer, remoteConn{Conn: end, remote: &net.TCPAddr{IP: net.ParseIP(ip), Port: 4000}}
	}
	stranger, fromOutside := conn("192.0.2.7")
	stranger6, fromOutside6 := conn("2001:db8::7")
	_, fromInside := conn("127.0.0.1")
	listener := LoopbackListener{&scriptedListener{conns: []net.Conn{fromOutside, fromOutside6, fromInside}}}
	got, err := listener.Accept()
	if err != nil || got != fromInside {
		t.Fatalf("Accept() = %v, %v, want the connection from loopback", got, err)
	}
	for _, dropped := range []net.Conn{stranger, stranger6} {
		if _, err := dropped.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("reading as a peer from outside: %v, want EOF", err)
		}
	}
	if _, err := listener.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept() after the listener closed: %v, want %v", err, net.ErrClosed)
	}
}
