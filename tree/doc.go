// Package tree plans the collectives whose rounds grow with the logarithm of the size. It also has the flat ones for the
// smallest messages, where one round is all there is. It computes plans and nothing else: no planner waits, reads a
// clock or keeps anything between calls.
//
// In the costs n is the size. S is the bytes of the whole tensor, or for collectives in parts the bytes of all parts.
// C is the bytes of one chunk, and T = ⌈S/C⌉ the number of chunks. ⌈x⌉ is x rounded up, and lg x is ⌈log2 x⌉. A round is
// one step of a rank and the matching steps of its peers. Costs are those of the rank that has most of them. With several
// lanes each carries its share of S, and the formulas hold for each lane.
//
//	binomial            broadcast, reduce, gather, scatter
//	double_tree         all_reduce, broadcast, reduce: for large tensors on many ranks
//	halving_doubling    all_reduce
//	recursive_doubling  all_reduce of small tensors on many ranks
//	circulant           all_reduce: fewer bytes where the size is no power of two
//	halving             reduce_scatter
//	doubling            all_gather
//	dissemination       barrier
//	direct              all but all_to_all: each message goes straight to where it is needed
//
// All_reduce by halving_doubling for n = 4, with quarters 0 to 3 of the tensor. In each round a rank sends quarters and
// takes others. It adds its own (+), finishes the sum (!), or keeps the quarters as they are:
//
//	        1: peers differ in bit 0   2: in bit 1     3: in bit 1   4: in bit 0
//	rank 0  →2,3 ←0,1+  (of rank 1)    →1 ←0+!         →0 ←1         →0,1 ←2,3
//	rank 1  →0,1 ←2,3+                 →3 ←2+!         →2 ←3         →2,3 ←0,1
//	rank 2  →2,3 ←0,1+                 →0 ←1+!         →1 ←0         →0,1 ←2,3
//	rank 3  →0,1 ←2,3+                 →2 ←3+!         →3 ←2         →2,3 ←0,1
//
// Invariants beside those of package plan:
//
//  1. Rounds are matched: the i-th piece that a rank sends in a round is the i-th piece that its peer receives in that
//     round. Both ends cut pieces by the same rule, from the shape alone.
//  2. Spans of no elements are never sent, except by the barrier.
//  3. A buffer is read before the buffer that may alias it (In and Out, in place) is written.
//  4. Planners cut elementwise collectives into one part for each lane. Collectives in parts run on one lane, because
//     what a rank forwards there is put together from the parts of many ranks.
package tree
