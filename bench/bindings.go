package main

import (
	"context"
	"errors"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

func bindAllReduce(b *binding) trial {
	t := b.input(b.count)
	return trial{in: t, out: t,
		call:  func(ctx context.Context) error { return b.group.AllReduce(ctx, t, b.op) },
		fill:  func() error { return b.set(t, b.from(b.group.Rank(), 0)) },
		wrong: func() (int64, error) { return b.differing(t, b.reducedFrom(0)) },
	}
}

func bindReduce(b *binding) trial {
	t := b.input(b.count)
	return trial{in: t, out: t,
		call: func(ctx context.Context) error { return b.group.Reduce(ctx, t, b.root, b.op) },
		fill: func() error { return b.set(t, b.from(b.group.Rank(), 0)) },
		wrong: func() (int64, error) {
			if b.group.Rank() != b.root {
				return 0, nil
			}
			return b.differing(t, b.reducedFrom(0))
		},
	}
}

func bindBroadcast(b *binding) trial {
	t := b.input(b.count)
	return trial{in: t, out: t,
		call: func(ctx context.Context) error { return b.group.Broadcast(ctx, t, b.root) },
		fill: func() error {
			if b.group.Rank() == b.root {
				return b.set(t, b.from(b.root, 0))
			}
			return b.poison(t)
		},
		wrong: func() (int64, error) { return b.differing(t, b.from(b.root, 0)) },
	}
}

// bindMove binds a collective that moves elements from in to out, of which part r is to be want(r).
func (b *binding) bindMove(in, out colligo.Tensor, want func(r int) numbers, call func(ctx context.Context) error) trial {
	return trial{in: in, out: out, call: call,
		fill: func() error { return errors.Join(b.set(in, b.from(b.group.Rank(), 0)), b.poison(out)) },
		wrong: func() (n int64, err error) {
			for r := range out.Len() / max(b.count, 1) {
				some, err := b.differing(out.Slice(r*b.count, (r+1)*b.count), want(r))
				if err != nil {
					return 0, err
				}
				n += some
			}
			return n, nil
		},
	}
}

func bindAllGather(b *binding) trial {
	in, out := b.input(b.count), b.output(b.count*b.ranks)
	return b.bindMove(in, out, func(r int) numbers { return b.from(r, 0) },
		func(ctx context.Context) error { return b.group.AllGatherIntoTensor(ctx, out, in) })
}

func bindReduceScatter(b *binding) trial {
	in, out := b.input(b.count*b.ranks), b.output(b.count)
	return b.bindMove(in, out, func(int) numbers { return b.reducedFrom(b.group.Rank() * b.count) },
		func(ctx context.Context) error { return b.group.ReduceScatterTensor(ctx, out, in, b.op) })
}

func bindAllToAll(b *binding) trial {
	in, out := b.input(b.count*b.ranks), b.output(b.count*b.ranks)
	return b.bindMove(in, out, func(r int) numbers { return b.from(r, b.group.Rank()*b.count) },
		func(ctx context.Context) error { return b.group.AllToAllSingle(ctx, out, in, nil, nil) })
}

func bindGather(b *binding) trial {
	in, out := b.input(b.count), b.output(0)
	if b.group.Rank() == b.root {
		out = b.output(b.count * b.ranks)
	}
	var outs []colligo.Tensor
	if b.group.Rank() == b.root {
		outs = b.split(out)
	}
	return b.bindMove(in, out, func(r int) numbers { return b.from(r, 0) },
		func(ctx context.Context) error { return b.group.Gather(ctx, outs, in, b.root) })
}

func bindScatter(b *binding) trial {
	in, out := b.input(0), b.output(b.count)
	var ins []colligo.Tensor
	if b.group.Rank() == b.root {
		in = b.input(b.count * b.ranks)
		ins = b.split(in)
	}
	return b.bindMove(in, out, func(int) numbers { return b.from(b.root, b.group.Rank()*b.count) },
		func(ctx context.Context) error { return b.group.Scatter(ctx, out, ins, b.root) })
}

// bindSendRecv sends to the next rank while it receives from the one before.
func bindSendRecv(b *binding) trial {
	in, out := b.input(b.count), b.output(b.count)
	next, before := b.neighbours()
	return b.bindMove(in, out, func(int) numbers { return b.from(before, 0) },
		func(ctx context.Context) error {
			return b.group.Coalesce(ctx, func(x *pg.Batch) error {
				x.Send(in, next, 0)
				x.Recv(out, before, 0)
				return nil
			})
		})
}

func (b *binding) neighbours() (next, before int) {
	return (b.group.Rank() + 1) % b.ranks, (b.group.Rank() + b.ranks - 1) % b.ranks
}

func bindBarrier(b *binding) trial {
	return trial{call: b.group.Barrier, fill: func() error { return nil },
		wrong: func() (int64, error) { return 0, nil }}
}
