package cudasim_test

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
)

// A rig is one process with all devices open, each entered by the test's goroutine when it is used.
type rig struct {
	t       *testing.T
	sim     *cudasim.Sim
	devices []*cuda.Device
	undo    []func() // last first
}

// newRig makes a machine that is checked for races, faults and leaks when the test ends, unless it is told not to.
func newRig(t *testing.T, c cudasim.Config) *rig {
	r := looseRig(t, c)
	t.Cleanup(func() {
		r.close()
		cudasim.Check(t, r.sim)
	})
	return r
}

// looseRig is for tests that expect races and faults.
func looseRig(t *testing.T, c cudasim.Config) *rig {
	t.Helper()
	if c.Patience == 0 {
		c.Patience = 20 * time.Second
	}
	sim := cudasim.New(c)
	if time.Now().Year() > 2000 { // else it is a bubble's clock, which jumps
		cudasim.Limit(t, sim)
	}
	t.Cleanup(sim.Close)
	return open(t, sim, sim.Driver())
}

func open(t *testing.T, sim *cudasim.Sim, driver *cuda.Driver) *rig {
	r := &rig{t: t, sim: sim}
	n, err := driver.Devices()
	require.NoError(t, err)
	for i := range n {
		d, err := driver.Device(i)
		require.NoError(t, err)
		r.devices = append(r.devices, d)
		r.later(func() { require.NoError(t, d.Close()) })
	}
	for _, a := range r.devices {
		for _, b := range r.devices {
			if yes, err := a.CanAccess(b); err == nil && yes {
				r.on(a.Index(), func(th cuda.Thread) { require.NoError(t, th.EnablePeer(b)) })
			}
		}
	}
	return r
}

func (r *rig) later(f func()) { r.undo = append(r.undo, f) }

// close gives everything back.
func (r *rig) close() {
	for i := len(r.undo) - 1; i >= 0; i-- {
		r.undo[i]()
	}
	r.undo = nil
}

func (r *rig) on(device int, f func(cuda.Thread)) {
	th, err := r.devices[device].Enter()
	require.NoError(r.t, err)
	defer th.Leave()
	f(th)
}

func (r *rig) stream(device int) cuda.Stream {
	var s cuda.Stream
	r.on(device, func(th cuda.Thread) {
		var err error
		s, err = th.NewStream(0)
		require.NoError(r.t, err)
	})
	r.later(func() { r.on(device, func(th cuda.Thread) { require.NoError(r.t, th.DestroyStream(s)) }) })
	return s
}

func (r *rig) event(device int) cuda.Event {
	var e cuda.Event
	r.on(device, func(th cuda.Thread) {
		var err error
		e, err = th.NewEvent(false)
		require.NoError(r.t, err)
	})
	r.later(func() { r.on(device, func(th cuda.Thread) { require.NoError(r.t, th.DestroyEvent(e)) }) })
	return e
}

// alloc takes memory that is zeros.
func (r *rig) alloc(device, bytes int) cuda.Pointer {
	var p cuda.Pointer
	r.on(device, func(th cuda.Thread) {
		var err error
		p, err = th.Alloc(bytes)
		require.NoError(r.t, err)
		require.NoError(r.t, th.Set8(p, 0, bytes, 0))
		require.NoError(r.t, th.Synchronize(0))
	})
	r.later(func() { r.on(device, func(th cuda.Thread) { require.NoError(r.t, th.Free(p)) }) })
	return p
}

func (r *rig) host(bytes int) *cuda.Host {
	var h *cuda.Host
	r.on(0, func(th cuda.Thread) {
		var err error
		h, err = th.AllocHost(bytes)
		require.NoError(r.t, err)
	})
	r.later(func() { r.on(0, func(th cuda.Thread) { require.NoError(r.t, th.FreeHost(h)) }) })
	return h
}

// function registers a model kernel and loads its function on a device.
func (r *rig) function(device int, name string, args uintptr, model cudasim.Model) cuda.Function {
	r.sim.Register(name, args, model)
	var f cuda.Function
	r.on(device, func(th cuda.Thread) {
		m, err := th.LoadModule(name, cudasim.Image(name))
		require.NoError(r.t, err)
		r.later(func() { r.on(device, func(th cuda.Thread) { require.NoError(r.t, th.UnloadModule(m)) }) })
		f, err = th.Function(m, name)
		require.NoError(r.t, err)
	})
	return f
}

// words reads device memory through pinned memory, on a stream of its own.
func (r *rig) words(device int, p cuda.Pointer, n int) []uint32 {
	out := make([]uint32, n)
	r.on(device, func(th cuda.Thread) {
		h, err := th.AllocHost(4 * n)
		require.NoError(r.t, err)
		require.NoError(r.t, th.Copy(h.Device, p, 4*n, 0))
		require.NoError(r.t, th.Synchronize(0))
		for i := range out {
			out[i] = binary.LittleEndian.Uint32(h.Bytes[4*i:])
		}
		require.NoError(r.t, th.FreeHost(h))
	})
	return out
}

// seeds runs a test under many seeds.
func seeds(t *testing.T, n uint64, f func(t *testing.T, seed uint64)) {
	for seed := range n {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { f(t, seed) })
	}
}

type addresses struct{ A, B, C uint64 }

func args[T any](v T) unsafe.Pointer { return unsafe.Pointer(&v) }

const addressesBytes = unsafe.Sizeof(addresses{})

// loadWord and storeWord are how host code looks at words that devices use at the same time.
func loadWord(b []byte, at int) uint32 { return atomic.LoadUint32((*uint32)(unsafe.Pointer(&b[at]))) }

func storeWord(b []byte, at int, v uint32) {
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&b[at])), v)
}
