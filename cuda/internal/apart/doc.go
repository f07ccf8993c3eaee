// Package apart is the backend for GPUs of one group that cannot reach each other's memory. NCCL carries the collectives where every
// rank has it and it takes all ranks. Else everything is staged through host memory (package staged). Package peer opens it in place
// of its own backend, on all ranks alike, and rank 0 says so once.
//
// Beside NCCL, messages are staged. A send of NCCL holds up its rank until the receiver comes, so ranks that send in a circle would
// wait for each other. The reductions that NCCL lacks, such as bitwise ones, are staged, too.
//
// Invariants:
//
//  1. All ranks send a collective the same way. The way follows from its reduction and element type, and from NCCL's version, which
//     is the same on all ranks.
//  2. When the way changes between two collectives, the caller's stream waits for the asynchronous collectives before.
//  3. Messages all go one way, so that a send in a block can meet a receive alone.
package apart
