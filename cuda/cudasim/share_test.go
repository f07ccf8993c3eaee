package cudasim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
)

const (
	illegalAddress cuda.Result = 700
	notEnabled     cuda.Result = 705
	deinitialized  cuda.Result = 4
)

// pair is two processes, each with the device of its own rank in use.
func pair(t *testing.T, c cudasim.Config) (*cudasim.Sim, [2]*rig, [2]*cudasim.Process) {
	c.Devices = 2
	sim := cudasim.New(c)
	cudasim.Limit(t, sim)
	t.Cleanup(sim.Close)
	var rigs [2]*rig
	var processes [2]*cudasim.Process
	for i := range rigs {
		processes[i] = sim.Process()
		rigs[i] = open(t, sim, processes[i].Driver())
	}
	return sim, rigs, processes
}

func TestIPC(t *testing.T) {
	sim, r, _ := pair(t, cudasim.Config{})
	defer cudasim.Check(t, sim)
	p := r[0].alloc(0, 64)
	var h cuda.IPCHandle
	r[0].on(0, func(th cuda.Thread) {
		var err error
		h, err = th.IPCHandle(p + 8)
		require.NoError(t, err)
		_, err = th.OpenIPC(h)
		require.ErrorIs(t, err, cuda.InvalidContext, "a process cannot open its own handles")
		_, err = th.IPCHandle(p + 64)
		require.ErrorIs(t, err, cuda.InvalidValue)
	})
	r[1].on(1, func(th cuda.Thread) {
		q, err := th.OpenIPC(h)
		require.NoError(t, err)
		require.NotEqual(t, p, q)
		require.NoError(t, th.Set32(q+4, 7, 1, 0))
		require.NoError(t, th.Synchronize(0))
		require.ErrorIs(t, th.Set32(p, 7, 1, 0), cuda.InvalidValue, "addresses are of one process")
		again, err := th.OpenIPC(h)
		require.NoError(t, err)
		require.Equal(t, q, again)
		require.NoError(t, th.CloseIPC(q))
		require.NoError(t, th.Set32(q, 8, 1, 0))
		require.NoError(t, th.Synchronize(0))
		require.NoError(t, th.CloseIPC(q))
		require.ErrorIs(t, th.CloseIPC(q), cuda.InvalidValue)
	})
	require.Equal(t, []uint32{8, 7}, r[0].words(0, p, 2))
	r[0].close()
	r[1].close()
}

func TestPeerAccess(t *testing.T) {
	sim := cudasim.New(cudasim.Config{Devices: 3, CanAccess: func(a, b int) bool { return a < 2 && b < 2 }})
	cudasim.Limit(t, sim)
	defer sim.Close()
	driver := sim.Driver()
	var d [3]*cuda.Device
	for i := range d {
		var err error
		d[i], err = driver.Device(i)
		require.NoError(t, err)
	}
	r := &rig{t: t, sim: sim, devices: d[:]}
	near, far := r.alloc(0, 64), r.alloc(1, 64)
	s := r.stream(0)
	r.on(0, func(th cuda.Thread) {
		require.ErrorIs(t, th.Copy(near, far, 8, s), notEnabled)
		require.Error(t, th.EnablePeer(d[2]))
		require.NoError(t, th.EnablePeer(d[1]))
		require.NoError(t, th.EnablePeer(d[1]))
		require.NoError(t, th.Copy(near, far, 8, s))
		require.NoError(t, th.Synchronize(s))
	})
	r.on(1, func(th cuda.Thread) { // the other direction is not enabled, and a kernel finds out the hard way
		f := r.function(1, "reach", 8, func(l *cudasim.Launch) { l.Load(cudasim.Args[number](l).N, 8) })
		require.NoError(t, th.Launch(f, cuda.Grid{Blocks: 1, Threads: 1}, args(number{uint64(near)}), 0))
		require.ErrorIs(t, th.Synchronize(0), illegalAddress)
		_, err := th.Alloc(8)
		require.ErrorIs(t, err, illegalAddress, "the error sticks")
	})
	require.Contains(t, sim.Faults()[0], "kernel reach on device 1")
	require.Contains(t, sim.Faults()[0], "device 1 has no access to memory")
}

// Access ends with either context: a process that opens a device anew enables it anew.
func TestPeerAccessEnds(t *testing.T) {
	for closed := range 2 {
		r := newRig(t, cudasim.Config{Devices: 2})
		require.NoError(t, r.devices[closed].Close())
		var err error
		r.devices[closed], err = r.sim.Driver().Device(closed)
		require.NoError(t, err)
		r.undo[closed] = func() { require.NoError(t, r.devices[closed].Close()) }
		near, far := r.alloc(0, 64), r.alloc(1, 64)
		r.on(0, func(th cuda.Thread) {
			require.ErrorIs(t, th.Copy(near, far, 8, 0), notEnabled)
			require.NoError(t, th.EnablePeer(r.devices[1]))
			require.NoError(t, th.Copy(near, far, 8, 0))
			require.NoError(t, th.Synchronize(0))
		})
	}
}

