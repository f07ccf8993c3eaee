package peer

import (
	"fmt"

	"github.com/colligo-go/colligo"
)

// trial is a call of all_reduce.
type trial struct {
	dtype        colligo.DType
	op           colligo.ReduceOp
	count, shift int // elements
	inPlace      bool
	async        bool
}

func (c trial) String() string {
	return fmt.Sprintf("all_reduce %v %v count %d shift %d in place %v async %v", c.dtype, c.op, c.count, c.shift, c.inPlace, c.async)
}

// allReduce runs a trial and checks every element.
func (r *rank) allReduce(c trial) error {
	in := r.tensor(0, c.dtype, c.shift, c.count)
	want, err := reduced(c.dtype, c.op, r.g.Size(), c.count)
	if err != nil {
		return err
	}
	if err := r.put(in, inputs(c.dtype, c.op.Kind(), r.g.Size(), r.g.Rank(), c.count)); err != nil {
		return err
	}
	if c.async {
		w := r.g.AllReduceAsync(r.ctx, in, c.op)
		err = w.Wait(r.ctx)
	} else {
		err = r.g.AllReduce(r.ctx, in, c.op)
	}
	if err != nil {
		return fmt.Errorf("%v: %w", c, err)
	}
	return r.expect(c.String(), in, want)
}

// allTypes are trials of every element type and reduction that is defined on it.
func allTypes(count int) []trial {
	var all []trial
	for _, d := range colligo.DTypes() {
		for k := colligo.KindSum; k <= colligo.KindPremulSum; k++ {
			if _, _, err := k.Check(d); err != nil {
				continue
			}
			op, err := colligo.ParseReduceOp(k.String())
			if err != nil {
				panic(err)
			}
			if k == colligo.KindPremulSum {
				op = colligo.PremulSum(0.5)
			}
			all = append(all, trial{dtype: d, op: op, count: count})
		}
	}
	return all
}

// allSizes are trials of float32 and bfloat16 sums around the bounds between algorithms, with odd counts and alignments.
func allSizes(most int) []trial {
	var all []trial
	for _, n := range []int{0, 1, 3, 4, 31, 1 << 10, 1<<12 + 1, 1<<14 - 3, 1 << 15, 1<<17 + 5, 1 << 18, 1<<20 + 7, 1<<22 - 3} {
		if n > most {
			break
		}
		all = append(all, trial{dtype: colligo.Float32, op: colligo.Sum, count: n},
			trial{dtype: colligo.BFloat16, op: colligo.Sum, count: n, shift: 1},
			trial{dtype: colligo.Float32, op: colligo.Avg, count: n, shift: 3, async: true})
	}
	return all
}

// roots are those with which n elements are tried: all of them, but for large tensors.
func roots(size, n int) []int {
	all := make([]int, size)
	for q := range all {
		all[q] = q
	}
	if n > 10_000 && size > 2 {
		return []int{1, size - 1}
	}
	return all
}

// moves checks the collectives that only move, with n elements a part.
func (r *rank) moves(n int) error {
	d, size, me := colligo.Int32, r.g.Size(), r.g.Rank()
	part := func(q, n int) []byte { return values(d, colligo.KindSum, q, n) }
	var whole []byte
	for q := range size {
		whole = append(whole, part(q, n)...)
	}
	in, out := r.tensor(0, d, 1, n), r.tensor(1, d, 0, n*size)
	if err := r.try("all_gather", in, part(me, n), out, whole, func() error { return r.g.AllGatherIntoTensor(r.ctx, out, in) }); err != nil {
		return err
	}
	for _, root := range roots(size, n) {
		at := r.tensor(0, d, 2, n)
		if err := r.try(fmt.Sprintf("broadcast from %d", root), at, part(me, n), at, part(root, n), func() error {
			return r.g.Broadcast(r.ctx, at, root)
		}); err != nil {
			return err
		}
	}
	all := r.tensor(0, d, 1, n*size)
	var mine, theirs []byte // element block q of rank p is part p*size+q
	for q := range size {
		mine, theirs = append(mine, part(me*size+q, n)...), append(theirs, part(q*size+me, n)...)
	}
	return r.try("all_to_all", all, mine, out, theirs, func() error { return r.g.AllToAllSingle(r.ctx, out, all, nil, nil) })
}

