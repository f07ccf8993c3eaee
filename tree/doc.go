// Package tree plans the collectives whose number of rounds grows with the logarithm of the size, and the flat ones for
// the smallest messages, where one round is all there is. It computes plans and nothing else: no planner waits, reads a
// clock or keeps anything between calls.
//
// In the costs below n is the size, S the bytes of the whole tensor (for collectives in parts: of all parts together),
// C the bytes of one chunk, T = ceil(S/C) the number of chunks, and lg x is ceil(log2 x). A round is one step of a rank
// and the matching steps of its peers; with L lanes S is what one lane carries.
//
//	binomial          broadcast, reduce, gather, scatter
//	double_tree       all_reduce, broadcast, reduce: for large tensors on many ranks
//	halving_doubling  all_reduce
//	circulant         all_reduce: fewer bytes where the size is no power of two
//	halving           reduce_scatter
//	doubling          all_gather
//	dissemination     barrier
//	direct            all but barrier and all_to_all: each message goes straight to where it is needed
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
