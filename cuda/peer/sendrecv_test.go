package peer

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/pg"
)

// counterparts are what a rank may do while its peer exchanges a rendezvous message with it.
var counterparts = []struct {
	how string
	act func(r *rank, out, in, note colligo.Tensor, peer int) error
}{
	{"swaps", (*rank).sendRecv},
	{"sends, then receives", func(r *rank, out, in, note colligo.Tensor, peer int) error {
		return first(r.g.Send(r.ctx, out, peer, 0),
			func() error { return r.g.Recv(r.ctx, in, peer, 0) },
			func() error { return r.g.Send(r.ctx, note, peer, 0) })
	}},
	{"receives, then sends", func(r *rank, out, in, note colligo.Tensor, peer int) error {
		return first(r.g.Recv(r.ctx, in, peer, 0),
			func() error { return r.g.Send(r.ctx, out, peer, 0) },
			func() error { return r.g.Send(r.ctx, note, peer, 0) })
	}},
	{"does both apart", func(r *rank, out, in, note colligo.Tensor, peer int) error {
		v, s := r.g.RecvAsync(r.ctx, in, peer, 0), r.g.SendAsync(r.ctx, out, peer, 0)
		return first(s.Wait(r.ctx), func() error { return v.Wait(r.ctx) }, func() error { return r.g.Send(r.ctx, note, peer, 0) })
	}},
	{"sends more", func(r *rank, out, in, note colligo.Tensor, peer int) error {
		return r.g.Coalesce(r.ctx, func(b *pg.Batch) error {
			b.Send(out, peer, 0)
			b.Send(note, peer, 0)
			b.Recv(in, peer, 0)
			return nil
		})
	}},
}

// sendRecv exchanges rendezvous messages with a peer in a block, and takes or, of the upper rank, sends a short message behind it.
func (r *rank) sendRecv(out, in, note colligo.Tensor, peer int) error {
	err := r.g.Coalesce(r.ctx, func(b *pg.Batch) error {
		b.Recv(in, peer, 0)
		b.Send(out, peer, 0)
		return nil
	})
	if r.g.Rank() > peer {
		return first(err, func() error { return r.g.Send(r.ctx, note, peer, 0) })
	}
	return first(err, func() error { return r.g.Recv(r.ctx, note, peer, 0) })
}

// sendRecvsWith has pairs of ranks exchange rendezvous messages of n elements and of some more. The lower rank does it in a
// block, the upper one as the k-th counterpart.
func (r *rank) sendRecvsWith(k, n int) error {
	d, me := colligo.Int32, r.g.Rank()
	peer, act := me^1, (*rank).sendRecv
	sizes := [2]int{n, n + n/3}
	if me > peer {
		act = counterparts[k].act
	}
	out, in := r.tensor(0, d, 1, sizes[me&1]), r.tensor(1, d, 2, sizes[peer&1])
	note := r.tensor(1, d, 2+2*n+2*margin/4, 3)
	own, theirs := values(d, colligo.KindSum, me, out.Len()), values(d, colligo.KindSum, peer, in.Len())
	err := r.tryCaptured(3, out, own, in, theirs, func() error { return act(r, out, in, note, peer) })
	if err != nil {
		return fmt.Errorf("of two ranks one %s: %w", counterparts[k].how, err)
	}
	return nil
}

// sendRecvsOf has them do so with each counterpart and length.
func (r *rank) sendRecvsOf(lengths ...int) error {
	for k := range counterparts {
		for _, n := range lengths {
			if err := r.sendRecvsWith(k, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestSendRecvs exchanges rendezvous messages in blocks, in memory that is used again, and with ranks that do it otherwise.
func TestSendRecvs(t *testing.T) {
	t.Parallel()
	for _, size := range []int{2, 4} {
		t.Run(fmt.Sprintf("ranks=%d", size), func(t *testing.T) {
			t.Parallel()
			d, launched := spied(simulated(t, size).Driver())
			onRanks(t, d, size, size, chainHalf, Options{Memory: rendezvousMemory, Timeout: time.Minute}, func(r *rank) error { return r.sendRecvsOf(141_001) })
			require.True(t, launched.has(ptx.SendRecv))
		})
	}
}

// sendRecvAlone exchanges rendezvous messages with a rank that never comes: the error names it, and nothing spins on.
func (r *rank) sendRecvAlone() error {
	x, y := r.tensor(0, colligo.Float32, 0, 300_000), r.tensor(1, colligo.Float32, 0, 300_000)
	if err := first(r.put(x, make([]byte, x.Size())), func() error { return r.eager(10) }); err != nil || r.g.Rank() == 1 {
		return first(err, func() error { return r.failed("waits for rank 1") })
	}
	err := r.g.CoalesceAsync(r.ctx, func(b *pg.Batch) error {
		b.Send(x, 1, 0)
		b.Recv(y, 1, 0)
		return nil
	}).Synchronize(r.ctx)
	if err == nil {
		return errors.New("nobody has come, and it is done")
	}
	return contains(err, "it waits for rank 1")
}

func TestSendRecvAlone(t *testing.T) {
	t.Parallel()
	onRanks(t, abortable(t, 2).Driver(), 2, 2, chainHalf, Options{Memory: rendezvousMemory, Timeout: waitedOut}, (*rank).sendRecvAlone)
}

// TestGPUSendRecvs exchanges rendezvous messages on devices, with a small symmetric heap and with the usual one, and with a
// rank that never comes. Ranks that share a device have no rendezvous messages: their messages go by streams.
func TestGPUSendRecvs(t *testing.T) {
	d, n := gpus(t)
	for _, size := range sizes(n) {
		if size%2 != 0 {
			continue // somebody has no peer
		}
		lengths := []int{201_001}
		if size <= n {
			lengths = append(lengths, 300_000, 9_000_001)
		}
		for _, memory := range []int{rendezvousMemory, 0} {
			t.Run(fmt.Sprintf("ranks=%d/memory=%d", size, memory), func(t *testing.T) {
				onRanks(t, d, size, n, gpuHalf, Options{Memory: memory, Timeout: 20 * time.Second}, func(r *rank) error { return r.sendRecvsOf(lengths...) })
			})
		}
	}
	t.Run("alone", func(t *testing.T) {
		onRanks(t, d, 2, n, gpuHalf, Options{Timeout: 3 * time.Second}, (*rank).sendRecvAlone)
	})
}
