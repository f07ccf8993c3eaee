package parity

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/cuda/cudasim/model"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/cuda/nccl/ncclsim"
	"github.com/colligo-go/colligo/cuda/peer"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
)

// rank is one rank of a test: its group, and where its tensors lie.
type rank struct {
	*pg.Group
	t      *testing.T
	ctx    context.Context // for the group's calls; on a device with the rank's stream
	gpu    *cuda.Device    // nil for CPU ranks
	driver *cuda.Driver    // of gpu
	cuda.Stream
	*arena
	dir string // of the files of its medium, where the options have files
}

// arena is the memory of a rank on its device, and pinned memory to copy through. Both are taken before anything runs: a
// driver may wait for the device when it takes or gives back memory.
type arena struct {
	mu    sync.Mutex
	begin cuda.Pointer
	size  int // arenaBytes if 0
	used  int
	host  *cuda.Host
}

const (
	arenaBytes = 8 << 20
	hostBytes  = 1 << 20 // larger tensors are copied in parts
)

// options change how the ranks of a test are made.
type options struct {
	config      func(rank int, c *pg.Config)
	files       func(c *pg.Config, dir string) // has ranks write files: each medium has a folder of its own
	look        func(t *testing.T, dir string) // looks at the files of each medium when its ranks are gone, if nothing has failed
	initError   func(t *testing.T, rank int, err error)
	onlyCPU     bool // the situation does not exist on devices
	onlyDevices bool // it exists there only
	noSim       bool // it needs real time
	waits       bool // it waits more than it works, so its media run at once
	arena       int  // bytes of a rank's memory on its device, arenaBytes if 0
	noNCCL      bool // a message comes first whose other end never comes: NCCL makes the communicator of the two ranks then, and waits
}

// each runs f on all ranks of a group of n, on every medium.
func each(t *testing.T, n int, f func(r *rank)) {
	t.Helper()
	eachWith(t, n, options{}, f)
}

// eachWith runs f on all ranks of a group of n, on every medium that the options allow.
func eachWith(t *testing.T, n int, o options, f func(r *rank)) {
	t.Helper()
	run := func(medium string, on func(t *testing.T, o *options, f func(*rank))) {
		t.Run(medium, func(t *testing.T) {
			if o.waits {
				beside(t)
			}
			if o.files == nil {
				on(t, &o, f)
				return
			}
			o.inFolder(t, on, f)
		})
	}
	if !o.noSim && !o.onlyDevices {
		runs(t, onSim)
		run("sim", func(t *testing.T, o *options, f func(*rank)) { o.onCPU(t, n, "", f) })
	}
	if sharedMemory && !o.onlyDevices {
		runs(t, onShm)
		run("shm", func(t *testing.T, o *options, f func(*rank)) { o.onCPU(t, n, "shm", f) })
	}
	if o.onlyCPU {
		return
	}
	runs(t, onCudasim, onGPU)
	run("cudasim", func(t *testing.T, o *options, f func(*rank)) { o.onDevices(t, n, simulated(t, n), n, f) })
	if !o.noNCCL {
		runs(t, onNCCL)
		run("nccl", func(t *testing.T, o *options, f func(*rank)) { o.onNCCL(t, n, f) })
	}
	if os.Getenv("COLLIGO_GPU") != "" {
		run("gpu", func(t *testing.T, o *options, f func(*rank)) {
			d, err := cuda.Open()
			require.NoError(t, err)
			devices, err := d.Devices()
			require.NoError(t, err)
			o.onDevices(t, n, d, devices, f)
		})
	}
}

// inFolder runs f on the ranks of one medium, which write their files to a folder of this medium, and looks at them.
func (o *options) inFolder(t *testing.T, on func(t *testing.T, o *options, f func(*rank)), f func(r *rank)) {
	own, dir := *o, t.TempDir()
	own.config = func(rank int, c *pg.Config) {
		if o.config != nil {
			o.config(rank, c)
		}
		o.files(c, dir)
	}
	on(t, &own, func(r *rank) {
		r.dir = dir
		f(r)
	})
	if o.look != nil && !t.Failed() {
		o.look(t, dir)
	}
}

// onCPU runs f on ranks that have their tensors in memory.
func (o *options) onCPU(t *testing.T, n int, transport string, f func(*rank)) {
	run := pgtest.Options{Transport: transport, Config: o.config, InitError: o.initError}
	pgtest.RunWith(t, n, run, func(t *testing.T, g *pg.Group) { f(&rank{Group: g, t: t, ctx: t.Context()}) })
}

// beside lets a test that waits more than it works run beside others, except on real devices, which the ranks of one test share.
func beside(t *testing.T) {
	if os.Getenv("COLLIGO_GPU") == "" {
		t.Parallel()
	}
}

// simulated makes a machine of n devices with the kernels of the reductions that tests use, and returns its only process's driver.
func simulated(t *testing.T, n int) *cuda.Driver { return machineOf(t, n).Driver() }

