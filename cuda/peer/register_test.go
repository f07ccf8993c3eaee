package peer

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/pg"
	seam "github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/plan"
)

// registered makes little symmetric heaps and takes one algorithm for tensors in registered memory, tiles for all others.
func registered(algorithm Algorithm) Options {
	o := small(Tiles)
	o.Rules = append([]Rule{{Coll: plan.AllReduce, Registered: true, Algorithm: algorithm, Blocks: 3, Threads: 64, Tile: 1 << 10}}, o.Rules...)
	return o
}

// directly takes the direct kernels for all-reduces and broadcasts of tensors in registered memory.
func directly() Options {
	o := registered(Direct)
	o.Rules = append([]Rule{{Coll: plan.Broadcast, Registered: true, Algorithm: Direct, Blocks: 3, Threads: 64, Tile: 1 << 10}}, o.Rules...)
	return o
}

// register registers the input half of the arena.
func (r *rank) register() (seam.Registration, error) {
	all := colligo.OnDevice(r.device.Place(), uintptr(r.arena), r.half, colligo.Uint8)
	return r.g.Register(r.ctx, all)
}

// TestLL128 takes LL128 in groups of every kind of size, with tails and odd alignments.
func TestLL128(t *testing.T) {
	t.Parallel()
	for _, size := range fewer(2, 3, 4, 8) {
		for _, algorithm := range []Algorithm{LL128, LL128TwoShot} {
			t.Run(fmt.Sprintf("ranks=%d/%s", size, algorithm), func(t *testing.T) {
				t.Parallel()
				onSim(t, size, small(algorithm), func(r *rank) error {
					for i, n := range []int{0, 1, 5, 120, 121, 1000, 4099, 3000, 40_000, 40_000, 1000, 7} {
						c := trial{dtype: colligo.Float32, op: colligo.Sum, count: n, shift: n % 4, async: i%2 == 1}
						if err := r.allReduce(c); err != nil {
							return err
						}
					}
					return nil
				})
			})
		}
	}
}

