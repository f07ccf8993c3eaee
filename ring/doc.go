// Package ring plans collectives whose ranks form a ring (all_reduce, reduce_scatter, all_gather), a chain (broadcast,
// reduce) or a rotation (all_to_all). They move the least bytes that a rank can move, at once in both directions of
// its links, and take a number of steps that grows with the size of the group: they are for large tensors.
//
// In the comments n is the size of the group, B the bytes of a rank's tensor (Count elements) or of all parts, c the
// bytes of a chunk, and ⌈x⌉ is x rounded up. Steps and bytes are those of the rank that has most of them.
//
// Invariants:
//
//  1. Every tensor is cut first by lane, then into blocks, then into pieces, each cut as even as it can be. All ranks
//     cut alike; no piece is longer than a chunk.
//  2. A piece without elements is not moved: both ends leave it out, for both know that it has none.
//  3. Piece i goes round the ring in the same order of ranks on all lanes; the sum of it begins at rank i+1 and ends at
//     rank i: x(i) + (x(i-1) + (… + (x(i+2) + x(i+1)))), ranks modulo n, each rank's own input on the left.
//  4. Plans are right with In and Out in the same memory too, where a collective has such a form (plan.CheckInPlace).
//
// All lanes go round in the same direction. Nothing here waits or allocates buffers.
package ring
