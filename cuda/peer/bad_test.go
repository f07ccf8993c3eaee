package peer

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/sim"
)

// refusals are calls that a rank makes wrong. Calls that package pg refuses before it has taken a number leave the group as
// it was. The call that mixes devices needs two.
func (r *rank) refusals(devices int) error {
	d := colligo.Float32
	x := r.tensor(0, d, 0, 12)
	square := colligo.OnDevice(r.device.Place(), x.Addr(), 16, d).Strided(0, []int{2, 4}, []int{1, 4})
	err := r.g.AllReduce(r.ctx, square, colligo.Sum)
	if err := contains(err, "is neither contiguous nor dense, as tensors on a device must be"); err != nil {
		return err
	}
	if devices > 1 {
		other := colligo.Device{Kind: colligo.CUDA, Index: (r.device.Index() + 1) % devices}
		err = r.g.AllGatherIntoTensor(r.ctx, colligo.OnDevice(other, r.tensor(1, d, 0, 12).Addr(), 12*r.g.Size(), d), x)
		if err := contains(err, "tensors on", r.device.Place().String(), other.String(), "in one call"); err != nil {
			return err
		}
	}
	err = r.g.AllGatherIntoTensor(r.ctx, colligo.Of(make([]float32, 12*r.g.Size())), x)
	return contains(err, "tensors on", r.device.Place().String(), "cpu", "in one call")
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	onSim(t, 2, small(LL), func(r *rank) error {
		return first(r.refusals(2), func() error { return r.allReduce(trial{dtype: colligo.Float32, op: colligo.Sum, count: 100}) })
	})
}

// badAddress is where rank 1 says that its tensor is, and the error that it then gets. The other ranks get it from rank 1.
type badAddress struct {
	name string
	at   func(r *rank) colligo.Tensor
	text string
}

// badAddresses returns addresses that no device memory of the rank has. The function peer returns an address on another
// device; it is nil if there is none.
func badAddresses(peer func() cuda.Pointer) []badAddress {
	d := colligo.Float32
	of := func(r *rank, at cuda.Pointer, n int) colligo.Tensor {
		return colligo.OnDevice(r.device.Place(), uintptr(at), n, d)
	}
	all := []badAddress{
		{"nowhere", func(r *rank) colligo.Tensor { return of(r, 0x1000, 4) }, "the input float32[4] cuda:"},
		{"nowhere", func(r *rank) colligo.Tensor { return of(r, 0x1000, 4) }, "at 0x1000 (16 bytes): no device memory is there"},
		{"end", func(r *rank) colligo.Tensor { return of(r, r.arena+cuda.Pointer(2*r.half)-64, 1<<40) }, "the memory ends after"},
	}
	if peer != nil {
		all = append(all, badAddress{"other device", func(r *rank) colligo.Tensor { return of(r, peer(), 4) }, "the memory is on device 0"})
	}
	return all
}

// misplaced has rank 1 call with a tensor that is not there. Nobody's device is harmed: memory can still be copied.
func (r *rank) misplaced(p badAddress) error {
	x := r.tensor(0, colligo.Float32, 0, 4)
	if err := r.put(x, make([]byte, x.Size())); err != nil {
		return err
	}
	if err := r.allReduce(trial{dtype: colligo.Float32, op: colligo.Sum, count: 4}); err != nil {
		return err
	}
	if r.g.Rank() == 1 {
		x = p.at(r)
	}
	if err := r.g.AllReduce(r.ctx, x, colligo.Sum); r.g.Rank() == 1 {
		if err := contains(err, p.text, "[rank 1"); err != nil {
			return err
		}
	}
	if err := r.failed(p.text, "rank 1"); err != nil {
		return err
	}
	// The others' kernels were stopped and are off the stream.
	return r.synchronize()
}

func TestMisplaced(t *testing.T) {
	t.Parallel()
	for _, p := range badAddresses(func() cuda.Pointer { return 1<<56 + 4096 }) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			onRanks(t, abortable(t, 2).Driver(), 2, 2, simHalf, small(LL), func(r *rank) error { return r.misplaced(p) })
		})
	}
}

// broken is a driver, or options, with which no group can be opened.
type broken struct {
	name  string
	build func(d *cuda.Driver, o *Options)
	texts []string
}

func brokenDrivers() []broken {
	module := func(r cuda.Result, log string) func(*cuda.Driver, *Options) {
		return func(d *cuda.Driver, _ *Options) {
			d.ModuleLoadDataEx = func([]byte) (cuda.Module, string, cuda.Result) { return 0, log, r }
		}
	}
	return []broken{
		{"memory", func(_ *cuda.Driver, o *Options) { o.Memory = 1 << 44 },
			[]string{"the group's heap of", "peer.Options.Memory asks for less", "cuMemAlloc on device", "CUDA_ERROR_OUT_OF_MEMORY"}},
		{"little memory", func(_ *cuda.Driver, o *Options) { o.Memory = 1 << 20 }, []string{"are too few for 2 ranks", "MiB would do"}},
		{"old driver", module(cuda.UnsupportedPTXVersion, "ptxas fatal : Unsupported .version 7.8"),
			[]string{"is too old for the kernels", "CUDA ", "of compute capability", "module move", "Unsupported .version 7.8"}},
		{"compiler", module(cuda.InvalidPTX, "ptxas application ptx input, line 7; error : Unknown instruction"),
			[]string{"does not take the kernels", "CUDA ", "module move", "line 7; error : Unknown instruction"}},
	}
}

