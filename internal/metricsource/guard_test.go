package metricsource

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

func guard(t *testing.T, o GuardOptions) *Guard {
	t.Helper()
	g, err := NewGuard(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func prefixes(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func TestGuard(t *testing.T) {
	apiServer := []string{"10.96.0.1:443", "[fd00::1]:6443", "127.0.0.1:6443"}
	cases := map[string]struct {
		options GuardOptions
		address string
		refused string
	}{
		"a public address":                 {address: "93.184.216.34:443"},
		"a private address":                {address: "10.1.2.3:9090"},
		"a private IPv6 address":           {address: "[fd00::2]:9090"},
		"loopback":                         {address: "127.0.0.1:9090", refused: "loopback"},
		"another loopback":                 {address: "127.9.9.9:9090", refused: "loopback"},
		"IPv6 loopback":                    {address: "[::1]:9090", refused: "loopback"},
		"loopback mapped to IPv6":          {address: "[::ffff:127.0.0.1]:9090", refused: "loopback"},
		"the metadata of a cloud":          {address: "169.254.169.254:80", refused: "link-local"},
		"it mapped to IPv6":                {address: "[::ffff:169.254.169.254]:80", refused: "link-local"},
		"IPv6 link-local":                  {address: "[fe80::1%1]:80", refused: "link-local"},
		"multicast":                        {address: "224.0.0.1:80", refused: "multicast"},
		"IPv6 multicast":                   {address: "[ff02::1]:80", refused: "multicast"},
		"unspecified":                      {address: "0.0.0.0:80", refused: "no host"},
		"a part of the unspecified":        {address: "0.1.2.3:80", refused: "no host"},
		"IPv6 unspecified":                 {address: "[::]:80", refused: "no host"},
		"broadcast":                        {address: "255.255.255.255:80", refused: "no host"},
		"the API server":                   {options: GuardOptions{APIServers: apiServer}, address: "10.96.0.1:443", refused: "the API server"},
		"the API server mapped to IPv6":    {options: GuardOptions{APIServers: apiServer}, address: "[::ffff:10.96.0.1]:443", refused: "the API server"},
		"an IPv6 API server":               {options: GuardOptions{APIServers: apiServer}, address: "[fd00::1]:6443", refused: "the API server"},
		"another port of its host":         {options: GuardOptions{APIServers: apiServer}, address: "10.96.0.1:9090"},
		"loopback that is allowed":         {options: GuardOptions{Allow: prefixes("127.0.0.0/8")}, address: "127.0.0.1:9090"},
		"the API server among what is":     {options: GuardOptions{Allow: prefixes("127.0.0.0/8"), APIServers: apiServer}, address: "127.0.0.1:6443", refused: "the API server"},
		"link-local that is allowed":       {options: GuardOptions{Allow: prefixes("fe80::/10")}, address: "[fe80::1%1]:80"},
		"a network that is denied":         {options: GuardOptions{Deny: prefixes("10.0.0.0/8")}, address: "10.1.2.3:9090", refused: "denied by the operator"},
		"a part of it that is allowed":     {options: GuardOptions{Deny: prefixes("0.0.0.0/0"), Allow: prefixes("10.1.0.0/16")}, address: "10.1.2.3:9090"},
		"a part of that that is denied":    {options: GuardOptions{Deny: prefixes("0.0.0.0/0", "10.1.2.0/24"), Allow: prefixes("10.1.0.0/16")}, address: "10.1.2.3:9090", refused: "denied"},
		"the same allowed and denied":      {options: GuardOptions{Deny: prefixes("10.1.0.0/16"), Allow: prefixes("10.1.0.0/16")}, address: "10.1.2.3:9090", refused: "denied"},
		"an IPv6 address, all IPv4 denied": {options: GuardOptions{Deny: prefixes("0.0.0.0/0")}, address: "[fd00::2]:9090"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := guard(t, tc.options).control(t.Context(), "tcp", tc.address, nil)
			if tc.refused == "" {
				if err != nil {
					t.Errorf("%s is refused: %v", tc.address, err)
				}
				return
			}
			var told *Error
			address := netip.MustParseAddrPort(tc.address).Addr().Unmap().String()
			if !errors.As(err, &told) || told.Reason != EndpointForbidden || !strings.Contains(told.Message, tc.refused) || !strings.Contains(told.Message, address) {
				t.Errorf("%s: error %#v, want reason %s that names %s and %q", tc.address, err, EndpointForbidden, address, tc.refused)
			}
		})
	}
}

func TestGuardResolvesTheNameOfTheAPIServer(t *testing.T) {
	g := guard(t, GuardOptions{Allow: prefixes("127.0.0.0/8", "::1/128"), APIServers: []string{"localhost:6443"}})
	if err := g.control(t.Context(), "tcp", "127.0.0.1:6443", nil); AsError(err) == nil {
		t.Error("an address that the name of the API server resolves to is not refused")
	}
	// What does not resolve any more is refused as before.
	g.servers[0].host, g.resolved = "", g.resolved.AddDate(0, 0, -1)
	if err := g.control(t.Context(), "tcp", "127.0.0.1:6443", nil); AsError(err) == nil {
		t.Error("the API server is let through once its name does not resolve")
	}
}

func TestNewGuardRefusesWhatIsNoAddress(t *testing.T) {
	for _, server := range []string{"10.0.0.1", "10.0.0.1:https", "10.0.0.1:70000", ""} {
		if _, err := NewGuard(GuardOptions{APIServers: []string{server}}); err == nil {
			t.Errorf("accepted %q", server)
		}
	}
}

func TestAPIServers(t *testing.T) {
	for host, want := range map[string]string{
		"https://10.0.0.1:6443":  "10.0.0.1:6443",
		"https://api.example":    "api.example:443",
		"http://[fd00::1]:8080/": "[fd00::1]:8080",
		"10.0.0.1:8443":          "10.0.0.1:8443",
	} {
		t.Setenv("KUBERNETES_SERVICE_HOST", "fd00::2")
		t.Setenv("KUBERNETES_SERVICE_PORT", "443")
		got := APIServers(&rest.Config{Host: host})
		if len(got) != 2 || got[0] != want || got[1] != "[fd00::2]:443" {
			t.Errorf("the API servers of %q are %q, want %q and that of the environment", host, got, want)
		}
		guard(t, GuardOptions{APIServers: got})
	}
}

func TestGuardDialsNothingThatANameHides(t *testing.T) {
	e := NewEndpoints(EndpointOptions{Clock: fixed, Guard: guard(t, GuardOptions{})})
	for _, host := range []string{"localhost:1", "127.0.0.1:1", "[::ffff:7f00:1]:1"} {
		for _, query := range []string{"", "up"} {
			_, err := e.Read(t.Context(), endpointRequest(t, host, query, "up"))
			expectError(t, err, EndpointForbidden, "a loopback address")
		}
	}
}
