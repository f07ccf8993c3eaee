package sparse

import (
	"context"
	"fmt"
	"slices"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

// coalesced returns a tensor with each of its rows once, in ascending order, as PyTorch sends it.
func coalesced(g *pg.Group, s Tensor, op colligo.ReduceOp) (Tensor, error) {
	if err := s.check(op); err != nil {
		return Tensor{}, err // of this call alone: it has taken no tag
	}
	rows := slices.Clone(s.Indices)
	slices.Sort(rows)
	return sumAt(g, &s, slices.Compact(rows), op)
}

// dims is how many sizes PyTorch tells of sparse dimensions, and as many of dense ones.
const dims = 4

// sizesOverGloo does what sizes does with ranks of PyTorch. Each tells the sizes of its sparse and dense dimensions, and its rows.
func sizesOverGloo(ctx context.Context, g *pg.Group, s *Tensor, _ error) ([]int, error) {
	dense := s.Values.Shape()[1:]
	if len(dense) > dims {
		return nil, fmt.Errorf("rows of %d dimensions, ranks of PyTorch tell %d at most", len(dense), dims)
	}
	own := make([]int64, 2*dims+1)
	own[0], own[2*dims] = int64(s.Rows), int64(len(s.Indices))
	for i, n := range dense {
		own[dims+i] = int64(n)
	}
	all := make([]int64, len(own)*g.Size())
	if err := pg.AllGatherSparse(ctx, g, []colligo.Tensor{colligo.Of(all)}, colligo.Of(own)); err != nil {
		return nil, err
	}
	limit, _ := pg.ObjectsOf(g)
	row := 8 + int64(s.width()*s.Values.DType().Size())
	counts := make([]int, g.Size())
	for r := range counts {
		theirs := all[len(own)*r : len(own)*(r+1)]
		n := theirs[2*dims]
		switch {
		case !slices.Equal(theirs[:2*dims], own[:2*dims]):
			return nil, &mismatch{fmt.Errorf("rank %d has a tensor of sizes %v, this rank one of %v", r, theirs[:2*dims], own[:2*dims])}
		case n < 0 || n > limit/row: // the others go on with calls that this rank cannot join
			err := fmt.Errorf("rank %d announces %d rows; MaxObject is %s", r, n, colligo.FormatBytes(limit))
			_, worded := word(Tensor{}, err)
			pg.Fail(g, worded)
			return nil, err
		}
		limit -= n * row
		counts[r] = int(n)
	}
	return counts, nil
}
