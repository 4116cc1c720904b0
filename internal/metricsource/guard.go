package metricsource

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
)

// GuardOptions says which addresses may be dialled on a user's behalf: without more, all but loopback, link-local,
// multicast and unspecified ones and the API server.
type GuardOptions struct {
	// Allow and Deny widen and narrow this. The most specific prefix that holds an address decides, Deny where both are
	// equally specific.
	Allow, Deny []netip.Prefix
	// APIServers are refused whatever Allow says: host and port. A host name is resolved when something is dialled.
	APIServers []string
}

// Guard refuses addresses after a name is resolved, so that no name leads to them. It must be made by NewGuard.
type Guard struct {
	options GuardOptions

	mu       sync.Mutex
	servers  []apiServer
	resolved time.Time
}

type apiServer struct {
	host  string
	port  uint16
	addrs []netip.Addr
}

// NewGuard checks the options and returns a Guard.
func NewGuard(o GuardOptions) (*Guard, error) {
	g := &Guard{options: o}
	for _, server := range o.APIServers {
		host, port, err := net.SplitHostPort(server)
		if err != nil {
			return nil, fmt.Errorf("reading the address of the API server: %w", err)
		}
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("reading the port of the API server: %w", err)
		}
		g.servers = append(g.servers, apiServer{host: host, port: uint16(number)})
	}
	return g, nil
}

// APIServers are the addresses of the cluster's API server: the one that the configuration names, and in a cluster that of
// its Service.
func APIServers(config *rest.Config) []string {
	var servers []string
	if u, _, err := rest.DefaultServerUrlFor(config); err == nil {
		port := u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
		}
		servers = append(servers, net.JoinHostPort(u.Hostname(), port))
	}
	if host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"); host != "" && port != "" {
		servers = append(servers, net.JoinHostPort(host, port))
	}
	return servers
}

// DialContext dials an address that the guard lets through. An Error has reason EndpointForbidden for one that it does not.
func (g *Guard) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: 10 * time.Second, ControlContext: g.control}
	return d.DialContext(ctx, network, address)
}

// control is called with each address before it is dialled.
func (g *Guard) control(ctx context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("reading the address to dial: %w", err)
	}
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	what := g.refused(to.Addr())
	if what == "" && g.isAPIServer(ctx, to) {
		what = "the API server"
	}
	if what == "" {
		return nil
	}
	return &Error{Reason: EndpointForbidden, Message: fmt.Sprintf("the endpoint resolves to %s (%s), which must not be dialled", to.Addr(), what)}
}

// refused names the kind of an address that must not be dialled; empty for one that may.
func (g *Guard) refused(addr netip.Addr) string {
	allow, deny := longest(g.options.Allow, addr), longest(g.options.Deny, addr)
	switch {
	case deny >= 0 && deny >= allow:
		return "denied by the operator"
	case allow >= 0:
		return ""
	case addr.IsLoopback():
		return "a loopback address"
	case addr.IsLinkLocalUnicast():
		return "a link-local address"
	case addr.IsMulticast():
		return "a multicast address"
	case addr.IsUnspecified(), addr.Is4() && (addr.As4()[0] == 0 || addr.As4() == [4]byte{255, 255, 255, 255}):
		return "an address of no host"
	}
	return ""
}

// longest is the length of the most specific prefix that holds the address, -1 where none does.
func longest(prefixes []netip.Prefix, addr netip.Addr) int {
	bits := -1
	for _, p := range prefixes {
		if p.Contains(addr.WithZone("")) {
			bits = max(bits, p.Bits())
		}
	}
	return bits
}

// isAPIServer resolves the names of the API server once a minute. While one does not resolve, what it resolved to before
// stands.
func (g *Guard) isAPIServer(ctx context.Context, to netip.AddrPort) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.resolved.IsZero() || time.Since(g.resolved) > time.Minute {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		for i := range g.servers {
			if addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", g.servers[i].host); err == nil {
				g.servers[i].addrs = addrs
			}
		}
		g.resolved = time.Now()
	}
	for _, server := range g.servers {
		for _, addr := range server.addrs {
			if netip.AddrPortFrom(addr.Unmap(), server.port) == to {
				return true
			}
		}
	}
	return false
}
