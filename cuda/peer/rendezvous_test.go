package peer

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim/model"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/pg"
)

// rendezvousMemory is so little that a message of some 550 KB takes all slots of its sentinel memory several times.
const rendezvousMemory = 12 << 20

// TestRendezvous sends long messages among short ones, alone and from graphs. Devices are linked or not, or their hosts wait
// for each kernel that they launch.
func TestRendezvous(t *testing.T) {
	t.Parallel()
	for _, size := range fewer(2, 3, 4) {
		for _, how := range []string{"linked", "apart", "blocking"} {
			t.Run(fmt.Sprintf("ranks=%d/%s", size, how), func(t *testing.T) {
				t.Parallel()
				d, launched := spied(simulated(t, size).Driver())
				d.Blocking = how == "blocking"
				if how == "apart" {
					d.DeviceGetP2PAttribute = func(cuda.P2PAttribute, cuda.DeviceID, cuda.DeviceID) (int, cuda.Result) { return 0, cuda.Success }
				}
				onRanks(t, d, size, size, chainHalf, Options{Memory: rendezvousMemory}, func(r *rank) error {
					if err := r.eager(100); err != nil { // behind it code is loaded, which launches, too
						return err
					}
					if err := r.g.Barrier(r.ctx); err != nil {
						return err
					}
					if r.g.Rank() == 0 {
						launched.clear()
					}
					return first(r.g.Barrier(r.ctx),
						func() error { return r.rendezvous(140_000) },
						func() error { return r.overtaken(210_000) })
				})
				require.Equal(t, how == "linked", launched.has(ptx.BroadcastSentinel))
				require.Equal(t, how != "blocking", launched.has(ptx.ExchangeEager))
			})
		}
	}
}

// rendezvous checks messages of about n elements.
func (r *rank) rendezvous(n int) error {
	for _, n := range []int{n, 100, n - 1, n / 2, n + 7, 1, n} {
		if err := r.eager(n); err != nil {
			return err
		}
	}
	d := colligo.Int32
	next, prev := (r.g.Rank()+1)%r.g.Size(), (r.g.Rank()+r.g.Size()-1)%r.g.Size()
	out, in := r.tensor(0, d, 0, n), r.tensor(1, d, 0, n)
	own, theirs := values(d, colligo.KindSum, r.g.Rank(), n), values(d, colligo.KindSum, prev, n)
	if err := r.put(out, own); err != nil {
		return err
	}
	return r.tryCaptured(3, in, own, in, theirs, func() error {
		s, v := r.g.SendAsync(r.ctx, out, next, 0), r.g.RecvAsync(r.ctx, in, prev, 0)
		return first(s.Wait(r.ctx), func() error { return v.Wait(r.ctx) })
	})
}

// overtaken has messages wait for peers that are behind an all-reduce of n elements, which therefore needs its room on the device.
func (r *rank) overtaken(n int) error {
	d, size, me := colligo.Float32, r.g.Size(), r.g.Rank()
	next, prev := (me+1)%size, (me+size-1)%size
	sum := r.tensor(0, d, 0, n)
	out, in := r.tensor(1, d, 0, n/2), r.tensor(1, d, n/2, n/2)
	if err := first(r.put(sum, make([]byte, sum.Size())),
		func() error { return r.put(out, make([]byte, out.Size())) },
		func() error { return r.put(in, make([]byte, in.Size())) }); err != nil {
		return err
	}
	if err := r.g.AllReduce(r.ctx, sum, colligo.Sum); err != nil { // loads its code, for which a device may have to be idle
		return err
	}
	for _, n := range []int{n / 2, n / 9, 100} {
		v := r.g.RecvAsync(r.ctx, in.Slice(0, n), prev, 0)
		err := r.g.AllReduce(r.ctx, sum, colligo.Sum)
		s := r.g.SendAsync(r.ctx, out.Slice(0, n), next, 0)
		if err := first(err, func() error { return s.Wait(r.ctx) }, func() error { return v.Wait(r.ctx) }); err != nil {
			return err
		}
		s = r.g.SendAsync(r.ctx, out.Slice(0, n), next, 0)
		err = r.g.AllReduce(r.ctx, sum, colligo.Sum)
		v = r.g.RecvAsync(r.ctx, in.Slice(0, n), prev, 0)
		if err := first(err, func() error { return s.Wait(r.ctx) }, func() error { return v.Wait(r.ctx) }); err != nil {
			return err
		}
	}
	return r.synchronize()
}

