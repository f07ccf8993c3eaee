package cudasim_test

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
)

// A scene is two devices of one process with a buffer each and a stream each.
type scene struct {
	*rig
	a, b   cuda.Pointer // buffers of 4 KiB of device 0 and 1
	flags  cuda.Pointer // on device 1
	s, u   cuda.Stream  // of device 0 and 1
	e, f   cuda.Event   // of device 0 and 1
	h      *cuda.Host
	kernel map[string][2]cuda.Function
}

const buffer = 4096

func newScene(r *rig) *scene {
	return &scene{rig: r, a: r.alloc(0, buffer), b: r.alloc(1, buffer), flags: r.alloc(1, 64), s: r.stream(0), u: r.stream(1),
		e: r.event(0), f: r.event(1), h: r.host(buffer), kernel: map[string][2]cuda.Function{}}
}

func (c *scene) must(err error) { require.NoError(c.t, err) }

// copy enqueues on stream s of device 0 or u of device 1.
func (c *scene) copy(s cuda.Stream, dst, src cuda.Pointer, n int) {
	c.on(c.deviceOf(s), func(th cuda.Thread) { c.must(th.Copy(dst, src, n, s)) })
}

func (c *scene) deviceOf(s cuda.Stream) int {
	if s == c.s {
		return 0
	}
	return 1
}

func (c *scene) record(e cuda.Event, s cuda.Stream) {
	c.on(c.deviceOf(s), func(th cuda.Thread) { c.must(th.Record(e, s)) })
}

func (c *scene) wait(s cuda.Stream, e cuda.Event) {
	c.on(c.deviceOf(s), func(th cuda.Thread) { c.must(th.WaitEvent(s, e)) })
}

func (c *scene) write32(s cuda.Stream, at cuda.Pointer, v uint32) {
	c.on(c.deviceOf(s), func(th cuda.Thread) { c.must(th.Write32(s, at, v)) })
}

func (c *scene) wait32(s cuda.Stream, at cuda.Pointer, v uint32) {
	c.on(c.deviceOf(s), func(th cuda.Thread) { c.must(th.Wait32(s, at, v)) })
}

func (c *scene) set(s cuda.Stream, p cuda.Pointer) {
	c.on(c.deviceOf(s), func(th cuda.Thread) { c.must(th.Set8(p, 1, buffer, s)) })
}

func (c *scene) sync(s cuda.Stream) {
	c.on(c.deviceOf(s), func(th cuda.Thread) { c.must(th.Synchronize(s)) })
}

// run launches a model kernel of two blocks with the scene's addresses: A, B and the flags.
func (c *scene) run(s cuda.Stream, name string, model cudasim.Model) {
	c.launch(s, name, cuda.Thread.Launch, model)
}

func (c *scene) ahead(s cuda.Stream, name string, model cudasim.Model) {
	c.launch(s, name, cuda.Thread.LaunchAhead, model)
}

func (c *scene) launch(s cuda.Stream, name string, how func(cuda.Thread, cuda.Function, cuda.Grid, unsafe.Pointer, cuda.Stream) error, model cudasim.Model) {
	d := c.deviceOf(s)
	f := c.function(d, name, addressesBytes, model)
	c.on(d, func(th cuda.Thread) {
		c.must(how(th, f, cuda.Grid{Blocks: 2, Threads: 32}, args(addresses{uint64(c.a), uint64(c.b), uint64(c.flags)}), s))
	})
}

// A pattern is a way to order two operations, right or wrong.
type pattern struct {
	name string
	run  func(*scene)
}

