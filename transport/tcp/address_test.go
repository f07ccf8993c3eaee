package tcp

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/transporttest"
)

func loopback(t *testing.T) string {
	t.Helper()
	interfaces, err := net.Interfaces()
	require.NoError(t, err)
	for _, i := range interfaces {
		if i.Flags&net.FlagLoopback != 0 {
			return i.Name
		}
	}
	t.Fatal("no loopback interface")
	return ""
}

// TestAddresses forms a group for every way to say where to listen.
func TestAddresses(t *testing.T) {
	for name, set := range map[string]func(*transport.Config){
		"address":          func(c *transport.Config) { c.Host = "127.0.0.1" },
		"address ipv6":     func(c *transport.Config) { c.Host = "::1" },
		"name":             func(c *transport.Config) { c.Host = "localhost" },
		"interface":        func(c *transport.Config) { c.Host = loopback(t) },
		"probe":            func(c *transport.Config) { c.Host, c.Probe = "", "127.0.0.1:9" },
		"probe ipv6":       func(c *transport.Config) { c.Host, c.Probe = "", "[::1]:9" },
		"probe is no host": func(c *transport.Config) { c.Host, c.Probe = "", "no.such.host.invalid:9" },
		"everywhere":       func(c *transport.Config) { c.Host = "" },
	} {
		t.Run(name, func(t *testing.T) {
			transporttest.NoLeaks(t)
			opener(set)(t, 2, nil)
		})
	}
}

func TestListen(t *testing.T) {
	for _, test := range []struct{ host, probe, want string }{
		{"127.0.0.1", "", "127.0.0.1"},
		{"::1", "", "::1"},
		{"", "127.0.0.1:9", "127.0.0.1"},
		{"", "localhost:9", "127.0.0.1"},
		{"", "[::1]:9", "::1"},
	} {
		l, addrs, err := listen(context.Background(), &transport.Config{Host: test.host, Probe: test.probe})
		require.NoError(t, err)
		l.Close()
		require.Len(t, addrs, 1)
		host, _, err := net.SplitHostPort(addrs[0])
		require.NoError(t, err)
		require.Equal(t, test.want, host)
	}
}

// TestListenNowhere names what it was given.
func TestListenNowhere(t *testing.T) {
	for _, host := range []string{"192.0.2.1", "no-such.invalid"} {
		_, _, err := listen(t.Context(), &transport.Config{Rank: 3, Host: host})
		require.ErrorContains(t, err, `tcp: rank 3 cannot listen at address, interface or host "`+host+`": `)
	}
}

func TestOrdered(t *testing.T) {
	var addrs []net.Addr
	for _, s := range []string{"fe80::1/64", "2001:db8::5/32", "192.0.2.7/24"} {
		ip, n, err := net.ParseCIDR(s)
		require.NoError(t, err)
		addrs = append(addrs, &net.IPNet{IP: ip, Mask: n.Mask})
	}
	require.Equal(t, []string{"192.0.2.7", "2001:db8::5", "fe80::1%eth7"}, ordered(addrs, "eth7"))
}

func TestClientTLS(t *testing.T) {
	c := testTLS(t)
	require.Equal(t, "fe80::1", clientTLS(c, "[fe80::1%eth0]:80").ServerName)
	c.ServerName = "set"
	require.Same(t, c, clientTLS(c, "[fe80::1%eth0]:80"))
}
