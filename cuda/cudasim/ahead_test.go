package cudasim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
)

// fillA stores in the first buffer, by its blocks or by the grid as one, after waiting or not.
func fillA(waits, each bool) cudasim.Model {
	return func(l *cudasim.Launch) {
		a := cudasim.Args[addresses](l)
		store := func(b *cudasim.Block) {
			if waits {
				b.AwaitBefore()
			}
			b.Store(a.A+64*uint64(max(b.Index, 0)), 64)
		}
		if each {
			l.Each(store)
		} else {
			store(l.Block)
		}
	}
}

// Kernels that wait first may be launched ahead of one another, and of anything else.
func TestAheadInOrder(t *testing.T) {
	for _, each := range []bool{false, true} {
		for seed := range uint64(patternSeeds) {
			races, faults := play(t, pattern{run: func(c *scene) {
				c.copy(c.s, c.b, c.a, buffer)
				c.ahead(c.s, "behind a copy", fillA(false, each)) // which no kernel begins before the end of
				for range 4 {
					c.ahead(c.s, "one more", fillA(true, each))
				}
				c.run(c.s, "in turn", fillA(false, each))
				c.record(c.e, c.s)
				c.wait(c.u, c.e)
				c.copy(c.u, c.b, c.a, buffer)
			}}, seed)
			require.Empty(t, races, "seed %d", seed)
			require.Empty(t, faults, "seed %d", seed)
		}
	}
}

// A kernel that does not wait, or too late, is in no order with the one before it under every seed.
func TestAheadWithoutWait(t *testing.T) {
	late := func(l *cudasim.Launch) {
		a := cudasim.Args[addresses](l)
		l.Each(func(b *cudasim.Block) {
			b.Load(a.A, 64)
			b.AwaitBefore()
		})
	}
	cases := map[string]func(c *scene){
		"blocks": func(c *scene) { c.run(c.s, "first", fillA(true, true)); c.ahead(c.s, "second", fillA(false, true)) },
		"whole":  func(c *scene) { c.run(c.s, "first", fillA(true, false)); c.ahead(c.s, "second", fillA(false, false)) },
		"late":   func(c *scene) { c.run(c.s, "first", fillA(true, true)); c.ahead(c.s, "second", late) },
		"two ahead": func(c *scene) {
			c.copy(c.s, c.a, c.b, 64)
			c.ahead(c.s, "first", fillA(true, true))
			c.ahead(c.s, "second", late)
		},
		"over one": func(c *scene) {
			c.run(c.s, "first", fillA(true, true))
			c.ahead(c.s, "idle", func(*cudasim.Launch) {})
			c.ahead(c.s, "third", fillA(false, true))
		},
		"graph": func(c *scene) {
			c.on(0, func(th cuda.Thread) { c.must(th.BeginCapture(c.s, cuda.CaptureRelaxed)) })
			c.run(c.s, "first", fillA(true, true))
			c.ahead(c.s, "second", fillA(false, true))
			c.on(0, func(th cuda.Thread) {
				g, err := th.EndCapture(c.s)
				c.must(err)
				c.must(th.LaunchGraph(g, c.s))
				c.must(th.DestroyGraph(g))
			})
		},
	}
	for name, run := range cases {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(patternSeeds) {
				races, faults := play(t, pattern{run: run}, seed)
				require.NotEmpty(t, races, "seed %d", seed)
				require.Empty(t, faults, "seed %d", seed)
			}
		})
	}
}

// TestAheadLooksEarly reads a value before the wait: it is as old as it may be. After the wait, no fence is needed to hand on order.
func TestAheadLooksEarly(t *testing.T) {
	seeds(t, 10, func(t *testing.T, seed uint64) {
		r := newRig(t, cudasim.Config{Devices: 2, Seed: seed, EagerLoading: true})
		c := newScene(r)
		var early, then uint32
		c.run(c.s, "count", func(l *cudasim.Launch) {
			a := cudasim.Args[addresses](l)
			l.Store(a.B, 64)
			l.StoreRelease32(a.C, 1)
		})
		c.ahead(c.s, "look", func(l *cudasim.Launch) {
			a := cudasim.Args[addresses](l)
			early = l.LoadVolatile32(a.C)
			l.AwaitBefore()
			then = l.LoadVolatile32(a.C)
			l.StoreVolatile32(a.C+4, 1)
		})
		c.run(c.u, "other", func(l *cudasim.Launch) {
			a := cudasim.Args[addresses](l)
			l.Poll(func() bool { return l.LoadAcquire32(a.C+4) == 1 })
			l.Load(a.B, 64)
		})
		c.sync(c.s)
		c.sync(c.u)
		require.Equal(t, []uint32{0, 1}, []uint32{early, then})
	})
}
