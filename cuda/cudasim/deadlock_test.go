package cudasim_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
)

const timeout cuda.Result = 702 // CUDA_ERROR_LAUNCH_TIMEOUT

// In a bubble time is fake: a deadlock is found as soon as nothing can move.
func bubble(t *testing.T, f func(t *testing.T)) { synctest.Test(t, f) }

func TestDeadlockOfStreams(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := looseRig(t, cudasim.Config{Devices: 2, Patience: time.Hour})
		c := newScene(r)
		c.wait32(c.u, c.flags, 3)
		c.record(c.f, c.u)
		c.wait(c.s, c.f)
		c.write32(c.s, c.flags, 3)
		c.on(0, func(th cuda.Thread) { require.ErrorIs(t, th.Synchronize(c.s), timeout) })
		require.Len(t, r.sim.Faults(), 1)
		report := r.sim.Faults()[0]
		for _, word := range []string{"deadlock: nothing has moved for 1h0m0s", "StreamSynchronize waits for stream",
			"StreamWaitEvent, which waits for EventRecord on device 1",
			"StreamWaitValue32, which waits until word 0 of memory", "which is 0, is at least 3", "deadlock_test.go:"} {
			require.Contains(t, report, word)
		}
		c.on(0, func(th cuda.Thread) { // the context is of no use any more
			_, err := th.NewStream(0)
			require.ErrorIs(t, err, timeout)
		})
		r.sim.Close()
	})
}

func TestDeadlockOfKernels(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := looseRig(t, cudasim.Config{Devices: 2})
		c := newScene(r)
		c.run(c.s, "stuck", func(l *cudasim.Launch) {
			a := cudasim.Args[addresses](l)
			l.Each(func(b *cudasim.Block) {
				b.Poll(func() bool { return b.LoadAcquire32(a.C+uint64(4*b.Index)) == 9 })
			})
		})
		c.on(0, func(th cuda.Thread) { require.ErrorIs(t, th.Synchronize(c.s), timeout) })
		require.Contains(t, r.sim.Faults()[0], "kernel stuck; block 0 polls word 0 of memory")
		require.Contains(t, r.sim.Faults()[0], "block 1 polls word 1 of memory")
		r.sim.Close()
	})
}

// fillQueue enqueues n operations behind a wait for a word that another goroutine writes a second later.
func fillQueue(t *testing.T, r *rig, n int) (err error) {
	c := newScene(r)
	c.wait32(c.s, c.flags, 1)
	var others sync.WaitGroup
	others.Go(func() {
		time.Sleep(time.Second)
		c.on(1, func(th cuda.Thread) { err = th.Write32(c.u, c.flags, 1) })
	})
	c.on(0, func(th cuda.Thread) {
		for range n {
			if err := th.Set8(c.a, 0, 1, c.s); err != nil {
				require.ErrorIs(t, err, timeout)
			}
		}
	})
	others.Wait()
	if err == nil {
		c.sync(c.s)
	}
	return err
}

// A full queue blocks the process, so the write that would empty it never comes.
func TestFullQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := looseRig(t, cudasim.Config{Devices: 2, QueueDepth: 16})
		require.ErrorIs(t, fillQueue(t, r, 17), timeout)
		require.Contains(t, r.sim.Faults()[0], "MemsetD8Async waits, with the process locked, for room in stream")
		require.Contains(t, r.sim.Faults()[0], "StreamWriteValue32 waits for another call that holds the process's lock")
		r.sim.Close()
		r = looseRig(t, cudasim.Config{Devices: 2, QueueDepth: 16})
		require.NoError(t, fillQueue(t, r, 15))
		r.close()
		cudasim.Check(t, r.sim)
	})
}

// freedUnder frees memory of device 0, whose stream waits for a word. Another goroutine writes the word a second later, on a stream of the
// writing device.
func freedUnder(t *testing.T, r *rig, writer int, free func(c *scene, th cuda.Thread) error) (freed, written error) {
	c := newScene(r)
	flags, from := c.alloc(writer, 64), c.stream(writer)
	c.wait32(c.s, flags, 1)
	var others sync.WaitGroup
	others.Go(func() {
		time.Sleep(time.Second)
		c.on(writer, func(th cuda.Thread) { written = th.Write32(from, flags, 1) })
	})
	c.on(0, func(th cuda.Thread) { freed = free(c, th) })
	others.Wait()
	return freed, written
}

