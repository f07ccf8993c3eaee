package tree

import "github.com/colligo-go/colligo/plan"

// The double binary tree of Sanders, Speck and Träff ("Two-tree algorithms for full bandwidth broadcast, reduction and
// scan", Parallel Computing 35, 2009). There are two binary trees over all ranks but the root, which is put on top of both.
// Each tree carries half of the tensor. No rank but the root is inside of both, so each rank sends and receives about as
// much as its link carries at most. Each tree has a lane of its own, so no colouring of its edges is needed to keep them
// apart.
//
// A shape of fewer than two lanes is planned as one of two, and the Shape of the plan says so. Of an odd number of lanes the
// last is left out. Even lanes carry the first tree, odd lanes the second.

// DoubleTreeAllReduce plans an all-reduce over a double binary tree, pipelined in chunks. It is a reduction to rank 0. The
// result follows the next chunks back down, so that each step exchanges with one neighbour. T counts the chunks of a lane.
//
//	rounds   at most 4 lg n - 2 with one chunk; 3 more with each further chunk, and up to 3 for the first of these
//	bytes    each rank sends and receives at most 2S, rank 0 sends and receives S
//	scratch  none
//	order    in each tree own input, then the left child's sum, then the right child's (see inorder; in the second tree left
//	         and right are those before it is mirrored or shifted)
func DoubleTreeAllReduce(s plan.Shape) (*plan.Plan, error) {
	s.Root = 0
	return doubleTree(plan.AllReduce, s, func(_ *plan.Plan, t node, part plan.Span, chunk int) []plan.Step {
		return pipeBoth(t, part, chunk)
	})
}

// DoubleTreeBroadcast plans a broadcast over a double binary tree, pipelined in chunks.
//
//	rounds   at most 2 lg n - 1 with one chunk; 2 more with each further chunk
//	bytes    the root sends S, others at most S; every rank but the root receives S
//	scratch  none
func DoubleTreeBroadcast(s plan.Shape) (*plan.Plan, error) {
	return doubleTree(plan.Broadcast, s, func(_ *plan.Plan, t node, part plan.Span, chunk int) []plan.Step {
		return pipeDown(t, part, chunk)
	})
}

// DoubleTreeReduce plans a reduction to the root over a double binary tree, pipelined in chunks.
//
//	rounds   at most 2 lg n - 1 with one chunk; 2 more with each further chunk
//	bytes    the root receives S, others at most S; every rank but the root sends S
//	scratch  two chunks for each lane, at most the part of the lane, where the rank has children and is not the root
//	order    in each tree own input, then the left child's sum, then the right child's (see inorder; in the second tree left
//	         and right are those before it is mirrored or shifted)
func DoubleTreeReduce(s plan.Shape) (*plan.Plan, error) {
	return doubleTree(plan.Reduce, s, func(p *plan.Plan, t node, part plan.Span, chunk int) []plan.Step {
		base := p.Scratch
		p.Scratch += upScratch(t, part, chunk)
		return pipeUp(t, part, chunk, base)
	})
}

// doubleTree lets a pipeline run over both trees, each with its part of the tensor.
func doubleTree(coll plan.Coll, s plan.Shape, pipe func(p *plan.Plan, t node, part plan.Span, chunk int) []plan.Step) (*plan.Plan, error) {
	s.Lanes = max(s.Lanes, 2)
	p, done, err := begin("double_tree", coll, s)
	if done || err != nil {
		return p, err
	}
	trees := [2]node{}
	for i := range trees {
		trees[i] = double(i == 1, relative(s), s.Size).ranked(s.Root, s.Size)
	}
	spread(p, s.Lanes&^1, func(lane int, part plan.Span) []plan.Step {
		return pipe(p, trees[lane%2], part, s.ChunkLen(pipeBytes))
	})
	return p, nil
}
