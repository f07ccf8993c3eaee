package peer

import (
	"cmp"
	"fmt"
	"testing"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/pg"
)

// setWords sets words of this rank's symmetric heap, while no operation is on any device.
func (r *rank) setWords(b *backend, at, n int, value uint32) error {
	t, err := r.device.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	return first(t.Set32(b.heap.Address(at), value, n, r.stream), func() error { return t.Synchronize(r.stream) })
}

// backend returns the rank's backend.
func (r *rank) backend() (*backend, error) {
	b, err := pg.BackendOf(r.ctx, r.g, r.device.Place())
	if err != nil {
		return nil, err
	}
	return b.(*backend), nil
}

// counted has the tiles of all blocks and pairs counted to n, as if so many had been sent and announced.
func (r *rank) counted(n uint32) error {
	b, err := r.backend()
	if err != nil {
		return err
	}
	return first(r.g.Barrier(r.ctx),
		func() error { return r.setWords(b, b.layout.State+64, symheap.MaxBlocks*symheap.MaxRanks, n) },
		func() error { return r.setWords(b, b.layout.Flags, ptx.FlagBytes(symheap.MaxBlocks)/4, n) },
		func() error { return r.g.Barrier(r.ctx) })
}

// numbered has the last data of LL and LL128 be of operation n.
func (r *rank) numbered(n uint32) error {
	b, err := r.backend()
	if err != nil {
		return err
	}
	return first(r.g.Barrier(r.ctx),
		func() error { return r.setWords(b, b.layout.State, 1, n) },
		func() error { return r.setWords(b, b.layout.State+8, 1, n) },
		func() error { return r.g.Barrier(r.ctx) })
}

// TestNumbersWrap begins just before the numbers of operations, rounds and tiles pass 0, or what an int32 holds.
func TestNumbersWrap(t *testing.T) {
	t.Parallel()
	for _, size := range fewer(2, 3, 4) {
		for i, from := range []uint32{1<<32 - 3, 1<<32 - 4, 1<<31 - 3} {
			t.Run(fmt.Sprintf("ranks=%d/from=%#x", size, from), func(t *testing.T) {
				t.Parallel()
				sim := seeded(t, size, *seed*100+uint64(i))
				onRanks(t, sim.Driver(), size, size, simHalf, allAlgorithms(), func(r *rank) error {
					return first(r.counted(from),
						func() error { return r.numbered(from) },
						func() error { return r.mixed(*seed + uint64(i)) })
				})
			})
		}
	}
}

// TestLL128RoundsWrap has the numbers of an operation's rounds pass 0.
func TestLL128RoundsWrap(t *testing.T) {
	t.Parallel()
	o := small(LL128)
	o.Memory = 4 << 20
	l, err := symheap.NewLayout(2, o.Memory)
	if err != nil {
		t.Fatal(err)
	}
	round := l.LL128Slot / ptx.LL128Chunk * ptx.LL128Data / 4
	for left := range uint32(6) {
		t.Run(fmt.Sprintf("left=%d", left), func(t *testing.T) {
			t.Parallel()
			onSim(t, 2, o, func(r *rank) error {
				if err := r.numbered(^left); err != nil {
					return err
				}
				for _, n := range []int{7, 5 * round / 2, 300, 5 * round / 2, 121} {
					if err := r.allReduce(trial{dtype: colligo.Float32, op: colligo.Sum, count: n}); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// sent has so many tiles been sent one way: by all ranks to all, or by rank 0 to rank 1. Words that nobody posts then stay as
// they are: the words of phase 1, or of the other way.
func (r *rank) sent(n uint32, chain bool) error {
	b, err := r.backend()
	if err != nil {
		return err
	}
	errs := []error{r.g.Barrier(r.ctx), r.setWords(b, b.layout.State+64, symheap.MaxBlocks*symheap.MaxRanks, n)}
	for block := range symheap.MaxBlocks {
		phase, from, many := 0, 0, symheap.MaxRanks
		if chain { // rank 1 says what it has used
			phase, from, many = 1-b.rank, 1-b.rank, 1
		}
		errs = append(errs, r.setWords(b, b.layout.Flags+4*((2*block+phase)*symheap.MaxRanks+from), many, n))
	}
	return cmp.Or(append(errs, r.g.Barrier(r.ctx))...)
}

// TestOneWayOnly sends more tiles one way than an int32 counts, before others.
func TestOneWayOnly(t *testing.T) {
	t.Parallel()
	for _, chain := range []bool{false, true} {
		t.Run(fmt.Sprintf("chain=%v", chain), func(t *testing.T) {
			t.Parallel()
			onSim(t, 2, rotated(3), func(r *rank) error {
				const n = 5000
				in, out := r.tensor(0, colligo.Float32, 0, 2*n), r.tensor(1, colligo.Float32, 0, n)
				if err := r.put(in, make([]byte, in.Size())); err != nil {
					return err
				}
				for quarter := range uint32(4) {
					err := r.sent(quarter<<30, chain)
					if err == nil && chain {
						err = r.g.Broadcast(r.ctx, in, 0)
					} else if err == nil {
						err = r.g.ReduceScatterTensor(r.ctx, out, in, colligo.Sum)
					}
					if err := first(err, r.synchronize); err != nil {
						return err
					}
				}
				return first(r.allReduce(trial{dtype: colligo.Float32, op: colligo.Sum, count: n / 7}),
					func() error { return r.moves(n) },
					func() error { return r.reduces(colligo.Float32, n) })
			})
		})
	}
}
