package tcp

import (
	"strings"
	"testing"

	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/transporttest"
)

// opener opens groups over loopback, changed by with.
func opener(with func(*transport.Config)) transporttest.Opener {
	return func(t *testing.T, size int, change func(int, *transport.Config)) []transport.Mesh {
		t.Helper()
		return transporttest.Open(t, size, Open, func(rank int, c *transport.Config) {
			c.Host = "127.0.0.1"
			with(c)
			if change != nil {
				change(rank, c)
			}
		})
	}
}

// TestConformance runs the whole suite for each kind of stream, and what concerns payloads for the rest.
func TestConformance(t *testing.T) {
	certificate := testTLS(t)
	for _, test := range []struct {
		name  string
		whole bool
		with  func(*transport.Config)
	}{
		{"direct", true, func(*transport.Config) {}},
		{"tls", true, func(c *transport.Config) { c.TLS = certificate }},
		{"s2 checksum", true, func(c *transport.Config) { c.Compression, c.Checksum = "s2", true }},
		{"zstd", false, func(c *transport.Config) { c.Compression = "zstd" }},
		{"zstd tls", false, func(c *transport.Config) { c.TLS, c.Compression = certificate, "zstd" }},
		{"ipv6", false, func(c *transport.Config) { c.Host = "::1" }},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, c := range transporttest.Cases() {
				if test.whole || strings.HasPrefix(c.Name, "sizes") || c.Name == "load size=5" {
					t.Run(c.Name, func(t *testing.T) { c.Run(t, opener(test.with)) })
				}
			}
		})
	}
}