var rightPatterns = []pattern{
	{"one stream", func(c *scene) { c.copy(c.s, c.b, c.a, buffer); c.set(c.s, c.a) }},
	{"event", func(c *scene) { c.set(c.s, c.a); c.record(c.e, c.s); c.wait(c.u, c.e); c.copy(c.u, c.b, c.a, buffer) }},
	{"event chain", func(c *scene) {
		c.set(c.s, c.a)
		c.record(c.e, c.s)
		c.wait(c.u, c.e)
		c.copy(c.u, c.b, c.a, buffer)
		c.record(c.f, c.u)
		c.wait(c.s, c.f)
		c.set(c.s, c.a)
		c.set(c.s, c.b)
	}},
	{"stream write and wait", func(c *scene) {
		c.wait32(c.u, c.flags, 1)
		c.copy(c.u, c.a, c.b, buffer)
		c.set(c.s, c.b)
		c.write32(c.s, c.flags, 1)
	}},
	{"host", func(c *scene) { c.set(c.s, c.a); c.sync(c.s); c.copy(c.u, c.b, c.a, buffer) }},
	{"halves", func(c *scene) { c.copy(c.s, c.b, c.a, buffer/2); c.copy(c.u, c.b+buffer/2, c.a, buffer/2) }},
	{"both read", func(c *scene) { c.copy(c.s, c.b, c.a, 64); c.copy(c.u, c.b+64, c.a, 64) }},
	{"release and acquire", func(c *scene) {
		c.run(c.u, "acquire", func(l *cudasim.Launch) {
			a := cudasim.Args[addresses](l)
			l.Poll(func() bool { return l.LoadAcquire32(a.C) == 1 })
			l.Load(a.B, buffer)
		})
		c.run(c.s, "release", func(l *cudasim.Launch) {
			a := cudasim.Args[addresses](l)
			l.Store(a.B, buffer)
			l.StoreRelease32(a.C, 1)
		})
	}},
	{"fences", func(c *scene) {
		c.run(c.u, "look", func(l *cudasim.Launch) {
			a := cudasim.Args[addresses](l)
			l.Poll(func() bool { return l.LoadVolatile32(a.C) == 1 })
			l.Fence()
			l.Load(a.B, buffer)
		})
		c.run(c.s, "post", func(l *cudasim.Launch) {
			a := cudasim.Args[addresses](l)
			l.Store(a.B, buffer)
			l.Fence()
			l.StoreVolatile32(a.C, 1)
		})
	}},
	{"counter", func(c *scene) {
		c.run(c.s, "count", func(l *cudasim.Launch) {
			a := cudasim.Args[addresses](l)
			l.Each(func(b *cudasim.Block) {
				b.Store(a.B+uint64(b.Index)*64, 64)
				if b.Add32(a.C, 1) == l.Grid-1 { // the last reads what all have written
					b.Load(a.B, 64*int(l.Grid))
				}
			})
		})
	}},
	{"LL there and back", func(c *scene) { // an answer frees the slot
		data := make([]byte, 64)
		c.run(c.u, "answer", func(l *cudasim.Launch) {
			a := cudasim.Args[addresses](l)
			for i := range uint32(3) {
				l.Poll(func() bool { return l.LoadLL(a.B, data, i+1) })
				l.StoreLL(a.A, data, i+1)
			}
		})
		c.run(c.s, "ask", func(l *cudasim.Launch) {
			a := cudasim.Args[addresses](l)
			for i := range uint32(3) {
				l.StoreLL(a.B, data, i+1)
				l.Poll(func() bool { return l.LoadLL(a.A, data, i+1) })
			}
		})
	}},
	{"LL128 lines there and back", func(c *scene) {
		ask, answer := make([]byte, 200), make([]byte, 200)
		c.run(c.u, "answer", func(l *cudasim.Launch) {
			a := cudasim.Args[addresses](l)
			for i := range uint32(3) {
				l.Poll(func() bool { return l.LoadLL128(a.B, answer, i+1) })
				l.StoreLL128(a.A, answer, i+1)
			}
		})
		c.run(c.s, "ask", func(l *cudasim.Launch) {
			a := cudasim.Args[addresses](l)
			for i := range uint32(3) {
				ask[199] = byte(i + 1)
				l.StoreLL128(a.B, ask, i+1)
				l.Poll(func() bool { return l.LoadLL128(a.A, ask, i+1) && ask[199] == byte(i+1) })
			}
		})
	}},
	{"sentinel lines that are cleared", func(c *scene) { lines(c, true) }},
	{"sentinel lines that a copy brought", func(c *scene) { copiedSentinel(c, false) }},
	{"double buffer", func(c *scene) { doubleBuffer(c, 2) }},
	{"grid after grid", func(c *scene) {
		for range 2 {
			c.run(c.s, "turn", func(l *cudasim.Launch) {
				a := cudasim.Args[addresses](l)
				l.Each(func(b *cudasim.Block) { b.Store(a.A+uint64(1-b.Index)*64, 64) })
				l.Each(func(b *cudasim.Block) { b.Load(a.A+uint64(b.Index)*64, 64) })
			})
		}
	}},
	{"teams that meet", func(c *scene) {
		c.run(c.s, "teams", func(l *cudasim.Launch) {
			a := cudasim.Args[addresses](l)
			l.Teams(3, func(b *cudasim.Block) {
				at := func(team int) uint64 { return a.A + uint64(b.Index*3+team)*16 }
				for i := range 3 {
					b.Store(at((b.Team+i)%3), 16)
					b.Sync()
				}
			})
		})
	}},
	{"teams that tell and heed", func(c *scene) { postAndAwaitProgress(c, 0) }},
	{"host memory", func(c *scene) {
		p := c.process()
		p.HostWrite(c.h.Bytes)
		c.copy(c.s, c.a, c.h.Device, buffer)
		c.sync(c.s)
		p.HostWrite(c.h.Bytes)
	}},
}