// TestRendezvousLeaveNothingOut leaves out each wait of long messages that only says that memory is free. It expects the
// simulator to find each missing. A message that overwrites memory that no rank has read may also hang.
func TestRendezvousLeaveNothingOut(t *testing.T) {
	t.Parallel()
	// That the next rank has entered a broadcast says that it has ended the one before. The sender of a message knows it from
	// the clear-to-send word of the receiver.
	missesEach(t, Options{Memory: rendezvousMemory, Timeout: 5 * time.Second}, unseenRendezvous, map[string]model.Wait{"nothing": 0, "blank": model.WaitForClear,
		"sign": model.WaitForCredit})
}

// unseenRendezvous has a rank send another one a message of any length, or exchange two with it, then other ranks.
func unseenRendezvous(r *rank, random *rand.Rand) error {
	x, y := r.tensor(0, colligo.Float32, 0, 100_000), r.tensor(1, colligo.Float32, 0, 100_000)
	if err := first(r.put(x, make([]byte, x.Size())), func() error { return r.put(y, make([]byte, y.Size())) }); err != nil {
		return err
	}
	for range 30 {
		from, to := random.IntN(r.g.Size()), random.IntN(r.g.Size()-1)
		if to >= from {
			to++
		}
		n, exchanges := []int{1, 9_000, 20_000, 50_000, 100_000}[random.IntN(5)], random.IntN(3) == 0
		var err error
		switch me := r.g.Rank(); {
		case me != from && me != to:
		case exchanges:
			err = r.g.Coalesce(r.ctx, func(b *pg.Batch) error {
				b.Send(x.Slice(0, n), from+to-me, 0)
				b.Recv(y.Slice(0, n), from+to-me, 0)
				return nil
			})
		case me == from:
			err = r.g.Send(r.ctx, x.Slice(0, n), to, 0)
		default:
			err = r.g.Recv(r.ctx, y.Slice(0, n), from, 0)
		}
		if err != nil {
			return err
		}
	}
	return r.synchronize()
}

// TestRendezvousAlone sends messages that nobody receives: a long one, and more than an eager buffer has room for. The error
// names the rank that is late, and nothing spins on.
func TestRendezvousAlone(t *testing.T) {
	t.Parallel()
	for _, lengths := range [][]int{{150_000}, {50_000, 50_000}} {
		t.Run(fmt.Sprint(lengths), func(t *testing.T) {
			t.Parallel()
			onRanks(t, abortable(t, 2).Driver(), 2, 2, chainHalf, Options{Memory: rendezvousMemory, Timeout: waitedOut}, func(r *rank) error {
				x := r.tensor(0, colligo.Float32, 0, 150_000)
				if err := first(r.put(x, make([]byte, x.Size())), func() error { return r.eager(10) }); err != nil || r.g.Rank() == 1 {
					return first(err, func() error { return r.failed("waits for rank 1") })
				}
				var err error
				for _, n := range lengths {
					err = r.g.SendAsync(r.ctx, x.Slice(0, n), 1, 0).Synchronize(r.ctx)
				}
				if err == nil {
					return errors.New("nobody has received it, and it is done")
				}
				return contains(err, "it waits for rank 1")
			})
		})
	}
}

// TestGPURendezvous sends long messages among short ones on devices, with a small symmetric heap and with the usual one.
func TestGPURendezvous(t *testing.T) {
	d, n := gpus(t)
	for _, size := range sizes(n) {
		if size < 2 || size > n {
			continue // as in TestGPURegistered
		}
		for _, memory := range []int{rendezvousMemory, 0} {
			t.Run(fmt.Sprintf("ranks=%d/memory=%d", size, memory), func(t *testing.T) {
				onRanks(t, d, size, n, gpuHalf, Options{Memory: memory, Timeout: 20 * time.Second}, func(r *rank) error {
					return first(r.rendezvous(140_000),
						func() error { return r.rendezvous(10_000_001) },
						func() error { return r.overtaken(200_000) },
						func() error { return r.overtaken(2_000_000) },
						func() error { return r.overtaken(9_000_000) })
				})
			})
		}
	}
}
