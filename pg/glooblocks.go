package pg

import (
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/plan"
)

// launched returns the operations of a coalesced call as they are launched. Over Gloo some are one.
func launched(g *Group, coll plan.Coll, ops []*op.Op, err error) ([]*op.Op, error) {
	if err != nil || !speaksGloo(g) || g.size == 1 || coll != plan.AllReduce && coll != plan.AllGather {
		return ops, err
	}
	return []*op.Op{op.Together(ops)}, nil
}

// merged puts operations of a block together where that is faster, and ranks of PyTorch would not miss them.
func merged(g *Group, ops []*op.Op) []*op.Op {
	if speaksGloo(g) {
		return ops
	}
	return op.Merge(ops)
}
