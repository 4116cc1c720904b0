package simulator

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
)

// BenchmarkScrape measures one scrape of one of 1000 pods under load over a kept connection, client included. At one
// scrape per pod and second, 100 µs are a tenth of a core.
func BenchmarkScrape(b *testing.B) {
	c := newClock()
	s := New(c.Now)
	for n := range 1000 {
		s.SetPod(Pod{
			UID: fmt.Sprint(n), Namespace: "production", Name: fmt.Sprint(n), Labels: map[string]string{"app": "llm"},
			Address: netip.AddrFrom4([4]byte{10, 1, byte(n / 250), byte(1 + n%250)}), Running: true, Ready: true, ModelName: "m",
		})
	}
	listener, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: s.MetricsHandler()}
	go func() { _ = server.Serve(LoopbackListener{listener}) }()
	defer server.Close()
	url := fmt.Sprintf("http://127.1.0.1:%d/metrics?port=8000", listener.Addr().(*net.TCPAddr).Port)
	b.ReportAllocs()
	for b.Loop() {
		response, err := http.Get(url)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			b.Fatal(err)
		}
		_ = response.Body.Close()
	}
}