// A call that frees memory waits for the device with its context locked. A call of the same context that would end the wait never comes.
func TestFreeUnderWait(t *testing.T) {
	frees := map[string]func(c *scene, th cuda.Thread) error{
		"MemFree":     func(c *scene, th cuda.Thread) error { return th.Free(c.alloc(0, 64)) },
		"MemFreeHost": func(c *scene, th cuda.Thread) error { return th.FreeHost(c.h) },
	}
	for name, free := range frees {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := looseRig(t, cudasim.Config{Devices: 2})
				freed, written := freedUnder(t, r, 0, free)
				require.ErrorIs(t, freed, timeout)
				require.ErrorIs(t, written, timeout)
				require.Contains(t, r.sim.Faults()[0], name+" waits for device 0 to be idle")
				r.sim.Close()
				r = looseRig(t, cudasim.Config{Devices: 2})
				freed, written = freedUnder(t, r, 1, free)
				require.NoError(t, freed)
				require.NoError(t, written)
				r.sim.Close()
			})
		})
	}
}

// lazily launches a kernel for the first time while its device waits for a word that another goroutine is to write.
func lazily(t *testing.T, config cudasim.Config) (r *rig, launch, write error) {
	r = looseRig(t, config)
	c := newScene(r)
	r.sim.Register("late", addressesBytes, func(*cudasim.Launch) {})
	var m cuda.Module
	var f cuda.Function
	r.on(0, func(th cuda.Thread) {
		var res cuda.Result
		m, _, res = r.sim.Driver().ModuleLoadDataEx(append(cudasim.Image("late"), 0))
		require.Equal(t, cuda.Success, res)
		f, res = r.sim.Driver().ModuleGetFunction(m, "late")
		require.Equal(t, cuda.Success, res)
	})
	c.later(func() { c.on(0, func(th cuda.Thread) { c.must(th.UnloadModule(m)) }) })
	c.wait32(c.s, c.flags, 1)
	var others sync.WaitGroup
	others.Go(func() {
		time.Sleep(time.Second)
		c.on(1, func(th cuda.Thread) { write = th.Write32(c.u, c.flags, 1) })
	})
	r.on(0, func(th cuda.Thread) {
		launch = th.Launch(f, cuda.Grid{Blocks: 1, Threads: 1}, args(addresses{}), c.s)
	})
	others.Wait()
	if launch == nil {
		c.sync(c.s)
	}
	return r, launch, write
}

func TestLazyLoading(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, launch, write := lazily(t, cudasim.Config{Devices: 2})
		require.ErrorIs(t, launch, timeout)
		require.ErrorIs(t, write, timeout)
		require.Contains(t, r.sim.Faults()[0], "LaunchKernel waits for device 0 to be idle")
		r.sim.Close()
		r, launch, write = lazily(t, cudasim.Config{Devices: 2, EagerLoading: true})
		require.NoError(t, launch)
		require.NoError(t, write)
		r.close()
		cudasim.Check(t, r.sim)
	})
}

// A call that waits while others still work is no deadlock, however long that takes.
func TestPatienceIsForSilence(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := looseRig(t, cudasim.Config{Devices: 2, Patience: time.Second})
		c := newScene(r)
		c.wait32(c.s, c.flags, 20)
		var others sync.WaitGroup
		others.Go(func() {
			for i := range uint32(20) {
				time.Sleep(900 * time.Millisecond)
				c.on(1, func(th cuda.Thread) { c.must(th.Write32(c.u, c.flags, i+1)) })
			}
		})
		c.sync(c.s)
		others.Wait()
		r.close()
		cudasim.Check(t, r.sim)
	})
}

// TestWokenByOthers has a call wait for what another thread enqueues, which calls nothing more: the wait ends at once.
func TestWokenByOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := looseRig(t, cudasim.Config{Devices: 2, Patience: time.Hour})
		c := newScene(r)
		c.wait32(c.s, c.flags, 1)
		var others sync.WaitGroup
		others.Go(func() {
			time.Sleep(time.Second)
			c.on(1, func(th cuda.Thread) { c.must(th.Write32(c.u, c.flags, 1)) })
		})
		began := time.Now()
		c.sync(c.s)
		require.Less(t, time.Since(began), 2*time.Second)
		others.Wait()
		r.close()
		cudasim.Check(t, r.sim)
	})
}

