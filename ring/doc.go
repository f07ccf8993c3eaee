// Package ring plans collectives whose ranks form a ring (all_reduce, reduce_scatter, all_gather), a chain (broadcast,
// reduce) or a rotation (all_to_all). They are for large tensors. They move the least bytes that a rank can move, at once
// in both directions of its links. In return, their steps grow with the size of the group.
//
// In the costs n is the size. S is the bytes of the whole tensor, or for collectives in parts the bytes of all parts.
// C is the bytes of one chunk, and T = ⌈S/C⌉ the number of chunks. ⌈x⌉ is x rounded up, and lg x is ⌈log2 x⌉. A round is
// one step of a rank and the matching steps of its peers. Costs are those of the rank that has most of them. With several
// lanes each carries its share of S, and the formulas hold for each lane.
//
// All_reduce for n = 4, with pieces 0 to 3 of one block. In each step a rank sends one piece to the next rank and takes one
// from the previous rank. It adds its own input (+), finishes the sum (!), or keeps the piece as it is:
//
//	        reduce-scatter                     all-gather
//	rank 0  →3 ←2+    →2 ←1+    →1 ←0+!      →0 ←3    →3 ←2    →2 ←1
//	rank 1  →0 ←3+    →3 ←2+    →2 ←1+!      →1 ←0    →0 ←3    →3 ←2
//	rank 2  →1 ←0+    →0 ←3+    →3 ←2+!      →2 ←1    →1 ←0    →0 ←3
//	rank 3  →2 ←1+    →1 ←0+    →0 ←3+!      →3 ←2    →2 ←1    →1 ←0
//
// Follow piece 3: rank 0 sends its input, ranks 1 and 2 add theirs, rank 3 finishes the sum. Then ranks 0, 1 and 2 get it.
//
// Invariants:
//
//  1. Every tensor is cut first by lane, then into blocks, then into pieces, each cut as even as it can be. All ranks
//     cut alike; no piece is longer than a chunk.
//  2. A piece without elements is not moved: both ends leave it out, for both know that it has none.
//  3. Piece i goes round the ring in the same order of ranks on all lanes. Its sum begins at rank i+1 and ends at rank i,
//     each rank's own input on the left, ranks modulo n: x(i) + (x(i-1) + (… + (x(i+2) + x(i+1)))).
//  4. Plans are right with In and Out in the same memory too, where a collective has such a form (plan.CheckInPlace).
//
// All lanes go round in the same direction. Nothing here waits or allocates buffers.
package ring