// lists checks the collectives that take a tensor for each rank, with parts of different lengths.
func (r *rank) lists(n int) error {
	d, size, me := colligo.Int32, r.g.Size(), r.g.Rank()
	counts, at := make([]int, size), 0
	var outs []colligo.Tensor
	var whole []byte
	out := r.tensor(1, d, 0, size*(n+3*size))
	for q := range size {
		counts[q] = n + q*3 - q%2*n
		outs = append(outs, out.Slice(at, at+counts[q]))
		whole = append(whole, values(d, colligo.KindSum, q, counts[q])...)
		at += counts[q]
	}
	out = out.Slice(0, at)
	in := r.tensor(0, d, 1, counts[me])
	own := values(d, colligo.KindSum, me, counts[me])
	if err := r.try("uneven all_gather", in, own, out, whole, func() error { return r.g.AllGather(r.ctx, outs, in) }); err != nil {
		return err
	}
	for _, root := range roots(size, n) {
		want, lists := whole, outs
		if me != root {
			want, lists = make([]byte, len(whole)), nil
		}
		if err := r.try(fmt.Sprintf("gather to %d", root), in, own, out, want, func() error {
			return r.g.GatherV(r.ctx, lists, in, counts, root)
		}); err != nil {
			return err
		}
	}
	return r.scatters(n)
}

// scatters checks scatter from every root.
func (r *rank) scatters(n int) error {
	d, size, me := colligo.Int32, r.g.Size(), r.g.Rank()
	out := r.tensor(1, d, 1, n)
	for _, root := range roots(size, n) {
		all := r.tensor(0, d, 0, n*size)
		var ins []colligo.Tensor
		var data []byte
		for q := range size {
			data = append(data, values(d, colligo.KindSum, root*size+q, n)...)
			if me == root {
				ins = append(ins, all.Slice(q*n, q*n+n))
			}
		}
		if err := r.try(fmt.Sprintf("scatter from %d", root), all, data, out, values(d, colligo.KindSum, root*size+me, n), func() error {
			return r.g.Scatter(r.ctx, out, ins, root)
		}); err != nil {
			return err
		}
	}
	return nil
}

// reduces checks reduce and reduce_scatter.
func (r *rank) reduces(d colligo.DType, n int) error {
	size, me := r.g.Size(), r.g.Rank()
	all, err := reduced(d, colligo.Sum, size, n*size)
	if err != nil {
		return err
	}
	in, out := r.tensor(0, d, 1, n*size), r.tensor(1, d, 0, n)
	own := values(d, colligo.KindSum, me, n*size)
	bytes := n * d.Size()
	if err := r.try("reduce_scatter", in, own, out, all[me*bytes:me*bytes+bytes], func() error {
		return r.g.ReduceScatterTensor(r.ctx, out, in, colligo.Sum)
	}); err != nil {
		return err
	}
	for _, root := range roots(size, n) {
		want := own
		if me == root {
			want = all
		}
		if err := r.try(fmt.Sprintf("reduce to %d", root), in, own, in, want, func() error {
			return r.g.Reduce(r.ctx, in, root, colligo.Sum)
		}); err != nil {
			return err
		}
	}
	return nil
}

// try puts the input in place and zeros where the output will be, calls, and compares.
func (r *rank) try(what string, in colligo.Tensor, data []byte, out colligo.Tensor, want []byte, call func() error) error {
	if out.Addr() != in.Addr() {
		if err := r.put(out, zeros(out.Size())); err != nil {
			return err
		}
	}
	if err := r.put(in, data); err != nil {
		return err
	}
	what = fmt.Sprintf("%s of %d elements", what, in.Len())
	if err := call(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return r.expect(what, out, want)
}