// machineOf makes such a machine.
func machineOf(t *testing.T, n int) *cudasim.Sim {
	sim := cudasim.New(cudasim.Config{Devices: n, Seed: 1, Patience: 12 * time.Second})
	cudasim.Limit(t, sim)
	require.NoError(t, model.Register(sim))
	require.NoError(t, model.RegisterReduction(sim, colligo.Float32, colligo.KindMax))
	for _, d := range []colligo.DType{colligo.Float32, colligo.Int64, colligo.Float16, colligo.BFloat16, colligo.Float8E4M3FN, colligo.Float8E5M2} {
		require.NoError(t, model.RegisterReduction(sim, d, colligo.KindSum))
	}
	t.Cleanup(func() {
		sim.Drain()
		require.Empty(t, sim.Faults())
		sim.Close()
	})
	return sim
}

// overNCCL are the backends of a group whose operations on devices NCCL carries out.
const overNCCL = "cpu:host,cuda:nccl"

// simulatedNCCL makes a simulated NCCL on a machine.
func simulatedNCCL(t *testing.T, d *cuda.Driver) *nccl.Library {
	sim := ncclsim.New(d, ncclsim.Version)
	t.Cleanup(func() { require.NoError(t, sim.Close()) })
	l, err := sim.Library()
	require.NoError(t, err)
	return l
}

// onNCCL runs f on ranks that have simulated devices, whose operations the simulated NCCL carries out.
func (o *options) onNCCL(t *testing.T, n int, f func(*rank)) {
	d := simulated(t, n)
	l := simulatedNCCL(t, d)
	by := *o
	by.config = func(rank int, c *pg.Config) {
		c.Backends = overNCCL
		if o.config != nil {
			o.config(rank, c)
		}
	}
	by.onDevices(t, n, d, n, func(r *rank) {
		r.ctx = nccl.With(r.ctx, nccl.Options{Driver: d, Library: l})
		f(r)
	})
}

// onDevices runs f on ranks that have their tensors on devices, which the ranks take in turn.
func (o *options) onDevices(t *testing.T, n int, d *cuda.Driver, devices int, f func(*rank)) {
	run := pgtest.Options{RealTime: true, Config: o.config, InitError: o.initError}
	ranks := make([]*rank, n)
	pgtest.RunWith(t, n, run, func(t *testing.T, g *pg.Group) {
		r := rankOn(t, g, d, devices, o.arena)
		ranks[g.Rank()] = r
		defer r.Close() // pgtest closes again and tells the error
		f(r)
	})
	for _, r := range ranks { // CUDA frees when the whole device is idle, so no rank may be at work
		if r != nil {
			r.free()
		}
	}
}

// rankOn makes a rank that has its tensors on one of some devices, which the ranks take in turn.
func rankOn(t *testing.T, g *pg.Group, d *cuda.Driver, devices, arenaSize int) *rank {
	dev, err := d.Device(g.Rank() % devices)
	require.NoError(t, err)
	r := &rank{Group: g, t: t, gpu: dev, driver: d, arena: &arena{size: arenaSize}}
	r.settle()
	r.enter(func(th cuda.Thread) error {
		r.Stream, err = th.NewStream(0)
		return err
	})
	r.ctx = peer.OnStream(peer.With(t.Context(), peer.Options{Driver: d, Memory: 24 << 20}), r.Stream)
	return r
}

// enter does something with the rank's device.
func (r *rank) enter(f func(cuda.Thread) error) {
	th, err := r.gpu.Enter()
	require.NoError(r.t, err)
	defer th.Leave()
	require.NoError(r.t, f(th))
}

// settle takes the rank's memory.
func (r *rank) settle() {
	if r.arena.size == 0 {
		r.arena.size = arenaBytes
	}
	r.enter(func(th cuda.Thread) (err error) {
		if r.begin, err = th.Alloc(r.arena.size); err == nil {
			r.host, err = th.AllocHost(hostBytes)
		}
		return err
	})
}

// free gives back the memory that the rank took.
func (r *rank) free() {
	r.enter(func(th cuda.Thread) error {
		return errors.Join(th.Free(r.begin), th.FreeHost(r.host), th.DestroyStream(r.Stream))
	})
	require.NoError(r.t, r.gpu.Close())
}

// tensor returns a tensor of values on the rank's device, or in memory.
func tensor[T colligo.Element](r *rank, values ...T) colligo.Tensor {
	t := colligo.Of(append([]T(nil), values...))
	if r.gpu == nil {
		return t
	}
	return r.onDevice(t)
}

// full returns a tensor of n equal values.
func full[T colligo.Element](r *rank, n int, value T) colligo.Tensor {
	v := make([]T, n)
	for i := range v {
		v[i] = value
	}
	return tensor(r, v...)
}

