package pg

import (
	"context"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
)

// AllGather copies in of each rank r to outs[r] on every rank. The lengths of outs may differ, but must be the same list
// on every rank, and in must be as long as outs[Rank()]. On the CPU in may be any of outs. c10d: all_gather, even and uneven.
func (g *Group) AllGather(ctx context.Context, outs []colligo.Tensor, in colligo.Tensor) error {
	return g.run(ctx, g.allGather(outs, in))
}

// AllGatherAsync starts an AllGather.
func (g *Group) AllGatherAsync(ctx context.Context, outs []colligo.Tensor, in colligo.Tensor) *Work {
	return g.start(ctx, g.allGather(outs, in))
}

// AllGatherIntoTensor is AllGather into one tensor that holds the ranks' parts one after the other, all as long as in. In may
// be this rank's part of out. c10d: all_gather_into_tensor.
func (g *Group) AllGatherIntoTensor(ctx context.Context, out, in colligo.Tensor) error {
	r := g.allGatherInto(out, in)
	return g.runOf(ctx, &r)
}

// AllGatherIntoTensorAsync starts an AllGatherIntoTensor.
func (g *Group) AllGatherIntoTensorAsync(ctx context.Context, out, in colligo.Tensor) *Work {
	return g.start(ctx, g.allGatherInto(out, in))
}

func (g *Group) allGather(outs []colligo.Tensor, in colligo.Tensor) (r request) {
	g.newRequest(&r, plan.AllGather, in)
	r.readChecked(&in)
	r.writeList(outs)
	if r.err != nil {
		return r
	}
	if n := outs[g.rank].Len(); n != in.Len() {
		r.failf("the input has %d elements, output %d has %d", in.Len(), g.rank, n)
	}
	if r.clash() && in.Addr() != outs[g.rank].Addr() {
		r.in, r.ins = nil, []colligo.Tensor{in}
	}
	r.count, r.counts = lengths(outs)
	return r
}

func (g *Group) allGatherInto(out, in colligo.Tensor) (r request) {
	g = g.orOutside()
	g.newRequest(&r, plan.AllGather, in)
	r.count = in.Len()
	r.readChecked(&in)
	r.write(out)
	if want := in.Len() * g.size; r.err == nil && out.Len() != want {
		r.failf("the output has %d elements, %d ranks of %d elements need %d", out.Len(), g.size, in.Len(), want)
	}
	r.separate(out, in, g.rank, true)
	return r
}