var wrongPatterns = []pattern{
	{"no wait", func(c *scene) { c.set(c.s, c.a); c.copy(c.u, c.b, c.a, buffer) }},
	{"overwritten too early", func(c *scene) {
		c.record(c.e, c.s)
		c.copy(c.s, c.b, c.a, buffer)
		c.wait(c.u, c.e)
		c.set(c.u, c.a)
	}},
	{"event recorded too early", func(c *scene) {
		c.record(c.e, c.s)
		c.set(c.s, c.a)
		c.wait(c.u, c.e)
		c.copy(c.u, c.b, c.a, buffer)
	}},
	{"wait for an old value", func(c *scene) {
		c.write32(c.s, c.flags, 1)
		c.sync(c.s)
		c.set(c.s, c.b)
		c.write32(c.s, c.flags, 2)
		c.wait32(c.u, c.flags, 1)
		c.copy(c.u, c.a, c.b, buffer)
	}},
	{"flag before data", func(c *scene) {
		c.wait32(c.u, c.flags, 1)
		c.copy(c.u, c.a, c.b, buffer)
		c.write32(c.s, c.flags, 1)
		c.set(c.s, c.b)
	}},
	{"flag before data in kernels", func(c *scene) {
		c.run(c.u, "acquire", func(l *cudasim.Launch) {
			a := cudasim.Args[addresses](l)
			l.Poll(func() bool { return l.LoadAcquire32(a.C) == 1 })
			l.Load(a.B, buffer)
		})
		c.run(c.s, "early", func(l *cudasim.Launch) {
			a := cudasim.Args[addresses](l)
			l.StoreRelease32(a.C, 1)
			l.Store(a.B, buffer)
		})
	}},
	{"volatile flag without fence", func(c *scene) {
		c.run(c.u, "acquire", func(l *cudasim.Launch) {
			a := cudasim.Args[addresses](l)
			l.Poll(func() bool { return l.LoadAcquire32(a.C) == 1 })
			l.Load(a.B, buffer)
		})
		c.run(c.s, "post", func(l *cudasim.Launch) {
			a := cudasim.Args[addresses](l)
			l.Store(a.B, buffer)
			l.StoreVolatile32(a.C, 1)
		})
	}},
	{"LL says nothing of plain data", func(c *scene) {
		data := make([]byte, 8)
		c.run(c.u, "take", func(l *cudasim.Launch) {
			a := cudasim.Args[addresses](l)
			l.Poll(func() bool { return l.LoadLL(a.B, data, 1) })
			l.Load(a.A, 64)
		})
		c.run(c.s, "send", func(l *cudasim.Launch) {
			a := cudasim.Args[addresses](l)
			l.Store(a.A, 64)
			l.StoreLL(a.B, data, 1)
		})
	}},
	{"LL128 lines say nothing of plain data", func(c *scene) {
		data := make([]byte, 8)
		c.run(c.u, "take", func(l *cudasim.Launch) {
			a := cudasim.Args[addresses](l)
			l.Poll(func() bool { return l.LoadLL128(a.B, data, 1) })
			l.Load(a.A, 64)
		})
		c.run(c.s, "send", func(l *cudasim.Launch) {
			a := cudasim.Args[addresses](l)
			l.Store(a.A, 64)
			l.StoreLL128(a.B, data, 1)
		})
	}},
	{overwritten, func(c *scene) {
		data := make([]byte, 64)
		c.run(c.u, "take", func(l *cudasim.Launch) {
			a := cudasim.Args[addresses](l)
			for i := range uint32(2) {
				l.Poll(func() bool { return l.LoadLL(a.B, data, i+1) })
				l.StoreRelease32(a.C, i+1)
			}
		})
		c.run(c.s, "send twice", func(l *cudasim.Launch) {
			a := cudasim.Args[addresses](l)
			l.StoreLL(a.B, data, 1)
			if l.LoadAcquire32(a.C) == 0 { // too late, but not waited for
				l.Yield()
			}
			l.StoreLL(a.B, data, 2)
		})
	}},
	{"sentinel lines that are cleared, but not read to be", func(c *scene) { lines(c, false) }},
	{"sentinel lines copied to before they were cleared", func(c *scene) {
		c.run(c.u, "clear", func(l *cudasim.Launch) { l.Clear(cudasim.Args[addresses](l).B, 4, [16]byte{1, 2, 3}) })
		c.copy(c.s, c.b, c.a, 64)
	}},
	{"copied sentinel lines say nothing of other data", func(c *scene) { copiedSentinel(c, true) }},
	{"blocks of one grid", func(c *scene) {
		c.run(c.s, "overlap", func(l *cudasim.Launch) {
			a := cudasim.Args[addresses](l)
			l.Each(func(b *cudasim.Block) { b.Store(a.A+uint64(b.Index)*63, 64) })
		})
	}},
	{"teams that do not meet", func(c *scene) {
		c.run(c.s, "teams", func(l *cudasim.Launch) {
			a := cudasim.Args[addresses](l)
			l.Teams(2, func(b *cudasim.Block) {
				b.Sync()
				b.Store(a.A+uint64(b.Index)*64+uint64(b.Team)*32, 33)
			})
		})
	}},
	{"teams that heed too little", func(c *scene) { postAndAwaitProgress(c, 1) }},
	{"single buffer", func(c *scene) { doubleBuffer(c, 1) }},
	{"flag cleared without order", func(c *scene) {
		c.set(c.u, c.b)
		c.write32(c.s, c.b, 1)
	}},
	{"host memory", func(c *scene) {
		c.copy(c.s, c.a, c.h.Device, buffer)
		c.process().HostWrite(c.h.Bytes)
	}},
}

