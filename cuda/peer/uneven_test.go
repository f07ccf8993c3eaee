package peer

import (
	"fmt"
	"testing"

	"github.com/colligo-go/colligo"
)

// folds checks reductions to a root, and such that are scattered in parts of 0, n and 2n elements, against the CPU's. The
// inputs must stay as they are.
func (r *rank) folds(d colligo.DType, op colligo.ReduceOp, n int) error {
	size, me := r.g.Size(), r.g.Rank()
	counts, total := make([]int, size), 0
	for q := range counts {
		counts[q] = q % 3 * n
		total += counts[q]
	}
	if size == 1 {
		counts[0], total = n, n
	}
	all, err := reduced(d, op, size, total)
	if err != nil {
		return err
	}
	in := r.tensor(0, d, 1, total)
	own := inputs(d, op.Kind(), size, me, total)
	var ins []colligo.Tensor
	at, before := 0, 0
	for q, c := range counts {
		ins = append(ins, in.Slice(at, at+c))
		at += c
		if q < me {
			before += c
		}
	}
	out := r.tensor(1, d, 0, counts[me])
	want := all[before*d.Size() : (before+counts[me])*d.Size()]
	if err := r.try(fmt.Sprintf("uneven reduce_scatter of %v", op), in, own, out, want, func() error {
		return r.g.ReduceScatter(r.ctx, out, ins, op)
	}); err != nil {
		return err
	}
	if err := r.expect("input of reduce_scatter", in, own); err != nil {
		return err
	}
	for _, root := range roots(size, 1<<20) {
		want := own
		if me == root%size {
			want = all
		}
		if err := r.try(fmt.Sprintf("reduce of %v to %d", op, root), in, own, in, want, func() error {
			return r.g.Reduce(r.ctx, in, root%size, op)
		}); err != nil {
			return err
		}
	}
	return nil
}

// splits checks all_to_all with splits of their own for every pair, some of them zero, around n elements.
func (r *rank) splits(n int) error {
	d, size, me := colligo.Int32, r.g.Size(), r.g.Rank()
	count := func(from, to int) int { return (from + 2*to) % 3 * n }
	ins, outs := make([]int, size), make([]int, size)
	var sent, received []byte
	for q := range size {
		ins[q], outs[q] = count(me, q), count(q, me)
		sent = append(sent, values(d, colligo.KindSum, me*size+q, ins[q])...)
		received = append(received, values(d, colligo.KindSum, q*size+me, outs[q])...)
	}
	in, out := r.tensor(0, d, 1, len(sent)/4), r.tensor(1, d, 3, len(received)/4)
	return r.try(fmt.Sprintf("all_to_all of %v", ins), in, sent, out, received, func() error {
		return r.g.AllToAllSingle(r.ctx, out, in, outs, ins)
	})
}

// TestUneven takes the collectives whose parts differ in length, on one to eight devices.
func TestUneven(t *testing.T) {
	t.Parallel()
	for _, size := range fewer(1, 2, 3, 4, 5, 6, 7, 8) {
		algorithm := []Algorithm{LL, Tiles}[size%2]
		t.Run(fmt.Sprintf("ranks=%d/%s", size, algorithm), func(t *testing.T) {
			t.Parallel()
			onSim(t, size, small(algorithm), func(r *rank) error {
				for _, n := range []int{0, 1, 1000, 7001} {
					if err := first(r.splits(n),
						func() error { return r.lists(n) },
						func() error { return r.folds(colligo.Float32, colligo.Sum, n) }); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}
