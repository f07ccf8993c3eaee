package main

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

// in returns numbers as a tensor of the call on the device.
func (x *call) in(v []float64) (colligo.Tensor, error) {
	return x.alloc(len(v), x.dtype, encode(x.dtype, v))
}

// mine is this rank's input.
func (x *call) mine(n int) (colligo.Tensor, error) {
	return x.in(numbers(x.number, x.Rank(), n, x.op))
}

// plain is the input of calls that do not reduce.
func (x *call) plain(rank, n int) []float64 { return numbers(x.number, rank, n, "") }

// room returns tensors for results.
func (x *call) room(counts ...int) (all []colligo.Tensor, err error) {
	for _, n := range counts {
		t, err := x.alloc(n, x.dtype, nil)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// list returns tensors that hold numbers, one behind the other.
func (x *call) list(v []float64, counts []int) (all []colligo.Tensor, err error) {
	for _, n := range counts {
		t, err := x.in(v[:n])
		if err != nil {
			return nil, err
		}
		all, v = append(all, t), v[n:]
	}
	return all, nil
}

// of repeats a number for each rank.
func (x *call) of(n int) []int { return slices.Repeat([]int{n}, x.Size()) }

// each makes a number for each rank.
func (x *call) each(f func(q int) int) []int {
	all := make([]int, x.Size())
	for q := range all {
		all[q] = f(q)
	}
	return all
}

func (x *call) ranks() []int { return x.each(func(q int) int { return q }) }

func sum(v []int) (n int) {
	for _, x := range v {
		n += x
	}
	return n
}

// sameAll compares results with the numbers of each rank.
func (x *call) sameAll(ts []colligo.Tensor, want func(q int) []float64) error {
	for q := range ts {
		if err := x.same(ts[q], want(q)); err != nil {
			return fmt.Errorf("part %d: %w", q, err)
		}
	}
	return nil
}

// run carries out the call and compares its result.
func (x *call) run() error {
	x.root %= x.Size()
	f := x.calls()[x.name]
	if f == nil {
		return fmt.Errorf("no call %q", x.name)
	}
	return f()
}

// calls are all calls by their names.
func (x *call) calls() map[string]func() error {
	return map[string]func() error{
		"all_reduce": x.allReduce, "reduce": x.reduce, "broadcast": x.broadcast, "all_gather": x.allGather, "all_gather_uneven": x.allGather,
		"all_gather_into_tensor": x.allGatherInto, "reduce_scatter": x.reduceScatter, "reduce_scatter_uneven": x.reduceScatter,
		"reduce_scatter_tensor": x.reduceScatterTensor, "all_to_all_single": x.allToAllSingle, "all_to_all_uneven": x.allToAllUneven,
		"all_to_all": x.allToAll, "gather": x.gather, "scatter": x.scatter, "send_recv": x.sendRecv, "batch": x.batch, "coalesced": x.coalesced,
		"async": x.async, "barrier": func() error { return x.BarrierOn(x.ctx, x.device.Place()) }, "new_group": x.newGroup,
		"new_group_all": x.newGroupOfAll, "split_group": x.splitGroup, "die": x.die, "all_gather_object": x.objects, "gather_object": x.objects,
		"broadcast_object_list": x.objects, "scatter_object_list": x.objects, "send_object_list": x.objects}
}

func (x *call) allReduce() error {
	t, err := x.mine(x.n)
	if err == nil {
		err = x.AllReduce(x.ctx, t, ops[x.op])
	}
	if err != nil {
		return err
	}
	return x.same(t, fold(x.number, x.ranks(), x.n, x.op))
}

func (x *call) reduce() error {
	t, err := x.mine(x.n)
	if err == nil {
		err = x.Reduce(x.ctx, t, x.root, ops[x.op])
	}
	if err != nil || x.Rank() != x.root {
		return err
	}
	return x.same(t, fold(x.number, x.ranks(), x.n, x.op))
}

func (x *call) broadcast() error {
	t, err := x.in(x.plain(x.Rank(), x.n))
	if err == nil {
		err = x.Broadcast(x.ctx, t, x.root)
	}
	if err != nil {
		return err
	}
	return x.same(t, x.plain(x.root, x.n))
}

// counts are the lengths of lists.
func (x *call) counts() []int {
	if x.name == "all_gather" || x.name == "reduce_scatter" {
		return x.of(x.n)
	}
	return x.each(func(q int) int { return x.n + 3*q })
}

func (x *call) allGather() error {
	counts := x.counts()
	outs, err := x.room(counts...)
	t, err2 := x.in(x.plain(x.Rank(), counts[x.Rank()]))
	if err = errors.Join(err, err2); err == nil {
		err = x.AllGather(x.ctx, outs, t)
	}
	if err != nil {
		return err
	}
	return x.sameAll(outs, func(q int) []float64 { return x.plain(q, counts[q]) })
}

func (x *call) allGatherInto() error {
	outs, err := x.room(x.n * x.Size())
	t, err2 := x.in(x.plain(x.Rank(), x.n))
	if err = errors.Join(err, err2); err == nil {
		err = x.AllGatherIntoTensor(x.ctx, outs[0], t)
	}
	if err != nil {
		return err
	}
	var want []float64
	for q := range x.Size() {
		want = append(want, x.plain(q, x.n)...)
	}
	return x.same(outs[0], want)
}

func (x *call) reduceScatter() error {
	counts, r := x.counts(), x.Rank()
	total, before := sum(counts), sum(counts[:r])
	outs, err := x.room(counts[r])
	ins, err2 := x.list(numbers(x.number, r, total, x.op), counts)
	if err = errors.Join(err, err2); err == nil {
		err = x.ReduceScatter(x.ctx, outs[0], ins, ops[x.op])
	}
	if err != nil {
		return err
	}
	return x.same(outs[0], fold(x.number, x.ranks(), total, x.op)[before:][:counts[r]])
}

func (x *call) reduceScatterTensor() error {
	outs, err := x.room(x.n)
	t, err2 := x.mine(x.n * x.Size())
	if err = errors.Join(err, err2); err == nil {
		err = x.ReduceScatterTensor(x.ctx, outs[0], t, ops[x.op])
	}
	if err != nil {
		return err
	}
	return x.same(outs[0], fold(x.number, x.ranks(), x.n*x.Size(), x.op)[x.Rank()*x.n:][:x.n])
}

// from is this rank's part of another rank's numbers, which are cut to parts of some lengths.
func (x *call) from(q int, counts []int) []float64 {
	return x.plain(q, sum(counts))[sum(counts[:x.Rank()]):][:counts[x.Rank()]]
}

func (x *call) allToAllSingle() error {
	return x.exchange(nil, nil, x.of(x.n), x.of(x.n), func(int) []int { return x.of(x.n) })
}

func (x *call) allToAllUneven() error {
	give := func(p int) []int { return x.each(func(q int) int { return (p + 2*q) % 3 * x.n }) }
	take := x.each(func(q int) int { return (q + 2*x.Rank()) % 3 * x.n })
	return x.exchange(take, give(x.Rank()), take, give(x.Rank()), give)
}

// exchange is an all-to-all of one tensor: with splits, or with nil for equal parts.
func (x *call) exchange(outSplits, inSplits, take, give []int, gives func(p int) []int) error {
	outs, err := x.room(sum(take))
	t, err2 := x.in(x.plain(x.Rank(), sum(give)))
	if err = errors.Join(err, err2); err == nil {
		err = x.AllToAllSingle(x.ctx, outs[0], t, outSplits, inSplits)
	}
	if err != nil {
		return err
	}
	var want []float64
	for q := range x.Size() {
		want = append(want, x.from(q, gives(q))...)
	}
	return x.same(outs[0], want)
}

func (x *call) allToAll() error {
	gives := func(p int) []int { return x.each(func(q int) int { return x.n + p + q }) }
	give := gives(x.Rank())
	outs, err := x.room(give...)
	ins, err2 := x.list(x.plain(x.Rank(), sum(give)), give)
	if err = errors.Join(err, err2); err == nil {
		err = x.AllToAll(x.ctx, outs, ins)
	}
	if err != nil {
		return err
	}
	return x.sameAll(outs, func(q int) []float64 { return x.from(q, gives(q)) })
}

func (x *call) gather() error {
	var outs []colligo.Tensor
	t, err := x.in(x.plain(x.Rank(), x.n))
	if err == nil && x.Rank() == x.root {
		outs, err = x.room(x.of(x.n)...)
	}
	if err == nil {
		err = x.Gather(x.ctx, outs, t, x.root)
	}
	if err != nil {
		return err
	}
	return x.sameAll(outs, func(q int) []float64 { return x.plain(q, x.n) })
}

func (x *call) scatter() error {
	var ins []colligo.Tensor
	outs, err := x.room(x.n)
	for q := range x.Size() {
		if x.Rank() != x.root || err != nil {
			break
		}
		var t colligo.Tensor
		t, err = x.in(x.plain(q, x.n))
		ins = append(ins, t)
	}
	if err == nil {
		err = x.Scatter(x.ctx, outs[0], ins, x.root)
	}
	if err != nil {
		return err
	}
	return x.same(outs[0], x.plain(x.Rank(), x.n))
}

// sendRecv exchanges messages in pairs, the even rank first.
func (x *call) sendRecv() error {
	if x.Rank()^1 >= x.Size() {
		return nil
	}
	return x.swap(x.Group, x.Rank()^1, x.Rank()%2, x.plain(x.Rank()^1, x.n))
}

// swap sends this rank's numbers to a peer of a group and receives the peer's. Place is 0 at the rank that receives first.
func (x *call) swap(g *pg.Group, peer, place int, want []float64) error {
	outs, err := x.room(x.n)
	t, err2 := x.in(x.plain(x.Rank(), x.n))
	if err = errors.Join(err, err2); err != nil {
		return err
	}
	for first := range 2 {
		if place == first {
			err = g.Send(x.ctx, t, peer, 0)
		} else {
			err = g.Recv(x.ctx, outs[0], peer, 0)
		}
		if err != nil {
			return err
		}
	}
	return x.same(outs[0], want)
}

// batch is a ring of messages in one block.
func (x *call) batch() error {
	size := x.Size()
	before := (x.Rank() + size - 1) % size
	outs, err := x.room(x.n)
	t, err2 := x.in(x.plain(x.Rank(), x.n))
	if err = errors.Join(err, err2); err == nil {
		err = x.Coalesce(x.ctx, func(b *pg.Batch) error {
			b.Send(t, (x.Rank()+1)%size, 0)
			b.Recv(outs[0], before, 0)
			return nil
		})
	}
	if err != nil {
		return err
	}
	return x.same(outs[0], x.plain(before, x.n))
}

func (x *call) coalesced() error {
	var ts []colligo.Tensor
	for j := range 3 {
		t, err := x.in(numbers(x.number+j, x.Rank(), x.n+j, x.op))
		if err != nil {
			return err
		}
		ts = append(ts, t)
	}
	if err := x.AllReduceCoalesced(x.ctx, ts, ops[x.op]); err != nil {
		return err
	}
	return x.sameAll(ts, func(j int) []float64 { return fold(x.number+j, x.ranks(), x.n+j, x.op) })
}

func (x *call) async() error {
	var ts []colligo.Tensor
	var works []*pg.Work
	for j := range 3 {
		t, err := x.in(numbers(x.number+j, x.Rank(), x.n, x.op))
		if err != nil {
			return err
		}
		ts = append(ts, t)
	}
	for _, t := range ts {
		works = append(works, x.AllReduceAsync(x.ctx, t, ops[x.op]))
	}
	for _, w := range works {
		if err := w.Wait(x.ctx); err != nil {
			return err
		}
	}
	return x.sameAll(ts, func(j int) []float64 { return fold(x.number+j, x.ranks(), x.n, x.op) })
}

// die ends one rank, and has the others wait for it.
func (x *call) die() error {
	if x.Rank() == x.root {
		os.Exit(9)
	}
	t, err := x.mine(x.n)
	if err == nil {
		err = x.AllReduce(x.ctx, t, ops[x.op])
	}
	if err == nil {
		err = x.AllReduceAsync(x.ctx, t, ops[x.op]).Synchronize(x.ctx)
	}
	return err
}