// postAndAwaitProgress has one team fill pieces that another reads, which waits for so many pieces less than it should.
func postAndAwaitProgress(c *scene, less uint32) {
	c.run(c.s, "tell", func(l *cudasim.Launch) {
		a := cudasim.Args[addresses](l)
		l.Teams(2, func(b *cudasim.Block) {
			for i := range uint32(4) {
				at := a.A + uint64(b.Index)*64 + uint64(i)*16
				if b.Team == 0 {
					b.Store(at, 16)
					b.PostProgress(i + 1)
				} else {
					b.AwaitProgress(0, i+1-less)
					b.Load(at, 16)
				}
			}
		})
	})
}

// doubleBuffer sends four tiles from device 0 through so many slots of device 1. The sender waits for the receiver's word
// that the tile two before is used.
func doubleBuffer(c *scene, slots uint64) {
	c.run(c.u, "receiver", func(l *cudasim.Launch) {
		a := cudasim.Args[addresses](l)
		for i := range uint64(4) {
			l.Poll(func() bool { return l.LoadAcquire32(a.C) >= uint32(i+1) })
			l.Load(a.B+i%slots*256, 256)
			l.StoreRelease32(a.A+2048, uint32(i+1))
		}
	})
	c.run(c.s, "sender", func(l *cudasim.Launch) {
		a := cudasim.Args[addresses](l)
		for i := range uint64(4) {
			if i >= 2 {
				l.Poll(func() bool { return l.LoadAcquire32(a.A+2048) >= uint32(i-1) })
			}
			l.Store(a.B+i%slots*256, 256)
			l.StoreRelease32(a.C, uint32(i+1))
		}
	})
}

