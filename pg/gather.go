package pg

import (
	"context"
	"errors"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
)

var errNoTensors = errors.New("the list of tensors is empty")

// Gather copies in of each rank r to outs[r] on the root; other ranks pass nil outs. All inputs have the same length.
// c10d: gather.
func (g *Group) Gather(ctx context.Context, outs []colligo.Tensor, in colligo.Tensor, root int) error {
	return g.run(ctx, g.gather(outs, in, nil, root))
}

// GatherAsync starts a Gather.
func (g *Group) GatherAsync(ctx context.Context, outs []colligo.Tensor, in colligo.Tensor, root int) *Work {
	return g.start(ctx, g.gather(outs, in, nil, root))
}

// GatherV is Gather of inputs whose lengths differ: counts[r] is the length of rank r's, and the same list on every rank.
func (g *Group) GatherV(ctx context.Context, outs []colligo.Tensor, in colligo.Tensor, counts []int, root int) error {
	return g.run(ctx, g.gather(outs, in, counts, root))
}

// GatherVAsync starts a GatherV.
func (g *Group) GatherVAsync(ctx context.Context, outs []colligo.Tensor, in colligo.Tensor, counts []int, root int) *Work {
	return g.start(ctx, g.gather(outs, in, counts, root))
}

func (g *Group) gather(outs []colligo.Tensor, in colligo.Tensor, counts []int, root int) (r request) {
	g = g.orOutside()
	g.newRequest(&r, plan.Gather, in)
	r.rooted(root)
	r.read(in)
	r.parts(in, counts, g.rank)
	if g.rank == root {
		r.writeList(outs)
		r.fits(outs)
	} else if len(outs) != 0 {
		r.failf("%d output tensors on rank %d, which is not the root %d", len(outs), g.rank, root)
	}
	return r
}

// parts sets the length of each rank's part; own is this rank's.
func (r *request) parts(own colligo.Tensor, counts []int, rank int) {
	if r.err != nil {
		return
	}
	if counts == nil {
		r.count = own.Len()
		return
	}
	if len(counts) != r.size {
		r.failf("%d counts for %d ranks", len(counts), r.size)
		return
	}
	for i, c := range counts {
		if c < 0 {
			r.failf("count %d of rank %d", c, i)
		}
	}
	if counts[rank] != own.Len() {
		r.failf("the tensor has %d elements, the counts say %d", own.Len(), counts[rank])
	}
	r.counts = append([]int(nil), counts...)
}

// fits checks the root's list against the parts.
func (r *request) fits(list []colligo.Tensor) {
	if r.err != nil {
		return
	}
	for i, t := range list {
		want := r.count
		if r.counts != nil {
			want = r.counts[i]
		}
		if t.Len() != want {
			r.failf("tensor %d of the root has %d elements, rank %d's part has %d", i, t.Len(), i, want)
		}
	}
}