// unopened sees that the first operation fails on every rank, and says why.
func (r *rank) unopened(o Options, texts []string) error {
	x := r.tensor(0, colligo.Float32, 0, 4)
	err := r.g.AllReduce(With(r.ctx, o), x, colligo.Sum)
	return contains(err, append(texts, "rank ", "cuda:")...)
}

func TestUnopened(t *testing.T) {
	t.Parallel()
	for _, c := range brokenDrivers() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			onBroken(t, simulated(t, 2).Driver(), 2, simHalf, c)
		})
	}
}

func onBroken(t *testing.T, driver *cuda.Driver, devices, half int, c broken) {
	d := *driver
	o := Options{}
	c.build(&d, &o)
	o.Driver = &d
	onRanks(t, driver, 2, devices, half, o, func(r *rank) error { return r.unopened(o, c.texts) })
}

// TestNoSuchDevice names a device that the process does not see.
func TestNoSuchDevice(t *testing.T) {
	t.Parallel()
	onSim(t, 2, small(LL), func(r *rank) error {
		x := colligo.OnDevice(colligo.Device{Kind: colligo.CUDA, Index: 5}, 1<<56, 4, colligo.Float32)
		return contains(r.g.AllReduce(r.ctx, x, colligo.Sum), "rank ", "on cuda:5", "this process sees 2 devices", "cuDeviceGet on device 5")
	})
}

// TestSelfTestFails has a call of the self-test fail with a copy on its way: the memory that it goes to stays until it is over.
func TestSelfTestFails(t *testing.T) {
	t.Parallel()
	sim := simulated(t, 2)
	all := []*cudasim.Process{sim.Process(), sim.Process()}
	all[0].Fail("StreamSynchronize", 4, cuda.OutOfMemory) // after those of the symmetric heap, of its lines and of what is sent
	o := small(LL)
	o.launch = paces[0]
	onDrivers(t, func(rank int) *cuda.Driver { return all[rank].Driver() }, 2, 2, simHalf, o, func(r *rank) error {
		err := r.g.AllReduce(r.ctx, r.tensor(0, colligo.Float32, 0, 4), colligo.Sum)
		return contains(err, "rank 0 on cuda:0: cuda: cuStreamSynchronize on device 0")
	})
}

// TestKilled ends the process of one rank while all reduce. The others hear that it is lost, and their kernels end.
func TestKilled(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []Algorithm{LL, Tiles, CopyRing, Fused} {
		t.Run(string(algorithm), func(t *testing.T) {
			t.Parallel()
			killOne(t, abortable(t, 3), small(algorithm))
		})
	}
}

func killOne(t *testing.T, machine *cudasim.Sim, o Options) {
	const size, victim = 3, 1
	o.farewell = 5 * time.Second // what the living may take on a busy machine; nobody waits for the dead any longer
	net, shared := sim.New(sim.Config{Size: size}), store.NewHash()
	processes := []*cudasim.Process{machine.Process(), machine.Process(), machine.Process()}
	errs, ready := make(chan error, size), make(chan struct{})
	for i := range size {
		go func() {
			g, err := pg.Init(t.Context(), pg.Config{Store: shared, Size: size, Rank: i, Timeout: time.Minute, Recorder: pg.RecorderOptions{DumpOnError: pg.Off},
				Open: func(ctx context.Context, c *transport.Config) (transport.Mesh, error) { return net.OpenAs(ctx, i, c) }})
			if err != nil {
				errs <- err
				return
			}
			err = life(t.Context(), g, processes[i].Driver(), i, simHalf, o, func(r *rank) error {
				begun := ready
				if i != victim {
					begun = make(chan struct{})
				}
				return r.untilLost(begun, victim)
			})
			if i == victim {
				err = nil // the dead have no errors
			}
			errs <- err
		}()
	}
	left := size
	select {
	case <-ready:
	case err := <-errs:
		t.Error("before the kill:", err)
		left--
	}
	net.Kill(victim) // first: the dead tell nobody that their driver fails
	processes[victim].Kill()
	for range left {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// untilLost reduces until an error comes, which must be the loss of the victim. Every rank says when it has begun.
func (r *rank) untilLost(begun chan<- struct{}, victim int) error {
	x := r.tensor(0, colligo.Float32, 0, 50_000)
	if err := r.put(x, make([]byte, x.Size())); err != nil {
		return err
	}
	for i, end := 0, time.Now().Add(40*time.Second); time.Now().Before(end); i++ {
		err := r.g.AllReduceAsync(r.ctx, x, colligo.Sum).Synchronize(r.ctx)
		switch {
		case err == nil && i == 3:
			close(begun)
		case err != nil && !errors.Is(err, colligo.ErrPeerLost):
			return fmt.Errorf("not the loss of rank %d: %w", victim, err)
		case err != nil:
			return contains(r.g.Err(), fmt.Sprint(victim))
		}
	}
	return errors.New("no error came")
}