func (c *scene) process() *cudasim.Process { return c.sim.Processes()[0] }

// overwritten is a pattern whose receiver may miss data, and then waits for ever.
const overwritten = "LL overwritten"

// play returns the races of a pattern, and its faults. A pattern that never hangs has the patience that a busy machine needs.
func play(t *testing.T, p pattern, seed uint64) ([]cudasim.Race, []string) {
	patience := map[string]time.Duration{overwritten: 200 * time.Millisecond}[p.name]
	r := looseRig(t, cudasim.Config{Devices: 2, Seed: seed, Patience: patience, EagerLoading: true})
	c := newScene(r)
	p.run(c)
	r.sim.Drain()
	races, faults := r.sim.Races(), r.sim.Faults()
	if len(faults) == 0 {
		r.close()
	}
	r.sim.Close()
	return races, faults
}

const patternSeeds = 30

func TestRightPatternsHaveNoRace(t *testing.T) {
	for _, p := range rightPatterns {
		t.Run(p.name, func(t *testing.T) {
			for seed := range uint64(patternSeeds) {
				races, faults := play(t, p, seed)
				require.Empty(t, races, "seed %d", seed)
				require.Empty(t, faults, "seed %d", seed)
			}
		})
	}
}

func TestWrongPatternsRaceUnderEverySeed(t *testing.T) {
	for _, p := range wrongPatterns {
		t.Run(p.name, func(t *testing.T) {
			for seed := range uint64(patternSeeds) {
				races, faults := play(t, p, seed)
				if p.name == overwritten && len(faults) == 1 {
					continue
				}
				require.NotEmpty(t, races, "seed %d", seed)
				require.Empty(t, faults, "seed %d", seed)
			}
		})
	}
}

func TestRaceReport(t *testing.T) {
	races, _ := play(t, wrongPatterns[0], 1)
	require.Len(t, races, 1)
	text := races[0].String()
	for _, word := range []string{"race on bytes 0 to 4096 of memory", "MemsetD8Async on device 0", "MemcpyAsync on device 1",
		"cudasim_test.(*scene).set", "cudasim_test.(*scene).copy", "race_test.go:"} {
		require.Contains(t, text, word)
	}
	require.True(t, races[0].First.Write != races[0].Second.Write)
}

// Without a word between processes, what one host has seen orders nothing in the other.
func TestHostsOfProcesses(t *testing.T) {
	for _, meet := range []bool{false, true} {
		sim := cudasim.New(cudasim.Config{Devices: 2, HostPerProcess: true})
		cudasim.Limit(t, sim)
		a, b := open(t, sim, sim.Process().Driver()), open(t, sim, sim.Process().Driver())
		p := a.alloc(0, 64)
		if meet {
			sim.Meet()
		}
		var h cuda.IPCHandle
		a.on(0, func(th cuda.Thread) {
			var err error
			h, err = th.IPCHandle(p)
			require.NoError(t, err)
		})
		b.on(1, func(th cuda.Thread) {
			q, err := th.OpenIPC(h)
			require.NoError(t, err)
			require.NoError(t, th.Set8(q, 1, 64, 0))
			require.NoError(t, th.Synchronize(0))
			require.NoError(t, th.CloseIPC(q))
		})
		require.Equal(t, meet, len(sim.Races()) == 0)
		b.close()
		a.close()
		sim.Close()
	}
}

// Memory that nobody has written is not to be read, if a test asks for that.
func TestUninitialized(t *testing.T) {
	r := looseRig(t, cudasim.Config{Uninitialized: true})
	r.on(0, func(th cuda.Thread) {
		p, err := th.Alloc(64)
		require.NoError(t, err)
		require.NoError(t, th.Set8(p, 0, 32, 0))
		require.NoError(t, th.Copy(p, p+16, 16, 0))
		require.NoError(t, th.Synchronize(0))
		require.Empty(t, r.sim.Faults())
		require.NoError(t, th.Copy(p, p+24, 16, 0))
		require.NoError(t, th.Synchronize(0))
		require.Len(t, r.sim.Faults(), 1)
		require.Contains(t, r.sim.Faults()[0], "reads byte 32 of memory")
		require.NoError(t, th.Free(p))
	})
	r.close()
}
