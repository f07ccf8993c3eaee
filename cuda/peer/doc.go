// Package peer is the native GPU backend: collectives among GPUs of one host that reach each other's memory. A program
// imports it for its effect; groups then use it for tensors on CUDA devices.
//
// Every rank has one symmetric heap on its device, laid out alike on all ranks and mapped into every peer (package
// internal/symheap). Small collectives are one kernel that stores into the peers' heaps: by LL, above some 100 KiB by LL128.
// Larger ones are one kernel, too, which hands sentinel memory on from rank to rank or pushes tiles. The largest are rings of
// copy engines, enqueued whole, with one kernel that goes behind them or one for each slice. Messages go through eager
// buffers, and long ones by rendezvous. A tensor is mapped into the peers only if the program asks for it (Register). Then
// results go straight to their places, where that is faster.
//
// Sometimes GPUs of a group cannot reach each other, its ranks are on several hosts, or they are more than eight. The ranks
// find that out together when they open. Then package cuda/internal/apart carries the operations: by NCCL where all ranks have
// it, else through host memory.
//
// # The code
//
// An algorithm is one value in one file: ll.go, lltwoshot.go, ll128.go, ll128twoshot.go, sentinel.go, tiles.go, rotation.go,
// chain.go, direct.go, fused.go, copyring.go, copydirect.go. It says which collectives it serves, what it needs of the group,
// which operations it fits and how it launches them. The file tuning.go has the rules by which algorithms are chosen, and the
// fallbacks of an algorithm that does not fit. Choosing (choose.go), explaining (explain.go) and launching read nothing else.
//
// # One AllReduce, from the call to the launch
//
//  1. The backend's Run, which is Order.Run of package streamorder, enters a thread of the device and takes the lock. The
//     stream then waits for the operation before, and for the caller's stream if the operation is asynchronous.
//  2. backend.Check refuses tensors that the device cannot reach (package devmem).
//  3. backend.Enqueue makes the call the operation at hand, and launcher.allReduce computes its size and shape.
//  4. launcher.choose finds the first rule that covers the operation, and the algorithm that fits it.
//  5. The algorithm's launch function, such as allReduceLL, gets its kernel (launcher.fold), loaded at first use on all ranks
//     together, and fills in the kernel's arguments.
//  6. code.launch launches the kernel, small grids as a graph of their own where that is faster.
//  7. Order.Throttle bounds the commands in flight. An asynchronous operation gets a Pending, which asks an event.
//
// # How a call runs
//
//   - The caller's stream comes from the context (OnStream); without one it is the legacy default stream.
//   - A blocking call enqueues on the caller's stream and returns. An asynchronous one enqueues on the group's stream, which
//     first waits for the caller's. Wait makes the caller's stream wait for the operation's end.
//   - The heap belongs to one operation after the other. When the stream changes between two operations, the later one waits
//     for the earlier one by an event; on one stream nothing is needed.
//   - No number of an operation is part of a launch or a stream write. Counters lie in device memory, and the rank that has
//     waited for a flag of a ring resets it. So a captured graph may be replayed any number of times, on all ranks alike. The group
//     does not see its launches, and the program orders them among other operations. A message's first slot says what it is, and
//     a receive waits for nothing else.
//
// # Invariants
//
//  1. The code of all kernels that an operation launches is on the device of every rank before any rank launches it. Code
//     of a type and kind is loaded at its first use, between two barriers.
//  2. Every write into a rank's heap is awaited by an operation of that rank, so an idle rank's heap is its own.
//  3. A kernel's waiting ends when the group fails: the abort flag in host memory is set. Streams that wait for flags are
//     released by setting the flags.
//  4. The streams of OnStream live until the group is closed, or until an operation has run on another stream.
//  5. Ranks run an operation with the same algorithm, grid and tile, which follow from facts that all ranks know. For
//     registered tensors these include where each rank's tensor lies, which the contract of Registration makes equal. They
//     include whether a graph captures the operation: all ranks capture it, or none.
//  6. A peer's registered tensor is written only in an operation that the peer has entered. Where the peer's input lay, it is
//     written only after the input was read.
//
// The package never reads the environment and never changes a tensor except the output. Of registered memory peers change the
// outputs, too.
package peer
