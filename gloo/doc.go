// Package gloo plans collectives as Gloo carries them out, message for message. So a rank can take part in a job whose other ranks
// are of PyTorch's ProcessGroupGloo. Every send or receive of a plan is one message, whole; a lane is a slot.
//
// In the costs n is the size, r the rank, S the bytes of the whole tensor, and e those of an element. ⌈x⌉ is x rounded up, and lg x
// is ⌈log2 x⌉. A segment is the part of a tensor that one message of a ring carries: at most 1 MiB, and at least 2n of them.
//
// A ring passes segments to rank r-1. In its first phase each rank adds its own input to the sum that arrives; after it chunk r is
// complete at rank r. In its second phase the chunks go round once more:
//
//	         rank 0    rank 1    rank 2
//	phase 1  →1 ←2+    →2 ←0+    →0 ←1+     chunk sent, chunk received and added
//	         →2 ←0+!   →0 ←1+!   →1 ←2+!    ! completes it
//	phase 2  →0 ←1     →1 ←2     →2 ←0
//	         →1 ←2     →2 ←0     →0 ←1
//
// Invariants:
//
//  1. A segment without elements is not sent in a ring. Everywhere else an empty message is sent.
//  2. The sum of chunk c begins at rank c-1 and ends at rank c, ranks modulo n. Each rank's own input is on the left:
//     x(c) + (x(c+1) + (… + (x(c-2) + x(c-1)))).
//  3. Plans are right with In and Out in the same memory, too (plan.CheckInPlace).
//
// Nothing here waits. The schedules are those of Gloo from 2022 to 2026. Source: its files allreduce.cc, reduce.cc, allgather.cc,
// allgatherv.cc, broadcast.cc, barrier.cc, gather.cc, scatter.cc and alltoallv.cc.
package gloo