func TestCloseFreesWaiters(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := looseRig(t, cudasim.Config{Devices: 2, Patience: time.Hour})
		c := newScene(r)
		c.wait32(c.s, c.flags, 1)
		var others sync.WaitGroup
		others.Go(func() {
			c.on(0, func(th cuda.Thread) { require.Error(t, th.Synchronize(c.s)) })
		})
		time.Sleep(time.Second)
		r.sim.Close()
		r.sim.Close()
		others.Wait()
	})
}

// A host that asks again and again how far a kernel is does not keep it from being found stuck.
func TestDeadlockOfPolls(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for name, poll := range map[string]func(cuda.Thread, *scene) error{
			"events":  func(th cuda.Thread, c *scene) error { _, err := th.EventDone(c.e); return err },
			"streams": func(th cuda.Thread, c *scene) error { _, err := th.StreamDone(c.s); return err },
		} {
			r := looseRig(t, cudasim.Config{Devices: 2, Patience: time.Second})
			c := newScene(r)
			c.run(c.s, "stuck", func(l *cudasim.Launch) {
				a := cudasim.Args[addresses](l)
				l.Each(func(b *cudasim.Block) { b.Poll(func() bool { return b.LoadAcquire32(a.C) == 9 }) })
			})
			c.record(c.e, c.s)
			began := time.Now()
			var err error
			c.on(0, func(th cuda.Thread) {
				for ; err == nil && time.Since(began) < time.Minute; time.Sleep(time.Millisecond) {
					err = poll(th, c)
				}
			})
			require.ErrorIs(t, err, timeout, name)
			require.Less(t, time.Since(began), 6*time.Second)
			require.Len(t, r.sim.Faults(), 1)
			require.Contains(t, r.sim.Faults()[0], "deadlock: nothing has moved for 4s\n  no call waits: the host polls or does something else\n")
			require.Contains(t, r.sim.Faults()[0], "kernel stuck; block 0 polls word 0 of memory")
			r.sim.Close()
		}
	})
}

// TestDeadlockUnasked has the host do nothing at all while a stream waits for ever.
func TestDeadlockUnasked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := looseRig(t, cudasim.Config{Devices: 2, Patience: time.Second})
		c := newScene(r)
		c.wait32(c.s, c.flags, 1)
		time.Sleep(3 * time.Second)
		require.Empty(t, r.sim.Faults())
		time.Sleep(3 * time.Second)
		require.Len(t, r.sim.Faults(), 1)
		require.Contains(t, r.sim.Faults()[0], "StreamWaitValue32, which waits until word 0 of memory")
		time.Sleep(time.Hour)
		require.Len(t, r.sim.Faults(), 1)
		r.sim.Close()
	})
}

// A kernel that yields for ever, looking at nothing, is found, whether the host waits for it or polls.
func TestDeadlockOfYields(t *testing.T) {
	for _, polls := range []bool{false, true} {
		r := looseRig(t, cudasim.Config{Devices: 2, Patience: 50 * time.Millisecond})
		c := newScene(r)
		c.run(c.s, "idles", func(l *cudasim.Launch) {
			l.Each(func(b *cudasim.Block) {
				for {
					b.Yield()
				}
			})
		})
		var err error
		c.on(0, func(th cuda.Thread) {
			err = th.Record(c.e, c.s) // before which a busy machine may have it found
			for polls && err == nil {
				_, err = th.EventDone(c.e)
			}
			if err == nil {
				err = th.Synchronize(c.s)
			}
		})
		require.ErrorIs(t, err, timeout)
		require.Contains(t, r.sim.Faults()[0], "kernel idles; block 0 has not begun or yields")
		r.sim.Close()
	}
}

// A driver may crash where a call gets a stream that was destroyed.
func TestDestroyedStream(t *testing.T) {
	r := looseRig(t, cudasim.Config{Devices: 1})
	r.on(0, func(th cuda.Thread) {
		s, err := th.NewStream(0)
		require.NoError(t, err)
		require.NoError(t, th.DestroyStream(s))
		require.ErrorIs(t, th.Synchronize(s), cuda.InvalidHandle)
		require.Len(t, r.sim.Faults(), 1)
		require.Contains(t, r.sim.Faults()[0], fmt.Sprintf("StreamSynchronize gets stream %#x, which is destroyed", uintptr(s)))
	})
	r.sim.Close()
}
