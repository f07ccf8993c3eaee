package peer

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
	"github.com/colligo-go/colligo/plan"
)

// halted is a collective in which rank 1 is stopped before another rank begins. The abort reaches the other ranks later. Until then each
// other rank ends the collective with the right result, or goes on waiting. No rank may end it with a result that lacks the data of rank 1.
type halted struct {
	coll      plan.Coll
	algorithm Algorithm
	size      int
	late      int  // the rank that begins when rank 1 has stopped; the others begin before
	behind    bool // rank 1 has enqueued a second collective behind the first
	count     int  // elements of a part
}

func (h halted) String() string {
	return fmt.Sprintf("%v/%s/ranks=%d/late=%d/behind=%v/%d", h.coll, h.algorithm, h.size, h.late, h.behind, h.count)
}

// haltable is the algorithms of each collective whose kernels wait for peers.
var haltable = map[plan.Coll][]Algorithm{
	plan.AllReduce:     {LL, LLTwoShot, LL128, LL128TwoShot, Tiles, Direct, Sentinel, CopyRing, Fused},
	plan.AllGather:     {LL, Tiles, Rotation, Direct, CopyRing, Fused},
	plan.ReduceScatter: {LL, Tiles},
	plan.Broadcast:     {LL, LL128, Tiles, Chain, Direct, Sentinel, Fused},
}

// A tensor of manyTiles elements gives a block many tiles, and one of fewTiles elements gives it one tile.
const (
	manyTiles = 20_000
	fewTiles  = 700
)

// TestStopSilently stops a rank in each collective by each algorithm.
func TestStopSilently(t *testing.T) {
	t.Parallel()
	for coll, all := range haltable {
		for _, algorithm := range all {
			for _, size := range fewer(3, 2) {
				for late := 0; late < size; late += 2 {
					for _, h := range []halted{{count: manyTiles}, {count: manyTiles, behind: true}, {count: fewTiles, behind: true}} {
						if h.count == fewTiles && (algorithm == CopyRing || algorithm == Fused) {
							continue // which are for long tensors
						}
						h.coll, h.algorithm, h.size, h.late = coll, algorithm, size, late
						t.Run(h.String(), func(t *testing.T) {
							t.Parallel()
							h.run(t, abortable(t, size).Driver(), size)
						})
					}
				}
			}
		}
	}
}

// TestGPUStopSilently stops rank 1 of two ranks on real devices. On a machine with one device both ranks' kernels run there.
func TestGPUStopSilently(t *testing.T) {
	d, n := gpus(t)
	for coll, algorithms := range map[plan.Coll][]Algorithm{
		plan.AllReduce: {LLTwoShot, LL128TwoShot, Tiles, Direct, Sentinel},
		plan.AllGather: {Tiles, Rotation, Direct},
		plan.Broadcast: {LL128, Chain},
	} {
		for _, algorithm := range algorithms {
			for _, behind := range []bool{false, true} {
				h := halted{coll: coll, algorithm: algorithm, size: 2, behind: behind, count: manyTiles}
				t.Run(h.String(), func(t *testing.T) { h.run(t, d, n) })
			}
		}
	}
}

// TestCopyRingStopsSilently stops rank 1 of a ring while rank 0 copies no slice. The streams of rank 1 then send old memory to rank 2, in the
// place of the slices of rank 0. After that, rank 0 copies its slices. The calls of ranks 0 and 2 must not end. For a ring ends with a
// meeting of all ranks, and an aborted kernel of rank 1 sends nothing there.
func TestCopyRingStopsSilently(t *testing.T) {
	t.Parallel()
	h := halted{coll: plan.AllGather, algorithm: CopyRing, size: 3, count: 8 * ringUnit / 4} // two slices of a part
	stopped := make(chan struct{})
	var looks sync.WaitGroup
	looks.Add(2)
	onRanks(t, abortable(t, 3).Driver(), 3, 3, simHalf, h.options(), func(r *rank) error {
		x, err := h.begin(r)
		switch r.g.Rank() {
		case 0:
			err = first(err, func() error { return x.copiesAfter(stopped) })
			looks.Done()
			looks.Wait()
			r.g.Abort(errors.New("no more of this"))
		case 1:
			err = first(err, func() error { return x.calls[0]() })
			time.Sleep(200 * time.Millisecond) // the ranks meet, and rank 2 takes the slices of rank 1
			err = first(err, func() error { return x.stop(false) })
			close(stopped)
		default:
			err = first(err, func() error { return x.join(false, stopped) })
			looks.Done()
		}
		return errors.Join(err, r.awaitFailure())
	})
}