// onDevice copies a tensor to the rank's device.
func (r *rank) onDevice(t colligo.Tensor) colligo.Tensor {
	r.mu.Lock()
	at := r.begin + cuda.Pointer(r.used)
	r.used += (t.Size() + 255) &^ 255
	if r.used > r.arena.size {
		panic("parity: the arena is too small")
	}
	r.mu.Unlock()
	on := colligo.OnDevice(r.gpu.Place(), uintptr(at), t.Len(), t.DType(), t.Shape()...)
	r.upload(on, t.CPUBytes())
	return on
}

// upload copies bytes to a tensor on the rank's device.
func (r *rank) upload(to colligo.Tensor, b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.enter(func(th cuda.Thread) error {
		return r.inParts(b, func(at cuda.Pointer, part []byte) error {
			copy(r.host.Bytes, part)
			if err := th.Copy(cuda.Pointer(to.Addr())+at, r.host.Device, len(part), r.Stream); err != nil {
				return err
			}
			return th.Synchronize(r.Stream)
		})
	})
}

// download copies a tensor on the rank's device to bytes, once the rank's stream has come so far.
func (r *rank) download(b []byte, from colligo.Tensor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.enter(func(th cuda.Thread) error {
		return r.inParts(b, func(at cuda.Pointer, part []byte) error {
			if err := th.Copy(r.host.Device, cuda.Pointer(from.Addr())+at, len(part), r.Stream); err != nil {
				return err
			}
			if err := th.Synchronize(r.Stream); err != nil {
				return err
			}
			copy(part, r.host.Bytes)
			return nil
		})
	})
}

// inParts calls f for parts of a tensor's bytes that the pinned memory takes, with where they begin.
func (r *rank) inParts(b []byte, f func(at cuda.Pointer, part []byte) error) error {
	for at := 0; at < len(b); at += hostBytes {
		if err := f(cuda.Pointer(at), b[at:min(at+hostBytes, len(b))]); err != nil {
			return err
		}
	}
	return nil
}

// write copies bytes to the memory of a tensor that is dense, in whatever order of its dimensions. read returns them.
func (r *rank) write(to colligo.Tensor, b []byte) {
	if r.gpu != nil {
		r.upload(to, b)
		return
	}
	copy(unsafe.Slice((*byte)(to.Pointer()), to.Size()), b)
}

func (r *rank) read(from colligo.Tensor) []byte {
	b := make([]byte, from.Size())
	if r.gpu != nil {
		r.download(b, from)
	} else {
		copy(b, unsafe.Slice((*byte)(from.Pointer()), from.Size()))
	}
	return b
}

// values returns what a tensor holds once the rank's stream has come so far.
func values[T colligo.Element | uint16](r *rank, t colligo.Tensor) []T {
	out := make([]T, t.Len())
	var one T
	if t.DType().Size() != int(unsafe.Sizeof(one)) {
		panic(fmt.Sprintf("parity: values of %v as %T", t, one))
	}
	if r.gpu == nil {
		copy(bytesOf(out), t.CPUBytes())
		return out
	}
	r.download(bytesOf(out), t)
	return out
}

// bytesOf is the memory of a slice.
func bytesOf[T any](s []T) []byte {
	var one T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(one)))
}

// repeat returns n equal values, to compare with.
func repeat[T any](n int, value T) []T {
	v := make([]T, n)
	for i := range v {
		v[i] = value
	}
	return v
}

// equal is require.Equal for long lists, which that compares by reflection.
func equal[T comparable](t *testing.T, want, got []T) {
	t.Helper()
	if !slices.Equal(want, got) {
		require.Equal(t, want, got)
		t.Fatal("not equal")
	}
}

// in is the rank as a member of another group.
func (r *rank) in(g *pg.Group) *rank {
	other := *r
	other.Group = g
	return &other
}

// halves makes the groups of ranks 0, 1 and of ranks 2, 3, and returns the rank in its own. The caller closes it.
func (r *rank) halves() *rank {
	a, err := r.NewGroup(r.ctx, []int{0, 1})
	require.NoError(r.t, err)
	b, err := r.NewGroup(r.ctx, []int{2, 3})
	require.NoError(r.t, err)
	if r.Rank() < 2 {
		return r.in(a)
	}
	return r.in(b)
}

// meet returns when all ranks of the group have come to a point.
func (r *rank) meet(at string) {
	all := make([]int, r.Size())
	for i := range all {
		all[i] = i
	}
	r.meetOf(at, all...)
}

// meetOf returns when some ranks, of which this is one, have come to a point. Their calls of before are over on each of them. A
// failure that came earlier could end an operation of a rank that has yet to see it completed.
func (r *rank) meetOf(at string, ranks ...int) {
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute) // a rank may have failed the test before
	defer cancel()
	require.NoError(r.t, r.Store().Set(ctx, fmt.Sprint(at, r.Rank()), nil))
	var keys []string
	for _, rank := range ranks {
		keys = append(keys, fmt.Sprint(at, rank))
	}
	require.NoError(r.t, r.Store().Wait(ctx, keys...))
}

// leave closes the rank's group.
func (r *rank) leave() { require.NoError(r.t, r.Close()) }
