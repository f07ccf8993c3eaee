package sim_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/sim"
	"github.com/colligo-go/colligo/transport/transporttest"
)

// opener opens every group on a network of its own.
func opener(c sim.Config) transporttest.Opener {
	return func(t *testing.T, size int, change func(int, *transport.Config)) []transport.Mesh {
		c := c
		c.Size = size
		n := sim.New(c)
		t.Log(n)
		return open(t, n, size, change)
	}
}

// open opens a group of all ranks of a network.
func open(t *testing.T, n *sim.Net, size int, change func(int, *transport.Config)) []transport.Mesh {
	t.Helper()
	return transporttest.Open(t, size, func(ctx context.Context, c *transport.Config) (transport.Mesh, error) {
		return n.Open(ctx, c)
	}, change)
}

func TestConformance(t *testing.T) { transporttest.Run(t, opener(sim.Config{})) }

// TestConformanceDelayed runs the suite in real time on a network where lanes overtake one another.
func TestConformanceDelayed(t *testing.T) {
	transporttest.Run(t, opener(sim.Config{Seed: 1, MaxDelay: 50 * time.Microsecond, Reorder: true}))
}

// TestConformanceBubble runs the suite in virtual time.
func TestConformanceBubble(t *testing.T) {
	for _, c := range transporttest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.Run(t, opener(sim.Config{Seed: 2, MinDelay: time.Millisecond, MaxDelay: 20 * time.Millisecond, Reorder: true}))
			})
		})
	}
}

// TestConformanceBubbleDirect runs the suite in virtual time without scheduling.
func TestConformanceBubbleDirect(t *testing.T) {
	for _, c := range transporttest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.Run(t, opener(sim.Config{})) })
		})
	}
}