// TestMessagesStopSilently stops a sender that waits for a slot, which still has a message that the receiver has not taken.
func TestMessagesStopSilently(t *testing.T) {
	t.Parallel()
	for _, devices := range []int{1, 2} { // streams carry the messages of ranks that share a device, kernels all others
		t.Run(fmt.Sprint("devices=", devices), func(t *testing.T) {
			t.Parallel()
			stopSender(t, abortable(t, devices).Driver(), devices)
		})
	}
}

// TestGPUMessagesStopSilently stops such a sender where both ranks share a device, and where each has a device of its own if there are two.
func TestGPUMessagesStopSilently(t *testing.T) {
	d, n := gpus(t)
	for devices := 1; devices <= min(n, 2); devices++ {
		t.Run(fmt.Sprint("devices=", devices), func(t *testing.T) { stopSender(t, d, devices) })
	}
}

// stopSender has rank 1 send one message more than there are slots, and then stops rank 1. After that, rank 0 receives the first message. It must
// not get the last message instead, for which rank 1 had no slot. One message before them moves the slots on. Rank 1 stops when rank 0 has
// received that message, for a receive from a sender that is released does not end.
func stopSender(t *testing.T, d *cuda.Driver, devices int) {
	const n = 256
	moved, stopped := make(chan struct{}), make(chan struct{})
	onRanks(t, d, 2, devices, simHalf, small(LL), func(r *rank) error {
		x := &haltedRank{rank: r, out: r.tensor(1, colligo.Float32, 0, n), want: values(colligo.Float32, colligo.KindSum, 0, n)}
		message, others := r.tensor(0, colligo.Float32, 0, n), r.tensor(0, colligo.Float32, n+margin, n)
		receive := func() error { return r.g.Recv(r.ctx, x.out, 1, 0) }
		send := func(m colligo.Tensor) func() error { return func() error { return r.g.Send(r.ctx, m, 0, 0) } }
		if r.g.Rank() == 0 {
			err := first(x.put(x.out, make([]byte, 4*n)), receive, r.synchronize)
			close(moved)
			<-stopped
			err = first(err, receive, x.look)
			r.g.Abort(errors.New("no more of this"))
			return errors.Join(err, r.awaitFailure())
		}
		err := first(x.put(message, x.want), func() error { return x.put(others, values(colligo.Float32, colligo.KindSum, 1, n)) },
			send(others), r.synchronize, send(message))
		for range symheap.EagerSlots {
			err = first(err, send(others))
		}
		<-moved
		err = first(err, func() error { return x.stop(false) })
		close(stopped)
		return errors.Join(err, r.awaitFailure())
	})
}

// copiesAfter makes the first call, whose copy stream waits until rank 1 has stopped. Then it looks at the result, if the call ends.
func (x *haltedRank) copiesAfter(stopped <-chan struct{}) error {
	b, err := x.backend()
	if err != nil {
		return err
	}
	word := (*uint32)(unsafe.Pointer(&x.host.Bytes[0]))
	atomic.StoreUint32(word, 0)
	defer atomic.StoreUint32(word, 1)
	t, err := x.device.Enter()
	if err != nil {
		return err
	}
	err = first(t.Wait32(b.engines.copy.Stream, x.host.Device, 1), x.calls[0])
	t.Leave()
	if err != nil {
		return err
	}
	<-stopped
	atomic.StoreUint32(word, 1)
	return x.look()
}

func (h halted) options() Options {
	o := small(h.algorithm)
	if slices.Contains([]Algorithm{Direct, Rotation, Chain}, h.algorithm) {
		o = rotated(2)
	}
	return o
}