// TestLL128Rounds takes sums by LL128 that fill its slots several times, among some that do not.
func TestLL128Rounds(t *testing.T) {
	t.Parallel()
	for _, size := range []int{2, 3} {
		t.Run(fmt.Sprintf("ranks=%d", size), func(t *testing.T) {
			t.Parallel()
			o := small(LL128)
			o.Memory = 4 << 20 * (size - 1)
			l, err := symheap.NewLayout(size, o.Memory)
			require.NoError(t, err)
			round := l.LL128Slot / ptx.LL128Chunk * ptx.LL128Data / 4
			require.Less(t, 5*round/2, simHalf/4)
			onSim(t, size, o, func(r *rank) error {
				for i, n := range []int{7, 5 * round / 2, 300, 3*round - 2001, 3*round - 1, 121, round, round - 1, 2 * round, 1000} {
					c := trial{dtype: colligo.Float32, op: colligo.Sum, count: n, async: i%2 == 1}
					if err := r.allReduce(c); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// TestLL128Types takes every element type and reduction once by LL128 and by direct tiles; the other two algorithms have their code.
func TestLL128Types(t *testing.T) {
	t.Parallel()
	f, all := each(thinned(allTypes(301)))
	for _, algorithm := range []Algorithm{LL128, Direct} {
		t.Run(string(algorithm), func(t *testing.T) {
			t.Parallel()
			onSim(t, 3, registered(algorithm), func(r *rank) error {
				x, err := r.register()
				if err != nil {
					return err
				}
				return first(f(r), x.Close)
			}, all...)
		})
	}
}

func TestDirect(t *testing.T) {
	t.Parallel()
	for _, size := range fewer(2, 3, 4, 8) {
		for _, algorithm := range []Algorithm{Direct, CopyDirect} {
			t.Run(fmt.Sprintf("ranks=%d/%s", size, algorithm), func(t *testing.T) {
				t.Parallel()
				onSim(t, size, registered(algorithm), directs)
			})
		}
	}
}

// directs calls on registered tensors, with others in between, and on one that is registered no more.
func directs(r *rank) error {
	x, err := r.register()
	if err != nil {
		return err
	}
	for i, n := range []int{0, 1, 5, 1000, 4099, 3000, 40_000, 40_000, 1000, 1} {
		c := trial{dtype: colligo.Float32, op: colligo.Sum, count: n, shift: 4 * (n % 4), async: i%2 == 1}
		if i%4 == 3 {
			c.shift++ // goes as other tensors do, in between
		}
		if err := r.allReduce(c); err != nil {
			return err
		}
	}
	if err := x.Close(); err != nil {
		return err
	}
	return r.allReduce(trial{dtype: colligo.Float32, op: colligo.Sum, count: 5000})
}

func TestRegisteredGraph(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []Algorithm{LL128, LL128TwoShot, Direct, CopyDirect} {
		t.Run(string(algorithm), func(t *testing.T) {
			t.Parallel()
			onSim(t, 3, registered(algorithm), func(r *rank) error {
				if _, err := r.register(); err != nil {
					return err
				}
				return first(r.replayed(5000), func() error { return r.replayed(30_000) })
			}, reduction{colligo.Float32, colligo.KindMax})
		})
	}
}

// TestRegisteredProcesses registers between processes, two windows in one allocation, and leaves one to the group's Close.
func TestRegisteredProcesses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ size, devices int }{{2, 2}, {4, 4}, {4, 2}} {
		t.Run(fmt.Sprintf("ranks=%d/devices=%d", c.size, c.devices), func(t *testing.T) {
			t.Parallel()
			sim := simulated(t, c.devices)
			var drivers []*cuda.Driver
			for range c.size {
				drivers = append(drivers, sim.Process().Driver())
			}
			onDrivers(t, func(rank int) *cuda.Driver { return drivers[rank] }, c.size, c.devices, simHalf, registered(Direct), func(r *rank) error {
				x, err := r.register()
				if err != nil {
					return err
				}
				_, err = r.g.Register(r.ctx, r.tensor(1, colligo.Float32, 0, 1000))
				if err != nil {
					return err
				}
				for _, n := range []int{7, 5000, 100_000} {
					if err := r.allReduce(trial{dtype: colligo.Float32, op: colligo.Sum, count: n}); err != nil {
						return err
					}
				}
				return first(x.Close(),
					x.Close,
					func() error { return r.allReduce(trial{dtype: colligo.Float32, op: colligo.Sum, count: 5000}) })
			})
		})
	}
}

// TestRegisterFails registers what cannot be: every rank gets the error, and the group goes on.
func TestRegisterFails(t *testing.T) {
	t.Parallel()
	onSim(t, 3, registered(Direct), func(r *rank) error {
		n := 1000
		if r.g.Rank() == 1 {
			n = 999
		}
		_, err := r.g.Register(r.ctx, r.tensor(0, colligo.Float32, 0, n))
		if err == nil {
			return fmt.Errorf("ranks registered different lengths")
		}
		if _, err := r.g.Register(r.ctx, colligo.Of(make([]float32, 4))); err == nil {
			return fmt.Errorf("memory of the CPU was registered")
		}
		return r.allReduce(trial{dtype: colligo.Float32, op: colligo.Sum, count: 5000})
	})
}

// otherPlace breaks the contract: rank 1's tensor lies elsewhere in the registered memory. Every rank that stores in a
// peer's tensor learns of it, and no tensor is written where its owner did not mean it.
func (r *rank) otherPlace(c plan.Coll) error {
	if _, err := r.register(); err != nil {
		return err
	}
	shift := 0
	if r.g.Rank() == 1 {
		shift = 4096
	}
	x := r.tensor(0, colligo.Float32, shift, 20_000)
	own := values(colligo.Float32, colligo.KindSum, r.g.Rank(), 20_000)
	if err := r.put(x, own); err != nil {
		return err
	}
	stores := true
	var w *pg.Work
	if c == plan.Broadcast {
		w, stores = r.g.BroadcastAsync(r.ctx, x, 0), r.g.Rank() < r.g.Size()-1
	} else {
		w = r.g.AllReduceAsync(r.ctx, x, colligo.Sum)
	}
	err := w.Synchronize(r.ctx)
	if err == nil && stores {
		return fmt.Errorf("ranks called %v for different places", c)
	}
	if err != nil && !errors.Is(err, colligo.ErrMismatch) {
		return err
	}
	return r.expect("tensor of a broken contract", x, own)
}

func TestOtherPlace(t *testing.T) {
	t.Parallel()
	for _, c := range []plan.Coll{plan.AllReduce, plan.Broadcast} {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			onRanks(t, abortable(t, 3).Driver(), 3, 3, simHalf, directly(), func(r *rank) error { return r.otherPlace(c) })
		})
	}
}

// TestRegistrationClosedAfterFailure closes one while what is on the device goes on to copy into the peer's memory.
func TestRegistrationClosedAfterFailure(t *testing.T) {
	t.Parallel()
	sim := abortable(t, 2)
	drivers := []*cuda.Driver{sim.Process().Driver(), sim.Process().Driver()}
	var enqueued sync.WaitGroup
	enqueued.Add(2)
	onDrivers(t, func(rank int) *cuda.Driver { return drivers[rank] }, 2, 2, simHalf, registered(CopyDirect), func(r *rank) error {
		w, err := r.register()
		if err != nil {
			return err
		}
		x, err := r.begun()
		if err != nil {
			return err
		}
		t, err := r.device.Enter()
		if err != nil {
			return err
		}
		defer t.Leave()
		word := (*uint32)(unsafe.Pointer(&r.host.Bytes[0]))
		atomic.StoreUint32(word, 0)
		err = first(t.Wait32(r.stream, r.host.Device, 1), func() error { return r.g.AllReduce(r.ctx, x, colligo.Sum) })
		enqueued.Done()
		if enqueued.Wait(); err != nil {
			return err
		}
		r.g.Abort(errors.New("out of luck"))
		time.AfterFunc(300*time.Millisecond, func() { atomic.StoreUint32(word, 1) })
		return first(w.Close(), r.synchronize)
	})
}
