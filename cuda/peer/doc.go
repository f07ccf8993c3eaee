// Package peer is the native GPU backend: collectives among GPUs of one host that reach each other's memory. A program
// imports it for its effect; groups then use it for tensors on CUDA devices.
//
// Every rank has one symmetric heap on its device, laid out alike on all ranks and mapped into every peer: by address within a
// process, by an IPC handle between processes. Small collectives are one kernel that stores LL packets into the peers' symmetric heaps,
// those of some 100 KiB may go by LL128, larger ones are one kernel that hands lines on from rank to rank or pushes tiles, the
// largest are rings of copy engines, enqueued whole, with a kernel that goes behind them or one that folds for each slice.
// Messages go through eager buffers, those of a block by one kernel; long ones are handed over as lines. A tensor is mapped into
// the peers only if the program asks for it (Register); then results go straight to where they belong, where that is faster.
//
// Where some GPUs of a group cannot reach each other, its ranks are on several hosts, or they are more than eight, the ranks
// find out together when they open, say so once, and stage everything through pinned host memory and the transport that
// links them on the CPU. Calls look the same, but a graph cannot capture them, for the CPU takes part.
//
// How a call runs (numbers are those of the comments in the code):
//
//	(1) The caller's stream comes from the context (OnStream); without one it is the legacy default stream.
//	(2) A blocking call enqueues on the caller's stream and returns. An asynchronous one enqueues on the group's stream,
//	    which first waits for the caller's; Wait makes the caller's stream wait for its end.
//	(3) The memory of the symmetric heap belongs to one operation after the other. When the stream changes between two operations
//	    the later one waits for the earlier one by an event; on one stream nothing is needed.
//	(4) No number of an operation is part of a launch or a stream write: counters lie in device memory, ring flags are
//	    reset by whoever waited. So a captured graph may be replayed any number of times, on all ranks alike.
//	    A message's first slot says what it is, and a receive waits for nothing else.
//	(5) Operations in flight are bounded by marks: events that the host waits for when too many are open.
//
// Invariants:
//
//  1. The code of all kernels that an operation launches is on the device of every rank before any rank launches it. Code
//     of a type and kind is loaded at its first use, between two barriers.
//  2. Every write into a rank's symmetric heap is awaited by an operation of that rank, so an idle rank's symmetric heap is its own.
//  3. A kernel's waiting ends when the group fails: the abort flag in host memory is set. Streams that wait for flags are
//     released by setting the flags.
//  4. The streams of OnStream live until the group is closed, or until an operation has run on another stream.
//  5. Ranks run an operation with the same algorithm, grid and tile, which follow from what all ranks know: for registered tensors
//     from where each rank's lie, too, which the contract of Registration makes equal, and of those that a graph captures
//     from that: all ranks capture an operation, or none.
//  6. A peer's registered tensor is written only in an operation that the peer has entered, and where the peer's input lay
//     only after that was read.
//  7. Of an operation that is staged the host calls no driver after Run has returned: it looks at words of host memory.
//
// The package never reads the environment and never changes a tensor other than the output; a peer changes those of registered memory.
package peer