func (h halted) run(t *testing.T, d *cuda.Driver, devices int) {
	stopped := make(chan struct{})
	var looks sync.WaitGroup
	looks.Add(h.size - 1)
	onRanks(t, d, h.size, devices, simHalf, h.options(), func(r *rank) error {
		x, err := h.begin(r)
		if r.g.Rank() == 1 {
			err = first(err, func() error { return x.calls[0]() }, func() error { return x.stop(h.behind) })
			close(stopped)
			return errors.Join(err, r.awaitFailure())
		}
		err = first(err, func() error { return x.join(r.g.Rank() == h.late, stopped) })
		looks.Done()
		if r.g.Rank() == h.late {
			looks.Wait()
			r.g.Abort(errors.New("no more of this"))
		}
		return errors.Join(err, r.awaitFailure())
	})
}

// haltedRank is a rank of such a collective: its two calls, and the result of the first.
type haltedRank struct {
	*rank
	calls [2]func() error
	out   colligo.Tensor
	want  []byte
}

// begin calls the collective on zeros, and then lays out the input of both calls.
func (h halted) begin(r *rank) (*haltedRank, error) {
	x := &haltedRank{rank: r}
	if h.algorithm.Registered() {
		if err := r.registerAll(); err != nil {
			return nil, err
		}
	}
	for i := range x.calls {
		if err := h.lay(x, i); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// lay makes the i-th call, in memory of its own. Its first use is on zeros.
func (h halted) lay(x *haltedRank, i int) error {
	n := h.count
	d, me, from := colligo.Float32, x.g.Rank(), i*(h.size*n+256)
	in, out := x.tensor(0, d, from, n), x.tensor(1, d, from, n)
	own := func(q int) []byte { return values(d, colligo.KindSum, q+i*h.size, n) }
	data, want := own(me), own(0)
	switch h.coll {
	case plan.AllReduce:
		out = in
		x.calls[i] = func() error { return x.g.AllReduce(x.ctx, in, colligo.Sum) }
	case plan.Broadcast:
		out = in
		x.calls[i] = func() error { return x.g.Broadcast(x.ctx, in, 0) }
	case plan.AllGather:
		out, want = x.tensor(1, d, from, h.size*n), nil
		for q := range h.size {
			want = append(want, own(q)...)
		}
		x.calls[i] = func() error { return x.g.AllGatherIntoTensor(x.ctx, out, in) }
	case plan.ReduceScatter:
		in, data = x.tensor(0, d, from, h.size*n), bytes.Repeat(own(me), h.size)
		x.calls[i] = func() error { return x.g.ReduceScatterTensor(x.ctx, out, in, colligo.Sum) }
	}
	if i == 0 {
		x.out, x.want = out, want
		if h.coll == plan.AllReduce || h.coll == plan.ReduceScatter {
			var err error
			if x.want, err = reduced(d, colligo.Sum, h.size, n); err != nil {
				return err
			}
		}
	}
	return first(x.put(out, make([]byte, out.Size())), func() error { return x.put(in, make([]byte, in.Size())) }, x.calls[i], x.synchronize, func() error { return x.put(in, data) })
}

// stop has a rank that has made the first call stopped, as by an abort of which no other rank hears. The second call may come before.
func (x *haltedRank) stop(behind bool) error {
	b, err := x.backend()
	if err != nil {
		return err
	}
	if behind {
		if err := x.calls[1](); err != nil {
			return err
		}
	}
	b.Failure.Raise()
	b.release()
	if err := x.synchronize(); err != nil {
		return err
	}
	return b.watchdog.misplaced() // its kernels have not looked at marks that they had not waited for
}

// join makes the first call, of a late rank when rank 1 has stopped, and looks at the result.
func (x *haltedRank) join(late bool, stopped <-chan struct{}) error {
	if late {
		<-stopped
	}
	if err := x.calls[0](); err != nil {
		return err
	}
	<-stopped
	return x.look()
}

// look waits a little for the end of the call. If it ends, its result must be right.
func (x *haltedRank) look() error {
	ended, err := x.endsWithin(200 * time.Millisecond)
	if err != nil || !ended {
		return err
	}
	return x.expect("a result without rank 1", x.out, x.want)
}

// endsWithin reports whether the stream ends in so much time.
func (r *rank) endsWithin(d time.Duration) (ended bool, err error) {
	t, err := r.device.Enter()
	if err != nil {
		return false, err
	}
	defer t.Leave()
	for end := time.Now().Add(d); !ended && err == nil && time.Now().Before(end); time.Sleep(time.Millisecond) {
		ended, err = t.StreamDone(r.stream)
	}
	return ended, err
}
