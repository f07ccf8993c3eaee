package tcp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/transporttest"
)

// TestLane has each of two goroutines of a rank use a lane, and wait for it.
func TestLane(t *testing.T) {
	for name, with := range map[string]func(*transport.Config){
		"plain":       func(*transport.Config) {},
		"s2 checksum": func(c *transport.Config) { c.Compression, c.Checksum = "s2", true },
		"zstd":        func(c *transport.Config) { c.Compression = "zstd" },
	} {
		t.Run(name, func(t *testing.T) { transporttest.Lane(t, opener(with)) })
	}
	certificate := testTLS(t)
	m := opener(func(c *transport.Config) { c.TLS = certificate })(t, 2, nil)[0]
	require.Nil(t, m.(transport.Laned).Lane(1), "goroutines of its own move what is encrypted")
}

// TestLaneWakes has a wait for a lane end by either wake and by the end of the mesh.
func TestLaneWakes(t *testing.T) { transporttest.LaneWakes(t, opener(func(*transport.Config) {})) }
