package peer

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/kernels/ptx"
)

// evens checks collectives of parts of whole units of 16 bytes, with tensors so many elements from multiples of 16.
func (r *rank) evens(n, shift int) error {
	d, size, me := colligo.Int32, r.g.Size(), r.g.Rank()
	part := func(q int) []byte { return values(d, colligo.KindSum, q, n) }
	var whole, mine, theirs []byte
	for q := range size {
		whole, mine, theirs = append(whole, part(q)...), append(mine, part(me*size+q)...), append(theirs, part(q*size+me)...)
	}
	in, all, out := r.tensor(0, d, shift, n), r.tensor(0, d, shift, n*size), r.tensor(1, d, shift, n*size)
	inside := out.Slice(me*n, me*n+n)
	return first(r.try("all_gather", in, part(me), out, whole, func() error { return r.g.AllGatherIntoTensor(r.ctx, out, in) }),
		func() error {
			return r.try("all_gather in place", inside, part(me), out, whole, func() error { return r.g.AllGatherIntoTensor(r.ctx, out, inside) })
		},
		func() error {
			return r.try("all_to_all", all, mine, out, theirs, func() error { return r.g.AllToAllSingle(r.ctx, out, all, nil, nil) })
		})
}

// evenSums checks reduce_scatter so, of some lines of each type.
func (r *rank) evenSums(lines, shift int, ops ...trial) error {
	size, me := r.g.Size(), r.g.Rank()
	for _, c := range ops {
		bytes := 16 * lines
		n := bytes / c.dtype.Size()
		all, err := reduced(c.dtype, c.op, size, n*size)
		if err != nil {
			return err
		}
		in, out := r.tensor(0, c.dtype, shift, n*size), r.tensor(1, c.dtype, shift, n)
		own := inputs(c.dtype, c.op.Kind(), size, me, n*size)
		if err := r.try(fmt.Sprintf("reduce_scatter %v of %v", c.op, c.dtype), in, own, out, all[me*bytes:me*bytes+bytes], func() error {
			return r.g.ReduceScatterTensor(r.ctx, out, in, c.op)
		}); err != nil {
			return err
		}
	}
	return nil
}

// TestEven has tensors of all ranks at multiples of 16, of none, and of some.
func TestEven(t *testing.T) {
	t.Parallel()
	sums := []trial{{dtype: colligo.Float32, op: colligo.Sum}, {dtype: colligo.Float32, op: colligo.Avg}, {dtype: colligo.BFloat16, op: colligo.Sum}}
	for _, size := range fewer(2, 3, 5, 8) {
		for name, shift := range map[string]func(rank int) int{"all": func(int) int { return 0 }, "none": func(int) int { return 1 },
			"some": func(rank int) int { return rank % 2 }} {
			t.Run(fmt.Sprintf("ranks=%d/aligned=%s", size, name), func(t *testing.T) {
				t.Parallel()
				d, launched := spied(simulated(t, size, reduction{colligo.BFloat16, colligo.KindSum}).Driver())
				onRanks(t, d, size, size, simHalf, small(LL), func(r *rank) error {
					at := shift(r.g.Rank())
					if err := first(r.evenSums(1, at, sums...), func() error { return r.g.Barrier(r.ctx) }); err != nil {
						return err
					}
					if r.g.Rank() == 0 {
						launched.clear() // loading launches, too
					}
					if err := r.g.Barrier(r.ctx); err != nil {
						return err
					}
					for _, lines := range []int{1, 7, 64, 500} {
						if err := first(r.evens(4*lines, at), func() error { return r.evenSums(lines, at, sums...) }); err != nil {
							return err
						}
					}
					return nil
				})
				require.Equal(t, name != "none", launched.has(ptx.ReduceScatterLLEven))
				require.Equal(t, name != "none", launched.has(ptx.ExchangeLLEven))
				require.Equal(t, name != "all", launched.has(ptx.ReduceScatterLL))
				require.Equal(t, name != "all", launched.has(ptx.ExchangeLL))
			})
		}
	}
}

// TestGPUEven does on devices what TestEven does on simulated ones, with all types and reductions.
func TestGPUEven(t *testing.T) {
	d, n := gpus(t)
	for _, size := range sizes(n) {
		t.Run(fmt.Sprintf("ranks=%d", size), func(t *testing.T) {
			onRanks(t, d, size, n, gpuHalf, Options{}, func(r *rank) error {
				for _, lines := range []int{1, 33, 1000, 4096, 20_000} {
					for _, shift := range []int{0, r.g.Rank() % 2} {
						if err := first(r.evens(4*lines, shift),
							func() error { return r.evenSums(lines, shift, trial{dtype: colligo.Float32, op: colligo.Sum}) }); err != nil {
							return err
						}
					}
				}
				return r.evenSums(1000, 0, allTypes(0)...)
			})
		})
	}
}