func TestIllegalAccesses(t *testing.T) {
	cases := []struct {
		name string
		at   func(p, freed cuda.Pointer) cuda.Pointer
		text string
	}{
		{"behind the end", func(p, _ cuda.Pointer) cuda.Pointer { return p + 60 }, "8 bytes end 4 bytes behind memory"},
		{"far behind", func(p, _ cuda.Pointer) cuda.Pointer { return p + 100 }, "it lies 36 bytes behind memory"},
		{"freed", func(_, freed cuda.Pointer) cuda.Pointer { return freed }, "is freed or unmapped"},
		{"nowhere", func(_, _ cuda.Pointer) cuda.Pointer { return 8 }, "nothing is mapped there"},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			r := looseRig(t, cudasim.Config{})
			p := r.alloc(0, 64)
			f := r.function(0, "poke", 8, func(l *cudasim.Launch) { l.Store(cudasim.Args[number](l).N, 8) })
			r.on(0, func(th cuda.Thread) {
				freed, err := th.Alloc(64)
				require.NoError(t, err)
				require.NoError(t, th.Free(freed))
				require.ErrorIs(t, th.Set8(k.at(p, freed), 0, 8, 0), cuda.InvalidValue)
				require.NoError(t, th.Launch(f, cuda.Grid{Blocks: 1, Threads: 1}, args(number{uint64(k.at(p, freed))}), 0))
				require.ErrorIs(t, th.Synchronize(0), illegalAddress)
			})
			require.Len(t, r.sim.Faults(), 1)
			require.Contains(t, r.sim.Faults()[0], k.text)
		})
	}
}

func TestModelPanics(t *testing.T) {
	r := looseRig(t, cudasim.Config{})
	f := r.function(0, "broken", 8, func(l *cudasim.Launch) {
		l.Each(func(b *cudasim.Block) {
			if b.Index == 1 {
				panic("no such tile")
			}
			b.Poll(func() bool { return false })
		})
	})
	r.on(0, func(th cuda.Thread) {
		require.NoError(t, th.Launch(f, cuda.Grid{Blocks: 3, Threads: 1}, args(number{}), 0))
		require.ErrorIs(t, th.Synchronize(0), cuda.Result(719))
	})
	require.Contains(t, r.sim.Faults()[0], "the model kernel panicked: no such tile")
}

// A killed process takes its kernels along. A kernel that polls its flags goes on when the host says stop.
func TestKill(t *testing.T) {
	seeds(t, 5, func(t *testing.T, seed uint64) {
		sim, r, processes := pair(t, cudasim.Config{Seed: seed})
		p := r[0].alloc(0, 64)
		h := r[0].host(4)
		var handle cuda.IPCHandle
		r[0].on(0, func(th cuda.Thread) {
			var err error
			handle, err = th.IPCHandle(p)
			require.NoError(t, err)
		})
		wait := func(l *cudasim.Launch) {
			a := cudasim.Args[addresses](l)
			l.Poll(func() bool { return l.LoadAcquire32(a.A) == 1 || a.B != 0 && l.LoadVolatile32(a.B) != 0 })
		}
		f0, f1 := r[0].function(0, "wait", addressesBytes, wait), r[1].function(1, "wait", addressesBytes, wait)
		var s cuda.Stream
		r[1].on(1, func(th cuda.Thread) {
			q, err := th.OpenIPC(handle)
			require.NoError(t, err)
			s, err = th.NewStream(0)
			require.NoError(t, err)
			require.NoError(t, th.Launch(f1, cuda.Grid{Blocks: 1, Threads: 1}, args(addresses{A: uint64(q)}), s))
			require.NoError(t, th.Write32(s, q, 1))
		})
		failed := make(chan error)
		go func() {
			th, err := r[1].devices[1].Enter()
			if err == nil {
				defer th.Leave()
				err = th.Synchronize(s)
			}
			failed <- err
		}()
		r[0].on(0, func(th cuda.Thread) {
			require.NoError(t, th.Launch(f0, cuda.Grid{Blocks: 1, Threads: 1}, args(addresses{uint64(p), uint64(h.Device), 0}), 0))
			time.Sleep(2 * time.Millisecond)
			processes[1].Kill()
			require.ErrorIs(t, <-failed, deinitialized)
			done, err := th.StreamDone(0)
			require.NoError(t, err)
			require.False(t, done)
			storeWord(h.Bytes, 0, 1)
			require.NoError(t, th.Synchronize(0))
		})
		_, err := r[1].devices[1].Enter()
		require.ErrorIs(t, err, deinitialized)
		require.Empty(t, sim.Faults())
		r[0].close()
		cudasim.Check(t, sim)
	})
}

// Memory is not to be freed while another process has it mapped, unless a process was killed, whose peers waited for it in vain.
func TestFreedWhileMapped(t *testing.T) {
	for _, k := range []struct {
		name           string
		opens, closes  int
		killed, faulty bool
	}{{name: "not mapped"}, {name: "unmapped", opens: 2, closes: 2}, {name: "mapped", opens: 1, faulty: true},
		{name: "mapped twice", opens: 2, closes: 1, faulty: true}, {name: "killed", opens: 1, killed: true}} {
		t.Run(k.name, func(t *testing.T) {
			sim, r, _ := pair(t, cudasim.Config{})
			p := r[0].alloc(0, 64)
			r[0].undo = r[0].undo[:len(r[0].undo)-1]
			var h cuda.IPCHandle
			r[0].on(0, func(th cuda.Thread) {
				var err error
				h, err = th.IPCHandle(p)
				require.NoError(t, err)
			})
			r[1].on(1, func(th cuda.Thread) {
				for i := range k.opens {
					q, err := th.OpenIPC(h)
					require.NoError(t, err)
					if i < k.closes {
						defer func() { require.NoError(t, th.CloseIPC(q)) }()
					}
				}
			})
			if k.killed {
				sim.Process().Kill()
			}
			r[0].on(0, func(th cuda.Thread) { require.NoError(t, th.Free(p)) })
			if !k.faulty {
				require.Empty(t, sim.Faults())
				return
			}
			require.Len(t, sim.Faults(), 1)
			require.Contains(t, sim.Faults()[0], "process 0 frees memory 1 of device 0 (64 bytes, process 0), which process 1 has mapped by IPC")
		})
	}
}
